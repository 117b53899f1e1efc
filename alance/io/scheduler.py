"""One scheduler per session: what any task asks for in one tick is planned together."""

from __future__ import annotations

import asyncio
import sys
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import anyio
import anyio.to_thread

from alance._aio import OwnedTasks, own_copy
from alance.errors import InvalidInputError, StoreError
from alance.io.coalesce import cut, locate, plan_requests
from alance.io.gate import Cost, Kind, RequestGate
from alance.io.store import ObjectStore
from alance.limits import Limits
from alance.receipts import Receipt, RequestMeter, current_receipts, next_place, waited_for
from alance.types import ByteRange

__all__ = ["Scheduler"]

_Target: TypeAlias = tuple[ObjectStore, str]
_Key: TypeAlias = tuple[int, str]
_LEAST_URGENT = sys.maxsize
JOINED_AT_ONCE_BYTES = 256 << 10
"""More is put together in a thread: a copy of it would hold the loop."""


class Scheduler:
    """Turns the byte ranges that tasks ask for into few requests, shared where they can be.

    Ranges asked for in the same tick of the event loop, by any task, are planned together for each
    object: the same bytes are fetched once, neighbours are merged, long ranges split while there
    are connections for their parts. A range that lies within requests already under way waits for
    those. A request ends early when every task that waits for it has been cancelled.

    Parameters
    ----------
    limits
        `request_bytes_max` is used.
    gate
        Where the session's requests pass.
    joiners
        Threads that may put long ranges together.

    Notes
    -----
    Belongs to one event loop at a time. A loop that was closed with requests under way leaves
    nothing behind that a later loop would wait for.
    """

    def __init__(self, limits: Limits, gate: RequestGate, joiners: anyio.CapacityLimiter) -> None:
        self._limits = limits
        self._gate = gate
        self._joiners = joiners
        self._state: _LoopState | None = None

    async def get_ranges(
        self, store: ObjectStore, path: str, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> list[memoryview]:
        """Read byte ranges of one object.

        Parameters
        ----------
        store, path
            The object; requests are shared between callers that pass the same store object.
        ranges
            Half-open, in bytes, any order; may repeat and overlap. The caller has checked them
            against the object's size. Length n.
        priority
            Lower goes first when more is planned than may be under way. A request has the priority
            of its most urgent range; one that is joined later keeps the priority it has.

        Returns
        -------
        list of memoryview
            n views, in the order of `ranges`: views into the answers, which stay alive as long as
            one of their views; a copy only for a range so long that it was split.

        Raises
        ------
        InvalidInputError
            A range is negative or ends before it starts.
        ObjectNotFoundError, PermissionDeniedError, StoreTimeoutError, StoreError
            The first request that failed; each caller gets its own exception.

        Notes
        -----
        Requests: as few as planned, all started together. Cancellation: safe; others that wait
        for the same request are not disturbed. A request that fails, fails for every range in it,
        which is why ranges past the end of the object must not come here.
        """
        for one in ranges:
            if not 0 <= one.start <= one.stop:
                raise InvalidInputError(f"{path}: [{one.start}, {one.stop}) is not a byte range")
        receipts = (self._gate.total, *current_receipts())
        if any(one.num_bytes for one in ranges):
            ask = _Ask((store, path), ranges, priority, receipts)
            self._add(ask)
            try:
                await ask.answered
            except asyncio.CancelledError:
                ask.leave()
                raise
            finally:
                waited_for(ask.place)
            if ask.joined_bytes <= JOINED_AT_ONCE_BYTES:
                views = ask.views()
            else:
                views = await anyio.to_thread.run_sync(ask.views, limiter=self._joiners)
        else:
            views = [memoryview(b"") for _ in ranges]
        num_bytes = sum(view.nbytes for view in views)
        for receipt in receipts:
            receipt.bytes_used += num_bytes
        return views

    def _add(self, ask: _Ask) -> None:
        """Put an ask into the batch of this tick."""
        loop = asyncio.get_running_loop()
        if self._state is None or self._state.loop() is not loop:
            self._state = _LoopState(loop)
        state = self._state
        if not state.batch:
            loop.call_soon(self._flush, state)
        state.batch.append(ask)

    def _flush(self, state: _LoopState) -> None:
        """Plan what was asked for since the last flush and start the requests."""
        batch, state.batch = state.batch, []
        by_object: dict[_Key, list[_Ask]] = {}
        for ask in batch:
            if not ask.answered.done():
                store, path = ask.target
                by_object.setdefault((id(store), path), []).append(ask)
        for key, asks in by_object.items():
            try:
                self._start(state, key, asks)
            except Exception as exc:  # nobody is above a loop's callback, but the asks wait
                for ask in asks:
                    ask.fail(exc)

    def _start(self, state: _LoopState, key: _Key, asks: list[_Ask]) -> None:
        """Start the requests that these asks of one object need."""
        under_way = [one for one in state.under_way.get(key, ()) if one.waiters]
        planned = self._plan(state, asks, under_way)
        if planned:
            state.under_way.setdefault(key, {}).update(dict.fromkeys(planned))
        for request in planned:
            request.task = state.tasks.start(
                self._fetch(request), partial(state.finish, key, request)
            )

    def _plan(
        self, state: _LoopState, asks: list[_Ask], under_way: list[_Request]
    ) -> list[_Request]:
        """Requests to start for these asks of one object; each ask is told who answers it."""
        under_way = sorted(under_way, key=_start)
        serving: dict[ByteRange, Sequence[_Request]] = {}
        missing: dict[ByteRange, int] = {}
        for ask in asks:
            for one in ask.ranges:
                if not one.num_bytes or one in serving:
                    continue
                if one not in missing:
                    shared = self._covering(one, under_way)
                    if shared:
                        serving[one] = shared
                        continue
                missing[one] = min(ask.priority, missing.get(one, ask.priority))
        link = self._gate.link(asks[0].target[0])
        extents = plan_requests(
            missing,
            gap_bytes_max=link.merge_gap_bytes,
            request_bytes_max=link.request_bytes(
                sum(one.num_bytes for one in missing), link.window.num_slots - len(state.tasks)
            ),
        )
        planned = [_Request(asks[0].target, extent) for extent in extents]
        for one, priority in missing.items():
            serving[one] = planned[locate(one, extents)]
            for request in serving[one]:
                request.priority = min(priority, request.priority)
        for ask in asks:
            ask.wait_for(serving)
        return planned

    def _covering(self, one: ByteRange, under_way: Sequence[_Request]) -> Sequence[_Request]:
        """Requests that hold all of a range, one or a chain of parts; none where some is missing.

        Parameters
        ----------
        under_way
            Sorted by start. Of several that would do, the latest-starting.
        """
        earliest = one.start - self._limits.request_bytes_max
        for place in range(bisect_right(under_way, one.start, key=_start) - 1, -1, -1):
            if under_way[place].extent.start < earliest:
                break
            chain = _chain(one.start, one.stop, under_way, place)
            if chain:
                return chain
        return ()

    async def _fetch(self, request: _Request) -> memoryview:
        """Send one planned request."""
        store, path = request.target
        start, stop = request.extent.start, request.extent.stop
        answer = await self._gate.run(
            partial(store.get_range, path, start, stop),
            link=self._gate.link(store),
            meter=request.meter,
            cost=_cost_of_answer,
            priority=request.priority,
            kind=Kind(read_bytes=stop - start),
        )
        if answer.nbytes != stop - start:
            raise StoreError(
                f"{store.url}/{path}: asked for bytes [{start}, {stop}), got {answer.nbytes} bytes",
                path=path,
            )
        return answer


class _LoopState:
    """What is asked for and under way on one event loop; a loop that is gone takes it along."""

    __slots__ = ("batch", "loop", "tasks", "under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weakly: a default session must not keep the loop alive that it is to die with.
        self.loop = weakref.ref(loop)
        self.batch: list[_Ask] = []
        self.under_way: dict[_Key, dict[_Request, None]] = {}
        self.tasks = OwnedTasks()

    def finish(self, key: _Key, request: _Request, task: asyncio.Task[memoryview]) -> None:
        """Give the outcome of a request to all who wait for it."""
        request.meter.close(answered=False)
        beside = self.under_way[key]
        del beside[request]
        if not beside:
            del self.under_way[key]
        # Requests and those who wait for them hold one another, and the answer's bytes with them;
        # without a cycle the bytes go with their last view, not when the collector comes.
        waiters = tuple(request.waiters)
        request.waiters.clear()
        request.task = None
        if task.cancelled():
            for ask in waiters:
                ask.answered.cancel()
        elif (error := task.exception()) is not None:
            for ask in waiters:
                ask.fail(error)
        else:
            request.answer = task.result()
            for ask in waiters:
                ask.answer_from(request)


class _Request:
    """A request planned or under way, and who waits for it."""

    __slots__ = ("answer", "extent", "meter", "priority", "target", "task", "waiters")

    def __init__(self, target: _Target, extent: ByteRange) -> None:
        self.target = target
        self.extent = extent
        self.meter = RequestMeter("get", ())
        self.priority = _LEAST_URGENT
        self.waiters: dict[_Ask, None] = {}  # a dict for its order: runs can be repeated
        self.answer = memoryview(b"")
        self.task: asyncio.Task[memoryview] | None = None

    def drop(self, ask: _Ask) -> None:
        """Forget a waiter; without waiters the request ends."""
        self.waiters.pop(ask, None)
        if not self.waiters and self.task is not None:
            self.task.cancel()


class _Ask:
    """The ranges one caller waits for."""

    __slots__ = (
        "_open",
        "_serving",
        "answered",
        "place",
        "priority",
        "ranges",
        "receipts",
        "target",
    )

    def __init__(
        self,
        target: _Target,
        ranges: Sequence[ByteRange],
        priority: int,
        receipts: Iterable[Receipt],
    ) -> None:
        self.target = target
        self.ranges = ranges
        self.priority = priority
        self.receipts = receipts
        self.place = next_place()
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving: Mapping[ByteRange, Sequence[_Request]] = {}
        self._open: dict[_Request, None] = {}

    def wait_for(self, serving: Mapping[ByteRange, Sequence[_Request]]) -> None:
        """Join the requests that hold the ranges."""
        self._serving = {one: serving[one] for one in self.ranges if one.num_bytes}
        self._open = {request: None for found in self._serving.values() for request in found}
        for request in self._open:
            request.waiters[self] = None
            request.meter.join(self.receipts, self.place)

    def leave(self) -> None:
        """Stop waiting; requests that only this ask waits for end."""
        left, self._open = self._open, {}
        for request in left:
            request.drop(self)

    def answer_from(self, request: _Request) -> None:
        """Take note that a request was answered; wake the caller after the last."""
        self._open.pop(request, None)
        if not self._open and not self.answered.done():
            self.answered.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Wake the caller with its own copy of an error."""
        if not self.answered.done():
            self.answered.set_exception(own_copy(error))
        self.leave()

    @property
    def joined_bytes(self) -> int:
        """Bytes of ranges that came in parts."""
        return sum(one.num_bytes for one, found in self._serving.items() if len(found) > 1)

    def views(self) -> list[memoryview]:
        """Bytes of the ranges, once `answered`; what came in parts is copied, once."""
        found = {
            one: cut(one, [r.extent for r in requests], [r.answer for r in requests])
            for one, requests in self._serving.items()
        }
        return [found[one] if one.num_bytes else memoryview(b"") for one in self.ranges]


def _chain(start: int, stop: int, under_way: Sequence[_Request], place: int) -> Sequence[_Request]:
    """Requests that hold [start, stop), each beginning where the last one ends; none if one lacks.

    The first is that at `place`.
    """
    chain = [under_way[place]]
    end = under_way[place].extent.stop
    while start < end < stop:
        place = bisect_left(under_way, end, key=_start)
        if place == len(under_way) or under_way[place].extent.start != end:
            return ()
        chain.append(under_way[place])
        end = under_way[place].extent.stop
    return chain if end >= stop else ()


def _cost_of_answer(answer: memoryview) -> Cost:
    return Cost(bytes_fetched=answer.nbytes)


def _start(request: _Request) -> int:
    return request.extent.start
