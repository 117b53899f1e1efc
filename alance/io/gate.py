"""The one place that every request of a session passes: slots, retries, learning, counting."""

from __future__ import annotations

import asyncio
import random
import time
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from alance.errors import StoreError, StoreTimeoutError
from alance.io.hedge import first_answer
from alance.io.link import Link, StoreStats
from alance.io.retry import RetryBudget, is_refused_for_now, may_repeat, pause_s
from alance.io.slots import Line, Slots
from alance.io.store import ObjectStore
from alance.limits import Limits
from alance.receipts import Receipt, RequestMeter, current_receipts, next_place, waited_for

__all__ = ["Clock", "Cost", "Kind", "RequestGate"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answered request moved, and what it was made of: see `RequestMeter.close`."""

    bytes_fetched: int = 0
    bytes_written: int = 0
    requests: int = 1
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """How a request may be treated.

    Parameters
    ----------
    idempotent
        Whether it may be sent again after a failure that leaves its effect open.
    bounded
        Whether `Limits.request_timeout_s` holds; not for what is made of many requests.
    read_bytes
        Expected size of the answer, of a read; None for others.
    """

    idempotent: bool = True
    bounded: bool = True
    read_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, for tests to replace."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep


class RequestGate:
    """Lets at most `Limits.requests_max` requests out at once, the most urgent first.

    A failure that may pass is tried again, within the limits; a store that asks to be asked less is
    asked less.

    Parameters
    ----------
    limits
        Of requests, retries, time and hedges.
    clock, rng
        Time; and chance, for the jitter of pauses. None for one of its own.
    """

    def __init__(
        self, limits: Limits, *, clock: Clock | None = None, rng: random.Random | None = None
    ) -> None:
        self._limits = limits
        self._clock = clock or Clock()
        self._rng = rng or random.Random()
        self._slots = Slots(limits.requests_max)
        self._retries = RetryBudget(limits.retry_budget)
        self._links: weakref.WeakKeyDictionary[ObjectStore, Link] = weakref.WeakKeyDictionary()
        self._total = Receipt()

    @property
    def total(self) -> Receipt:
        """What the whole session sent; a shared request counts once here."""
        return self._total

    @property
    def store_stats(self) -> tuple[StoreStats, ...]:
        """What is known of each store."""
        return tuple(link.stats for link in self._links.values())

    def link(
        self, store: ObjectStore, *, limits: Limits | None = None, learns: bool = False
    ) -> Link:
        """Return the link to a store; made at first, then `limits` and `learns` count."""
        found = self._links.get(store)
        if found is None:
            found = self._links[store] = Link(store, limits or self._limits, learns=learns)
        return found

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
        link: Link,
        meter: RequestMeter,
        cost: Callable[[T], Cost] | None = None,
        priority: int = 0,
        kind: Kind = Kind(),
    ) -> T:
        """Wait for a slot, then send a request and count it; again, if it fails and may pass.

        Parameters
        ----------
        send
            Starts the request; called once for each try, when a slot is free.
        link
            To the store that it goes to.
        meter
            From `meter`; closed here in any case.
        cost
            Reads the answer's cost; None counts no bytes.
        priority
            Lower goes first; equal ones in the order they came.
        kind
            Whether and how it may be sent again.

        Returns
        -------
        T
            The answer of `send`; the errors of its last try pass through.

        Raises
        ------
        StoreTimeoutError
            No answer in `Limits.request_timeout_s`, after retries.
        """
        answered, moved, place, tries = False, Cost(), next_place(), 0
        start_s = self._clock.now_s()
        try:
            while True:
                try:
                    answer = await self._try(send, link, meter, priority, kind)
                except StoreError as exc:
                    answered, tries = True, tries + 1
                    pause = self._pause_s(link, exc, tries, start_s, kind)
                    if pause is None:
                        raise
                except Exception:
                    answered, tries = True, tries + 1
                    raise
                else:
                    answered, tries = True, tries + 1
                    self._retries.give_back()
                    moved = moved if cost is None else cost(answer)
                    return answer
                await self._clock.sleep(pause)
        finally:
            rounds = moved.rounds + max(tries - 1, 0)
            if answered:
                waited_for(place + rounds - 1)
            meter.close(
                answered=answered,
                bytes_fetched=moved.bytes_fetched,
                bytes_written=moved.bytes_written,
                requests=moved.requests,
                rounds=rounds,
            )

    def _pause_s(
        self, link: Link, error: StoreError, tries: int, start_s: float, kind: Kind
    ) -> float | None:
        """Time before the next try, or None to give up."""
        if not may_repeat(error, idempotent=kind.idempotent):
            return None
        spent_s = self._clock.now_s() - start_s
        pause = pause_s(tries, spent_s, link.limits, self._rng)
        if pause is None or not self._retries.take():
            error.add_note(f"given up after {tries} tries in {spent_s:.1f} s")
            return None
        return pause

    async def _try(
        self,
        send: Callable[[], Awaitable[T]],
        link: Link,
        meter: RequestMeter,
        priority: int,
        kind: Kind,
    ) -> T:
        """Send a request once, in a slot of its store and one of the session."""
        ours, all_slots = link.slots.line(), self._slots.line()
        await ours.acquire(priority)
        try:
            await all_slots.acquire(priority)
            try:
                return await self._send(send, link, meter, kind)
            finally:
                all_slots.release()
        finally:
            ours.release()

    async def _send(
        self, send: Callable[[], Awaitable[T]], link: Link, meter: RequestMeter, kind: Kind
    ) -> T:
        """Send a request now, and learn from what becomes of it."""
        meter.sent()
        epoch, start_s = link.window.epoch, self._clock.now_s()
        late_s = None
        if self._limits.hedge_budget > 0 and kind.read_bytes is not None:
            late_s = link.times.late_after_s(kind.read_bytes)
        limit_s = self._limits.request_timeout_s if kind.bounded else None
        try:
            # Not a cancel scope of anyio: in a loop that is closed too soon those last for ever.
            async with asyncio.timeout(limit_s) as deadline:
                if late_s is None:
                    answer = await send()
                else:
                    answer = await self._send_hedged(send, link, meter, late_s)
        except TimeoutError as exc:
            if isinstance(exc, StoreError) or not deadline.expired():
                raise
            message = f"{link.url}: no answer in {limit_s} s"
            raise StoreTimeoutError(message, transient=True) from exc
        except StoreError as exc:
            if is_refused_for_now(exc):
                link.refused(epoch)
            raise
        link.answered(kind.read_bytes, self._clock.now_s() - start_s)
        return answer

    async def _send_hedged(
        self, send: Callable[[], Awaitable[T]], link: Link, meter: RequestMeter, late_s: float
    ) -> T:
        """Send a read, and the same once more if it takes longer than others have taken."""
        lines = (link.slots.line(), self._slots.line())
        held: list[Line] = []

        async def is_late() -> bool:
            await self._clock.sleep(late_s)
            total = self._total
            if total.hedges >= total.requests.get("get", 0) * self._limits.hedge_budget:
                return False
            for line in lines:
                if not line.take_free():
                    return False
                held.append(line)
            meter.hedged()
            return True

        try:
            return await first_answer(send, send, may_send_again=is_late)
        finally:
            for line in held:
                line.release()
