"""What becomes of the index segments when the table changes; the indices are never opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pyroaring import BitMap

from alance.errors import InvalidInputError
from alance.table.draft import edit_indices, has_stable_row_ids, indices_of
from alance.table.indices import FRAGMENT_REUSE, IndexMetadata, build_fragment_bitmap
from alance.table.manifest import Manifest
from alance.table.operations import CreateIndex, Rewrite, RewriteGroup, RewrittenIndex
from alance.table.wire_indices import parse_fragment_moves

__all__ = [
    "apply_create_index",
    "follow_moves",
    "prune_indices",
    "rewrite_indices",
    "uncover_fragments",
]


_Move: TypeAlias = tuple[BitMap, BitMap]
"""Ids of fragments, and of those that their rows went to."""


def apply_create_index(draft: Manifest, operation: CreateIndex) -> Manifest:
    """Segments go by uuid, and system indices by name, as there is one of each."""
    gone = {index.uuid for index in (*operation.removed_indices, *operation.new_indices)}
    names = {index.name for index in operation.new_indices if index.is_system}
    kept = [
        index for index in indices_of(draft) if index.uuid not in gone and index.name not in names
    ]
    return edit_indices(draft, (*kept, *operation.new_indices))


def follow_moves(draft: Manifest) -> Manifest:
    """Let segments that were left as they were by a compaction cover its new fragments.

    Their rows are found through the fragment reuse index from then on.
    """
    if FRAGMENT_REUSE.encode() not in (draft.index_section or b""):
        return draft
    indices = indices_of(draft)
    moves = _moves(indices)
    return edit_indices(draft, [_moved(index, moves or ()) for index in indices])


def _moves(indices: Sequence[IndexMetadata]) -> Sequence[_Move] | None:
    """Old and new fragment ids of compactions that left indices behind; None when not at hand."""
    reuse = next((index for index in indices if index.name == FRAGMENT_REUSE), None)
    return () if reuse is None else parse_fragment_moves(reuse, path=f"index {FRAGMENT_REUSE}")


def _moved(index: IndexMetadata, moves: Sequence[_Move]) -> IndexMetadata:
    """New fragments in the bitmap in place of the old, of moves that it covers in full."""
    covered = index.fragments
    if covered is None or index.is_system:
        return index
    moved = covered
    for old, new in moves:
        if old and old <= moved:
            moved = (moved - old) | new
    if moved == covered:
        return index
    return replace(index, fragment_bitmap=build_fragment_bitmap(moved))


def uncover_fragments(draft: Manifest, changed: Mapping[int, Collection[int]]) -> Manifest:
    """Take fragments from the indices of fields of which they hold other values now.

    Parameters
    ----------
    draft
        The next version so far.
    changed
        Fragment id -> ids of the fields that were replaced in place.
    """
    if not changed:
        return draft
    indices = indices_of(draft)
    moves = _moves(indices)
    edited = []
    for index in indices:
        fields = _with_members(draft, index.fields)
        stale = BitMap([i for i, field_ids in changed.items() if not fields.isdisjoint(field_ids)])
        covered = index.fragments
        if stale and (moves is None or covered is None):
            continue  # which of the fragments it covers is not known
        if covered and covered & stale:
            index = replace(index, fragment_bitmap=build_fragment_bitmap(covered - stale))
        edited.append(index)
    return edit_indices(draft, edited)


def _with_members(draft: Manifest, field_ids: Iterable[int]) -> set[int]:
    """Fields and all below them: an index on a struct holds the values of its members."""
    found = set(field_ids)
    for field in draft.schema.fields:  # parents come first
        if field.parent_id in found:
            found.add(field.id)
    return found


def prune_indices(draft: Manifest) -> Manifest:
    """Drop segments whose fields are gone, and those that cover no fragment any more.

    Of segments that all cover nothing the oldest stays: its presence asks for the index to be kept
    up when there is data again.
    """
    fields = {field.id for field in draft.schema.fields}
    present = BitMap([fragment.id for fragment in draft.fragments])
    indices = indices_of(draft)
    alive = [index for index in indices if index.is_system or fields.issuperset(index.fields)]
    groups: dict[str, list[IndexMetadata]] = {}
    for index in alive if _moves(indices) is not None else ():
        if not index.is_system:
            groups.setdefault(index.name, []).append(index)
    dropped = {uuid for group in groups.values() for uuid in _useless(group, present)}
    return edit_indices(draft, [index for index in alive if index.uuid not in dropped])


def _useless(group: Sequence[IndexMetadata], present: BitMap) -> set[str]:
    """Uuids of the segments of one index that can go."""
    empty = [index for index in group if not _covers(index, present)]
    if len(empty) == len(group):
        empty.remove(min(empty, key=lambda index: index.dataset_version))
    return {index.uuid for index in empty}


def _covers(index: IndexMetadata, present: BitMap) -> bool:
    """Whether a segment covers a fragment that is there; one that does not say may."""
    covered = index.fragments
    return covered is None or bool(covered & present)


def rewrite_indices(draft: Manifest, operation: Rewrite) -> Manifest:
    """Segments that were brought up to the new addresses get their new uuid, all new fragments.

    Where rows have lasting ids, the other segments hold for the new fragments as they are.

    Raises
    ------
    InvalidInputError
        A group of fragments is covered in part only.
    """
    rewritten = {index.old_id: index for index in operation.rewritten_indices}
    if len(rewritten) != len(operation.rewritten_indices):
        raise InvalidInputError("an index segment is rewritten twice by one operation")
    lasting = has_stable_row_ids(draft) and operation.fragment_reuse_index is None
    moves = [_move_of(group) for group in operation.groups]
    edited = []
    for index in indices_of(draft):
        change = rewritten.get(index.uuid)
        if not index.is_system and (change is not None or lasting):
            _check_whole(index, moves)
            index = _moved(index, moves)
        edited.append(index if change is None else _rewritten(index, change))
    if (reuse := operation.fragment_reuse_index) is not None:
        edited = [*(index for index in edited if index.name != reuse.name), reuse]
    return edit_indices(draft, edited)


def _rewritten(index: IndexMetadata, change: RewrittenIndex) -> IndexMetadata:
    return replace(
        index,
        uuid=change.new_id,
        base_id=None,  # it was written to this dataset
        index_details=change.new_index_details or index.index_details,
        index_version=change.new_index_version or index.index_version,
        files=change.new_index_files,
    )


def _move_of(group: RewriteGroup) -> _Move:
    old, new = group.old_fragments, group.new_fragments
    return BitMap([fragment.id for fragment in old]), BitMap([fragment.id for fragment in new])


def _check_whole(index: IndexMetadata, moves: Sequence[_Move]) -> None:
    """An index holds for new fragments only if it held for all that went into them."""
    covered = index.fragments or BitMap()
    for old, _ in moves:
        if covered & old and not old <= covered:
            raise InvalidInputError(
                f"fragments {list(old)} are rewritten together, but segment {index.uuid} of index "
                f"{index.name} covers only {list(covered & old)}"
            )
