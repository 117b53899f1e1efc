"""Bring a change that may follow others, but not as it is, up to the version it shall follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyroaring import BitMap

from alance._aio import run_all, run_to_end
from alance.errors import ObjectNotFoundError, RetryableCommitError
from alance.file.schema import Field, Schema
from alance.io.store import ObjectStore
from alance.table.deletion import deletion_path, read_deletion_vector, write_deletion_file
from alance.table.indices import IndexMetadata, build_fragment_bitmap
from alance.table.manifest import DeletionKind, Fragment, Manifest
from alance.table.objects import discard
from alance.table.operations import CreateIndex, Delete, Project, Update
from alance.table.transaction import Transaction

__all__ = ["Rebased", "rebase"]


@dataclass(frozen=True, slots=True)
class Rebased:
    """A transaction that may follow the newest version.

    Parameters
    ----------
    transaction
        The same change, with the same uuid.
    written
        Keys of the files that were written for it; worth nothing unless it is committed.
    superseded
        Keys of the files that it referred to before; worth nothing once it is committed.
    """

    transaction: Transaction
    written: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


async def rebase(
    store: ObjectStore,
    root: str,
    transaction: Transaction,
    *,
    read: Manifest,
    current: Manifest,
    affected_rows: Mapping[int, BitMap] | None = None,
    bases: Mapping[int, tuple[ObjectStore, str]] | None = None,
) -> Rebased:
    """Do what `Verdict.REBASE` asks for, against all that was committed meanwhile.

    A deletion or an update gets the rows that others deleted in its fragments added to its own; an
    index loses the fragments of which indexed values were replaced; a projection takes over newer
    metadata of fields. Any other change comes back as it is.

    Parameters
    ----------
    store, root
        Where the dataset is.
    transaction
        Each operation committed after `read` was judged to be one that it may follow.
    read
        The version it was made on.
    current
        The newest version.
    affected_rows
        Fragment id -> offsets of the rows that the change itself deletes.
    bases
        Base id -> where deletion files below that base path are; as far as they can be reached.

    Returns
    -------
    Rebased
        A deletion or an update is now based on `current`, others still on `read`.

    Raises
    ------
    RetryableCommitError
        The two concern the same rows, or what is needed to tell is missing. Nothing is left behind.
    CorruptFileError, StoreError
        A deletion file is damaged; a request failed.

    Notes
    -----
    Requests: for each fragment in which others deleted rows one read, then one put, all reads and
    all puts at once. Cancellation: safe at any await; files already written are removed.
    """
    operation = transaction.operation
    match operation:
        case Delete() | Update():
            merge = _Merge(
                store, root, transaction, read, current, affected_rows or {}, bases or {}
            )
            return await merge.run(operation)
        case CreateIndex():
            made = tuple(_uncover(entry, read, current) for entry in operation.new_indices)
            return Rebased(replace(transaction, operation=replace(operation, new_indices=made)))
        case Project():
            schema = _with_newer_metadata(operation.schema, read.schema, current.schema)
            return Rebased(replace(transaction, operation=replace(operation, schema=schema)))
        case _:
            return Rebased(transaction)


@dataclass(slots=True)
class _Merge:
    """Rows deleted by a transaction, merged with those that others deleted."""

    store: ObjectStore
    root: str
    transaction: Transaction
    read: Manifest
    current: Manifest
    affected_rows: Mapping[int, BitMap]
    bases: Mapping[int, tuple[ObjectStore, str]]
    vectors: dict[int, BitMap] = field(default_factory=dict)
    """Fragment id -> all deleted rows, of fragments that must be merged."""
    fragments: dict[int, Fragment] = field(default_factory=dict)
    """Fragment id -> its new state, once its deletion file is written."""

    async def run(self, operation: Delete | Update) -> Rebased:
        """Read and check everything before anything is written."""
        marked = self._marked(operation)
        await run_all([partial(self._read, fragment, now) for fragment, now in marked])
        mine = [fragment for fragment, _ in marked]
        emptied = {f.id for f in mine if len(self.vectors[f.id]) == f.physical_rows}
        kept = [fragment for fragment in mine if fragment.id not in emptied]
        try:
            await run_all([partial(self._write, fragment) for fragment in kept])
        except BaseException:
            await run_to_end(discard(self.store, self._written()))
            raise
        return Rebased(
            replace(
                self.transaction,
                read_version=self.current.version,
                operation=self._merged(operation, emptied),
            ),
            self._written(),
            tuple(self._own_paths(mine)),
        )

    def _marked(self, operation: Delete | Update) -> list[tuple[Fragment, Fragment]]:
        """Fragments in which others deleted rows: as the transaction leaves them, and as they are.

        Raises
        ------
        RetryableCommitError
            More than rows changed, or which ones is not known.
        """
        before = {fragment.id: fragment for fragment in self.read.fragments}
        now = {fragment.id: fragment for fragment in self.current.fragments}
        for i in _removed(operation):
            was, found = before.get(i), now.get(i)
            if was is None or found is None or found.deletion_file != was.deletion_file:
                raise self._retry(i, "is gone, or some of its rows are")
        marked = []
        for fragment in operation.updated_fragments:
            was, found = before.get(fragment.id), now.get(fragment.id)
            if was is None or found is None:
                raise self._retry(fragment.id, "is gone")
            if found.deletion_file == was.deletion_file:
                continue
            if not fragment.files == was.files == found.files:
                raise self._retry(fragment.id, "has other data files")
            deletes = fragment.deletion_file not in (None, was.deletion_file)
            if not deletes or not self.affected_rows.get(fragment.id):
                raise self._retry(fragment.id, "has other deleted rows")
            marked.append((fragment, found))
        return marked

    async def _read(self, fragment: Fragment, now: Fragment) -> None:
        """Unite what is deleted now with what is to be, unless they have rows in common."""
        mine = self.affected_rows[fragment.id]
        deleted = BitMap()
        if now.deletion_file is not None:
            base_id = now.deletion_file.base_id
            place = (self.store, self.root) if base_id is None else self.bases.get(base_id)
            if place is None:
                raise self._retry(fragment.id, f"has its deletion file below base path {base_id}")
            try:
                deleted = BitMap(await read_deletion_vector(*place, now))
            except ObjectNotFoundError as exc:
                raise self._retry(fragment.id, "has a deletion file that is gone") from exc
        if mine.intersect(deleted):
            raise self._retry(fragment.id, "has lost some of the same rows")
        assert mine.max() < fragment.physical_rows, "affected rows are offsets in the fragment"
        self.vectors[fragment.id] = deleted | mine

    async def _write(self, fragment: Fragment) -> None:
        file = await write_deletion_file(
            self.store,
            self.root,
            fragment.id,
            self.vectors[fragment.id],
            read_version=self.current.version,
            kind=DeletionKind.BITMAP,  # whatever its size, as the reference does
        )
        self.fragments[fragment.id] = replace(fragment, deletion_file=file)

    def _merged(self, operation: Delete | Update, emptied: set[int]) -> Delete | Update:
        updated = tuple(
            self.fragments.get(fragment.id, fragment)
            for fragment in operation.updated_fragments
            if fragment.id not in emptied
        )
        removed = (*_removed(operation), *sorted(emptied))
        if isinstance(operation, Delete):
            return replace(operation, updated_fragments=updated, deleted_fragment_ids=removed)
        return replace(operation, updated_fragments=updated, removed_fragment_ids=removed)

    def _written(self) -> tuple[str, ...]:
        return tuple(self._own_paths(list(self.fragments.values())))

    def _own_paths(self, fragments: Sequence[Fragment]) -> list[str]:
        """Keys of deletion files that lie in the dataset itself."""
        return [
            deletion_path(self.root, fragment)
            for fragment in fragments
            if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
        ]

    def _retry(self, fragment_id: int, what: str) -> RetryableCommitError:
        mine = self.transaction
        return RetryableCommitError(
            f"{mine.operation.name} on version {mine.read_version} of {self.store.url}/{self.root} "
            f"was overtaken: in version {self.current.version} fragment {fragment_id} {what}; run "
            "the whole operation again on the newest version",
            read_version=mine.read_version,
            version=self.current.version + 1,
            uuid=mine.uuid,
        )


def _removed(operation: Delete | Update) -> tuple[int, ...]:
    if isinstance(operation, Delete):
        return operation.deleted_fragment_ids
    return operation.removed_fragment_ids


def _uncover(entry: IndexMetadata, read: Manifest, current: Manifest) -> IndexMetadata:
    """Take the fragments from an index of which indexed values were replaced since it was built."""
    covered = entry.fragments
    if covered is None or entry.is_system:
        return entry
    ids = set(entry.fields)
    for below in read.schema.fields:  # parents come first
        if below.parent_id in ids:
            ids.add(below.id)
    before = {fragment.id: fragment for fragment in read.fragments}
    stale = [
        now.id
        for now in current.fragments
        if now.id in covered
        and now.id in before
        and _files_of(now, ids) != _files_of(before[now.id], ids)
    ]
    if not stale:
        return entry
    return replace(entry, fragment_bitmap=build_fragment_bitmap(covered - BitMap(stale)))


def _files_of(fragment: Fragment, field_ids: set[int]) -> set[tuple[int, str, int | None]]:
    """Which file each of the fields is in."""
    return {
        (field_id, file.path, file.base_id)
        for file in fragment.files
        for field_id in file.fields
        if field_id in field_ids
    }


def _with_newer_metadata(mine: Schema, read: Schema, current: Schema) -> Schema:
    """Keep what a projection changes, and take over what others changed of the metadata."""
    before = {entry.id: entry for entry in read.fields}
    now = {entry.id: entry for entry in current.fields}
    return Schema(
        tuple(_merged_field(each, before.get(each.id), now.get(each.id)) for each in mine.fields),
        mine.metadata,
    )


def _merged_field(mine: Field, before: Field | None, now: Field | None) -> Field:
    if before is None or now is None or mine.metadata != before.metadata:
        return mine
    return replace(now, name=mine.name, nullable=mine.nullable)
