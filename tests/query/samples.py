"""One table with a column of every type that filters take, nulls in each."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

NUM_ROWS = 10


def _every(make: object, nulls: tuple[int, ...] = (2,)) -> list[object]:
    assert callable(make)
    return [None if i in nulls else make(i) for i in range(NUM_ROWS)]


def table() -> pa.Table:
    """`NUM_ROWS` rows; row 2 is null in all columns but id, Mixed and `with space`."""
    floats = [1.5, -2, None, float("nan"), float("inf"), 0.0, -0.0, 0.1, float("-inf"), 2.5]
    texts = ["abc", "ABC", None, "a%c", "a_c", "", "äbc", "it's", "a\\c", "x\ny"]
    structs = [
        {"a": 1, "n": {"c": "x"}},
        {"a": 2, "n": None},
        None,
        {"a": None, "n": {"c": "y"}},
        {"a": 5, "n": {"c": None}},
        *({"a": i, "n": {"c": "z"}} for i in range(5)),
    ]
    struct = pa.struct([("a", pa.int32()), ("n", pa.struct([("c", pa.string())]))])
    letters = pa.array(["x", "y", None, "x", "y", "z", "x", "x", "w", "y"])
    moments = _every(lambda i: dt.datetime(2013, 1, 1, i))
    i64 = [1, -2, None, 2**63 - 1, -(2**63), 0, 2**53, 2**53 + 1, 9, -7]
    u64 = [1, 2, None, 2**64 - 1, 2**63, 0, 2**53, 2**53 + 1, 9, 7]
    money = ["1.25", "-2.50", None, "99999999.99", "0.00", "1.00", "5.00", "7.10", "-0.01", "3"]
    flags = [True, False, None, True, False, True, False, None, True, False]
    return pa.table({
        "id": pa.array(range(NUM_ROWS), pa.int64()),
        "i8": pa.array([1, -2, None, 127, -128, 3, 5, 7, 100, -7], pa.int8()),
        "i32": pa.array([1, -2, None, 2**31 - 1, -(2**31), 0, 5, 7, 9, -7], pa.int32()),
        "i64": pa.array(i64, pa.int64()),
        "u8": pa.array([1, 2, None, 255, 128, 0, 5, 7, 9, 77], pa.uint8()),
        "u64": pa.array(u64, pa.uint64()),
        "f32": pa.array(floats, pa.float32()),
        "f64": pa.array(floats, pa.float64()),
        "b": pa.array(flags, pa.bool_()),
        "s": pa.array(texts, pa.string()),
        "ls": pa.array(texts, pa.large_string()),
        "bin": pa.array(_every(lambda i: bytes(range(i))), pa.binary()),
        "fsb": pa.array(_every(lambda i: bytes([97 + i, 98])), pa.binary(2)),
        "d": pa.array(_every(lambda i: dt.date(2013, 1, i + 1)), pa.date32()),
        "ts": pa.array(moments, pa.timestamp("us")),
        "tss": pa.array(moments, pa.timestamp("s")),
        "tsz": pa.array(moments, pa.timestamp("us", "UTC")),
        "tsny": pa.array(moments, pa.timestamp("us", "America/New_York")),
        "t": pa.array(_every(lambda i: dt.time(i)), pa.time64("us")),
        "dur": pa.array(_every(lambda i: dt.timedelta(seconds=i)), pa.duration("us")),
        "dec": pa.array([m and Decimal(m) for m in money], pa.decimal128(10, 2)),
        "dict": letters.dictionary_encode(),
        "st": pa.array(structs, struct),
        "lst": pa.array(_every(lambda i: [i]), pa.list_(pa.int32())),
        "Mixed": pa.array(range(NUM_ROWS), pa.int32()),
        "with space": pa.array(range(NUM_ROWS), pa.int32()),
    })


def batch() -> pa.RecordBatch:
    """The table as one batch."""
    return table().combine_chunks().to_batches()[0]
