"""Takes that are asked for at the same time: read as one, each as if it were by itself."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.dataset.writing import WriteLimits
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.receipts import Receipt
from alance.testing.stores import CountingStore
from tests.dataset.helpers import nothing_left, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

NUM_ROWS = 20_000
ROWS_PER_FILE = 5_000


def noise() -> pa.Table:
    """Values that nothing compresses, so that rows lie in many chunks; and their texts."""
    values = np.random.default_rng(7).integers(0, 1 << 62, (2, NUM_ROWS))
    return pa.table({
        "a": values[0],
        "b": pa.array(values[1], mask=values[1] % 5 == 0),
        "s": pa.array([f"{value:x}" for value in values[0].tolist()]),
    })


TABLE = noise()


class Shelf:
    """A dataset in a store that counts, and waits or fails when told to."""

    def __init__(self) -> None:
        self.objects = SimulatedStore()
        self.store = CountingStore(self.objects)

    async def write(self, table: pa.Table = TABLE) -> None:
        limits = WriteLimits(max_rows_per_file=ROWS_PER_FILE)
        await write_on(alance.Session(), self.objects, table, "create", limits=limits)

    async def open(self, **limits: Any) -> alance.Dataset:
        found = await open_on(alance.Session(limits=alance.Limits(**limits)), self.store)
        self.store.requests.clear()
        return found


class Held:
    """Holds reads back until they may go: all, or those of the objects whose path has an ending."""

    def __init__(self, store: SimulatedStore, ending: str = "") -> None:
        self.begun = anyio.Event()
        self.may_go = anyio.Event()
        self._ending = ending
        store.hook = self.hook

    async def hook(self, request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE and request.path.endswith(self._ending):
            self.begun.set()
            await self.may_go.wait()


@pytest.fixture
async def shelf() -> Shelf:
    found = Shelf()
    await found.write()
    return found


async def together(calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Results of calls that are made at the same time; an error stands for itself."""
    found: list[Any] = [None] * len(calls)

    async def run(number: int) -> None:
        try:
            found[number] = await calls[number]()
        except alance.AlanceError as exc:
            found[number] = exc

    async with anyio.create_task_group() as tg:
        for number in range(len(calls)):
            tg.start_soon(run, number)
    return found


def picks(count: int) -> list[int]:
    return [int(row) for row in np.random.default_rng(3).integers(0, NUM_ROWS, count)]


@pytest.mark.parametrize("columns", [["a"], ["s", "a"], None], ids=str)
async def test_a_thousand_send_the_requests_of_one(shelf: Shelf, columns: list[str] | None) -> None:
    rows = picks(1000)
    alone = await shelf.open()
    with alance.receipt() as one:
        expected = await alone.take(rows, columns)
    ds = await shelf.open()
    async with nothing_left(ds.session):
        with alance.receipt() as all_of_them:
            found = await together([partial(ds.take, [row], columns) for row in rows])
    assert pa.concat_tables(found).equals(expected)
    assert (all_of_them.requests, all_of_them.rounds) == (one.requests, one.rounds)
    assert all_of_them.bytes_fetched == one.bytes_fetched
    assert all_of_them.bytes_used == one.bytes_used
    assert ds.session.stats().requests.requests["get"] == all_of_them.requests["get"] + 1


async def test_each_gets_the_rows_it_asked_for(shelf: Shelf) -> None:
    ds = await shelf.open()
    asked: list[Any] = [
        [],
        [5],
        [5, 5, 4],
        range(4_990, 5_010),
        [19_999, 0],
        np.array([3, 7], np.uint16),
        list(range(3_000, 4_000)),
        picks(50),
    ]
    found = await together([partial(ds.take, rows) for rows in asked])
    for rows, table in zip(asked, found, strict=True):
        assert table.equals(TABLE.take(pa.array(np.array(rows, np.int64)))), rows
        assert table.schema == TABLE.schema
        table.validate(full=True)


async def test_columns_are_read_apart(shelf: Shelf) -> None:
    ds = await shelf.open()
    columns: list[Any] = [None, ["a"], ["b"], [], {"twice": "a / 2"}, ["a"], ["_rowid", "s"]]
    found = await together([partial(ds.take, [17, 4], each) for each in columns])
    for each, table in zip(columns, found, strict=True):
        assert table.equals(await ds.take([17, 4], each)), each
        assert table.num_rows == 2


async def test_rows_by_id_where_some_are_deleted(tmp_path: Path) -> None:
    table = numbers(0, 300)
    for stable in (False, True):
        ds = await alance.write_dataset(
            table,
            tmp_path / f"{stable}.lance",
            max_rows_per_file=100,
            enable_stable_row_ids=stable,
        )
        ids = (await ds.to_table(["_rowid"]))["_rowid"].to_pylist()
        ds = await ds.delete("a % 3 = 0")
        theirs = lance.dataset(ds.uri)
        asked = [[ids[0]], [ids[7]], [ids[8], ids[9], ids[250]], [1 << 45], [ids[3], ids[6]], []]
        asked += [[number] for number in ids[10:150]]
        found = await together([partial(ds.take_rows, each, ["a"]) for each in asked])
        for each, got in zip(asked, found, strict=True):
            wanted = [ids.index(one) for one in each if one in ids and ids.index(one) % 3]
            assert got["a"].to_pylist() == wanted, each
        places = [partial(ds.take, [i], ["a"]) for i in range(200)]
        got = pa.concat_tables(await together(places))
        assert got["a"].to_pylist() == theirs.take(list(range(200)), ["a"])["a"].to_pylist()


async def test_positions_and_addresses_are_read_apart(shelf: Shelf) -> None:
    ds = await shelf.open()
    by_place, by_id = partial(ds.take, [5_000], ["a"]), partial(ds.take_rows, [1 << 32], ["a"])
    for table in await together([by_place, by_id, by_place]):
        assert table.equals(TABLE.slice(5_000, 1).select(["a"]))


async def test_many_results_are_made_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = await alance.write_dataset(numbers(0, 100), tmp_path / "set.lance")
    run_in_thread, calls = ds.session.run_in_thread, 0

    async def spy(work: Callable[[], Any]) -> Any:
        nonlocal calls
        calls += 1
        return await run_in_thread(work)

    monkeypatch.setattr(ds.session, "run_in_thread", spy)
    await together([partial(ds.take, [row], ["a"]) for row in range(3)])
    assert calls == 0
    await together([partial(ds.take, [row], ["a"]) for row in range(100)])
    assert calls == 1


async def test_results_go_with_their_last_user(shelf: Shelf) -> None:
    ds = await shelf.open()
    gc.disable()
    try:
        found = await together([partial(ds.take, [row]) for row in range(5)])
        alive = [weakref.ref(table) for table in found]
        del found
        assert [each() for each in alive] == [None] * 5, "they wait for the collector"
    finally:
        gc.enable()


async def test_one_by_itself_runs_in_its_own_task(shelf: Shelf) -> None:
    ds = await shelf.open()
    before = asyncio.all_tasks()
    started: list[int] = []

    async def hook(request: Request, moment: Moment) -> None:
        started.append(len(asyncio.all_tasks() - before))

    shelf.objects.hook = hook
    assert (await ds.take([3])).equals(TABLE.slice(3, 1))
    assert set(started) == {1}, "the request, and nothing else"


class TestReceipts:
    async def test_of_each_caller(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        spent: dict[int, Receipt] = {}

        async def take(row: int, count: int) -> None:
            with alance.receipt() as spent[row]:
                await ds.take(range(row, row + count), ["a"])

        with alance.receipt() as outer:
            await together([partial(take, 10, 1), partial(take, 2_000, 3)])
        assert outer.requests["get"] == shelf.store.count()
        for one in spent.values():
            assert (one.requests, one.rounds) == (outer.requests, outer.rounds)
            assert one.bytes_fetched == outer.bytes_fetched
            assert one.wait_s > 0
        assert spent[10].bytes_used == outer.bytes_used // 4
        assert spent[2_000].bytes_used == outer.bytes_used * 3 // 4

    async def test_come_after_what_each_has_waited_for(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        early, late = anyio.Event(), anyio.Event()
        rounds: dict[str, int] = {}

        async def take(name: str, first: Sequence[int], mine: anyio.Event) -> None:
            with alance.receipt() as spent:
                for row in first:
                    await ds.take([row], ["a"])
                mine.set()
                await early.wait()
                await late.wait()
                await ds.take([len(name)], ["a"])
                rounds[name] = spent.rounds
                await ds.take([5_500], ["a"])
                rounds[name + " later"] = spent.rounds

        async with anyio.create_task_group() as tg:
            tg.start_soon(take, "early", [], early)
            await early.wait()
            tg.start_soon(take, "late", [1, 7_000], late)
        assert rounds == {"early": 1, "early later": 2, "late": 5, "late later": 6}

    async def test_a_request_comes_after_what_any_caller_has_waited_for(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        # While a call is under way, only what a task has waited for itself comes before its next.
        held = Held(shelf.objects, ds.fragments[3].files[0].path)
        now = anyio.Event()
        rounds: list[int] = []

        async def go_on(spent: Receipt) -> None:
            await ds.take([1], ["a"])
            rounds.append(spent.rounds)
            now.set()
            await anyio.lowlevel.checkpoint()
            for row in (2, 3):
                await ds.take([row], ["a"])
                rounds.append(spent.rounds)
            held.may_go.set()

        async def take_with_the_second() -> None:
            await now.wait()
            await ds.take([4], ["a"])

        with alance.receipt() as spent:
            async with anyio.create_task_group() as tg:
                tg.start_soon(ds.take, [19_999])
                await held.begun.wait()
                tg.start_soon(take_with_the_second)
                tg.start_soon(go_on, spent)
        assert rounds == [2, 3, 4]

    async def test_of_one_who_has_left(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        spent: list[Receipt] = []
        held = Held(shelf.objects)

        async def leave(scope: anyio.CancelScope) -> None:
            with scope, alance.receipt() as mine:
                spent.append(mine)
                await ds.take([1], ["a"])

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as tg:
            tg.start_soon(leave, scope)
            tg.start_soon(leave, anyio.CancelScope())
            await held.begun.wait()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            held.may_go.set()
        left, stayed = spent
        assert left.num_requests < stayed.num_requests == shelf.store.count()
        assert (left.rounds, stayed.rounds) == (1, 2)
        assert left.bytes_used == 0 < stayed.bytes_used


class TestCancelled:
    @pytest.mark.parametrize("native", [True, False])
    async def test_one_of_many(self, shelf: Shelf, native: bool) -> None:
        ds = await shelf.open()
        held, found = Held(shelf.objects), []
        scope = anyio.CancelScope()

        async def take(row: int) -> None:
            with scope if row == 3 else anyio.CancelScope():
                found.append(await ds.take([row]))

        async with nothing_left(ds.session):
            tasks = [asyncio.ensure_future(take(row)) for row in range(5)]  # noqa: TID251
            await held.begun.wait()
            if native:
                tasks[3].cancel()
            else:
                scope.cancel()
            await anyio.wait_all_tasks_blocked()
            assert tasks[3].done()
            held.may_go.set()
            await asyncio.wait(tasks)
        assert [table["a"][0].as_py() for table in found] == [
            TABLE["a"][row].as_py() for row in (0, 1, 2, 4)
        ]

    @pytest.mark.parametrize("native", [True, False])
    @pytest.mark.parametrize("point", range(10))
    async def test_all_at_any_point(self, shelf: Shelf, point: int, native: bool) -> None:
        ds = await shelf.open()
        scope, left = anyio.CancelScope(), point

        async def hook(request: Request, moment: Moment) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                task.cancel() if native else scope.cancel()

        async def take_all() -> None:
            with scope:
                await together([partial(ds.take, [row]) for row in (1, 2, 6_000, 19_000)])

        shelf.objects.hook = hook
        async with nothing_left(ds.session):
            task = asyncio.ensure_future(take_all())  # noqa: TID251 - a foreign task
            await asyncio.wait({task})
            assert (task.cancelled() or scope.cancelled_caught) == (left < 0)
            assert ds.session.budget.held == 0, "at the end of the call, not later"
        assert shelf.store.under_way == 0
        shelf.objects.hook = None
        assert (await ds.take([1])).equals(TABLE.slice(1, 1)), "the session still works"

    async def test_all_while_the_store_does_not_answer(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        held = Held(shelf.objects)
        async with nothing_left(ds.session), anyio.create_task_group() as tg:
            for row in range(10):
                tg.start_soon(ds.take, [row])
            await held.begun.wait()
            tg.cancel_scope.cancel()
        assert shelf.store.under_way == 0

    async def test_by_itself_before_anything_was_read(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        problems: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: problems.append(context))
        async with nothing_left(ds.session), anyio.create_task_group() as tg:
            tg.start_soon(ds.take, [1])
            loop.call_soon(tg.cancel_scope.cancel)
        assert shelf.store.count() == len(problems) == 0

    async def test_before_anything_was_read(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        async with nothing_left(ds.session):
            async with anyio.create_task_group() as tg:
                tg.start_soon(ds.take, [1])
                tg.start_soon(ds.take, [2])
                asyncio.get_running_loop().call_soon(tg.cancel_scope.cancel)
            assert (await ds.take([3])).equals(TABLE.slice(3, 1))
        assert shelf.store.most_under_way == 1

    def test_a_loop_that_is_closed_in_between(self, tmp_path: Path) -> None:
        session = alance.Session()
        ds = asyncio.run(alance.write_dataset(TABLE, tmp_path / "set.lance", session=session))
        left = ds.take([1])
        loop = asyncio.new_event_loop()
        loop.call_soon(left.send, None)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        found = asyncio.run(together([partial(ds.take, [row]) for row in (1, 2)]))
        assert pa.concat_tables(found).equals(TABLE.slice(1, 2))
        left.close()


class TestErrors:
    async def test_what_is_no_position_concerns_its_caller(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        good, bad, other = await together([
            partial(ds.take, [1]),
            partial(ds.take, [NUM_ROWS]),
            partial(ds.take, [2]),
        ])
        assert isinstance(bad, alance.InvalidInputError)
        assert good.equals(TABLE.slice(1, 1))
        assert other.equals(TABLE.slice(2, 1))

    async def test_of_the_store_reach_all(self, shelf: Shelf) -> None:
        ds = await shelf.open()

        async def hook(request: Request, moment: Moment) -> None:
            raise alance.PermissionDeniedError("not today", path=request.path)

        shelf.objects.hook = hook
        async with nothing_left(ds.session):
            found = await together([partial(ds.take, [row]) for row in range(20)])
        assert {type(error) for error in found} == {alance.PermissionDeniedError}
        assert len({id(error) for error in found}) == 20
        shelf.objects.hook = None
        assert (await ds.take([1])).equals(TABLE.slice(1, 1))

    async def test_damage_concerns_those_whose_rows_it_holds(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        broken = "set.lance/data/" + ds.fragments[2].files[0].path
        shelf.objects.objects[broken] = bytes(len(shelf.objects.objects[broken]))
        rows = [1, 10_001, 3, 19_000, 14_999]
        async with nothing_left(ds.session):
            found = await together([partial(ds.take, [row]) for row in rows])
        for row, table in zip(rows, found, strict=True):
            if 10_000 <= row < 15_000:
                assert isinstance(table, alance.CorruptFileError)
            else:
                assert table.equals(TABLE.slice(row, 1))

    async def test_a_blob_that_is_gone_concerns_its_caller(self, tmp_path: Path) -> None:
        for name in ("kept", "gone"):
            (tmp_path / name).write_bytes(name.encode())
        uris = [(tmp_path / name).as_uri() for name in ("kept", "gone")]
        table = pa.table([lance.blob_array(uris)], schema=pa.schema([lance.blob_field("b")]))
        place = tmp_path / "set.lance"
        ds = await alance.write_dataset(table, place, data_storage_version="2.2")
        (tmp_path / "gone").unlink()
        kept, gone = await together([partial(ds.take, [0]), partial(ds.take, [1])])
        assert kept["b"].to_pylist() == [b"kept"]
        assert isinstance(gone, alance.ObjectNotFoundError)


class TestBounds:
    async def most_held(self, shelf: Shelf, **limits: Any) -> int:
        """Bytes of the budget that a hundred takes at once hold at most."""
        ds = await shelf.open(**limits)
        most = 0

        async def hook(request: Request, moment: Moment) -> None:
            nonlocal most
            most = max(most, ds.session.budget.held)

        shelf.objects.hook = hook
        rows = picks(100)
        async with nothing_left(ds.session):
            found = await together([partial(ds.take, [row]) for row in rows])
        assert pa.concat_tables(found).equals(TABLE.take(rows))
        return most

    @pytest.mark.parametrize("total", [1, 100_000, 1_000_000])
    async def test_a_small_budget_holds(self, shelf: Shelf, total: int) -> None:
        # A grant to who holds nothing may go beyond the budget, one at a time.
        assert await self.most_held(shelf, bytes_in_flight_max=total) <= max(total, 200_000)

    async def test_many_rows_are_cut(self, shelf: Shelf) -> None:
        ds = await shelf.open()
        sizes = [1, 3_000, 2_000, 1, 1, 5_000, 7, 4_000]
        starts = range(0, NUM_ROWS, 2_000)
        found = await together([
            partial(ds.take, range(start, start + size), ["a"])
            for start, size in zip(starts, sizes, strict=False)
        ])
        for start, size, table in zip(starts, sizes, found, strict=False):
            assert table.equals(TABLE.slice(start, size).select(["a"]))
