"""A dataset's attributes, its versions, and sessions."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import alance
from alance.io import handle
from alance.session import current_session
from tests.dataset.helpers import column_a, numbers

pytestmark = pytest.mark.anyio


async def test_attributes_come_from_the_manifest(tmp_path: Path) -> None:
    uri = str(tmp_path / "set.lance")
    written = await alance.write_dataset(numbers(0, 10), uri, max_rows_per_file=4)
    opened = await alance.open_dataset(uri)
    for ds in (written, opened):
        with alance.receipt() as spent:
            assert ds.uri == uri
            assert ds.version == 1
            assert ds.schema == numbers(0, 1).schema
            assert ds.data_storage_version == "2.1"
            assert (ds.config, ds.metadata) == ({}, {})
            assert ds.session is current_session()
            assert [fragment.physical_rows for fragment in ds.fragments] == [4, 4, 2]
            assert repr(ds) == f"<alance.Dataset {uri} version 1: 10 rows>"
        assert spent.num_requests == 0


async def test_config_is_a_copy(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / "set.lance")
    ds.config["a"] = "b"
    ds.metadata["a"] = "b"
    assert (ds.config, ds.metadata) == ({}, {})


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_local_places(tmp_path: Path, scheme: str) -> None:
    ds = await alance.write_dataset(numbers(0, 3), f"{scheme}{tmp_path}/set.lance")
    assert column_a(await (await alance.open_dataset(ds.uri)).to_table()) == [0, 1, 2]


async def test_a_path_object_is_a_place(tmp_path: Path) -> None:
    await alance.write_dataset(numbers(0, 3), tmp_path / "set.lance")
    ds = await alance.open_dataset(tmp_path / "set.lance")
    assert await ds.count_rows() == 3


async def test_memory_lives_as_long_as_the_session() -> None:
    session = alance.Session()
    await alance.write_dataset(numbers(0, 3), "memory://set.lance", session=session)
    ds = await alance.open_dataset("memory://set.lance", session=session)
    assert await ds.count_rows() == 3
    with pytest.raises(alance.DatasetNotFoundError):
        await alance.open_dataset("memory://set.lance", session=alance.Session())


async def test_versions_and_travel_between_them(tmp_path: Path) -> None:
    began = datetime.now(UTC)
    first = await alance.write_dataset(numbers(0, 3), tmp_path / "set.lance")
    second = await first.append(numbers(3, 5))
    third = await second.overwrite(numbers(7, 9))
    assert [ds.version for ds in (first, second, third)] == [1, 2, 3]

    found = await third.versions()
    assert [entry["version"] for entry in found] == [1, 2, 3]
    assert [entry["metadata"]["total_rows"] for entry in found] == ["3", "5", "2"]
    assert [entry["timestamp"] for entry in found] == sorted(e["timestamp"] for e in found)
    assert all(began <= entry["timestamp"] <= datetime.now(UTC) for entry in found)

    assert column_a(await first.to_table()) == [0, 1, 2], "a version never changes"
    assert column_a(await (await third.checkout(2)).to_table()) == [0, 1, 2, 3, 4]
    newest = await first.latest()
    assert newest.version == 3
    assert column_a(await newest.to_table()) == [7, 8]
    assert await newest.latest() is newest
    by_number = await alance.open_dataset(tmp_path / "set.lance", version=2)
    assert await by_number.count_rows() == 5


async def test_latest_follows_one_and_several_steps(tmp_path: Path) -> None:
    ds = last = await alance.write_dataset(numbers(0, 1), tmp_path / "set.lance")
    for i in range(1, 5):
        last = await last.append(numbers(i, i + 1))
        assert (await ds.latest()).version == last.version == i + 1


async def test_count_rows(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 100), tmp_path / "set.lance", max_rows_per_file=30)
    assert await ds.count_rows() == 100
    assert await ds.count_rows("a >= 90") == 10
    assert await ds.count_rows("s is null") == 20
    assert await ds.count_rows("p.x < 0") == 0


async def test_head(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 10), tmp_path / "set.lance", max_rows_per_file=3)
    assert (await ds.head(4)).equals(numbers(0, 4))
    assert (await ds.head(0)).equals(numbers(0, 0))
    assert (await ds.head(99)).equals(numbers(0, 10))


class TestSession:
    async def test_the_default_one_is_shared_on_a_loop(self, tmp_path: Path) -> None:
        first = await alance.write_dataset(numbers(0, 1), tmp_path / "one.lance")
        second = await alance.write_dataset(numbers(0, 1), tmp_path / "two.lance")
        mine = alance.Session()
        third = await alance.open_dataset(first.uri, session=mine)
        assert first.session is second.session is current_session()
        assert third.session is mine
        assert (await third.append(numbers(0, 1))).session is mine

    def test_the_default_one_dies_with_its_loop(self, tmp_path: Path) -> None:
        found: list[weakref.ref[object]] = []

        async def main() -> None:
            ds = await alance.write_dataset(numbers(0, 9), tmp_path / "set.lance")
            await ds.to_table(filter="a > 3")
            await ds.take([1, 2])
            found.extend(map(weakref.ref, (asyncio.get_running_loop(), current_session())))

        asyncio.run(main())
        handle.outstanding.wait()  # its threads let go of the loop a little later than we do
        gc.collect()
        assert [ref() for ref in found] == [None, None]

    def test_one_of_a_closed_loop_goes_when_another_is_made(self) -> None:
        async def session() -> weakref.ref[alance.Session]:
            return weakref.ref(current_session())

        loop = asyncio.new_event_loop()
        first = loop.run_until_complete(session())
        loop.close()
        asyncio.run(session())
        gc.collect()
        assert first() is None

    def test_each_loop_has_its_own(self) -> None:
        async def session() -> alance.Session:
            return current_session()

        assert asyncio.run(session()) is not asyncio.run(session())

    def test_one_session_serves_loops_one_after_the_other(self, tmp_path: Path) -> None:
        session = alance.Session()

        async def count() -> int:
            ds = await alance.write_dataset(
                numbers(0, 5), tmp_path / "set.lance", mode="append", session=session
            )
            return await ds.count_rows("a >= 0")

        assert [asyncio.run(count()) for _ in range(3)] == [5, 10, 15]

    async def test_counts_what_was_sent(self, tmp_path: Path) -> None:
        session = alance.Session()
        with alance.receipt() as spent:
            ds = await alance.write_dataset(numbers(0, 9), tmp_path / "set.lance", session=session)
            await ds.to_table()
        assert session.stats().requests.requests == spent.requests
        assert spent.requests["put"] == 4, "data file, transaction, manifest, hint"

    async def test_small_limits_read_the_same(self, tmp_path: Path) -> None:
        table = numbers(0, 5000)
        limits = alance.Limits(
            requests_max=1,
            bytes_in_flight_max=1,
            decoders_max=1,
            cache_bytes_max=1,
            request_bytes_max=100,
            merge_gap_bytes_max=1,
        )
        session = alance.Session(limits=limits)
        ds = await alance.write_dataset(
            table, tmp_path / "set.lance", max_rows_per_file=1000, session=session
        )
        assert (await ds.to_table()).equals(table)
        assert (await ds.take([4999, 0])).equals(table.take([4999, 0]))
        assert len(session.files) == 1, "one file stays, however small the cache"
        assert session.budget.held == 0


async def test_a_schema_keeps_its_metadata(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"unit": "m"})], metadata={"k": "v"})
    ds = await alance.write_dataset(pa.table({"a": [1]}, schema=schema), tmp_path / "set.lance")
    assert ds.schema.equals(schema, check_metadata=True)
    assert (await ds.to_table()).schema.equals(schema, check_metadata=True)
