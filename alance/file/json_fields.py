"""JSON columns: text in Arrow, a binary form in files; what the fields of both look like."""

from __future__ import annotations

import pyarrow as pa

from alance.file.types import EXTENSION_METADATA, EXTENSION_NAME

__all__ = ["ARROW_JSON", "LANCE_JSON", "as_text", "is_json_text", "is_stored_json"]

ARROW_JSON = "arrow.json"
LANCE_JSON = "lance.json"


def is_stored_json(field: pa.Field) -> bool:
    """Whether a field without extension types holds JSON as it lies in files."""
    name = (field.metadata or {}).get(EXTENSION_NAME.encode())
    return pa.types.is_large_binary(field.type) and name == LANCE_JSON.encode()


def is_json_text(kind: pa.DataType, extension: str) -> bool:
    """Whether a storage type and the name of its extension type are those of JSON as text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return extension == ARROW_JSON and any(test(kind) for test in tests)


def as_text(field: pa.Field) -> pa.Field:
    """Field with JSON as text in place of the stored form, at any depth."""
    if is_stored_json(field):
        key, parameters = EXTENSION_NAME.encode(), EXTENSION_METADATA.encode()
        metadata = {parameters: b"", **field.metadata, key: ARROW_JSON.encode()}
        return field.with_type(pa.string()).with_metadata(metadata)
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([as_text(member) for member in kind]))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(as_text(kind.key_field), as_text(kind.item_field)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(as_text(kind.value_field)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(as_text(kind.value_field)))
    if pa.types.is_fixed_size_list(kind):
        return field.with_type(pa.list_(as_text(kind.value_field), kind.list_size))
    return field
