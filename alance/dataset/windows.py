"""Cutting a scan into windows: runs of rows of one fragment, read and decoded as one unit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alance.dataset.fragment import FragmentReader
from alance.dataset.projection import RootPlan, row_bytes_min
from alance.encodings.rows import RowRanges
from alance.table.manifest import Fragment

__all__ = ["WINDOW_BYTES", "Slice", "Window", "cut_windows", "rows_per_window", "slice_rows"]

WINDOW_BYTES = 8 * 1024 * 1024
"""Stored bytes that a window aims at: enough to outweigh a request, few enough to overlap."""
WINDOW_ROWS_MAX = 512 * 1024
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
    """Stored bytes, about."""
    charge: int
    """Charged to the byte budget until the rows have been delivered."""
    is_last: bool
    """Whether it ends its slice."""


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


def rows_per_window(row_bytes: float) -> int:
    """Rows whose stored bytes make a window."""
    num_rows = int(WINDOW_BYTES / row_bytes) if row_bytes else WINDOW_ROWS_MAX
    return max(1, min(num_rows, WINDOW_ROWS_MAX))


def cut_windows(
    reader: FragmentReader,
    wanted: Slice,
    batch_size: int | None,
    roots: Sequence[RootPlan],
    rest: Sequence[RootPlan] = (),
) -> Iterator[Window]:
    """Cut a slice into windows of whole batches where they are small enough.

    A window ends where a page of the widest column does, if that is near: its pages then need not
    be joined with parts of others.

    Parameters
    ----------
    reader, wanted
        The fragment, and which of its rows.
    batch_size
        Rows of a batch; None for any number.
    roots
        Fields that are read at once.
    rest
        Fields that are read afterwards, a window's bytes of them at a time.
    """
    row_bytes, rest_bytes = reader.row_bytes(roots), reader.row_bytes(rest)
    # Decoded rows take at least this, however well they are compressed.
    charged = max(row_bytes * DECODED_SHARE, row_bytes + row_bytes_min(roots))
    rest_charged = max(rest_bytes * DECODED_SHARE, rest_bytes + row_bytes_min(rest))
    num_rows = rows_per_window(row_bytes)
    unit = batch_size or ROW_UNIT
    if num_rows > unit:
        num_rows -= num_rows % unit
    bounds = reader.page_bounds(roots)
    start = wanted.start
    while start < wanted.stop:
        stop = min(_near_bound(bounds, start, num_rows), wanted.stop)
        rows = reader.live_rows.between(start, stop)
        later = min((stop - start) * rest_charged, WINDOW_BYTES * DECODED_SHARE)
        charge = int(max((stop - start) * charged, later)) + 1
        yield Window(rows, int((stop - start) * row_bytes), charge, stop == wanted.stop)
        start = stop


def _near_bound(bounds: Sequence[int], start: int, num_rows: int) -> int:
    """The last page bound from half to one and a half windows after `start`, else one window."""
    latest = bisect_right(bounds, start + num_rows + num_rows // 2) - 1
    if latest >= 0 and bounds[latest] >= start + max(num_rows // 2, 1):
        return bounds[latest]
    return start + num_rows
