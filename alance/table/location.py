"""Where a table is, and who decides which of its versions exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from alance.file.cache import CacheKind
from alance.io.store import ObjectStore
from alance.table.manifest import Manifest, Naming

__all__ = ["CachedManifest", "CommitHandler", "ManifestCache", "StoredVersion", "TableLocation"]

PARSED_GROWTH = 10
"""Size of a parsed manifest, as a multiple of its stored one."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A manifest of which name and size are known.

    Parameters
    ----------
    version, naming
        What its name says.
    path
        Its key.
    num_bytes
        Size of the object.
    e_tag
        Of its bytes, where the store tells.
    """

    version: int
    naming: Naming
    path: str
    num_bytes: int
    e_tag: str | None = None


@dataclass(frozen=True, slots=True)
class CachedManifest:
    """A manifest as a session keeps it."""

    manifest: Manifest
    num_bytes: int
    """As it is stored."""

    @property
    def cached_bytes(self) -> int:
        """Bytes held, about."""
        return self.num_bytes * PARSED_GROWTH


@dataclass(frozen=True, slots=True)
class ManifestCache:
    """Manifests of one store that were read before.

    Names of manifests are used again when a dataset is removed and made anew, so it is by its ETag
    that one is known; where a store tells none, nothing is kept.
    """

    kept: CacheKind[CachedManifest]
    store: ObjectStore

    def get(self, stored: StoredVersion) -> Manifest | None:
        """Manifest of these bytes, if it was kept."""
        if stored.e_tag is None:
            return None
        found = self.kept.get(self._key(stored))
        return None if found is None else found.manifest

    def put(self, stored: StoredVersion, manifest: Manifest) -> None:
        """Keep a manifest."""
        if stored.e_tag is not None:
            self.kept.put(self._key(stored), CachedManifest(manifest, stored.num_bytes))

    def _key(self, stored: StoredVersion) -> tuple[object, ...]:
        return self.store, stored.path, stored.num_bytes, stored.e_tag


class CommitHandler(Protocol):
    """Makes versions, each at most once, and finds them.

    The store of a table may do that alone, by conditional puts, or need another one beside it. A
    handler keeps nothing of any one table, so that one serves all.
    """

    async def ready(self, store: ObjectStore, root: str) -> None:
        """Find out, once, whether versions can be made here; `put` comes after it.

        Worth starting while data is uploaded. Sends nothing where it is known.

        Raises
        ------
        StoreError
            They cannot, safely; says what can be done.
        """
        ...

    async def put(
        self, store: ObjectStore, root: str, version: int, naming: Naming, data: Sequence[bytes]
    ) -> None:
        """Make a version exist, with these bytes as its manifest.

        Raises
        ------
        AlreadyExistsError
            It exists. After a retry inside a store it may be this very one.
        StoreError
            Whether it exists now is not known: `read` tells.
        """
        ...

    async def read(
        self, store: ObjectStore, root: str, version: int, naming: Naming
    ) -> memoryview | None:
        """Bytes of the manifest of a version, of whatever size; None when there is no such version.

        Raises
        ------
        CorruptFileError
            The object is empty or impossibly large.
        """
        ...

    async def newest(self, store: ObjectStore, root: str) -> StoredVersion | None:
        """Find the newest version; None when there is no table.

        Raises
        ------
        CorruptFileError
            Manifests of both naming schemes lie there.
        """
        ...

    async def renamed(self, store: ObjectStore, root: str, stored: StoredVersion) -> None:
        """Take note that the manifest of a version is to be found under another name from now."""
        ...

    async def versions(self, store: ObjectStore, root: str) -> Sequence[StoredVersion]:
        """All versions, oldest first; errors as for `newest`."""
        ...

    async def forget(self, store: ObjectStore, root: str) -> None:
        """Take note that a table is no more; its files are removed by whoever says so."""
        ...


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where a table is.

    Parameters
    ----------
    store
        Its bucket, container or file system.
    root
        Its key prefix, without a slash at either end.
    handler
        Makes and finds its versions.
    manifests
        Where those that were read are kept; None keeps none.
    """

    store: ObjectStore
    root: str
    handler: CommitHandler
    manifests: ManifestCache | None = field(default=None, compare=False)

    @property
    def url(self) -> str:
        """For messages."""
        return f"{self.store.url}/{self.root}"
