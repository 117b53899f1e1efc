"""Where the files of a dataset lie."""

from __future__ import annotations

from dataclasses import dataclass

from alance.errors import CorruptFileError, InvalidInputError
from alance.file.reader import FileReader
from alance.io.client import StoreClient
from alance.io.store import ObjectStore
from alance.io.uri import StorageOptions, parse_uri
from alance.session import Session
from alance.table.location import CommitHandler, ManifestCache, TableLocation
from alance.table.manifest import DataFile, Fragment
from alance.table.naming import join

__all__ = ["Places"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a dataset's files lie: its own root and its base paths, each with a client."""

    session: Session
    client: StoreClient
    root: str
    handler: CommitHandler
    """Of the dataset's own versions."""
    bases: dict[int, tuple[StoreClient, str, bool]]
    """Base id -> client, path, whether it is a dataset root."""
    options: StorageOptions = None
    """Those that the dataset was opened with."""
    opened: FileReader | None = None
    """The one file there is, where it is read alone: such files may be replaced under their name,
    so that the session does not keep them."""

    @property
    def table(self) -> TableLocation:
        """Where the dataset's versions are."""
        manifests = ManifestCache(self.session.manifests, self.client.store)
        return TableLocation(self.client, self.root, self.handler, manifests)

    def on(self, session: Session) -> Places:
        """Return the same places, reached through another session."""
        bases = {
            number: (session.clients.wrap(client.store), path, is_root)
            for number, (client, path, is_root) in self.bases.items()
        }
        client = session.clients.wrap(self.client.store)
        return Places(session, client, self.root, self.handler, bases, self.options)

    def data_file(self, file: DataFile) -> tuple[StoreClient, str]:
        """Client and path of a data file."""
        if file.base_id is None:
            return self.client, join(self.root, "data", file.path)
        client, path, is_root = self._base(file.base_id)
        return client, join(path, "data", file.path) if is_root else join(path, file.path)

    def deletion_root(self, fragment: Fragment) -> tuple[StoreClient, str]:
        """Client and dataset root of a fragment's deletion file."""
        assert fragment.deletion_file is not None
        if fragment.deletion_file.base_id is None:
            return self.client, self.root
        client, path, is_root = self._base(fragment.deletion_file.base_id)
        if not is_root:
            raise CorruptFileError(
                f"the deletion file of fragment {fragment.id} lies below base path "
                f"{fragment.deletion_file.base_id}, which is no dataset and has none"
            )
        return client, path

    def external(self, base_id: int, uri: str) -> tuple[StoreClient, str]:
        """Client and path of a blob outside of the dataset's files.

        See `alance.file.external.LocateBlob`.
        """
        if base_id:
            client, path, _ = self._base(base_id)
            if not set(uri.split("/")).isdisjoint({"", ".", ".."}):
                raise CorruptFileError(
                    f"a blob lies at {uri[:200]!r}, which is no path below base path {base_id}"
                )
            return client, join(path, uri)
        try:
            if "://" not in uri:
                raise InvalidInputError("it is no absolute URI")
            if not parse_uri(uri)[1]:
                raise InvalidInputError("it names no object")
        except InvalidInputError as exc:
            raise CorruptFileError(f"the URI {uri[:200]!r} of a blob leads nowhere: {exc}") from exc
        return self.session.clients.open(uri, self.options)

    @property
    def dataset_bases(self) -> dict[int, tuple[ObjectStore, str]]:
        """Base paths that are datasets, which deletion files may lie in."""
        return {
            number: (client, path)
            for number, (client, path, is_root) in self.bases.items()
            if is_root
        }

    def _base(self, base_id: int) -> tuple[StoreClient, str, bool]:
        found = self.bases.get(base_id)
        if found is None:
            raise CorruptFileError(f"a file lies below base path {base_id}, which is not recorded")
        return found
