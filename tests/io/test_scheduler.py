import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError, ObjectNotFoundError, StoreError
from alance.io.gate import RequestGate
from alance.io.opening import open_store
from alance.io.scheduler import Scheduler
from alance.io.store import ObjectStore
from alance.io.uri import parse_uri
from alance.limits import Limits
from alance.receipts import receipt
from alance.testing.stores import CountingStore, FaultyStore, Request, WrapperStore
from alance.types import ByteRange

pytestmark = pytest.mark.anyio

T = TypeVar("T")
DATA = bytes(i % 251 for i in range(100_000))


class HeldStore(WrapperStore):
    """Keeps every request waiting until the test lets go."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.go = anyio.Event()
        self.started: list[tuple[int | None, int | None]] = []
        self.cancelled: list[tuple[int | None, int | None]] = []

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        self.started.append((request.start, request.stop))
        try:
            await self.go.wait()
        except BaseException:
            self.cancelled.append((request.start, request.stop))
            raise
        return await send()


@pytest.fixture
async def memory() -> ObjectStore:
    store = open_store(parse_uri("memory://")[0])
    await store.put("x", DATA)
    await store.put("y", DATA[::-1])
    return store


async def settle() -> None:
    """Let the loop run until only held requests are left to wait for."""
    for _ in range(20):
        await asyncio.sleep(0)


def scheduler(**limits: int) -> Scheduler:
    made = Limits(**limits)
    return Scheduler(made, RequestGate(made), anyio.CapacityLimiter(1))


def ranges(*pairs: tuple[int, int]) -> list[ByteRange]:
    return [ByteRange(*pair) for pair in pairs]


async def read(
    mine: Scheduler, store: ObjectStore, *pairs: tuple[int, int], path: str = "x", priority: int = 0
) -> list[bytes]:
    found = await mine.get_ranges(store, path, ranges(*pairs), priority=priority)
    return [bytes(view) for view in found]


async def test_answers_come_in_the_order_asked(memory: ObjectStore) -> None:
    pairs = [(50, 60), (0, 4), (50, 60), (7, 7), (2, 55)]
    assert await read(scheduler(), memory, *pairs) == [DATA[i:j] for i, j in pairs]


async def test_nothing_asked_is_no_request(memory: ObjectStore) -> None:
    store = CountingStore(memory)
    assert await read(scheduler(), store) == []
    assert await read(scheduler(), store, (5, 5)) == [b""]
    assert store.count() == 0


@pytest.mark.parametrize("pair", [(-1, 4), (5, 4)])
async def test_nonsense_is_refused(memory: ObjectStore, pair: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="is not a byte range"):
        await read(scheduler(), memory, pair)


async def test_thousand_tasks_of_one_tick_share_requests(memory: ObjectStore) -> None:
    store = CountingStore(memory)
    mine = scheduler(merge_gap_bytes_max=100, request_bytes_max=40_000)
    found: dict[int, bytes] = {}

    async def work(i: int) -> None:
        found[i] = (await read(mine, store, (i * 100, i * 100 + 8)))[0]

    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            for i in range(1000):
                tg.start_soon(work, i)
    assert found == {i: DATA[i * 100 : i * 100 + 8] for i in range(1000)}
    assert [(one.start, one.stop) for one in store.requests] == [
        (0, 39_908),
        (40_000, 79_908),
        (80_000, 99_908),
    ]
    assert (spent.requests, spent.rounds) == ({"get": 3}, 1)
    assert (spent.bytes_fetched, spent.bytes_used) == (99_724, 8_000)


async def test_objects_are_planned_apart(memory: ObjectStore) -> None:
    store, other = CountingStore(memory), CountingStore(memory)
    mine = scheduler()
    async with anyio.create_task_group() as tg:
        for path in ("x", "y"):
            for target in (store, other):
                tg.start_soon(partial(read, mine, target, (0, 4), path=path))
    assert [(one.path, one.start) for one in store.requests] == [("x", 0), ("y", 0)]
    assert other.count() == 2


async def test_long_ranges_are_split_and_joined(memory: ObjectStore) -> None:
    store = CountingStore(memory)
    with receipt() as spent:
        answer = await read(scheduler(request_bytes_max=30_000), store, (0, 100_000))
    assert answer == [DATA]
    assert store.count() == 4
    assert spent.rounds == 1


async def test_long_ranges_use_the_connections_that_are_free(memory: ObjectStore) -> None:
    held = HeldStore(memory)
    mine = scheduler(request_bytes=10_000, requests_max=6)
    async with anyio.create_task_group() as tg:
        tg.start_soon(read, mine, held, (0, 30_000))
        await settle()
        assert held.started == [(0, 10_000), (10_000, 20_000), (20_000, 30_000)]
        tg.start_soon(partial(read, mine, held, (0, 60_000), path="y"))
        await settle()
        assert held.started[3:] == [(0, 20_000), (20_000, 40_000), (40_000, 60_000)]
        tg.start_soon(read, mine, held, (40_000, 80_000))
        await settle()
        held.go.set()
    assert held.started[6:] == [(40_000, 80_000)], "none was free"


async def test_neighbours_are_split_between_them_and_not_copied(memory: ObjectStore) -> None:
    store = CountingStore(memory)
    mine = scheduler(request_bytes=10_000)
    wanted = ranges(*((start, start + 3_000) for start in range(0, 30_000, 3_000)))
    views = await mine.get_ranges(store, "x", wanted)
    starts = [(one.start, one.stop) for one in store.requests]
    assert starts == [(0, 9_000), (9_000, 18_000), (18_000, 27_000), (27_000, 30_000)]
    assert len({id(view.obj) for view in views}) == 4


async def test_parts_under_way_are_shared_as_well(memory: ObjectStore) -> None:
    store = HeldStore(memory)
    mine = scheduler(request_bytes=10_000, merge_gap_bytes_max=1)
    found: list[list[bytes]] = []

    async def work(*pairs: tuple[int, int]) -> None:
        found.append(await read(mine, store, *pairs))

    async with anyio.create_task_group() as tg:
        tg.start_soon(work, (0, 40_000))
        await settle()
        tg.start_soon(work, (0, 40_000))
        tg.start_soon(work, (9_000, 30_000), (39_999, 40_000))
        await settle()
        assert len(store.started) == 4
        assert len(store.started) == 4
        tg.start_soon(work, (39_000, 41_000))
        await settle()
        store.go.set()
    assert store.started[4:] == [(39_000, 41_000)], "one part is missing"
    assert sorted(found) == sorted([
        [DATA[:40_000]],
        [DATA[:40_000]],
        [DATA[9_000:30_000], DATA[39_999:40_000]],
        [DATA[39_000:41_000]],
    ])


async def test_much_is_put_together_in_a_thread(memory: ObjectStore) -> None:
    long = DATA * 4
    store = BytesStore(memory, long)
    limits, threads = Limits(request_bytes=100_000), anyio.CapacityLimiter(1)
    mine = Scheduler(limits, RequestGate(limits), threads)
    found: list[list[bytes]] = []

    async def work() -> None:
        pairs = ((0, len(long)), (7, len(long) - 7), (5, 5), (7, len(long) - 7))
        found.append(await read(mine, store, *pairs))

    async with anyio.create_task_group() as tg:
        threads.acquire_on_behalf_of_nowait(tg)
        tg.start_soon(work)
        await settle()
        assert threads.statistics().tasks_waiting == 1
        assert await read(mine, store, (0, 90_000)) == [long[:90_000]]
        threads.release_on_behalf_of(tg)
    assert found == [[long, long[7:-7], b"", long[7:-7]]]


async def test_a_range_under_way_is_not_fetched_again(memory: ObjectStore) -> None:
    store = HeldStore(memory)
    mine = scheduler(merge_gap_bytes_max=1)
    found: list[list[bytes]] = []

    async def work(*pairs: tuple[int, int]) -> None:
        found.append(await read(mine, store, *pairs))

    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            tg.start_soon(work, (100, 200))
            await settle()
            tg.start_soon(work, (100, 200))
            tg.start_soon(work, (150, 160), (500, 510))
            tg.start_soon(work, (190, 210))
            await settle()
            assert store.started == [(100, 200), (190, 210), (500, 510)]
            store.go.set()
    assert sorted(found) == sorted([
        [DATA[100:200]],
        [DATA[100:200]],
        [DATA[150:160], DATA[500:510]],
        [DATA[190:210]],
    ])
    assert (spent.requests, spent.rounds) == ({"get": 3}, 1)


async def test_each_receipt_counts_a_shared_request_once(memory: ObjectStore) -> None:
    limits = Limits()
    gate = RequestGate(limits)
    mine = Scheduler(limits, gate, anyio.CapacityLimiter(1))
    lines: list[str] = []

    async def work(i: int) -> None:
        with receipt() as spent:
            await read(mine, memory, (i, i + 4), (i + 10, i + 14))
            lines.append(f"{spent.requests} {spent.bytes_fetched} {spent.bytes_used}")

    async with anyio.create_task_group() as tg:
        for i in range(3):
            tg.start_soon(work, i)
    assert lines == ["{'get': 1} 16 8"] * 3
    assert gate.total.requests == {"get": 1}
    assert gate.total.bytes_used == 24


async def test_a_chain_of_reads_is_as_many_rounds(memory: ObjectStore) -> None:
    mine = scheduler()
    with receipt() as spent:
        for start in (0, 40, 80):
            await read(mine, memory, (start, start + 4), (start + 5000, start + 5004))
    assert (spent.requests, spent.rounds) == ({"get": 3}, 3)


async def test_never_more_than_allowed_and_the_urgent_first(memory: ObjectStore) -> None:
    held = HeldStore(memory)
    store = CountingStore(held)
    mine = scheduler(requests_max=2, merge_gap_bytes_max=1)
    async with anyio.create_task_group() as tg:
        for start, priority in ((0, 5), (100, 5), (200, 9), (300, 1), (400, 5)):
            pair = (start, start + 10)
            tg.start_soon(partial(read, mine, store, pair, priority=priority))
            await settle()
        held.go.set()
    assert store.most_under_way == 2
    assert [one.start for one in store.requests] == [0, 100, 300, 400, 200]


async def test_a_request_is_as_urgent_as_its_most_urgent_range(memory: ObjectStore) -> None:
    held = HeldStore(memory)
    mine = scheduler(requests_max=1, merge_gap_bytes_max=50)
    async with anyio.create_task_group() as tg:
        tg.start_soon(read, mine, held, (90_000, 90_001))
        await settle()
        for start, priority in ((0, 9), (1000, 4), (20, 2)):
            pair = (start, start + 10)
            tg.start_soon(partial(read, mine, held, pair, priority=priority))
        await settle()
        held.go.set()
    assert held.started == [(90_000, 90_001), (0, 30), (1000, 1010)]


async def test_cancelling_one_waiter_leaves_the_others(memory: ObjectStore) -> None:
    store = HeldStore(memory)
    mine = scheduler()
    found: list[list[bytes]] = []

    async def work() -> None:
        found.append(await read(mine, store, (0, 100)))

    async with anyio.create_task_group() as tg:
        tg.start_soon(work)
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(work)
            await settle()
            leaving.cancel_scope.cancel()
        assert store.cancelled == []
        store.go.set()
    assert found == [[DATA[:100]]]
    assert store.started == [(0, 100)]


async def test_the_last_waiter_takes_the_request_with_it(memory: ObjectStore) -> None:
    store = HeldStore(memory)
    mine = scheduler(merge_gap_bytes_max=1, requests_max=2)
    before = asyncio.all_tasks()
    async with anyio.create_task_group() as tg:
        tg.start_soon(read, mine, store, (0, 10), (100, 110), (200, 210))
        tg.start_soon(read, mine, store, (0, 10))
        await settle()
        tg.cancel_scope.cancel()
    await settle()
    assert store.started == sorted(store.cancelled) == [(0, 10), (100, 110)]
    assert asyncio.all_tasks() == before
    # What was given up is not joined by those who come later.
    store.go.set()
    assert await read(mine, store, (0, 10)) == [DATA[:10]]


async def test_given_up_within_the_tick_is_not_sent(memory: ObjectStore) -> None:
    store = CountingStore(memory)
    mine = scheduler()
    with receipt() as spent:
        async with asyncio.TaskGroup() as tg:
            early = tg.create_task(read(mine, store, (0, 10)))
            await asyncio.sleep(0)
            early.cancel()
    await settle()
    assert store.count() == 0
    assert spent.requests == {}
    assert await read(mine, store, (0, 10)) == [DATA[:10]]


async def test_an_error_reaches_every_waiter_as_its_own(memory: ObjectStore) -> None:
    caught: list[StoreError] = []
    mine = scheduler()
    cause = OSError("cut off")

    def fail(request: Request) -> None:
        error = StoreError("no luck", path=request.path)
        error.add_note("first")
        raise error from cause

    store = FaultyStore(memory, before=fail)

    async def work() -> None:
        try:
            await read(mine, store, (0, 10))
        except StoreError as exc:
            exc.add_note("mine")
            caught.append(exc)

    async with anyio.create_task_group() as tg:
        for _ in range(3):
            tg.start_soon(work)
    assert len({id(exc) for exc in caught}) == 3
    for exc in caught:
        assert (str(exc), exc.path, exc.__cause__) == ("no luck", "x", cause)
        assert exc.__notes__ == ["first", "mine"]


async def test_an_error_of_one_request_spares_the_rest(memory: ObjectStore) -> None:
    def fail(request: Request) -> None:
        if request.start == 0:
            raise StoreError("no luck", path=request.path)

    store = CountingStore(FaultyStore(memory, before=fail))
    mine = scheduler(merge_gap_bytes_max=1)
    found: list[list[bytes]] = []

    async def unlucky() -> None:
        with pytest.raises(StoreError):
            await read(mine, store, (0, 10), (100, 110))

    async def lucky() -> None:
        found.append(await read(mine, store, (100, 110)))

    async with anyio.create_task_group() as tg:
        tg.start_soon(unlucky)
        tg.start_soon(lucky)
    assert found == [[DATA[100:110]]]
    assert store.count() == 2


async def test_a_waiter_that_fails_gives_up_its_other_requests(memory: ObjectStore) -> None:
    held = HeldStore(memory)

    class Half(WrapperStore):
        async def get_range(self, path: str, start: int, stop: int) -> memoryview:
            if start == 0:
                raise StoreError("no luck", path=path)
            return await held.get_range(path, start, stop)

    with pytest.raises(StoreError, match="no luck"):
        await read(scheduler(merge_gap_bytes_max=1), Half(memory), (0, 10), (100, 110))
    await settle()
    assert held.cancelled == held.started == [(100, 110)]


async def test_foreign_errors_and_unretrieved_ones(memory: ObjectStore) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))

    def fail(request: Request) -> None:
        raise ZeroDivisionError

    mine = scheduler()
    store = FaultyStore(memory, before=fail)
    with pytest.raises(ZeroDivisionError):
        await read(mine, store, (0, 10))
    async with asyncio.TaskGroup() as tg:
        task = tg.create_task(read(mine, store, (0, 10)))
        for _ in range(2):
            await asyncio.sleep(0)
        task.cancel()
    await settle()
    gc.collect()
    assert complaints == []


async def test_a_missing_object(memory: ObjectStore) -> None:
    with pytest.raises(ObjectNotFoundError) as caught:
        await read(scheduler(), memory, (0, 4), path="nope")
    assert caught.value.path == "nope"


async def test_short_answers_are_errors(memory: ObjectStore) -> None:
    class Short(WrapperStore):
        async def get_range(self, path: str, start: int, stop: int) -> memoryview:
            return (await self.inner.get_range(path, start, stop))[:-1]

    with pytest.raises(StoreError, match=r"asked for bytes \[0, 10\), got 9 bytes"):
        await read(scheduler(), Short(memory), (0, 10))


class BytesStore(WrapperStore):
    """Answers from memory, without another thread."""

    def __init__(self, inner: ObjectStore, data: bytes = DATA) -> None:
        super().__init__(inner)
        self.data = data

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        await asyncio.sleep(0)
        return memoryview(self.data)[start:stop]


@given(
    asks=st.lists(
        st.lists(
            st.tuples(st.integers(0, 3000), st.integers(0, 900)).map(lambda p: (p[0], sum(p))),
            max_size=4,
        ),
        max_size=8,
    ),
    ticks=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    gap=st.integers(1, 300),
    longest=st.integers(1, 1000),
)
def test_any_mix_of_asks_gets_its_bytes(
    asks: list[list[tuple[int, int]]], ticks: list[int], gap: int, longest: int
) -> None:
    async def main() -> None:
        store = CountingStore(BytesStore(open_store(parse_uri("memory://")[0])))
        mine = scheduler(merge_gap_bytes_max=gap, request_bytes_max=longest, requests_max=3)

        async def work(pairs: list[tuple[int, int]], delay: int) -> None:
            for _ in range(delay):
                await asyncio.sleep(0)
            assert await read(mine, store, *pairs) == [DATA[i:j] for i, j in pairs]

        async with anyio.create_task_group() as tg:
            for pairs, delay in zip(asks, ticks, strict=False):
                tg.start_soon(work, pairs, delay)
        assert store.most_under_way <= 3

    anyio.run(main)


@pytest.mark.parametrize("flushed", [False, True])
def test_a_closed_loop_leaves_nothing_for_the_next(flushed: bool) -> None:
    memory = open_store(parse_uri("memory://")[0])
    anyio.run(memory.put, "x", DATA)
    mine = scheduler(requests_max=1)
    held = HeldStore(memory)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    lost = loop.create_task(read(mine, held, (0, 10)))
    for _ in range(20 if flushed else 1):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert held.started == ([(0, 10)] if flushed else [])
    loop.close()

    async def later() -> None:
        held.go = anyio.Event()
        held.go.set()
        assert await read(mine, held, (0, 10)) == [DATA[:10]]

    del lost
    gc.collect()
    anyio.run(later)


async def test_answers_go_with_their_last_view(memory: ObjectStore) -> None:
    mine = scheduler()
    gc.collect()
    gc.disable()
    try:
        views = await mine.get_ranges(memory, "x", (ByteRange(0, 90_000), ByteRange(5, 10)))
        await settle()
        held = [one for one in gc.get_objects() if type(one).__name__ in {"_Ask", "_Request"}]
    finally:
        gc.enable()
    assert (bytes(views[1]), held) == (DATA[5:10], [])
