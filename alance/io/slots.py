"""Slots for requests, given out in order of urgency."""

from __future__ import annotations

import asyncio
import heapq
import weakref

import anyio

__all__ = ["Line", "Slots"]


class Slots:
    """A number of slots on whichever event loop is running.

    Parameters
    ----------
    num_slots
        How many may be held at once.
    """

    __slots__ = ("_line", "_num_slots")

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._line: Line | None = None

    def resize(self, num_slots: int) -> None:
        """Change their number; those that are held too many are not given out again."""
        if num_slots != self._num_slots:
            if self._line is not None:
                self._line.add(num_slots - self._num_slots)
            self._num_slots = num_slots

    def line(self) -> Line:
        """Return the line on this loop; a loop that is gone takes its requests and slots along."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.loop() is not loop:
            self._line = Line(loop, self._num_slots)
        return self._line


class Line:
    """Slots of one event loop, and who stands in line for them."""

    __slots__ = ("_arrivals", "_free", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, num_slots: int) -> None:
        # Weakly: a default session must not keep the loop alive that it is to die with.
        self.loop = weakref.ref(loop)
        self._free = num_slots
        self._waiting: list[tuple[int, int, anyio.Event]] = []
        self._arrivals = 0

    def take_free(self) -> bool:
        """Take a slot if one is free."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    async def acquire(self, priority: int) -> None:
        """Take a slot, or stand in line for one: lower goes first, equal ones as they came."""
        if self.take_free():
            return
        self._arrivals += 1
        entry = (priority, self._arrivals, anyio.Event())
        heapq.heappush(self._waiting, entry)
        try:
            await entry[2].wait()
        except BaseException:
            if entry[2].is_set():
                self.release()
            else:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)
            raise

    def release(self) -> None:
        """Give a slot back: it goes to the most urgent in line."""
        self.add(1)

    def add(self, num_slots: int) -> None:
        """Change the number of slots, and let in whom that lets in."""
        self._free += num_slots
        loop = self.loop()
        if loop is None or loop.is_closed():
            return
        while self._free > 0 and self._waiting:
            self._free -= 1
            heapq.heappop(self._waiting)[2].set()
