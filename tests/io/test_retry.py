"""What the gate does with failures: again, later, less at once, or not at all."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from alance.errors import PermissionDeniedError, StoreError, StoreTimeoutError
from alance.io.gate import Clock, Kind, RequestGate
from alance.io.retry import RetryBudget, may_repeat, pause_s
from alance.io.simulated import SimulatedStore
from alance.limits import Limits
from alance.receipts import receipt

pytestmark = pytest.mark.anyio

STORE = SimulatedStore()
SAFE = Kind()
CUT = StoreError("cut", path="x", transient=True)
SLOW_DOWN = StoreError("slow down", path="x", status=503, transient=True)


class FakeClock:
    """Time that passes while somebody sleeps, and not otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now_s, self.sleep)


def gate(time: FakeClock, **limits: float) -> RequestGate:
    made = Limits(**limits)  # type: ignore[arg-type]
    return RequestGate(made, clock=time.clock, rng=random.Random(1))


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """Return a request that fails in these ways, one after the other, and then succeeds."""
    left = list(errors)

    async def send() -> str:
        await anyio.lowlevel.checkpoint()
        if left:
            raise left.pop(0)
        return "answer"

    return send


async def run(mine: RequestGate, send: Callable[[], Awaitable[str]], kind: Kind = SAFE) -> str:
    return await mine.run(send, link=mine.link(STORE), meter=mine.meter("get"), kind=kind)


async def test_what_may_pass_is_tried_again_and_counted() -> None:
    time = FakeClock()
    mine = gate(time)
    with receipt() as spent:
        assert await run(mine, failing(CUT, CUT, SLOW_DOWN)) == "answer"
    assert (spent.requests, spent.retries, spent.rounds) == ({"get": 4}, 3, 4)
    assert (mine.total.requests, mine.total.retries) == ({"get": 4}, 3)
    assert len(time.pauses) == 3


async def test_what_does_not_pass_is_not_tried_again() -> None:
    time = FakeClock()
    error = StoreError("broken", path="x")
    with pytest.raises(StoreError, match="broken"):
        await run(gate(time), failing(error))
    assert time.pauses == []


async def test_an_open_effect_is_not_repeated() -> None:
    time = FakeClock()
    mine = gate(time)
    for error in (CUT, SLOW_DOWN, StoreTimeoutError("late", transient=True)):
        with receipt() as spent, pytest.raises(StoreError):
            await run(mine, failing(error), Kind(idempotent=False))
        assert (spent.requests, spent.retries) == ({"get": 1}, 0)


async def test_expired_credentials_leave_no_effect_open() -> None:
    expired = PermissionDeniedError("expired", status=403, transient=True)
    kind = Kind(idempotent=False)
    assert await run(gate(FakeClock()), failing(expired), kind) == "answer"
    assert not may_repeat(PermissionDeniedError("no", status=403), idempotent=True)


async def test_retries_end_by_number() -> None:
    time = FakeClock()
    with receipt() as spent, pytest.raises(StoreError, match="cut") as caught:
        await run(gate(time, retries_max=3), failing(*[CUT] * 9))
    assert (spent.retries, len(time.pauses)) == (3, 3)
    assert "given up after 4 tries" in caught.value.__notes__[0]


async def test_retries_end_by_time() -> None:
    time = FakeClock()
    with pytest.raises(StoreError, match="slow"):
        await run(gate(time, retries_max=1000, retry_deadline_s=3), failing(*[SLOW_DOWN] * 1000))
    assert 1 < time.now_s <= 3


async def test_retries_end_when_the_session_has_no_more() -> None:
    mine = gate(FakeClock(), retry_budget=5)
    with receipt() as spent:
        for expected in (5, 5):
            with pytest.raises(StoreError):
                await run(mine, failing(*[CUT] * 99))
            assert spent.retries == expected
        await run(mine, failing())  # gives one back
        assert await run(mine, failing(CUT)) == "answer"
    assert spent.retries == 6


async def test_a_slot_is_free_while_a_request_pauses() -> None:
    order: list[str] = []
    woken = anyio.Event()

    async def sleep(_: float) -> None:
        order.append("pause")
        await woken.wait()

    mine = RequestGate(Limits(requests_max=1), clock=Clock(lambda: 0.0, sleep))

    async def other() -> str:
        order.append("other")
        woken.set()
        return ""

    async with anyio.create_task_group() as tg:
        tg.start_soon(run, mine, failing(CUT))
        await anyio.wait_all_tasks_blocked()
        tg.start_soon(run, mine, other)
    assert order == ["pause", "other"]


async def test_a_store_that_says_slow_down_is_asked_less_and_others_are_not() -> None:
    mine = gate(FakeClock(), requests_max=8)
    store = SimulatedStore()
    slow, other = mine.link(store), mine.link(STORE)
    refusing = True
    now, most = 0, 0

    async def send() -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1
        if refusing:
            raise SLOW_DOWN
        return "answer"

    async def ask(retries: bool) -> None:
        kind = Kind(idempotent=retries)
        try:
            await mine.run(send, link=slow, meter=mine.meter("get"), kind=kind)
        except StoreError:
            return

    async with anyio.create_task_group() as tg:
        for _ in range(8):
            tg.start_soon(ask, False)
    assert (most, slow.stats.requests_max, other.stats.requests_max) == (8, 4, 8)
    refusing, most = False, 0
    async with anyio.create_task_group() as tg:
        for _ in range(8):
            tg.start_soon(ask, True)
    assert most == 4
    for _ in range(40):
        await ask(True)
    assert slow.stats.requests_max == 8
    assert [one.requests_max for one in mine.store_stats] == [8, 8]


async def test_a_request_that_hangs_has_failed() -> None:
    mine = RequestGate(Limits(request_timeout_s=0.0, retries_max=2), clock=FakeClock().clock)
    with receipt() as spent, pytest.raises(StoreTimeoutError, match="no answer in"):
        await run(mine, lambda: anyio.sleep(60))  # type: ignore[arg-type, return-value]
    assert spent.retries == 2


async def test_a_pause_can_be_cancelled() -> None:
    mine = RequestGate(Limits(), clock=Clock(lambda: 0.0, lambda _: anyio.sleep(60)))
    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            tg.start_soon(run, mine, failing(CUT))
            await anyio.wait_all_tasks_blocked()
            tg.cancel_scope.cancel()
    assert (spent.requests, spent.retries) == ({"get": 1}, 0)


def test_pauses_double_and_are_bounded() -> None:
    class Most(random.Random):
        def random(self) -> float:
            return 1.0

    limits = Limits(retries_max=10)
    found = [pause_s(tries, 0.0, limits, Most()) for tries in range(1, 12)]
    assert found[:4] == [0.05, 0.1, 0.2, 0.4]
    assert found[7:] == [5.0, 5.0, 5.0, None]
    assert pause_s(1, 59.99, limits, Most()) is None


def test_a_budget_has_a_bottom_and_a_top() -> None:
    budget = RetryBudget(2)
    budget.give_back()
    assert [budget.take() for _ in range(4)] == [True, True, False, False]
    budget.give_back()
    assert budget.take()
