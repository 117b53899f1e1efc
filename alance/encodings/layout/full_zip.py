"""Reading full-zip pages: wide values, each with its control word, addressed one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedWidthBlock,
    Levels,
    PageRows,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.layout.page import need
from alance.encodings.levels import Shape
from alance.encodings.registry import EncodingRegistry
from alance.encodings.rows import RowRanges
from alance.encodings.spec import FullZipLayout
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels
from alance.types import ByteRange

__all__ = ["FullZipReader", "control_bytes"]

Positions = npt.NDArray[np.int64]
INDEX_WIDTHS = (1, 2, 4, 8)
VALUE_BYTES_MAX = (1 << 31) - 1


def control_bytes(bits_rep: int, bits_def: int) -> int:
    """Width of a control word in bytes."""
    bits = bits_rep + bits_def
    if bits > 32 or max(bits_rep, bits_def) > 16:
        raise CorruptFileError(f"a control word of {bits_rep} + {bits_def} bits does not exist")
    return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4


class FullZipReader:
    """A full-zip page; rows lie at a fixed stride, or where the repetition index says."""

    __slots__ = ("_buffers", "_index", "_layout", "_registry", "_shape", "_stride", "num_rows")

    def __init__(
        self,
        layout: FullZipLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        registry: EncodingRegistry,
    ) -> None:
        need(buffers, 1, "full-zip")
        self.num_rows = num_rows
        self._layout = layout
        self._buffers = tuple(buffers)
        self._registry = registry
        self._shape = Shape.of(layout.layers)
        self._index: Positions | None = None
        control = control_bytes(layout.bits_rep, layout.bits_def)
        if self._shape.max_rep and layout.bits_rep == 0:
            raise CorruptFileError("a page of lists without repetition levels")
        bits = layout.bits_per_value
        if bits is not None and (bits <= 0 or bits % 8 or bits // 8 > VALUE_BYTES_MAX):
            raise CorruptFileError(f"full-zip values of {bits} bits do not exist")
        if bits is None and layout.bits_per_offset not in (32, 64):
            raise CorruptFileError(
                f"full-zip lengths of {layout.bits_per_offset} bits do not exist"
            )
        fixed = bits is not None and self._shape.max_rep == 0
        self._stride = control + bits // 8 if fixed and bits is not None else 0
        if fixed and self._stride * num_rows > buffers[0].num_bytes:
            raise CorruptFileError(
                f"a full-zip buffer of {buffers[0].num_bytes} bytes cannot hold "
                f"{num_rows} rows of {self._stride}"
            )
        if not fixed:
            need(buffers, 2, "full-zip")

    @property
    def search_bytes(self) -> int:
        """Bytes that the search cache holds now."""
        return 0 if self._index is None else self._index.nbytes

    def plan(self, rows: RowRanges) -> Step:
        """Fetch the values, after their places in the repetition index where there is one."""
        if self._stride:
            return self._plan_values(rows, rows.starts * self._stride, rows.stops * self._stride)
        if rows.covers(self.num_rows):
            whole = np.array([0, self._buffers[0].num_bytes], np.int64)
            return self._plan_values(rows, whole[:1], whole[1:])
        if self._index is not None:
            return self._plan_values(rows, self._index[rows.starts], self._index[rows.stops])
        return self._plan_index(rows)

    def _plan_index(self, rows: RowRanges) -> Step:
        """Read index entries: of every range its first and last, or all of them when many."""
        index = self._buffers[1]
        width = index.num_bytes // (self.num_rows + 1)
        if width not in INDEX_WIDTHS or width * (self.num_rows + 1) != index.num_bytes:
            raise CorruptFileError(
                f"a repetition index of {index.num_bytes} bytes for {self.num_rows} rows"
            )

        def entry(row: int) -> ByteRange:
            return ByteRange(index.start + row * width, index.start + (row + 1) * width)

        if 2 * len(rows.starts) * width * 16 >= index.num_bytes:

            def whole(found: Sequence[memoryview]) -> Step:
                table: Positions = np.frombuffer(found[0], f"<u{width}").astype(np.int64)
                self._index = table
                return self._plan_values(rows, table[rows.starts], table[rows.stops])

            return Fetch((index,), whole)

        def some(found: Sequence[memoryview]) -> Step:
            unsigned = np.array([int.from_bytes(f, "little") for f in found], np.uint64)
            places: Positions = unsigned.astype(np.int64)
            return self._plan_values(rows, places[0::2], places[1::2])

        pairs = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
        return Fetch(tuple(entry(row) for pair in pairs for row in pair), some)

    def _plan_values(self, rows: RowRanges, starts: Positions, stops: Positions) -> Step:
        data = self._buffers[0]
        # Rows that share bytes would make little bytes cost much to fetch and decode.
        places = np.stack((starts, stops), axis=1).reshape(-1)
        if places[0] < 0 or places[-1] > data.num_bytes or bool((places[1:] < places[:-1]).any()):
            raise CorruptFileError("a repetition index falls, or points outside of its page")
        ranges = tuple(
            ByteRange(data.start + a, data.start + b)
            for a, b in zip(starts.tolist(), stops.tolist(), strict=True)
        )

        def then(found: Sequence[memoryview]) -> Step:
            return Decode(rows.num_rows, lambda: self._decode(rows, found))

        return Fetch(ranges, then)

    def _decode(self, rows: RowRanges, found: Sequence[memoryview]) -> PageRows:
        layout, shape = self._layout, self._shape
        pieces = [as_bytes(f) for f in found]
        data = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        stops = np.cumsum(lengths)
        starts = stops - lengths
        if layout.bits_per_value is not None:
            levels, values, num_items = self._unzip_fixed(data, starts, stops)
        else:
            levels, values, num_items = self._unzip_variable(data, starts, stops)
        num_rows = num_items
        if shape.max_rep:
            assert levels.rep is not None
            num_rows = int(np.count_nonzero(levels.rep == shape.max_rep))
        if num_rows != rows.num_rows:
            raise CorruptFileError(
                f"full-zip values hold {num_rows} rows where {rows.num_rows} were expected"
            )
        decoded = self._registry.decode_values(layout.value_compression, values)
        return PageRows(rows.num_rows, shape.layers, levels, decoded)

    def _unzip_fixed(
        self, data: Bytes, starts: Positions, stops: Positions
    ) -> tuple[Levels, DataBlock, int]:
        layout = self._layout
        assert layout.bits_per_value is not None
        value_bytes = layout.bits_per_value // 8
        if layout.bits_rep + layout.bits_def == 0:
            num_values, rest = divmod(len(data), value_bytes)
            if rest:
                raise CorruptFileError("full-zip bytes do not divide into whole values")
            block = FixedWidthBlock(layout.bits_per_value, num_values, data)
            return Levels(None, None), block, num_values
        num_items, rep, def_, values, status = byte_kernels.unzip_fixed(
            data,
            starts,
            stops,
            layout.bits_rep,
            layout.bits_def,
            self._shape.max_visible,
            value_bytes,
        )
        if status != 0:
            raise CorruptFileError("full-zip bytes do not end with a whole item")
        block = FixedWidthBlock(layout.bits_per_value, len(values) // value_bytes, values)
        return Levels(rep, def_), block, int(num_items.sum())

    def _unzip_variable(
        self, data: Bytes, starts: Positions, stops: Positions
    ) -> tuple[Levels, DataBlock, int]:
        layout = self._layout
        width = layout.bits_per_offset
        assert width in (32, 64)
        num_items, rep, def_, offsets, values, status = byte_kernels.unzip_variable(
            data,
            starts,
            stops,
            layout.bits_rep,
            layout.bits_def,
            self._shape.max_visible,
            4 if width == 32 else 8,
            32 if width == 32 else 64,
        )
        if status < 0:
            raise UnsupportedFeatureError(
                "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
                feature="32-bit offsets",
            )
        if status > 0:
            raise CorruptFileError("full-zip bytes do not end with a whole item")
        return Levels(rep, def_), VariableWidthBlock(offsets, values), int(num_items.sum())
