"""Operations on the table as a whole: its settings, its base paths, an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from alance.errors import InvalidInputError
from alance.file.schema import Field, Schema
from alance.table.draft import add_bases, edit_map, highest_fragment_id
from alance.table.manifest import Manifest
from alance.table.operations import MapUpdate, Restore, UpdateBases, UpdateConfig

__all__ = ["apply_restore", "apply_update_bases", "apply_update_config"]


def apply_update_config(draft: Manifest, operation: UpdateConfig) -> Manifest:
    """Maps of settings and metadata edited."""
    schema = draft.schema
    fields = tuple(
        _edit_field(schema, field, operation.field_metadata.get(field.id))
        for field in schema.fields
    )
    if unknown := operation.field_metadata.keys() - {field.id for field in schema.fields}:
        raise InvalidInputError(f"the schema has no field with id {min(unknown)}")
    return replace(
        draft,
        config=_edit(draft.config, operation.config),
        table_metadata=_edit(draft.table_metadata, operation.table_metadata),
        schema=Schema(fields, _edit_bytes(schema.metadata, operation.schema_metadata)),
    )


def _edit_field(schema: Schema, field: Field, update: MapUpdate | None) -> Field:
    """Other metadata; they may make a field part of a key, which is then for good."""
    if update is None:
        return field
    edited = field.with_metadata(_edit_bytes(field.metadata, update))
    for what, key in _KEYS.items():
        if key(edited) == key(field):
            continue
        if any(key(known) != (False, 0) for known in schema.fields):
            raise InvalidInputError(
                f"field {field.name}: the unenforced {what} key cannot be changed once it is set"
            )
        if what == "primary" and _may_be_null(schema, field):
            raise InvalidInputError(
                f"field {field.name} cannot be in the primary key: it, or one above it, is nullable"
            )
    return edited


def _primary(field: Field) -> tuple[bool, int]:
    return field.unenforced_primary_key, field.unenforced_primary_key_position


def _clustering(field: Field) -> tuple[bool, int]:
    return field.unenforced_clustering_key, field.unenforced_clustering_key_position


_KEYS = MappingProxyType({"primary": _primary, "clustering": _clustering})


def _may_be_null(schema: Schema, field: Field) -> bool:
    fields = {known.id: known for known in schema.fields}
    while not field.nullable and field.parent_id in fields:
        field = fields[field.parent_id]
    return field.nullable


def _edit(values: Mapping[str, str], update: MapUpdate | None) -> Mapping[str, str]:
    if update is None:
        return values
    return edit_map({} if update.replace else values, update.entries)


def _edit_bytes(values: Mapping[str, bytes], update: MapUpdate | None) -> Mapping[str, bytes]:
    if update is None:
        return values
    kept = {} if update.replace else dict(values)
    for key, value in update.entries.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = value.encode()
    return kept


def apply_update_bases(draft: Manifest, operation: UpdateBases) -> Manifest:
    """Base paths added."""
    return add_bases(draft, operation.new_bases)


def apply_restore(draft: Manifest, operation: Restore, source: Manifest | None) -> Manifest:
    """An earlier version again; ids given since then are not given a second time."""
    if source is None or source.version != operation.version:
        raise InvalidInputError(f"to restore version {operation.version} takes its manifest")
    highest = max(highest_fragment_id(draft), highest_fragment_id(source))
    return replace(
        source,
        version=draft.version,
        naming=draft.naming,
        reader_flags=source.reader_flags | draft.reader_flags,  # of which some are set for good
        writer_flags=source.writer_flags | draft.writer_flags,
        branch=draft.branch,
        max_fragment_id=highest if highest >= 0 else None,
        next_row_id=max(draft.next_row_id, source.next_row_id),
    )
