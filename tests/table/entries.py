"""A store that ignores conditions, and the external manifest store that makes up for it."""

from __future__ import annotations

import anyio.lowlevel

from alance.errors import AlreadyExistsError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.external import ExternalHandler, ManifestEntry


class EntriesInMemory:
    """Entries in a dictionary; every call passes the hook of the object store, if one is given."""

    def __init__(self, store: SimulatedStore | None = None) -> None:
        self.entries: dict[tuple[str, int], ManifestEntry] = {}
        self.calls: list[str] = []
        self._store = store

    async def get(self, dataset: str, version: int) -> ManifestEntry | None:
        request = await self._begin("entry_get", dataset)
        found = self.entries.get((dataset, version))
        await self._end(request)
        return found

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        request = await self._begin("entry_get_latest", dataset)
        versions = [version for name, version in self.entries if name == dataset]
        found = self.entries[dataset, max(versions)] if versions else None
        await self._end(request)
        return found

    async def put_if_absent(self, dataset: str, entry: ManifestEntry) -> None:
        request = await self._begin("entry_put_if_absent", dataset)
        if (dataset, entry.version) in self.entries:
            raise AlreadyExistsError(f"version {entry.version} of {dataset} exists")
        self.entries[dataset, entry.version] = entry
        await self._end(request)

    async def put(self, dataset: str, entry: ManifestEntry) -> None:
        request = await self._begin("entry_put", dataset)
        if (dataset, entry.version) in self.entries:
            self.entries[dataset, entry.version] = entry
        await self._end(request)

    async def delete(self, dataset: str) -> None:
        request = await self._begin("entry_delete", dataset)
        for key in [key for key in self.entries if key[0] == dataset]:
            del self.entries[key]
        await self._end(request)

    async def _begin(self, kind: str, dataset: str) -> Request:
        self.calls.append(kind)
        request = Request(len(self.calls), kind, f"{dataset}/_versions")
        await anyio.lowlevel.checkpoint()
        if self._store is not None and self._store.hook is not None:
            await self._store.hook(request, Moment.BEFORE)
        return request

    async def _end(self, request: Request) -> None:
        await anyio.lowlevel.checkpoint()
        if self._store is not None and self._store.hook is not None:
            await self._store.hook(request, Moment.AFTER)


class StoreWithEntries(SimulatedStore):
    """An unsafe object store, with entries beside it that share its hook."""

    def __init__(self, *, lists_in_order: bool = True) -> None:
        super().__init__(honours_condition=False, lists_in_order=lists_in_order)
        self.entries = EntriesInMemory(self)
        self.handler = ExternalHandler(self.entries)
