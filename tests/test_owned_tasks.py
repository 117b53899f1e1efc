"""Tasks that no single caller owns: `alance._aio.OwnedTasks`."""

import asyncio
from contextvars import ContextVar

import anyio
import pytest

from alance._aio import OwnedTasks

pytestmark = pytest.mark.anyio

_seen: ContextVar[str] = ContextVar("seen", default="nothing")


async def finish(task: asyncio.Task[str]) -> None:
    """Let a task end, and its callbacks run."""
    await asyncio.wait([task])
    await asyncio.sleep(0)


async def test_work_runs_in_an_empty_context_and_reports_its_end() -> None:
    tasks = OwnedTasks()
    ended: list[asyncio.Task[str]] = []

    async def work() -> str:
        return _seen.get()

    _seen.set("the caller")
    task = tasks.start(work(), ended.append)
    assert len(tasks) == 1
    await finish(task)
    assert ended == [task]
    assert task.result() == "nothing"
    assert len(tasks) == 0


async def test_the_end_of_its_starter_does_not_end_it() -> None:
    tasks = OwnedTasks()
    ended: list[asyncio.Task[str]] = []
    go = anyio.Event()

    async def work() -> str:
        await go.wait()
        return "done"

    async with anyio.create_task_group() as tg:
        task = tasks.start(work(), ended.append)
        tg.cancel_scope.cancel()
    go.set()
    await finish(task)
    assert task.result() == "done"


async def test_cancelled_before_it_began_it_still_reports() -> None:
    tasks = OwnedTasks()
    ended: list[asyncio.Task[str]] = []

    async def never() -> str:
        raise AssertionError("began")

    task = tasks.start(never(), ended.append)
    task.cancel()
    await finish(task)
    assert ended == [task]
    assert task.cancelled()
    assert len(tasks) == 0


async def test_an_error_is_for_the_callback() -> None:
    tasks = OwnedTasks()
    errors: list[BaseException | None] = []

    async def fail() -> str:
        raise ValueError("no")

    task = tasks.start(fail(), lambda ended: errors.append(ended.exception()))
    await finish(task)
    assert [str(error) for error in errors] == ["no"]
