"""Positions among live rows and offsets among all, held against plain lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.dataset.live_rows import LiveRows

ROWS = 40


def live_rows(deleted: frozenset[int]) -> tuple[LiveRows, list[int]]:
    vector = np.array(sorted(deleted), np.int64) if deleted else None
    return LiveRows(ROWS, vector), [i for i in range(ROWS) if i not in deleted]


deletions = st.one_of(
    st.frozensets(st.integers(0, ROWS - 1)),
    st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(lambda b: frozenset(range(*b))),
)


@given(deletions)
def test_positions_to_offsets(deleted: frozenset[int]) -> None:
    rows, expected = live_rows(deleted)
    assert rows.has_holes == bool(deleted)
    positions = np.arange(len(expected))
    assert rows.offsets(positions).tolist() == expected
    assert rows.offsets(positions[::-3]).tolist() == expected[::-3]


@given(deletions, st.integers(0, ROWS), st.integers(0, ROWS))
def test_ranges_of_live_rows(deleted: frozenset[int], start: int, stop: int) -> None:
    rows, expected = live_rows(deleted)
    stop = min(stop, len(expected))
    found = rows.between(start, stop)
    assert found.rows().tolist() == expected[start : max(start, stop)]
    assert (found.starts < found.stops).all()
    assert (found.starts[1:] > found.stops[:-1]).all(), "neighbours are one range"


@given(deletions)
def test_which_offsets_are_live(deleted: frozenset[int]) -> None:
    rows, expected = live_rows(deleted)
    offsets = np.arange(ROWS + 10)
    assert offsets[rows.contain(offsets)].tolist() == expected


@pytest.mark.parametrize("num_deleted", [1, 2, 3, 4, 5000])
def test_many_rows(num_deleted: int) -> None:
    deleted = np.sort(np.random.default_rng(5).choice(20_000, num_deleted, replace=False))
    expected = np.setdiff1d(np.arange(20_000), deleted)
    rows = LiveRows(20_000, deleted)
    assert np.array_equal(rows.offsets(np.arange(len(expected))), expected)
    assert np.array_equal(rows.between(0, len(expected)).rows(), expected)
