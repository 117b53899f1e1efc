from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.query import evaluate, filter_mask, parse_expression, parse_filter
from tests.query.samples import NUM_ROWS, batch

BATCH = batch()
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def computed(sql: str, **columns: pa.Array) -> list[Any]:
    rows = pa.record_batch(columns) if columns else BATCH
    found = evaluate(parse_expression(sql, rows.schema), rows)
    assert len(found) == rows.num_rows
    values: list[Any] = found.to_pylist()
    return values


@pytest.mark.parametrize("sql", ["1", "null", "'a'", "i8", "i8 = 1", "1 = 1", "lower('A')", "st"])
@pytest.mark.parametrize("num_rows", [0, 1, NUM_ROWS])
def test_results_have_one_value_per_row(sql: str, num_rows: int) -> None:
    rows = BATCH.slice(0, num_rows)
    expression = parse_expression(sql, rows.schema)
    found = evaluate(expression, rows)
    assert len(found) == num_rows
    assert found.type == expression.type


@pytest.mark.parametrize(
    "sql", ["i8 > 1", "st.n.c = 'z'", "s like 'a%'", "i8 in (1, null)", "f64 % 2 > 0", "d > ts"]
)
def test_slices_give_slices_of_the_result(sql: str) -> None:
    whole = evaluate(parse_filter(sql, BATCH.schema), BATCH)
    part = evaluate(parse_filter(sql, BATCH.schema), BATCH.slice(3, 4))
    assert part.to_pylist() == whole.to_pylist()[3:7]


def test_mask_has_no_nulls() -> None:
    mask = filter_mask(parse_filter("i8 != 1", BATCH.schema), BATCH)
    assert mask.to_pylist() == [i not in {0, 2} for i in range(NUM_ROWS)]


def test_null_parents_hide_their_children() -> None:
    children = pa.array([1, 2, 3], pa.int32())
    parent = pa.StructArray.from_arrays([children], ["a"], mask=pa.array([False, True, False]))
    assert computed("p.a", p=parent) == [1, None, 3]
    assert computed("p.a is null", p=parent) == [False, True, False]


def test_only_the_columns_used_need_to_be_there() -> None:
    expression = parse_filter("st.a > 3", BATCH.schema)
    (used,) = {path[0] for path in expression.columns()}
    rows = pa.record_batch({used: pa.array([{"a": 5}, None, {"a": 1}])})
    assert filter_mask(expression, rows).to_pylist() == [True, False, False]
    with pytest.raises(InvalidInputError, match=r"column st\.a is not in this batch"):
        evaluate(expression, BATCH.select(["i8"]))
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        evaluate(expression, pa.record_batch({"st": pa.array([{"b": 1}])}))


FLOATS = st.sampled_from([None, math.nan, -math.nan, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf])


def total(value: float) -> tuple[bool, float]:
    """Sort key by which NaN is the greatest."""
    return (True, 0.0) if math.isnan(value) else (False, value)


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=8), st.sampled_from(sorted(OPERATORS)))
def test_floats_are_totally_ordered(pairs: list[tuple[Any, Any]], sign: str) -> None:
    left, right = (pa.array([p[i] for p in pairs], pa.float64()) for i in (0, 1))
    expected = [
        None if a is None or b is None else OPERATORS[sign](total(a), total(b)) for a, b in pairs
    ]
    assert computed(f"x {sign} y", x=left, y=right) == expected
    nan = [None if a is None else OPERATORS[sign](total(a), total(math.nan)) for a, _ in pairs]
    assert computed(f"x {sign} cast('nan' as double)", x=left) == nan


INTEGERS = st.one_of(st.none(), st.integers(-128, 127))
CONSTANTS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-130, 130),
    st.decimals(-130, 130, places=2),
)


@given(st.lists(INTEGERS, max_size=8), CONSTANTS, st.sampled_from(sorted(OPERATORS)))
def test_integers_compare_exactly_with_any_constant(
    values: list[int | None], constant: int | Decimal, sign: str
) -> None:
    expected = [None if v is None else OPERATORS[sign](v, constant) for v in values]
    assert computed(f"x {sign} {constant}", x=pa.array(values, pa.int8())) == expected
    decimals = pa.array([None if v is None else Decimal(v) for v in values], pa.decimal128(5, 1))
    assert computed(f"x {sign} {constant}", x=decimals) == expected


@given(
    st.lists(INTEGERS, max_size=6),
    st.lists(st.one_of(st.none(), st.integers(-200, 200)), min_size=1, max_size=6),
)
def test_membership_knows_three_values(values: list[int | None], items: list[int | None]) -> None:
    listed = ", ".join("null" if item is None else str(item) for item in items)
    found = [
        None if v is None or (v not in items and None in items) else v in items for v in values
    ]
    column = pa.array(values, pa.int8())
    assert computed(f"x in ({listed})", x=column) == found
    negated = [None if f is None else not f for f in found]
    assert computed(f"x not in ({listed})", x=column) == negated


PATTERNS = st.text("aB%_\\.\n(é", max_size=6)


def like(text: str, pattern: str, flags: re.RegexFlag) -> bool:
    """Plain model of LIKE by Python's regular expressions."""
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    signs = {"%": ".*", "_": "."}
    regex = "".join(signs.get(t) or re.escape(t[-1]) for t in tokens)
    return re.fullmatch(regex, text, re.DOTALL | flags) is not None


@given(st.lists(st.none() | st.text("aB%_\\.\n(é", max_size=5), max_size=6), PATTERNS)
def test_like_matches_whole_texts(texts: list[str | None], pattern: str) -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        column = pa.array(texts, kind)
        expected = [None if t is None else like(t, pattern, re.NOFLAG) for t in texts]
        assert computed(f"x like '{pattern}'", x=column) == expected
        folded = [None if t is None else like(t, pattern, re.IGNORECASE) for t in texts]
        assert computed(f"x ilike '{pattern}'", x=column) == folded


def truncated(left: int, right: int) -> tuple[int, int]:
    """Quotient towards zero, and what it leaves."""
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient, left - quotient * right


@given(st.lists(st.tuples(INTEGERS, INTEGERS.filter(lambda v: v not in {0, -1})), max_size=8))
def test_division_truncates(pairs: list[tuple[int | None, int | None]]) -> None:
    left, right = (pa.array([p[i] for p in pairs], pa.int8()) for i in (0, 1))
    whole = [None if a is None or b is None else truncated(a, b) for a, b in pairs]
    assert computed("x / y", x=left, y=right) == [w and w[0] for w in whole]
    assert computed("x % y", x=left, y=right) == [w and w[1] for w in whole]
    if any(b is not None for _, b in pairs):
        tenths = [c.cast(pa.decimal128(5, 1)) for c in (left, right)]
        assert computed("x % y", x=tenths[0], y=tenths[1]) == [w and w[1] for w in whole]


def test_modulo_of_floats_and_of_the_least_integer() -> None:
    assert computed("x % 2", x=pa.array([7.5, -7.5, None, math.inf]))[:3] == [1.5, -1.5, None]
    assert computed("7.5 % y", y=pa.array([2.0, None])) == [1.5, None]
    assert computed("x % y", x=pa.array([-128], pa.int8()), y=pa.array([-1], pa.int8())) == [0]
    assert computed("7.5 % 2.0", y=pa.array([1])) == [1.5]


TRUTHS = st.sampled_from([None, True, False])


@given(st.lists(st.tuples(TRUTHS, TRUTHS), max_size=9))
def test_logic_knows_three_values(pairs: list[tuple[bool | None, bool | None]]) -> None:
    x, y = (pa.array([p[i] for p in pairs], pa.bool_()) for i in (0, 1))
    both = [False if False in p else None if None in p else True for p in pairs]
    either = [True if True in p else None if None in p else False for p in pairs]
    assert computed("x and y", x=x, y=y) == both
    assert computed("x or y", x=x, y=y) == either
    assert computed("x is not distinct from y", x=x, y=y) == [a == b for a, b in pairs]
    assert computed("not x", x=x, y=y) == [None if a is None else not a for a, _ in pairs]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ts - tss", [0]),
        ("dec / dec", ["1.000000"]),
        ("cast(f64 as int)", [1]),
        ("cast(cast(i64 as double) as bigint)", [1]),
        ("cast(s as binary)", [b"abc"]),
        ("cast(u8 as decimal(5, 1))", ["1.0"]),
        ("cast(tsny as timestamp) = ts", [True]),
        ("cast(ts as timestamp with time zone) = tsz", [True]),
        ("nullif(i8, 1)", [None]),
        ("concat(s, null, 'x')", ["abcx"]),
        ("ltrim('  a ') || rtrim(' b ')", ["a  b"]),
        ("ceil(f64) - floor(f64)", [1.0]),
        ("fsb is not null and t = '00:00' and dur = dur", [True]),
        ("i8 / nullif(i8 - 1, 0)", [None]),
    ],
)
def test_first_row(sql: str, expected: list[Any]) -> None:
    (found,) = evaluate(parse_expression(sql, BATCH.schema), BATCH.slice(0, 1)).to_pylist()
    if isinstance(found, Decimal):
        found = str(found)
    assert [getattr(found, "seconds", found)] == expected


@pytest.mark.parametrize(
    ("data_type", "values", "sql"),
    [
        (pa.float16(), [np.float16(1.5), None, np.float16(3.0)], "x = 1.5"),
        (pa.binary(1), [b"a", None, b"b"], "x = X'61'"),
        (pa.binary_view(), [b"a", None, b"b"], "x = X'61'"),
        (pa.string_view(), ["a", None, "b"], "x like 'a%'"),
        (pa.large_binary(), [b"a", None, b"b"], "x in (X'61')"),
        (pa.date64(), [0, None, 86_400_000], "x = '1970-01-01'"),
        (pa.date64(), [0, None, 86_400_000], "x < timestamp '1970-01-01 10:00:00'"),
        (pa.time32("s"), [0, None, 1], "x < '00:00:00.5'"),
        (pa.timestamp("ns"), [1, None, 2], "x < '1970-01-01 00:00:00.000000002'"),
        (pa.timestamp("ns"), [1, None, None], "x < '9999-01-01'"),
        (pa.decimal256(50, 1), [Decimal(1), None, Decimal(3)], "x < 2.25"),
        (pa.dictionary(pa.int8(), pa.int64()), [1, None, 2], "x = 1"),
    ],
)
def test_first_row_passes_in_every_type(
    data_type: pa.DataType, values: list[Any], sql: str
) -> None:
    column = pa.array(values, data_type)
    assert filter_mask(
        parse_filter(sql, pa.schema({"x": data_type})), pa.record_batch({"x": column})
    )[0].as_py()
    expected = [True, None, False if values[2] is not None else None]
    assert computed(sql, x=column) == expected


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("i8 / (i8 - 1) = 1", "divide by zero"),
        ("i64 / -1 = 1", "overflow"),
        ("abs(i8) = cast(s as int)", "cannot be computed"),
        ("cast(f64 as int) = 1", "nan"),
        ("tz_broken = ts", "Nowhere"),
    ],
)
def test_values_that_cannot_be_computed(sql: str, says: str) -> None:
    zone = pa.nulls(NUM_ROWS, pa.timestamp("us", "Nowhere/Land"))
    rows = BATCH.append_column("tz_broken", zone)
    with pytest.raises(InvalidInputError, match=says):
        evaluate(parse_filter(sql, rows.schema), rows)
