"""`ds.branches`: lines of versions beside the main one."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alance._aio import run_to_end
from alance.dataset.refs import list_branches, list_tags, manifest_size, read_branch
from alance.dataset.removal import remove_all
from alance.dataset.writing import check_texts
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    StoreError,
    VersionNotFoundError,
)
from alance.io.store import ObjectStore
from alance.receipts import one_call
from alance.table.cleanup import FOLDERS
from alance.table.naming import join
from alance.table.refs import Branch, branch_path, branch_root, build_branch, check_branch_name
from alance.table.versions import read_all

if TYPE_CHECKING:
    from alance.dataset.handle import Handle
    from alance.table.manifest import Manifest
    from alance.table.refs import Reference

__all__ = ["Branches"]

D = TypeVar("D")


class Branches(Generic[D]):
    """Lines of versions that begin with a version of another line of the same dataset.

    Made by `Dataset.branches`. A branch has folders of its own for what is written on it, and
    shares the files it began with. Open one with ``checkout(("name", None))``.
    """

    def __init__(self, handle: Handle, version: int, make: Callable[[Handle, Manifest], D]) -> None:
        self._handle = handle
        self._version = version
        self._make = make

    @one_call
    async def list(self) -> dict[str, dict[str, Any]]:
        """All branches by name, sorted, as dicts.

        Each has parent_branch (None for the main line), parent_version, branch_identifier,
        create_at (in seconds), manifest_size and metadata.

        Notes
        -----
        Requests: a listing, then one per branch.
        """
        found = await list_branches(self._handle.main)
        return {name: _describe(branch) for name, branch in found.items()}

    @one_call
    async def create(self, name: str, version: Reference | None = None) -> D:
        """Begin a branch with a version of this dataset.

        Parameters
        ----------
        name
            Letters, digits, '.', '-' and '_', in parts with '/' between them; not "main".
        version
            As for `Dataset.checkout`; None is the version of this dataset.

        Returns
        -------
        Dataset
            At the branch's first version, which has the number of the one it began with.

        Raises
        ------
        AlreadyExistsError
            There is a branch of this name.
        VersionNotFoundError
            There is no such version.
        InvalidInputError
            No name, or no version.

        Notes
        -----
        Requests: those of finding the version, then five in turn. The branch's file is put first,
        so that of several callers one makes the branch, and no cleanup takes away the version.
        """
        main = self._handle.main
        path = branch_path(main.root, check_branch_name(name))
        reference = self._version if version is None else version
        source, manifest = await self._handle.find(reference)
        branch = await self._describe_new(source, manifest)
        there = source.on(name)
        made = await run_to_end(self._begin(name, path, branch, source, manifest))
        return self._make(there.at(made), made)

    async def _begin(
        self, name: str, path: str, branch: Branch, source: Handle, manifest: Manifest
    ) -> Manifest:
        """Put the file of a branch and its first version; neither stays without the other."""
        main = self._handle.main
        try:
            await main.store.put_if_absent(path, build_branch(branch))
        except (AlreadyExistsError, StoreError) as exc:
            if not await self._is_ours(name, branch):
                if isinstance(exc, StoreError):
                    raise
                raise AlreadyExistsError(
                    f"{main.url} has a branch {name!r} already, or what a failed call has left of "
                    "one; branches.delete removes either",
                    path=path,
                ) from exc
        await self._handle.session.load("alance.dataset.clone")
        from alance.dataset.clone import clone

        table = source.on(name).places.table
        try:
            return await clone(source, manifest, table, branch=name)
        except CommitStateUnknownError:
            raise  # the branch may be there
        except AlanceError as exc:
            with suppress(AlanceError):
                await main.store.delete(path)
            if isinstance(exc, DatasetAlreadyExistsError):
                raise AlreadyExistsError(
                    f"files of a branch {name!r} lie at {table.url}, left by one that was not "
                    "deleted completely; delete them with branches.delete",
                    path=path,
                ) from exc
            raise

    async def _is_ours(self, name: str, branch: Branch) -> bool:
        """Whether what stands there is what was put: it may be, whatever the store answered."""
        with suppress(VersionNotFoundError):
            found = await read_branch(self._handle.main, name)
            return found.identifier == branch.identifier
        return False

    async def _describe_new(self, source: Handle, manifest: Manifest) -> Branch:
        """Say what a new branch begins with."""
        lineage: tuple[tuple[int, str], ...] = ()
        if source.branch is not None:
            with suppress(VersionNotFoundError):  # a branch that was copied elsewhere by itself
                lineage = (await read_branch(source.main, source.branch)).identifier
        return Branch(
            source.branch,
            manifest.version,
            (*lineage, (manifest.version, uuids.uuid4().hex)),
            datetime.now(UTC),
            await manifest_size(source.places.table, manifest),
        )

    @one_call
    async def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Keep this text with a branch, in place of what was kept with it.

        Raises
        ------
        VersionNotFoundError
            There is no such branch.
        InvalidInputError
            Not a mapping of text to text.
        """
        texts = check_texts("metadata", metadata)
        main = self._handle.main
        branch = await read_branch(main, check_branch_name(name))
        changed = replace(branch, metadata=texts)
        await main.store.put(branch_path(main.root, name), build_branch(changed))

    @one_call
    async def delete(self, name: str) -> None:
        """Remove a branch with everything that was written on it.

        Files that it shares with other lines stay. When some could not be removed, call it again.

        Raises
        ------
        VersionNotFoundError
            There is no such branch, nor files of one.
        InvalidInputError
            No name of a branch; tags or other branches refer to its versions.
        StoreError
            A file could not be removed.

        Notes
        -----
        Requests: two listings and one for each tag and branch; then the branch's file, listings of
        its folders, and one for each thousand files in them, or for each file.
        """
        main = self._handle.main
        root = branch_root(main.root, check_branch_name(name))
        branches = await list_branches(main)
        tags = await list_tags(main)
        users = [f"branch {other!r}" for other, b in branches.items() if b.parent_branch == name]
        users += [f"tag {tag!r}" for tag, t in tags.items() if t.branch == name]
        if users:
            raise InvalidInputError(
                f"branch {name!r} cannot be deleted, as its versions are in use by "
                f"{', '.join(users)}; delete these first"
            )
        if name in branches:
            await main.store.delete(branch_path(main.root, name))
        paths = await _files_of(main.store, root, [branch_root(main.root, one) for one in branches])
        if name not in branches and not paths:
            raise VersionNotFoundError(
                f"{main.url} has no branch {name!r}", uri=main.url, version=name
            )
        await main.handler.forget(main.store, root)
        for error in (await remove_all(main.store, paths)).values():
            raise error


async def _files_of(store: ObjectStore, root: str, roots: Sequence[str]) -> list[str]:
    """Files of a branch, but not those of others whose names begin with its name."""
    folders = [*FOLDERS, "_blobs"]
    nested = tuple(
        f"{join(other, folder)}/"
        for other in roots
        for folder in folders
        if other.startswith(f"{root}/")
    )
    lists = [partial(store.list, join(root, folder)) for folder in folders]
    async with aclosing(read_all(lists)) as listings:
        found = [info.path async for infos in listings for info in infos]
    return [path for path in found if not path.startswith(nested)]


def _describe(branch: Branch) -> dict[str, Any]:
    return {
        "parent_branch": branch.parent_branch,
        "branch_identifier": list(branch.identifier),
        "parent_version": branch.parent_version,
        "create_at": 0 if branch.created_at is None else int(branch.created_at.timestamp()),
        "manifest_size": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }
