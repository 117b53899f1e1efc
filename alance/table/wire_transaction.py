"""Protobuf <-> transactions: one arm of the format's oneof for each operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from google.protobuf.message import Message

from alance.errors import InvalidInputError
from alance.file.metadata import build_field
from alance.proto import table_pb2 as tables
from alance.proto import transaction_pb2 as transactions
from alance.table.manifest import Fragment
from alance.table.operations import (
    Append,
    MapUpdate,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    UpdateConfig,
)
from alance.table.transaction import Transaction
from alance.table.wire import (
    decode,
    fragment_from_message,
    fragment_to_message,
    optional,
    schema_from_messages,
    unknown_bytes,
)

__all__ = ["build_transaction", "parse_transaction"]

_ARMS: Mapping[str, str] = MappingProxyType({
    "append": "Append",
    "delete": "Delete",
    "overwrite": "Overwrite",
    "create_index": "CreateIndex",
    "rewrite": "Rewrite",
    "merge": "Merge",
    "restore": "Restore",
    "reserve_fragments": "ReserveFragments",
    "update": "Update",
    "project": "Project",
    "update_config": "UpdateConfig",
    "data_replacement": "DataReplacement",
    "update_mem_wal_state": "UpdateMemWalState",
    "clone": "Clone",
    "update_bases": "UpdateBases",
    "data_overlay": "DataOverlay",
})
_ARM_OF = MappingProxyType({name: arm for arm, name in _ARMS.items()})


def parse_transaction(data: bytes | memoryview, *, path: str) -> Transaction:
    """Read a transaction file, or the transaction section of a manifest.

    Parameters
    ----------
    data
        The message.
    path
        For messages.

    Raises
    ------
    CorruptFileError
        The bytes are no transaction.
    """
    message = decode(transactions.Transaction, data, path)
    return Transaction(
        read_version=message.read_version,
        uuid=message.uuid,
        operation=_parse_operation(message, path),
        tag=message.tag,
        properties=dict(message.transaction_properties),
    )


def build_transaction(transaction: Transaction) -> bytes:
    """Transaction as bytes: the whole content of a transaction file."""
    message = transactions.Transaction(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        tag=transaction.tag,
        transaction_properties=transaction.properties,
    )
    operation = transaction.operation
    if isinstance(operation, Other):
        if arm := _ARM_OF.get(operation.name):
            setattr(message, arm, operation.raw)
        else:
            message.MergeFromString(operation.raw)
    else:
        getattr(message, _ARM_OF[operation.name]).CopyFrom(_build_operation(operation))
    return message.SerializeToString(deterministic=True)


def _parse_operation(message: transactions.Transaction, path: str) -> Operation:
    arm = message.WhichOneof("operation")
    if arm is None:
        return Other("Unknown", unknown_bytes(message))
    body = getattr(message, arm)
    match arm:
        case "append":
            return Append(_parse_fragments(body.fragments, path))
        case "overwrite":
            return Overwrite(
                _parse_fragments(body.fragments, path),
                schema_from_messages(body.schema, body.schema_metadata, path),
                config=dict(body.config_upsert_values),
            )
        case "merge":
            return Merge(
                _parse_fragments(body.fragments, path),
                schema_from_messages(body.schema, body.schema_metadata, path),
                body.preserves_nullability,
            )
        case "project":
            return Project(schema_from_messages(body.schema, {}, path), body.preserves_nullability)
        case "update_config":
            return _parse_update_config(body)
        case _:
            return Other(_ARMS[arm], body)


def _parse_fragments(messages: Iterable[tables.DataFragment], path: str) -> tuple[Fragment, ...]:
    return tuple(fragment_from_message(fragment, path) for fragment in messages)


def _parse_update_config(message: transactions.UpdateConfig) -> UpdateConfig:
    """The maps of old writers are read as what they meant."""
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


def _build_operation(operation: Operation) -> Message:
    match operation:
        case Append():
            return transactions.Append(fragments=map(fragment_to_message, operation.fragments))
        case Overwrite():
            return transactions.Overwrite(
                fragments=map(fragment_to_message, operation.fragments),
                schema=map(build_field, operation.schema.fields),
                schema_metadata=operation.schema.metadata,
                config_upsert_values=operation.config,
            )
        case Merge():
            return transactions.Merge(
                fragments=map(fragment_to_message, operation.fragments),
                schema=map(build_field, operation.schema.fields),
                schema_metadata=operation.schema.metadata,
                preserves_nullability=operation.preserves_nullability,
            )
        case Project():
            return transactions.Project(
                schema=map(build_field, operation.schema.fields),
                preserves_nullability=operation.preserves_nullability,
            )
        case UpdateConfig():
            return transactions.UpdateConfig(
                config_updates=_build_optional(operation.config),
                table_metadata_updates=_build_optional(operation.table_metadata),
                schema_metadata_updates=_build_optional(operation.schema_metadata),
                field_metadata_updates={
                    field_id: _build_map_update(update)
                    for field_id, update in operation.field_metadata.items()
                },
            )
        case _:
            raise InvalidInputError(f"this library does not record {operation.name} operations")


def _build_optional(update: MapUpdate | None) -> transactions.UpdateMap | None:
    return None if update is None else _build_map_update(update)


def _build_map_update(update: MapUpdate) -> transactions.UpdateMap:
    entries = [
        transactions.UpdateMap.Entry(key=key, value=value) for key, value in update.entries.items()
    ]
    return transactions.UpdateMap(update_entries=entries, replace=update.replace)
