"""The primitives of our own concurrency."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from alance._aio import run_to_end

pytestmark = pytest.mark.anyio


class TestRunToEnd:
    async def test_gives_the_result(self) -> None:
        async def work() -> int:
            await anyio.lowlevel.checkpoint()
            return 5

        assert await run_to_end(work()) == 5

    async def test_gives_the_error(self) -> None:
        async def work() -> None:
            await anyio.lowlevel.checkpoint()
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await run_to_end(work())

    async def test_a_cancelled_scope_does_not_reach_the_work(self) -> None:
        done = False
        with anyio.CancelScope() as scope:

            async def work() -> None:
                nonlocal done
                scope.cancel()
                await anyio.lowlevel.checkpoint()
                done = True

            await run_to_end(work())
            await anyio.lowlevel.checkpoint()
        assert done
        assert scope.cancelled_caught

    @pytest.mark.parametrize("error", [None, ValueError("lost in the cancellation")])
    async def test_a_cancelled_task_is_cancelled_afterwards(self, error: Exception | None) -> None:
        caller = asyncio.current_task()
        assert caller is not None
        done = False

        async def work() -> None:
            nonlocal done
            for _ in range(3):
                caller.cancel()
                await anyio.lowlevel.checkpoint()
            done = True
            if error is not None:
                raise error

        with pytest.raises(asyncio.CancelledError):
            await run_to_end(work())
        assert done
        while caller.uncancel():
            pass
