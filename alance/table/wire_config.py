"""Protobuf <-> edits of settings and metadata."""

from __future__ import annotations

from alance.proto import transaction_pb2 as transactions
from alance.table.operations import MapUpdate, UpdateConfig
from alance.table.wire import optional

__all__ = ["build_update_config", "parse_update_config"]


def parse_update_config(message: transactions.UpdateConfig, _path: str) -> UpdateConfig:
    """Edits of settings and metadata; the maps of old writers are read as what they meant."""
    config = _parse_map_update(message, "config_updates")
    if config is None and (message.upsert_values or message.delete_keys):
        removed: dict[str, str | None] = dict.fromkeys(message.delete_keys)
        config = MapUpdate({**removed, **message.upsert_values})
    schema_metadata = _parse_map_update(message, "schema_metadata_updates")
    if schema_metadata is None and message.schema_metadata:
        schema_metadata = MapUpdate(dict(message.schema_metadata), replace=True)
    of_fields = {
        field_id: MapUpdate(dict(old.metadata), replace=True)
        for field_id, old in message.field_metadata.items()
    }
    for field_id, update in message.field_metadata_updates.items():
        of_fields[field_id] = _map_update(update)
    table_metadata = _parse_map_update(message, "table_metadata_updates")
    return UpdateConfig(config, table_metadata, schema_metadata, of_fields)


def _parse_map_update(message: transactions.UpdateConfig, name: str) -> MapUpdate | None:
    return _map_update(getattr(message, name)) if message.HasField(name) else None


def _map_update(message: transactions.UpdateMap) -> MapUpdate:
    entries = {entry.key: optional(entry, "value") for entry in message.update_entries}
    return MapUpdate(entries, message.replace)


def build_update_config(operation: UpdateConfig) -> transactions.UpdateConfig:
    """Inverse of `parse_update_config`, in the form of today."""
    return transactions.UpdateConfig(
        config_updates=_build_optional(operation.config),
        table_metadata_updates=_build_optional(operation.table_metadata),
        schema_metadata_updates=_build_optional(operation.schema_metadata),
        field_metadata_updates={
            field_id: _build_map_update(update)
            for field_id, update in operation.field_metadata.items()
        },
    )


def _build_optional(update: MapUpdate | None) -> transactions.UpdateMap | None:
    return None if update is None else _build_map_update(update)


def _build_map_update(update: MapUpdate) -> transactions.UpdateMap:
    entries = [
        transactions.UpdateMap.Entry(key=key, value=value) for key, value in update.entries.items()
    ]
    return transactions.UpdateMap(update_entries=entries, replace=update.replace)
