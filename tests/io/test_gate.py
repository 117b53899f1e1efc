import asyncio

import anyio
import anyio.lowlevel
import pytest

from alance.errors import StoreError
from alance.io.gate import Cost, RequestGate
from alance.io.simulated import SimulatedStore
from alance.limits import Limits
from alance.receipts import receipt

pytestmark = pytest.mark.anyio

STORE = SimulatedStore()


async def test_no_more_than_allowed_at_once() -> None:
    gate = RequestGate(Limits(requests_max=3))
    now = most = 0

    async def send() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1

    async def run() -> None:
        await gate.run(send, link=gate.link(STORE), meter=gate.meter("get"))

    async with anyio.create_task_group() as tg:
        for _ in range(20):
            tg.start_soon(run)
    assert most == 3
    assert gate.total.requests == {"get": 20}


async def test_the_most_urgent_goes_first_then_the_earliest() -> None:
    gate = RequestGate(Limits(requests_max=1))
    order: list[str] = []
    hold = anyio.Event()

    async def run(name: str, priority: int) -> None:
        async def send() -> None:
            order.append(name)

        await gate.run(send, link=gate.link(STORE), meter=gate.meter("get"), priority=priority)

    async with anyio.create_task_group() as tg:
        tg.start_soon(lambda: gate.run(hold.wait, link=gate.link(STORE), meter=gate.meter("get")))
        await anyio.wait_all_tasks_blocked()
        for name, priority in (("c1", 7), ("a", -1), ("b", 0), ("c2", 7)):
            tg.start_soon(run, name, priority)
            await anyio.wait_all_tasks_blocked()
        hold.set()
    assert order == ["a", "b", "c1", "c2"]


async def test_cancelled_waiters_leave_no_trace() -> None:
    gate = RequestGate(Limits(requests_max=1))
    hold = anyio.Event()

    async def never() -> None:
        raise AssertionError("a cancelled request was sent")

    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            tg.start_soon(
                lambda: gate.run(hold.wait, link=gate.link(STORE), meter=gate.meter("get"))
            )
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(
                    lambda: gate.run(never, link=gate.link(STORE), meter=gate.meter("get"))
                )
                await anyio.wait_all_tasks_blocked()
                waiting.cancel_scope.cancel()
            hold.set()
        await gate.run(anyio.lowlevel.checkpoint, link=gate.link(STORE), meter=gate.meter("get"))
    assert spent.requests == {"get": 2}
    assert spent.rounds == 2


async def test_a_slot_granted_to_a_cancelled_waiter_goes_to_the_next() -> None:
    gate = RequestGate(Limits(requests_max=1))
    hold = anyio.Event()
    sent: list[str] = []

    async def send(name: str) -> None:
        sent.append(name)

    async def run(name: str) -> None:
        await gate.run(lambda: send(name), link=gate.link(STORE), meter=gate.meter("get"))

    async def run_first() -> None:
        await gate.run(hold.wait, link=gate.link(STORE), meter=gate.meter("get"))
        # The slot was granted to `unlucky` just now, which has not yet run.
        unlucky.cancel()

    async with asyncio.TaskGroup() as tg:
        tg.create_task(run_first())
        await anyio.wait_all_tasks_blocked()
        unlucky = tg.create_task(run("unlucky"))
        await anyio.wait_all_tasks_blocked()
        tg.create_task(run("lucky"))
        await anyio.wait_all_tasks_blocked()
        hold.set()
    assert unlucky.cancelled()
    assert sent == ["lucky"]


async def test_errors_pass_and_free_the_slot() -> None:
    gate = RequestGate(Limits(requests_max=1))

    async def fail() -> None:
        raise StoreError("no", path="x")

    with receipt() as spent:
        for _ in range(3):
            with pytest.raises(StoreError, match="no"):
                await gate.run(fail, link=gate.link(STORE), meter=gate.meter("put"))
    assert spent.requests == {"put": 3}
    assert spent.rounds == 3


async def test_cost_is_counted() -> None:
    gate = RequestGate(Limits())

    async def send() -> int:
        return 5

    with receipt() as spent:
        answer = await gate.run(
            send,
            link=gate.link(STORE),
            meter=gate.meter("list"),
            cost=lambda n: Cost(bytes_fetched=n, bytes_written=2 * n, requests=4, rounds=3),
        )
    assert answer == 5
    assert (spent.bytes_fetched, spent.bytes_written) == (5, 10)
    assert (spent.requests, spent.rounds) == ({"list": 4}, 3)
