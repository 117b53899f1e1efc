"""Which rows of a page, column or fragment are wanted, and how blocks are cut down to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
from alance.errors import CorruptFileError
from alance.kernels import bytes as byte_kernels
from alance.kernels.memory import empty

__all__ = ["RowRanges", "expand_ranges", "select", "take"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Half-open ranges of rows: ascending, disjoint, none empty."""

    starts: Positions
    stops: Positions

    @classmethod
    def one(cls, start: int, stop: int) -> RowRanges:
        """Rows [start, stop); no rows when they are equal."""
        if start >= stop:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        return cls(np.array([start], np.int64), np.array([stop], np.int64))

    @classmethod
    def of_rows(cls, rows: Positions) -> RowRanges:
        """Single rows, ascending and distinct; neighbours become one range."""
        if len(rows) == 0:
            return cls.one(0, 0)
        breaks = np.flatnonzero(np.diff(rows) != 1)
        starts = rows[np.concatenate(([0], breaks + 1))]
        stops = rows[np.concatenate((breaks, [len(rows) - 1]))] + 1
        return cls(starts, stops)

    @property
    def num_rows(self) -> int:
        """Rows in all ranges."""
        if len(self.starts) == 1:
            return int(self.stops[0]) - int(self.starts[0])
        return int(np.add.reduce(self.stops - self.starts))

    def covers(self, num_rows: int) -> bool:
        """Whether this is exactly all of [0, num_rows)."""
        return len(self.starts) == 1 and self.starts[0] == 0 and self.stops[0] == num_rows

    def within(self, start: int, stop: int) -> RowRanges:
        """Return the part inside [start, stop), counted from `start`."""
        if len(self.starts) == 1:
            own_start, own_stop = int(self.starts[0]), int(self.stops[0])
            return RowRanges.one(max(own_start, start) - start, min(own_stop, stop) - start)
        first = int(self.stops.searchsorted(start, side="right"))
        last = int(self.starts.searchsorted(stop, side="left"))
        starts = np.maximum(self.starts[first:last], start) - start
        stops = np.minimum(self.stops[first:last], stop) - start
        return RowRanges(starts, stops)

    def rows(self) -> Positions:
        """Every row, ascending."""
        return expand_ranges(self.starts, self.stops)


def expand_ranges(starts: Positions, stops: Positions) -> Positions:
    """All numbers of half-open ranges, one range after the other."""
    lengths = stops - starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


def select(block: DataBlock, starts: Positions, stops: Positions) -> DataBlock:
    """Cut a block down to ranges of its values; a view where there is one range."""
    if len(starts) == 1:
        start, stop = int(starts[0]), int(stops[0])
        if start == 0 and stop == block.num_values:
            return block
        return _slice(block, start, stop)
    return take(block, expand_ranges(starts, stops))


def _slice(block: DataBlock, start: int, stop: int) -> DataBlock:
    num_values = stop - start
    match block:
        case FixedWidthBlock(1, _, data):
            return FixedWidthBlock(1, num_values, byte_kernels.slice_bits(data, start, num_values))
        case FixedWidthBlock(bits, _, data):
            width = bits // 8
            return FixedWidthBlock(bits, num_values, data[start * width : stop * width])
        case VariableWidthBlock(offsets, data):
            return VariableWidthBlock(offsets[start : stop + 1], data)
        case FixedSizeListBlock(dimension, _, validity, items):
            if validity is not None:
                validity = byte_kernels.slice_bits(
                    validity, start * dimension, num_values * dimension
                )
            inner = _slice(items, start * dimension, stop * dimension)
            return FixedSizeListBlock(dimension, num_values, validity, inner)
        case DictionaryBlock(indices, items):
            cut = _slice(indices, start, stop)
            assert isinstance(cut, FixedWidthBlock)
            return DictionaryBlock(cut, items)
        case NullBlock():
            return NullBlock(num_values)
        case ConstantBlock(_, value):
            return ConstantBlock(num_values, value)
        case PackedStructBlock(_, members):
            cuts = tuple(_slice(member, start, stop) for member in members)
            return PackedStructBlock(num_values, cuts)


def take(block: DataBlock, positions: Positions) -> DataBlock:
    """Copy the values at these positions, in this order."""
    num_values = len(positions)
    match block:
        case FixedWidthBlock(1, _, data):
            out = empty((num_values + 7) // 8, np.uint8)
            _check(byte_kernels.take_bits(data, positions, out))
            return FixedWidthBlock(1, num_values, out)
        case FixedWidthBlock(0, _, data):
            return FixedWidthBlock(0, num_values, data)
        case FixedWidthBlock(bits, _, data):
            out = empty(num_values * bits // 8, np.uint8)
            _check(byte_kernels.take_fixed(data, positions, bits // 8, out))
            return FixedWidthBlock(bits, num_values, out)
        case VariableWidthBlock(offsets, data):
            new_offsets, new_data, status = byte_kernels.take_variable(offsets, data, positions)
            _check(status)
            return VariableWidthBlock(new_offsets, new_data)
        case FixedSizeListBlock(dimension, _, validity, items):
            inner = expand_ranges(positions * dimension, (positions + 1) * dimension)
            if validity is not None:
                bitmap = empty((len(inner) + 7) // 8, np.uint8)
                _check(byte_kernels.take_bits(validity, inner, bitmap))
                validity = bitmap
            return FixedSizeListBlock(dimension, num_values, validity, take(items, inner))
        case DictionaryBlock(indices, items):
            cut = take(indices, positions)
            assert isinstance(cut, FixedWidthBlock)
            return DictionaryBlock(cut, items)
        case NullBlock():
            return NullBlock(num_values)
        case ConstantBlock(_, value):
            return ConstantBlock(num_values, value)
        case PackedStructBlock(_, members):
            return PackedStructBlock(num_values, tuple(take(m, positions) for m in members))


def _check(status: int) -> None:
    if status != 0:
        raise CorruptFileError("a page holds fewer values than its metadata says")
