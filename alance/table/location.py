"""Where a table is, and who decides which of its versions exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from alance.io.store import ObjectStore
from alance.table.manifest import Naming

__all__ = ["CommitHandler", "StoredVersion", "TableLocation"]


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
    """

    version: int
    naming: Naming
    path: str
    num_bytes: int


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
    """

    store: ObjectStore
    root: str
    handler: CommitHandler

    @property
    def url(self) -> str:
        """For messages."""
        return f"{self.store.url}/{self.root}"
