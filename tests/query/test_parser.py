from __future__ import annotations

import inspect
import pickle
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.query import Expression, parse_expression, parse_filter
from alance.query.expression import And, Column, Compare, CompareOp, In, Literal, Or
from tests.query.samples import table

SCHEMA = table().schema


def failure(sql: str, schema: pa.Schema = SCHEMA) -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(sql, schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sql", "normal"),
    [
        ("1 < i8", "(i8 > 1)"),
        ("i8 < 1.5", "(i8 <= 1)"),
        ("i8 >= 1.5", "(i8 > 1)"),
        ("i8 = 1.5", "(i8 < -128)"),
        ("i8 != 1.5", "(i8 >= -128)"),
        ("i8 <= 300", "(i8 >= -128)"),
        ("u8 > -1", "(u8 >= 0)"),
        ("i8 > cast('NaN' as double)", "(i8 < -128)"),
        ("i8 < cast('Infinity' as double)", "(i8 >= -128)"),
        ("dec < 1.251", "(dec <= 1.25)"),
        ("dec = 1", "(dec = 1.00)"),
        ("d < timestamp '2013-01-02 10:00:00'", "(d <= '2013-01-02')"),
        ("i8 in (1, 2.0, 2.5, 1000, null)", "(i8 in (1, 2, null))"),
        ("i8 between 1 and 2", "((i8 >= 1) and (i8 <= 2))"),
        ("b and (b and b)", "(b and b and b)"),
        ("b and (b or b)", "(b and (b or b))"),
        ("i8 = 1 + 2 * 3", "(i8 = 7)"),
        ("i8 = -(-1)", "(i8 = 1)"),
        ("st['n'].c = 'it''s'", "(st.n.c = 'it''s')"),
        ("`with space` = 1", "(`with space` = 1)"),
        ("bin = 0xFF", "(bin = X'ff')"),
        ("dict = 'x'", "(cast(dict as string) = 'x')"),
        ("i8 = i32", "(cast(i8 as int32) = i32)"),
        ("b is false", "((not b) is true)"),
        ("not b is null", "(not (b is null))"),
        ("-i8 = abs(i8)", "((-i8) = abs(i8))"),
        ("-i8 % 2 = 0", "((cast((-i8) as int64) % 2) = 0)"),
        ("d = '2013-01-02'", "(d = '2013-01-02')"),
        ("t = '01:00'", "(t = '01:00:00.000000')"),
        ("tsz = '2013-01-02T00:00:00+01:00'", "(tsz = '2013-01-01 23:00:00.000000Z')"),
        ("b = true and s > null", "((b = true) and (s > null))"),
        ("s like 'a!%\\' escape '!'", "(s like 'a\\%\\\\')"),
        ("s not ilike 'a'", "(not (s ilike 'a'))"),
    ],
)
def test_normal_form(sql: str, normal: str) -> None:
    assert str(parse_filter(sql, SCHEMA)) == normal


def test_comparison_with_a_constant_is_in_the_type_of_the_column() -> None:
    found = parse_filter("5 > i8", SCHEMA)
    column = Column(("i8",), pa.int8())
    assert found == Compare(CompareOp.LT, column, Literal(pa.scalar(5, pa.int8())))


def test_comparison_that_nothing_passes_can_be_shown() -> None:
    never = parse_filter("tss = timestamp '2013-01-01 00:00:00.5'", SCHEMA)
    assert isinstance(never, Compare)
    assert never.op is CompareOp.LT
    assert "out of range" in str(never)


def test_columns_are_paths_in_order_of_first_use() -> None:
    found = parse_filter("st.n.c = s and (i8 > 1 or s is null) and st.a in (1, 2)", SCHEMA)
    assert found.columns() == (("st", "n", "c"), ("s",), ("i8",), ("st", "a"))


def test_long_lists_and_chains() -> None:
    members = parse_filter(f"i64 in ({', '.join(map(str, range(3000)))})", SCHEMA)
    assert isinstance(members, In)
    assert len(members.values) == 3000
    assert str(members).endswith("... 2990 more))")
    chained = parse_filter(" and ".join(["i8 = 1"] * 1000), SCHEMA)
    assert isinstance(chained, And)
    assert len(chained.operands) == 1000
    assert isinstance(parse_filter(" or ".join(["b"] * 1000), SCHEMA), Or)


@pytest.mark.parametrize("sql", ["i8 in (1, null)", "s like 'a%' and not b", "abs(i8) + 1 > f64"])
def test_expressions_pickle_and_hash(sql: str) -> None:
    found = parse_filter(sql, SCHEMA)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)


@pytest.mark.parametrize(
    ("sql", "data_type"),
    [
        ("i8 + 1", pa.int8()),
        ("1 + i8", pa.int8()),
        ("i8 + 1000", pa.int64()),
        ("i8 + 1.5", pa.float64()),
        ("f32 * 0.1", pa.float32()),
        ("dec * 2", pa.decimal128(21, 4)),
        ("dec * i64", pa.decimal128(30, 2)),
        ("u64 + i64", pa.decimal128(21, 0)),
        ("u64 * i64", pa.decimal256(40, 0)),
        ("null + 1", pa.int64()),
        ("cast(i8 as decimal(50))", pa.decimal256(50, 0)),
        ("cast(i8 as smallint)", pa.int16()),
        ("cast(i8 as int unsigned)", pa.uint32()),
        ("cast(d as timestamp(9))", pa.timestamp("ns")),
        ("cast('2013-01-01 00:00:00' as timestamp(0))", pa.timestamp("s")),
        ("timestamp '2013-01-01 00:00:00.123456789'", pa.timestamp("ns")),
        ("timestamp '2013-01-01 00:00:00+01:00'", pa.timestamp("us", "UTC")),
        ("9223372036854775808", pa.uint64()),
        ("18446744073709551616", pa.float64()),
        ("dict", pa.dictionary(pa.int32(), pa.string())),
        ("lst", pa.list_(pa.int32())),
    ],
)
def test_types_of_expressions(sql: str, data_type: pa.DataType) -> None:
    assert parse_expression(sql, SCHEMA).type == data_type


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("nope = 1", "there is no column 'nope'; known are 'id', 'i8'"),
        ("tzs = 1", "did you mean"),
        ("MIXD = 1", "did you mean 'Mixed'?"),
        ("st.x = 1", "there is no field of 'st' 'x'; known are 'a', 'n'"),
        ("i8.x = 1", "column 'i8' is of type int8, so it has no field 'x'"),
        ("lst[0] = 1", "brackets take the name of a struct field"),
        ("lower(s)['a'] = 1", "not the name of a column"),
        ("i8 = 'abc'", "int8 cannot be compared with the constant 'abc' of type string"),
        ("s < 5", "string cannot be compared with the constant 5 of type int64"),
        ('"s" = 1', "string cannot be compared with the constant 1"),
        ("i8", "is of type int8, not boolean"),
        ("not i8", "a condition must be boolean, not int8"),
        ("i8 = 1 and", "does not parse: line 1"),
        ("i8 =\n= 1", "does not parse: line 2, column 1, at '='"),
        ("i8 = 1 i8", "at 'i8'"),
        ("i8 = 1; i8 = 2", "is more than one expression"),
        ("", "is empty"),
        ("  -- nothing", "is empty"),
        ("s = 'abc", "does not parse"),
        ("s = '\ud800'", "does not parse"),
        ("i8 = 1e999", "beyond the range of numbers"),
        ("i8 = 1e", "'1e' is not a number"),
        ("bin = X'123'", "not pairs of hexadecimal digits"),
        ("i8 = ?", "Placeholder is not supported"),
        ("case when b then b end", "does not parse"),
        ("i8 in (select 1)", "option 'query' of In"),
        ("i8 in i32", "option 'field' of In"),
        ("i8 in ()", "needs at least one value"),
        ("s like i8", "must be a string constant"),
        ("i8 like '1'", "LIKE takes strings, not int8"),
        ("s like 'a' escape 'ab'", "ESCAPE takes one character"),
        ("i8 = 1 escape '!'", "does not parse: line 1, column 13, at 'escape'"),
        ("i8 is 5", "IS takes null, true or false"),
        ("-u8 = 1", "uint8 cannot be negated"),
        ("d + 1 = d", "date32[day] + int64 is not defined"),
        ("i8 + s = 1", "int8 + string is not defined"),
        ("cast(i8 as uuid) = 1", "not a type to cast to"),
        ("cast(i8 as decimal(99, 2)) = 1", "not a type to cast to"),
        ("cast(i8 as timestamp(4)) = 1", "not a type to cast to"),
        ("cast(st as string) = 'a'", "is not defined"),
        ("date '2013-13-01' = d", "'2013-13-01' is not a date"),
        ("cast(1000 as tinyint) = 1", "cannot be computed"),
        ("1 / 0 = 1", "divide by zero"),
        ("nosuch(i8) = 1", "there is no function 'nosuch'; known are"),
        ("lower(s, s) = 'a'", "lower takes a string, not 2 arguments"),
        ("lower(i8) = 'a'", "lower takes a string, not int8"),
        ("coalesce(i8, s) = 1", "coalesce takes values of one kind"),
        ("starts_with(s, s)", "is no constant"),
        ("regexp_like(s, '(')", "Invalid regular expression"),
        ("tz_broken = timestamp '2013-01-01 00:00:00'", "'Nowhere/Land'"),
    ],
)
def test_what_is_wrong_is_said(sql: str, says: str) -> None:
    schema = SCHEMA.append(pa.field("tz_broken", pa.timestamp("us", "Nowhere/Land")))
    assert says in failure(sql, schema)


def test_a_name_in_another_case_must_be_unique() -> None:
    schema = pa.schema([("Ab", pa.int8()), ("aB", pa.int8()), ("x", pa.int8()), ("x", pa.int8())])
    assert parse_filter("aB = 1", schema).columns() == (("aB",),)
    assert "ambiguous" in failure("ab = 1", schema)
    assert "ambiguous" in failure("x = 1", schema)


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 100 + "b" + ")" * 100,
        "not " * 100 + "b",
        "- " * 100 + "i8 = 1",
        "lower(" * 100 + "s" + ")" * 100 + " = 'a'",
        "+".join(["i8"] * 500) + " = 1",
        "b" + " is null" * 500,
        "i8" + "::int" * 500 + " = 1",
        "st" + "['a']" * 500 + " = 1",
        "st" + ".a" * 500 + " = 1",
        "i8 between " * 200 + "1",
        "cast(i8 as " + "array<" * 200 + "int" + ">" * 200 + ") = 1",
    ],
)
def test_depth_is_bounded(sql: str) -> None:
    failure(sql)


def test_length_is_bounded() -> None:
    assert "too long" in failure("b or " * 300_000 + "b")


def test_too_little_stack_is_an_error_of_ours() -> None:
    def under(num_frames: int) -> str:
        return under(num_frames - 1) if num_frames else failure("(" * 30 + "b" + ")" * 30)

    used = len(inspect.stack())
    assert "nested too deep" in under(sys.getrecursionlimit() - used - 200)


WORDS = """
i8 s st . a b d dec ( ) [ ] , = < != + - * / % 1 2.5 'x' 'a%' and or not in is null true like
between cast as int date timestamp '2013-01-01' lower :: || case when ` " ' -- /* ; @ $ ? {
"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_gives_an_expression_or_an_error_of_ours(sql: str) -> None:
    try:
        found = parse_expression(sql, SCHEMA)
    except InvalidInputError:
        return
    assert isinstance(found, Expression)
    assert str(found)


def test_sql_must_be_a_string() -> None:
    with pytest.raises(InvalidInputError, match="must be a string, not int"):
        parse_filter(5, SCHEMA)  # type: ignore[arg-type]
