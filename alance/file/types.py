"""Logical type strings of leaf fields <-> Arrow types, and what Arrow knows of extension types."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError

__all__ = [
    "BLOB_V2",
    "EXTENSION_METADATA",
    "EXTENSION_NAME",
    "extension_parts",
    "fixed_bits",
    "format_logical_type",
    "parse_logical_type",
]

EXTENSION_NAME = "ARROW:extension:name"
BLOB_V2 = "lance.blob.v2"
"""Extension type of blob columns in datasets of file version 2.2."""
EXTENSION_METADATA = "ARROW:extension:metadata"
BFLOAT16 = "lance.bfloat16"

TEXT_CHARS_MAX = 1024
NESTING_MAX = 16
VALUE_BITS_MAX = 8 * (2**31 - 1)
"""Width of one value; Arrow cannot hold a wider one."""

_SCALARS: Mapping[str, pa.DataType] = MappingProxyType({
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "large_string": pa.large_string(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
})
_NAMES: Mapping[pa.DataType, str] = MappingProxyType(
    {data_type: name for name, data_type in _SCALARS.items()}
    | {pa.string_view(): "string", pa.binary_view(): "binary"}
)
_UNITS = ("s", "ms", "us", "ns")
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def fixed_bits(data_type: pa.DataType) -> int | None:
    """Bits of one value of a fixed-width storage type; None when values have no fixed width."""
    dimension = 1
    while True:
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        elif pa.types.is_fixed_size_list(data_type):
            dimension *= data_type.list_size
            data_type = data_type.value_type
        else:
            break
    if pa.types.is_dictionary(data_type) or pa.types.is_null(data_type):
        return None
    try:
        return dimension * int(data_type.bit_width)
    except ValueError:
        return None


def format_logical_type(data_type: pa.DataType, path: str) -> str:
    """Logical type string of a leaf's storage type.

    Parameters
    ----------
    data_type
        Any type but list, large_list, struct, map and fixed_size_list<struct>.
    path
        Dotted name of the field, for messages.

    Raises
    ------
    InvalidInputError
        The format has no place for the type.
    """
    name = _NAMES.get(data_type)
    if name is not None:
        return name
    if pa.types.is_timestamp(data_type):
        return f"timestamp:{data_type.unit}:{data_type.tz or '-'}"
    if pa.types.is_decimal128(data_type):
        return f"decimal:128:{data_type.precision}:{data_type.scale}"
    if pa.types.is_decimal256(data_type):
        return f"decimal:256:{data_type.precision}:{data_type.scale}"
    if pa.types.is_fixed_size_binary(data_type):
        return f"fixed_size_binary:{data_type.byte_width}"
    if pa.types.is_dictionary(data_type):
        return _format_dictionary(data_type, path)
    if pa.types.is_fixed_size_list(data_type):
        return _format_fixed_size_list(data_type, path)
    raise _not_storable(data_type, path)


def _format_dictionary(data_type: pa.DictionaryType, path: str) -> str:
    value = _NAMES.get(data_type.value_type)
    # The reference splits the string at every colon, so a value type must not hold one.
    if value is None or ":" in value or value == "null":
        raise _not_storable(data_type, path)
    return f"dict:{value}:{_NAMES[data_type.index_type]}:false"


def _format_fixed_size_list(data_type: pa.FixedSizeListType, path: str) -> str:
    item = data_type.value_field
    item_type, name = item.type, None
    if isinstance(item_type, pa.BaseExtensionType):
        name, _ = extension_parts(item_type)
        item_type = item_type.storage_type
    elif item.metadata:
        name = item.metadata.get(EXTENSION_NAME.encode(), b"").decode(errors="replace")
    if name == BFLOAT16 and item_type == pa.binary(2):
        inner = BFLOAT16
    else:
        inner = format_logical_type(item_type, path)
    bits = _item_bits(item_type)
    if not bits or not 1 <= bits * data_type.list_size <= VALUE_BITS_MAX:
        raise _not_storable(data_type, path)
    return f"fixed_size_list:{inner}:{data_type.list_size}"


def _not_storable(data_type: pa.DataType, path: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {path!r} has type {data_type}, which the Lance format cannot store; cast it first"
    )


def parse_logical_type(text: str) -> pa.DataType:
    """Storage type of a leaf's logical type string.

    Raises
    ------
    CorruptFileError
        A known type with parameters that make no sense.
    UnsupportedFeatureError
        A type that this library does not know.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise CorruptFileError(
            f"logical type of {len(text)} characters; at most {TEXT_CHARS_MAX} make sense"
        )
    return _parse(text, 0)


def _parse(text: str, depth: int) -> pa.DataType:
    scalar = _SCALARS.get(text)
    if scalar is not None:
        return scalar
    if text == "json":
        return pa.large_binary()
    name, _, parameters = text.partition(":")
    parse = _PARSERS.get(name)
    if parse is None:
        raise UnsupportedFeatureError(
            f"logical type {text!r} is not known to this library; a newer one may read it",
            feature=f"logical type {text}",
        )
    if depth == NESTING_MAX:
        raise CorruptFileError(f"logical type {text!r} is the end of a nest of {NESTING_MAX}")
    data_type = parse(parameters, depth + 1)
    if data_type is None:
        raise CorruptFileError(f"logical type {text!r} has parameters that make no sense")
    return data_type


def _parse_timestamp(parameters: str, depth: int) -> pa.DataType | None:
    unit, colon, zone = parameters.partition(":")
    if unit not in _UNITS or not colon or not zone.isprintable():
        return None
    return pa.timestamp(unit, tz=None if zone in ("-", "") else zone)


def _parse_decimal(parameters: str, depth: int) -> pa.DataType | None:
    parts = parameters.split(":")
    if len(parts) != 3 or parts[0] not in ("128", "256"):
        return None
    precision = _number(parts[1], 1, 38 if parts[0] == "128" else 76)
    scale = _number(parts[2], -128, 127)
    if precision is None or scale is None:
        return None
    make = pa.decimal128 if parts[0] == "128" else pa.decimal256
    return make(precision, scale)


def _parse_fixed_size_binary(parameters: str, depth: int) -> pa.DataType | None:
    num_bytes = _number(parameters, 0, 2**31 - 1)
    return None if num_bytes is None else pa.binary(num_bytes)


def _parse_dictionary(parameters: str, depth: int) -> pa.DataType | None:
    parts = parameters.rsplit(":", 2)
    if len(parts) != 3 or parts[2] not in ("false", "true"):
        return None
    values, indices = _parse(parts[0], depth), _SCALARS.get(parts[1])
    if indices is None or not pa.types.is_integer(indices):
        return None
    if pa.types.is_nested(values) or pa.types.is_dictionary(values):
        return None
    return pa.dictionary(indices, values, ordered=parts[2] == "true")


def _parse_fixed_size_list(parameters: str, depth: int) -> pa.DataType | None:
    inner, _, last = parameters.rpartition(":")
    dimension = _number(last, 1, 2**31 - 1)
    if dimension is None or not inner:
        return None
    if inner == BFLOAT16:
        metadata = {EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
        item = pa.field("item", pa.binary(2), metadata=metadata)
    else:
        item = pa.field("item", _parse(inner, depth))
    bits = _item_bits(item.type)
    if bits is None:
        raise UnsupportedFeatureError(
            f"fixed-size list of {inner!r}: only items of fixed width are known to this library",
            feature=f"fixed_size_list of {inner}",
        )
    if bits * dimension > VALUE_BITS_MAX:
        return None
    return pa.list_(item, dimension)


def _item_bits(data_type: pa.DataType) -> int | None:
    """Bits of one item of a fixed-size list; only such lists have items without values."""
    return 1 if _is_null(data_type) else fixed_bits(data_type)


def _is_null(data_type: pa.DataType) -> bool:
    while pa.types.is_fixed_size_list(data_type):
        data_type = data_type.value_type
    return bool(pa.types.is_null(data_type))


_PARSERS: Mapping[str, Callable[[str, int], pa.DataType | None]] = MappingProxyType({
    "timestamp": _parse_timestamp,
    "decimal": _parse_decimal,
    "fixed_size_binary": _parse_fixed_size_binary,
    "dict": _parse_dictionary,
    "fixed_size_list": _parse_fixed_size_list,
})


def _number(text: str, low: int, high: int) -> int | None:
    if _NUMBER.fullmatch(text) is None or not low <= int(text) <= high:
        return None
    return int(text)


class _CSchema(ctypes.Structure):
    """The head of Arrow's C data interface for schemas."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def extension_parts(data_type: pa.BaseExtensionType) -> tuple[str, bytes]:
    """Name and serialized parameters of an extension type.

    PyArrow shows the parameters of its built-in extension types nowhere but in exported metadata:
    an i32 count, then each key and value behind its i32 length.
    """
    capsule = pa.field("", data_type).__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    schema = _CSchema.from_address(get_pointer(capsule, b"arrow_schema"))
    position = schema.metadata

    def number() -> int:
        nonlocal position
        position += 4
        return ctypes.c_int32.from_address(position - 4).value

    def text() -> bytes:
        nonlocal position
        size = number()
        position += size
        return ctypes.string_at(position - size, size)

    metadata = {text(): text() for _ in range(number())}
    name = metadata.get(EXTENSION_NAME.encode(), b"")
    return name.decode(), metadata.get(EXTENSION_METADATA.encode(), b"")
