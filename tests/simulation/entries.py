"""An external manifest store over the same bad line as everything else."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias

from alance.errors import AlreadyExistsError
from alance.table.external import ManifestEntry
from tests.simulation.network import Link

__all__ = ["Entries", "Records"]

Records: TypeAlias = MutableMapping[tuple[str, int], ManifestEntry]


class Entries:
    """One writer's way to the entries that all share."""

    def __init__(self, link: Link, records: Records) -> None:
        self._link = link
        self._records = records

    async def get(self, dataset: str, version: int) -> ManifestEntry | None:
        """Entry of a version."""
        return await self._link.call(lambda: self._records.get((dataset, version)), dataset)

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        """Entry of the highest version."""

        def find() -> ManifestEntry | None:
            versions = [version for known, version in self._records if known == dataset]
            return self._records[dataset, max(versions)] if versions else None

        return await self._link.call(find, dataset)

    async def put_if_absent(self, dataset: str, entry: ManifestEntry) -> None:
        """Add an entry unless its version has one."""

        def add() -> None:
            if (dataset, entry.version) in self._records:
                raise AlreadyExistsError(f"version {entry.version} has an entry")
            self._records[dataset, entry.version] = entry

        await self._link.call(add, dataset)

    async def put(self, dataset: str, entry: ManifestEntry) -> None:
        """Replace the entry of a version, if it has one."""

        def replace() -> None:
            if (dataset, entry.version) in self._records:
                self._records[dataset, entry.version] = entry

        await self._link.call(replace, dataset)

    async def delete(self, dataset: str) -> None:
        """Forget all entries of a dataset."""

        def forget() -> None:
            for key in [key for key in self._records if key[0] == dataset]:
                del self._records[key]

        await self._link.call(forget, dataset)
