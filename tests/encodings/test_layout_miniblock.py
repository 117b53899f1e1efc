"""Mini-block pages: any rows come back, few rows cost few bytes, no claim is believed."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.encodings.options import ColumnOptions
from alance.encodings.rows import RowRanges
from alance.encodings.spec import (
    Constant,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    Layer,
    MiniBlockLayout,
    OutOfLineBitpacking,
    Rle,
    Spec,
    Variable,
)
from alance.encodings.step import Fetch
from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError
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

RNG = np.random.default_rng(3)
CHUNKS = ColumnOptions(structural_encoding="miniblock")


def make_lists(num_rows: int, *, long_row: int | None = None, seed: int = 0) -> pa.ListArray:
    """Lists of up to 4 doubles, some null, some empty, some with null items."""
    rng = np.random.default_rng(seed)
    rows: list[list[float | None] | None] = []
    for i in range(num_rows):
        draw = rng.random()
        if i == long_row:
            rows.append(list(map(float, range(5000))))
        elif draw < 0.1:
            rows.append(None)
        else:
            rows.append([
                None if rng.random() < 0.1 else float(i * 10 + j) for j in range(rng.integers(0, 5))
            ])
    return pa.array(rows, pa.list_(pa.float64()))


ARRAYS: dict[str, pa.Array] = {
    "flat": pa.array(RNG.standard_normal(5000)),
    "nullable": pa.array(RNG.standard_normal(5000), mask=RNG.random(5000) < 0.3),
    "bitpacked": pa.array(RNG.integers(0, 100, 5000)),
    "booleans": pa.array(RNG.random(20_000) < 0.5, mask=RNG.random(20_000) < 0.1),
    "strings": pa.array([RNG.bytes(i % 30).hex() for i in range(5000)]),
    "text": pa.array([f"page {i} of the manifest" for i in range(5000)]),
    "dictionary": pa.array([("red", "green", None)[i % 3] for i in range(5000)]),
    "vectors": pa.FixedSizeListArray.from_arrays(
        pa.array(RNG.random(20_000), mask=RNG.random(20_000) < 0.1), 4
    ),
    "bits": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(15_000) < 0.5), 3),
    "lists": make_lists(3000),
    "long row": make_lists(1500, long_row=700),
    "nested": pa.ListArray.from_arrays(
        pa.array([None if i % 7 == 3 else 2 * i for i in range(1501)], pa.int32()),
        make_lists(3001, seed=1),
    ),
    "structs": pa.StructArray.from_arrays(
        [pa.array(RNG.random(3000), mask=RNG.random(3000) < 0.2), make_lists(3000, seed=2)],
        ["a", "b"],
        mask=pa.array(RNG.random(3000) < 0.2),
    ),
}


@pytest.fixture(scope="module", params=list(ARRAYS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stored(name: str) -> list[list[StoredPage]]:
    return pages_of(ARRAYS[name], options=CHUNKS)


def test_all_rows(name: str, stored: list[list[StoredPage]]) -> None:
    array = ARRAYS[name]
    assert all(isinstance(p.page.layout, MiniBlockLayout) for leaf in stored for p in leaf)
    found = read_array(array.type, stored, RowRanges.one(0, len(array)))
    found.validate(full=True)
    assert found.equals(array)


@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_any_rows(name: str, stored: list[list[StoredPage]], data: st.DataObject) -> None:
    array = ARRAYS[name]
    row = st.integers(0, len(array) - 1)
    rows = rows_of(data.draw(st.lists(row, min_size=1, max_size=20)))
    edges = sorted(data.draw(st.lists(row, min_size=2, max_size=6, unique=True)))
    starts, stops = edges[0 : len(edges) // 2 * 2 : 2], edges[1::2]
    ranges = RowRanges(np.array(starts, np.int64), np.array(stops, np.int64))
    for wanted in (rows, ranges):
        found = read_array(array.type, stored, wanted)
        found.validate(full=True)
        assert found.equals(array.take(pa.array(wanted.rows())))


def test_a_row_costs_its_chunk() -> None:
    array = ARRAYS["flat"]
    ((stored,),) = pages_of(array, options=CHUNKS)
    metadata, _ = (buffer.num_bytes for buffer in stored.buffers)
    found, num_bytes = read(stored, array.type, RowRanges.one(2000, 2001))
    assert found[0] == array[2000]
    chunk_bytes = 8 + 512 * 8
    assert num_bytes == metadata + chunk_bytes


def test_rows_far_apart_cost_a_chunk_each() -> None:
    array = pa.array(RNG.standard_normal(50_000))
    ((stored,),) = pages_of(array, options=CHUNKS)
    found, num_bytes = read(stored, array.type, rows_of([3, 25_000, 25_001, 49_999]))
    assert found.equals(array.take(pa.array([3, 25_000, 25_001, 49_999])))
    last = 8 + 50_000 % 512 * 8
    assert num_bytes == stored.buffers[0].num_bytes + 2 * (8 + 512 * 8) + last


def test_a_long_list_costs_the_chunks_it_spans() -> None:
    array = ARRAYS["long row"]
    stored = only_page(array)
    metadata, data, index = (buffer.num_bytes for buffer in stored.buffers)
    search = metadata + index
    found, num_bytes = read(stored, array.type, RowRanges.one(700, 701))
    assert len(found[0]) == 5000
    assert search + 5000 * 8 < num_bytes < search + 5000 * 8 + 3 * 5000
    _, num_bytes = read(stored, array.type, RowRanges.one(10, 11))
    assert num_bytes < search + 5000
    assert data > 5000 * 8


def test_the_chunk_table_is_fetched_once() -> None:
    array = ARRAYS["lists"]
    stored = only_page(array)
    reader = stored.open()
    assert reader.search_bytes == 0
    first = reader.plan(RowRanges.one(0, 1))
    assert isinstance(first, Fetch)
    assert first.ranges == (stored.buffers[0], stored.buffers[2])
    first.then([memoryview(stored.data)[r.start : r.stop] for r in first.ranges])
    assert reader.search_bytes > 0
    again = reader.plan(RowRanges.one(0, 1))
    assert isinstance(again, Fetch)
    assert stored.buffers[1].start <= again.ranges[0].start < stored.buffers[1].stop


def test_lists_without_a_repetition_index_are_read_whole() -> None:
    array = ARRAYS["lists"]
    stored = only_page(array)
    bare = page(
        replace_layout(stored, repetition_index_depth=0), buffer_bytes(stored)[:2], len(array)
    )
    wanted = rows_of([0, 5, 700, 2999])
    found, num_bytes = read(bare, array.type, wanted)
    assert found.equals(array.take(pa.array(wanted.rows())))
    assert num_bytes == sum(buffer.num_bytes for buffer in bare.buffers)


def replace_layout(stored: StoredPage, **claims: Any) -> MiniBlockLayout:
    layout = stored.page.layout
    assert isinstance(layout, MiniBlockLayout)
    return replace(layout, **claims)


def test_the_example_of_the_specification() -> None:
    layout = MiniBlockLayout(
        rep_compression=Flat(16),
        def_compression=Flat(16),
        value_compression=Flat(32),
        dictionary=None,
        num_dictionary_items=0,
        layers=(Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST),
        num_buffers=1,
        repetition_index_depth=1,
        num_items=6,
    )
    chunk = bytes.fromhex(
        "0800 1000 1000 1800"
        "0100 0000 0100 0100 0100 0000 0000 0100"
        "0000 0000 0200 0300 0000 0100 0000 0100"
        "01000000 02000000 04000000 00000000 06000000 00000000"
    )
    index = np.array([5, 0], "<u8").tobytes()
    kind = pa.list_(pa.int32())
    expected = pa.array([[1, 2], None, [], [4, None, 6], [None]], kind)
    stored = page(layout, [b"\x70\x00", chunk, index], 5)
    assert read(stored, kind)[0].equals(expected)
    assert buffer_bytes(only_page(expected)) == [b"\x70\x00", chunk, index]


def test_padding_may_hold_anything() -> None:
    array = pa.array([1, 2, 3, None], pa.int32())
    chunk = bytes.fromhex(
        "0400 0800 1000 fefe 0000000000000100 01000000 02000000 03000000 fefefefe"
    )
    stored = with_buffer(only_page(array), 1, chunk)
    assert read(stored, pa.int32())[0].equals(array)


def test_large_chunks() -> None:
    chunk = bytes.fromhex("0400 0800 10000000 0000000000000100 01000000 02000000 03000000 00000000")
    layout = replace_layout(only_page(pa.array([1, 2, 3, None], pa.int32())), has_large_chunk=True)
    stored = page(layout, [b"\x30\x00\x00\x00", chunk], 4)
    assert read(stored, pa.int32())[0].equals(pa.array([1, 2, 3, None], pa.int32()))


NUMBERS = only_page(pa.array(RNG.standard_normal(2000), mask=np.arange(2000) % 5 == 0))
"""Four chunks of nullable doubles."""
LISTS = only_page(ARRAYS["lists"])


@pytest.mark.parametrize(
    "forged",
    [
        with_rows(NUMBERS, 1999),
        with_rows(NUMBERS, 2**40),
        with_layout(NUMBERS, num_items=2**40),
        with_layout(with_rows(NUMBERS, 2**40), num_items=2**40),
        with_layout(with_rows(NUMBERS, 2**62), num_items=2**62),
        with_layout(with_rows(NUMBERS, 1536), num_items=1536),
        with_layout(with_rows(NUMBERS, 100), num_items=100),
        with_layout(NUMBERS, num_buffers=0),
        with_layout(NUMBERS, num_buffers=3),
        with_layout(NUMBERS, num_buffers=65),
        with_layout(NUMBERS, value_compression=Flat(128)),
        with_layout(NUMBERS, value_compression=Flat(2**63)),
        with_layout(NUMBERS, value_compression=Flat(32)),
        with_layout(NUMBERS, value_compression=Flat(0)),
        with_layout(NUMBERS, value_compression=Flat(12)),
        with_layout(NUMBERS, value_compression=Variable(Flat(32))),
        with_layout(NUMBERS, value_compression=Variable(Flat(16))),
        with_layout(NUMBERS, value_compression=Variable(InlineBitpacking(32))),
        with_layout(NUMBERS, value_compression=InlineBitpacking(64)),
        with_layout(NUMBERS, value_compression=InlineBitpacking(24)),
        with_layout(NUMBERS, value_compression=OutOfLineBitpacking(64, Flat(64))),
        with_layout(NUMBERS, value_compression=FixedSizeList(2**31, False, Flat(64))),
        with_layout(NUMBERS, value_compression=FixedSizeList(0, False, Flat(64))),
        with_layout(NUMBERS, value_compression=FixedSizeList(1, True, Flat(64))),
        with_layout(NUMBERS, def_compression=None),
        with_layout(NUMBERS, def_compression=Flat(8)),
        with_layout(NUMBERS, def_compression=Variable(Flat(32))),
        with_layout(NUMBERS, def_compression=OutOfLineBitpacking(16, Flat(17))),
        with_layout(NUMBERS, def_compression=OutOfLineBitpacking(16, Variable(Flat(32)))),
        with_layout(NUMBERS, rep_compression=Flat(16)),
        with_layout(NUMBERS, layers=(Layer.ALL_VALID_ITEM,)),
        with_layout(NUMBERS, layers=(Layer.NULLABLE_ITEM, Layer.NULLABLE_ITEM)),
        with_layout(NUMBERS, dictionary=Flat(64), num_dictionary_items=1),
        with_layout(NUMBERS, has_large_chunk=True),
        with_buffer(NUMBERS, 0, b""),
        with_buffer(NUMBERS, 0, buffer_bytes(NUMBERS)[0][:-1]),
        with_buffer(NUMBERS, 0, buffer_bytes(NUMBERS)[0][:-2]),
        with_buffer(NUMBERS, 0, buffer_bytes(NUMBERS)[0] + b"\0\0"),
        with_buffer(NUMBERS, 1, buffer_bytes(NUMBERS)[1][:-8]),
        with_buffer(NUMBERS, 1, b"\xff" * len(buffer_bytes(NUMBERS)[1])),
        with_buffer(NUMBERS, 1, bytes(len(buffer_bytes(NUMBERS)[1]))),
    ],
)
def test_false_claims_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.float64())


@pytest.mark.parametrize(
    "forged",
    [
        with_layout(LISTS, rep_compression=None),
        with_layout(LISTS, def_compression=None),
        with_layout(LISTS, rep_compression=OutOfLineBitpacking(16, Flat(0))),
        with_layout(LISTS, repetition_index_depth=9),
        with_layout(LISTS, repetition_index_depth=2),
        with_layout(LISTS, num_items=0),
        with_layout(LISTS, layers=(Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST)),
        with_layout(LISTS, layers=(Layer.NULLABLE_ITEM,) * 2),
        with_rows(LISTS, 2999),
        with_rows(LISTS, 3001),
        with_buffer(LISTS, 2, bytes(len(buffer_bytes(LISTS)[2]))),
        with_buffer(LISTS, 2, b"\xff" * len(buffer_bytes(LISTS)[2])),
        with_buffer(LISTS, 2, buffer_bytes(LISTS)[2][:-1]),
        with_buffer(LISTS, 2, buffer_bytes(LISTS)[2][::-1]),
    ],
)
def test_false_claims_about_lists_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.list_(pa.float64()))


def test_a_repetition_index_may_not_wrap_around() -> None:
    num_chunks = len(buffer_bytes(LISTS)[0]) // 2
    assert num_chunks >= 5
    index = np.zeros((num_chunks, 2), "<u8")
    index[:5, 0] = 2**62
    forged = with_rows(with_buffer(LISTS, 2, index.tobytes()), 2**62)
    with pytest.raises(CorruptFileError, match="does not add up"):
        read(forged, pa.list_(pa.float64()), RowRanges.one(5, 6))


def test_missing_buffers_are_refused() -> None:
    layout = NUMBERS.page.layout
    for buffers in ([], buffer_bytes(NUMBERS)[:1]):
        with pytest.raises(CorruptFileError, match="needs 2 buffers"):
            page(layout, buffers, 2000).open()
    with pytest.raises(CorruptFileError, match="needs 3 buffers"):
        page(LISTS.page.layout, buffer_bytes(LISTS)[:2], 3000).open()


@pytest.mark.parametrize("spec", [Constant(b"12345678"), Constant(None)])
def test_encodings_that_do_not_belong_here_are_named(spec: Spec) -> None:
    with pytest.raises(UnsupportedFeatureError):
        read(with_layout(NUMBERS, value_compression=spec), pa.float64())
    with pytest.raises(CorruptFileError, match="constant levels"):
        read(with_layout(NUMBERS, def_compression=spec), pa.float64())


def few_bytes_page(
    num_chunks: int, def_compression: Spec, layers: tuple[Layer, ...], rep: Spec | None = None
) -> StoredPage:
    """Chunks of 16 bytes that claim 65535 levels and 2 values each."""
    streams = 1 + (rep is not None)
    chunk = bytearray(16)
    chunk[0:2] = b"\xff\xff"
    chunk[2 + 2 * streams] = 8 if streams == 1 else 0
    words = np.full(num_chunks, (1 << 4) | 1, "<u2").tobytes()
    layout = MiniBlockLayout(
        rep_compression=rep,
        def_compression=def_compression,
        value_compression=Flat(32),
        dictionary=None,
        num_dictionary_items=0,
        layers=layers,
        num_buffers=1,
        repetition_index_depth=0,
        num_items=2 * num_chunks,
    )
    return page(layout, [words, bytes(chunk) * num_chunks], 2 * num_chunks)


@pytest.mark.parametrize(
    "spec", [OutOfLineBitpacking(16, Flat(0)), InlineBitpacking(16), Rle(Flat(16), Flat(8))]
)
def test_levels_from_no_bytes_cost_no_memory(spec: Spec) -> None:
    items = few_bytes_page(20_000, spec, (Layer.NULLABLE_ITEM,))
    lists = few_bytes_page(20_000, spec, (Layer.NULLABLE_ITEM, Layer.ALL_VALID_LIST), spec)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            read(items, pa.int32())
        with pytest.raises(FormatError):
            read(lists, pa.list_(pa.int32()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, "65535 levels for each of 20,000 chunks would take 2.6 GB"


DICTIONARY = only_page(pa.array([("red", "green")[i % 2] for i in range(1000)]))


@pytest.mark.parametrize(
    "forged",
    [
        with_layout(DICTIONARY, num_dictionary_items=1),
        with_layout(DICTIONARY, num_dictionary_items=0),
        with_layout(DICTIONARY, num_dictionary_items=3),
        with_layout(DICTIONARY, num_dictionary_items=2**31),
        with_layout(DICTIONARY, num_dictionary_items=2**60),
        with_layout(DICTIONARY, dictionary=Flat(64), num_dictionary_items=2**31),
        with_layout(DICTIONARY, dictionary=Constant(b"x" * 1000), num_dictionary_items=2**31),
        with_layout(
            DICTIONARY,
            dictionary=OutOfLineBitpacking(64, Flat(0)),
            num_dictionary_items=2**31,
        ),
        with_layout(DICTIONARY, dictionary=Variable(Flat(64))),
        with_layout(DICTIONARY, value_compression=Flat(128)),
        with_layout(DICTIONARY, value_compression=Variable(Flat(32))),
        with_buffer(DICTIONARY, 2, b""),
        with_buffer(DICTIONARY, 2, buffer_bytes(DICTIONARY)[2][:-1]),
        with_buffer(DICTIONARY, 2, b"\xff" * 40),
    ],
)
def test_false_dictionaries_are_refused(forged: StoredPage) -> None:
    with pytest.raises(FormatError):
        read(forged, pa.string())


def test_dictionary_offsets_may_not_wrap_around() -> None:
    header = np.array([32, 20, 0, 2**31 - 1, -2], "<i4").tobytes()
    with pytest.raises(CorruptFileError, match="offsets of a dictionary block"):
        read(with_buffer(DICTIONARY, 2, header + b"x" * 100), pa.string())


def test_any_index_width_reads_a_plain_column() -> None:
    for width in (1, 2, 4, 8):
        raw = np.arange(1000).astype(f"<u{width}") % 2
        values = [raw[i : i + 512].tobytes() for i in (0, 512)]
        chunks = []
        for part in values:
            header = np.array([0, len(part)], "<u2").tobytes() + bytes(4)
            chunks.append(header + part + bytes(-len(part) % 8))
        words = np.array([len(c) // 8 - 1 << 4 | 9 for c in chunks], "<u2").tobytes()
        layout = replace_layout(DICTIONARY, value_compression=Flat(8 * width))
        forged = page(layout, [words, b"".join(chunks), buffer_bytes(DICTIONARY)[2]], 1000)
        found, _ = read(forged, pa.string())
        assert found.to_pylist() == ["red", "green"] * 500


def test_indices_must_fit_a_signed_index_type() -> None:
    kind = pa.dictionary(pa.int8(), pa.int32())
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int8()), pa.array([7, 8], pa.int32())
    )
    items = np.arange(200, dtype="<i4").tobytes()
    forged = with_layout(with_buffer(only_page(array), 2, items), num_dictionary_items=200)
    assert read(forged, kind)[0].to_pylist() == [0, 1]
    chunk = bytearray(buffer_bytes(forged)[1])
    chunk[8] = 199
    with pytest.raises(CorruptFileError, match="dictionary index 199"):
        read(with_buffer(forged, 1, bytes(chunk)), kind)


def test_long_items_may_not_be_repeated_without_bound() -> None:
    array = pa.array(["x" * 200, "y"] * 10_000)
    stored = only_page(array)
    length = 1 << 20
    items = np.array([32, 20, 0, length, length], "<i4").tobytes() + b"x" * length
    with pytest.raises(UnsupportedFeatureError, match="2 GiB"):
        read(with_buffer(stored, 2, items), pa.string())
