from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from alance.errors import InvalidInputError
from alance.spark.source import absolute_uri, arrow_schema, cast_batch, fit_schema, spark_schema

SCHEMA = t.StructType([
    t.StructField("flag", t.BooleanType()),
    t.StructField("i8", t.ByteType(), nullable=False),
    t.StructField("i16", t.ShortType()),
    t.StructField("i32", t.IntegerType()),
    t.StructField("i64", t.LongType()),
    t.StructField("f32", t.FloatType()),
    t.StructField("f64", t.DoubleType()),
    t.StructField("text", t.StringType()),
    t.StructField("blob", t.BinaryType()),
    t.StructField("day", t.DateType()),
    t.StructField("instant", t.TimestampType()),
    t.StructField("local", t.TimestampNTZType()),
    t.StructField("took", t.DayTimeIntervalType()),
    t.StructField("price", t.DecimalType(12, 3)),
    t.StructField("nothing", t.NullType()),
    t.StructField("list", t.ArrayType(t.IntegerType(), containsNull=False)),
    t.StructField("map", t.MapType(t.StringType(), t.LongType(), valueContainsNull=False)),
    t.StructField(
        "struct",
        t.StructType([
            t.StructField("x", t.DoubleType(), nullable=False),
            t.StructField("when", t.ArrayType(t.TimestampType())),
        ]),
    ),
])


def test_schema_round_trip() -> None:
    assert spark_schema(arrow_schema(SCHEMA)) == SCHEMA


def test_arrow_types_of_time_and_list() -> None:
    schema = arrow_schema(SCHEMA)
    assert schema.field("instant").type == pa.timestamp("us", tz="UTC")
    assert schema.field("local").type == pa.timestamp("us")
    assert schema.field("list").type.value_field == pa.field("item", pa.int32(), nullable=False)
    assert not schema.field("i8").nullable


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (t.YearMonthIntervalType(), "bad"),
        (t.CalendarIntervalType(), "bad"),
        (t.ArrayType(t.CalendarIntervalType()), "bad.item"),
        (t.MapType(t.StringType(), t.YearMonthIntervalType()), "bad.value"),
        (t.StructType([t.StructField("x", t.YearMonthIntervalType())]), "bad.x"),
    ],
)
def test_spark_types_that_no_dataset_holds_are_named(kind: t.DataType, path: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column '{path}' has the Spark type"):
        arrow_schema(t.StructType([t.StructField("bad", kind)]))


@pytest.mark.parametrize("nested", [False, True])
def test_names_that_occur_twice_are_refused(nested: bool) -> None:
    twice = t.StructType([t.StructField("a", t.LongType()), t.StructField("a", t.LongType())])
    schema = t.StructType([t.StructField("outer", twice)]) if nested else twice
    with pytest.raises(InvalidInputError, match="occurs 2 times"):
        arrow_schema(schema)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (pa.uint8(), "bad"),
        (pa.uint64(), "bad"),
        (pa.float16(), "bad"),
        (pa.time32("ms"), "bad"),
        (pa.decimal256(50, 2), "bad"),
        (pa.decimal128(5, -2), "bad"),
        (pa.list_(pa.uint32()), "bad.item"),
        (pa.map_(pa.string(), pa.uint32()), "bad.value"),
        (pa.struct([("x", pa.struct([("y", pa.uint16())]))]), "bad.x.y"),
        (pa.dictionary(pa.int8(), pa.uint32()), "bad"),
    ],
)
def test_arrow_types_that_spark_lacks_are_named(kind: pa.DataType, path: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column '{path}' has the Arrow type"):
        spark_schema(pa.schema([("bad", kind)]))


@pytest.mark.parametrize(
    ("stored", "values"),
    [
        (pa.large_string(), ["a", None]),
        (pa.json_(), ["{}", None]),
        (pa.large_binary(), [b"a", None]),
        (pa.binary(2), [b"ab", None]),
        (pa.large_list(pa.int32()), [[1, None], None]),
        (pa.list_(pa.int32(), 2), [[1, None], None]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", None]),
        (pa.date64(), [datetime.date(2013, 1, 2), None]),
        (pa.timestamp("ms"), [datetime.datetime(2013, 1, 2), None]),
        (pa.duration("s"), [datetime.timedelta(seconds=3), None]),
        (pa.struct([("x", pa.large_string())]), [{"x": "a"}, None]),
    ],
)
def test_other_arrow_types_become_those_that_spark_takes(
    stored: pa.DataType, values: list[object]
) -> None:
    batch = pa.record_batch([pa.array(values, stored)], names=["c"])
    wanted = arrow_schema(spark_schema(batch.schema))
    cast = cast_batch(batch, wanted)
    assert cast.schema == wanted
    assert cast.column(0).to_pylist() == values


@pytest.mark.parametrize(
    "stored",
    [
        pa.large_string(),
        pa.json_(),
        pa.binary(2),
        pa.timestamp("ns", tz="Asia/Tokyo"),
        pa.decimal256(12, 3),
        pa.list_(pa.field("vector", pa.float32()), 2),
        pa.large_list(pa.large_string()),
        pa.struct([("x", pa.large_string()), ("y", pa.list_(pa.duration("ms")))]),
    ],
    ids=str,
)
def test_appends_take_the_types_of_the_dataset(stored: pa.DataType) -> None:
    theirs = pa.schema([("other", pa.uint8()), ("c", stored)])
    mine = arrow_schema(spark_schema(pa.schema([pa.field("c", stored)])))
    assert mine.field("c").type != stored
    assert fit_schema(mine, theirs).field("c").type == stored


@pytest.mark.parametrize(
    "stored",
    [
        pa.int64(),
        pa.uint32(),
        pa.timestamp("us"),
        pa.list_(pa.int32()),
        pa.struct([("y", pa.int8())]),
    ],
    ids=str,
)
def test_types_that_differ_to_spark_are_left_alone(stored: pa.DataType) -> None:
    mine = pa.schema([
        ("c", pa.struct([("x", pa.string())])),
        pa.field("d", pa.int32(), nullable=False),
    ])
    assert fit_schema(mine, pa.schema([("c", stored), ("d", stored)])) == mine


def test_appended_values_must_fit_the_size_of_a_list() -> None:
    theirs = pa.schema([("c", pa.list_(pa.float32(), 2))])
    batch = pa.record_batch([pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))], names=["c"])
    with pytest.raises(InvalidInputError, match="column 'c' does not convert"):
        cast_batch(batch, fit_schema(batch.schema, theirs))


def test_cast_between_zones_keeps_the_buffers() -> None:
    array = pa.array([1, 2, None], pa.timestamp("us", tz="America/New_York"))
    batch = pa.record_batch([array], names=["t"])
    cast = cast_batch(batch, pa.schema([("t", pa.timestamp("us", tz="UTC"))]))
    assert cast.column(0).buffers()[1].address == array.buffers()[1].address
    assert cast.column(0).cast(pa.int64()).to_pylist() == [1, 2, None]


def test_nanoseconds_that_spark_cannot_hold_are_refused() -> None:
    batch = pa.record_batch([pa.array([1_001], pa.timestamp("ns"))], names=["t"])
    with pytest.raises(InvalidInputError, match=r"column 't' does not convert from timestamp\[ns"):
        cast_batch(batch, arrow_schema(spark_schema(batch.schema)))


def test_uris_mean_the_same_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_uri("flights.lance") == str(tmp_path / "flights.lance")
    assert absolute_uri(tmp_path / "x") == str(tmp_path / "x")
    assert absolute_uri("s3://bucket/x") == "s3://bucket/x"
    with pytest.raises(InvalidInputError, match="memory of one process"):
        absolute_uri("memory://x")
