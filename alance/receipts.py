"""Receipts: what the calls inside a block cost in requests, rounds and bytes."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["Receipt", "RequestMeter", "current_receipts", "receipt"]

_receipts: ContextVar[tuple[Receipt, ...]] = ContextVar("alance_receipts", default=())


@dataclass(eq=False, slots=True)
class Receipt:
    """Counts of what was sent to object stores; read it during the block or after.

    Attributes
    ----------
    requests
        Requests sent, by kind: get, head, list, put, put_part, delete, ... A request that answers
        several calls at once counts in the receipt of each of them, once.
    rounds
        Length of the longest chain of requests that had to wait for one another. A request's place
        in the chain is 1 + the highest place of a request of this receipt that was answered before
        this one was asked for; waiting for a free slot (`Limits.requests_max`) adds nothing.
    bytes_fetched
        Bytes that stores answered with, those between merged ranges included.
    bytes_used
        Bytes that callers asked for and got.
    bytes_written
        Bytes sent in puts.
    retries
        Requests sent again by alance. What obstore repeats inside a request cannot be seen from
        here and is not counted.
    wait_s
        Seconds during which at least one request was asked for and not yet answered.
    """

    requests: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    bytes_fetched: int = 0
    bytes_used: int = 0
    bytes_written: int = 0
    retries: int = 0
    _done_s: float = field(default=0.0, init=False)
    _answered_round: int = field(default=0, init=False)
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

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.requests.items()))
        return (
            f"{_counted(self.num_requests, 'request')}{f' ({kinds})' if kinds else ''}"
            f" in {_counted(self.rounds, 'round')},"
            f" {self.bytes_fetched:,} bytes fetched, {self.bytes_used:,} used,"
            f" {self.bytes_written:,} written, {self.retries} retries, {self.wait_s:.3f} s waited"
        )

    def _begin(self) -> int:
        """Open a request; its round."""
        if self._open == 0:
            self._open_since = time.monotonic()
        self._open += 1
        return self._answered_round + 1

    def _end(self, answered_round: int) -> None:
        """Close a request, answered in this round, or 0 when it never was."""
        self._open -= 1
        if self._open == 0:
            self._done_s += time.monotonic() - self._open_since
        self._answered_round = max(self._answered_round, answered_round)


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


class RequestMeter:
    """One request on its way, seen by the receipts it counts in.

    `join`, then `sent` when it leaves, then `close` in any case. Receipts may join late.

    Parameters
    ----------
    kind
        The key in `Receipt.requests`.
    receipts
        The first to count it.
    """

    __slots__ = ("_closed", "_kind", "_rounds", "_sent")

    def __init__(self, kind: str, receipts: Iterable[Receipt]) -> None:
        self._kind = kind
        self._rounds: dict[Receipt, int] = {}
        self._sent = False
        self._closed = False
        self.join(receipts)

    def join(self, receipts: Iterable[Receipt]) -> None:
        """Count the request in these receipts too."""
        for one in receipts:
            if one not in self._rounds and not self._closed:
                self._rounds[one] = one._begin()
                if self._sent:
                    self._count(one)

    def sent(self) -> None:
        """Record that the request leaves now."""
        self._sent = True
        for one in self._rounds:
            self._count(one)

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
        for one, place in self._rounds.items():
            last = place + rounds - 1
            if self._sent:
                one.requests[self._kind] += requests - 1
                one.rounds = max(one.rounds, last)
            one.bytes_fetched += bytes_fetched
            one.bytes_written += bytes_written
            one._end(last if answered and self._sent else 0)

    def _count(self, one: Receipt) -> None:
        one.requests[self._kind] = one.requests.get(self._kind, 0) + 1
        one.rounds = max(one.rounds, self._rounds[one])
