"""Late materialization: whether to read the filter's columns first, and what of the others then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alance.encodings.rows import RowRanges

__all__ = ["CHUNK_BYTES", "Selectivity", "is_late_cheaper", "near_rows", "rest_bytes"]

CHUNK_BYTES = 8 * 1024
"""Least that a column is read by, about: a mini-block chunk, or the value of a full-zip row."""
GUESSED_SHARE = 0.1
"""Rows that pass, before any have been seen: filters are written to leave rows out."""
GUESS_ROWS = 1000
"""Rows after which what was seen outweighs the guess."""


@dataclass(slots=True)
class Selectivity:
    """How many rows have passed a filter so far."""

    num_seen: int = 0
    num_passed: int = 0

    @property
    def share(self) -> float:
        """Share of rows that are expected to pass, from 0 to 1."""
        expected = self.num_passed + GUESSED_SHARE * GUESS_ROWS
        return expected / (self.num_seen + GUESS_ROWS)

    def add(self, num_seen: int, num_passed: int) -> None:
        """Take note of rows that were filtered."""
        self.num_seen += num_seen
        self.num_passed += num_passed


def rest_bytes(
    num_rows: int, row_bytes: Sequence[float], share: float, request_cost_bytes: int
) -> float:
    """Cost, in bytes, of reading the rows that pass from columns other than the filter's.

    Parameters
    ----------
    num_rows
        Rows of which a `share` passes, scattered.
    row_bytes
        Stored bytes of a row in each of the columns.
    share
        From 0 to 1.
    request_cost_bytes
        What a request costs besides its bytes; the requests for a column are never so many that
        reading all of it would be cheaper.
    """
    total = 0.0
    for width in row_bytes:
        whole = num_rows * width
        piece_rows = max(CHUNK_BYTES / width, 1.0) if width else float(num_rows)
        num_pieces = num_rows / piece_rows * (1.0 - (1.0 - share) ** piece_rows)
        piece_bytes = min(piece_rows * width, whole)
        total += min(num_pieces * (piece_bytes + request_cost_bytes), whole)
    return total


def is_late_cheaper(
    num_rows: int, row_bytes: Sequence[float], share: float, request_cost_bytes: int
) -> bool:
    """Whether reading other columns after the filter's costs less than reading them with those.

    What is saved must outweigh one request more for each column, and the round that it waits.
    Parameters are those of `rest_bytes`.
    """
    late = rest_bytes(num_rows, row_bytes, share, request_cost_bytes)
    late += (len(row_bytes) + 1) * request_cost_bytes
    return late < num_rows * sum(row_bytes)


def near_rows(rows: RowRanges, gap_rows_max: int) -> RowRanges:
    """Ranges of rows with small gaps between them filled: fewer ranges, read on along the way."""
    if len(rows.starts) < 2:
        return rows
    apart = rows.starts[1:] - rows.stops[:-1] > gap_rows_max
    starts = rows.starts[np.concatenate(([True], apart))]
    stops = rows.stops[np.concatenate((apart, [True]))]
    return RowRanges(starts, stops)
