"""Vectorised operations whose SQL meaning differs from that of one `pyarrow.compute` call.

Values are Arrow arrays or scalars of value types (see `alance.query.types`); results keep nulls.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.query.expression import ArithmeticOp, CompareOp
from alance.query.types import ARITHMETIC_FUNCTIONS, Kind, kind_of, value_type

__all__ = ["Datum", "arithmetic", "cast", "compare", "is_in", "like"]

Datum: TypeAlias = Any
"""`pyarrow.Array` or `pyarrow.Scalar`; pyarrow ships no types."""

_COMPARE = {
    CompareOp.EQ: pc.equal,
    CompareOp.NE: pc.not_equal,
    CompareOp.LT: pc.less,
    CompareOp.LE: pc.less_equal,
    CompareOp.GT: pc.greater,
    CompareOp.GE: pc.greater_equal,
}


def compare(op: CompareOp, left: Datum, right: Datum) -> Datum:
    """Compare values of one type; NaN equals NaN and is greater than all else, -0.0 equals 0.0."""
    if kind_of(left.type) is Kind.FLOAT:
        return _compare_floats(op, left, right)
    if kind_of(left.type) is Kind.NULL:
        return pc.cast(left, pa.bool_())
    return _COMPARE[op](left, right)


def _compare_floats(op: CompareOp, left: Datum, right: Datum) -> Datum:
    """Total order from IEEE comparisons, which are all false (or unequal) beside a NaN."""
    if op is CompareOp.NE:
        return pc.invert(_compare_floats(CompareOp.EQ, left, right))
    if op in {CompareOp.GT, CompareOp.GE}:
        # a > b is not (a <= b), so that only two cases need care below.
        opposite = CompareOp.LE if op is CompareOp.GT else CompareOp.LT
        return pc.invert(_compare_floats(opposite, left, right))
    plain = _COMPARE[op](left, right)
    if isinstance(right, pa.Scalar) and not (right.is_valid and np.isnan(right.as_py())):
        return plain  # a NaN on the left is greater than this constant: already false
    if op is CompareOp.EQ:
        return pc.or_(plain, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if op is CompareOp.LT:
        return pc.or_(plain, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return pc.or_(plain, pc.is_nan(right))


def is_in(operand: Datum, values: pa.Array, has_null: bool) -> Datum:
    """Membership; null for a null operand, and for one not found where the list had a null."""
    if kind_of(operand.type) is Kind.FLOAT:
        # Hashing tells -0.0 from 0.0, comparing does not: adding zero makes both 0.0.
        zero = pa.scalar(0.0, operand.type)
        operand, values = pc.add(operand, zero), pc.add(values, zero)
    found = pc.is_in(operand, value_set=values, skip_nulls=True)
    known = pc.and_(pc.is_valid(operand), found) if has_null else pc.is_valid(operand)
    return pc.if_else(known, found, pa.scalar(None, pa.bool_()))


def like(operand: Datum, pattern: str, ignore_case: bool) -> Datum:
    """Match whole strings against a LIKE pattern.

    Not `pyarrow.compute.match_like`: its shortcuts take the backslash of an escape for a character.
    """
    pieces = _like_pieces(pattern)
    wild = [piece for piece in pieces if not isinstance(piece, str)]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if wild == [] and not ignore_case:
        return pc.equal(operand, pa.scalar("".join(texts), operand.type))
    if "_" not in (piece.sign for piece in wild) and len(texts) == 1:
        (text,) = texts
        options = {"pattern": text, "ignore_case": ignore_case}
        if len(wild) == 2:
            return pc.match_substring(operand, **options)
        if len(wild) == 1:
            starts = isinstance(pieces[0], str)
            return (pc.starts_with if starts else pc.ends_with)(operand, **options)
    signs = {"%": ".*", "_": "."}
    regex = "".join(_quote(p) if isinstance(p, str) else signs[p.sign] for p in pieces)
    return pc.match_substring_regex(operand, rf"(?s)\A{regex}\z", ignore_case=ignore_case)


class _Wildcard:
    __slots__ = ("sign",)

    def __init__(self, sign: str) -> None:
        self.sign = sign


def _like_pieces(pattern: str) -> list[str | _Wildcard]:
    """Literal texts and wildcards, in order; runs of `%` count once."""
    pieces: list[str | _Wildcard] = []
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\" and position + 1 < len(pattern):
            position += 1
            sign = pattern[position]
        elif sign in {"%", "_"}:
            if not (sign == "%" and pieces and getattr(pieces[-1], "sign", "") == "%"):
                pieces.append(_Wildcard(sign))
            position += 1
            continue
        if pieces and isinstance(pieces[-1], str):
            pieces[-1] += sign
        else:
            pieces.append(sign)
        position += 1
    return pieces


def _quote(text: str) -> str:
    """Regular expression that matches `text`; every ASCII sign may be escaped in RE2."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c != "\0" else c for c in text)


def arithmetic(op: ArithmeticOp, left: Datum, right: Datum, result: pa.DataType) -> Datum:
    """Compute in the operands' type; integers wrap around, but a quotient that overflows fails."""
    if op is ArithmeticOp.MODULO:
        return _modulo(left, right)
    if op is ArithmeticOp.DIVIDE and kind_of(left.type) is Kind.INT:
        return pc.divide_checked(left, right)
    value = getattr(pc, ARITHMETIC_FUNCTIONS[op])(left, right)
    return value if value.type == result else cast(value, result, exact=False)


def _modulo(left: Datum, right: Datum) -> Datum:
    """Remainder with the sign of the dividend, as truncating division leaves it."""
    kind = kind_of(left.type)
    if kind is Kind.FLOAT:
        return _float_modulo(left, right)
    if kind is Kind.DECIMAL:
        common = left.type
        wide = pa.decimal256(common.precision, common.scale)
        left, right = pc.cast(left, wide), pc.cast(right, wide)
        whole = pc.cast(pc.trunc(pc.divide(left, right)), pa.decimal256(common.precision, 0))
        return pc.cast(pc.subtract(left, pc.multiply(whole, right)), common)
    if pa.types.is_signed_integer(left.type):
        # The least integer has no quotient by -1; its remainder is 0, as by 1.
        one = pa.scalar(1, right.type)
        right = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _float_modulo(left: Datum, right: Datum) -> Datum:
    """C's fmod, which Arrow lacks, by way of NumPy."""
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    dtype = left.type.to_pandas_dtype()
    operands = [
        side.to_numpy(zero_copy_only=False) if isinstance(side, pa.Array) else side.as_py()
        for side in (left, right)
    ]
    with np.errstate(all="ignore"):
        value = np.fmod(*[np.asarray(np.nan if v is None else v, dtype) for v in operands])
    filled = pa.array(value) if value.ndim else pa.scalar(value.item(), left.type)
    return pc.if_else(known, filled, pa.scalar(None, left.type))


def cast(value: Datum, target: pa.DataType, *, exact: bool = True) -> Datum:
    """Convert with SQL's rounding: fractions are cut from integers, rounded in decimals.

    Parameters
    ----------
    value
        Of any type for which `alance.query.types.can_cast` holds, or a dictionary or view of one.
    target
        A value type.
    exact
        Round decimals to nearest; otherwise cut them, as division does.

    Raises
    ------
    pyarrow.ArrowInvalid
        A value that `target` cannot hold.
    """
    value = pc.cast(value, value_type(value.type))
    if value.type == target:
        return value
    kinds = (kind_of(value.type), kind_of(target))
    if kinds == (Kind.FLOAT, Kind.INT):
        return pc.cast(pc.trunc(value), target)
    if kinds == (Kind.DECIMAL, Kind.FLOAT):
        # Arrow multiplies by a power of ten that no float holds; text is read to the nearest.
        return pc.cast(pc.cast(value, pa.string()), target)
    if kinds == (Kind.DECIMAL, Kind.DECIMAL) and exact and target.scale < value.type.scale:
        value = pc.round(value, target.scale, round_mode="half_towards_infinity")
    if kinds[0] in {Kind.DATE, Kind.TIMESTAMP} and kinds[1] in {Kind.DATE, Kind.TIMESTAMP}:
        value = _change_zone(value, target)
    options = pc.CastOptions(
        target_type=target,
        allow_decimal_truncate=kinds[0] is Kind.DECIMAL,
        allow_float_truncate=kinds[0] is not Kind.FLOAT,  # int64 to double rounds
        allow_time_truncate=True,
    )
    return pc.cast(value, options=options)


def _change_zone(value: Datum, target: pa.DataType) -> Datum:
    """Make local times instants where `target` has a zone; one that is not unique is the earlier.

    As in the reference, an instant gives the date it has in its zone, but the time it has in UTC.
    """
    source_zone = value.type.tz if pa.types.is_timestamp(value.type) else None
    target_zone = target.tz if pa.types.is_timestamp(target) else None
    if source_zone is not None and pa.types.is_date(target):
        return pc.local_timestamp(value)
    if source_zone is None and target_zone is not None:
        if pa.types.is_date(value.type):
            value = pc.cast(value, pa.timestamp(target.unit))
        return pc.assume_timezone(value, target_zone, ambiguous="earliest", nonexistent="earliest")
    return value
