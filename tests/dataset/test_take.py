"""Taking rows by position, compared with Arrow's own take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from tests.dataset.helpers import nothing_left, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 1000)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(TABLE, tmp_path / "set.lance", max_rows_per_file=300)


@pytest.mark.parametrize(
    "indices",
    [
        [],
        [0],
        [999],
        [5, 3, 999, 0, 300, 299],
        [7, 7, 7, 1, 7],
        range(10, 900, 7),
        range(999, -1, -1),
        (1, 2),
        np.array([900, 4], np.int32),
        np.array([4, 900], np.uint64),
        pa.array([3, 1]),
        (i * i for i in range(30)),
        {400},
    ],
    ids=lambda indices: type(indices).__name__,
)
async def test_rows_come_in_the_order_asked_for(dataset: alance.Dataset, indices: Any) -> None:
    if not hasattr(indices, "__len__"):
        indices = list(indices)
        given = iter(indices)
    else:
        given = indices
    found = await dataset.take(given)
    expected = TABLE.take(pa.array(np.array(list(map(int, map(str, indices))), np.int64)))
    assert found.equals(expected)


@pytest.mark.slow
@given(indices=st.lists(st.integers(0, 999), max_size=50))
async def test_any_indices(indices: list[int]) -> None:
    session = alance.Session()
    ds = await alance.write_dataset(
        TABLE.slice(0, 1000), "memory://set.lance", max_rows_per_file=170, session=session
    )
    expected = TABLE.take(pa.array(indices, pa.int64()))
    assert (await ds.take(indices)).equals(expected)


async def test_columns(dataset: alance.Dataset) -> None:
    found = await dataset.take([5, 2], ["s"])
    assert found.to_pydict() == {"s": [None, "row 2"]}
    found = await dataset.take([5, 2], ["p.y", "a"])
    assert found.to_pydict() == {"p.y": [5.0, 2.0], "a": [5, 2]}
    found = await dataset.take([5, 2], {"double": "a * 2"})
    assert found.to_pydict() == {"double": [10, 4]}
    found = await dataset.take([5, 2], [])
    assert (found.num_columns, found.num_rows) == (0, 2)


async def test_many_tasks_at_once(dataset: alance.Dataset) -> None:
    found: dict[int, int] = {}

    async def take(i: int) -> None:
        found[i] = (await dataset.take([i]))["a"][0].as_py()

    async with nothing_left(), anyio.create_task_group() as tg:
        for i in range(0, 1000, 3):
            tg.start_soon(take, i)
    assert found == {i: i for i in range(0, 1000, 3)}


@pytest.mark.parametrize(
    ("indices", "says"),
    [
        ([1000], "index 1000 is out of range: the dataset has 1000 rows, 0 to 999"),
        ([3, -1], "index -1 is out of range"),
        ([1 << 63], f"index {1 << 63} is out of range"),
        ([1 << 70], "flat sequence of integers"),
        ([1.0], "flat sequence of integers"),
        ([True], "flat sequence of integers"),
        (["1"], "flat sequence of integers"),
        ([None], "flat sequence of integers"),
        ([[1], [2, 3]], "flat sequence of integers"),
        ([[1, 2]], "flat sequence of integers"),
        (5, r"flat sequence of integers, such as \[0, 17\], not 5"),
        (None, "flat sequence of integers"),
    ],
    ids=repr,
)
async def test_what_is_no_position(dataset: alance.Dataset, indices: Any, says: str) -> None:
    with (
        alance.receipt() as spent,
        pytest.raises(alance.InvalidInputError, match=says),
    ):
        await dataset.take(indices)
    assert spent.num_requests == 0


async def test_an_empty_dataset_has_no_position(tmp_path: Path) -> None:
    ds = await alance.write_dataset(TABLE.slice(0, 0), tmp_path / "set.lance")
    assert (await ds.take([])).equals(TABLE.slice(0, 0))
    with pytest.raises(alance.InvalidInputError, match="the dataset has no rows"):
        await ds.take([0])
