"""Blob columns of file version 2.2 in schemas: as datasets list them, and as data files do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from alance.file.fields import BLOB, PACKED, Field, Node
from alance.file.schema import Schema
from alance.file.types import BLOB_V2, EXTENSION_METADATA, EXTENSION_NAME

__all__ = ["as_blobs", "as_descriptors"]

VALUE = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
"""What a dataset lists below a blob column: the two ways to give a value."""
MEMBERS = (
    ("kind", "uint8", 1),
    ("position", "uint64", 1),
    ("size", "uint64", 1),
    ("blob_id", "uint32", 1),
    ("blob_uri", "string", 2),
)
"""Name, type and legacy hint of the members of a descriptor."""


def as_blobs(schema: pa.Schema) -> pa.Schema:
    """Make large binaries that ask to be blobs the columns that datasets of version 2.2 have."""
    return pa.schema([_as_blob(field) for field in schema], metadata=schema.metadata)


def _as_blob(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    kind = field.type
    if metadata.get(BLOB.encode(), b"").lower() == b"true" and pa.types.is_large_binary(kind):
        del metadata[BLOB.encode()]
        metadata[EXTENSION_NAME.encode()] = BLOB_V2.encode()
        return pa.field(field.name, VALUE, field.nullable, metadata)
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_as_blob(member) for member in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_as_blob(kind.value_field)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(_as_blob(kind.value_field)))
    if pa.types.is_map(kind) and not kind.keys_sorted:
        return field.with_type(pa.map_(kind.key_field, _as_blob(kind.item_field)))
    return field


def as_descriptors(schema: Schema) -> Schema:
    """Schema as the data file lists it: blob columns are packed structs without members' ids."""
    fields = [entry for root in schema.roots for entry in _described(root)]
    return Schema(tuple(fields), schema.metadata)


def _described(node: Node) -> Iterator[Field]:
    entry = node.field
    if not entry.is_blob_v2:
        yield entry
        for child in node.children:
            yield from _described(child)
        return
    extension = (EXTENSION_NAME, EXTENSION_METADATA)
    metadata = {key: value for key, value in entry.metadata.items() if key not in extension}
    metadata |= {BLOB: b"true", PACKED: b"true"}
    yield replace(entry, metadata=metadata, extension_name="")
    for name, logical_type, hint in MEMBERS:
        yield Field(name, -1, -1, logical_type, nullable=False, encoding=hint)
