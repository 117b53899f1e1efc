"""A second read beside one that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from alance.errors import StoreError
from alance.io.gate import Clock, Kind, RequestGate
from alance.io.hedge import first_answer
from alance.io.simulated import SimulatedStore
from alance.limits import Limits
from alance.receipts import receipt

pytestmark = pytest.mark.anyio

STORE = SimulatedStore()
READ = Kind(read_bytes=1000)


async def at_once(_: float) -> None:
    """Sleep no time, so that every read is late that does not answer at once."""
    await anyio.lowlevel.checkpoint()


def gate(**limits: float) -> RequestGate:
    made = Limits(**limits)  # type: ignore[arg-type]
    return RequestGate(made, clock=Clock(lambda: 0.0, at_once))


class Held:
    """A request whose every sending waits until the test lets it go, or fail."""

    def __init__(self) -> None:
        self.sent: list[asyncio.Future[str]] = []
        self.cancelled = 0

    async def send(self) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.sent.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def warm(mine: RequestGate, count: int = 100) -> None:
    """Let the gate see what is usual."""
    for _ in range(count):
        await run(mine, at_once_answer)


async def at_once_answer() -> str:
    return "answer"


async def run(mine: RequestGate, send: Callable[[], Awaitable[str]], kind: Kind = READ) -> str:
    return await mine.run(send, link=mine.link(STORE), meter=mine.meter("get"), kind=kind)


async def start(mine: RequestGate, held: Held, answers: list[str], tg: anyio.abc.TaskGroup) -> None:
    async def work() -> None:
        answers.append(await run(mine, held.send))

    tg.start_soon(work)
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("winner", [0, 1])
async def test_the_first_answer_wins_and_the_loser_is_cancelled(winner: int) -> None:
    mine, held = gate(hedge_budget=0.05), Held()
    answers: list[str] = []
    await warm(mine)
    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            await start(mine, held, answers, tg)
            assert len(held.sent) == 2
            held.sent[winner].set_result(f"answer {winner}")
    assert (answers, held.cancelled) == ([f"answer {winner}"], 1)
    assert (spent.requests, spent.hedges, spent.retries) == ({"get": 2}, 1, 0)
    assert spent.rounds == 1


async def test_a_failure_leaves_the_other_to_answer() -> None:
    mine, held = gate(hedge_budget=1.0), Held()
    answers: list[str] = []
    await warm(mine)
    async with anyio.create_task_group() as tg:
        await start(mine, held, answers, tg)
        held.sent[0].set_exception(StoreError("first", path="x"))
        await anyio.wait_all_tasks_blocked()
        held.sent[1].set_result("second")
    assert answers == ["second"]


async def test_the_first_failure_is_raised_when_both_fail() -> None:
    sent = 0

    async def fail() -> str:
        nonlocal sent
        sent += 1
        mine = sent
        await anyio.wait_all_tasks_blocked()
        raise StoreError(f"failure {mine}", path="x")

    async def yes() -> bool:
        return True

    with pytest.raises(StoreError, match="failure"):
        await first_answer(fail, fail, may_send_again=yes)
    assert sent == 2


async def test_no_hedge_is_sent_beyond_the_budget() -> None:
    mine = gate(hedge_budget=0.02)
    answers: list[str] = []
    await warm(mine)
    with receipt() as spent:
        for _ in range(5):
            held = Held()
            async with anyio.create_task_group() as tg:
                await start(mine, held, answers, tg)
                held.sent[0].set_result("answer")
    assert (spent.hedges, spent.requests) == (3, {"get": 8})
    assert spent.hedges <= 0.02 * mine.total.requests["get"] + 1


async def test_no_hedge_without_a_free_slot_nor_before_times_are_known() -> None:
    for known, slots in ((10, 64), (100, 1)):
        mine, held = gate(hedge_budget=1.0, requests_max=slots), Held()
        answers: list[str] = []
        await warm(mine, known)
        async with anyio.create_task_group() as tg:
            await start(mine, held, answers, tg)
            assert len(held.sent) == 1
            held.sent[0].set_result("answer")


async def test_slots_are_free_again_after_a_hedge() -> None:
    mine = gate(hedge_budget=1.0, requests_max=2)
    answers: list[str] = []
    await warm(mine)
    for _ in range(3):
        held = Held()
        async with anyio.create_task_group() as tg:
            await start(mine, held, answers, tg)
            held.sent[1].set_result("answer")
    assert mine.total.hedges == 3


async def test_hedges_are_off_unless_asked_for() -> None:
    mine, held = gate(), Held()
    answers: list[str] = []
    await warm(mine)
    async with anyio.create_task_group() as tg:
        await start(mine, held, answers, tg)
        assert len(held.sent) == 1
        held.sent[0].set_result("answer")
