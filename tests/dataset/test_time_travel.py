"""Opening the version that was the newest at some time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import lance
import pytest

import alance
from alance.io.store import ObjectStore
from alance.table.handler import ConditionalPut
from alance.table.location import StoredVersion, TableLocation
from alance.table.naming import manifest_path
from alance.table.travel import read_manifest_at
from alance.table.versions import read_manifest
from alance.table.wire import build_manifest
from alance.testing.stores import CountingStore
from tests.dataset.helpers import ROOT, numbers, write_on

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


async def history(num_versions: int) -> TableLocation:
    """A table of which version n was committed on day n."""
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")
    table = TableLocation(CountingStore(memory), ROOT, ConditionalPut())
    first = await read_manifest(table)
    for version in range(1, num_versions + 1):
        time_ns = int((START + version * DAY).timestamp()) * 10**9
        manifest = replace(first, version=version, timestamp_ns=time_ns)
        path = manifest_path(ROOT, version, manifest.naming)
        await memory.put(path, build_manifest(manifest))
    return table


def requests(store: ObjectStore) -> list[str]:
    assert isinstance(store, CountingStore)
    return [one.kind for one in store.requests]


@pytest.mark.parametrize("num_versions", [1, 2, 5, 6, 23])
async def test_every_time_has_its_version(num_versions: int) -> None:
    table = await history(num_versions)
    for day in range(1, num_versions + 2):
        for hours in (0, 23):
            time = START + day * DAY + timedelta(hours=hours)
            found = await read_manifest_at(table, time.astimezone(timezone(timedelta(hours=-7))))
            assert found.version == min(day, num_versions)
    with pytest.raises(alance.VersionNotFoundError, match="has no version from 2026-01-01 23:59"):
        await read_manifest_at(table, START + DAY - timedelta(minutes=1))


async def test_few_requests() -> None:
    table = await history(200)
    assert isinstance(table.store, CountingStore)
    table.store.requests.clear()
    assert (await read_manifest_at(table, START + 77 * DAY)).version == 77
    sent = requests(table.store)
    assert sent[0] == "list"
    assert set(sent[1:]) == {"get_tail"}
    assert len(sent) <= 1 + 4 * 4


@pytest.mark.parametrize("gone", [{3}, {1, 2}, {5, 6, 7}, {1, 2, 3, 4, 5, 6, 7, 8}])
async def test_versions_that_go_meanwhile(gone: set[int]) -> None:
    table = await history(9)
    listed = await ConditionalPut().versions(table.store, ROOT)

    class Stale(ConditionalPut):
        async def versions(self, store: ObjectStore, root: str) -> Sequence[StoredVersion]:
            return listed

    for version in gone:
        await table.store.delete(manifest_path(ROOT, version, listed[0].naming))
    stale = replace(table, handler=Stale())
    for day in range(1, 10):
        left = [version for version in range(1, day + 1) if version not in gone]
        if left:
            assert (await read_manifest_at(stale, START + day * DAY)).version == left[-1]
        else:
            with pytest.raises(alance.VersionNotFoundError):
                await read_manifest_at(stale, START + day * DAY)


async def test_through_the_dataset(tmp_path_factory: pytest.TempPathFactory) -> None:
    uri = tmp_path_factory.mktemp("x") / ROOT
    ds = await alance.write_dataset(numbers(0, 3), uri)
    lance.write_dataset(numbers(3, 6), uri, mode="append")
    ds = await (await ds.latest()).append(numbers(6, 9))
    times = [one["timestamp"] for one in await ds.versions()]
    assert times == sorted(times)
    for version, time in enumerate(times, 1):
        assert (await ds.checkout(time)).version == version
        assert (await alance.open_dataset(uri, version=time)).version == version
    assert (await ds.checkout(datetime.now(UTC))).version == 3
    branch = await ds.branches.create("x", 1)
    assert (await branch.checkout(datetime.now(UTC))).uri == branch.uri
    with pytest.raises(alance.VersionNotFoundError, match="older ones may have been cleaned up"):
        await ds.checkout(times[0] - timedelta(seconds=1))
    with pytest.raises(alance.InvalidInputError, match="has no time zone"):
        await ds.checkout(datetime(2026, 1, 1))
