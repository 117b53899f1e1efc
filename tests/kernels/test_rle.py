from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import rle
from tests.kernels import reference_rle
from tests.kernels.arrays import Bytes, from_bytes, i64, same, u8

WIDTHS = (1, 2, 4, 8)
RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 700)), max_size=8)


@pytest.fixture(params=[reference_rle, rle], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


def _values(runs: list[tuple[int, int]], width: int) -> Bytes:
    """Values that differ in their last byte only."""
    values = np.repeat([value for value, _ in runs], [n for _, n in runs]).astype(np.uint64)
    return (values << np.uint64(8 * (width - 1))).astype(f"<u{width}").view(np.uint8)


def test_runs_of_bytes(impl: Any) -> None:
    values = u8(7, 7, 7, 8, 9, 9, *[1] * 256)
    found = impl.encode(values, i64(0, 2, 2, 6, 262), 1)
    same(found, (u8(7, 7, 8, 9, 1, 1), u8(2, 1, 1, 2, 255, 1), i64(1, 0, 3, 2)))
    same(impl.count_runs(values, i64(0, 2, 2, 6, 262), 1), i64(1, 0, 3, 2))
    assert impl.count_changes(values, 262, 1) == 3
    assert impl.count_changes(values, 3, 1) == 0


def test_values_of_many_chunks(impl: Any) -> None:
    data = from_bytes("ff 0100 0200 0300 02 01 05 00 ff")
    found, status = impl.decode(data, i64(1, 5, 1), i64(7, 9, 0), i64(2, 1, 0), i64(3, 4, 0), 2)
    assert status == 0
    assert found.view("<u2").tolist() == [1, 1, 2, 3, 3, 3, 3]


def test_no_values(impl: Any) -> None:
    none = np.empty(0, np.uint8)
    same(impl.encode(none, i64(0), 4), (none, none, i64()))
    same(impl.encode(none, i64(0, 0), 8), (none, none, i64(0)))
    assert impl.count_changes(none, 0, 8) == 0
    found, status = impl.decode(none, i64(), i64(), i64(), i64(), 8)
    assert (len(found), status) == (0, 0)


@given(runs=RUNS, width=st.sampled_from(WIDTHS), cuts=st.lists(st.floats(0, 1), max_size=4))
def test_encode_and_decode_equal_the_reference(
    runs: list[tuple[int, int]], width: int, cuts: list[float]
) -> None:
    values = _values(runs, width)
    count = len(values) // width
    bounds = i64(0, *sorted(int(cut * count) for cut in cuts), count)
    run_values, lengths, num_runs = rle.encode(values, bounds, width)
    same((run_values, lengths, num_runs), reference_rle.encode(values, bounds, width))
    assert rle.count_changes(values, count, width) == reference_rle.count_changes(
        values, count, width
    )
    data = np.concatenate((u8(0), run_values, lengths))
    before = np.cumsum(num_runs) - num_runs
    chunks = (1 + before * width, 1 + len(run_values) + before, num_runs)
    found, status = rle.decode(data, *chunks, np.diff(bounds), width)
    assert status == 0
    same(found, values)


@given(
    data=st.binary(max_size=30),
    chunks=st.lists(
        st.tuples(*[st.integers(-2, 30)] * 3, st.integers(-1, 600)), min_size=1, max_size=3
    ),
    width=st.sampled_from(WIDTHS),
)
def test_hostile_runs_give_what_the_reference_gives(
    data: bytes, chunks: list[tuple[int, int, int, int]], width: int
) -> None:
    values, lengths, runs, counts = np.array(chunks, np.int64).T.copy()
    call = (from_bytes(data), values, lengths, runs, counts, width)
    expected, expected_status = reference_rle.decode(*call)
    found, status = rle.decode(*call)
    assert status == expected_status
    if status == 0:
        same(found, expected)


@pytest.mark.parametrize("big", [1 << 62, (1 << 63) - 1, -(1 << 63)])
def test_counts_that_would_wrap_around(impl: Any, big: int) -> None:
    data = u8(*range(16))
    for chunk in ((big, 0, 1, 1), (0, big, 1, 1), (0, 0, big, 1), (0, 0, 1, big)):
        assert impl.decode(data, *(i64(each) for each in chunk), 8)[1] == 1


def test_wrong_calls(impl: Any) -> None:
    values = u8(*range(8))
    for bounds in (i64(), i64(0, 9), i64(2, 1), i64(-1, 2)):
        with pytest.raises(ValueError):
            impl.encode(values, bounds, 1)
    with pytest.raises(ValueError):
        impl.encode(values, i64(0, 1), 3)
    with pytest.raises(ValueError):
        impl.count_changes(values, 2, 8)
    with pytest.raises(ValueError):
        impl.decode(values, i64(0), i64(0), i64(1), i64(1, 1), 1)
