"""A clean end of the process: wait for obstore's threads to let go of Python objects.

obstore resolves each asyncio future from a thread of its runtime, which drops its references to
Python objects a moment later, and buffers of a put when the connection is done with them. When the
interpreter is finalized in that moment, CPython ends the thread in the middle of Rust code, and the
process aborts. So every future and buffer that obstore holds is watched by a weak reference, and an
`atexit` hook waits until they are gone. This is the one piece of state per process in `alance`:
there is only one exit.
"""

from __future__ import annotations

import atexit
import gc
import os
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

__all__ = ["OutstandingObjects"]

T = TypeVar("T")

WAIT_S_MAX = 2.0
"""Longest wait at exit; a request that a closed loop left behind may outlast it."""
COLLECT_AFTER_S = 0.05
"""Objects alive for longer may hang in a reference cycle, not in obstore."""
STEP_S = 0.001
PRUNE_AT_LEAST = 256


class OutstandingObjects:
    """Python objects that another runtime's threads may still refer to.

    Parameters
    ----------
    drain
        Makes that runtime drop the references it has queued; called from the exiting thread.
    """

    def __init__(self, drain: Callable[[], object]) -> None:
        self._drain = drain
        self._watched: list[weakref.ref[object]] = []
        self._prune_at = PRUNE_AT_LEAST
        atexit.register(self.wait)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def watch(self, held: T) -> T:
        """Remember `held`, weakly; returns it, so that callers need keep no name for it."""
        if len(self._watched) >= self._prune_at:
            self._watched = self._alive()
            self._prune_at = max(PRUNE_AT_LEAST, 2 * len(self._watched))
        self._watched.append(weakref.ref(held))
        return held

    def wait(self) -> None:
        """Block until everything watched is gone; at most `WAIT_S_MAX` seconds."""
        if not self._watched:
            return
        start = time.monotonic()
        collected = False
        while True:
            self._drain()
            self._watched = self._alive()
            waited_s = time.monotonic() - start
            if not self._watched or waited_s > WAIT_S_MAX:
                break
            if waited_s > COLLECT_AFTER_S and not collected:
                collected = True
                gc.collect()
            time.sleep(STEP_S)
        # The thread that dropped the last reference has yet to leave its last lines of Python.
        time.sleep(STEP_S)

    def forget(self) -> None:
        """Watch nothing: in a forked child the threads that held the objects do not exist."""
        self._watched = []

    def _alive(self) -> list[weakref.ref[object]]:
        return [one for one in self._watched if one() is not None]
