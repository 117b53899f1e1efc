"""Which Arrow types meet in comparisons, arithmetic and casts, and as what."""

from __future__ import annotations

from enum import Enum, auto

import pyarrow as pa
import pyarrow.compute as pc

from alance.query.expression import ArithmeticOp

__all__ = [
    "ARITHMETIC_FUNCTIONS",
    "Kind",
    "arithmetic_types",
    "can_cast",
    "common_type",
    "finest_unit",
    "kind_of",
    "value_type",
]

ARITHMETIC_FUNCTIONS = {
    ArithmeticOp.ADD: "add",
    ArithmeticOp.SUBTRACT: "subtract",
    ArithmeticOp.MULTIPLY: "multiply",
    ArithmeticOp.DIVIDE: "divide",
}
"""Names in `pyarrow.compute`; modulo has none."""


class Kind(Enum):
    """A family of types between which comparisons make sense."""

    NULL = auto()
    BOOL = auto()
    INT = auto()
    FLOAT = auto()
    DECIMAL = auto()
    STRING = auto()
    BINARY = auto()
    DATE = auto()
    TIMESTAMP = auto()
    TIME = auto()
    DURATION = auto()
    NESTED = auto()


_NUMBERS = frozenset({Kind.INT, Kind.FLOAT, Kind.DECIMAL})
_UNITS = ("s", "ms", "us", "ns")
_KINDS = (
    (pa.types.is_null, Kind.NULL),
    (pa.types.is_boolean, Kind.BOOL),
    (pa.types.is_integer, Kind.INT),
    (pa.types.is_floating, Kind.FLOAT),
    (pa.types.is_decimal, Kind.DECIMAL),
    (pa.types.is_string, Kind.STRING),
    (pa.types.is_large_string, Kind.STRING),
    (pa.types.is_binary, Kind.BINARY),
    (pa.types.is_large_binary, Kind.BINARY),
    (pa.types.is_date, Kind.DATE),
    (pa.types.is_timestamp, Kind.TIMESTAMP),
    (pa.types.is_time, Kind.TIME),
    (pa.types.is_duration, Kind.DURATION),
)


def kind_of(data_type: pa.DataType) -> Kind:
    """Family of a type, as it is after `value_type`; all that cannot be compared is nested."""
    return next((kind for test, kind in _KINDS if test(data_type)), Kind.NESTED)


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Type that values are computed in: dictionaries, views and half floats are not."""
    if pa.types.is_dictionary(data_type):
        return value_type(data_type.value_type)
    if pa.types.is_float16(data_type):
        return pa.float32()
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type) or pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    return data_type


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Type in which values of both can be compared, or None; both are value types."""
    kinds = {kind_of(left), kind_of(right)}
    if Kind.NESTED in kinds:
        return None
    if left == right or kinds == {Kind.NULL}:
        return left
    if Kind.NULL in kinds:
        return right if pa.types.is_null(left) else left
    if kinds <= _NUMBERS:
        return _common_number(left, right, kinds)
    if kinds == {Kind.STRING}:
        return pa.large_string()
    if kinds == {Kind.BINARY}:
        return pa.large_binary()
    if kinds <= {Kind.DATE, Kind.TIMESTAMP}:
        return _common_instant(left, right)
    if kinds == {Kind.TIME}:
        unit = finest_unit(left, right)
        return pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)
    if kinds == {Kind.DURATION}:
        return pa.duration(finest_unit(left, right))
    return None


def _common_number(left: pa.DataType, right: pa.DataType, kinds: set[Kind]) -> pa.DataType | None:
    if Kind.FLOAT in kinds:
        # An integer beside a float is compared as float64: float32 loses integers from 2**24 on.
        return pa.float64()
    if kinds == {Kind.INT}:
        return _common_integer(left, right) or _common_decimal(
            _as_decimal(left), _as_decimal(right)
        )
    return _common_decimal(_as_decimal(left), _as_decimal(right))


def _common_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Smallest integer type that holds both; None for uint64 beside a signed type."""
    signed = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    unsigned = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return max(left, right, key=lambda t: t.bit_width)
    lower, upper = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    rank = max(signed.index(lower), unsigned.index(upper) + 1)
    return signed[rank] if rank < len(signed) else None


def _as_decimal(data_type: pa.DataType) -> pa.DataType:
    """Narrowest decimal that holds every value of an integer type; decimals stay."""
    if pa.types.is_decimal(data_type):
        return data_type
    digits = {8: 3, 16: 5, 32: 10}.get(data_type.bit_width)
    return pa.decimal128(digits or (20 if data_type == pa.uint64() else 19), 0)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    scale = max(left.scale, right.scale)
    precision = scale + max(left.precision - left.scale, right.precision - right.scale)
    return _decimal(precision, scale)


def _decimal(precision: int, scale: int) -> pa.DataType | None:
    """Narrowest decimal type of so many digits, or None."""
    if precision <= 38:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale) if precision <= 76 else None


def finest_unit(left: pa.DataType, right: pa.DataType) -> str:
    """Finer of two types' time units; a date of milliseconds counts as such, another as seconds."""
    units = [
        ("ms" if pa.types.is_date64(t) else "s") if pa.types.is_date(t) else t.unit
        for t in (left, right)
    ]
    return max(units, key=_UNITS.index)


def _common_instant(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Timestamp of the finer unit; a zone on one side only makes the other local to it."""
    zones = [t.tz for t in (left, right) if pa.types.is_timestamp(t) and t.tz is not None]
    zone = None if not zones else zones[0] if len(set(zones)) == 1 else "UTC"
    return pa.timestamp(finest_unit(left, right), zone)


def arithmetic_types(
    op: ArithmeticOp, left: pa.DataType, right: pa.DataType
) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    """Types to convert the operands to, and the result's type; None where there are none.

    Follows the reference implementation: two integers give the smallest integer type that holds
    both, or a decimal for uint64 beside a signed type; any float gives a float.
    """
    kinds = {kind_of(left), kind_of(right)}
    if kinds == {Kind.TIMESTAMP} and op is ArithmeticOp.SUBTRACT:
        common = _common_instant(left, right)
        return common, common, pa.duration(common.unit)
    if Kind.NULL in kinds and kinds <= _NUMBERS | {Kind.NULL}:
        other = right if pa.types.is_null(left) else left
        other = pa.int64() if pa.types.is_null(other) else other
        return arithmetic_types(op, other, other)
    if not kinds <= _NUMBERS:
        return None
    if Kind.FLOAT in kinds:
        narrow = all(t == pa.float32() or pa.types.is_integer(t) for t in (left, right))
        common = pa.float32() if narrow else pa.float64()
        return common, common, common
    if kinds == {Kind.INT}:
        common = _common_integer(left, right)
        if common is not None:
            return common, common, common
    return _decimal_arithmetic(op, _as_decimal(left), _as_decimal(right))


def _decimal_arithmetic(
    op: ArithmeticOp, left: pa.DataType, right: pa.DataType
) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    wide = (
        pa.decimal256(left.precision, left.scale),
        pa.decimal256(right.precision, right.scale),
    )
    if op is ArithmeticOp.MODULO:
        common = _common_decimal(left, right)
        return None if common is None else (common, common, common)
    if op is ArithmeticOp.DIVIDE:
        # Four digits more than the dividend has, as in the reference. Arrow's own rule keeps more
        # of them, which needs the wide type on the way.
        scale = min(left.scale + 4, 38)
        precision = left.precision - left.scale + right.scale + scale
        return (*wide, _decimal(min(precision, 76), scale))
    for operands in ((left, right), wide):
        try:
            empty = [pa.nulls(0, operand) for operand in operands]
            return (*operands, getattr(pc, ARITHMETIC_FUNCTIONS[op])(*empty).type)
        except pa.ArrowInvalid:
            continue  # more than this width's digits
    return None


_CASTS: dict[Kind, frozenset[Kind]] = {
    Kind.BOOL: frozenset({Kind.INT, Kind.FLOAT, Kind.STRING}),
    Kind.INT: _NUMBERS | {Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.DATE, Kind.DURATION},
    Kind.FLOAT: _NUMBERS,
    Kind.DECIMAL: _NUMBERS | {Kind.STRING},
    Kind.STRING: _NUMBERS | {Kind.STRING, Kind.BOOL, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP},
    Kind.BINARY: frozenset({Kind.BINARY, Kind.STRING}),
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.INT}),
    Kind.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.DATE, Kind.INT}),
    Kind.TIME: frozenset({Kind.TIME}),
    Kind.DURATION: frozenset({Kind.DURATION, Kind.INT}),
}


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between these value types exists.

    Floats and timestamps are not cast to strings: their spelling differs between implementations.
    """
    kind = kind_of(source)
    if source == target or kind is Kind.NULL:
        return True
    if kind is Kind.INT and kind_of(target) in {Kind.TIMESTAMP, Kind.DURATION}:
        return True
    if kind is Kind.INT and kind_of(target) is Kind.DATE:
        return bool(target == pa.date32() and source == pa.int32())
    return kind_of(target) in _CASTS.get(kind, frozenset())
