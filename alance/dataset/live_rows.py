"""The rows of a fragment that are not deleted: positions among them, and offsets among all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alance.encodings.rows import RowRanges

__all__ = ["LiveRows"]

Offsets = npt.NDArray[np.int64]


class LiveRows:
    """Which rows of a fragment are live; every question costs the logarithm of the deleted ones.

    Parameters
    ----------
    physical_rows
        Rows of the fragment, deleted ones included.
    deleted
        Offsets of deleted rows, ascending; None when there are none.
    """

    def __init__(self, physical_rows: int, deleted: Offsets | None) -> None:
        self._physical_rows = physical_rows
        self._deleted = np.empty(0, np.int64) if deleted is None else deleted

    @property
    def has_holes(self) -> bool:
        """Whether any row is deleted."""
        return len(self._deleted) > 0

    def between(self, start: int, stop: int) -> RowRanges:
        """Offsets of the live rows [start, stop), counted without deleted ones."""
        if start >= stop or not self.has_holes:
            return RowRanges.one(start, stop)
        bounds = self.offsets(np.array([start, stop - 1], np.int64))
        first, last = int(bounds[0]), int(bounds[1]) + 1
        inside = self._deleted[np.searchsorted(self._deleted, first) :]
        inside = inside[: np.searchsorted(inside, last)]
        starts = np.concatenate(([first], inside + 1))
        stops = np.concatenate((inside, [last]))
        kept = starts < stops
        return RowRanges(starts[kept], stops[kept])

    def offsets(self, positions: Offsets) -> Offsets:
        """Offsets of rows by their position among the live rows."""
        if not self.has_holes:
            return positions
        # Before the k-th deleted row lie deleted[k] - k live ones, and before a position as many
        # deleted rows as there are such counts up to it. This is a binary search in those counts,
        # for all positions at once: to make an array of them costs more than a few searches.
        low, high = np.zeros_like(positions), np.full_like(positions, len(self._deleted))
        for _ in range(len(self._deleted).bit_length()):
            middle = np.minimum((low + high) >> 1, len(self._deleted) - 1)
            is_before = self._deleted[middle] - middle <= positions
            is_open = low < high
            low = np.where(is_open & is_before, middle + 1, low)
            high = np.where(is_open & ~is_before, middle, high)
        found: Offsets = positions + low
        return found

    def contain(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Which offsets are of rows that are there and not deleted."""
        live = offsets < self._physical_rows
        if self.has_holes:
            nearest = np.searchsorted(self._deleted, offsets)
            nearest = np.minimum(nearest, len(self._deleted) - 1)
            live &= self._deleted[nearest] != offsets
        return live
