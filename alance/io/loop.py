"""The event loop of code that cannot await: one per process, in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

__all__ = ["BackgroundLoop", "LoopThread", "background"]

T = TypeVar("T")


class Closable(Protocol):
    """What works in the background until it is closed."""

    async def aclose(self) -> None:
        """End the work; safe to call twice."""
        ...


class LoopThread:
    """A running event loop. Nothing of it outlives a fork, as threads are not copied."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._is_closed = False
        self._streams: set[Closable] = set()
        ready: Future[BlockingPortal] = Future()
        # A daemon, or the interpreter would wait for its end before anybody could ask for it.
        self._thread = threading.Thread(
            target=anyio.run, args=(_serve, ready), name="alance", daemon=True
        )
        self._thread.start()
        self._portal = ready.result()

    @property
    def can_be_called(self) -> bool:
        """Whether it runs in this process, in another thread than the caller's."""
        here = threading.current_thread()
        return not self._is_closed and self._pid == os.getpid() and here is not self._thread

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work` to its end and return its result.

        What interrupts the waiting thread, such as Ctrl-C, cancels the work and waits for its end.
        """
        ended = threading.Event()

        async def run() -> T:
            try:
                return await work()
            finally:
                ended.set()

        future = self._portal.start_task_soon(run)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait()
            raise

    @contextmanager
    def closing(self, stream: Closable) -> Generator[None, None, None]:
        """Close a stream of this loop at the end of the block, or before the loop ends.

        Nothing is done elsewhere, as in a forked child, where nothing is left to be closed.
        """
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)
            if self.can_be_called:
                self.call(stream.aclose)

    def close(self) -> None:
        """Cancel what is running and wait until it has ended."""
        if self.can_be_called:
            for stream in tuple(self._streams):
                self.call(stream.aclose)
            self._is_closed = True
            self._portal.start_task_soon(self._portal.stop, True)
            self._thread.join()


class BackgroundLoop:
    """The `LoopThread` of this process: started at first use, again after a fork, ended at exit."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Begin anew: a child has neither the thread nor, perhaps, the lock in a usable state."""
        self._lock = threading.Lock()
        self._running: LoopThread | None = None

    def thread(self) -> LoopThread:
        """Return the loop; starts it where there is none."""
        with self._lock:
            if self._running is None:
                self._running = LoopThread()
                threading._register_atexit(self._running.close)  # type: ignore[attr-defined]
            return self._running


async def _serve(ready: Future[BlockingPortal]) -> None:
    async with BlockingPortal() as portal:
        ready.set_result(portal)
        await portal.sleep_until_stopped()


background = BackgroundLoop()
"""The one of this process, as a loop in a thread is; code that awaits does not need it."""
