"""Versions through a store beside the object store: for stores without conditional puts."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from alance._aio import run_all
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CorruptFileError,
    ObjectNotFoundError,
    StoreError,
)
from alance.io.store import ObjectStore
from alance.table.listing import list_newest, list_stored
from alance.table.location import StoredVersion
from alance.table.manifest import Naming
from alance.table.naming import (
    manifest_path,
    parse_manifest_name,
    parse_staged_name,
    versions_prefix,
)
from alance.table.objects import MANIFEST_BYTES_MAX, discard, read_object

__all__ = ["ExternalHandler", "ExternalManifestStore", "ManifestEntry"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """What an external manifest store keeps of a version.

    Parameters
    ----------
    version
        From 1.
    path
        Key of the manifest in the object store: its final one, or a staged one that is to be copied
        there.
    num_bytes
        Size of the manifest; None where it is not known.
    """

    version: int
    path: str
    num_bytes: int | None = None


@runtime_checkable
class ExternalManifestStore(Protocol):
    """Says which versions of datasets exist, where the object store cannot.

    All who write to a dataset must use the same one; whoever only reads may do without. Implement
    it over anything that creates a record atomically and answers with what was written last.

    `dataset` is the whole place of a dataset, such as ``s3://bucket/flights.lance``. Methods raise
    `AlreadyExistsError` where they say so; anything else that is no `AlanceError` reaches the user
    as a `StoreError`.
    """

    async def get(self, dataset: str, version: int) -> ManifestEntry | None:
        """Entry of a version; None when there is none."""
        ...

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        """Entry of the highest version; None when the dataset is not known here."""
        ...

    async def put_if_absent(self, dataset: str, entry: ManifestEntry) -> None:
        """Add an entry unless its version has one, atomically.

        Raises
        ------
        AlreadyExistsError
            It has one. After a retry inside the store it may be this very one.
        """
        ...

    async def put(self, dataset: str, entry: ManifestEntry) -> None:
        """Replace the entry of a version; nothing happens when there is none."""
        ...

    async def delete(self, dataset: str) -> None:
        """Forget all entries of a dataset, which is gone."""
        ...


class ExternalHandler:
    """A `CommitHandler` that lets an external manifest store decide.

    A manifest is put under a staged name, its entry is added, which is the commit; then the
    manifest is copied to its final name, the entry follows it, and the staged object goes. Whoever
    meets a version that was left half way finishes it first (the format's section on external
    manifest stores).

    Parameters
    ----------
    entries
        The store, which must outlive this.
    """

    def __init__(self, entries: ExternalManifestStore) -> None:
        self._entries = entries

    @property
    def entries(self) -> ExternalManifestStore:
        """The store."""
        return self._entries

    async def ready(self, store: ObjectStore, root: str) -> None:
        """Nothing to find out: the condition is the external store's."""

    async def put(
        self, store: ObjectStore, root: str, version: int, naming: Naming, data: Sequence[bytes]
    ) -> None:
        """Make a version exist.

        Once its entry is added it does, whatever becomes of the steps after that.

        Notes
        -----
        Requests to the object store: a put; after the entry is added a copy, a head and a delete,
        one after the other.
        """
        final = manifest_path(root, version, naming)
        staged = f"{final}-{uuid.uuid4()}"
        try:
            # Were the version before this one left half way, listings would have a gap from now on.
            await run_all([
                partial(store.put, staged, data),
                partial(self._finish_version, store, root, version - 1),
            ])
        except BaseException:
            await discard(store, [staged])  # no entry can name it
            raise
        entry = ManifestEntry(version, staged, sum(map(len, data)))
        try:
            await _asked(self._entries.put_if_absent(_dataset(store, root), entry))
        except AlreadyExistsError:
            # A retry inside the external store may have met its own entry.
            found = await _asked(self._entries.get(_dataset(store, root), version))
            if found is None or found.path != staged:
                await discard(store, [staged])
                raise
        with suppress(AlanceError):  # readers finish it
            await self._finish(store, root, entry, final)

    async def read(
        self, store: ObjectStore, root: str, version: int, naming: Naming
    ) -> memoryview | None:
        """Bytes of a manifest, once it has its final name.

        A version that only the object store knows is made known to the external one.

        Notes
        -----
        Requests to the object store: one, two above 64 KiB; those that finish the version first.
        """
        entry = await _asked(self._entries.get(_dataset(store, root), version))
        path = manifest_path(root, version, naming)
        if entry is not None:
            if _naming(root, entry) is not naming:
                return None  # it goes by its other name
            await self._settled(store, root, entry)
        try:
            data = await read_object(store, path, bytes_max=MANIFEST_BYTES_MAX)
        except ObjectNotFoundError:
            return None  # cleaned up, where there is an entry
        if entry is None:
            await self._register(store, root, ManifestEntry(version, path, data.nbytes))
        return data

    async def newest(self, store: ObjectStore, root: str) -> StoredVersion | None:
        """Find the newest version in the external store, or by listing when it knows none."""
        entry = await _asked(self._entries.get_latest(_dataset(store, root)))
        if entry is not None:
            entry = await self._settled(store, root, entry)
            size = entry.num_bytes
            num_bytes = await _size(store, entry.path) if size is None else size
            return StoredVersion(entry.version, _naming(root, entry), entry.path, num_bytes)
        found = await list_newest(store, root)
        if found is not None:
            entry = ManifestEntry(found.version, found.path, found.num_bytes)
            await self._register(store, root, entry)
        return found

    async def renamed(self, store: ObjectStore, root: str, stored: StoredVersion) -> None:
        """Let the entry of a version follow its manifest."""
        entry = ManifestEntry(stored.version, stored.path, stored.num_bytes)
        await _asked(self._entries.put(_dataset(store, root), entry))

    async def versions(self, store: ObjectStore, root: str) -> Sequence[StoredVersion]:
        """All versions by one full listing, once the newest has its final name."""
        newest = await self.newest(store, root)
        if newest is None:
            return ()
        older = [one for one in await list_stored(store, root) if one.version < newest.version]
        return (*older, newest)

    async def forget(self, store: ObjectStore, root: str) -> None:
        """Drop the entries of a table."""
        await _asked(self._entries.delete(_dataset(store, root)))

    async def _settled(self, store: ObjectStore, root: str, entry: ManifestEntry) -> ManifestEntry:
        """Entry of a final name, after the steps that its writer left undone."""
        final = manifest_path(root, entry.version, _naming(root, entry))
        return entry if entry.path == final else await self._finish(store, root, entry, final)

    async def _finish(
        self, store: ObjectStore, root: str, entry: ManifestEntry, final: str
    ) -> ManifestEntry:
        """Copy a staged manifest to its final name, tell the external store, remove the staged one.

        Every step may be done again, and by several at once.
        """
        with suppress(ObjectNotFoundError):  # somebody else has finished it
            await store.copy(entry.path, final)
        done = ManifestEntry(entry.version, final, await _size(store, final))
        await _asked(self._entries.put(_dataset(store, root), done))
        await discard(store, [entry.path])
        return done

    async def _finish_version(self, store: ObjectStore, root: str, version: int) -> None:
        """Finish a version if its writer did not; only a courtesy here."""
        with suppress(AlanceError):
            entry = await _asked(self._entries.get(_dataset(store, root), version))
            if entry is not None:
                await self._settled(store, root, entry)

    async def _register(self, store: ObjectStore, root: str, entry: ManifestEntry) -> None:
        """Tell the external store of a version that it does not know; only a courtesy."""
        with suppress(AlanceError):
            await _asked(self._entries.put_if_absent(_dataset(store, root), entry))


def _dataset(store: ObjectStore, root: str) -> str:
    return f"{store.url}/{root}"


def _naming(root: str, entry: ManifestEntry) -> Naming:
    """Naming scheme of an entry's manifest, final or staged; entries are not trusted."""
    prefix = f"{versions_prefix(root)}/"
    name = entry.path.removeprefix(prefix)
    named = parse_manifest_name(name) or parse_staged_name(name)
    if not entry.path.startswith(prefix) or named is None or named.version != entry.version:
        raise CorruptFileError(
            f"the external manifest store says that version {entry.version} of {root} is at "
            f"{entry.path[:300]!r}, which is no name of that version",
            path=entry.path,
        )
    return named.naming


async def _size(store: ObjectStore, path: str) -> int:
    """Size of a manifest that the external store vouches for."""
    try:
        return (await store.head(path)).num_bytes
    except ObjectNotFoundError as exc:
        raise CorruptFileError(
            f"the external manifest store says that {store.url}/{path} exists, but it is gone; if "
            "the dataset was removed, delete its entries too",
            path=path,
        ) from exc


async def _asked(work: Awaitable[T]) -> T:
    """Answer of the external store; its foreign exceptions become ours."""
    try:
        return await work
    except AlanceError:
        raise
    except Exception as exc:
        raise StoreError(
            f"the external manifest store failed: {type(exc).__name__}: {exc}"
        ) from exc
