"""Constants: reading dates and times, and fitting a constant to the type it is compared with.

A comparison of a column with a constant is kept in the column's own type, whatever the constant:
`int_column < 1.5` becomes `int_column <= 1`, and `tinyint_column < 1000` holds for every value. So
no row is converted, nothing is rounded, and statistics of the column decide on pages.
"""

from __future__ import annotations

import math
from datetime import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from alance.query.expression import CompareOp
from alance.query.types import Kind, kind_of

__all__ = ["fit", "parse_temporal"]

_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86_400

_Ratio = tuple[int, int]  # numerator, positive denominator


def parse_temporal(text: str, kind: Kind) -> pa.Scalar | None:
    """Date, timestamp or time of day in ISO 8601, or None where `text` is not one.

    Timestamps may be dates alone, may have a space for the `T`, and have a zone only where `text`
    has an offset from UTC. Nanoseconds are kept where `text` has more than six fractional digits.
    """
    text = text.strip()
    if kind is Kind.TIME:
        return _parse_time(text)
    fraction = text.partition(".")[2]
    unit = "ns" if sum(map(str.isdigit, fraction.partition("+")[0].partition("-")[0])) > 6 else "us"
    targets = (
        (pa.date32(),) if kind is Kind.DATE else (pa.timestamp(unit), pa.timestamp(unit, "UTC"))
    )
    for target in targets:
        try:
            return pa.scalar(text).cast(target)
        except pa.ArrowInvalid:
            continue
    return None


def _parse_time(text: str) -> pa.Scalar | None:
    try:
        value = time.fromisoformat(text)
    except ValueError:
        return None
    return None if value.tzinfo is not None else pa.scalar(value, pa.time64("us"))


def fit(
    op: CompareOp, target: pa.DataType, literal: pa.Scalar
) -> tuple[CompareOp, pa.Scalar] | None:
    """Rewrite `x op literal`, for x of type `target`, with a literal of that type.

    Parameters
    ----------
    op
        The comparison asked for.
    target
        Value type of the other side.
    literal
        A constant of any type.

    Returns
    -------
    tuple of CompareOp and pyarrow.Scalar, or None
        An equivalent comparison: the same, or one with a neighbouring literal where `target` cannot
        hold this one. `x < smallest` stands for a comparison that no value passes, and
        `x >= smallest` for one that all but null pass. None where the types do not compare.
    """
    kind = kind_of(target)
    if not literal.is_valid:
        return None if kind is Kind.NESTED else (op, pa.scalar(None, target))
    if kind in {Kind.STRING, Kind.BINARY, Kind.BOOL}:
        return (op, literal.cast(target)) if kind_of(literal.type) is kind else None
    if kind is Kind.FLOAT:
        return _fit_float(op, target, literal)
    if kind_of(literal.type) is Kind.STRING and kind in {Kind.DATE, Kind.TIMESTAMP, Kind.TIME}:
        parsed = parse_temporal(literal.as_py(), Kind.TIME if kind is Kind.TIME else Kind.TIMESTAMP)
        if parsed is None:
            return None
        literal = parsed
    return _fit_ticks(op, target, literal)


def _fit_float(
    op: CompareOp, target: pa.DataType, literal: pa.Scalar
) -> tuple[CompareOp, pa.Scalar] | None:
    """Nearest value of the float type, as the reference takes it: so `float_column = 0.1` works."""
    if kind_of(literal.type) not in {Kind.INT, Kind.FLOAT, Kind.DECIMAL}:
        return None
    return op, pa.scalar(float(literal.as_py()), target)


def _fit_ticks(
    op: CompareOp, target: pa.DataType, literal: pa.Scalar
) -> tuple[CompareOp, pa.Scalar] | None:
    """Compare in whole ticks of `target`, whose bounds and fractions move the literal."""
    bounds = _tick_bounds(target)
    if bounds is None or not _comparable(target, literal.type):
        return None
    first, last = bounds
    if literal.type == target:
        return op, literal
    if kind_of(literal.type) is Kind.FLOAT and not math.isfinite(literal.as_py()):
        # NaN is the greatest number, so it stands above all integers as infinity does.
        beyond = first - 1 if literal.as_py() < 0 else last + 1
        return _clamp(op, beyond, True, target, first, last)
    numerator, denominator = _ratio(_localized(literal, target))
    tick, remainder = divmod(numerator * _ticks_per_one(target), denominator)
    return _clamp(op, tick, remainder == 0, target, first, last)


def _clamp(
    op: CompareOp, tick: int, exact: bool, target: pa.DataType, first: int, last: int
) -> tuple[CompareOp, pa.Scalar]:
    """Comparison with a tick that `target` may not hold; not exact: it lies above `tick`."""
    if first <= tick <= last:
        if exact:
            return op, _from_ticks(tick, target)
        below = {CompareOp.LT: CompareOp.LE, CompareOp.LE: CompareOp.LE}
        above = {CompareOp.GT: CompareOp.GT, CompareOp.GE: CompareOp.GT}
        moved = (below | above).get(op)
        if moved is not None:
            return moved, _from_ticks(tick, target)
    upwards = op in {CompareOp.LT, CompareOp.LE} and tick > last
    downwards = op in {CompareOp.GT, CompareOp.GE} and tick < first
    always = upwards or downwards or op is CompareOp.NE
    return CompareOp.GE if always else CompareOp.LT, _from_ticks(first, target)


def _comparable(target: pa.DataType, source: pa.DataType) -> bool:
    kinds = {kind_of(target), kind_of(source)}
    return (
        kinds <= {Kind.INT, Kind.FLOAT, Kind.DECIMAL}
        or kinds <= {Kind.DATE, Kind.TIMESTAMP}
        or kinds in ({Kind.TIME}, {Kind.DURATION})
    )


def _tick_bounds(target: pa.DataType) -> tuple[int, int] | None:
    """Least and greatest stored integer of a type that is integers of some unit inside."""
    kind = kind_of(target)
    if kind is Kind.INT and not pa.types.is_signed_integer(target):
        return 0, (1 << target.bit_width) - 1
    if kind is Kind.DECIMAL and target.scale >= 0:
        return 1 - 10**target.precision, 10**target.precision - 1
    if kind in {Kind.INT, Kind.DATE, Kind.TIMESTAMP, Kind.TIME, Kind.DURATION}:
        return -(1 << target.bit_width - 1), (1 << target.bit_width - 1) - 1
    return None


def _ticks_per_one(data_type: pa.DataType) -> int:
    """Ticks in one: in the number 1, or in one day, as dates and times of all units divide it."""
    kind = kind_of(data_type)
    if kind is Kind.INT:
        return 1
    if kind is Kind.DECIMAL:
        return int(10**data_type.scale)
    if kind is Kind.DATE:
        return 1 if pa.types.is_date32(data_type) else _SECONDS_PER_DAY * 1000
    return _SECONDS_PER_DAY * _TICKS_PER_SECOND[data_type.unit]


def _ratio(literal: pa.Scalar) -> _Ratio:
    """Exact value in ones (see `_ticks_per_one`); finite."""
    kind = kind_of(literal.type)
    if kind is Kind.INT:
        return literal.as_py(), 1
    if kind in {Kind.FLOAT, Kind.DECIMAL}:
        value: Any = literal.as_py()
        # The shortest decimal that reads back as this float is what the user wrote.
        return Decimal(repr(value) if kind is Kind.FLOAT else value).as_integer_ratio()
    return literal.value, _ticks_per_one(literal.type)


def _from_ticks(tick: int, target: pa.DataType) -> pa.Scalar:
    kind = kind_of(target)
    if kind is Kind.INT:
        return pa.scalar(tick, target)
    if kind is Kind.DECIMAL:
        digits = tuple(map(int, str(abs(tick))))
        return pa.scalar(Decimal((int(tick < 0), digits, -target.scale)), target)
    return pa.scalar(tick, pa.int32() if target.bit_width == 32 else pa.int64()).cast(target)


def _localized(literal: pa.Scalar, target: pa.DataType) -> pa.Scalar:
    """Literal without a zone beside a column with one: local time there, as in the reference."""
    zone = target.tz if pa.types.is_timestamp(target) else None
    if zone is None or (pa.types.is_timestamp(literal.type) and literal.type.tz is not None):
        return literal
    naive = literal.cast(pa.timestamp("ms")) if pa.types.is_date(literal.type) else literal
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
