"""The first version of a table that begins with the files of another: a clone, or a branch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    PermissionDeniedError,
    StoreError,
)
from alance.table.apply import record
from alance.table.hint import write_hint
from alance.table.indices import IndexMetadata
from alance.table.location import TableLocation
from alance.table.manifest import BasePath, DataFile, DeletionFile, Fragment, Manifest, Naming
from alance.table.naming import transaction_path
from alance.table.operations import Clone
from alance.table.transaction import Transaction
from alance.table.versions import read_version
from alance.table.wire import build_manifest
from alance.table.wire_indices import build_indices, parse_indices

__all__ = ["build_clone", "create_table"]

BASE_ID_MAX = (1 << 32) - 1

F = TypeVar("F", DataFile, DeletionFile, IndexMetadata)


def build_clone(source: Manifest, transaction: Transaction, *, timestamp_ns: int) -> Manifest:
    """Build the manifest of a clone: the rows and settings of a version, its files left in place.

    Parameters
    ----------
    source
        The version to begin with; the clone's first version has its number.
    transaction
        Its operation says where the source is and what the clone is to be.
    timestamp_ns
        Time of the commit, nanoseconds since 1970 UTC.

    Raises
    ------
    CorruptFileError
        The source's indices are damaged.
    InvalidInputError
        The source has a base path with the highest possible id.
    """
    operation = transaction.operation
    assert isinstance(operation, Clone), "another operation makes no clone"
    base_id = max((base.id for base in source.base_paths), default=-1) + 1
    if base_id > BASE_ID_MAX:
        raise InvalidInputError(f"{operation.ref_path} has no base id left to refer to it by")
    base = BasePath(base_id, operation.ref_path, is_dataset_root=True, name=operation.ref_name)
    section = source.index_section
    if section is not None:
        where = f"the indices of {operation.ref_path} version {source.version}"
        section = build_indices(_moved(parse_indices(section, path=where), base_id), like=section)
    draft = replace(
        source,
        fragments=tuple(_moved_fragment(fragment, base_id) for fragment in source.fragments),
        base_paths=(*source.base_paths, base),
        index_section=section,
        branch=operation.branch_name,
        naming=Naming.V2,
    )
    return record(draft, transaction, timestamp_ns=timestamp_ns)


def _moved_fragment(fragment: Fragment, base_id: int) -> Fragment:
    deletion = fragment.deletion_file
    return replace(
        fragment,
        files=_moved(fragment.files, base_id),
        deletion_file=None if deletion is None else _moved((deletion,), base_id)[0],
    )


def _moved(files: Iterable[F], base_id: int) -> tuple[F, ...]:
    """Refer to files through a base path, those that had one as they are."""
    return tuple(replace(file, base_id=base_id) if file.base_id is None else file for file in files)


async def create_table(table: TableLocation, manifest: Manifest) -> None:
    """Put the first manifest of a table, and its transaction file; to be seen through to the end.

    Raises
    ------
    DatasetAlreadyExistsError
        There is a table; nothing was written.
    CommitStateUnknownError
        The answer was lost and could not be found out.
    StoreError
        The store refused; nothing was written.

    Notes
    -----
    Requests: a look whether there is a table, then the two files one after the other; when the
    manifest's put has no clear answer, one read. The hint where the reference keeps one, and the
    probe of a store that needs one.
    """
    if await table.handler.newest(table.store, table.root) is not None:
        raise _exists(table)
    await table.handler.ready(table.store, table.root)
    try:
        await table.handler.put(
            table.store, table.root, manifest.version, manifest.naming, build_manifest(manifest)
        )
    except (AlreadyExistsError, StoreError) as exc:
        await _read_back(table, manifest, exc)
    if manifest.transaction_file and manifest.transaction is not None:
        path = transaction_path(table.root, manifest.transaction_file)
        with suppress(StoreError):  # the manifest carries a copy
            await table.store.put(path, manifest.transaction)
    await write_hint(table, manifest.version)


async def _read_back(table: TableLocation, manifest: Manifest, error: AlanceError) -> None:
    """Look whose manifest stands there: no error answer is a verdict by itself."""
    unknown = CommitStateUnknownError(
        f"whether {table.url} was created is not known: the answer was lost; look whether it can "
        "be opened",
        version=manifest.version,
    )
    try:
        stored = await read_version(table, manifest.version, manifest.naming)
    except AlanceError as exc:
        raise unknown from exc
    if stored is None:
        if isinstance(error, PermissionDeniedError):
            raise error
        raise unknown from error
    if stored.transaction != manifest.transaction:
        raise _exists(table) from error


def _exists(table: TableLocation) -> DatasetAlreadyExistsError:
    return DatasetAlreadyExistsError(f"a dataset exists at {table.url}", path=table.url)
