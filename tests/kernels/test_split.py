from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import split
from tests.kernels import reference_split
from tests.kernels.arrays import from_bytes, i64, same, u8


@pytest.fixture(params=[reference_split, split], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_bytes_of_equal_rank_lie_together(impl: Any) -> None:
    values = from_bytes("01020304 11121314 21222324")
    found = impl.encode(values, i64(2, 1), 4)
    same(found, from_bytes("0111 0212 0313 0414 21222324"))
    same(impl.decode(found, i64(0, 8), i64(2, 1), 4), (values, 0))


@given(
    counts=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    width=st.sampled_from([4, 8]),
    seed=st.integers(0, 9),
)
def test_equals_the_reference(counts: list[int], width: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 256, sum(counts) * width).astype(np.uint8)
    found = split.encode(values, i64(*counts), width)
    same(found, reference_split.encode(values, i64(*counts), width))
    starts = np.cumsum([0, *counts[:-1]]) * width
    same(split.decode(found, starts, i64(*counts), width), (values, 0))


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [([0], [3]), ([-8], [1]), ([17], [0]), ([0, 9], [1, 1]), ([0], [-1]), ([0], [1 << 61])],
)
def test_chunks_outside_of_the_data(impl: Any, offsets: list[int], counts: list[int]) -> None:
    found, status = impl.decode(u8(*range(16)), i64(*offsets), i64(*counts), 8)
    assert (len(found), status) == (0, len(offsets))


def test_wrong_calls(impl: Any) -> None:
    values = u8(*range(16))
    for counts in (i64(3), i64(-1), i64(1, 2)):
        with pytest.raises(ValueError):
            impl.encode(values, counts, 8)
    for width in (1, 2, 16):
        with pytest.raises(ValueError):
            impl.encode(values, i64(1), width)
        with pytest.raises(ValueError):
            impl.decode(values, i64(0), i64(1), width)
    with pytest.raises(ValueError):
        impl.decode(values, i64(0), i64(1, 1), 4)
