"""Receipts of whole calls: each counts its own, tasks included, and nothing of others."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import alance
from tests.dataset.helpers import ROOT, numbers

pytestmark = pytest.mark.anyio


async def test_blocks_nest(tmp_path: Path) -> None:
    with alance.receipt() as outer:
        await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
        with alance.receipt() as inner:
            ds = await alance.open_dataset(tmp_path / ROOT, session=alance.Session())
            await ds.to_table()
    assert inner.requests == {"list": 1, "get": 2}
    assert outer.requests == {"list": 2, "get": 2, "put": 4}
    assert inner.bytes_written == 0
    assert outer.bytes_written > 0


async def test_a_scan_counts_where_it_is_read(tmp_path: Path) -> None:
    await alance.write_dataset(numbers(0, 100), tmp_path / ROOT, max_rows_per_file=50)
    ds = await alance.open_dataset(tmp_path / ROOT, session=alance.Session())
    with alance.receipt() as planning:
        scan = ds.scan()
    with alance.receipt() as reading:
        async for _ in scan:
            pass
    assert planning.num_requests == 0
    assert reading.requests == {"get": 2}
    with alance.receipt() as again:
        await scan.to_table()
    assert again.num_requests == 0, "small files lie in the session's cache"


async def test_tasks_count_apart(tmp_path: Path) -> None:
    await alance.write_dataset(numbers(0, 100), tmp_path / ROOT, max_rows_per_file=10)
    session = alance.Session()
    found: dict[int, alance.Receipt] = {}

    async def take(i: int) -> None:
        with alance.receipt() as spent:
            ds = await alance.open_dataset(tmp_path / ROOT, session=session, version=1)
            await ds.take([i * 10])
        found[i] = spent

    with alance.receipt() as total:
        async with anyio.create_task_group() as tg:
            for i in range(5):
                tg.start_soon(take, i)
    assert all(spent.requests["get"] == 2 for spent in found.values())
    assert total.requests == {"get": 10}


async def test_it_is_one_readable_line(tmp_path: Path) -> None:
    with alance.receipt() as spent:
        await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
    assert str(spent).startswith("5 requests (1 list, 4 put) in 4 rounds, ")
    assert "\n" not in str(spent)
    assert spent.retries == 0
    assert spent.wait_s > 0


async def test_failed_calls_count(tmp_path: Path) -> None:
    with alance.receipt() as spent, pytest.raises(alance.DatasetNotFoundError):
        await alance.open_dataset(tmp_path / ROOT)
    assert (spent.requests, spent.rounds) == ({"list": 1}, 1)
