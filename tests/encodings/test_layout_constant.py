"""Constant pages: one value or none, with and without levels; empty structs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.compressive import default_registry
from alance.encodings.layout import open_page
from alance.encodings.rows import RowRanges
from alance.encodings.spec import (
    ConstantLayout,
    Flat,
    Layer,
    MiniBlockLayout,
    OutOfLineBitpacking,
)
from alance.encodings.step import Decode, Fetch
from alance.errors import CorruptFileError, FormatError, InvalidInputError, UnsupportedFeatureError
from alance.testing.asserts import assert_same_array
from alance.testing.pages import StoredPage, pages_of, read_array, rows_of
from alance.types import FileVersion
from tests.encodings.forging import buffer_bytes, only_page, page, read, with_buffer, with_rows

NULLS = ConstantLayout((Layer.NULLABLE_ITEM,))
NULL_LISTS = ConstantLayout((Layer.ALL_VALID_ITEM, Layer.NULL_AND_EMPTY_LIST))
LISTS = page(NULL_LISTS, [b"\1\0\1\0", b"\1\0\2\0"], 2)
"""The specification's example: rows null, []."""

ARRAYS: dict[str, pa.Array] = {
    "integers": pa.nulls(100, pa.int32()),
    "strings": pa.nulls(100, pa.string()),
    "vectors": pa.nulls(100, pa.list_(pa.float64(), 100)),
    "dictionaries": pa.nulls(100, pa.dictionary(pa.int8(), pa.string())),
    "null type": pa.nulls(100),
    "lists": pa.array([None, [], [None], [None, None]] * 25, pa.list_(pa.int64())),
    "lists of lists": pa.array([None, [], [None], [[], None]] * 25, pa.list_(pa.list_(pa.int8()))),
    "lists of nulls": pa.array([[None], [None] * 3] * 50, pa.list_(pa.null())),
    "structs": pa.array([None, {"a": None}] * 50, pa.struct([("a", pa.string())])),
    "empty structs": pa.array([{}] * 100, pa.struct([])),
    "structs of empty structs": pa.array(
        [{"a": 1, "e": {"e": {}}}] * 100,
        pa.struct([("a", pa.int8()), ("e", pa.struct([("e", pa.struct([]))]))]),
    ),
}


ITEM = Layer.ALL_VALID_ITEM
VERSION = FileVersion.V2_2
CONSTANTS: dict[str, pa.Array] = {
    "integers": pa.array([7] * 100),
    "integers and nulls": pa.array([7, None] * 10, pa.int16()),
    "a null first": pa.array([None, 7, 7, 7], pa.int64()),
    "booleans": pa.array([True] * 100),
    "booleans and nulls": pa.array([False, None, False, False]),
    "floats that are NaN": pa.array([float("nan")] * 100, pa.float16()),
    "decimals": pa.array([3] * 100, pa.decimal256(50, 2)),
    "narrow binaries": pa.array([b"x" * 32] * 100, pa.binary(32)),
    "wide binaries": pa.array([b"x" * 33, None] * 50, pa.binary(33)),
    "strings": pa.array(["hello"] * 100),
    "strings and nulls": pa.array(["hello", None, "hello"] * 10, pa.large_string()),
    "empty strings": pa.array([""] * 100),
    "long binaries": pa.array([np.random.default_rng(0).bytes(5000), None] * 50),
    "one value": pa.array([None, None, "once"]),
    "lists": pa.array([[7], [7, None], [], None], pa.list_(pa.uint8())),
    "lists without nulls": pa.array([[7, 7], [7], [7]], pa.large_list(pa.float64())),
    "lists of lists": pa.array([[["a"], []], None, [None], []], pa.list_(pa.list_(pa.string()))),
    "structs": pa.array([{"a": 1}, None, {"a": None}]),
    "lists of structs": pa.array([[{"a": [1]}], [None], [{"a": None}, {"a": [1, 1]}]]),
}


@pytest.mark.parametrize("name", list(ARRAYS))
def test_round_trip(name: str) -> None:
    array = ARRAYS[name]
    stored = pages_of(array)
    assert isinstance(stored[-1][0].page.layout, ConstantLayout)
    for rows in (RowRanges.one(0, 100), RowRanges.one(3, 7), rows_of([0, 3, 50, 51, 99])):
        found = read_array(array.type, stored, rows)
        found.validate(full=True)
        assert found.equals(array.take(pa.array(rows.rows())))


def test_the_example_of_the_specification() -> None:
    kind = pa.list_(pa.int32())
    assert read(LISTS, kind)[0].equals(pa.array([None, []], kind))


@pytest.mark.parametrize("kind", [pa.struct([]), pa.list_(pa.struct([]))])
def test_empty_structs_that_are_null_or_in_lists_are_not_written(kind: pa.DataType) -> None:
    array = pa.nulls(3, kind)
    with pytest.raises(InvalidInputError, match="structs without members"):
        pages_of(array)


def test_levels_are_fetched_whole() -> None:
    array = ARRAYS["lists"]
    found, num_bytes = read(only_page(array), array.type, RowRanges.one(5, 6))
    assert found.equals(array.slice(5, 1))
    assert num_bytes == 2 * 2 * 125, "two levels for each of 125 items"


@pytest.mark.parametrize(
    "forged",
    [
        with_rows(LISTS, 1),
        with_rows(LISTS, 3),
        with_rows(LISTS, 2**60),
        with_buffer(LISTS, 0, b""),
        with_buffer(LISTS, 0, b"\1\0\1"),
        with_buffer(LISTS, 0, b"\1\0"),
        with_buffer(LISTS, 0, b"\0\0\1\0"),
        with_buffer(LISTS, 0, b"\2\0\1\0"),
        with_buffer(LISTS, 1, b"\1\0\2\0\0\0"),
        with_buffer(LISTS, 1, b"\1\0\3\0"),
        page(NULL_LISTS, [], 2),
        page(NULL_LISTS, [b"\1\0\1\0"], 2),
        page(NULLS, [], 2),
        page(ConstantLayout((Layer.ALL_VALID_ITEM, Layer.ALL_VALID_ITEM)), [b"", b""], 2),
    ],
)
def test_false_claims_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.list_(pa.int32()))


def test_without_definition_levels_every_item_is_a_null_leaf() -> None:
    found, _ = read(with_buffer(LISTS, 1, b""), pa.list_(pa.int32()))
    assert found.to_pylist() == [[None], [None]]


@pytest.mark.parametrize("num_buffers", [0, 1, 2, 3])
def test_stray_buffers_of_file_version_2_1_are_ignored(num_buffers: int) -> None:
    stored = page(NULLS, [b"stray"] * num_buffers, 5)
    found, num_bytes = read(stored, pa.int32())
    assert found.equals(pa.nulls(5, pa.int32()))
    assert num_bytes == 0


def test_nulls_of_file_version_2_2() -> None:
    bare = open_page(NULLS, [], 5, default_registry(), VERSION)
    step = bare.plan(RowRanges.one(1, 4))
    assert isinstance(step, Decode)
    assert step.run().values.num_values == 3
    with pytest.raises(CorruptFileError, match="needs 2 buffers"):
        open_page(NULL_LISTS, [], 5, default_registry(), VERSION)


@pytest.mark.parametrize("name", list(CONSTANTS))
def test_constants_come_back(name: str) -> None:
    array = CONSTANTS[name]
    stored = pages_of(array, VERSION)
    assert all(isinstance(page.page.layout, ConstantLayout) for leaf in stored for page in leaf)
    last = len(array) - 1
    for rows in (RowRanges.one(0, last + 1), RowRanges.one(1, 3), rows_of([0, 2, last])):
        found = read_array(array.type, stored, rows)
        found.validate(full=True)
        assert_same_array(found, array.take(pa.array(rows.rows())))


@pytest.mark.parametrize("name", list(ARRAYS))
def test_nulls_with_compressed_levels_come_back(name: str) -> None:
    array = ARRAYS[name]
    stored = pages_of(array, VERSION)
    for rows in (RowRanges.one(0, 100), RowRanges.one(3, 7), rows_of([0, 3, 50, 51, 99])):
        found = read_array(array.type, stored, rows)
        found.validate(full=True)
        assert found.equals(array.take(pa.array(rows.rows())))


def layout_of(array: pa.Array) -> tuple[ConstantLayout, list[bytes]]:
    stored = only_page(array, version=VERSION)
    assert isinstance(stored.page.layout, ConstantLayout)
    return stored.page.layout, buffer_bytes(stored)


def test_the_examples_of_the_specification() -> None:
    """Section 3 of the document on 2.2."""
    five = (5).to_bytes(4, "little")
    layout, buffers = layout_of(pa.array([5, None, 5], pa.int32()))
    assert layout == ConstantLayout((Layer.NULLABLE_ITEM,), five)
    assert buffers == [b"", b"\0\0\1\0\0\0"]
    layout, buffers = layout_of(pa.array([[5, 5], [5]], pa.list_(pa.int32())))
    assert layout == ConstantLayout((ITEM, Layer.ALL_VALID_LIST), five)
    assert buffers == [b"\1\0\0\0\1\0", b""]
    assert layout_of(pa.array([True])) == (ConstantLayout((ITEM,), b"\1"), [])
    text = bytes.fromhex("02000000 08000000 05000000 00000000 05000000 68656c6c6f")
    assert layout_of(pa.array(["hello"] * 3)) == (ConstantLayout((ITEM,)), [text])
    wide = bytes.fromhex("01000000 28000000") + b"x" * 40
    assert layout_of(pa.array([b"x" * 40], pa.binary(40))) == (ConstantLayout((ITEM,)), [wide])
    layout, buffers = layout_of(pa.array([None, []], pa.list_(pa.int32())))
    assert (layout.rep_compression, layout.def_compression) == (Flat(16), Flat(16))
    assert (layout.num_rep_values, layout.num_def_values) == (2, 2)
    assert buffers == [b"\1\0\1\0", b"\1\0\2\0"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0.0, -0.0] * 50),
        pa.array([1] * 99 + [2]),
        pa.array(["a"] * 99 + ["b"]),
        pa.array(["a"] * 99 + ["aa"]),
        pa.array([True] * 99 + [False]),
        pa.array([None, True] * 499 + [False]),
        pa.array(["a"] * 100).dictionary_encode(),
        pa.array([[1, 1]] * 100, pa.list_(pa.int8(), 2)),
    ],
)
def test_other_values_are_no_constants(array: pa.Array) -> None:
    assert not isinstance(only_page(array, version=VERSION).page.layout, ConstantLayout)


def test_bits_that_are_the_same_make_a_constant() -> None:
    nan = pa.array([float("nan"), None, float("nan")])
    assert layout_of(nan)[0].inline_value == np.float64("nan").tobytes()
    assert layout_of(pa.array([-0.0] * 3))[0].inline_value == np.float64(-0.0).tobytes()


def test_constants_with_many_levels_are_stored_smaller() -> None:
    array = pa.array([7, None] * 5000)
    stored = only_page(array, version=VERSION)
    assert isinstance(stored.page.layout, MiniBlockLayout)
    assert len(stored.data) < 2 * 10_000


def test_no_version_before_2_2_has_constants() -> None:
    assert isinstance(only_page(CONSTANTS["integers"]).page.layout, MiniBlockLayout)
    stored = page(ConstantLayout((ITEM,), b"\1"), [], 2)
    with pytest.raises(CorruptFileError, match=r"2\.1"):
        read(stored, pa.int8())


def test_a_constant_takes_no_more_memory_than_rows_are_asked_for() -> None:
    stored = page(ConstantLayout((ITEM,), b"12345678"), [], 2**40, VERSION)
    found, num_bytes = read(stored, pa.int64(), RowRanges.one(2**39, 2**39 + 3))
    assert found.to_pylist() == [int.from_bytes(b"12345678", "little")] * 3
    assert num_bytes == 0


def test_a_value_is_fetched_once() -> None:
    stored = only_page(CONSTANTS["long binaries"], version=VERSION)
    reader = stored.open()
    both = [reader.plan(RowRanges.one(0, 2)) for _ in range(2)]
    for step in both:
        assert isinstance(step, Fetch)
        done = step.then([memoryview(stored.data)[r.start : r.stop] for r in step.ranges])
        assert isinstance(done, Decode)
        assert done.run().num_rows == 2
    again = reader.plan(RowRanges.one(3, 4))
    assert isinstance(again, Fetch)
    assert sum(r.num_bytes for r in again.ranges) == 2 * 100
    assert reader.search_bytes == 5000


LIST_OF_TEXT = page(
    ConstantLayout((ITEM, Layer.ALL_VALID_LIST)),
    [bytes.fromhex("02000000 08000000 01000000 00000000 01000000 68"), b"\1\0\1\0", b""],
    2,
    VERSION,
)
COMPRESSED = ConstantLayout(
    NULL_LISTS.layers, None, OutOfLineBitpacking(16, Flat(0)), Flat(16), 2, 2
)


def test_lists_of_one_text() -> None:
    found, _ = read(LIST_OF_TEXT, pa.list_(pa.string()))
    assert found.to_pylist() == [["h"], ["h"]]


@pytest.mark.parametrize(
    "forged",
    [
        page(ConstantLayout((ITEM,), b""), [], 2, VERSION),
        page(ConstantLayout((ITEM,), bytes(33)), [], 2, VERSION),
        page(ConstantLayout((ITEM,), b"\1"), [b"\1"], 2, VERSION),
        page(ConstantLayout((ITEM,)), [], 2, VERSION),
        page(ConstantLayout((ITEM,)), [b""] * 4, 2, VERSION),
        page(ConstantLayout((ITEM, Layer.ALL_VALID_LIST), b"\1"), [], 2, VERSION),
        page(ConstantLayout((ITEM, Layer.ALL_VALID_LIST)), [b"\1\0\0\0\1\0\0\0x"], 2, VERSION),
        page(ConstantLayout((ITEM,)), [b"", b""], 2, VERSION),
        with_rows(LIST_OF_TEXT, 3),
        with_buffer(LIST_OF_TEXT, 1, b""),
        with_buffer(LIST_OF_TEXT, 1, b"\0\0\1\0"),
        with_buffer(LIST_OF_TEXT, 2, b"\0\0"),
        with_buffer(LIST_OF_TEXT, 0, b""),
        with_buffer(LIST_OF_TEXT, 0, bytes.fromhex("03000000 00000000 00000000 00000000")),
        with_buffer(LIST_OF_TEXT, 0, bytes.fromhex("01000000 00000000")),
        with_buffer(LIST_OF_TEXT, 0, bytes.fromhex("01000000 01000000 68")),
        with_buffer(LIST_OF_TEXT, 0, bytes.fromhex("02000000 08000000 ffffffff 00000000 01000000")),
        with_buffer(LIST_OF_TEXT, 0, bytes.fromhex("02000000 04000000 01000000 00000000 68")),
        with_buffer(
            LIST_OF_TEXT, 0, bytes.fromhex("02000000 08000000 01000000 01000000 01000000 68")
        ),
        with_buffer(
            LIST_OF_TEXT, 0, bytes.fromhex("02000000 08000000 01000000 00000000 02000000 68")
        ),
        page(COMPRESSED, [b"", b"\1\0\2\0"], 2, VERSION),
        page(replace(COMPRESSED, num_rep_values=2**40), [b"", b"\1\0\2\0"], 2, VERSION),
        page(replace(COMPRESSED, num_def_values=2**62), [b"", b"\1\0\2\0"], 2, VERSION),
    ],
)
def test_false_claims_of_constants_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.list_(pa.string()))


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.list_(pa.int8(), 8), pa.bool_()])
def test_constants_of_other_types_are_refused(kind: pa.DataType) -> None:
    stored = page(ConstantLayout((ITEM,), bytes(8)), [], 2, VERSION)
    with pytest.raises(CorruptFileError, match="64 bits"):
        read(stored, kind)


def test_texts_of_more_than_2_gib_are_refused() -> None:
    text = np.array([2, 8, 2**20, 0, 2**20], "<u4").tobytes() + bytes(2**20)
    stored = page(ConstantLayout((ITEM,)), [text], 2**40, VERSION)
    with pytest.raises(UnsupportedFeatureError, match="2 GiB"):
        read(stored, pa.string(), RowRanges.one(0, 2048))


def test_levels_may_lie_at_odd_addresses() -> None:
    array = ARRAYS["lists"]
    stored = only_page(array)
    reader = stored.open()
    step = reader.plan(RowRanges.one(0, 100))
    assert not isinstance(step, Decode)
    odd = []
    for wanted in step.ranges:
        # bytearrays begin at even addresses
        shifted = memoryview(bytearray(b"\0" + stored.data[wanted.start : wanted.stop]))[1:]
        assert np.frombuffer(shifted, np.uint8).ctypes.data % 2
        odd.append(shifted)
    done = step.then(odd)
    assert isinstance(done, Decode)
    rep = done.run().levels.rep
    assert rep is not None
    assert rep.flags.aligned
