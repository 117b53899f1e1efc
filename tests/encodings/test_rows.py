"""Ranges of rows, and cutting blocks down to them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.encodings.blocks import (
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.rows import RowRanges, expand_ranges, select, take
from alance.errors import CorruptFileError

ROWS = st.lists(st.integers(0, 200), unique=True).map(sorted)


def positions(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def as_list(ranges: RowRanges) -> list[int]:
    return [int(row) for row in ranges.rows()]


def test_one_range() -> None:
    assert as_list(RowRanges.one(3, 6)) == [3, 4, 5]
    for start in (5, 6):
        empty = RowRanges.one(start, 5)
        assert len(empty.starts) == len(empty.stops) == empty.num_rows == 0


@given(rows=ROWS)
def test_of_rows(rows: list[int]) -> None:
    ranges = RowRanges.of_rows(positions(rows))
    assert as_list(ranges) == rows
    assert ranges.num_rows == len(rows)
    assert (ranges.starts < ranges.stops).all()
    assert (ranges.starts[1:] > ranges.stops[:-1]).all(), "neighbours are one range"


@given(rows=ROWS, start=st.integers(0, 220), length=st.integers(0, 220))
def test_within(rows: list[int], start: int, length: int) -> None:
    inside = RowRanges.of_rows(positions(rows)).within(start, start + length)
    assert as_list(inside) == [row - start for row in rows if start <= row < start + length]
    assert (inside.starts < inside.stops).all()


def test_covers() -> None:
    assert RowRanges.one(0, 5).covers(5)
    assert not RowRanges.one(0, 4).covers(5)
    assert not RowRanges.one(1, 5).covers(5)
    assert not RowRanges.of_rows(positions([0, 1, 3, 4])).covers(5)
    assert not RowRanges.one(0, 0).covers(0)


def test_expand_ranges() -> None:
    found = expand_ranges(positions([5, 0, 7]), positions([8, 0, 9]))
    assert found.tolist() == [5, 6, 7, 7, 8]
    assert expand_ranges(positions([]), positions([])).tolist() == []


def fixed(values: list[int], bits: int) -> FixedWidthBlock:
    raw = np.array(values, f"<u{bits // 8}")
    return FixedWidthBlock(bits, len(values), raw.view(np.uint8))


def blocks() -> dict[str, DataBlock]:
    """Twenty values of every kind of block; value i speaks of i."""
    numbers = list(range(20))
    bitmap = np.packbits(np.arange(20) % 3 == 0, bitorder="little")
    item_bits = np.packbits(np.arange(60) % 5 == 0, bitorder="little")
    texts = b"".join(b"%d" % i for i in numbers)
    offsets = np.cumsum([0, *(len(b"%d" % i) for i in numbers)])
    return {
        "bits": FixedWidthBlock(1, 20, bitmap),
        "bytes": fixed(numbers, 8),
        "words": fixed(numbers, 64),
        "triples": FixedWidthBlock(24, 20, np.repeat(np.arange(20), 3).astype(np.uint8)),
        "strings": VariableWidthBlock(offsets.astype(np.int32), np.frombuffer(texts, np.uint8)),
        "large strings": VariableWidthBlock(offsets, np.frombuffer(texts, np.uint8)),
        "lists": FixedSizeListBlock(3, 20, item_bits, fixed(list(range(60)), 16)),
        "lists of bits": FixedSizeListBlock(3, 20, None, FixedWidthBlock(1, 60, item_bits)),
        "lists of nulls": FixedSizeListBlock(3, 20, item_bits, NullBlock(60)),
        "dictionary": DictionaryBlock(fixed(numbers, 16), NullBlock(20)),
        "nulls": NullBlock(20),
        "structs": PackedStructBlock(20, (fixed(numbers, 8), fixed(numbers, 64))),
        "constant": ConstantBlock(20, fixed([7], 32)),
    }


def content(block: DataBlock) -> list[object]:
    """Values of a block as Python objects."""
    match block:
        case FixedWidthBlock(1, count, data):
            return [int(bit) for bit in np.unpackbits(data, count=count, bitorder="little")]
        case FixedWidthBlock(bits, count, data):
            return [row.tobytes() for row in data.reshape(count, bits // 8)]
        case VariableWidthBlock(offsets, data):
            return [data[a:b].tobytes() for a, b in pairwise(offsets)]
        case FixedSizeListBlock(dimension, count, validity, items):
            inner = content(items)
            valid = [1] * len(inner)
            if validity is not None:
                valid = np.unpackbits(validity, count=len(inner), bitorder="little").tolist()
            pairs = list(zip(valid, inner, strict=True))
            return [pairs[i * dimension : (i + 1) * dimension] for i in range(count)]
        case DictionaryBlock(indices, _):
            return content(indices)
        case NullBlock(count):
            return [None] * count
        case ConstantBlock(count, value):
            return content(value) * count
        case PackedStructBlock(_, members):
            return [list(row) for row in zip(*map(content, members), strict=True)]


@pytest.mark.parametrize("name", list(blocks()))
@pytest.mark.parametrize(
    "rows", [[], [0], [19], [3, 4, 5], [0, 5, 6, 19], list(range(20)), list(range(7, 20))]
)
def test_select_and_take(name: str, rows: list[int]) -> None:
    block = blocks()[name]
    expected = [content(block)[row] for row in rows]
    ranges = RowRanges.of_rows(positions(rows))
    for found in (select(block, ranges.starts, ranges.stops), take(block, positions(rows))):
        assert found.num_values == len(rows)
        assert content(found) == expected


@pytest.mark.parametrize("name", list(blocks()))
def test_take_in_any_order(name: str) -> None:
    block = blocks()[name]
    rows = [7, 7, 0, 19, 3]
    assert content(take(block, positions(rows))) == [content(block)[row] for row in rows]


def test_a_whole_block_is_not_copied() -> None:
    block = fixed(list(range(20)), 32)
    assert select(block, positions([0]), positions([20])) is block
    part = select(block, positions([5]), positions([9]))
    assert isinstance(part, FixedWidthBlock)
    assert np.shares_memory(part.data, block.data)


@pytest.mark.parametrize("name", ["bits", "bytes", "words", "strings", "large strings", "lists"])
def test_positions_outside_a_block(name: str) -> None:
    for row in (-1, 24, 2**40):
        with pytest.raises(CorruptFileError, match="fewer values"):
            take(blocks()[name], positions([0, row]))
