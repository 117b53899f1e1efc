"""Our own concurrency primitives: a byte budget, owned tasks, no exception groups."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from alance.errors import AlanceError
from alance.receipts import next_place, waited_for

__all__ = [
    "BudgetShare",
    "ByteBudget",
    "OwnedTasks",
    "both",
    "first_error",
    "own_copy",
    "run_all",
    "run_each",
    "run_to_end",
]

T = TypeVar("T")
U = TypeVar("U")


class ByteBudget:
    """Bytes that may be held at once, granted first come, first served, through shares.

    Two cases go beyond `total`, one grant at a time, and only to a share that holds nothing: a
    grant that alone is larger, and one that is asked for while everything held waits for its
    consumers. The latter may be waiting for this very grant, as in a scan inside the loop over
    another scan.

    Parameters
    ----------
    total
        Bytes.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._settled = 0
        self._waiting: deque[_Wait] = deque()

    @property
    def held(self) -> int:
        """Bytes granted and not given back."""
        return self._held

    @property
    def total(self) -> int:
        """Bytes that may be held at once."""
        return self._total

    def share(self) -> BudgetShare:
        """Return a new reader's part of the budget, with nothing in it yet."""
        return BudgetShare(self)

    def _may_grant(self, wait: _Wait) -> bool:
        is_first = not self._waiting or self._waiting[0] is wait
        if is_first and self._held + wait.num_bytes <= self._total:
            return True
        return not wait.share.held and self._held == self._settled

    def _grant(self) -> None:
        """Wake all who may go on now."""
        for wait in tuple(self._waiting):
            if self._may_grant(wait):
                self._waiting.remove(wait)
                wait.share._take(wait.num_bytes)
                wait.granted.set()


class BudgetShare:
    """What one reader holds of a `ByteBudget`; `close` gives all of it back.

    Parameters
    ----------
    budget
        The budget of the session.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._held = 0
        self._settled = 0

    @property
    def held(self) -> int:
        """Bytes granted to this share and not given back."""
        return self._held

    async def acquire(self, num_bytes: int) -> None:
        """Wait until `num_bytes` are granted; safe to cancel."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        wait = _Wait(self, num_bytes, anyio.Event())
        if self._budget._may_grant(wait):
            self._take(num_bytes)
            return
        self._budget._waiting.append(wait)
        try:
            await wait.granted.wait()
        except BaseException:
            if wait.granted.is_set():
                self._give_back(num_bytes, 0)
            else:
                self._budget._waiting.remove(wait)
            self._budget._grant()
            raise

    def try_acquire(self, num_bytes: int) -> bool:
        """Take `num_bytes` if nobody has to wait for them; says whether it did."""
        budget = self._budget
        if budget._waiting or budget._held + num_bytes > budget._total:
            return False
        self._take(num_bytes)
        return True

    def settle(self, granted: int, num_bytes: int) -> None:
        """Take note that `num_bytes`, for which `granted` were a guess, wait for their consumer.

        More than was granted is held all the same, and keeps others waiting.
        """
        self._take(num_bytes - granted)
        self._settled += num_bytes
        self._budget._settled += num_bytes
        self._budget._grant()

    def release(self, num_bytes: int) -> None:
        """Give settled bytes back."""
        assert num_bytes <= self._settled, "released more bytes than were settled"
        self._give_back(num_bytes, num_bytes)
        self._budget._grant()

    def resume(self, settled: int, num_bytes: int) -> None:
        """Go on with settled bytes that were consumed: `num_bytes` are granted in their place.

        Without waiting, as what consumers wait for may depend on it: a little may be held beyond
        the budget.
        """
        assert settled <= self._settled, "resumed more bytes than were settled"
        self._give_back(settled, settled)
        self._take(num_bytes)

    def close(self) -> None:
        """Give everything back; nobody may be waiting in `acquire`."""
        self._give_back(self._held, self._settled)
        self._budget._grant()

    def _take(self, num_bytes: int) -> None:
        self._held += num_bytes
        self._budget._held += num_bytes

    def _give_back(self, num_bytes: int, num_settled: int) -> None:
        self._held -= num_bytes
        self._settled -= num_settled
        self._budget._held -= num_bytes
        self._budget._settled -= num_settled


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """A share standing in line."""

    share: BudgetShare
    num_bytes: int
    granted: anyio.Event


class OwnedTasks:
    """Tasks whose work several callers share, so that none of their task groups can own it.

    Whoever holds this object owns the tasks: it cancels a task when the last caller has left (see
    docs/decisions/002-shared-requests.md). Use a task group everywhere else.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self,
        work: Coroutine[Any, Any, T],
        on_done: Callable[[asyncio.Task[T]], None],
        *,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Run `work` on the running loop.

        Parameters
        ----------
        work
            Started at the next tick of the loop.
        on_done
            Called on the loop with the finished task, also when it was cancelled before it began;
            must look at its exception.
        context
            Of the one caller that the work is for; None for an empty one, as it belongs to several.
        """
        task = asyncio.get_running_loop().create_task(work, context=context or Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(on_done)
        return task


def own_copy(error: BaseException) -> BaseException:
    """Copy an error of ours for one of several callers, who add notes and tracebacks to it."""
    if not isinstance(error, AlanceError):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    if hasattr(error, "__notes__"):
        mine.__notes__ = list(error.__notes__)
    return mine


async def run_all(jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run jobs at the same time; the first error stops the others and is raised as it is.

    A single job runs in the caller's own task, which is cheaper.
    """
    if len(jobs) == 1:
        await jobs[0]()
        return
    places = [0]

    async def run(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await job()
        places.append(next_place())

    if jobs:
        with first_error():
            async with anyio.create_task_group() as tg:
                for job in jobs:
                    tg.start_soon(run, job)
        waited_for(max(places) - 1)


async def run_each(
    jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]], *, at_once: int
) -> None:
    """Run jobs as `run_all` does, but at most so many at the same time; begun in order."""
    todo = iter(jobs)

    async def work() -> None:
        for job in todo:
            await job()

    await run_all([work] * min(len(jobs), at_once))


async def both(
    first: Callable[[], Coroutine[Any, Any, T]], second: Callable[[], Coroutine[Any, Any, U]]
) -> tuple[T, U]:
    """Results of two jobs that run at the same time, as in `run_all`."""
    firsts: list[T] = []
    seconds: list[U] = []

    async def run_first() -> None:
        firsts.append(await first())

    async def run_second() -> None:
        seconds.append(await second())

    await run_all([run_first, run_second])
    return firsts[0], seconds[0]


@contextmanager
def first_error() -> Generator[None, None, None]:
    """Turn an exception group into its first leaf: no group leaves the public API.

    Cancellation gives way to any other error, as that is what stopped the siblings.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        leaf = _first_leaf(group)
        raise leaf from leaf.__cause__


def _first_leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves: list[BaseException] = []
    todo: list[BaseException] = [group]
    while todo:
        exc = todo.pop(0)
        if isinstance(exc, BaseExceptionGroup):
            todo.extend(exc.exceptions)
        else:
            leaves.append(exc)
    return next((leaf for leaf in leaves if isinstance(leaf, Exception)), leaves[0])


async def _with_place(work: Awaitable[T]) -> tuple[T, int]:
    """Result of `work`, and the place that a request after it would have."""
    return await work, next_place()


async def run_to_end(work: Awaitable[T]) -> T:
    """Run `work` in a task of its own and wait for its end, whatever cancels the caller.

    For the few steps that must not be left half done. A shielded cancel scope stops only what
    anyio cancels; `asyncio.timeout` and `Task.cancel` go through it. A cancellation that arrives
    meanwhile is raised when the work has ended, in place of its result; the work bounds itself.
    """
    task = asyncio.get_running_loop().create_task(_with_place(work))
    interrupted: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as exc:
                interrupted = exc
    if interrupted is None:
        result, place = task.result()
        waited_for(place - 1)
        return result
    if not task.cancelled():
        task.exception()  # looked at, or asyncio complains
    raise interrupted
