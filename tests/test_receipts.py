import re

import anyio
import anyio.lowlevel
import pytest

from alance._aio import run_all, run_to_end
from alance.receipts import (
    Receipt,
    RequestMeter,
    current_receipts,
    next_place,
    one_call,
    receipt,
    waited_for,
)

pytestmark = pytest.mark.anyio


def request(kind: str = "get", **cost: int) -> None:
    meter, place = RequestMeter(kind, current_receipts()), next_place()
    meter.sent()
    meter.close(answered=True, **cost)
    waited_for(place + cost.get("rounds", 1) - 1)


def test_nothing_outside_a_block() -> None:
    assert current_receipts() == ()
    with receipt() as spent:
        assert current_receipts() == (spent,)
    assert current_receipts() == ()


def test_a_chain_is_as_many_rounds() -> None:
    with receipt() as spent:
        for _ in range(3):
            request()
    assert (spent.requests, spent.rounds) == ({"get": 3}, 3)


def test_requests_side_by_side_are_one_round() -> None:
    with receipt() as spent:
        meters = [RequestMeter("get", current_receipts()) for _ in range(5)]
        for meter in meters:
            meter.sent()
        for meter in meters:
            meter.close(answered=True)
        request("put")
    assert (spent.requests, spent.rounds) == ({"get": 5, "put": 1}, 2)


async def test_tasks_side_by_side_have_chains_of_their_own() -> None:
    async def short() -> None:
        request()

    async def long() -> None:
        await anyio.lowlevel.checkpoint()
        request()
        request()

    @one_call
    async def call() -> None:
        await run_all([short, long, short])
        request()

    with receipt() as spent:
        await call()
        assert spent.rounds == 3
        with receipt() as inner:
            await call()
    assert (spent.rounds, inner.rounds) == (6, 3)


async def test_calls_side_by_side_have_chains_of_their_own() -> None:
    gate = anyio.Event()

    @one_call
    async def first() -> None:
        request()
        await gate.wait()

    @one_call
    async def second() -> None:
        request()
        request()
        gate.set()

    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            tg.start_soon(first)
            tg.start_soon(second)
        assert spent.rounds == 2
        request()
    assert spent.rounds == 3


async def test_what_is_seen_through_counts_for_the_caller() -> None:
    async def work() -> int:
        request()
        return 7

    with receipt() as spent:
        assert await run_to_end(work()) == 7
        request()
    assert spent.rounds == 2


def test_waiting_for_a_slot_is_no_round() -> None:
    with receipt() as spent:
        first, second = (RequestMeter("get", current_receipts()) for _ in range(2))
        first.sent()
        first.close(answered=True)
        second.sent()
        second.close(answered=True)
    assert spent.rounds == 1


def test_cancelled_requests() -> None:
    with receipt() as spent:
        unsent = RequestMeter("get", current_receipts())
        unsent.close(answered=False)
        unanswered = RequestMeter("get", current_receipts())
        unanswered.sent()
        unanswered.close(answered=False)
        request()
    assert (spent.requests, spent.rounds) == ({"get": 2}, 1)


def test_nested_blocks_both_count() -> None:
    with receipt() as outer:
        request(bytes_fetched=10)
        with receipt() as inner:
            request(bytes_fetched=5, bytes_written=7)
    assert (inner.requests, inner.rounds, inner.bytes_fetched) == ({"get": 1}, 1, 5)
    assert (outer.requests, outer.rounds, outer.bytes_fetched) == ({"get": 2}, 2, 15)
    assert inner.bytes_written == outer.bytes_written == 7


async def test_tasks_started_inside_count_and_others_do_not() -> None:
    gate = anyio.Event()

    async def work() -> None:
        await gate.wait()
        request()

    async with anyio.create_task_group() as tg:
        tg.start_soon(work)
        with receipt() as spent:
            async with anyio.create_task_group() as inner:
                inner.start_soon(work)
                gate.set()
    assert spent.requests == {"get": 1}


def test_a_receipt_that_joins_late_counts_the_request_once() -> None:
    early, late = Receipt(), Receipt()
    meter = RequestMeter("get", (early,))
    meter.sent()
    meter.join((early, late))
    meter.close(answered=True, bytes_fetched=3)
    meter.join((Receipt(),))
    meter.close(answered=True, bytes_fetched=3)
    for spent in (early, late):
        assert (spent.requests, spent.rounds, spent.bytes_fetched) == ({"get": 1}, 1, 3)


def test_wait_is_wall_time_with_a_request_open(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("alance.receipts.time.monotonic", lambda: now)
    spent = Receipt()
    one = RequestMeter("get", (spent,))
    now += 1.0
    two = RequestMeter("get", (spent,))
    now += 2.0
    one.close(answered=True)
    assert spent.wait_s == 3.0
    now += 4.0
    two.close(answered=True)
    now += 8.0
    assert spent.wait_s == 7.0
    assert spent.rounds == 0


def test_str_is_one_readable_line() -> None:
    with receipt() as spent:
        request(bytes_fetched=1234567)
        request("list")
    line = str(spent)
    assert "\n" not in line
    assert line.startswith("2 requests (1 get, 1 list) in 2 rounds, 1,234,567 bytes fetched")
    assert re.search(r"0 retries, \d+\.\d{3} s waited$", line)
    assert str(Receipt()).startswith("0 requests in 0 rounds")
