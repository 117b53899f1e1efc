"""The byte budget: bounded, first come first served, and never a deadlock."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from alance._aio import BudgetShare, ByteBudget

pytestmark = pytest.mark.anyio


class Reader:
    """Acquires in a task of its own; `granted` says what it got so far."""

    def __init__(self, share: BudgetShare, *wishes: int) -> None:
        self.share = share
        self.granted: list[int] = []
        self._wishes = wishes

    async def run(self) -> None:
        for num_bytes in self._wishes:
            await self.share.acquire(num_bytes)
            self.granted.append(num_bytes)


async def settled() -> None:
    """Let all tasks run until they wait."""
    await anyio.wait_all_tasks_blocked()


async def test_grants_up_to_the_total() -> None:
    budget = ByteBudget(10)
    share = budget.share()
    await share.acquire(4)
    await share.acquire(6)
    assert (budget.held, share.held, budget.total) == (10, 10, 10)
    share.settle(4, 4)
    share.release(4)
    assert budget.held == 6
    share.close()
    assert budget.held == 0


async def test_waits_in_line_first_come_first_served() -> None:
    budget = ByteBudget(10)
    first, second, third = budget.share(), budget.share(), budget.share()
    await first.acquire(9)
    big, small = Reader(second, 8), Reader(third, 1)
    async with anyio.create_task_group() as tg:
        tg.start_soon(big.run)
        await settled()
        tg.start_soon(small.run)
        await settled()
        assert (big.granted, small.granted) == ([], []), "the small one must not overtake"
        first.close()
        await settled()
        assert (big.granted, small.granted) == ([8], [1])


async def test_a_grant_larger_than_the_total_goes_alone() -> None:
    budget = ByteBudget(10)
    one, two = budget.share(), budget.share()
    await one.acquire(3)
    large = Reader(two, 50)
    async with anyio.create_task_group() as tg:
        tg.start_soon(large.run)
        await settled()
        assert large.granted == []
        one.close()
        await settled()
        assert large.granted == [50]
    assert budget.held == 50


async def test_readers_whose_consumers_wait_for_one_another_get_on() -> None:
    budget = ByteBudget(10)
    outer, inner = budget.share(), budget.share()
    await outer.acquire(5)
    await outer.acquire(5)
    reader = Reader(inner, 4)
    async with anyio.create_task_group() as tg:
        tg.start_soon(reader.run)
        await settled()
        assert reader.granted == [], "bytes are still being fetched: waiting is right"
        outer.settle(5, 5)
        await settled()
        assert reader.granted == []
        outer.settle(5, 5)
        await settled()
        assert reader.granted == [4], "all that is held waits for consumers: one may go on"


async def test_an_empty_handed_reader_gets_on_behind_one_that_holds() -> None:
    budget = ByteBudget(10)
    outer, inner = budget.share(), budget.share()
    await outer.acquire(9)
    ahead, reader = Reader(outer, 9), Reader(inner, 1)
    async with anyio.create_task_group() as tg:
        tg.start_soon(ahead.run)
        await settled()
        tg.start_soon(reader.run)
        outer.settle(9, 9)
        await settled()
        assert (ahead.granted, reader.granted) == ([], [1])
        inner.close()
        outer.release(9)


async def test_only_one_grant_goes_beyond_the_total_at_a_time() -> None:
    budget = ByteBudget(10)
    outer = budget.share()
    await outer.acquire(10)
    outer.settle(10, 10)
    readers = [Reader(budget.share(), 4) for _ in range(3)]
    async with anyio.create_task_group() as tg:
        for reader in readers:
            tg.start_soon(reader.run)
        await settled()
        assert [reader.granted for reader in readers] == [[4], [], []]
        tg.cancel_scope.cancel()


@pytest.mark.parametrize("waits", [False, True])
async def test_a_cancelled_acquire_holds_nothing(waits: bool) -> None:
    budget = ByteBudget(10)
    holder, cancelled, next_one = budget.share(), budget.share(), budget.share()
    await holder.acquire(9 if waits else 1)
    behind = Reader(next_one, 1)
    async with anyio.create_task_group() as tg:
        with anyio.CancelScope() as scope:
            if not waits:
                scope.cancel()
            else:
                tg.start_soon(anyio.lowlevel.checkpoint)
                tg.start_soon(behind.run, name="behind")
                tg.start_soon(_cancel_later, scope)
            await cancelled.acquire(5)
        assert scope.cancelled_caught
        await settled()
    assert cancelled.held == 0
    assert budget.held == holder.held + next_one.held
    assert behind.granted == ([1] if waits else [])


async def _cancel_later(scope: anyio.CancelScope) -> None:
    await settled()
    scope.cancel()


async def test_a_grant_that_meets_a_cancellation_is_given_back() -> None:
    budget = ByteBudget(10)
    holder, cancelled = budget.share(), budget.share()
    await holder.acquire(10)
    async with anyio.create_task_group() as tg:
        with anyio.CancelScope() as scope:

            async def grant_and_cancel() -> None:
                await settled()
                scope.cancel()
                holder.close()

            tg.start_soon(grant_and_cancel)
            await cancelled.acquire(5)
    assert scope.cancelled_caught
    assert (budget.held, cancelled.held) == (0, 0)


async def test_releasing_what_is_not_settled_is_a_bug() -> None:
    share = ByteBudget(10).share()
    await share.acquire(5)
    with pytest.raises(AssertionError, match="more bytes than were settled"):
        share.release(5)


@pytest.mark.parametrize(("used", "held"), [(9, 9), (2, 2), (4, 4)])
async def test_what_was_used_counts_in_place_of_the_guess(used: int, held: int) -> None:
    budget = ByteBudget(10)
    share, other = budget.share(), budget.share()
    await other.acquire(5)
    await share.acquire(4)
    share.settle(4, used)
    assert (share.held, budget.held) == (held, held + 5)
    share.release(used)
    assert (share.held, budget.held) == (0, 5)


async def test_taking_without_waiting() -> None:
    budget = ByteBudget(10)
    one, two = budget.share(), budget.share()
    assert one.try_acquire(6)
    assert not two.try_acquire(5)
    assert (one.held, two.held, budget.held) == (6, 0, 6)
    async with anyio.create_task_group() as tg:
        tg.start_soon(two.acquire, 5)
        await anyio.lowlevel.checkpoint()
        assert not one.try_acquire(1), "others stand in line"
        one.settle(6, 6)
        one.release(6)
    assert two.held == 5
    assert one.try_acquire(5)
    one.close()
    two.close()
    assert budget.held == 0
