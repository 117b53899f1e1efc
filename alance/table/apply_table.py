"""Operations on the table as a whole: its settings, its base paths, an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
        _edit_field(field, operation.field_metadata.get(field.id)) for field in schema.fields
    )
    if unknown := operation.field_metadata.keys() - {field.id for field in schema.fields}:
        raise InvalidInputError(f"the schema has no field with id {min(unknown)}")
    return replace(
        draft,
        config=_edit(draft.config, operation.config),
        table_metadata=_edit(draft.table_metadata, operation.table_metadata),
        schema=Schema(fields, _edit_bytes(schema.metadata, operation.schema_metadata)),
    )


def _edit_field(field: Field, update: MapUpdate | None) -> Field:
    return replace(field, metadata=_edit_bytes(field.metadata, update))


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
        branch=draft.branch,
        max_fragment_id=highest if highest >= 0 else None,
        next_row_id=max(draft.next_row_id, source.next_row_id),
    )
