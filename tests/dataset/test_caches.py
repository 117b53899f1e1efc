"""What a session keeps, what it says about that, and what is charged to its byte budget."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.simulated import SimulatedStore
from alance.testing.s3 import S3Server
from alance.testing.stores import CountingStore
from tests.dataset.helpers import ROOT, nothing_left, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

TABLE = pa.table({"a": np.random.default_rng(2).integers(0, 1 << 63, 30_000)})


async def test_stats_say_what_is_kept(tmp_path: Path) -> None:
    session = alance.Session()
    uri = tmp_path / ROOT
    ds = await alance.write_dataset(TABLE, uri, max_rows_per_file=10_000, session=session)
    before = session.stats()
    assert before.caches["files"] == alance.CacheStats(0, 0, 0, 0)
    assert (before.budget_held, before.budget_total) == (0, alance.Limits().bytes_in_flight_max)
    await ds.to_table()
    await ds.to_table()
    found = session.stats().caches["files"]
    assert (found.num_misses, found.num_values) == (3, 3)
    assert found.num_hits >= 3
    assert 0 < found.num_bytes < alance.Limits().cache_bytes_max
    assert session.stats().caches["pages"].num_values == 0
    assert session.stats().requests.requests["get"] >= 3


async def test_pages_are_kept_where_there_is_room_for_them() -> None:
    store = CountingStore(SimulatedStore())
    await write_on(alance.Session(), store, TABLE, "create")
    session = alance.Session(limits=alance.Limits(page_cache_bytes_max=1 << 20))
    ds = await open_on(session, store)
    expected = await ds.take([0, 15_000, 29_999])
    store.requests.clear()
    assert (await ds.take([0, 15_000, 29_999])).equals(expected)
    assert store.count() == 0
    kept = session.stats().caches["pages"]
    assert kept.num_hits > 0
    assert kept.num_bytes <= 1 << 20
    other = await open_on(alance.Session(), store)
    await other.take([0])
    store.requests.clear()
    await other.take([0])
    assert store.count("get_range") == 1, "none by default"


async def test_a_file_that_is_replaced_under_its_name_is_read_anew(tmp_path: Path) -> None:
    session = alance.Session(limits=alance.Limits(page_cache_bytes_max=1 << 20))
    for start in (0, 1000):
        path = tmp_path / "alone.lance"
        async with alance.create_file(path, numbers(0, 1).schema, session=session) as writer:
            await writer.write(numbers(start, start + 10).to_batches()[0])
        file = await alance.open_file(path, session=session)
        assert (await file.take([3])).equals(numbers(start + 3, start + 4))


class TestTakes:
    async def test_they_are_charged_and_give_back(self, tmp_path: Path) -> None:
        limits = alance.Limits(bytes_in_flight_max=20_000)
        session = alance.Session(limits=limits)
        ds = await alance.write_dataset(
            TABLE, tmp_path / ROOT, max_rows_per_file=10_000, session=session
        )
        held = []

        async def take(row: int) -> None:
            rows = list(range(row, 30_000, 3000))
            assert (await ds.take(rows)).equals(TABLE.take(rows))
            held.append(session.budget.held)

        async with nothing_left(session):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tg:
                    for row in range(40):
                        tg.start_soon(take, row)
        assert len(held) == 40

    async def test_inside_a_scan_in_any_budget(self, tmp_path: Path) -> None:
        session = alance.Session(limits=alance.Limits(bytes_in_flight_max=1))
        ds = await alance.write_dataset(
            TABLE, tmp_path / ROOT, max_rows_per_file=10_000, session=session
        )
        num_batches = 0
        async with nothing_left(session):
            with anyio.fail_after(60):
                async for batch in ds.scan(batch_size=5000):
                    num_batches += 1
                    rows = [0, 29_999, 12_345]
                    assert (await ds.take(rows)).equals(TABLE.take(rows))
                    assert batch.num_rows == 5000
        assert num_batches == 6


class TestManifests:
    async def test_a_version_that_was_read_before_is_not_read_again(
        self, s3_server: S3Server
    ) -> None:
        options, session = s3_server.storage_options, alance.Session()
        uri = "s3://bucket/kept.lance"
        await alance.write_dataset(TABLE, uri, storage_options=options)
        for spends in ({"list": 1, "get": 1}, {"list": 1}):
            with alance.receipt() as spent:
                ds = await alance.open_dataset(uri, storage_options=options, session=session)
            assert spent.requests == spends
            assert (await ds.to_table()).equals(TABLE)
        assert session.stats().caches["manifests"].num_hits == 1

    @pytest.mark.parametrize("kind", ["local", "s3"])
    async def test_one_that_was_replaced_under_its_name_is(
        self, kind: str, tmp_path: Path, s3_server: S3Server
    ) -> None:
        session = alance.Session()
        uri, options = str(tmp_path / ROOT), None
        if kind == "s3":
            uri, options = "s3://bucket/replaced.lance", s3_server.storage_options
        for start in (0, 1000, 2000):
            await alance.write_dataset(
                numbers(start, start + 10), uri, storage_options=options, mode="create"
            )
            ds = await alance.open_dataset(uri, storage_options=options, session=session)
            assert ds.version == 1
            assert (await ds.to_table())["a"].to_pylist() == list(range(start, start + 10))
            for info in await ds._places.client.list(ds._places.root):
                await ds._places.client.delete(info.path)
