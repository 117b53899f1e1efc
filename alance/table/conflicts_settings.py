"""Pairs of operations of which at least one changes settings or metadata: pure."""

from __future__ import annotations

from collections.abc import Mapping

from alance.table.conflicts_rules import Verdict, incompatible_if, retry_if
from alance.table.operations import (
    MapUpdate,
    Merge,
    Overwrite,
    Project,
    Restore,
    UpdateBases,
    UpdateConfig,
)

__all__ = [
    "bases",
    "config_after_overwrite",
    "config_after_project",
    "config_after_restore",
    "config_and_merge",
    "configs",
    "overwrite_after_config",
    "overwrites",
    "restore_after_config",
]


def overwrites(mine: Overwrite, theirs: Overwrite) -> Verdict:
    """Neither may undo a setting of the other."""
    return Verdict.INCOMPATIBLE if mine.config.keys() & theirs.config.keys() else Verdict.RETRY


def overwrite_after_config(mine: Overwrite, theirs: UpdateConfig) -> Verdict:
    """Only settings survive an overwrite, so only they can collide."""
    return incompatible_if(_set_twice(mine.config, _entries(theirs.config)))


def config_after_overwrite(mine: UpdateConfig, theirs: Overwrite) -> Verdict:
    """The schema is another one, with other metadata and other fields."""
    if _describes_schema(mine):
        return Verdict.INCOMPATIBLE
    return incompatible_if(_set_twice(_entries(mine.config), theirs.config))


def config_after_project(mine: UpdateConfig, theirs: Project) -> Verdict:
    """A field that was dropped has no metadata."""
    ids = {field.id for field in theirs.schema.fields}
    return incompatible_if(not ids.issuperset(_changed(mine.field_metadata)))


def config_after_restore(mine: UpdateConfig, _theirs: Restore) -> Verdict:
    """The schema may be another one."""
    return incompatible_if(_describes_schema(mine))


def restore_after_config(_mine: Restore, theirs: UpdateConfig) -> Verdict:
    """What was said of the schema would be lost unseen."""
    return incompatible_if(_describes_schema(theirs))


def config_and_merge(mine: UpdateConfig | Merge, theirs: UpdateConfig | Merge) -> Verdict:
    """A merge carries the whole schema with its metadata."""
    changes = [change for change in (mine, theirs) if isinstance(change, UpdateConfig)]
    return retry_if(any(map(_describes_schema, changes)))


def configs(mine: UpdateConfig, theirs: UpdateConfig) -> Verdict:
    """Settings and the table's metadata go by key; those of the schema or of a field are a whole.

    A setting may be removed twice, and others may be set while all are replaced.
    """
    fields = _changed(mine.field_metadata) & _changed(theirs.field_metadata)
    return incompatible_if(
        _set_twice(_entries(mine.config), _entries(theirs.config))
        or _collide(mine.table_metadata, theirs.table_metadata)
        or (_changes(mine.schema_metadata) and _changes(theirs.schema_metadata))
        or bool(fields)
    )


def bases(mine: UpdateBases, theirs: UpdateBases) -> Verdict:
    """Base paths differ in id, name and place; an id of 0 is yet to be given."""
    taken = theirs.new_bases
    ids = {base.id for base in taken if base.id}
    names = {base.name for base in taken if base.name is not None}
    paths = {base.path for base in taken}
    return incompatible_if(
        any(base.id in ids or base.name in names or base.path in paths for base in mine.new_bases)
    )


def _describes_schema(operation: UpdateConfig) -> bool:
    """Whether metadata of the schema or of a field changes."""
    return _changes(operation.schema_metadata) or bool(_changed(operation.field_metadata))


def _changes(update: MapUpdate | None) -> bool:
    return update is not None and (update.replace or bool(update.entries))


def _changed(by_field: Mapping[int, MapUpdate]) -> set[int]:
    return {field_id for field_id, update in by_field.items() if _changes(update)}


def _entries(update: MapUpdate | None) -> Mapping[str, str | None]:
    return {} if update is None else update.entries


def _set_twice(mine: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> bool:
    """Whether two changes of the settings touch a key that at least one of them gives a value."""
    shared = mine.keys() & theirs.keys()
    return any(mine[key] is not None or theirs[key] is not None for key in shared)


def _collide(mine: MapUpdate | None, theirs: MapUpdate | None) -> bool:
    """Whether two changes of one map touch the same key; to replace it touches all of them."""
    if mine is None or theirs is None:
        return False
    if mine.replace or theirs.replace:
        return _changes(mine) and _changes(theirs)
    return bool(mine.entries.keys() & theirs.entries.keys())
