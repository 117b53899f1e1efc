"""JSON values as `json` columns keep them: a binary form with sorted keys, and text on both sides.

A value is a header (kind and number of members), an entry of 32 bits for each member (kind and
length), then the members' bytes; numbers and lengths are big-endian. An object has the entries of
its keys first. A value that is no container stands in a scalar header of its own.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import NoReturn

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError

__all__ = ["DEPTH_MAX", "from_text", "to_text"]

DEPTH_MAX = 256
"""Nesting of arrays and objects, each a call deep; more than readers of JSON commonly take."""

_ARRAY, _OBJECT, _SCALAR = 0x8000_0000, 0x4000_0000, 0x2000_0000
_COUNT_MASK = 0x1FFF_FFFF

_NULL, _STRING, _NUMBER = 0x0000_0000, 0x1000_0000, 0x2000_0000
_FALSE, _TRUE, _CONTAINER, _EXTENSION = 0x3000_0000, 0x4000_0000, 0x5000_0000, 0x6000_0000
_LENGTH_MASK = 0x0FFF_FFFF

_ZERO, _NAN, _INFINITY, _MINUS_INFINITY = 0x00, 0x10, 0x20, 0x30
_INT, _UINT, _FLOAT, _DECIMAL = 0x40, 0x50, 0x60, 0x70
_INTEGER_BYTES = (1, 2, 4, 8)
_DECIMAL_BYTES = {9: 8, 17: 16, 18: 16, 33: 32, 34: 32}
"""Bytes of the unscaled value by those of the number; the scale is the last byte of all."""
_DIGITS_MAX = 20
"""Of an integer of 64 bits with its sign; what is longer cannot be one."""

_quote = json.JSONEncoder(ensure_ascii=False).encode


def to_text(data: bytes) -> str:
    """JSON text of a stored value, without spaces and with sorted keys.

    Parameters
    ----------
    data
        Bytes of the one value; none are null.

    Raises
    ------
    CorruptFileError
        Lengths that do not add up, unknown kinds, strings that are no UTF-8, too deep a nest.
    UnsupportedFeatureError
        A value that JSON has not, such as a date.
    """
    if not data:
        return "null"
    out: list[str] = []
    try:
        if _header(data, 0, len(data)) & ~_COUNT_MASK != _SCALAR:
            _write_container(data, 0, len(data), 1, out)
            return "".join(out)
        (entry,) = _entries(data, 4, len(data), 1)
        if 8 + (entry & _LENGTH_MASK) != len(data):
            raise _corrupt("a scalar has another length than its entry tells")
        if entry & ~_LENGTH_MASK == _CONTAINER:
            raise _corrupt("a scalar holds a container")
        return _scalar(entry & ~_LENGTH_MASK, data[8:])
    except UnicodeDecodeError:
        raise _corrupt("a string is no UTF-8") from None


def _write_container(data: bytes, start: int, stop: int, depth: int, out: list[str]) -> None:
    """Add the text of the array or object in `data[start:stop]`."""
    if depth > DEPTH_MAX:
        raise _corrupt(f"it nests deeper than {DEPTH_MAX}")
    header = _header(data, start, stop)
    kind, count = header & ~_COUNT_MASK, header & _COUNT_MASK
    if kind not in (_ARRAY, _OBJECT):
        raise _corrupt(f"a container has header {header:#010x}")
    num_keys = count if kind == _OBJECT else 0
    entries = _entries(data, start + 4, stop, num_keys + count)
    place = start + 4 + 4 * len(entries)
    if place + sum(entry & _LENGTH_MASK for entry in entries) != stop:
        raise _corrupt("the members of a container do not fill it")
    keys = []
    for entry in entries[:num_keys]:
        if entry & ~_LENGTH_MASK != _STRING:
            raise _corrupt("the key of an object is no string")
        length = entry & _LENGTH_MASK
        keys.append(f"{_quote(data[place : place + length].decode())}:")
        place += length
    out.append("{" if kind == _OBJECT else "[")
    for i, entry in enumerate(entries[num_keys:]):
        if i:
            out.append(",")
        if keys:
            out.append(keys[i])
        end = place + (entry & _LENGTH_MASK)
        if entry & ~_LENGTH_MASK == _CONTAINER:
            _write_container(data, place, end, depth + 1, out)
        else:
            out.append(_scalar(entry & ~_LENGTH_MASK, data[place:end]))
        place = end
    out.append("}" if kind == _OBJECT else "]")


def _header(data: bytes, start: int, stop: int) -> int:
    if stop - start < 4:
        raise _corrupt("it ends inside a header")
    return int.from_bytes(data[start : start + 4], "big")


def _entries(data: bytes, start: int, stop: int, count: int) -> tuple[int, ...]:
    if 4 * count > stop - start:
        raise _corrupt(f"{count} entries do not fit into {stop - start} bytes")
    return struct.unpack_from(f">{count}I", data, start)


def _scalar(kind: int, payload: bytes) -> str:
    """Text of a value that is no container."""
    if kind == _STRING:
        return _quote(payload.decode())
    if kind == _NUMBER:
        return _number(payload)
    if kind == _EXTENSION:
        raise UnsupportedFeatureError(
            "a JSON value is a date, time, interval or binary, which are not known to this library",
            feature="extension values in JSON",
        )
    word = {_NULL: "null", _FALSE: "false", _TRUE: "true"}.get(kind)
    if word is None or payload:
        raise _corrupt(f"an entry has kind {kind:#010x} and {len(payload)} bytes")
    return word


def _number(payload: bytes) -> str:
    kind, size = (payload[0] if payload else -1), len(payload) - 1
    if kind == _ZERO and size == 0:
        return "0"
    if kind in (_INT, _UINT) and size in _INTEGER_BYTES:
        return str(int.from_bytes(payload[1:], "big", signed=kind == _INT))
    if kind == _FLOAT and size == 8:
        return _float_text(struct.unpack_from(">d", payload, 1)[0])
    if kind == _DECIMAL and size in _DECIMAL_BYTES:
        value = int.from_bytes(payload[1 : 1 + _DECIMAL_BYTES[size]], "big", signed=True)
        return _float_text(float(value) / 10.0 ** payload[-1])
    if kind in (_NAN, _INFINITY, _MINUS_INFINITY) and size == 0:
        return "null"  # JSON has none of them
    raise _corrupt(f"a number begins with {payload[:1].hex() or 'nothing'}, has {size + 1} bytes")


def _float_text(value: float) -> str:
    """Shortest digits that give `value` again, with an exponent below 1e-5 and from 1e16 on."""
    if not math.isfinite(value):
        return "null"
    text = repr(value)
    mantissa, mark, exponent = text.partition("e-")
    if not mark:
        return text
    if int(exponent) > 5:
        return f"{mantissa}e-{int(exponent)}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"


def _corrupt(what: str) -> CorruptFileError:
    return CorruptFileError(f"a JSON value is damaged: {what}")


def from_text(text: str) -> bytes:
    """Stored form of a JSON text.

    Integers beyond 64 bits become floats.

    Raises
    ------
    InvalidInputError
        No JSON, a key that an object has twice, a lone surrogate, too deep a nest.
    """
    try:
        value = _decoder.decode(text)
        if isinstance(value, dict | list):
            return _container(value, 1)
        kind, payload = _stored(value)
        return _sized(_SCALAR, 0, _COUNT_MASK) + _entry(kind, payload) + payload
    except RecursionError:
        raise InvalidInputError(f"JSON nests deeper than {DEPTH_MAX}") from None
    except UnicodeEncodeError as exc:
        raise InvalidInputError(f"JSON holds half of a surrogate pair: {exc.reason}") from None
    except json.JSONDecodeError as exc:
        raise InvalidInputError(f"no JSON: {exc}") from None


def _container(value: dict[str, object] | list[object], depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise InvalidInputError(f"JSON nests deeper than {DEPTH_MAX}")
    entries, payloads = [], []
    members = value
    kind = _ARRAY
    if isinstance(value, dict):
        kind = _OBJECT
        pairs = sorted((name.encode(), member) for name, member in value.items())
        members = [member for _, member in pairs]
        payloads = [name for name, _ in pairs]
        entries = [_entry(_STRING, name) for name in payloads]
    for member in members:
        if isinstance(member, dict | list):
            member_kind, payload = _CONTAINER, _container(member, depth + 1)
        else:
            member_kind, payload = _stored(member)
        entries.append(_entry(member_kind, payload))
        payloads.append(payload)
    return b"".join((_sized(kind, len(members), _COUNT_MASK), *entries, *payloads))


def _stored(value: object) -> tuple[int, bytes]:
    """Kind and bytes of a value that is no container."""
    if isinstance(value, str):
        return _STRING, value.encode()
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return (_TRUE if value else _FALSE), b""
    if isinstance(value, int):
        return _NUMBER, _stored_integer(value)
    assert isinstance(value, float), "JSON has no other values"
    if math.isinf(value):
        return _NUMBER, bytes([_INFINITY if value > 0 else _MINUS_INFINITY])
    return _NUMBER, struct.pack(">Bd", _FLOAT, value)


def _stored_integer(value: int) -> bytes:
    """The kind, and as few bytes as will do; positive ones are unsigned."""
    if value == 0:
        return bytes([_ZERO])
    bits = value.bit_length() if value > 0 else (~value).bit_length() + 1
    size = next(size for size in _INTEGER_BYTES if bits <= 8 * size)
    return bytes([_UINT if value > 0 else _INT]) + value.to_bytes(size, "big", signed=value < 0)


def _entry(kind: int, payload: bytes) -> bytes:
    return _sized(kind, len(payload), _LENGTH_MASK)


def _sized(kind: int, size: int, size_max: int) -> bytes:
    """Header or entry: a kind in the upper bits, a size in the others."""
    if size > size_max:
        raise InvalidInputError(
            f"a string, array or object in JSON has size {size}; at most {size_max} can be stored"
        )
    return (kind | size).to_bytes(4, "big")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Object of the members parsed; none may hide another."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = sorted(name for name, _ in pairs)
        twice = next(name for name, after in pairwise(names) if name == after)
        raise InvalidInputError(f"an object in JSON has the key {twice!r} twice")
    return members


def _parse_integer(text: str) -> int | float:
    if len(text) <= _DIGITS_MAX:
        value = int(text)
        if -(1 << 63) <= value < 1 << 64:
            return value
    return float(text)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInputError(f"no JSON: it has no {name}")


# Line breaks and other controls in strings are taken as they are.
_decoder = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_int=_parse_integer,
    parse_constant=_refuse_constant,
    strict=False,
)
