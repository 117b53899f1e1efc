"""An event loop whose clock jumps to the next timer: a run takes no time and depends on none."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

T = TypeVar("T")


class _Jump(selectors.SelectSelector):
    """Never waits: what the loop would have slept, its clock goes forward."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Pass the time at once; nothing outside the loop can happen."""
        if timeout is None:
            raise RuntimeError("every task waits for another, and no timer is set")
        self.now += max(timeout, 0.0)
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that takes its time from `_Jump`."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._jump.now


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; threads and sockets must not be used in it."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main())
