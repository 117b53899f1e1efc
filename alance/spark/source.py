"""Schemas between Spark and Arrow, and the URIs that every process of a Spark job can open."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import types as spark_types

from alance.errors import InvalidInputError

__all__ = ["absolute_uri", "arrow_schema", "cast_batch", "fit_schema", "spark_schema"]

TIME_TYPE = getattr(spark_types, "TimeType", None)  # since Spark 4.1

PLAIN_TYPES = (
    (spark_types.BooleanType, pa.bool_()),
    (spark_types.ByteType, pa.int8()),
    (spark_types.ShortType, pa.int16()),
    (spark_types.IntegerType, pa.int32()),
    (spark_types.LongType, pa.int64()),
    (spark_types.FloatType, pa.float32()),
    (spark_types.DoubleType, pa.float64()),
    (spark_types.StringType, pa.string()),
    (spark_types.BinaryType, pa.binary()),
    (spark_types.DateType, pa.date32()),
    (spark_types.TimestampType, pa.timestamp("us", tz="UTC")),
    (spark_types.TimestampNTZType, pa.timestamp("us")),
    (spark_types.DayTimeIntervalType, pa.duration("us")),
    (spark_types.NullType, pa.null()),
)
"""Spark types without parameters that matter here, and the Arrow type that Spark hands over."""


def _is_json(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json"


ARROW_TYPES: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_boolean, spark_types.BooleanType),
    (pa.types.is_int8, spark_types.ByteType),
    (pa.types.is_int16, spark_types.ShortType),
    (pa.types.is_int32, spark_types.IntegerType),
    (pa.types.is_int64, spark_types.LongType),
    (pa.types.is_float32, spark_types.FloatType),
    (pa.types.is_float64, spark_types.DoubleType),
    (pa.types.is_string, spark_types.StringType),
    (pa.types.is_large_string, spark_types.StringType),
    (_is_json, spark_types.StringType),
    (pa.types.is_binary, spark_types.BinaryType),
    (pa.types.is_large_binary, spark_types.BinaryType),
    (pa.types.is_fixed_size_binary, spark_types.BinaryType),
    (pa.types.is_date, spark_types.DateType),
    (pa.types.is_duration, spark_types.DayTimeIntervalType),
    (pa.types.is_null, spark_types.NullType),
)
"""How to recognise Arrow types without parameters that matter here, and what Spark calls them."""

DECIMAL_DIGITS_MAX = 38


def absolute_uri(uri: str | os.PathLike[str]) -> str:
    """Give a URI the same meaning in every process of a job.

    Raises
    ------
    InvalidInputError
        A `memory://` URI: executors do not share the driver's memory.
    """
    text = os.fspath(uri)
    if text.startswith("memory:"):
        raise InvalidInputError(
            f"{text!r} names memory of one process, but Spark tasks run in others; "
            "use an object store or a directory that all executors share"
        )
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    """Arrow schema of a DataFrame, as a dataset stores it.

    Timestamps count microseconds in UTC, or without a zone where Spark's have none. List values
    are called `item`, as Arrow's own constructors do.

    Raises
    ------
    InvalidInputError
        A type that Arrow or Lance does not have, or a name that occurs twice.
    """
    return pa.schema(_arrow_fields(schema, ""))


def _arrow_fields(schema: spark_types.StructType, parent: str) -> list[pa.Field]:
    names = [field.name for field in schema.fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                f"column {parent + name!r} occurs {names.count(name)} times; "
                "rename or drop all but one before writing"
            )
    return [
        pa.field(f.name, _arrow_type(f.dataType, parent + f.name), nullable=f.nullable)
        for f in schema.fields
    ]


def _arrow_type(kind: spark_types.DataType, path: str) -> pa.DataType:
    for spark_type, arrow_type in PLAIN_TYPES:
        if isinstance(kind, spark_type):
            return arrow_type
    if isinstance(kind, spark_types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if TIME_TYPE is not None and isinstance(kind, TIME_TYPE):
        return pa.time64("ns")
    if isinstance(kind, spark_types.ArrayType):
        item = _arrow_type(kind.elementType, f"{path}.item")
        return pa.list_(pa.field("item", item, nullable=kind.containsNull))
    if isinstance(kind, spark_types.StructType):
        return pa.struct(_arrow_fields(kind, f"{path}."))
    if isinstance(kind, spark_types.MapType):
        value = _arrow_type(kind.valueType, f"{path}.value")
        return pa.map_(
            _arrow_type(kind.keyType, f"{path}.key"),
            pa.field("value", value, nullable=kind.valueContainsNull),
        )
    raise InvalidInputError(
        f"column {path!r} has the Spark type {kind.simpleString()}, which a Lance dataset cannot "
        "hold; cast or drop it before writing"
    )


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """Spark schema of what a scan yields.

    Raises
    ------
    InvalidInputError
        A type that Spark does not have, such as an unsigned integer.
    """
    return _spark_struct(list(schema), "")


def _spark_struct(fields: list[pa.Field], parent: str) -> spark_types.StructType:
    return spark_types.StructType([
        spark_types.StructField(f.name, _spark_type(f.type, parent + f.name), f.nullable)
        for f in fields
    ])


def _spark_type(kind: pa.DataType, path: str) -> spark_types.DataType:
    for test, spark_type in ARROW_TYPES:
        if test(kind):
            return spark_type()
    if pa.types.is_timestamp(kind):
        zoned = kind.tz is not None
        return spark_types.TimestampType() if zoned else spark_types.TimestampNTZType()
    if pa.types.is_decimal(kind) and kind.precision <= DECIMAL_DIGITS_MAX and kind.scale >= 0:
        return spark_types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_time64(kind) and TIME_TYPE is not None:
        return TIME_TYPE()
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, path)
    if _is_list(kind):
        item = _spark_type(kind.value_type, f"{path}.{kind.value_field.name}")
        return spark_types.ArrayType(item, kind.value_field.nullable)
    if pa.types.is_map(kind):
        key = _spark_type(kind.key_type, f"{path}.key")
        value = _spark_type(kind.item_type, f"{path}.value")
        return spark_types.MapType(key, value, kind.item_field.nullable)
    if pa.types.is_struct(kind):
        return _spark_struct([kind.field(i) for i in range(kind.num_fields)], f"{path}.")
    raise InvalidInputError(
        f"column {path!r} has the Arrow type {kind}, which Spark does not have; leave it out of "
        "`columns`, or cast it there to a type that Spark has"
    )


def _is_list(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def fit_schema(schema: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """Give data for an append the dataset's own types where Spark sees no difference.

    So what `read` yields can be appended again: text as `large_string`, an array as a list of
    fixed size, a timestamp in another zone or unit. Nullability stays as it is in `schema`.

    Parameters
    ----------
    schema
        Of the data, from `arrow_schema`.
    stored
        Of the dataset. Columns that it lacks, or has with another type, stay as they are.
    """
    return pa.schema([
        field.with_type(_fit(field.type, stored.field(field.name).type))
        if stored.get_field_index(field.name) >= 0
        else field
        for field in schema
    ])


def _fit(kind: pa.DataType, stored: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and pa.types.is_struct(stored):
        known = {field.name: field.type for field in stored.fields}
        return pa.struct([
            f.with_type(_fit(f.type, known.get(f.name, f.type))) for f in kind.fields
        ])
    if _is_list(kind) and _is_list(stored):
        item = pa.field(
            stored.value_field.name,
            _fit(kind.value_type, stored.value_type),
            nullable=kind.value_field.nullable,
        )
        if pa.types.is_fixed_size_list(stored):
            return pa.list_(item, stored.list_size)
        return pa.large_list(item) if pa.types.is_large_list(stored) else pa.list_(item)
    try:
        alike = _spark_type(kind, "") == _spark_type(stored, "")
    except InvalidInputError:
        return kind
    return stored if alike and not pa.types.is_dictionary(stored) else kind


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch to the types of a schema with the same columns; free where they are equal.

    Raises
    ------
    InvalidInputError
        A value does not survive, such as nanoseconds on their way to Spark's microseconds.
    """
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(array if array.type.equals(field.type) else array.cast(field.type))
        except pa.ArrowException as exc:
            raise InvalidInputError(
                f"column {field.name!r} does not convert from {array.type} to {field.type}: {exc}"
            ) from exc
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
