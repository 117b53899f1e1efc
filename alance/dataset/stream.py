"""Reading a scan's windows: ahead of the consumer, within the byte budget, delivered in order."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import anyio.abc
import pyarrow as pa
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from alance._aio import OwnedTasks, first_error
from alance.dataset.fragment import FragmentReader, Places, open_fragment
from alance.dataset.projection import Projection
from alance.dataset.rebatch import Rebatcher
from alance.dataset.windows import Slice, cut_windows, slice_rows
from alance.encodings.rows import RowRanges
from alance.table.manifest import Fragment

__all__ = ["BatchStream", "ScanOptions", "read_rows"]

FRAGMENTS_AHEAD = 16
"""Fragments being opened before their turn."""
WINDOWS_AHEAD = 16
"""Windows under way or waiting for delivery; the byte budget may allow fewer."""
INLINE_BYTES = 64 * 1024
"""Below this, decoding at once costs less than the way to a thread."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What a scan reads; checked by whoever makes it."""

    projection: Projection
    fragments: tuple[Fragment, ...]
    limit: int | None = None
    offset: int = 0
    batch_size: int | None = None
    ordered: bool = True

    def slices(self) -> list[Slice]:
        """Rows to read: limit and offset are applied here where no filter stands before them."""
        if self.projection.filter is None:
            return slice_rows(self.fragments, self.offset, self.limit)
        return slice_rows(self.fragments, 0, None)

    def rebatcher(self) -> Rebatcher:
        """Cuts what was read to size: to offset and limit only after a filter."""
        if self.projection.filter is None:
            return Rebatcher(self.batch_size)
        return Rebatcher(self.batch_size, offset=self.offset, limit=self.limit)


class BatchStream(AsyncIterator[pa.RecordBatch]):
    """One run of a scan; dropping it stops the run."""

    def __init__(self, places: Places, options: ScanOptions) -> None:
        send, self._receive = anyio.create_memory_object_stream[pa.RecordBatch](0)
        self._run: _Run | None = _Run(places, options, send)
        self._task: asyncio.Task[None] | None = None
        self._ended = anyio.Event()
        self._failure: list[Exception] = []

    async def __anext__(self) -> pa.RecordBatch:
        if self._run is not None:
            run, self._run = self._run, None
            self._start(run)
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            await self._ended.wait()
        if self._failure:
            raise self._failure.pop()
        raise StopAsyncIteration

    def _start(self, run: _Run) -> None:
        failure, ended = self._failure, self._ended

        async def work() -> None:
            # An error belongs to whoever iterates; when nobody does any more, to no one.
            try:
                await run.produce()
            except Exception as exc:
                failure.append(exc)

        # No task group can own this: it outlives the call that starts it, and ends with the object.
        # The caller's context goes along, so that requests count in the caller's receipts.
        self._task = OwnedTasks().start(
            work(), lambda task: ended.set(), context=contextvars.copy_context()
        )

    async def aclose(self) -> None:
        """Stop reading; returns when no request is under way and no budget is held."""
        self._run = None
        self._receive.close()
        if self._task is not None:
            self._task.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    def __del__(self) -> None:
        self._receive.close()
        task = self._task
        if task is not None and not task.done():
            loop = task.get_loop()
            if not loop.is_closed():
                # The collector may run in any thread.
                loop.call_soon_threadsafe(task.cancel)


@dataclass(eq=False, slots=True)
class _Slot:
    """A window on its way: its batch arrives here, in whatever order windows finish."""

    charged: int
    done: anyio.Event = field(default_factory=anyio.Event)
    batch: pa.RecordBatch | None = None


class _Run:
    """The producing side: opens fragments ahead, reads windows ahead, sends batches."""

    def __init__(
        self,
        places: Places,
        options: ScanOptions,
        send: MemoryObjectSendStream[pa.RecordBatch],
    ) -> None:
        self._places = places
        self._options = options
        self._send = send
        self._budget = places.session.budget
        self._held = 0
        self._window_slots = anyio.Semaphore(WINDOWS_AHEAD)

    async def produce(self) -> None:
        """Run to the end, to the limit, or until cancelled."""
        queue, slots = anyio.create_memory_object_stream[_Slot](math.inf)
        try:
            with first_error():
                async with self._send, slots, anyio.create_task_group() as tg:
                    tg.start_soon(self._read_ahead, queue)
                    # Broken: the consumer has left.
                    with suppress(anyio.BrokenResourceError):
                        await self._deliver(slots)
                    tg.cancel_scope.cancel()
        finally:
            self._budget.release(self._held)

    async def _read_ahead(self, queue: MemoryObjectSendStream[_Slot]) -> None:
        """Start one task a window, as far ahead as budget and number of windows allow."""
        options, number = self._options, 0
        slices = options.slices()
        opening = _Opening(self._places, options.projection, slices)
        async with queue, anyio.create_task_group() as tg:
            for i, wanted in enumerate(slices):
                reader = await opening.get(i, tg)
                for window in cut_windows(reader, wanted, options.batch_size):
                    await self._window_slots.acquire()
                    await self._budget.acquire(window.num_bytes)
                    self._held += window.num_bytes
                    slot = _Slot(window.num_bytes)
                    if options.ordered:
                        await queue.send(slot)
                    tg.start_soon(self._read, reader, window.rows, slot, number, queue)
                    number += 1

    async def _read(
        self,
        reader: FragmentReader,
        rows: RowRanges,
        slot: _Slot,
        number: int,
        queue: MemoryObjectSendStream[_Slot],
    ) -> None:
        """Fetch and decode a window, then hand it over."""
        projection = self._options.projection
        slot.batch = await read_rows(self._places, reader, projection, rows, priority=number)
        slot.done.set()
        if not self._options.ordered:
            await queue.send(slot)

    async def _deliver(self, slots: MemoryObjectReceiveStream[_Slot]) -> None:
        """Send batches, cut to size, as their windows come up; stop at the limit."""
        rebatcher = self._options.rebatcher()
        if rebatcher.is_full():
            return
        async for slot in slots:
            await slot.done.wait()
            assert slot.batch is not None
            for batch in rebatcher.add(slot.batch):
                await self._send.send(batch)
            slot.batch = None
            self._held -= slot.charged
            self._budget.release(slot.charged)
            self._window_slots.release()
            if rebatcher.is_full():
                return
        for batch in rebatcher.rest():
            await self._send.send(batch)


class _Opening:
    """Fragments being opened, a few ahead of the one that is read."""

    def __init__(self, places: Places, projection: Projection, slices: list[Slice]) -> None:
        self._places = places
        self._projection = projection
        self._slices = slices
        self._started = 0
        self._opened: dict[int, FragmentReader] = {}
        self._ready: dict[int, anyio.Event] = {}

    async def get(self, number: int, tg: anyio.abc.TaskGroup) -> FragmentReader:
        """Wait for a fragment; starts to open the next ones in `tg`."""
        while self._started < min(number + FRAGMENTS_AHEAD, len(self._slices)):
            ready = self._ready[self._started] = anyio.Event()
            tg.start_soon(self._open, self._started, ready)
            self._started += 1
        await self._ready.pop(number).wait()
        return self._opened.pop(number)

    async def _open(self, number: int, ready: anyio.Event) -> None:
        fragment = self._slices[number].fragment
        self._opened[number] = await open_fragment(self._places, fragment, self._projection)
        ready.set()


async def read_rows(
    places: Places,
    reader: FragmentReader,
    projection: Projection,
    rows: RowRanges,
    *,
    priority: int = 0,
) -> pa.RecordBatch:
    """Read rows of one fragment, by offset, into one batch of the projection's schema."""
    decode, num_bytes = await reader.fetch(projection, rows, priority=priority)

    def work() -> pa.RecordBatch:
        addresses = reader.addresses(rows) if projection.needs_addresses else None
        return projection.finish(decode(), rows.num_rows, addresses)

    if num_bytes < INLINE_BYTES:
        return work()
    return await places.session.run_in_thread(work)
