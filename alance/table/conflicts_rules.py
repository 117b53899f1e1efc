"""Pairs of operations of which the content decides whether they conflict: pure.

A rule takes the change to be committed and the one that was there first. Where it is the same in
either order, it takes the two by their kinds.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from pyroaring import BitMap

from alance.table.indices import FRAGMENT_REUSE, MEM_WAL, IndexMetadata
from alance.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Project,
    Rewrite,
    Update,
    UpdateConfig,
    UpdateMode,
)

__all__ = [
    "Verdict",
    "append_after_merge",
    "data_after_data",
    "data_after_delete",
    "data_after_project",
    "data_after_update",
    "data_and_index",
    "incompatible_if",
    "index_after_rewrite",
    "index_after_update",
    "index_and_merge",
    "indices",
    "nulls",
    "project_after_config",
    "retry_if",
    "rewrite_after_index",
    "rewrites",
    "rows",
    "shared_fragments",
    "update_after_append",
    "update_after_mem_wal",
    "update_after_project",
    "updates",
]


class Verdict(Enum):
    """What becomes of a change that finds another committed before it."""

    COMPATIBLE = "goes on top of the other as it is"
    REBASE = "goes on top of the other once the two are merged"
    RETRY = "run the whole operation again on the new version"
    INCOMPATIBLE = "the other change makes this one meaningless"


_FragmentChange: TypeAlias = Delete | Update | Rewrite | DataReplacement


def retry_if(conflict: bool) -> Verdict:
    """Retry in case of a conflict."""
    return Verdict.RETRY if conflict else Verdict.COMPATIBLE


def incompatible_if(conflict: bool) -> Verdict:
    """Refuse in case of a conflict."""
    return Verdict.INCOMPATIBLE if conflict else Verdict.COMPATIBLE


def shared_fragments(mine: _FragmentChange, theirs: _FragmentChange) -> Verdict:
    """Neither can be merged into what the other made of a fragment."""
    return retry_if(not _fragment_ids(mine).isdisjoint(_fragment_ids(theirs)))


def rewrites(mine: Rewrite, theirs: Rewrite) -> Verdict:
    """Two deferred ones would each replace the other's map from old addresses to new."""
    if mine.fragment_reuse_index is not None and theirs.fragment_reuse_index is not None:
        return Verdict.RETRY
    return shared_fragments(mine, theirs)


def rows(mine: Delete | Update, theirs: Delete | Update) -> Verdict:
    """Deletion vectors of one fragment are merged as long as nothing else of it changed.

    Whether the two concern different rows is seen when they are merged.
    """
    shared = _fragment_ids(mine) & _fragment_ids(theirs)
    ours = {fragment.id: fragment.files for fragment in mine.updated_fragments}
    others = {fragment.id: fragment.files for fragment in theirs.updated_fragments}
    for i in shared:
        if i not in ours or ours[i] != others.get(i):
            return Verdict.RETRY  # removed by either, or columns were written anew
    return Verdict.REBASE if shared else Verdict.COMPATIBLE


def updates(mine: Update, theirs: Update) -> Verdict:
    """Filters of inserted keys are not looked into, so a change with one cannot be sure."""
    return Verdict.RETRY if mine.inserted_rows is not None else rows(mine, theirs)


def update_after_append(mine: Update, _theirs: Append) -> Verdict:
    """Appended rows may have the inserted keys."""
    return retry_if(mine.inserted_rows is not None)


def update_after_mem_wal(mine: Update, _theirs: object) -> Verdict:
    """Which logs an update merged is not looked into; those made here merge none."""
    return retry_if(bool(mine.unknown))


def _fragment_ids(operation: _FragmentChange) -> frozenset[int]:
    """Fragments that an operation changes or removes."""
    match operation:
        case Delete():
            changed = [fragment.id for fragment in operation.updated_fragments]
            return frozenset((*changed, *operation.deleted_fragment_ids))
        case Update():
            changed = [fragment.id for fragment in operation.updated_fragments]
            return frozenset((*changed, *operation.removed_fragment_ids))
        case Rewrite():
            groups = operation.groups
            return frozenset(old.id for group in groups for old in group.old_fragments)
        case DataReplacement():
            return frozenset(entry.fragment_id for entry in operation.replacements)


def nulls(
    mine: Append | Update | DataReplacement | Project,
    theirs: Append | Update | DataReplacement | Project,
) -> Verdict:
    """Values that one of the two writes may be null where the other forbids it."""
    claims = [change for change in (mine, theirs) if isinstance(change, Project)]
    return retry_if(not all(project.preserves_nullability for project in claims))


def append_after_merge(mine: Append, theirs: Merge) -> Verdict:
    """Besides nulls, appended columns may have been replaced."""
    ids = {field.id for field in theirs.schema.fields}
    stored = {i for fragment in mine.fragments for file in fragment.files for i in file.fields}
    replaced = any(i >= 0 and i not in ids for i in stored)
    return retry_if(replaced or not theirs.preserves_nullability)


def update_after_project(mine: Update, theirs: Project) -> Verdict:
    """Besides nulls, a column that was replaced in place may be there no more."""
    ids = {field.id for field in theirs.schema.fields}
    if not ids.issuperset(mine.fields_modified):
        return Verdict.RETRY
    return nulls(mine, theirs)


def project_after_config(_mine: Project, theirs: UpdateConfig) -> Verdict:
    """A projection carries a whole schema, in which newer metadata of fields must not get lost."""
    return Verdict.REBASE if theirs.field_metadata else Verdict.COMPATIBLE


def data_after_delete(mine: DataReplacement, theirs: Delete) -> Verdict:
    """Deleted rows stay where they are, unless their fragment goes."""
    return incompatible_if(not _fragment_ids(mine).isdisjoint(theirs.deleted_fragment_ids))


def data_after_update(mine: DataReplacement, theirs: Update) -> Verdict:
    """Moved rows are beyond the reach of a file of their old fragment."""
    if not _fragment_ids(mine).isdisjoint(theirs.removed_fragment_ids):
        return Verdict.INCOMPATIBLE
    updated = {fragment.id for fragment in theirs.updated_fragments}
    in_place = theirs.update_mode is UpdateMode.REWRITE_COLUMNS
    moved = bool(theirs.new_fragments) and not in_place
    modified = set(theirs.fields_modified)
    return retry_if(
        any(
            entry.fragment_id in updated
            and (moved or not modified.isdisjoint(entry.new_file.fields))
            for entry in mine.replacements
        )
    )


def data_after_project(mine: DataReplacement, theirs: Project) -> Verdict:
    """There is no use for a file of a field that was dropped."""
    ids = {field.id for field in theirs.schema.fields}
    replaced = {i for entry in mine.replacements for i in entry.new_file.fields}
    if any(i >= 0 and i not in ids for i in replaced):
        return Verdict.INCOMPATIBLE
    return nulls(mine, theirs)


def data_after_data(mine: DataReplacement, theirs: DataReplacement) -> Verdict:
    """Two files cannot both hold a field of a fragment."""
    taken = {(entry.fragment_id, i) for entry in theirs.replacements for i in entry.new_file.fields}
    wanted = {(entry.fragment_id, i) for entry in mine.replacements for i in entry.new_file.fields}
    return retry_if(not taken.isdisjoint(wanted))


def data_and_index(
    mine: DataReplacement | CreateIndex, theirs: DataReplacement | CreateIndex
) -> Verdict:
    """The index was built from the values that are replaced."""
    indexed: set[int] = set()
    replaced: set[int] = set()
    for operation in (mine, theirs):
        if isinstance(operation, CreateIndex):
            indexed.update(i for index in operation.new_indices for i in index.fields)
        else:
            replaced.update(i for entry in operation.replacements for i in entry.new_file.fields)
    return retry_if(not indexed.isdisjoint(replaced))


def indices(mine: CreateIndex, theirs: CreateIndex) -> Verdict:
    """An index must not be built twice, nor built on while it is dropped; two may drop it."""
    made, made_there = _names(mine.new_indices), _names(theirs.new_indices)
    touched = made | _names(mine.removed_indices)
    touched_there = made_there | _names(theirs.removed_indices)
    return retry_if(bool(made & touched_there or made_there & touched))


def index_after_update(mine: CreateIndex, theirs: Update) -> Verdict:
    """Fragments whose indexed values were replaced in place are not covered."""
    merges = mine.new_indices and theirs.fields_modified
    return Verdict.REBASE if merges else Verdict.COMPATIBLE


def index_after_rewrite(mine: CreateIndex, theirs: Rewrite) -> Verdict:
    """An index refers to rows where they were; a deferred rewrite left a map to where they are."""
    if theirs.fragment_reuse_index is None:
        return retry_if(_builds_on(mine, theirs))
    return retry_if(FRAGMENT_REUSE in _names(mine.new_indices))


def rewrite_after_index(mine: Rewrite, theirs: CreateIndex) -> Verdict:
    """A deferred rewrite leaves an index valid that covers each of its groups whole or not at all.

    Two maps of addresses would each lack the other's part.
    """
    if mine.fragment_reuse_index is None:
        return retry_if(_builds_on(theirs, mine))
    if FRAGMENT_REUSE in _names(theirs.new_indices):
        return Verdict.RETRY
    groups = [BitMap([old.id for old in group.old_fragments]) for group in mine.groups]
    covers = [entry.fragments for entry in theirs.new_indices]
    return retry_if(
        any(
            covered is None or not (group.isdisjoint(covered) or group.issubset(covered))
            for covered in covers
            for group in groups
        )
    )


def _builds_on(index: CreateIndex, rewrite: Rewrite) -> bool:
    """Whether a new index covers fragments that are rewritten, or does not say what it covers."""
    covers = [entry.fragments for entry in index.new_indices]
    old = BitMap(_fragment_ids(rewrite))
    return any(covered is None or not old.isdisjoint(covered) for covered in covers)


def index_and_merge(mine: CreateIndex | Merge, theirs: CreateIndex | Merge) -> Verdict:
    """The index of write-ahead logs depends on the whole schema."""
    made = [_names(each.new_indices) for each in (mine, theirs) if isinstance(each, CreateIndex)]
    return retry_if(any(MEM_WAL in names for names in made))


def _names(entries: tuple[IndexMetadata, ...]) -> set[str]:
    return {entry.name for entry in entries}
