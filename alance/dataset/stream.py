"""Reading a scan's windows: ahead of the consumer, within the byte budget, delivered in order."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio
import anyio.abc
import pyarrow as pa
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from alance._aio import OwnedTasks, first_error, run_to_end
from alance.dataset.fragment import FragmentReader, Places, open_fragment
from alance.dataset.projection import Projection
from alance.dataset.rebatch import Rebatcher
from alance.dataset.windows import Slice, cut_windows, slice_rows
from alance.encodings.rows import RowRanges
from alance.receipts import next_place, one_call, waited_for
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
    find_fragments: Callable[[], Awaitable[tuple[Fragment, ...]]] | None = None
    """Asked when reading begins, where `fragments` are not known before."""

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
        self._handover = _Handover()
        self._run: _Run | None = _Run(places, options, self._handover)
        self._task: asyncio.Task[None] | None = None

    async def __anext__(self) -> pa.RecordBatch:
        if self._run is not None:
            run, self._run = self._run, None
            # No task group can own this: it outlives the call that starts it, and ends with the
            # object. The caller's context goes along: requests count in the caller's receipts.
            self._task = OwnedTasks().start(
                run.produce(), self._handover.end, context=contextvars.copy_context()
            )
        batch = await self._handover.take()
        waited_for(self._handover.place - 1)
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Stop reading; returns when no request is under way and no budget is held."""
        self._run = None
        self._handover.close()
        if self._task is not None:
            self._task.cancel()
            await run_to_end(self._handover.ended.wait())

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done():
            loop = task.get_loop()
            if not loop.is_closed():
                # The collector may run in any thread.
                loop.call_soon_threadsafe(task.cancel)


class _Handover:
    """A batch on its way from the run to whoever iterates, one at a time.

    A cancelled `take` loses nothing: the batch stays for the next one.
    """

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.place = 0
        """Place in the chain of requests of one that had to wait for the batches so far."""
        self._batch: pa.RecordBatch | None = None
        self._arrived = anyio.Event()
        self._taken = anyio.Event()
        self._error: BaseException | None = None
        self._is_closed = False

    async def give(self, batch: pa.RecordBatch) -> None:
        """Wait until the batch has been taken."""
        self._batch, self._taken = batch, anyio.Event()
        self._arrived.set()
        await self._taken.wait()

    async def take(self) -> pa.RecordBatch | None:
        """Wait for the next batch; None when there are no more. Raises what ended the run."""
        while self._batch is None and not self.ended.is_set() and not self._is_closed:
            await self._arrived.wait()
        if self._batch is None or self._is_closed:
            error, self._error = self._error, None
            if error is not None and not self._is_closed:
                raise error
            return None
        batch, self._batch = self._batch, None
        self._arrived = anyio.Event()
        self._taken.set()
        return batch

    def end(self, task: asyncio.Task[None]) -> None:
        """Take note that the run is over; an error belongs to whoever iterates, if anybody."""
        self._batch = None
        self._error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.ended.set()
        self._arrived.set()

    def close(self) -> None:
        """Let all further `take` say that there is no more."""
        self._is_closed = True
        self._arrived.set()


@dataclass(eq=False, slots=True)
class _Slot:
    """A window on its way: its batch arrives here, in whatever order windows finish."""

    charged: int
    place: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    batch: pa.RecordBatch | None = None


class _Run:
    """The producing side: opens fragments ahead, reads windows ahead, sends batches."""

    def __init__(
        self,
        places: Places,
        options: ScanOptions,
        handover: _Handover,
    ) -> None:
        self._places = places
        self._options = options
        self._handover = handover
        self._budget = places.session.budget.share()
        self._window_slots = anyio.Semaphore(WINDOWS_AHEAD)

    @one_call
    async def produce(self) -> None:
        """Run to the end, to the limit, or until cancelled."""
        try:
            if self._options.find_fragments is not None:
                fragments = await self._options.find_fragments()
                self._options = replace(self._options, fragments=fragments)
            queue, slots = anyio.create_memory_object_stream[_Slot](math.inf)
            with first_error():
                async with slots, queue, anyio.create_task_group() as tg:
                    tg.start_soon(self._read_ahead, queue)
                    await self._deliver(slots)
                    tg.cancel_scope.cancel()
        finally:
            self._budget.close()

    async def _read_ahead(self, queue: MemoryObjectSendStream[_Slot]) -> None:
        """Start one task a window, as far ahead as budget and number of windows allow."""
        options, number = self._options, 0
        slices = options.slices()
        opening = _Opening(self._places, options.projection, slices)
        async with queue, anyio.create_task_group() as tg:
            for i, wanted in enumerate(slices):
                reader, place = await opening.get(i, tg)
                row_bytes_min = options.projection.row_bytes_min
                for window in cut_windows(reader, wanted, options.batch_size, row_bytes_min):
                    await self._window_slots.acquire()
                    await self._budget.acquire(window.num_bytes)
                    slot = _Slot(window.num_bytes, place)
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
        waited_for(slot.place - 1)
        slot.batch = await read_rows(self._places, reader, projection, rows, priority=number)
        num_bytes = slot.batch.nbytes
        self._budget.settle(slot.charged, num_bytes)
        slot.charged = num_bytes
        slot.place = next_place()
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
            self._handover.place = max(self._handover.place, slot.place)
            for batch in rebatcher.add(slot.batch):
                await self._handover.give(batch)
            slot.batch = None
            self._budget.release(slot.charged)
            self._window_slots.release()
            if rebatcher.is_full():
                return
        for batch in rebatcher.rest():
            await self._handover.give(batch)


class _Opening:
    """Fragments being opened, a few ahead of the one that is read."""

    def __init__(self, places: Places, projection: Projection, slices: list[Slice]) -> None:
        self._places = places
        self._projection = projection
        self._slices = slices
        self._started = 0
        self._opened: dict[int, tuple[FragmentReader, int]] = {}
        self._ready: dict[int, anyio.Event] = {}

    async def get(self, number: int, tg: anyio.abc.TaskGroup) -> tuple[FragmentReader, int]:
        """Wait for a fragment; starts to open the next ones in `tg`.

        With it comes the place, in a chain of requests, of one that had to wait for it.
        """
        while self._started < min(number + FRAGMENTS_AHEAD, len(self._slices)):
            ready = self._ready[self._started] = anyio.Event()
            tg.start_soon(self._open, self._started, ready)
            self._started += 1
        await self._ready.pop(number).wait()
        return self._opened.pop(number)

    async def _open(self, number: int, ready: anyio.Event) -> None:
        fragment = self._slices[number].fragment
        reader = await open_fragment(self._places, fragment, self._projection)
        await reader.measure_blobs(self._projection)
        self._opened[number] = (reader, next_place())
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
        arrays = [*decode(), *reader.pseudo_columns(projection.pseudo, rows)]
        return projection.finish(arrays, rows.num_rows)

    if num_bytes < INLINE_BYTES:
        return work()
    return await places.session.run_in_thread(work)
