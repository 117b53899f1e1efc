"""The one place that every request of a session passes: slots, priorities, counting."""

from __future__ import annotations

import asyncio
import heapq
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from alance.limits import Limits
from alance.receipts import Receipt, RequestMeter, current_receipts, next_place, waited_for

__all__ = ["Cost", "RequestGate"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answered request moved, and what it was made of: see `RequestMeter.close`."""

    bytes_fetched: int = 0
    bytes_written: int = 0
    requests: int = 1
    rounds: int = 1


class RequestGate:
    """Lets at most `Limits.requests_max` requests out at once, the most urgent first.

    Parameters
    ----------
    limits
        Only `requests_max` is used.
    """

    def __init__(self, limits: Limits) -> None:
        self._requests_max = limits.requests_max
        self._line: _Line | None = None
        self._total = Receipt()

    @property
    def total(self) -> Receipt:
        """What the whole session sent; a shared request counts once here."""
        return self._total

    def count_used(self, num_bytes: int) -> None:
        """Count bytes that the caller asked for and got."""
        for one in (self._total, *current_receipts()):
            one.bytes_used += num_bytes

    def meter(self, kind: str) -> RequestMeter:
        """Start to count a request in the session and in the caller's receipts."""
        return RequestMeter(kind, (self._total, *current_receipts()))

    async def run(
        self,
        send: Callable[[], Awaitable[T]],
        *,
        meter: RequestMeter,
        cost: Callable[[T], Cost] | None = None,
        priority: int = 0,
    ) -> T:
        """Wait for a slot, then send a request and count it.

        Parameters
        ----------
        send
            Starts the request; called once, when a slot is free.
        meter
            From `meter`; closed here in any case.
        cost
            Reads the answer's cost; None counts no bytes.
        priority
            Lower goes first; equal ones in the order they came.

        Returns
        -------
        T
            The answer of `send`; its errors pass through.
        """
        answered, moved, place = False, Cost(), next_place()
        try:
            line = self._line_here()
            await line.acquire(priority)
            try:
                meter.sent()
                answer = await send()
                answered = True
                if cost is not None:
                    moved = cost(answer)
                return answer
            except Exception:
                answered = True
                raise
            finally:
                line.release()
        finally:
            if answered:
                waited_for(place + moved.rounds - 1)
            meter.close(
                answered=answered,
                bytes_fetched=moved.bytes_fetched,
                bytes_written=moved.bytes_written,
                requests=moved.requests,
                rounds=moved.rounds,
            )

    def _line_here(self) -> _Line:
        """Return the line on this loop; a loop that is gone takes its requests and slots along."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.loop() is not loop:
            self._line = _Line(loop, self._requests_max)
        return self._line


class _Line:
    """Slots of one event loop, and who stands in line for them."""

    __slots__ = ("_arrivals", "_free", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: int) -> None:
        # Weakly: a default session must not keep the loop alive that it is to die with.
        self.loop = weakref.ref(loop)
        self._free = slots
        self._waiting: list[tuple[int, int, anyio.Event]] = []
        self._arrivals = 0

    async def acquire(self, priority: int) -> None:
        """Take a slot, or stand in line for one."""
        if self._free > 0:
            self._free -= 1
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
        """Hand the slot to the most urgent in line, or keep it free."""
        loop = self.loop()
        if self._waiting and loop is not None and not loop.is_closed():
            heapq.heappop(self._waiting)[2].set()
        else:
            self._free += 1
