"""Operations that add, hide, move or replace rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alance.errors import InvalidInputError
from alance.table.apply_indices import prune_indices, rewrite_indices, uncover_fragments
from alance.table.draft import (
    add_bases,
    add_fragments,
    check_file_versions,
    edit_map,
    has_stable_row_ids,
    highest_fragment_id,
    replace_fragments,
)
from alance.table.features import Feature
from alance.table.indices import parse_bitmap
from alance.table.manifest import Fragment, Manifest
from alance.table.operations import Append, Delete, Overwrite, ReserveFragments, Rewrite, Update
from alance.table.row_ids import RowIds
from alance.table.row_versions import RowVersions
from alance.table.wire import FRAGMENT_ID_MAX
from alance.table.wire_rows import build_row_versions, parse_row_ids, parse_row_versions

__all__ = [
    "apply_append",
    "apply_delete",
    "apply_overwrite",
    "apply_reserve_fragments",
    "apply_rewrite",
    "apply_update",
    "create",
]


def apply_append(draft: Manifest, operation: Append) -> Manifest:
    """New fragments behind the others."""
    return add_fragments(draft, operation.fragments)


def create(operation: Overwrite) -> Manifest:
    """The first version of a table."""
    if operation.file_version is None:
        raise InvalidInputError("a new dataset needs a file version")
    stable = int(Feature.STABLE_ROW_IDS) if operation.stable_row_ids else 0
    draft = Manifest(
        version=1,
        schema=operation.schema,
        fragments=(),
        file_version=operation.file_version,
        timestamp_ns=0,
        reader_flags=stable,
        writer_flags=stable,
        config=dict(operation.config),
    )
    return add_fragments(add_bases(draft, operation.initial_bases), operation.fragments)


def apply_overwrite(draft: Manifest, operation: Overwrite) -> Manifest:
    """Everything but the settings is new; ids of fragments and rows are never given twice."""
    draft = replace(
        draft,
        schema=operation.schema,
        fragments=(),
        max_fragment_id=_mark(highest_fragment_id(draft)),
        file_version=operation.file_version or draft.file_version,
        config=edit_map(draft.config, operation.config),
        index_section=None,
    )
    return add_fragments(add_bases(draft, operation.initial_bases), operation.fragments)


def apply_delete(draft: Manifest, operation: Delete) -> Manifest:
    """Fragments with deletion files; others go."""
    draft = replace_fragments(draft, operation.updated_fragments, operation.deleted_fragment_ids)
    return prune_indices(draft)


def apply_update(draft: Manifest, operation: Update) -> Manifest:
    """Moved rows keep their ids and the version they were created at."""
    updated = operation.updated_fragments
    touched = {fragment.id for fragment in updated}
    lost = touched.union(operation.removed_fragment_ids)
    sources = [fragment for fragment in draft.fragments if fragment.id in lost]
    check_file_versions(updated, draft)
    if has_stable_row_ids(draft):
        bitmaps = operation.updated_fragment_offset_bitmaps
        updated = tuple(_updated_at(each, bitmaps.get(each.id), draft.version) for each in updated)
    draft = replace_fragments(draft, updated, operation.removed_fragment_ids)
    draft = add_fragments(
        draft,
        operation.new_fragments,
        created_at=lambda kept: _created_at(kept, sources, draft.version),
    )
    if operation.fields_modified:
        draft = uncover_fragments(draft, dict.fromkeys(touched, operation.fields_modified))
    return prune_indices(draft)


def _updated_at(fragment: Fragment, bitmap: bytes | None, version: int) -> Fragment:
    """Rows that got other values in place are updated at the new version, whichever it became."""
    if bitmap is None:
        return fragment
    where, num_rows = f"fragment {fragment.id}", fragment.physical_rows
    offsets = parse_bitmap(bitmap, where)
    if offsets and offsets.max() >= num_rows:
        raise InvalidInputError(f"{where} has {num_rows} rows; row {offsets.max()} is not updated")
    versions = parse_row_versions(fragment.last_updated_at, num_rows, path=where)
    versions = versions.replace(np.asarray(offsets.to_array(), np.int64), version)
    return replace(fragment, last_updated_at=build_row_versions(versions))


def _created_at(kept: RowIds, sources: Sequence[Fragment], version: int) -> RowVersions:
    """Versions at which moved rows were created, from the fragments that they were in.

    A row may be in several of them, deleted in all but one, and has the same version in each.
    """
    ids = kept.ids()
    order = np.argsort(ids)
    ascending = ids[order]
    created: npt.NDArray[np.uint64] = np.full(len(ids), version, np.uint64)
    for source in sources:
        where = f"fragment {source.id}"
        num_rows = source.physical_rows
        row_ids = parse_row_ids(source.row_ids or b"", num_rows, path=where)
        versions = parse_row_versions(source.created_at, num_rows, path=where)
        stops = row_ids.starts + row_ids.runs.astype(np.uint64)
        first = np.searchsorted(ascending, row_ids.starts)
        counts = np.searchsorted(ascending, stops) - first
        found = np.repeat(first - (np.cumsum(counts) - counts), counts)
        found += np.arange(len(found))
        run = np.repeat(np.arange(len(counts)), counts)
        offsets = row_ids.positions[run] + (ascending[found] - row_ids.starts[run]).astype(np.int64)
        created[order[found]] = versions.versions_at(offsets)
    return RowVersions.from_versions(created)


def apply_reserve_fragments(draft: Manifest, operation: ReserveFragments) -> Manifest:
    """Ids that no other operation will give."""
    last = highest_fragment_id(draft) + operation.num_fragments
    if last > FRAGMENT_ID_MAX:
        raise InvalidInputError(
            f"{operation.num_fragments} fragments cannot be reserved: ids would end at {last}"
        )
    return replace(draft, max_fragment_id=_mark(last))


def apply_rewrite(draft: Manifest, operation: Rewrite) -> Manifest:
    """Groups of fragments in place of others, under the ids that were reserved."""
    old = [fragment.id for group in operation.groups for fragment in group.old_fragments]
    new = [fragment for group in operation.groups for fragment in group.new_fragments]
    draft = replace_fragments(draft, (), old)
    check_file_versions(new, draft)
    taken = {fragment.id for fragment in draft.fragments}.union(old)
    highest = highest_fragment_id(draft)
    for fragment in new:
        if fragment.id in taken or fragment.id > highest:
            raise InvalidInputError(
                f"fragment id {fragment.id} of a rewrite was not reserved for it"
            )
    if has_stable_row_ids(draft) and any(fragment.row_ids is None for fragment in new):
        raise InvalidInputError("rewritten fragments must carry the stable row ids of their rows")
    draft = replace(draft, fragments=(*draft.fragments, *new))
    return rewrite_indices(draft, operation)


def _mark(highest: int) -> int | None:
    return highest if highest >= 0 else None
