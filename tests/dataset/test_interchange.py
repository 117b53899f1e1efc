"""Every type, written here and read by the reference implementation, and the other way round."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.testing.arrays import Content, random_table
from alance.testing.asserts import assert_same_table
from tests.dataset.samples import FEW, SCHEMAS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONTENTS = {
    "no nulls": Content(nulls=0.0, narrow=True),
    "some nulls": Content(nulls=0.3, text="few"),
    "all null": Content(nulls=1.0),
    "long": Content(nulls=0.1, text="long", list_items=3),
    "skewed": Content(nulls=0.1, text="skewed"),
    "empty lists": Content(nulls=0.1, list_items=0),
}


def row_sets(num_rows: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Rows to take: scattered with duplicates, the same in order, neighbours, the last."""
    if num_rows == 0:
        return []
    scattered = np.random.default_rng(num_rows).integers(0, num_rows, min(num_rows, 20))
    start = num_rows // 3
    return [
        scattered,
        np.unique(scattered),
        np.arange(start, num_rows)[:30],
        np.array([num_rows - 1]),
    ]


async def write_here(table: pa.Table, path: Path) -> lance.LanceDataset:
    await alance.write_dataset(table, path, data_storage_version="2.1")
    return lance.dataset(path)


async def write_there(table: pa.Table, path: Path) -> alance.Dataset:
    lance.write_dataset(table, path, data_storage_version="2.1")
    return await alance.open_dataset(path)


def check_there(theirs: lance.LanceDataset, table: pa.Table) -> None:
    """The reference implementation reads these rows, in every way."""
    assert_same_table(theirs.to_table(), table)
    for rows in row_sets(table.num_rows):
        assert_same_table(theirs.take(rows), table, rows)
    third = table.num_rows // 3
    assert_same_table(theirs.to_table(offset=third, limit=third), table.slice(third, third))


async def check_here(ours: alance.Dataset, table: pa.Table) -> None:
    """So does this library."""
    assert_same_table(await ours.to_table(), table)
    for rows in row_sets(table.num_rows):
        assert_same_table(await ours.take(rows), table, rows)
    third = table.num_rows // 3
    found = await ours.to_table(offset=third, limit=third)
    assert_same_table(found, table.slice(third, third))
    size = third + 1
    batches = [batch async for batch in ours.scan(batch_size=size)]
    assert all(batch.num_rows == size for batch in batches[:-1])
    assert_same_table(pa.Table.from_batches(batches, ours.schema), table)


@pytest.mark.parametrize("num_rows", [0, 1, 200])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", SCHEMAS)
async def test_every_type_both_ways(name: str, content: str, num_rows: int, tmp_path: Path) -> None:
    table = random_table(SCHEMAS[name], num_rows, 1, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours"), table)
    await check_here(await write_there(table, tmp_path / "theirs"), table)


@pytest.mark.parametrize("num_rows", [1023, 1024, 1025, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("content", ["no nulls", "some nulls"])
async def test_edges_of_chunks_both_ways(content: str, num_rows: int, tmp_path: Path) -> None:
    table = random_table(FEW, num_rows, num_rows, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours"), table)
    await check_here(await write_there(table, tmp_path / "theirs"), table)
