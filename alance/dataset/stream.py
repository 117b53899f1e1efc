"""One iteration of a scan: takes batches from a run that reads ahead, and stops it at the end."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator

import anyio
import pyarrow as pa

from alance._aio import OwnedTasks, run_to_end
from alance.dataset.places import Places
from alance.dataset.run import ScanOptions, ScanRun, Slot
from alance.receipts import waited_for

__all__ = ["BatchStream"]


class BatchStream(AsyncIterator[pa.RecordBatch]):
    """One run of a scan; dropping it stops the run."""

    def __init__(self, places: Places, options: ScanOptions) -> None:
        self._delivery = _Delivery(places, options)

    async def __anext__(self) -> pa.RecordBatch:
        try:
            batch = await self._delivery.take()
        finally:
            # Tracebacks of a cancellation keep this frame, which must not keep the iterator.
            del self
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Stop reading; returns when no request is under way and no budget is held."""
        await self._delivery.stop()

    def __del__(self) -> None:
        self._delivery.drop()


class _Delivery:
    """Batches of a run, cut to size, for one consumer after the other.

    A cancelled `take` loses nothing: the batch stays for the next one. The run's task does not
    refer to the iterator, so that this one can be dropped while the task goes on.
    """

    def __init__(self, places: Places, options: ScanOptions) -> None:
        self._budget = places.session.budget.share()
        self._run = ScanRun(places, options, self._budget)
        self._ordered = options.ordered
        self._rebatcher = options.rebatcher()
        self._task: asyncio.Task[None] | None = None
        self._ended = anyio.Event()
        self._error: BaseException | None = None
        self._is_closed = False
        self._cut: deque[pa.RecordBatch] = deque()
        self._giving: Slot | None = None
        self._place = 0

    async def take(self) -> pa.RecordBatch | None:
        """Wait for the next batch; None when there are no more. Raises what ended the run."""
        if self._task is None and not self._is_closed:
            # No task group can own this: it outlives the call that starts it, and ends with the
            # object. The caller's context goes along: requests count in the caller's receipts.
            self._task = OwnedTasks().start(
                self._run.produce(), self._end, context=contextvars.copy_context()
            )
        while not self._is_closed:
            if self._cut:
                return self._hand_over()
            if self._error is not None:
                self._is_closed = True
                self._budget.close()
                raise self._error
            if self._rebatcher.is_full():
                await self.stop()
            elif (slot := self._filled()) is not None:
                self._consume(slot)
            elif self._ended.is_set():
                self._cut.extend(self._rebatcher.rest())
                self._is_closed = not self._cut
                if self._is_closed:
                    waited_for(self._place - 1)  # for what no batch came of, too
            else:
                await self._wait()
        return None

    def _hand_over(self) -> pa.RecordBatch:
        batch = self._cut.popleft()
        if not self._cut:
            self._give_back()
        waited_for(self._place - 1)
        return batch

    def _filled(self) -> Slot | None:
        """Return a slot with a batch: the first one where rows must come in order."""
        slots = self._run.slots
        if self._ordered:
            return slots[0] if slots and slots[0].batch is not None else None
        return next((slot for slot in slots if slot.batch is not None), None)

    def _consume(self, slot: Slot) -> None:
        """Cut the batch of a slot to size; what waits for more rows is no longer its matter."""
        assert slot.batch is not None
        batch, slot.batch = slot.batch, None
        if slot.is_last:
            self._run.slots.remove(slot)
        self._place = max(self._place, slot.place)
        self._giving = slot
        self._cut.extend(self._rebatcher.add(batch))
        if not self._cut:
            self._give_back()

    def _give_back(self) -> None:
        slot, self._giving = self._giving, None
        if slot is not None:
            self._run.give_back(slot)

    async def _wait(self) -> None:
        """Wait until a batch has arrived or the run has ended."""
        if self._run.changed.is_set():
            self._run.changed = anyio.Event()
        await self._run.changed.wait()

    def _end(self, task: asyncio.Task[None]) -> None:
        """Take note that the run is over; an error belongs to whoever iterates, if anybody."""
        self._error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._ended.set()
        self._run.changed.set()
        if self._is_closed:
            self._budget.close()

    async def stop(self) -> None:
        """Stop reading; returns when no request is under way and no budget is held."""
        self.drop_now()
        if self._task is not None:
            await run_to_end(self._ended.wait())

    def drop_now(self) -> None:
        """Begin to stop."""
        self._is_closed = True
        self._cut.clear()
        self._run.changed.set()
        if self._task is None or self._task.done():
            self._budget.close()
        else:
            self._task.cancel()

    def drop(self) -> None:
        """Begin to stop, called from any thread as the collector may run in any."""
        if self._task is None or self._is_closed:
            return
        loop = self._task.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self.drop_now)
