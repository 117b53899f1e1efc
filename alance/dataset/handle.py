"""What leads to the versions of a dataset, by number, tag, branch or time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime

from alance.dataset.places import Places
from alance.dataset.refs import read_tag
from alance.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    InvalidInputError,
    VersionNotFoundError,
    check_count,
)
from alance.io.client import StoreClient
from alance.io.uri import StorageOptions, parse_uri
from alance.session import Session
from alance.table.external import ExternalManifestStore
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.refs import MAIN, Reference, branch_root, check_branch_name, main_root
from alance.table.travel import read_manifest_at
from alance.table.versions import read_manifest

__all__ = ["Handle"]


@dataclass(frozen=True, slots=True)
class Handle:
    """What leads to a dataset: enough to open it again elsewhere.

    Parameters
    ----------
    uri
        Of the dataset, or of the branch.
    storage_options, session
        As they were given.
    places
        Where files lie; base paths are those of the version that it was opened `at`.
    branch
        None on the main line, and as long as it is not known.
    is_known
        Whether a version was opened, which says what line it is on.
    """

    uri: str
    storage_options: StorageOptions
    session: Session
    places: Places
    branch: str | None = None
    is_known: bool = False

    @classmethod
    def of(
        cls,
        uri: str | os.PathLike[str],
        storage_options: StorageOptions,
        session: Session,
        manifest_store: ExternalManifestStore | None = None,
    ) -> Handle:
        """Resolve a URI; sends nothing."""
        client, root = session.clients.open(uri, storage_options)
        handler = session.handlers.of(parse_uri(uri, storage_options)[0], manifest_store)
        places = Places(session, client, root, handler, {}, storage_options)
        return cls(os.fspath(uri), storage_options, session, places)

    @property
    def main(self) -> TableLocation:
        """The main line, which keeps the tags and branches of all lines."""
        return replace(self.places.table, root=main_root(self.places.root, self.branch))

    async def read(self, version: int | None) -> Manifest:
        """Read the manifest of a version of this line by its number, None for the newest.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is none.
        InvalidInputError
            No version number.
        """
        if version is not None:
            check_count("version", version, least=1)
        return await read_manifest(self.places.table, version)

    async def find(self, reference: Reference | None) -> tuple[Handle, Manifest]:
        """Read the manifest that a reference leads to, None for the newest; and lead to it.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is no such dataset; no such version, tag or branch.
        InvalidInputError
            A reference that makes no sense.

        Notes
        -----
        Requests: one for a number, two rounds for a tag or the newest version; a tag or a
        branch named beside the URI of a branch takes two more. For a time see `read_manifest_at`.
        """
        if isinstance(reference, datetime):
            manifest = await read_manifest_at(self.places.table, reference)
        elif isinstance(reference, str):
            leading = await self._known()
            tag = await read_tag(leading.main, reference)
            return await leading._find_on_branch(tag.branch, tag.version)
        elif isinstance(reference, tuple):
            branch, version = _line_and_version(reference)
            return await (await self._known())._find_on_branch(branch, version)
        else:
            manifest = await self.read(reference)
        return self.at(manifest), manifest

    async def _known(self) -> Handle:
        """Lead there, knowing the line: reads a version where the URI may be that of a branch."""
        if self.is_known or "tree" not in self.places.root.split("/"):
            return self
        return self.at(await self.read(None))

    async def _find_on_branch(
        self, branch: str | None, version: int | None
    ) -> tuple[Handle, Manifest]:
        there = self.on(branch)
        try:
            manifest = await there.read(version)
        except DatasetNotFoundError as exc:
            if branch is None:
                raise
            raise VersionNotFoundError(
                f"{self.main.url} has no branch {branch!r}",
                uri=self.uri,
                version=f"{branch}:{version}",
            ) from exc
        return there.at(manifest), manifest

    def on(self, branch: str | None) -> Handle:
        """Lead to another line of the same dataset, None for the main one; sends nothing."""
        if branch == self.branch:
            return self
        root = branch_root(self.main.root, branch)
        own = self.places
        places = Places(own.session, own.client, root, own.handler, {}, own.options)
        uri = _with_branch(_without_branch(self.uri, self.branch, self.main.url), branch)
        return Handle(uri, self.storage_options, self.session, places, branch, is_known=True)

    def at(self, manifest: Manifest) -> Handle:
        """Lead to the files of a version as well.

        Raises
        ------
        CorruptFileError
            A base path is no address.
        """
        bases = {
            base.id: (*self._open_base(base.path), base.is_dataset_root)
            for base in manifest.base_paths
        }
        places = replace(self.places, bases=bases)
        return replace(self, places=places, branch=manifest.branch, is_known=True)

    def _open_base(self, path: str) -> tuple[StoreClient, str]:
        """Client and path of a base path."""
        try:
            if "://" not in path and not os.path.isabs(path):
                raise InvalidInputError("it is relative")
            return self.session.clients.open(path, self.storage_options)
        except InvalidInputError as exc:
            raise CorruptFileError(
                f"{self.uri}: base path {path[:200]!r} of its manifest leads nowhere: {exc}"
            ) from exc


def _line_and_version(reference: tuple[object, ...]) -> tuple[str | None, int | None]:
    """Branch and version number of a reference to a branch."""
    if len(reference) != 2:
        raise InvalidInputError(
            f"{reference!r} is no version: a tuple is a branch and a version number, either of "
            "which may be None"
        )
    branch, version = reference
    if version is not None:
        check_count("version", version, least=1)
        assert isinstance(version, int)
    if branch is None or branch == MAIN:
        return None, version
    return check_branch_name(branch), version


def _with_branch(uri: str, branch: str | None) -> str:
    """URI of a branch, given that of the main line."""
    if branch is None:
        return uri
    path, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    return f"{path.rstrip('/')}/tree/{branch}{mark}{query}"


def _without_branch(uri: str, branch: str | None, otherwise: str) -> str:
    """URI of the main line, given that of a branch."""
    if branch is None:
        return uri
    path, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    main = path.rstrip("/").removesuffix(f"/tree/{branch}")
    return otherwise if main == path.rstrip("/") else f"{main}{mark}{query}"
