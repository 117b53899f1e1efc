"""Our own concurrency primitives: a byte budget, owned streams and tasks, no exception groups."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

__all__ = ["ByteBudget", "OwnedTasks", "first_error", "open_stream", "run_all", "run_to_end"]

T = TypeVar("T")


class ByteBudget:
    """Bytes that may be held at once, granted first come, first served.

    A grant larger than the whole budget is given when nothing else is held, so that one big page
    never waits for ever. Nobody may wait for a grant while holding one.

    Parameters
    ----------
    total
        Bytes.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    @property
    def held(self) -> int:
        """Bytes granted and not given back."""
        return self._held

    @property
    def total(self) -> int:
        """Bytes that may be held at once."""
        return self._total

    async def acquire(self, num_bytes: int) -> None:
        """Wait until `num_bytes` fit, then hold them; safe to cancel."""
        if not self._waiting and self._fits(num_bytes):
            self._held += num_bytes
            await anyio.lowlevel.checkpoint_if_cancelled()
            return
        entry = (num_bytes, anyio.Event())
        self._waiting.append(entry)
        try:
            await entry[1].wait()
        except BaseException:
            if entry[1].is_set():
                self.release(num_bytes)
            else:
                self._waiting.remove(entry)
                self._grant()
            raise

    def release(self, num_bytes: int) -> None:
        """Give bytes back and wake whoever fits now."""
        self._held -= num_bytes
        assert self._held >= 0, "released more bytes than were held"
        self._grant()

    def _fits(self, num_bytes: int) -> bool:
        return self._held == 0 or self._held + num_bytes <= self._total

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            num_bytes, event = self._waiting.popleft()
            self._held += num_bytes
            event.set()


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


async def run_all(jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run jobs at the same time; the first error stops the others and is raised as it is.

    A single job runs in the caller's own task, which is cheaper.
    """
    if len(jobs) == 1:
        await jobs[0]()
    elif jobs:
        with first_error():
            async with anyio.create_task_group() as tg:
                for job in jobs:
                    tg.start_soon(job)


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


@asynccontextmanager
async def open_stream(
    produce: Callable[[MemoryObjectSendStream[T]], Coroutine[Any, Any, None]], *, depth: int
) -> AsyncGenerator[MemoryObjectReceiveStream[T], None]:
    """Run `produce` beside the block, which reads what it sends; leaving the block stops it.

    Parameters
    ----------
    produce
        Sends into the stream it is given and closes it when done.
    depth
        Sent items that may wait unread.
    """
    send, receive = anyio.create_memory_object_stream[T](max_buffer_size=depth)
    with first_error():
        async with anyio.create_task_group() as tg, send, receive:
            tg.start_soon(produce, send)
            try:
                yield receive
            finally:
                tg.cancel_scope.cancel()


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a task of its own and wait for its end, whatever cancels the caller.

    For the few steps that must not be left half done. A shielded cancel scope stops only what
    anyio cancels; `asyncio.timeout` and `Task.cancel` go through it. A cancellation that arrives
    meanwhile is raised when the work has ended, in place of its result; the work bounds itself.
    """
    task = asyncio.get_running_loop().create_task(work)
    interrupted: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as exc:
                interrupted = exc
    if interrupted is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, or asyncio complains
    raise interrupted
