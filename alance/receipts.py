"""Receipts: what the calls inside a block cost in requests, rounds and bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from alance.telemetry import is_loaded, observed

__all__ = [
    "Receipt",
    "RequestMeter",
    "SharedReceipt",
    "current_receipts",
    "next_place",
    "one_call",
    "receipt",
    "waited_for",
    "waiting",
]

P = ParamSpec("P")
T = TypeVar("T")

_receipts: ContextVar[tuple[Receipt, ...]] = ContextVar("alance_receipts", default=())
_is_shown: ContextVar[bool] = ContextVar("alance_is_shown", default=False)
"""Whether this task works for a call that OpenTelemetry is shown."""
_chain: ContextVar[int] = ContextVar("alance_chain", default=0)
"""Requests that this task has waited for, one after the other, itself or in tasks it waited for."""


@dataclass(eq=False, slots=True)
class Receipt:
    """Counts of what was sent to object stores; read it during the block or after.

    Attributes
    ----------
    requests
        Requests sent, by kind: get, head, list, put, multipart, delete, ... A request that answers
        several calls at once counts in the receipt of each of them, once. One that is sent again
        counts again, and is one round more.
    rounds
        Length of the longest chain of requests of which each had to wait for the one before. Within
        a call, a request comes after those that its task, or tasks which that one waited for, have
        waited for. A call comes after all calls that had ended when none was under way; calls side
        by side are chains of their own. Waiting for a free slot (`Limits.requests_max`) adds
        nothing.
    bytes_fetched
        Bytes that stores answered with, those between merged ranges included.
    bytes_used
        Bytes that callers asked for and got. Rows that several calls look up together take their
        parts of it.
    bytes_written
        Bytes sent in puts.
    retries
        Requests sent again after a failure. What obstore repeats inside the parts of a long upload
        cannot be seen from here and is not counted.
    hedges
        Reads sent a second time because the first took long; see `Limits.hedge_budget`.
    wait_s
        Seconds during which at least one request was asked for and not yet answered.
    """

    requests: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    bytes_fetched: int = 0
    bytes_used: int = 0
    bytes_written: int = 0
    retries: int = 0
    hedges: int = 0
    _done_s: float = field(default=0.0, init=False)
    _base: int = field(default_factory=lambda: _chain.get(), init=False)
    _last: int = field(default=0, init=False)
    _calls: int = field(default=0, init=False)
    _open: int = field(default=0, init=False)
    _open_since: float = field(default=0.0, init=False)

    @property
    def num_requests(self) -> int:
        """Requests of all kinds together."""
        return sum(self.requests.values())

    @property
    def wait_s(self) -> float:
        """Seconds with a request open, see the class."""
        running = time.monotonic() - self._open_since if self._open else 0.0
        return self._done_s + running

    def figures(self) -> dict[str, int | float]:
        """All counts by name, requests of all kinds together."""
        return {
            "requests": self.num_requests,
            "rounds": self.rounds,
            "bytes_fetched": self.bytes_fetched,
            "bytes_used": self.bytes_used,
            "bytes_written": self.bytes_written,
            "retries": self.retries,
            "wait_s": self.wait_s,
        }

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.requests.items()))
        return (
            f"{_counted(self.num_requests, 'request')}{f' ({kinds})' if kinds else ''}"
            f" in {_counted(self.rounds, 'round')},"
            f" {self.bytes_fetched:,} bytes fetched, {self.bytes_used:,} used,"
            f" {self.bytes_written:,} written, {self.retries} retries, {self.wait_s:.3f} s waited"
        )

    def _begin(self) -> None:
        """Open a request."""
        if self._open == 0:
            self._open_since = time.monotonic()
        self._open += 1

    def _end(self) -> None:
        """Close a request."""
        self._open -= 1
        if self._open == 0:
            self._done_s += time.monotonic() - self._open_since


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def current_receipts() -> tuple[Receipt, ...]:
    """Receipts of the blocks around this call, outermost first."""
    return _receipts.get()


@contextmanager
def receipt() -> Generator[Receipt, None, None]:
    """Count what the calls in this block, and the tasks they start, send to object stores.

    Blocks nest; a request counts in every one around it.

    Yields
    ------
    Receipt
        Grows while the block runs.
    """
    mine = Receipt()
    token = _receipts.set((*_receipts.get(), mine))
    try:
        yield mine
    finally:
        _receipts.reset(token)


def next_place() -> int:
    """Place of a request that is asked for now, in the caller's chain."""
    for one in _receipts.get():
        if one._calls == one._open == 0:
            waited_for(one._base + one._last)
    return _chain.get() + 1


def waited_for(place: int) -> None:
    """Take note that the caller has waited for a request at this place: its next come after it."""
    if place > _chain.get():
        _chain.set(place)


def one_call(
    function: Callable[P, Coroutine[Any, Any, T]], *, name: str | None = None
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Mark a coroutine function as one call: its requests follow one another only where they must.

    What runs inside, in any task, is then known not to have waited for a sibling that is done. A
    call that is not part of another one is shown to OpenTelemetry, if the program uses that.

    Parameters
    ----------
    name
        What OpenTelemetry shall call it; None takes the function's.
    """
    shown = name or function.__name__

    async def counted(*args: P.args, **kwargs: P.kwargs) -> T:
        next_place()
        receipts = _receipts.get()
        for one in receipts:
            one._calls += 1
        try:
            return await function(*args, **kwargs)
        finally:
            for one in receipts:
                one._calls -= 1

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _is_shown.get() or not is_loaded():
            return await counted(*args, **kwargs)
        token = _is_shown.set(True)
        try:
            with receipt() as spent, observed(shown, spent.figures):
                return await counted(*args, **kwargs)
        finally:
            _is_shown.reset(token)

    return call


@contextmanager
def waiting() -> Generator[None, None, None]:
    """Count the time in this block as waited, in the caller's receipts."""
    receipts = _receipts.get()
    for one in receipts:
        one._begin()
    try:
        yield
    finally:
        for one in receipts:
            one._end()


@dataclass(slots=True)
class _Part:
    """What a receipt has to do with shared work: its share, and where in its chain this begins."""

    weight: int
    place: int


class SharedReceipt(Receipt):
    """Stands for the receipts of several callers in the task that works for all of them.

    A request counts in each of these once, as sent after all that its callers had waited for.
    """

    __slots__ = ("_parts", "_weight")

    def __init__(self) -> None:
        super().__init__()
        self._base = 0
        self._calls = 1  # all of it is one call
        self._parts: dict[Receipt, _Part] = {}
        self._weight = 0

    def join(self, receipts: Iterable[Receipt], place: int, weight: int = 1) -> None:
        """Count for a caller.

        Parameters
        ----------
        receipts
            Those of the caller.
        place
            Of the next request in the caller's chain.
        weight
            The caller's share of the bytes used, such as rows, at least 1.
        """
        self._weight += weight
        for one in receipts:
            part = self._parts.setdefault(one, _Part(0, place))
            part.weight += weight
            part.place = max(part.place, place)

    def leave(self, receipts: Iterable[Receipt], weight: int) -> None:
        """Count no more for a caller than what has been sent."""
        for one in receipts:
            part = self._parts[one]
            part.weight -= weight
            if not part.weight:
                del self._parts[one]

    @contextmanager
    def counting(self) -> Generator[None, None, None]:
        """Count what is sent in this block, in a context of its own, for all who have joined."""
        token = _receipts.set((self,))
        try:
            yield
        finally:
            _receipts.reset(token)
            for one, part in self._parts.items():
                one.bytes_used += self.bytes_used * part.weight // self._weight

    def places(self, place: int) -> list[tuple[Receipt, int]]:
        """Receipts that count a request, and its place there, given that in the shared work."""
        return [(one, part.place + place - 1) for one, part in self._parts.items()]


def _places(receipts: Iterable[Receipt], place: int) -> list[tuple[Receipt, int]]:
    """Receipts that count a request at a place of the running task's chain, and its place there."""
    found: list[tuple[Receipt, int]] = []
    for one in receipts:
        found += one.places(place) if isinstance(one, SharedReceipt) else [(one, place)]
    return found


class RequestMeter:
    """One request on its way, seen by the receipts it counts in.

    `join`, then `sent` when it leaves, again for each retry, then `close` in any case. Receipts may
    join late.

    Parameters
    ----------
    kind
        The key in `Receipt.requests`.
    receipts
        The first to count it.
    """

    __slots__ = ("_closed", "_kind", "_places", "_sent")

    def __init__(self, kind: str, receipts: Iterable[Receipt]) -> None:
        self._kind = kind
        self._places: dict[Receipt, int] = {}
        self._sent = False
        self._closed = False
        self.join(receipts)

    def join(self, receipts: Iterable[Receipt], place: int | None = None) -> None:
        """Count the request in these receipts too.

        Parameters
        ----------
        receipts
            Those of one caller.
        place
            In that caller's chain; None takes it from the running task.
        """
        place = next_place() if place is None else place
        for one, its_place in _places(receipts, place):
            if one not in self._places and not self._closed:
                self._places[one] = its_place - one._base
                one._begin()
                if self._sent:
                    self._count(one)

    def sent(self) -> None:
        """Record that the request leaves now; from the second time on it is a retry."""
        for one in self._places:
            self._count(one)
            one.retries += self._sent
        self._sent = True

    def hedged(self) -> None:
        """Record that a second request leaves beside the first, for the same answer."""
        for one in self._places:
            self._count(one)
            one.hedges += 1

    def close(
        self,
        *,
        answered: bool,
        bytes_fetched: int = 0,
        bytes_written: int = 0,
        requests: int = 1,
        rounds: int = 1,
    ) -> None:
        """Record the end of the request; only the first call counts.

        Parameters
        ----------
        answered
            Whether the store said anything, an error included; False for a cancelled request.
        bytes_fetched, bytes_written
            Size of the answer, or of what was stored.
        requests, rounds
            How many requests this one was made of (the pages of a listing, the parts of an
            upload), and the length of the longest chain among them; at least 1 each.
        """
        if self._closed:
            return
        self._closed = True
        for one, place in self._places.items():
            if self._sent:
                one.requests[self._kind] += requests - 1
                one.rounds = max(one.rounds, place + rounds - 1)
                if answered:
                    one._last = max(one._last, place + rounds - 1)
            one.bytes_fetched += bytes_fetched
            one.bytes_written += bytes_written
            one._end()

    def _count(self, one: Receipt) -> None:
        one.requests[self._kind] = one.requests.get(self._kind, 0) + 1
        one.rounds = max(one.rounds, self._places[one])
