"""Versions by conditional puts: the store itself lets only one writer create a manifest."""

from __future__ import annotations

from collections.abc import Sequence

from alance.errors import ObjectNotFoundError
from alance.io.store import ObjectStore
from alance.table.listing import list_newest, list_stored
from alance.table.location import StoredVersion
from alance.table.manifest import Naming
from alance.table.naming import manifest_path
from alance.table.objects import MANIFEST_BYTES_MAX, read_object

__all__ = ["ConditionalPut"]


class ConditionalPut:
    """A `CommitHandler` for stores that refuse to create an object twice.

    S3, Google Cloud Storage, Azure, memory, and local files, which are created exclusively.
    """

    async def ready(self, store: ObjectStore, root: str) -> None:
        """Nothing to find out: these stores are known to be safe."""

    async def put(
        self, store: ObjectStore, root: str, version: int, naming: Naming, data: Sequence[bytes]
    ) -> None:
        """Make a version exist: one request."""
        await store.put_if_absent(manifest_path(root, version, naming), data)

    async def read(
        self, store: ObjectStore, root: str, version: int, naming: Naming
    ) -> memoryview | None:
        """Bytes of a manifest under its one possible name: one request, two above 64 KiB."""
        path = manifest_path(root, version, naming)
        try:
            return await read_object(store, path, bytes_max=MANIFEST_BYTES_MAX)
        except ObjectNotFoundError:
            return None

    async def newest(self, store: ObjectStore, root: str) -> StoredVersion | None:
        """Find the newest version by one listing."""
        return await list_newest(store, root)

    async def renamed(self, store: ObjectStore, root: str, stored: StoredVersion) -> None:
        """Nothing to take note of: names are looked up in the store."""

    async def versions(self, store: ObjectStore, root: str) -> Sequence[StoredVersion]:
        """All versions by one full listing."""
        return await list_stored(store, root)

    async def forget(self, store: ObjectStore, root: str) -> None:
        """Nothing to take note of: a table is gone with its manifests."""
