"""The scalar functions of SQL expressions: their arguments, result types and computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from alance.query.compute import Datum, compare
from alance.query.expression import CompareOp
from alance.query.types import Kind, common_type, kind_of

__all__ = ["FUNCTIONS", "ScalarFunction"]

Types: TypeAlias = Sequence[pa.DataType]
Signature: TypeAlias = tuple[tuple[pa.DataType, ...], pa.DataType]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function from values of a row to a value.

    Parameters
    ----------
    num_arguments
        Least and greatest number of arguments.
    takes
        What the arguments are, for messages.
    sign
        From value types of the arguments to the types to convert them to and the result's type;
        None where the function does not take them.
    run
        Computes on values of the converted types.
    constants
        Arguments from this position on must be non-null string constants.
    """

    num_arguments: tuple[int, int]
    takes: str
    sign: Callable[[Types], Signature | None]
    run: Callable[..., Datum]
    constants: int | None = None


_ANY_MAX = 64


def _same_string(types: Types) -> Signature | None:
    """Strings alike, to a string of that type."""
    common = types[0]
    for other in types[1:]:
        common = common_type(common, other)
        if common is None:
            return None
    if kind_of(common) is Kind.NULL:
        common = pa.string()
    return ((common,) * len(types), common) if kind_of(common) is Kind.STRING else None


def _string_to(result: pa.DataType) -> Callable[[Types], Signature | None]:
    """Strings alike, to `result`."""

    def sign(types: Types) -> Signature | None:
        signature = _same_string(types)
        return None if signature is None else (signature[0], result)

    return sign


def _length(types: Types) -> Signature | None:
    signature = _same_string(types)
    if signature is None:
        return None
    large = pa.types.is_large_string(signature[1])
    return signature[0], pa.int64() if large else pa.int32()


def _number(types: Types) -> Signature | None:
    """A number, to its own type."""
    kept = kind_of(types[0]) in {Kind.INT, Kind.FLOAT, Kind.DECIMAL}
    return ((types[0],), types[0]) if kept else None


def _rounded(types: Types) -> Signature | None:
    """A number, to a float: float32 stays, all others are float64."""
    if kind_of(types[0]) not in {Kind.INT, Kind.FLOAT, Kind.DECIMAL}:
        return None
    result = types[0] if types[0] == pa.float32() else pa.float64()
    return (result,), result


def _float(types: Types) -> Signature | None:
    return ((types[0],), pa.bool_()) if kind_of(types[0]) is Kind.FLOAT else None


def _alike(types: Types) -> Signature | None:
    """Values that compare, to their common type."""
    common = types[0]
    for other in types[1:]:
        common = common_type(common, other)
        if common is None:
            return None
    return None if kind_of(common) is Kind.NESTED else ((common,) * len(types), common)


def _nullif(left: Datum, right: Datum) -> Datum:
    equal = pc.fill_null(compare(CompareOp.EQ, left, right), False)
    return pc.if_else(equal, pa.scalar(None, left.type), left)


def _join(*values: Datum) -> Datum:
    """Join strings; null where one is."""
    return pc.binary_join_element_wise(*values, pa.scalar("", values[0].type))


def _concat(*values: Datum) -> Datum:
    """Join strings, a null as the empty one."""
    # Not null_handling="skip": beside a null scalar, Arrow leaves out whole rows.
    return _join(*(pc.fill_null(value, "") for value in values))


def _constant(run: Callable[..., Datum]) -> Callable[[Datum, Datum], Datum]:
    """Call `run` with the second argument's Python value."""
    return lambda value, constant: run(value, constant.as_py())


_ONE_STRING = ((1, 1), "a string")
_TWO_STRINGS = ((2, 2), "a string and a string constant")
_CHARACTERS = ScalarFunction(*_ONE_STRING, _length, pc.utf8_length)
_TRIM = ScalarFunction(*_ONE_STRING, _same_string, lambda v: pc.utf8_trim(v, " "))
_MATCH = ScalarFunction(
    *_TWO_STRINGS, _string_to(pa.bool_()), _constant(pc.match_substring_regex), constants=1
)

FUNCTIONS: Mapping[str, ScalarFunction] = MappingProxyType({
    "||": ScalarFunction((2, 2), "strings", _same_string, _join),
    "abs": ScalarFunction((1, 1), "a number", _number, pc.abs_checked),
    "btrim": _TRIM,
    "ceil": ScalarFunction((1, 1), "a number", _rounded, pc.ceil),
    "char_length": _CHARACTERS,
    "character_length": _CHARACTERS,
    "coalesce": ScalarFunction((1, _ANY_MAX), "values of one kind", _alike, pc.coalesce),
    "concat": ScalarFunction((1, _ANY_MAX), "strings", _same_string, _concat),
    "contains": ScalarFunction(
        *_TWO_STRINGS, _string_to(pa.bool_()), _constant(pc.match_substring), constants=1
    ),
    "ends_with": ScalarFunction(
        *_TWO_STRINGS, _string_to(pa.bool_()), _constant(pc.ends_with), constants=1
    ),
    "floor": ScalarFunction((1, 1), "a number", _rounded, pc.floor),
    "isnan": ScalarFunction((1, 1), "a float", _float, pc.is_nan),
    "length": _CHARACTERS,
    "lower": ScalarFunction(*_ONE_STRING, _same_string, pc.utf8_lower),
    "ltrim": ScalarFunction(*_ONE_STRING, _same_string, lambda v: pc.utf8_ltrim(v, " ")),
    "nullif": ScalarFunction((2, 2), "values of one kind", _alike, _nullif),
    "octet_length": ScalarFunction(*_ONE_STRING, _length, pc.binary_length),
    "regexp_like": _MATCH,
    "regexp_match": _MATCH,
    "round": ScalarFunction(
        (1, 1),
        "a number",
        _rounded,
        lambda v: pc.round(v, round_mode="half_towards_infinity"),
    ),
    "rtrim": ScalarFunction(*_ONE_STRING, _same_string, lambda v: pc.utf8_rtrim(v, " ")),
    "starts_with": ScalarFunction(
        *_TWO_STRINGS, _string_to(pa.bool_()), _constant(pc.starts_with), constants=1
    ),
    "trim": _TRIM,
    "upper": ScalarFunction(*_ONE_STRING, _same_string, pc.utf8_upper),
})
"""Every function by its name; a null argument gives null, except in coalesce, concat, nullif."""
