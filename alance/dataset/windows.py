"""Cutting a scan into windows: runs of rows of one fragment, read and decoded as one unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alance.dataset.fragment import FragmentReader
from alance.encodings.rows import RowRanges
from alance.table.manifest import Fragment

__all__ = ["Slice", "Window", "cut_windows", "slice_rows"]

WINDOW_BYTES = 8 * 1024 * 1024
"""Stored bytes that a window aims at: enough to outweigh a request, few enough to overlap."""
WINDOW_ROWS_MAX = 256 * 1024
ROW_UNIT = 1024
DECODED_SHARE = 3
"""What a window is charged for, as a multiple of its stored bytes: those, decoded ones, slack."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Live rows [start, stop) of one fragment."""

    fragment: Fragment
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Window:
    """Rows to read at once, by offset in their fragment."""

    rows: RowRanges
    num_bytes: int
    """Charged to the byte budget until the rows have been delivered."""


def slice_rows(fragments: Sequence[Fragment], offset: int, limit: int | None) -> list[Slice]:
    """Which live rows of which fragments hold rows [offset, offset + limit) of a dataset."""
    slices = []
    start = offset
    left = sum(f.num_rows for f in fragments) if limit is None else limit
    for fragment in fragments:
        if left <= 0:
            break
        if start >= fragment.num_rows:
            start -= fragment.num_rows
            continue
        stop = min(fragment.num_rows, start + left)
        slices.append(Slice(fragment, start, stop))
        left -= stop - start
        start = 0
    return slices


def cut_windows(reader: FragmentReader, wanted: Slice, batch_size: int | None) -> Iterator[Window]:
    """Cut a slice into windows of whole batches where they are small enough."""
    row_bytes = reader.row_bytes
    num_rows = int(WINDOW_BYTES / row_bytes) if row_bytes else WINDOW_ROWS_MAX
    num_rows = max(1, min(num_rows, WINDOW_ROWS_MAX))
    unit = batch_size or ROW_UNIT
    if num_rows > unit:
        num_rows -= num_rows % unit
    for start in range(wanted.start, wanted.stop, num_rows):
        rows = reader.live(start, min(start + num_rows, wanted.stop))
        yield Window(rows, int(rows.num_rows * row_bytes * DECODED_SHARE) + 1)
