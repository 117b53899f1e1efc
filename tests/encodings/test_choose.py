"""Which layout and encoding telling values get, and what that costs in bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.spec import (
    ConstantLayout,
    FixedSizeList,
    Flat,
    Fsst,
    FullZipLayout,
    InlineBitpacking,
    Layer,
    MiniBlockLayout,
    OutOfLineBitpacking,
    Variable,
)
from alance.testing.pages import StoredPage, pages_of

RNG = np.random.default_rng(7)
WORDS = ("storage", "columnar", "fragment", "manifest", "repetition", "definition", "level", "page")


def only_page(array: pa.Array) -> StoredPage:
    """The one page of an array with one leaf."""
    ((page,),) = pages_of(array)
    return page


def mini_block(array: pa.Array) -> tuple[MiniBlockLayout, list[int]]:
    """Layout of a mini-block page and the sizes of its buffers."""
    page = only_page(array)
    assert isinstance(page.page.layout, MiniBlockLayout)
    return page.page.layout, [buffer.num_bytes for buffer in page.buffers]


def full_zip(array: pa.Array) -> FullZipLayout:
    layout = only_page(array).page.layout
    assert isinstance(layout, FullZipLayout)
    return layout


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(WORDS, 6))} {i}" for i in range(count)]


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        (pa.int8(), 8),
        (pa.uint16(), 16),
        (pa.int32(), 32),
        (pa.date32(), 32),
        (pa.float32(), 32),
        (pa.int64(), 64),
        (pa.timestamp("us"), 64),
    ],
)
def test_narrow_values_are_bitpacked(kind: pa.DataType, bits: int) -> None:
    raw = RNG.integers(0, 8, 10_000).astype(f"u{bits // 8}")
    array = pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(raw)])
    layout, (metadata, data) = mini_block(array)
    assert layout.value_compression == InlineBitpacking(bits)
    assert metadata == 2 * 10
    # Ten groups of 1024: a header of 8 bytes, a word with the width, 3 bits a value, padding.
    assert data <= 10 * (8 + 8 + 3 * 128)


def test_each_group_has_its_own_width() -> None:
    values = np.tile([0, 1], 1536) * np.repeat([0, 1 << 20, 1], 1024)
    layout, (_, data) = mini_block(pa.array(values))
    assert layout.value_compression == InlineBitpacking(64)
    assert data == 3 * 16 + 128 * (0 + 21 + 1)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(RNG.standard_normal(5000)),
        pa.array(RNG.integers(-(2**62), 2**62, 5000)),
        pa.array(-RNG.integers(0, 80, 5000)),
    ],
    ids=["doubles", "wide integers", "negative integers"],
)
def test_values_that_use_all_bits_lie_back_to_back(array: pa.Array) -> None:
    assert full_zip(array).value_compression == Flat(64)
    (buffer,) = only_page(array).buffers
    assert buffer.num_bytes == 5000 * 8


def test_values_among_nulls_lie_in_chunks() -> None:
    layout, (_, data) = mini_block(
        pa.array(RNG.standard_normal(5000), mask=np.arange(5000) % 999 == 7)
    )
    assert layout.value_compression == Flat(64)
    assert data <= 5000 * 8 + 10 * (16 + 128)


def test_vectors_in_lists_lie_in_chunks() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(30, np.float32)), 3)
    lists = pa.ListArray.from_arrays(pa.array([0, 4, 10], pa.int32()), vectors)
    assert mini_block(lists)[0].value_compression == FixedSizeList(3, False, Flat(32))


def test_few_values_are_flat_since_a_group_is_padded() -> None:
    assert full_zip(pa.array([1, 2, 3], pa.int64())).value_compression == Flat(64)


def test_booleans_take_a_bit_each() -> None:
    layout, (_, data) = mini_block(pa.array(RNG.random(8192) < 0.5))
    assert layout.value_compression == Flat(1)
    assert data == 2 * (8 + 512)


def test_decimals_are_flat() -> None:
    array = pa.array([1, 2, 3], pa.decimal128(20, 2))
    assert full_zip(array).value_compression == Flat(128)
    array = pa.array([1, 2, 3], pa.decimal256(50, 2))
    assert full_zip(array).value_compression == Flat(256)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_few_distinct_strings_get_a_dictionary(kind: pa.DataType) -> None:
    array = pa.array(RNG.choice(WORDS, 10_000)).cast(kind)
    layout, sizes = mini_block(array)
    width = 64 if "large" in str(kind) else 32
    assert layout.dictionary == Variable(Flat(width))
    assert layout.num_dictionary_items == len(WORDS)
    assert layout.value_compression == InlineBitpacking(32)
    assert len(sizes) == 3
    assert sum(sizes) < 5000, "3 bits an index"


def test_distinct_strings_get_no_dictionary() -> None:
    layout, _ = mini_block(pa.array([f"{i:05}" for i in range(5000)]))
    assert layout.dictionary is None


def test_dictionary_columns_keep_indices_and_items() -> None:
    array = (
        pa
        .array(RNG.choice(WORDS, 5000))
        .dictionary_encode()
        .cast(pa.dictionary(pa.int16(), pa.string()))
    )
    layout, _ = mini_block(array)
    assert layout.dictionary == Variable(Flat(32))
    assert layout.value_compression == InlineBitpacking(16)
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), pa.array([1.5, 2.5]))
    layout, _ = mini_block(numbers)
    assert (layout.dictionary, layout.value_compression) == (Flat(64), Flat(8))


def test_text_of_32_kib_is_compressed_with_fsst() -> None:
    texts = sentences(2000)
    layout, sizes = mini_block(pa.array(texts))
    assert isinstance(layout.value_compression, Fsst)
    assert layout.value_compression.values == Variable(Flat(32))
    assert len(layout.value_compression.symbol_table) == 2312
    raw = sum(map(len, texts)) + 4 * len(texts)
    assert sum(sizes) < raw * 0.6
    layout, _ = mini_block(pa.array(texts[:400]))
    assert layout.value_compression == Variable(Flat(32)), "below 32 KiB a table does not pay"


def test_random_strings_stay_as_they_are() -> None:
    array = pa.array([RNG.bytes(16) for _ in range(5000)])
    layout, _ = mini_block(array)
    assert layout.value_compression == Variable(Flat(32))
    layout, _ = mini_block(array.cast(pa.large_binary()))
    assert layout.value_compression == Variable(Flat(64))


def test_one_long_string_makes_the_page_full_zip() -> None:
    short, long = "x" * 255, "x" * 256
    assert mini_block(pa.array([short, "a"]))[0].value_compression == Variable(Flat(32))
    layout = full_zip(pa.array([long, "a"]))
    assert (layout.bits_per_value, layout.bits_per_offset) == (None, 32)
    assert full_zip(pa.array([long], pa.large_string())).bits_per_offset == 64


def test_long_text_is_coded_value_by_value() -> None:
    layout = full_zip(pa.array([" ".join(sentences(20, seed)) for seed in range(50)]))
    assert isinstance(layout.value_compression, Fsst)
    assert layout.value_compression.values == Variable(Flat(32))


def test_wide_fixed_values_are_full_zip() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(640, np.float32)), 64)
    layout = full_zip(vectors)
    assert layout.value_compression == FixedSizeList(64, False, Flat(32))
    assert layout.bits_per_value == 64 * 32
    mask = pa.array([True, *[False] * 9])
    narrow = pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(630, np.float32)), 63, mask=mask)
    assert mini_block(narrow)[0].value_compression == FixedSizeList(63, False, Flat(32))
    assert full_zip(pa.array([b"x" * 256], pa.binary(256))).value_compression == Flat(2048)


def test_validity_of_items_lies_before_them() -> None:
    items = pa.array([None, *map(float, range(99))], pa.float32())
    layout = full_zip(pa.FixedSizeListArray.from_arrays(items, 100))
    assert layout.value_compression == FixedSizeList(100, True, Flat(32))
    assert layout.bits_per_value == (13 + 400) * 8


def test_lists_of_booleans_stay_in_mini_blocks() -> None:
    bits = pa.array(RNG.random(3 * 2048) < 0.5)
    layout, _ = mini_block(pa.FixedSizeListArray.from_arrays(bits, 2048))
    assert layout.value_compression == FixedSizeList(2048, False, Flat(1))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.list_(pa.float32(), 200), pa.null()])
def test_pages_of_nulls_store_nothing(kind: pa.DataType) -> None:
    page = only_page(pa.nulls(5000, kind))
    assert page.page.layout == ConstantLayout((Layer.NULLABLE_ITEM,))
    assert page.buffers == ()


def test_nested_nulls_store_levels_only() -> None:
    page = only_page(pa.array([None, []], pa.list_(pa.int32())))
    assert isinstance(page.page.layout, ConstantLayout)
    rep, def_ = (page.data[b.start : b.stop] for b in page.buffers)
    assert (rep, def_) == (b"\1\0\1\0", b"\1\0\2\0")


def test_lists_have_a_repetition_index() -> None:
    lengths = RNG.integers(0, 4, 3000)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    array = pa.ListArray.from_arrays(offsets, pa.array(RNG.random(int(offsets[-1]))))
    layout, sizes = mini_block(array)
    assert layout.repetition_index_depth == 1
    assert layout.layers == (Layer.ALL_VALID_ITEM, Layer.EMPTYABLE_LIST)
    assert layout.num_items == offsets[-1]
    assert sizes[2] == sizes[0] // 2 * 16


def test_levels_are_bitpacked_where_that_saves_bytes() -> None:
    nulls = RNG.random(5000) < 0.1
    layout, (_, data) = mini_block(pa.array(RNG.random(5000), mask=nulls))
    assert layout.def_compression == OutOfLineBitpacking(16, Flat(1))
    assert data < 5000 * 8 + 5000 // 8 + 5 * 200
    layout, _ = mini_block(pa.array([1.0, None]))
    assert layout.def_compression == Flat(16), "a group of 1024 bits is longer than two levels"


def test_the_same_values_give_the_same_bytes() -> None:
    texts = pa.array(sentences(3000))
    first, second = only_page(texts), only_page(texts)
    assert first.page.layout == second.page.layout
    assert first.data == second.data
