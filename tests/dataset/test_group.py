"""Appends in two rounds, and appends through one session that meet: one version for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import lance
import pyarrow as pa
import pytest

import alance
from alance.io.simulated import Moment, SimulatedStore
from alance.io.simulated import Request as SimulatedRequest
from alance.testing.s3 import S3Server
from alance.testing.stores import CountingStore, Request, WrapperStore
from tests.dataset.helpers import (
    ROOT,
    column_a,
    nothing_left,
    numbers,
    open_on,
    write_on,
)

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class HeldStore(WrapperStore):
    """Holds the first manifest back until it is let go, so that others gather behind it."""

    def __init__(self, inner: CountingStore) -> None:
        super().__init__(inner)
        self.is_on_its_way = anyio.Event()
        self.may_go = anyio.Event()
        self.error: Exception | None = None

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        if request.kind == "put_if_absent" and "_versions" in request.path:
            self.is_on_its_way.set()
            await self.may_go.wait()
            if self.error is not None:
                raise self.error
        return await send()


class Appends:
    """Appends through one session: the first is held at its manifest, the others gather."""

    def __init__(self) -> None:
        self.objects = SimulatedStore()
        self.counting = CountingStore(self.objects)
        self.store = HeldStore(self.counting)
        self.session = alance.Session()
        self.outcomes: dict[int, alance.Dataset | BaseException] = {}

    async def prepare(self) -> None:
        await write_on(alance.Session(), self.objects, numbers(0, 10), "create")
        self.dataset = await open_on(self.session, self.store)
        self.counting.requests.clear()

    async def append(self, i: int, **more: Any) -> None:
        """Append rows [10 i, 10 i + 10)."""
        try:
            self.outcomes[i] = await self.dataset.append(numbers(10 * i, 10 * i + 10), **more)
        except BaseException as exc:
            self.outcomes[i] = exc
            if not isinstance(exc, alance.AlanceError):
                raise

    async def gathered(self, num_files: int) -> None:
        """Wait until so many data files are there and whoever wrote them can do no more.

        Threads encode them, so tasks that are blocked may not have got as far.
        """
        stored = anyio.Event()

        async def note(request: SimulatedRequest, moment: Moment) -> None:
            if self.count_data_files() >= num_files:
                stored.set()

        self.objects.hook = note
        if self.count_data_files() < num_files:
            await stored.wait()
        self.objects.hook = None
        await anyio.wait_all_tasks_blocked()

    def versions(self) -> dict[int, int]:
        found = {}
        for i, outcome in self.outcomes.items():
            assert isinstance(outcome, alance.Dataset), outcome
            found[i] = outcome.version
        return found

    async def rows(self) -> list[int]:
        newest = await open_on(alance.Session(), self.objects)
        return sorted(column_a(await newest.to_table()))

    def count_data_files(self) -> int:
        return sum("/data/" in path for path in self.objects.objects)


@pytest.fixture
async def appends() -> Appends:
    found = Appends()
    await found.prepare()
    return found


async def test_a_warm_append_takes_two_rounds(s3_server: S3Server) -> None:
    options = s3_server.storage_options
    first = "s3://bucket/first.lance"
    await alance.write_dataset(numbers(0, 5), first, storage_options=options)
    with alance.receipt() as created:
        ds = await alance.write_dataset(
            numbers(0, 5), "s3://bucket/warm.lance", storage_options=options
        )
    assert (created.requests, created.rounds) == ({"list": 1, "put": 3}, 3)
    for start in (5, 6, 7):
        with alance.receipt() as spent:
            ds = await ds.append(numbers(start, start + 1))
        assert spent.requests == {"list": 1, "put": 3}
        assert spent.rounds == 2
    with alance.receipt() as spent:
        ds = await ds.overwrite(numbers(0, 2))
    assert (spent.requests, spent.rounds) == ({"list": 1, "put": 3}, 2)
    with alance.receipt() as spent:
        await alance.write_dataset(numbers(2, 3), ds.uri, mode="append", storage_options=options)
    assert (spent.requests, spent.rounds) == ({"list": 1, "get": 1, "put": 3}, 4)
    assert lance.dataset(ds.uri, storage_options=options).to_table()["a"].to_pylist() == [0, 1, 2]


async def test_an_append_behind_a_newer_version(s3_server: S3Server) -> None:
    options = s3_server.storage_options
    uri = "s3://bucket/behind.lance"
    ds = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    await ds.append(numbers(5, 6))
    with alance.receipt() as spent:
        newest = await ds.append(numbers(6, 7))
    assert newest.version == 3
    assert spent.requests == {"list": 1, "get": 1, "put": 3}
    assert spent.rounds == 3, "the version in between is read before the manifest is made"


async def test_many_gather_behind_the_first(appends: Appends) -> None:
    async with nothing_left(appends.session), anyio.create_task_group() as tg:
        tg.start_soon(appends.append, 1)
        await appends.store.is_on_its_way.wait()
        for i in range(2, 33):
            tg.start_soon(appends.append, i)
        await appends.gathered(33)
        appends.store.may_go.set()
    assert appends.versions() == {1: 2, **dict.fromkeys(range(2, 33), 3)}
    assert await appends.rows() == list(range(330))
    names = [r.path.split("/")[1] for r in appends.counting.requests if r.kind.startswith("put")]
    assert names.count("_versions") == 2
    assert names.count("_transactions") == 2
    assert appends.counting.count("list") == 1, "the first looked, the rest follow it"


async def test_each_caller_gets_the_version_with_its_rows(appends: Appends) -> None:
    async with anyio.create_task_group() as tg:
        for i in range(1, 20):
            tg.start_soon(appends.append, i)
        await appends.gathered(20)
        appends.store.may_go.set()
    newest = max(appends.versions().values())
    assert newest < 20, "some shared a version"
    for i, outcome in appends.outcomes.items():
        assert isinstance(outcome, alance.Dataset)
        assert set(column_a(await outcome.to_table())) >= set(range(10 * i, 10 * i + 10))
    assert await appends.rows() == list(range(200))


async def test_handles_of_the_versions_made_meanwhile_share_too(appends: Appends) -> None:
    appends.store.may_go.set()

    async def chain(first: int) -> None:
        ds = appends.dataset
        for i in range(first, first + 4):
            ds = await ds.append(numbers(10 * i, 10 * i + 10))
            assert set(column_a(await ds.to_table())) >= set(range(10 * i, 10 * i + 10))

    async with anyio.create_task_group() as tg:
        for first in range(1, 33, 4):
            tg.start_soon(chain, first)
    assert await appends.rows() == list(range(330))


async def test_properties_are_not_mixed(appends: Appends) -> None:
    async with anyio.create_task_group() as tg:
        tg.start_soon(appends.append, 1)
        await appends.store.is_on_its_way.wait()
        for i in range(2, 6):
            properties = {"who": "a" if i % 2 else "b"}
            tg.start_soon(partial(appends.append, i, transaction_properties=properties))
        await appends.gathered(6)
        appends.store.may_go.set()
    versions = appends.versions()
    assert versions[2] == versions[4]
    assert versions[3] == versions[5]
    assert sorted(set(versions.values())) == [2, 3, 4]


async def test_receipts_count_what_was_shared(appends: Appends) -> None:
    receipts: dict[int, alance.Receipt] = {}

    async def append(i: int) -> None:
        with alance.receipt() as receipts[i]:
            await appends.append(i)

    with alance.receipt() as outer:
        async with anyio.create_task_group() as tg:
            tg.start_soon(append, 1)
            await appends.store.is_on_its_way.wait()
            for i in range(2, 5):
                tg.start_soon(append, i)
            await appends.gathered(5)
            appends.store.may_go.set()
    for i in range(2, 5):
        assert receipts[i].requests == {"put": 3}
        assert receipts[i].rounds == 2
    assert appends.session.stats().requests.requests["put"] == 4 + 4
    assert outer.requests["put"] == 4 + 4, "once, however many calls in the block share it"


class TestWhatGoesWrong:
    async def test_bad_data_hurts_nobody_else(self, appends: Appends) -> None:
        async def bad() -> None:
            with pytest.raises(alance.SchemaMismatchError):
                await appends.dataset.append(pa.table({"a": ["text"]}))

        async def broken() -> None:
            def batches() -> Any:
                yield numbers(0, 3).to_batches()[0]
                raise OSError("of the source")

            with pytest.raises(OSError, match="of the source"):
                await appends.dataset.append(batches(), schema=numbers(0, 1).schema)

        async with anyio.create_task_group() as tg:
            tg.start_soon(appends.append, 1)
            await appends.store.is_on_its_way.wait()
            for work in (bad, broken):
                tg.start_soon(work)
            tg.start_soon(appends.append, 2)
            await appends.gathered(3)
            appends.store.may_go.set()
        assert appends.versions() == {1: 2, 2: 3}
        assert appends.count_data_files() == 3

    @pytest.mark.parametrize("native", [True, False])
    async def test_one_that_is_cancelled_while_it_waits(
        self, appends: Appends, native: bool
    ) -> None:
        async with nothing_left(appends.session), anyio.create_task_group() as tg:
            tg.start_soon(appends.append, 1)
            await appends.store.is_on_its_way.wait()
            stops = [await tg.start(_stoppable, appends, i, native) for i in range(2, 6)]
            await appends.gathered(6)
            stops[1]()
            await anyio.wait_all_tasks_blocked()
            appends.store.may_go.set()
        assert isinstance(appends.outcomes.pop(3), asyncio.CancelledError)
        assert appends.versions() == {1: 2, 2: 3, 4: 3, 5: 3}
        assert await appends.rows() == [*range(30), *range(40, 60)]
        assert appends.count_data_files() == 5, "the file of the cancelled one was removed"

    @pytest.mark.parametrize("native", [True, False])
    async def test_one_that_is_cancelled_under_way(self, appends: Appends, native: bool) -> None:
        """Its rows land with those of the others, as their commit is not cancelled."""
        appends.store.may_go.set()
        await appends.append(1)
        appends.store.may_go = anyio.Event()
        appends.store.is_on_its_way = anyio.Event()
        async with nothing_left(appends.session), anyio.create_task_group() as tg:
            stops = [await tg.start(_stoppable, appends, i, native) for i in range(2, 5)]
            await appends.store.is_on_its_way.wait()
            await appends.gathered(5)
            stops[0]()
            await anyio.wait_all_tasks_blocked()
            assert 2 not in appends.outcomes, "its outcome is not known yet"
            appends.store.may_go.set()
        assert isinstance(appends.outcomes.pop(2), asyncio.CancelledError)
        assert await appends.rows() == list(range(50))
        assert set(appends.versions().values()) <= {2, 3, 4}

    async def test_a_conflict_is_told_to_each(self, appends: Appends) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(appends.append, 1)
            await appends.store.is_on_its_way.wait()
            await write_on(alance.Session(), appends.objects, numbers(0, 1), "overwrite")
            for i in range(2, 5):
                tg.start_soon(appends.append, i)
            await appends.gathered(6)
            appends.store.may_go.set()
        errors = list(appends.outcomes.values())
        assert all(isinstance(error, alance.CommitConflictError) for error in errors)
        assert len({id(error) for error in errors}) == 4, "each has an exception of its own"
        errors[0].add_note("of one caller")  # type: ignore[union-attr]
        assert not any("of one caller" in getattr(e, "__notes__", ()) for e in errors[1:])
        assert await appends.rows() == [0]
        assert appends.count_data_files() == 2, "what the versions have, and nothing else"
        assert sum("_transactions" in path for path in appends.objects.objects) == 2

    async def test_an_unknown_outcome_keeps_the_files(self, appends: Appends) -> None:
        appends.store.error = alance.StoreTimeoutError("no answer")
        appends.session = alance.Session(limits=alance.Limits(commit_attempts_max=1))
        appends.dataset = await open_on(appends.session, appends.store)
        async with anyio.create_task_group() as tg:
            tg.start_soon(appends.append, 1)
            await appends.store.is_on_its_way.wait()
            for i in range(2, 4):
                tg.start_soon(appends.append, i)
            await appends.gathered(4)
            appends.store.may_go.set()
        errors = appends.outcomes.values()
        assert all(isinstance(error, alance.CommitStateUnknownError) for error in errors)
        assert appends.count_data_files() == 4

    @pytest.mark.parametrize("native", [True, False])
    async def test_all_cancelled_cancel_the_commit(self, appends: Appends, native: bool) -> None:
        """Cancelled before the manifest is sent: nothing of it stays."""
        before = dict(appends.objects.objects)
        async with nothing_left(appends.session), anyio.create_task_group() as tg:
            stops = [await tg.start(_stoppable, appends, i, native) for i in range(1, 4)]
            for stop in stops:
                stop()
        assert appends.objects.objects == before


async def _stoppable(
    appends: Appends, i: int, native: bool, *, task_status: anyio.abc.TaskStatus[Any]
) -> None:
    """Run an append that can be cancelled, in either way, without its task group."""
    if native:
        task = asyncio.ensure_future(appends.append(i))  # noqa: TID251 - a foreign task
        task_status.started(task.cancel)
        await asyncio.wait({task})
        return
    with anyio.CancelScope() as scope:
        task_status.started(scope.cancel)
        await appends.append(i)


async def test_one_session_appends_on_loops_one_after_the_other() -> None:
    session, store = alance.Session(), SimulatedStore()

    def run(start: int) -> None:
        asyncio.run(write_on(session, store, numbers(start, start + 5), "append"))

    for start in (0, 5, 10):
        await anyio.to_thread.run_sync(run, start)
    ds = await open_on(alance.Session(), store)
    assert column_a(await ds.to_table()) == list(range(15))
    assert ROOT in next(iter(store.objects))
