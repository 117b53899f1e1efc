"""Protobuf <-> operations: one arm of the format's oneof for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from alance.file.metadata import build_field
from alance.proto import table_pb2 as tables
from alance.proto import transaction_pb2 as transactions
from alance.table.indices import parse_bitmap
from alance.table.manifest import Fragment
from alance.table.naming import VERSION_MAX
from alance.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateBases,
    UpdateMode,
)
from alance.table.wire import (
    FRAGMENT_ID_MAX,
    base_path_from_message,
    base_path_to_message,
    data_file_from_message,
    data_file_to_message,
    fragment_from_message,
    fragment_to_message,
    optional,
    schema_from_messages,
    unknown_bytes,
)
from alance.table.wire_config import build_update_config, parse_update_config
from alance.table.wire_indices import (
    any_from_bytes,
    any_to_bytes,
    files_from_messages,
    files_to_messages,
    index_from_message,
    index_to_message,
    uuid_from_message,
    uuid_to_message,
)

__all__ = ["build_operation", "parse_operation"]

FIELD_ID_MAX = (1 << 31) - 1


def parse_operation(message: transactions.Transaction, path: str) -> Operation:
    """Operation of a transaction, checked as far as it can be alone.

    Raises
    ------
    CorruptFileError
        An id, a uuid or a fragment in it is none.
    UnsupportedFeatureError
        It holds a kind of file or a mode that this library does not know.
    """
    arm = message.WhichOneof("operation")
    if arm is None:
        return Other("Unknown", unknown_bytes(message))
    body = getattr(message, arm)
    if parse := _PARSERS.get(arm):
        return parse(body, path)
    return Other(_UNREAD[arm], body)


def build_operation(operation: Operation, message: transactions.Transaction) -> None:
    """Put an operation into the message of its transaction."""
    if isinstance(operation, Other):
        arms = {name: arm for arm, name in _UNREAD.items()}
        if arm := arms.get(operation.name):
            setattr(message, arm, operation.raw)
        elif operation.name == "Unknown":
            message.MergeFromString(operation.raw)
        else:
            raise InvalidInputError(f"{operation.name} operations are not recorded as mere bytes")
        return
    arm, build = _BUILDERS[operation.name]
    getattr(message, arm).CopyFrom(build(operation))


def _parse_append(body: transactions.Append, path: str) -> Append:
    return Append(_parse_fragments(body.fragments, path))


def _build_append(operation: Append) -> Message:
    return transactions.Append(fragments=map(fragment_to_message, operation.fragments))


def _parse_delete(body: transactions.Delete, path: str) -> Delete:
    return Delete(
        _parse_fragments(body.updated_fragments, path),
        _parse_ids(body.deleted_fragment_ids, FRAGMENT_ID_MAX, "fragment", path),
        body.predicate,
    )


def _build_delete(operation: Delete) -> Message:
    return transactions.Delete(
        updated_fragments=map(fragment_to_message, operation.updated_fragments),
        deleted_fragment_ids=operation.deleted_fragment_ids,
        predicate=operation.predicate,
    )


def _parse_overwrite(body: transactions.Overwrite, path: str) -> Overwrite:
    return Overwrite(
        _parse_fragments(body.fragments, path),
        schema_from_messages(body.schema, body.schema_metadata, path),
        config=dict(body.config_upsert_values),
        initial_bases=tuple(map(base_path_from_message, body.initial_bases)),
    )


def _build_overwrite(operation: Overwrite) -> Message:
    return transactions.Overwrite(
        fragments=map(fragment_to_message, operation.fragments),
        schema=map(build_field, operation.schema.fields),
        schema_metadata=operation.schema.metadata,
        config_upsert_values=operation.config,
        initial_bases=map(base_path_to_message, operation.initial_bases),
    )


def _parse_create_index(body: transactions.CreateIndex, path: str) -> CreateIndex:
    return CreateIndex(
        tuple(index_from_message(index, path) for index in body.new_indices),
        tuple(index_from_message(index, path) for index in body.removed_indices),
    )


def _build_create_index(operation: CreateIndex) -> Message:
    return transactions.CreateIndex(
        new_indices=map(index_to_message, operation.new_indices),
        removed_indices=map(index_to_message, operation.removed_indices),
    )


def _parse_rewrite(body: transactions.Rewrite, path: str) -> Rewrite:
    groups: list[Any] = list(body.groups)
    if not groups and (body.old_fragments or body.new_fragments):
        groups = [body]
    return Rewrite(
        tuple(
            RewriteGroup(
                _parse_fragments(group.old_fragments, path),
                _parse_fragments(group.new_fragments, path),
            )
            for group in groups
        ),
        tuple(_parse_rewritten(index, path) for index in body.rewritten_indices),
    )


def _parse_rewritten(message: transactions.Rewrite.RewrittenIndex, path: str) -> RewrittenIndex:
    return RewrittenIndex(
        uuid_from_message(message, "old_id", path),
        uuid_from_message(message, "new_id", path),
        any_to_bytes(message, "new_index_details"),
        message.new_index_version,
        files_from_messages(message.new_index_files, path),
        unknown_bytes(message),
    )


def _build_rewrite(operation: Rewrite) -> Message:
    groups = [
        transactions.Rewrite.Group(
            old_fragments=map(fragment_to_message, group.old_fragments),
            new_fragments=map(fragment_to_message, group.new_fragments),
        )
        for group in operation.groups
    ]
    rewritten = map(_build_rewritten, operation.rewritten_indices)
    return transactions.Rewrite(groups=groups, rewritten_indices=rewritten)


def _build_rewritten(index: RewrittenIndex) -> transactions.Rewrite.RewrittenIndex:
    message = transactions.Rewrite.RewrittenIndex(
        old_id=uuid_to_message(index.old_id),
        new_id=uuid_to_message(index.new_id),
        new_index_details=any_from_bytes(index.new_index_details),
        new_index_version=index.new_index_version,
        new_index_files=files_to_messages(index.new_index_files),
    )
    message.MergeFromString(index.unknown)
    return message


def _parse_merge(body: transactions.Merge, path: str) -> Merge:
    return Merge(
        _parse_fragments(body.fragments, path),
        schema_from_messages(body.schema, body.schema_metadata, path),
        body.preserves_nullability,
    )


def _build_merge(operation: Merge) -> Message:
    return transactions.Merge(
        fragments=map(fragment_to_message, operation.fragments),
        schema=map(build_field, operation.schema.fields),
        schema_metadata=operation.schema.metadata,
        preserves_nullability=operation.preserves_nullability,
    )


def _parse_restore(body: transactions.Restore, path: str) -> Restore:
    if not 1 <= body.version <= VERSION_MAX:
        raise CorruptFileError(f"{path}: restores version {body.version}", path=path)
    return Restore(body.version)


def _parse_update(body: transactions.Update, path: str) -> Update:
    mode = None
    if body.HasField("update_mode"):
        try:
            mode = UpdateMode(body.update_mode)
        except ValueError:
            raise UnsupportedFeatureError(
                f"{path}: updates in mode {body.update_mode}, which this library does not know",
                feature=f"update mode {body.update_mode}",
            ) from None
    bitmaps = dict(body.updated_fragment_offset_bitmaps)
    _parse_ids(bitmaps, FRAGMENT_ID_MAX, "fragment", path)
    for data in bitmaps.values():
        parse_bitmap(data, path)
    preserved = body.fields_for_preserving_frag_bitmap
    return Update(
        _parse_ids(body.removed_fragment_ids, FRAGMENT_ID_MAX, "fragment", path),
        _parse_fragments(body.updated_fragments, path),
        _parse_fragments(body.new_fragments, path),
        _parse_ids(body.fields_modified, FIELD_ID_MAX, "field", path),
        _parse_ids(preserved, FIELD_ID_MAX, "field", path),
        mode,
        optional(body, "inserted_rows"),
        bitmaps,
        unknown_bytes(body),
    )


def _build_update(operation: Update) -> Message:
    mode = operation.update_mode
    message = transactions.Update(
        removed_fragment_ids=operation.removed_fragment_ids,
        updated_fragments=map(fragment_to_message, operation.updated_fragments),
        new_fragments=map(fragment_to_message, operation.new_fragments),
        fields_modified=operation.fields_modified,
        fields_for_preserving_frag_bitmap=operation.fields_for_preserving_frag_bitmap,
        update_mode=None if mode is None else transactions.Update.Mode.Name(mode.value),
        inserted_rows=operation.inserted_rows,
        updated_fragment_offset_bitmaps=operation.updated_fragment_offset_bitmaps,
    )
    message.MergeFromString(operation.unknown)
    return message


def _parse_project(body: transactions.Project, path: str) -> Project:
    return Project(schema_from_messages(body.schema, {}, path), body.preserves_nullability)


def _build_project(operation: Project) -> Message:
    return transactions.Project(
        schema=map(build_field, operation.schema.fields),
        preserves_nullability=operation.preserves_nullability,
    )


def _parse_data_replacement(body: transactions.DataReplacement, path: str) -> DataReplacement:
    replacements = []
    for group in body.replacements:
        (fragment_id,) = _parse_ids([group.fragment_id], FRAGMENT_ID_MAX, "fragment", path)
        where = f"{path}: fragment {fragment_id}"
        replacements.append(
            Replacement(fragment_id, data_file_from_message(group.new_file, where, path))
        )
    return DataReplacement(tuple(replacements))


def _build_data_replacement(operation: DataReplacement) -> Message:
    groups = [
        transactions.DataReplacement.Group(
            fragment_id=each.fragment_id, new_file=data_file_to_message(each.new_file)
        )
        for each in operation.replacements
    ]
    return transactions.DataReplacement(replacements=groups)


def _parse_clone(body: transactions.Clone, _path: str) -> Clone:
    return Clone(
        body.is_shallow,
        optional(body, "ref_name"),
        body.ref_version,
        body.ref_path,
        optional(body, "branch_name"),
    )


def _build_clone(operation: Clone) -> Message:
    return transactions.Clone(
        is_shallow=operation.is_shallow,
        ref_name=operation.ref_name,
        ref_version=operation.ref_version,
        ref_path=operation.ref_path,
        branch_name=operation.branch_name,
    )


def _parse_fragments(messages: Iterable[tables.DataFragment], path: str) -> tuple[Fragment, ...]:
    return tuple(fragment_from_message(fragment, path) for fragment in messages)


def _parse_ids(ids: Iterable[int], id_max: int, what: str, path: str) -> tuple[int, ...]:
    found = tuple(ids)
    if found and max(found) > id_max:
        raise CorruptFileError(f"{path}: {max(found)} is no {what} id", path=path)
    return found


_UNREAD: Mapping[str, str] = MappingProxyType({
    "update_mem_wal_state": "UpdateMemWalState",
    "data_overlay": "DataOverlay",
})
"""Arms whose content is kept as it came, with the names of the operations."""

_PARSERS: Mapping[str, Callable[[Any, str], Operation]] = MappingProxyType({
    "append": _parse_append,
    "delete": _parse_delete,
    "overwrite": _parse_overwrite,
    "create_index": _parse_create_index,
    "rewrite": _parse_rewrite,
    "merge": _parse_merge,
    "restore": _parse_restore,
    "reserve_fragments": lambda body, _: ReserveFragments(body.num_fragments),
    "update": _parse_update,
    "project": _parse_project,
    "update_config": parse_update_config,
    "data_replacement": _parse_data_replacement,
    "clone": _parse_clone,
    "update_bases": lambda body, _: UpdateBases(tuple(map(base_path_from_message, body.new_bases))),
})

_BUILDERS: Mapping[str, tuple[str, Callable[[Any], Message]]] = MappingProxyType({
    "Append": ("append", _build_append),
    "Delete": ("delete", _build_delete),
    "Overwrite": ("overwrite", _build_overwrite),
    "CreateIndex": ("create_index", _build_create_index),
    "Rewrite": ("rewrite", _build_rewrite),
    "Merge": ("merge", _build_merge),
    "Restore": ("restore", lambda it: transactions.Restore(version=it.version)),
    "ReserveFragments": (
        "reserve_fragments",
        lambda it: transactions.ReserveFragments(num_fragments=it.num_fragments),
    ),
    "Update": ("update", _build_update),
    "Project": ("project", _build_project),
    "UpdateConfig": ("update_config", build_update_config),
    "DataReplacement": ("data_replacement", _build_data_replacement),
    "Clone": ("clone", _build_clone),
    "UpdateBases": (
        "update_bases",
        lambda it: transactions.UpdateBases(new_bases=map(base_path_to_message, it.new_bases)),
    ),
})
