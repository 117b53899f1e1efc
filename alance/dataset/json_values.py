"""JSON columns at any depth: from text to the form they have in files, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alance.encodings.jsonb import from_text, to_text
from alance.errors import FormatError, InvalidInputError
from alance.file.json_fields import is_stored_json

__all__ = ["read_json", "store_json"]


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What becomes of JSON; everything else stays as it is.

    Parameters
    ----------
    fits
        Whether values of a type become those of a field.
    leaf
        The work on an array where it fits.
    """

    fits: Callable[[pa.DataType, pa.Field], bool]
    leaf: Callable[[pa.Array, pa.Field], pa.Array]


def read_json(array: pa.Array, field: pa.Field) -> pa.Array:
    """Array as read with JSON in the form that `field` has: text.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        A value that is damaged or has no form in JSON; a note tells the column.
    InvalidInputError
        More than 2 GiB of text.
    """
    try:
        return _convert(array, field, _READ)
    except FormatError as exc:
        exc.add_note(f"in column {field.name!r}")
        raise


def store_json(array: pa.Array, field: pa.Field) -> pa.Array:
    """Array to write with JSON in the form that `field` has: binary.

    Raises
    ------
    InvalidInputError
        A text that is no JSON, or cannot be stored; names the column.
    """
    try:
        return _convert(array, field, _STORE)
    except InvalidInputError as exc:
        raise InvalidInputError(f"column {field.name!r}: {exc}") from None


def _is_stored(kind: pa.DataType, field: pa.Field) -> bool:
    return pa.types.is_large_binary(kind) and _is_text(_storage(field.type))


def _is_given(kind: pa.DataType, field: pa.Field) -> bool:
    return is_stored_json(field) and _is_text(_storage(kind))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _texts(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    texts = [None if value is None else to_text(value) for value in array.to_pylist()]
    strings = pa.array(texts, _storage(kind))
    if isinstance(strings, pa.ChunkedArray):
        raise InvalidInputError(
            f"column {field.name!r}: the rows of a batch hold more than 2 GiB of JSON; "
            "read fewer of them at once"
        )
    is_plain = strings.type == kind
    return strings if is_plain else pa.ExtensionArray.from_storage(kind, strings)


def _stored(array: pa.Array, field: pa.Field) -> pa.Array:
    texts = array.storage if isinstance(array, pa.ExtensionArray) else array
    values: list[bytes | None] = []
    for data in texts.cast(pa.large_binary()).to_pylist():
        try:
            values.append(None if data is None else from_text(data.decode()))
        except (InvalidInputError, UnicodeDecodeError) as exc:
            raise InvalidInputError(f"JSON value {len(values)} of the batch: {exc}") from None
    return pa.array(values, field.type)


_READ = _Conversion(_is_stored, _texts)
_STORE = _Conversion(_is_given, _stored)


def _convert(array: pa.Array, field: pa.Field, conversion: _Conversion) -> pa.Array:
    if not _applies(array.type, field, conversion):
        return array
    if conversion.fits(array.type, field):
        return conversion.leaf(array, field)
    members = _members(field.type)
    if pa.types.is_struct(array.type):
        return _convert_struct(array, members, conversion)
    # Taking all leaves out what lies before the first, after the last and below null lists.
    whole = array.take(pa.array(np.arange(len(array))))
    child = _convert(whole.values, members[0], conversion)
    num_buffers = 1 if pa.types.is_fixed_size_list(array.type) else 2
    return pa.Array.from_buffers(
        _list_of(array.type, child.type),
        len(whole),
        whole.buffers()[:num_buffers],
        whole.null_count,
        children=[child],
    )


def _convert_struct(
    array: pa.StructArray, members: Sequence[pa.Field], conversion: _Conversion
) -> pa.StructArray:
    # Flat members are null where the struct is: what it hides need be no JSON.
    children = [
        _convert(flat, member, conversion)
        if _applies(flat.type, member, conversion)
        else array.field(i)
        for i, (flat, member) in enumerate(zip(array.flatten(), members, strict=True))
    ]
    fields = [f.with_type(c.type) for f, c in zip(array.type, children, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _applies(kind: pa.DataType, field: pa.Field, conversion: _Conversion) -> bool:
    """Whether there is JSON to convert."""
    if conversion.fits(kind, field):
        return True
    inner, outer = _members(kind), _members(field.type)
    return len(inner) == len(outer) and any(
        _applies(mine.type, theirs, conversion) for mine, theirs in zip(inner, outer, strict=True)
    )


def _members(kind: pa.DataType) -> list[pa.Field]:
    """Fields right below a type: members, the item, or the entries of a map."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.field(0)]
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return [kind.value_field] if any(test(kind) for test in tests) else []


def _list_of(kind: pa.DataType, item: pa.DataType) -> pa.DataType:
    """List type like `kind` with items, or entries, of another type."""
    if pa.types.is_map(kind):
        return pa.map_(item.field(0), item.field(1))
    value = kind.value_field.with_type(item)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(value, kind.list_size)
    return pa.large_list(value) if pa.types.is_large_list(kind) else pa.list_(value)
