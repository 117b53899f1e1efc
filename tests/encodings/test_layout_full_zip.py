"""Full-zip pages: single rows by address, and control words, lengths and indices that lie."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.encodings.rows import RowRanges
from alance.encodings.spec import (
    Constant,
    FixedSizeList,
    Flat,
    Fsst,
    FullZipLayout,
    Layer,
    Variable,
)
from alance.encodings.step import Fetch
from alance.errors import CorruptFileError, FormatError
from alance.testing.pages import StoredPage, pages_of, read_array, rows_of
from tests.encodings.forging import (
    buffer_bytes,
    only_page,
    page,
    read,
    with_buffer,
    with_layout,
    with_rows,
)

RNG = np.random.default_rng(5)


def vectors(num_rows: int, dimension: int, *, nulls: float = 0, null_items: float = 0) -> pa.Array:
    items = pa.array(
        RNG.random(num_rows * dimension, np.float32),
        mask=RNG.random(num_rows * dimension) < null_items if null_items else None,
    )
    mask = pa.array(RNG.random(num_rows) < nulls) if nulls else None
    return pa.FixedSizeListArray.from_arrays(items, dimension, mask=mask)


def texts(num_rows: int, *, nulls: float = 0) -> list[bytes | None]:
    return [
        None if RNG.random() < nulls else RNG.bytes(int(RNG.integers(0, 600)))
        for _ in range(num_rows)
    ]


def lists_of(items: pa.Array, *, nulls: bool) -> pa.Array:
    """Lists of 0 to 3 items; some null."""
    num_rows = len(items) // 3
    lengths = RNG.integers(0, 4, num_rows)
    offsets: list[int | None] = [0, *np.cumsum(lengths).tolist()]
    if nulls:
        offsets = [None if i % 5 == 2 and i < num_rows else o for i, o in enumerate(offsets)]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


ARRAYS: dict[str, pa.Array] = {
    "vectors": vectors(200, 100),
    "nullable vectors": vectors(200, 100, nulls=0.2),
    "vectors of nullable items": vectors(200, 100, nulls=0.2, null_items=0.3),
    "matrices": pa.FixedSizeListArray.from_arrays(vectors(800, 30, null_items=0.1), 4),
    "wide binary": pa.array([RNG.bytes(300) for _ in range(200)], pa.binary(300)),
    "very wide binary": pa.array([RNG.bytes(200_000)] * 3, pa.binary(200_000)),
    "binaries": pa.array(texts(300)),
    "nullable large binaries": pa.array(texts(300, nulls=0.2), pa.large_binary()),
    "text": pa.array([f"the manifest of version {i}; " * 20 for i in range(300)]),
    "lists of vectors": lists_of(vectors(300, 70), nulls=True),
    "lists of nullable vectors": lists_of(vectors(300, 70, nulls=0.3), nulls=False),
    "lists of binaries": lists_of(pa.array(texts(600, nulls=0.2)), nulls=True),
    "lists of lists": lists_of(lists_of(pa.array(texts(600, nulls=0.1)), nulls=True), nulls=True),
    "structs": pa.StructArray.from_arrays(
        [vectors(100, 64, nulls=0.1), pa.array(texts(100, nulls=0.1))],
        ["a", "b"],
        mask=pa.array(RNG.random(100) < 0.2),
    ),
}


@pytest.fixture(scope="module", params=list(ARRAYS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stored(name: str) -> list[list[StoredPage]]:
    return pages_of(ARRAYS[name])


def test_all_rows(name: str, stored: list[list[StoredPage]]) -> None:
    array = ARRAYS[name]
    assert all(isinstance(p.page.layout, FullZipLayout) for leaf in stored for p in leaf)
    found = read_array(array.type, stored, RowRanges.one(0, len(array)))
    found.validate(full=True)
    assert found.equals(array)


def test_every_single_row(name: str, stored: list[list[StoredPage]]) -> None:
    array = ARRAYS[name]
    for row in range(min(len(array), 60)):
        found = read_array(array.type, stored, RowRanges.one(row, row + 1))
        found.validate(full=True)
        assert found.equals(array.slice(row, 1)), f"row {row}"


@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_any_rows(name: str, stored: list[list[StoredPage]], data: st.DataObject) -> None:
    array = ARRAYS[name]
    wanted = rows_of(data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=20)))
    found = read_array(array.type, stored, wanted)
    found.validate(full=True)
    assert found.equals(array.take(pa.array(wanted.rows())))


def test_a_row_of_fixed_width_costs_itself() -> None:
    array = ARRAYS["vectors"]
    found, num_bytes = read(only_page(array), array.type, rows_of([3, 77, 150]))
    assert found.equals(array.take(pa.array([3, 77, 150])))
    assert num_bytes == 3 * 400


def test_a_row_of_variable_width_costs_itself_and_two_entries() -> None:
    array = pa.array([RNG.bytes(300 * (i % 3)) for i in range(5000)])
    found, num_bytes = read(only_page(array), array.type, RowRanges.one(2000, 2001))
    assert found.equals(array.slice(2000, 1))
    assert num_bytes == 2 * 4 + 4 + 600


def test_many_rows_fetch_the_index_whole_and_keep_it() -> None:
    array = ARRAYS["binaries"]
    stored = only_page(array)
    reader = stored.open()
    first = reader.plan(rows_of(list(range(0, 300, 2))))
    assert isinstance(first, Fetch)
    assert first.ranges == (stored.buffers[1],)
    first.then([memoryview(buffer_bytes(stored)[1])])
    assert reader.search_bytes == 301 * 8
    again = reader.plan(RowRanges.one(7, 8))
    assert isinstance(again, Fetch)
    assert stored.buffers[0].start <= again.ranges[0].start < stored.buffers[0].stop


def test_all_rows_need_no_index() -> None:
    array = ARRAYS["binaries"]
    stored = only_page(array)
    _, num_bytes = read(stored, array.type)
    assert num_bytes == stored.buffers[0].num_bytes


@pytest.mark.parametrize(("size", "width"), [(300, 2), (70_000, 4)])
def test_the_index_is_as_narrow_as_it_can_be(size: int, width: int) -> None:
    index = buffer_bytes(only_page(pa.array([RNG.bytes(size), b"y"])))[1]
    assert index == np.array([0, 4 + size, 4 + size + 5], f"<u{width}").tobytes()


def full_zip(stored: StoredPage) -> FullZipLayout:
    assert isinstance(stored.page.layout, FullZipLayout)
    return stored.page.layout


EXAMPLE = FullZipLayout(
    bits_rep=0,
    bits_def=1,
    bits_per_value=None,
    bits_per_offset=32,
    num_items=3,
    num_visible_items=3,
    value_compression=Variable(Flat(32)),
    layers=(Layer.NULLABLE_ITEM,),
)
EXAMPLE_DATA = bytes.fromhex("00 02000000 6162 01 00 00000000")


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_the_example_of_the_specification(width: int) -> None:
    index = np.array([0, 7, 8, 13], f"<u{width}").tobytes()
    stored = page(EXAMPLE, [EXAMPLE_DATA, index], 3)
    assert read(stored, pa.string())[0].to_pylist() == ["ab", None, ""]
    for row, value in enumerate(["ab", None, ""]):
        found, _ = read(stored, pa.string(), RowRanges.one(row, row + 1))
        assert found.to_pylist() == [value]


@pytest.mark.parametrize("bits", [8, 1])
def test_booleans_of_fixed_size_lists_are_bits_or_bytes(bits: int) -> None:
    values = RNG.random((3, 64)) < 0.5
    layout = FullZipLayout(
        bits_rep=0,
        bits_def=0,
        bits_per_value=64 * bits,
        bits_per_offset=None,
        num_items=3,
        num_visible_items=3,
        value_compression=FixedSizeList(64, False, Flat(1)),
        layers=(Layer.ALL_VALID_ITEM,),
    )
    data = values.astype(np.uint8) if bits == 8 else np.packbits(values, axis=1, bitorder="little")
    found, _ = read(page(layout, [data.tobytes()], 3), pa.list_(pa.bool_(), 64))
    assert found.to_pylist() == values.tolist()


def test_booleans_take_a_byte() -> None:
    layout = replace(EXAMPLE, bits_per_value=8, bits_per_offset=None, value_compression=Flat(8))
    stored = page(layout, [bytes.fromhex("0001 0100 0000 0001")], 4)
    assert read(stored, pa.bool_())[0].to_pylist() == [True, None, False, True]


def test_items_that_are_all_null_are_validity_only() -> None:
    layout = FullZipLayout(
        bits_rep=0,
        bits_def=0,
        bits_per_value=104,
        bits_per_offset=None,
        num_items=4,
        num_visible_items=4,
        value_compression=FixedSizeList(100, True, Constant(None)),
        layers=(Layer.ALL_VALID_ITEM,),
    )
    kind = pa.list_(pa.int64(), 100)
    found, _ = read(page(layout, [bytes(52)], 4), kind)
    found.validate(full=True)
    assert found.to_pylist() == [[None] * 100] * 4


VECTORS = only_page(ARRAYS["nullable vectors"])
BINARIES = only_page(pa.array([RNG.bytes(500) for _ in range(100)]))
LISTS = only_page(ARRAYS["lists of binaries"])
EMPTY_TABLE = bytes(2312)
FIXED: dict[str, Any] = {"bits_per_offset": None, "bits_per_value": 8}


@pytest.mark.parametrize(
    "forged",
    [
        with_rows(VECTORS, 201),
        with_rows(VECTORS, 2**62),
        with_layout(VECTORS, bits_per_value=0),
        with_layout(VECTORS, bits_per_value=3199),
        with_layout(VECTORS, bits_per_value=8),
        with_layout(VECTORS, bits_per_value=2**34),
        with_layout(VECTORS, bits_per_value=None, bits_per_offset=None),
        with_layout(VECTORS, bits_per_value=None, bits_per_offset=16),
        with_layout(VECTORS, bits_per_value=None, bits_per_offset=32),
        with_layout(VECTORS, bits_def=17),
        with_layout(VECTORS, bits_def=9),
        with_layout(VECTORS, bits_rep=16, bits_def=16),
        with_layout(VECTORS, bits_rep=8),
        with_layout(VECTORS, layers=(Layer.ALL_VALID_ITEM,)),
        with_layout(VECTORS, value_compression=Flat(32)),
        with_layout(VECTORS, value_compression=Variable(Flat(32))),
        with_layout(VECTORS, value_compression=Fsst(EMPTY_TABLE, Variable(Flat(32)))),
        with_layout(VECTORS, value_compression=FixedSizeList(99, False, Flat(32))),
        with_layout(VECTORS, value_compression=FixedSizeList(3200, False, Flat(1))),
        with_layout(VECTORS, value_compression=FixedSizeList(2**31, False, Flat(32))),
        with_layout(VECTORS, value_compression=FixedSizeList(2**31, True, Flat(32))),
        with_layout(VECTORS, value_compression=FixedSizeList(2**26, True, Constant(None))),
        with_layout(VECTORS, value_compression=FixedSizeList(100, False, Constant(None))),
        with_layout(
            VECTORS,
            value_compression=FixedSizeList(8, True, FixedSizeList(2**28, False, Constant(None))),
        ),
        with_buffer(VECTORS, 0, buffer_bytes(VECTORS)[0][:-1]),
        with_buffer(VECTORS, 0, b""),
        with_buffer(VECTORS, 0, b"\xff" * len(buffer_bytes(VECTORS)[0])),
    ],
)
def test_false_claims_about_fixed_values_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, ARRAYS["nullable vectors"].type)


@pytest.mark.parametrize(
    "forged",
    [
        with_rows(BINARIES, 101),
        with_rows(BINARIES, 99),
        with_rows(BINARIES, 2**40),
        with_layout(BINARIES, bits_per_offset=64),
        with_layout(BINARIES, bits_per_offset=8),
        with_layout(BINARIES, **FIXED),
        with_layout(BINARIES, value_compression=Flat(32)),
        with_layout(BINARIES, value_compression=Fsst(EMPTY_TABLE, Variable(Flat(32)))),
        with_layout(BINARIES, value_compression=Fsst(b"", Variable(Flat(32)))),
        with_layout(BINARIES, value_compression=FixedSizeList(1, False, Flat(8))),
        with_layout(BINARIES, layers=(Layer.NULLABLE_ITEM, Layer.ALL_VALID_LIST)),
        with_layout(BINARIES, bits_def=1),
        with_buffer(BINARIES, 0, buffer_bytes(BINARIES)[0][:-1]),
        with_buffer(BINARIES, 0, buffer_bytes(BINARIES)[0] + b"\0"),
        with_buffer(BINARIES, 0, b"\xff" * 100),
        with_buffer(BINARIES, 1, b""),
        with_buffer(BINARIES, 1, buffer_bytes(BINARIES)[1][:-1]),
        with_buffer(BINARIES, 1, b"\xff" * len(buffer_bytes(BINARIES)[1])),
        with_buffer(BINARIES, 1, b"\xff" * 8 * 101),
    ],
)
def test_false_claims_about_variable_values_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read_twice(forged)


def read_twice(stored: StoredPage) -> None:
    """Read all rows, which need no index; then most rows, by the index."""
    read(stored, pa.binary())
    read(stored, pa.binary(), RowRanges(np.array([0, 50], np.int64), np.array([49, 99], np.int64)))


@pytest.mark.parametrize(
    "forged",
    [
        with_layout(LISTS, bits_rep=0),
        with_layout(LISTS, bits_rep=16),
        with_layout(LISTS, bits_def=0),
        with_layout(LISTS, layers=(Layer.ALL_VALID_ITEM, Layer.NULL_AND_EMPTY_LIST)),
        with_layout(LISTS, layers=(Layer.NULLABLE_ITEM,)),
        with_rows(LISTS, 199),
        with_rows(LISTS, 201),
    ],
)
def test_false_claims_about_lists_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.list_(pa.binary()))


def test_missing_buffers_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="needs 1 buffers"):
        page(VECTORS.page.layout, [], 200).open()
    with pytest.raises(CorruptFileError, match="needs 2 buffers"):
        page(BINARIES.page.layout, buffer_bytes(BINARIES)[:1], 100).open()


def test_rows_may_not_share_bytes() -> None:
    num_rows = 20_000
    data = EXAMPLE_DATA[:7] + bytes(1 << 20)
    index = np.tile(np.array([0, 1 << 20], "<u4"), num_rows // 2)
    index = np.append(index, index[-1:])
    layout = replace(EXAMPLE, num_items=num_rows)
    forged = page(layout, [data, index.tobytes()], num_rows)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match="repetition index falls"):
            read(forged, pa.string(), rows_of(list(range(0, num_rows, 2))))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, "a megabyte for each of 10,000 rows would take 10 GB"


def test_items_of_one_value() -> None:
    spec = FixedSizeList(100, True, Constant(np.float32(1.5).tobytes()))
    layout = replace(full_zip(VECTORS), value_compression=spec, bits_per_value=104)
    kind = pa.list_(pa.float32(), 100)
    found, _ = read(page(layout, [b"\0" + b"\xfd" * 13 + b"\1" + bytes(13)], 2), kind)
    found.validate(full=True)
    items = [None if i % 8 == 1 else 1.5 for i in range(100)]
    assert found.to_pylist() == [items, None]
    with pytest.raises(CorruptFileError):
        read(page(layout, [bytes(14 * 2)], 2), pa.list_(pa.float64(), 100))
