"""All-null pages: nothing stored but levels; empty structs; pages of newer versions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.compressive import default_registry
from alance.encodings.layout import open_page
from alance.encodings.rows import RowRanges
from alance.encodings.spec import AllNullLayout, Layer
from alance.encodings.step import Decode
from alance.errors import CorruptFileError, FormatError, InvalidInputError, UnsupportedFeatureError
from alance.testing.pages import StoredPage, pages_of, read_array, rows_of
from alance.types import ByteRange, FileVersion
from tests.encodings.forging import only_page, page, read, with_buffer, with_rows

NULLS = AllNullLayout((Layer.NULLABLE_ITEM,))
NULL_LISTS = AllNullLayout((Layer.ALL_VALID_ITEM, Layer.NULL_AND_EMPTY_LIST))
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


@pytest.mark.parametrize("name", list(ARRAYS))
def test_round_trip(name: str) -> None:
    array = ARRAYS[name]
    stored = pages_of(array)
    assert isinstance(stored[-1][0].page.layout, AllNullLayout)
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
        page(AllNullLayout((Layer.ALL_VALID_ITEM, Layer.ALL_VALID_ITEM)), [b"", b""], 2),
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


@pytest.mark.parametrize("layout", [NULLS, NULL_LISTS])
@pytest.mark.parametrize("num_buffers", [1, 3])
def test_values_of_file_version_2_2_are_not_taken_for_nulls(
    layout: AllNullLayout, num_buffers: int
) -> None:
    buffers = [ByteRange(0, 16)] * num_buffers
    with pytest.raises(UnsupportedFeatureError, match="constant page with a value"):
        open_page(layout, buffers, 5, default_registry(), FileVersion.V2_2)


def test_nulls_of_file_version_2_2() -> None:
    bare = open_page(NULLS, [], 5, default_registry(), FileVersion.V2_2)
    step = bare.plan(RowRanges.one(1, 4))
    assert isinstance(step, Decode)
    assert step.run().values.num_values == 3
    with pytest.raises(CorruptFileError, match="needs 2 buffers"):
        open_page(NULL_LISTS, [], 5, default_registry(), FileVersion.V2_2)


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
