"""What the operations have in common when they make the next manifest: numbering and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from alance.errors import InvalidInputError
from alance.table.features import Feature
from alance.table.indices import IndexMetadata
from alance.table.manifest import BasePath, Fragment, Manifest
from alance.table.row_ids import ROW_ID_MAX, RowIds
from alance.table.row_versions import RowVersions
from alance.table.wire import FRAGMENT_ID_MAX
from alance.table.wire_indices import build_indices, parse_indices
from alance.table.wire_rows import build_row_ids, build_row_versions, parse_row_ids
from alance.types import FileVersion

__all__ = [
    "add_bases",
    "add_fragments",
    "check_file_versions",
    "drop_dead_files",
    "edit_indices",
    "edit_map",
    "has_stable_row_ids",
    "highest_fragment_id",
    "indices_of",
    "replace_fragments",
]

BASE_ID_MAX = (1 << 32) - 1

DEAD_FIELD = -2
"""Field id of a slot in a data file that another file has replaced."""


def has_stable_row_ids(manifest: Manifest) -> bool:
    """Whether rows have lasting ids."""
    return bool(Feature.STABLE_ROW_IDS & manifest.writer_flags)


def highest_fragment_id(manifest: Manifest) -> int:
    """The highest id ever given to a fragment; -1 before the first."""
    used = [fragment.id for fragment in manifest.fragments]
    if manifest.max_fragment_id is not None:
        used.append(manifest.max_fragment_id)
    return max(used, default=-1)


def check_file_versions(fragments: Iterable[Fragment], manifest: Manifest) -> None:
    """Data files must have the table's version, unless it says that it mixes them."""
    if Feature.MIXED_FILE_VERSIONS & manifest.writer_flags:
        return
    expected: FileVersion = manifest.file_version
    for fragment in fragments:
        for file in fragment.files:
            if file.file_version is not expected:
                raise InvalidInputError(
                    f"data file {file.path} has version {file.file_version.value}, the dataset "
                    f"{expected.value}; write it with that version"
                )


def add_fragments(
    draft: Manifest,
    new: Sequence[Fragment],
    *,
    created_at: Callable[[RowIds], RowVersions] | None = None,
) -> Manifest:
    """Number new fragments and, where rows have lasting ids, those of their rows that have none.

    Parameters
    ----------
    draft
        The next version so far.
    new
        Their ids are disregarded.
    created_at
        Versions at which rows that brought their ids were created; None for the new one.
    """
    check_file_versions(new, draft)
    first = highest_fragment_id(draft) + 1
    last = first + len(new) - 1
    if last > FRAGMENT_ID_MAX:
        raise InvalidInputError(f"fragment ids are used up: the next would be {first}")
    numbered = [replace(fragment, id=first + i) for i, fragment in enumerate(new)]
    next_row_id = draft.next_row_id
    if has_stable_row_ids(draft):
        for i, fragment in enumerate(numbered):
            numbered[i], next_row_id = _number_rows(
                fragment, next_row_id, draft.version, created_at
            )
    return replace(
        draft,
        fragments=(*draft.fragments, *numbered),
        max_fragment_id=last if last >= 0 else None,
        next_row_id=next_row_id,
    )


def _number_rows(
    fragment: Fragment,
    next_row_id: int,
    version: int,
    created_at: Callable[[RowIds], RowVersions] | None,
) -> tuple[Fragment, int]:
    """Give ids to the rows behind those that have one; the fragment, and the next id."""
    num_rows = fragment.physical_rows
    where = f"fragment {fragment.id}"
    kept = parse_row_ids(fragment.row_ids or b"", num_rows, path=where, partial=True)
    num_new = num_rows - len(kept)
    stop = next_row_id + num_new
    if stop > ROW_ID_MAX:
        raise InvalidInputError(f"stable row ids are used up: the next is {next_row_id}")
    created = RowVersions.uniform(len(kept), version)
    if created_at is not None and len(kept):
        created = created_at(kept)
    row_ids = RowIds.concat([kept, RowIds.from_range(next_row_id, stop)])
    created = RowVersions.concat([created, RowVersions.uniform(num_new, version)])
    updated = RowVersions.uniform(num_rows, version)
    numbered = replace(
        fragment,
        row_ids=build_row_ids(row_ids),
        created_at=build_row_versions(created),
        last_updated_at=build_row_versions(updated),
    )
    return numbered, stop


def replace_fragments(
    draft: Manifest, updated: Sequence[Fragment], removed_ids: Iterable[int]
) -> Manifest:
    """Put the new state of some fragments in place of the old, and drop others.

    Raises
    ------
    InvalidInputError
        One of them is not in the table, or is named twice.
    """
    removed = list(removed_ids)
    named = [*removed, *(fragment.id for fragment in updated)]
    present = {fragment.id for fragment in draft.fragments}
    if len(set(named)) != len(named):
        raise InvalidInputError("a fragment is changed twice by one operation")
    if missing := set(named) - present:
        raise InvalidInputError(
            f"fragment {min(missing)} is not in version {draft.version - 1} of the dataset"
        )
    states = {fragment.id: fragment for fragment in updated}
    gone = set(removed)
    fragments = tuple(
        states.get(fragment.id, fragment) for fragment in draft.fragments if fragment.id not in gone
    )
    return replace(draft, fragments=fragments)


def drop_dead_files(fragment: Fragment, live_fields: set[int] | None = None) -> Fragment:
    """Without the data files whose slots are all replaced or, with `live_fields`, all dropped.

    Negative ids other than that of a replaced slot are hidden columns, which live on.
    """

    def lives(field_id: int) -> bool:
        if field_id < 0:
            return field_id != DEAD_FIELD
        return live_fields is None or field_id in live_fields

    kept = tuple(file for file in fragment.files if not file.fields or any(map(lives, file.fields)))
    return fragment if len(kept) == len(fragment.files) else replace(fragment, files=kept)


def add_bases(draft: Manifest, new: Sequence[BasePath]) -> Manifest:
    """Add base paths; an id of 0 asks for the first free one, from 1.

    Raises
    ------
    InvalidInputError
        An id, a name or a path is taken; ids are used up.
    """
    bases = list(draft.base_paths)
    for base in new:
        if base.id == 0:
            taken = {known.id for known in bases}
            base = replace(base, id=next(i for i in count(1) if i not in taken))
        if base.id > BASE_ID_MAX:
            raise InvalidInputError("ids of base paths are used up")
        for known in bases:
            same = [
                what
                for what, mine, theirs in (
                    ("id", base.id, known.id),
                    ("path", base.path, known.path),
                    ("name", base.name, known.name),
                )
                if mine is not None and mine == theirs
            ]
            if same:
                raise InvalidInputError(
                    f"base path {base.path} has the {same[0]} of {known.path}, which the dataset "
                    "has already"
                )
        bases.append(base)
    return replace(draft, base_paths=tuple(bases))


def indices_of(manifest: Manifest) -> tuple[IndexMetadata, ...]:
    """Index segments of a manifest.

    Raises
    ------
    CorruptFileError
        Its index section is damaged.
    """
    return parse_indices(
        manifest.index_section, path=f"the index section of version {manifest.version}"
    )


def edit_indices(draft: Manifest, indices: Iterable[IndexMetadata]) -> Manifest:
    """With other index segments; bytes stay as they are when nothing changes."""
    edited = tuple(indices)
    if edited == indices_of(draft):
        return draft
    return replace(draft, index_section=build_indices(edited, like=draft.index_section))


def edit_map(values: Mapping[str, str], entries: Mapping[str, str | None]) -> dict[str, str]:
    """A map after some keys got a value; None removes the key."""
    merged = {**values, **entries}
    return {key: value for key, value in merged.items() if value is not None}
