"""Calls that are left, cancelled or cut off by errors: nothing goes on, nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest

import alance
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.testing.stores import CountingStore, FaultyStore
from tests.dataset.helpers import (
    ROOT,
    column_a,
    data_files,
    files,
    nothing_left,
    numbers,
    open_on,
    write_on,
)

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 500)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=10)


class TestScans:
    async def test_a_block_left_early(self, dataset: alance.Dataset) -> None:
        async with nothing_left():
            async with dataset.scan(batch_size=5) as batches:
                async for batch in batches:
                    assert batch.num_rows == 5
                    break
            assert dataset.session.budget.held == 0, "at the end of the block, not later"
            assert [batch async for batch in batches] == [], "it is over"

    async def test_a_loop_left_early(self, dataset: alance.Dataset) -> None:
        async with nothing_left():
            async for batch in dataset.scan(batch_size=5):
                assert batch.num_rows == 5
                break

    async def test_a_loop_left_by_an_error(self, dataset: alance.Dataset) -> None:
        async with nothing_left():
            with pytest.raises(KeyError, match="of the caller"):
                await _fail_while_reading(dataset)

    @pytest.mark.parametrize("enter", [True, False])
    async def test_never_iterated(self, dataset: alance.Dataset, enter: bool) -> None:
        async with nothing_left():
            scan = dataset.scan()
            if enter:
                async with scan:
                    pass
            else:
                aiter(scan)
            gc.collect()

    async def test_no_request_is_sent_after_the_end(self) -> None:
        store, session = CountingStore(SimulatedStore()), alance.Session()
        await write_on(session, store, TABLE, "create")
        for fragment in range(3):
            await write_on(session, store, numbers(fragment, fragment + 9), "append")
        session = alance.Session()
        ds = await open_on(session, store)
        async with nothing_left(session):
            async with ds.scan(batch_size=1) as batches:
                await anext(batches)
            assert store.under_way == 0
            sent = store.count()
        assert store.count() == sent

    @pytest.mark.parametrize("native", [True, False])
    @pytest.mark.parametrize("point", range(8))
    async def test_cancelled_anywhere(self, point: int, native: bool) -> None:
        store, session = SimulatedStore(), alance.Session()
        await write_on(session, store, TABLE, "create", limits=None)
        session = alance.Session()
        ds = await open_on(session, store)
        left = point

        async def hook(request: Request, moment: Moment) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                stop()

        store.hook = hook
        async with nothing_left(session):
            if native:
                task = asyncio.ensure_future(ds.to_table())  # noqa: TID251 - a foreign task
                stop: Callable[[], Any] = task.cancel
                await asyncio.wait({task})
                assert task.cancelled() == (left < 0)
            else:
                with anyio.CancelScope() as scope:
                    stop = scope.cancel
                    await ds.to_table()
                assert scope.cancelled_caught == (left < 0)
        store.hook = None
        assert (await ds.to_table()).equals(TABLE), "the session still works"

    async def test_a_cancelled_step_loses_no_batch(self, dataset: alance.Dataset) -> None:
        found: list[int] = []
        async with dataset.scan(["a"], batch_size=5) as batches:
            for ticks in range(200):
                with anyio.CancelScope() as scope:
                    asyncio.get_running_loop().call_soon(_after, ticks % 9, scope.cancel)
                    batch = await anext(batches, None)
                    if batch is None:
                        break
                    found += batch["a"].to_pylist()
            else:
                found += [row async for batch in batches for row in batch["a"].to_pylist()]
        assert found == list(range(500))

    @pytest.mark.slow
    async def test_a_limit_behind_a_filter_stops_the_rest(self, tmp_path: Path) -> None:
        session = alance.Session()
        ds = await alance.write_dataset(
            TABLE, tmp_path / ROOT, max_rows_per_file=2, session=session
        )
        async with nothing_left(session):
            for limit in range(30):
                found = await ds.to_table(["a"], filter="a % 2 = 1", limit=limit)
                assert column_a(found) == list(range(1, 2 * limit, 2))

    @pytest.mark.parametrize("ordered", [True, False])
    async def test_an_error_in_the_middle(
        self, dataset: alance.Dataset, tmp_path: Path, ordered: bool
    ) -> None:
        path = tmp_path / ROOT / "data" / dataset.fragments[30].files[0].path
        path.write_bytes(bytes(path.stat().st_size))
        session = alance.Session()
        ds = await alance.open_dataset(dataset.uri, session=session)
        async with nothing_left(session):
            with pytest.raises(alance.CorruptFileError):
                await ds.scan(ordered=ordered).to_table()

    async def test_a_task_of_the_library_that_is_cancelled_from_outside(
        self, dataset: alance.Dataset
    ) -> None:
        before = asyncio.all_tasks()
        batches = aiter(dataset.scan(batch_size=5))
        await anext(batches)
        for task in asyncio.all_tasks() - before:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await _drain(batches)

    def test_the_loop_may_end_first(self, tmp_path: Path) -> None:
        kept: list[object] = []

        async def main() -> None:
            ds = await alance.write_dataset(TABLE, tmp_path / ROOT)
            batches = aiter(ds.scan(batch_size=5))
            await anext(batches)
            kept.append(batches)

        asyncio.run(main())
        kept.clear()
        gc.collect()


async def _fail_while_reading(dataset: alance.Dataset) -> None:
    async with dataset.scan() as batches:
        async for _ in batches:
            raise KeyError("of the caller")


async def _drain(batches: AsyncIterator[pa.RecordBatch]) -> None:
    async for _ in batches:
        pass


def _after(ticks: int, call: Callable[[], object]) -> None:
    """Call something some ticks of the loop later."""
    if ticks:
        asyncio.get_running_loop().call_soon(_after, ticks - 1, call)
    else:
        call()


class TestTakes:
    async def test_a_cancelled_one_leaves_nothing(self, dataset: alance.Dataset) -> None:
        async with nothing_left():
            for ticks in range(12):
                with anyio.CancelScope() as scope:
                    asyncio.get_running_loop().call_soon(_after, ticks, scope.cancel)
                    await dataset.take(range(0, 500, 7))
        assert (await dataset.take([499])).equals(TABLE.slice(499))


class Source:
    """Batches until an error or for ever."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.is_closed = False

    def sync(self) -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches(max_chunksize=100)
        if self.error is not None:
            raise self.error

    async def later(self) -> AsyncIterator[pa.RecordBatch]:
        try:
            for batch in self.sync():
                yield batch
        finally:
            self.is_closed = True


class TestWrites:
    @pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
    @pytest.mark.parametrize("kind", ["sync", "later"])
    async def test_a_source_that_raises(self, tmp_path: Path, mode: str, kind: str) -> None:
        if mode != "create":
            await alance.write_dataset(TABLE, tmp_path / ROOT)
        before = files(tmp_path)
        source = Source(OSError("of the source"))
        async with nothing_left():
            with pytest.raises(OSError, match="of the source"):
                await alance.write_dataset(
                    getattr(source, kind)(),
                    tmp_path / ROOT,
                    mode=mode,
                    schema=TABLE.schema,
                    max_rows_per_file=30,
                )
        assert files(tmp_path) == before
        assert source.is_closed == (kind == "later")

    async def test_a_progress_that_raises(self, tmp_path: Path) -> None:
        def progress(now: alance.WriteProgress) -> None:
            if now.num_files == 3:
                raise RuntimeError("of the caller")

        with pytest.raises(RuntimeError, match="of the caller"):
            await alance.write_dataset(
                TABLE, tmp_path / ROOT, max_rows_per_file=30, progress=progress
            )
        assert files(tmp_path) == {}

    @pytest.mark.parametrize("nth", range(5))
    async def test_a_store_that_fails_an_upload(self, nth: int) -> None:
        inner, session = SimulatedStore(), alance.Session()
        await write_on(session, inner, TABLE, "create")
        before = dict(inner.objects)
        num_uploads = 0

        def fail(request: Any) -> None:
            nonlocal num_uploads
            if request.kind == "upload_finish":
                num_uploads += 1
                if num_uploads > nth:
                    raise alance.StoreError("no space")

        for lost_answer in (False, True):
            num_uploads = 0
            store = (
                FaultyStore(inner, after=fail) if lost_answer else FaultyStore(inner, before=fail)
            )
            limits = _limits(max_rows_per_file=100)
            with pytest.raises(alance.StoreError, match="no space"):
                await write_on(session, store, TABLE, "append", limits=limits)
            assert inner.objects == before

    async def test_an_error_stays_the_first_one_when_nothing_can_be_removed(self) -> None:
        inner, session = SimulatedStore(), alance.Session()

        def fail(request: Any) -> None:
            if request.kind in ("delete", "upload_abort") or "upload_finish" in request.kind:
                raise alance.PermissionDeniedError(f"{request.kind} denied")

        store = FaultyStore(inner, before=fail)
        with pytest.raises(alance.PermissionDeniedError, match="upload_finish denied"):
            await write_on(session, store, TABLE, "create")

    async def test_a_refused_commit_removes_the_files(self) -> None:
        inner, session = SimulatedStore(), alance.Session()
        await write_on(session, inner, TABLE, "create")
        before = dict(inner.objects)

        def fail(request: Any) -> None:
            if request.kind == "put_if_absent":
                raise alance.PermissionDeniedError("denied")

        with pytest.raises(alance.PermissionDeniedError):
            await write_on(session, FaultyStore(inner, before=fail), TABLE, "append")
        assert inner.objects == before

    async def test_a_commit_of_unknown_outcome_keeps_the_files(self) -> None:
        inner, session = SimulatedStore(), alance.Session()
        await write_on(session, inner, TABLE, "create")
        ds = await open_on(session, inner)
        before = set(inner.objects)

        is_sent = False

        def fail(request: Any) -> None:
            nonlocal is_sent
            is_sent = is_sent or request.kind == "put_if_absent"
            if is_sent and "_versions" in request.path:
                raise alance.StoreTimeoutError("no answer")

        store = FaultyStore(inner, after=fail)
        base = ds._manifest
        with pytest.raises(alance.CommitStateUnknownError) as caught:
            await write_on(session, store, numbers(500, 510), "append", base=base)
        assert caught.value.uuid is not None
        assert {path.split("/")[1] for path in set(inner.objects) - before} >= {"data"}
        # It had landed, so the rows are there; without its files the dataset would be broken.
        assert (await (await ds.latest()).to_table()).equals(numbers(0, 510))

    @pytest.mark.parametrize("native", [True, False])
    @pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
    async def test_cancelled_anywhere(self, mode: str, native: bool) -> None:
        """Either the version is there with its files, or nothing is."""
        landed = set()
        for point in range(100):
            store, session = SimulatedStore(), alance.Session()
            if mode != "create":
                await write_on(session, store, numbers(0, 3), "create")
            before = dict(store.objects)
            left = point

            async def hook(request: Request, moment: Moment) -> None:
                nonlocal left
                left -= 1
                if left == -1:
                    stop()  # noqa: B023

            store.hook = hook
            work = write_on(session, store, TABLE, mode, limits=_limits(max_rows_per_file=200))
            async with nothing_left(session):
                if native:
                    task = asyncio.ensure_future(work)  # noqa: TID251 - a foreign task
                    stop: Callable[[], Any] = task.cancel
                    await asyncio.wait({task})
                else:
                    with anyio.CancelScope() as scope:
                        stop = scope.cancel
                        await work
            store.hook = None
            is_new = any("_versions" in path for path in store.objects.keys() - before.keys())
            landed.add(is_new)
            if is_new:
                found = await (await open_on(alance.Session(), store)).to_table()
                expected = numbers(0, 3) if mode == "append" else TABLE.slice(0, 0)
                assert found.equals(pa.concat_tables([expected, TABLE]))
            else:
                assert store.objects == before, f"cancelled at point {point}"
            if left >= 0:
                break
        assert left >= 0, "the last run was not cancelled at all"
        assert landed == {True, False}

    async def test_a_deadline(self, tmp_path: Path) -> None:
        async def endless() -> AsyncIterator[pa.RecordBatch]:
            while True:
                for batch in TABLE.to_batches():
                    yield batch
                await anyio.lowlevel.checkpoint()
                if len(data_files(tmp_path / ROOT)) > 3:
                    scope.cancel()

        async with nothing_left():
            with anyio.CancelScope() as scope:
                await alance.write_dataset(
                    endless(), tmp_path / ROOT, schema=TABLE.schema, max_rows_per_file=50
                )
        assert scope.cancelled_caught
        assert files(tmp_path) == {}


def _limits(**limits: int) -> Any:
    from alance.dataset.writing import WriteLimits

    return WriteLimits(**limits)
