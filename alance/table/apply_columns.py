"""Operations on columns: added, cast, dropped, renamed, or their files replaced."""

from __future__ import annotations

from dataclasses import replace

from alance.errors import InvalidInputError
from alance.file.schema import Schema
from alance.table.apply_indices import prune_indices, uncover_fragments
from alance.table.draft import check_file_versions, drop_dead_files, has_stable_row_ids
from alance.table.manifest import DataFile, Fragment, Manifest
from alance.table.operations import DataReplacement, Merge, Project
from alance.table.row_versions import RowVersions
from alance.table.wire_rows import build_row_versions

__all__ = ["apply_data_replacement", "apply_merge", "apply_project"]


def apply_merge(draft: Manifest, operation: Merge) -> Manifest:
    """All fragments and the schema as the operation says; rows of changed files are updated."""
    check_file_versions(operation.fragments, draft)
    before = {fragment.id: fragment for fragment in draft.fragments}
    if missing := before.keys() - {fragment.id for fragment in operation.fragments}:
        raise InvalidInputError(
            f"the operation adds columns, but leaves out fragment {min(missing)}"
        )
    fragments = operation.fragments
    if has_stable_row_ids(draft):
        fragments = tuple(
            fragment
            if fragment.id in before and before[fragment.id].files == fragment.files
            else _updated_at(fragment, draft.version)
            for fragment in fragments
        )
    draft = replace(draft, fragments=fragments, schema=operation.schema)
    changed = {
        fragment.id: _moved_fields(before[fragment.id], fragment)
        for fragment in fragments
        if fragment.id in before and before[fragment.id].files != fragment.files
    }
    return prune_indices(uncover_fragments(draft, changed))


def _moved_fields(before: Fragment, now: Fragment) -> set[int]:
    """Ids of fields whose values are in another file, or were in none."""
    known = {(i, file.path, file.base_id) for file in before.files for i in file.fields}
    return {
        i
        for file in now.files
        for i in file.fields
        if i >= 0 and (i, file.path, file.base_id) not in known
    }


def apply_project(draft: Manifest, operation: Project) -> Manifest:
    """The schema as the operation says; files of which no column is left go."""
    schema = Schema(operation.schema.fields, draft.schema.metadata)
    live = {field.id for field in schema.fields}
    fragments = tuple(drop_dead_files(fragment, live) for fragment in draft.fragments)
    return prune_indices(replace(draft, fragments=fragments, schema=schema))


def apply_data_replacement(draft: Manifest, operation: DataReplacement) -> Manifest:
    """A new file in place of the one with the same fields, or for fields that had none.

    Indices of these fields do not hold for the fragments any more.
    """
    new_files = {each.fragment_id: each.new_file for each in operation.replacements}
    if len(new_files) != len(operation.replacements):
        raise InvalidInputError("a fragment gets two data files by one operation")
    if len({file.fields for file in new_files.values()}) > 1:
        raise InvalidInputError("the data files of a replacement must all have the same fields")
    if missing := new_files.keys() - {fragment.id for fragment in draft.fragments}:
        raise InvalidInputError(f"fragment {min(missing)} is not in the dataset")
    fragments = tuple(
        _with_file(fragment, new_files[fragment.id]) if fragment.id in new_files else fragment
        for fragment in draft.fragments
    )
    check_file_versions((f for f in fragments if f.id in new_files), draft)
    if has_stable_row_ids(draft):
        fragments = tuple(
            _updated_at(fragment, draft.version) if fragment.id in new_files else fragment
            for fragment in fragments
        )
    changed = {fragment_id: file.fields for fragment_id, file in new_files.items()}
    return uncover_fragments(replace(draft, fragments=fragments), changed)


def _with_file(fragment: Fragment, new: DataFile) -> Fragment:
    files = tuple(
        new if file.fields == new.fields and file.file_version is new.file_version else file
        for file in fragment.files
    )
    if not {field for file in files for field in file.fields}.intersection(new.fields):
        files = (*files, new)
    if files == fragment.files:
        raise InvalidInputError(
            f"data file {new.path} replaces none of fragment {fragment.id}: none has just its "
            f"fields {list(new.fields)}, or it is there already"
        )
    return replace(fragment, files=files)


def _updated_at(fragment: Fragment, version: int) -> Fragment:
    versions = RowVersions.uniform(fragment.physical_rows, version)
    return replace(fragment, last_updated_at=build_row_versions(versions))
