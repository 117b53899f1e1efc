"""Reading mini-block pages: locate chunks, fetch those with wanted rows, decode them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import (
    Bytes,
    Chunks,
    DataBlock,
    DictionaryBlock,
    FixedWidthBlock,
    Levels,
    PageRows,
    as_bytes,
)
from alance.encodings.layout.page import need
from alance.encodings.levels import Shape, decode_levels, select_levels
from alance.encodings.registry import EncodingRegistry
from alance.encodings.rows import RowRanges, expand_ranges, select
from alance.encodings.spec import Flat, MiniBlockLayout, OutOfLineBitpacking, Spec
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError
from alance.kernels import bytes as byte_kernels
from alance.kernels import repdef
from alance.types import ByteRange

__all__ = ["MiniBlockReader"]

Positions = npt.NDArray[np.int64]
WORD_BYTES = 8
GAP_BYTES = 4096
DICTIONARY_ITEMS_MAX = 1 << 31
BUFFERS_MAX = 64
NO_BITS = OutOfLineBitpacking(16, Flat(0))
"""Levels that are all 0, from no bytes at all; but the first item of a page starts a row."""
CHUNK_VALUES_MAX = 1 << 15
"""What the four bits of a chunk word can say."""


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where the chunks of a page lie and what they hold; the page's search cache."""

    byte_starts: Positions
    """Offset of each chunk in the data buffer, and the end of the last; chunks + 1 entries."""
    value_starts: Positions
    """Visible items before each chunk; chunks + 1 entries."""
    row_starts: Positions
    """Rows that start before each chunk; chunks + 1 entries."""
    row_ends: Positions
    """Rows that end in or before each chunk; one entry a chunk."""
    dictionary: Bytes | None

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        own = self.byte_starts.nbytes * 4
        return own if self.dictionary is None else own + len(self.dictionary)


class MiniBlockReader:
    """A mini-block page."""

    __slots__ = ("_buffers", "_layout", "_registry", "_shape", "_table", "num_rows")

    def __init__(
        self,
        layout: MiniBlockLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        registry: EncodingRegistry,
    ) -> None:
        has_index = layout.repetition_index_depth > 0
        need(buffers, 2 + (layout.dictionary is not None) + has_index, "mini-block")
        self.num_rows = num_rows
        self._layout = layout
        self._buffers = tuple(buffers)
        self._registry = registry
        self._shape = Shape.of(layout.layers)
        self._table: ChunkTable | None = None
        if layout.num_buffers > BUFFERS_MAX or (layout.num_items > 0 and layout.num_buffers < 1):
            raise CorruptFileError(f"a mini-block page of {layout.num_buffers} value buffers")
        if self._shape.max_rep == 0 and layout.num_items != num_rows:
            raise CorruptFileError(
                f"a page of {num_rows} rows without lists says it has {layout.num_items} items"
            )
        if self._shape.max_rep and layout.rep_compression in (None, NO_BITS):
            raise CorruptFileError("a page of lists without repetition levels")

    @property
    def search_bytes(self) -> int:
        """Bytes that the search cache holds now."""
        return 0 if self._table is None else self._table.num_bytes

    def plan(self, rows: RowRanges) -> Step:
        """Fetch the chunk table unless it is known, then the chunks that hold the rows.

        All rows need all chunks, wherever they begin: they are fetched together with the table.
        """
        if self._table is not None:
            return self._plan_chunks(self._table, rows)
        metadata, data, *rest = self._buffers

        def then(found: Sequence[memoryview]) -> Step:
            self._table = table = self._parse(found)
            return self._plan_chunks(table, rows)

        def then_all(found: Sequence[memoryview]) -> Step:
            step = then(found[:-1])
            if isinstance(step, Fetch):
                chunks = [(each.start - data.start, each.stop - data.start) for each in step.ranges]
                return step.then([found[-1][start:stop] for start, stop in chunks])
            return step

        if rows.covers(self.num_rows):
            return Fetch((metadata, *rest, data), then_all)
        return Fetch((metadata, *rest), then)

    def _parse(self, found: Sequence[memoryview]) -> ChunkTable:
        """Turn chunk metadata, repetition index and dictionary into a table."""
        layout = self._layout
        words = _words(found[0], layout.has_large_chunk)
        sizes = ((words >> 4) + 1) * WORD_BYTES
        byte_starts = _starts(sizes)
        if byte_starts[-1] > self._buffers[1].num_bytes:
            raise CorruptFileError(
                f"chunks of {byte_starts[-1]} bytes in a buffer of {self._buffers[1].num_bytes}"
            )
        counts = np.left_shift(np.int64(1), words & 15)
        if len(words):
            counts[-1] = layout.num_items - int(counts[:-1].sum())
            if counts[-1] < 0 or (counts[-1] == 0 and self._shape.max_rep == 0):
                raise CorruptFileError(f"chunks hold more than the page's {layout.num_items} items")
            if counts[-1] > CHUNK_VALUES_MAX:
                raise CorruptFileError(
                    f"{counts[-1]} of a page's {layout.num_items} items are left for its last "
                    f"chunk; a chunk holds at most {CHUNK_VALUES_MAX}"
                )
        elif self.num_rows:
            raise CorruptFileError(f"a page of {self.num_rows} rows without chunks")
        value_starts = _starts(counts)
        if self._shape.max_rep == 0:
            row_starts, row_ends = value_starts, value_starts[1:]
        elif layout.repetition_index_depth == 0:
            row_starts, row_ends = self._whole_page(len(words))
        else:
            depth = layout.repetition_index_depth
            row_starts, row_ends = self._parse_index(found[-1], len(words), depth)
        dictionary = None if layout.dictionary is None else as_bytes(found[1])
        return ChunkTable(byte_starts, value_starts, row_starts, row_ends, dictionary)

    def _parse_index(
        self, index: memoryview, num_chunks: int, depth: int
    ) -> tuple[Positions, Positions]:
        """Rows that start before, and end by, each chunk (specification: 2.1, section 4.3)."""
        if depth > 8 or len(index) != num_chunks * (depth + 1) * 8:
            raise CorruptFileError(
                f"a repetition index of {len(index)} bytes and depth {depth} "
                f"does not fit {num_chunks} chunks"
            )
        table = np.frombuffer(index, "<u8").reshape(num_chunks, depth + 1)
        if bool((table[:, 0] > self.num_rows).any()):
            raise CorruptFileError("a repetition index counts more rows than its page has")
        ends = table[:, 0].astype(np.int64)
        partial = (table[:, 1] > 0).astype(np.int64)
        preamble = np.concatenate((np.zeros(1, np.int64), partial[:-1]))[:num_chunks]
        row_starts = _starts(ends + partial - preamble)
        row_ends = np.cumsum(ends)
        # Before the sums wrap around they pass the rows of the page, or drop below 0.
        outside = (row_starts < 0) | (row_starts > self.num_rows)
        falling = np.diff(row_starts) < 0
        if bool(outside.any() or falling.any()) or row_starts[-1] != self.num_rows:
            raise CorruptFileError("a repetition index does not add up to the rows of its page")
        if row_ends[-1] != self.num_rows:
            raise CorruptFileError("the last row of a page has no end")
        return row_starts, row_ends

    def _whole_page(self, num_chunks: int) -> tuple[Positions, Positions]:
        """Without an index every row may be anywhere: all chunks are one unit."""
        row_starts = np.full(num_chunks + 1, self.num_rows, np.int64)
        row_starts[0] = 0
        row_ends = np.zeros(num_chunks, np.int64)
        row_ends[-1] = self.num_rows
        return row_starts, row_ends

    def _plan_chunks(self, table: ChunkTable, rows: RowRanges) -> Step:
        if len(rows.starts) == 1:
            return self._plan_run(table, rows)
        first = np.searchsorted(table.row_starts[1:], rows.starts, side="right")
        last = np.searchsorted(table.row_ends, rows.stops - 1, side="right")
        # Neighbouring ranges may share chunks, all of them where there is no repetition index.
        first_new = np.concatenate((first[:1], np.maximum(first[1:], last[:-1] + 1)))
        chunks = expand_ranges(first_new, last + 1)
        run_first, run_last = _runs(chunks, np.diff(chunks) != 1)
        # Bytes between near chunks are fetched too: a range of its own would cost more to handle.
        gaps = table.byte_starts[chunks[1:]] - table.byte_starts[chunks[:-1] + 1]
        fetch_first, fetch_last = _runs(chunks, gaps > GAP_BYTES)
        starts, stops = table.byte_starts[fetch_first], table.byte_starts[fetch_last + 1]
        base = self._buffers[1].start
        ranges = tuple(
            ByteRange(base + start, base + stop)
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        )
        # Where each chunk will lie once the ranges are joined.
        home = np.searchsorted(fetch_first, chunks, side="right") - 1
        shift = (_starts(stops - starts)[:-1] - starts)[home]
        offsets = table.byte_starts[chunks] + shift
        return self._fetch(
            table, ranges, _Wanted(rows, chunks, offsets, run_first, run_last, first)
        )

    def _plan_run(self, table: ChunkTable, rows: RowRanges) -> Step:
        """The same for a single range of rows: many tasks at once may each want one row."""
        first = int(table.row_starts[1:].searchsorted(rows.starts[0], side="right"))
        last = int(table.row_ends.searchsorted(rows.stops[0] - 1, side="right"))
        places = table.byte_starts[first : last + 2]
        chunks = np.arange(first, last + 1)
        wanted = _Wanted(rows, chunks, places[:-1] - places[0], chunks[:1], chunks[-1:], chunks[:1])
        base = self._buffers[1].start
        fetched = ByteRange(base + int(places[0]), base + int(places[-1]))
        return self._fetch(table, (fetched,), wanted)

    def _fetch(self, table: ChunkTable, ranges: tuple[ByteRange, ...], wanted: _Wanted) -> Step:
        def then(found: Sequence[memoryview]) -> Step:
            return Decode(wanted.rows.num_rows, lambda: self._decode(table, wanted, found))

        return Fetch(ranges, then)

    def _decode(self, table: ChunkTable, wanted: _Wanted, found: Sequence[memoryview]) -> PageRows:
        layout, shape = self._layout, self._shape
        data = (
            as_bytes(found[0]) if len(found) == 1 else np.concatenate([as_bytes(f) for f in found])
        )
        chunks = wanted.chunks
        sizes = table.byte_starts[chunks + 1] - table.byte_starts[chunks]
        specs = [s for s in (layout.rep_compression, layout.def_compression) if s is not None]
        num_levels, starts, lengths, status = byte_kernels.parse_chunk_headers(
            data,
            wanted.offsets,
            sizes,
            len(specs),
            layout.num_buffers,
            4 if layout.has_large_chunk else 2,
        )
        if status != 0:
            raise CorruptFileError(
                f"the header of chunk {chunks[status - 1]} does not fit the chunk"
            )
        num_values = table.value_starts[chunks + 1] - table.value_starts[chunks]
        self._check_levels(specs, num_levels, num_values)
        streams = iter(range(len(specs)))

        def stream(spec: object) -> Chunks:
            row = slice(at := next(streams), at + 1) if spec is not None else slice(0, 0)
            return Chunks(data, starts[row], lengths[row], num_levels)

        rep = decode_levels(layout.rep_compression, stream(layout.rep_compression), self._registry)
        def_ = decode_levels(layout.def_compression, stream(layout.def_compression), self._registry)
        levels = Levels(rep, def_)
        value_chunks = Chunks(data, starts[len(specs) :], lengths[len(specs) :], num_values)
        if layout.num_buffers < self._registry.num_buffers(layout.value_compression):
            raise CorruptFileError("a mini-block page has fewer value buffers than its encoding")
        values = self._registry.decode_chunks(layout.value_compression, value_chunks)
        if layout.dictionary is not None:
            values = self._look_up(table, values)
        item_counts = num_levels if specs else num_values
        items = wanted.item_ranges(table, levels, shape, item_counts)
        return cut_items(shape, levels, values, items, wanted.rows.num_rows)

    def _check_levels(
        self, specs: Sequence[Spec], num_levels: Positions, num_values: Positions
    ) -> None:
        """Compare counts before memory is taken for levels: bitpacking may make many of nothing."""
        if not specs:
            return
        wrong = num_levels < num_values if self._shape.max_rep else num_levels != num_values
        if bool(wrong.any()):
            raise CorruptFileError("the levels of a chunk are not those of its values")

    def _look_up(self, table: ChunkTable, indices: DataBlock) -> DataBlock:
        layout = self._layout
        assert layout.dictionary is not None
        assert table.dictionary is not None
        num_items = layout.num_dictionary_items
        if num_items > DICTIONARY_ITEMS_MAX:
            raise CorruptFileError(f"a dictionary of {num_items} items cannot be real")
        size = np.array([[len(table.dictionary)]], np.int64)
        block = Chunks(table.dictionary, np.zeros_like(size), size, np.array([num_items], np.int64))
        items = self._registry.decode_blocks(layout.dictionary, block)
        if not isinstance(indices, FixedWidthBlock) or indices.bits_per_value not in (
            8,
            16,
            32,
            64,
        ):
            raise CorruptFileError("dictionary indices are not integers")
        codes = indices.data.view(f"<u{indices.bits_per_value // 8}")
        if len(codes) and int(codes.max()) >= num_items:
            raise CorruptFileError(
                f"dictionary index {codes.max()} in a dictionary of {num_items} items"
            )
        return DictionaryBlock(indices, items)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Wanted rows and the chunks that hold them, as runs of neighbouring chunks."""

    rows: RowRanges
    chunks: Positions
    offsets: Positions
    """Where each chunk lies in the fetched bytes."""
    run_first: Positions
    run_last: Positions
    first_chunk: Positions
    """Chunk where each range of rows starts."""

    def item_ranges(
        self, table: ChunkTable, levels: Levels, shape: Shape, item_counts: Positions
    ) -> RowRanges:
        """Positions of the wanted rows' items among the decoded ones."""
        first_row = table.row_starts[self.run_first]
        if len(first_row) == 1 and shape.max_rep == 0:
            return RowRanges(self.rows.starts - first_row, self.rows.stops - first_row)
        run = np.searchsorted(self.run_first, self.first_chunk, side="right") - 1
        if shape.max_rep == 0:
            counts = table.row_starts[self.run_last + 1] - first_row
            shift = (np.cumsum(counts) - counts - first_row)[run]
            return RowRanges(self.rows.starts + shift, self.rows.stops + shift)
        assert levels.rep is not None
        bounds, base = self._row_bounds(table, levels.rep, shape, item_counts)
        shift = base[run] - first_row[run]
        return RowRanges(bounds[self.rows.starts + shift], bounds[self.rows.stops + shift])

    def _row_bounds(
        self,
        table: ChunkTable,
        rep: npt.NDArray[np.uint16],
        shape: Shape,
        item_counts: Positions,
    ) -> tuple[Positions, Positions]:
        """Item positions of the row starts of every run, each run closed by its end."""
        starts = repdef.row_starts(rep, shape.max_rep)
        chunk_ends = np.cumsum(item_counts)
        run_ends = chunk_ends[np.searchsorted(self.chunks, self.run_last)]
        if run_ends[-1] != len(rep):
            raise CorruptFileError("chunks and their levels disagree on the number of items")
        expected = np.cumsum(table.row_starts[self.run_last + 1] - table.row_starts[self.run_first])
        if bool((np.searchsorted(starts, run_ends, side="left") != expected).any()):
            raise CorruptFileError("repetition levels and repetition index disagree on the rows")
        bounds = np.insert(starts, expected, run_ends)
        ends = expected + np.arange(1, len(expected) + 1)
        return bounds, np.concatenate((np.zeros(1, np.int64), ends[:-1]))


def cut_items(
    shape: Shape, levels: Levels, values: DataBlock, items: RowRanges, num_rows: int
) -> PageRows:
    """Cut decoded levels and values down to ranges of items."""
    starts, stops = items.starts, items.stops
    if shape.hides_items and levels.def_ is not None:
        bounds = np.append(np.stack((starts, stops), axis=1).reshape(-1), len(levels.def_))
        visible = repdef.count_visible(levels.def_, shape.max_visible, bounds)
        if visible[-1] != values.num_values:
            raise CorruptFileError(
                f"levels speak of {visible[-1]} values, the page holds {values.num_values}"
            )
        value_starts, value_stops = visible[:-1:2], visible[1::2]
    else:
        for stream in (levels.rep, levels.def_):
            if stream is not None and len(stream) != values.num_values:
                raise CorruptFileError(
                    f"{len(stream)} levels for the {values.num_values} values of a page"
                )
        value_starts, value_stops = starts, stops
    cut = select_levels(levels, starts, stops)
    return PageRows(num_rows, shape.layers, cut, select(values, value_starts, value_stops))


def _runs(chunks: Positions, breaks: npt.NDArray[np.bool_]) -> tuple[Positions, Positions]:
    """First and last chunk of every run; `breaks` tells where, after the first, one begins."""
    after = np.flatnonzero(breaks)
    return chunks[np.concatenate(([0], after + 1))], chunks[np.append(after, len(chunks) - 1)]


def _words(metadata: memoryview, large: bool) -> Positions:
    width = 4 if large else 2
    if len(metadata) % width:
        raise CorruptFileError(f"chunk metadata of {len(metadata)} bytes holds half a word")
    return np.frombuffer(metadata, f"<u{width}").astype(np.int64)


def _starts(lengths: Positions) -> Positions:
    """Running total before each entry, and after the last."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
