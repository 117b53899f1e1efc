"""The reading side of an iteration: a few workers fill slots with batches, in whatever order."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio
import anyio.abc
import pyarrow as pa

from alance._aio import BudgetShare, first_error
from alance.dataset.fragment import FragmentReader, is_at_hand, open_fragment
from alance.dataset.places import Places
from alance.dataset.projection import Projection
from alance.dataset.reading import INLINE_BYTES, WindowReader
from alance.dataset.rebatch import Rebatcher
from alance.dataset.windows import Slice, Window, cut_windows, slice_rows
from alance.receipts import next_place, one_call, waited_for
from alance.table.manifest import Fragment

__all__ = ["ScanOptions", "ScanRun", "Slot"]

FRAGMENTS_AHEAD = 16
"""Fragments being opened before their turn."""
WINDOWS_AHEAD = 16
"""Windows under way or waiting for delivery; the byte budget may allow fewer."""
RUN_CHARGE = 4 * 1024 * 1024
"""Of small windows that are read together: what they are charged for."""
LIMITED_WINDOWS_AHEAD = 2
"""As many at first where a limit comes after a filter: the first ones may be enough."""


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

    @property
    def stops_early(self) -> bool:
        """Whether what is read decides when it is enough."""
        return self.limit is not None and self.projection.filter is not None

    def slices(self) -> list[Slice]:
        """Rows to read: limit and offset are applied here where no filter stands before them."""
        if self.projection.filter is None:
            return slice_rows(self.fragments, self.offset, self.limit)
        return slice_rows(self.fragments, 0, None if self.limit != 0 else 0)

    def rebatcher(self) -> Rebatcher:
        """Cuts what was read to size: to offset and limit only after a filter."""
        if self.projection.filter is None:
            return Rebatcher(self.batch_size)
        return Rebatcher(self.batch_size, offset=self.offset, limit=self.limit)


@dataclass(eq=False, slots=True)
class Slot:
    """A window on its way: batches arrive here one at a time, the next when one was taken."""

    window: Window
    place: int
    """Of a request that had to wait for what is here, in a chain of requests."""
    charged: int
    """Held of the budget."""
    batch: pa.RecordBatch | None = None
    is_last: bool = False
    """Whether no batch comes after the one that is here."""
    taken: anyio.Event | None = None
    """Set when the batch was consumed, where another one comes after it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The next window of a plan."""

    reader: FragmentReader
    window: Window
    place: int
    """In a chain of requests."""
    is_late: bool
    """Whether the filter's columns are to be read first."""


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """The next window to read, and its slot."""

    reader: FragmentReader
    slot: Slot
    number: int
    is_late: bool


class ScanRun:
    """Opens fragments ahead and reads windows ahead, as far as budget and slots allow.

    Workers take one window after the other; there are as many as have something to wait for. Slots
    stand in the order of the rows. Whoever consumes takes batches out of them and says when it is
    done with each.
    """

    def __init__(self, places: Places, options: ScanOptions, budget: BudgetShare) -> None:
        self.slots: deque[Slot] = deque()
        self.changed = anyio.Event()
        """Set when a batch has arrived; replaced by whoever waits for the next."""
        self._places = places
        self._options = options
        self._budget = budget
        self._windows = WindowReader(places, options.projection)
        self._ahead = LIMITED_WINDOWS_AHEAD if options.stops_early else WINDOWS_AHEAD
        self._room = anyio.Event()
        self._turn = anyio.Lock(fast_acquire=True)
        self._num_workers = 0
        self._is_all_planned = False
        self._unplanned: _Found | None = None
        """The next window, where it was found and could not be read with those before it."""

    @partial(one_call, name="scan")
    async def produce(self) -> None:
        """Read to the end, or until cancelled."""
        options = self._options
        if options.find_fragments is not None:
            options = replace(options, fragments=await options.find_fragments())
        with first_error():
            async with anyio.create_task_group() as tg:
                plan = _Plan(self._places, options, self._windows, tg)
                self._num_workers = 1
                await self._work(plan, tg)

    def give_back(self, slot: Slot) -> None:
        """Take note that the consumer is done with the batch of a slot."""
        if slot.is_last:
            self._budget.release(slot.charged)
            self._ahead = min(self._ahead + 1, WINDOWS_AHEAD)
            self._room.set()
        else:
            self._budget.resume(slot.charged, slot.window.charge)
            slot.charged = slot.window.charge
            assert slot.taken is not None, "more batches come, and nobody waits to bring them"
            slot.taken.set()

    async def _work(self, plan: _Plan, tg: anyio.abc.TaskGroup) -> None:
        """Read windows until there are no more."""
        while True:
            async with self._turn:
                planned = await self._next(plan)
                together = [] if planned is None else await self._next_small(plan, planned)
            if planned is None:
                return
            num_bytes = planned.slot.window.num_bytes
            waits = together or num_bytes > INLINE_BYTES or not self._reads_at_once
            if waits and self._num_workers < WINDOWS_AHEAD and not self._is_all_planned:
                self._num_workers += 1
                tg.start_soon(self._work, plan, tg)
            waited_for(planned.slot.place - 1)
            if together:
                await self._fill_together([planned, *together])
            elif planned.is_late:
                await self._fill_late(planned)
            else:
                await self._fill(planned)

    @property
    def _reads_at_once(self) -> bool:
        return self._places.client.may_read_cached

    async def _next(self, plan: _Plan) -> _Planned | None:
        """Next window, with a slot and its bytes granted; None after the last."""
        if self._is_all_planned:
            return None
        while len(self.slots) >= self._ahead:
            self._room = anyio.Event()
            await self._room.wait()
        found, self._unplanned = self._unplanned or await plan.next(), None
        self._is_all_planned = found is None or plan.is_done
        if found is None:
            return None
        await self._budget.acquire(found.window.charge)
        return self._planned(plan, found)

    def _planned(self, plan: _Plan, found: _Found) -> _Planned:
        slot = Slot(found.window, found.place, found.window.charge)
        self.slots.append(slot)
        return _Planned(found.reader, slot, plan.num_windows, found.is_late)

    async def _next_small(self, plan: _Plan, first: _Planned) -> list[_Planned]:
        """Windows after `first` that a thread may read in the same turn; none to wait for."""
        charge, together = first.slot.charged, list[_Planned]()
        if first.is_late or not self._reads_at_once:
            return together
        num_max = min(self._ahead // 2 - 1, self._ahead - len(self.slots))
        while charge < RUN_CHARGE and len(together) < num_max and plan.is_ready:
            found = await plan.next()
            assert found is not None, "a plan that is ready has another window"
            charge += found.window.charge
            if (
                found.is_late
                or charge > RUN_CHARGE
                or not self._budget.try_acquire(found.window.charge)
            ):
                self._unplanned = found
                break
            self._is_all_planned = plan.is_done
            together.append(self._planned(plan, found))
        return together

    async def _fill_together(self, run: Sequence[_Planned]) -> None:
        """Read windows in one turn of a thread, those left over by themselves."""
        readers = [planned.reader for planned in run]
        rows = [planned.slot.window.rows for planned in run]
        batches = await self._windows.read_together(readers, rows)
        for planned, batch in zip(run, batches, strict=True):
            if batch is None:
                await self._fill(planned)
            else:
                self._put(planned.slot, batch, is_last=True)

    async def _fill(self, planned: _Planned) -> None:
        window = planned.slot.window
        batch = await self._windows.read(
            planned.reader, window.rows, num_bytes=window.num_bytes, priority=planned.number
        )
        self._put(planned.slot, batch, is_last=True)

    async def _fill_late(self, planned: _Planned) -> None:
        """Read the filter's columns of a window, then the others of the rows that pass."""
        slot, reader = planned.slot, planned.reader
        passed = await self._windows.read_first(
            reader, slot.window.rows, num_bytes=slot.window.num_bytes, priority=planned.number
        )
        num_rows = len(passed.offsets)
        if self._options.limit is not None:
            num_rows = min(num_rows, self._options.offset + self._options.limit)
        step = self._windows.rest_rows(reader)
        for start in range(0, max(num_rows, 1), step):
            part = passed.slice(start, min(step, num_rows - start))
            batch = await self._windows.read_rest(reader, part, priority=planned.number)
            is_last = start + step >= num_rows
            self._put(slot, batch, is_last=is_last)
            if slot.taken is not None:
                await slot.taken.wait()

    def _put(self, slot: Slot, batch: pa.RecordBatch, *, is_last: bool) -> None:
        """Let a batch wait for the consumer."""
        self._budget.settle(slot.charged, batch.nbytes)
        slot.charged = batch.nbytes
        slot.place = next_place()
        slot.is_last = is_last
        slot.taken = None if is_last else anyio.Event()
        slot.batch = batch
        self.changed.set()


class _Plan:
    """The windows of a scan, one after the other; opens the fragments of those to come."""

    def __init__(
        self,
        places: Places,
        options: ScanOptions,
        windows: WindowReader,
        tg: anyio.abc.TaskGroup,
    ) -> None:
        self.num_windows = 0
        self.is_done = False
        self._options = options
        self._reading = windows
        self._slices = options.slices()
        self._opening = _Opening(places, options.projection, self._slices, tg)
        self._at = 0
        self._reader: FragmentReader | None = None
        self._place = 0
        self._windows: Iterator[Window] = iter(())
        self._is_late = False
        self._is_cut_up = True
        """Whether the windows of the fragment at hand have all been given out."""

    @property
    def is_ready(self) -> bool:
        """Whether there is another window, and nothing to wait for before it."""
        if self.is_done:
            return False
        return not self._is_cut_up or self._opening.is_ready(self._at)

    async def next(self) -> _Found | None:
        """Next window; None after the last."""
        while True:
            window = next(self._windows, None)
            if window is not None:
                assert self._reader is not None
                self.num_windows += 1
                self.is_done = window.is_last and self._at == len(self._slices)
                self._is_cut_up = window.is_last
                return _Found(self._reader, window, self._place, self._is_late)
            if self._at == len(self._slices):
                return None
            wanted = self._slices[self._at]
            self._reader, self._place = await self._opening.get(self._at)
            self._at += 1
            self._windows = self._cut(self._reader, wanted)

    def _cut(self, reader: FragmentReader, wanted: Slice) -> Iterator[Window]:
        projection, batch_size = self._options.projection, self._options.batch_size
        self._is_late = self._reading.is_late(reader, wanted.stop - wanted.start)
        if projection.late is None or not self._is_late:
            return cut_windows(reader, wanted, batch_size, projection.roots)
        late = projection.late
        return cut_windows(reader, wanted, batch_size, late.roots, rest=late.rest)


class _Opening:
    """Fragments being opened, a few ahead of the one that is read.

    A fixed number of openers does it, and none where the session has the files: a task for each
    fragment costs more than opening a small one again.
    """

    def __init__(
        self,
        places: Places,
        projection: Projection,
        slices: list[Slice],
        tg: anyio.abc.TaskGroup,
    ) -> None:
        self._places = places
        self._projection = projection
        self._slices = slices
        self._tg = tg
        self._next = 0
        self._has_openers = False
        self._room = anyio.Semaphore(FRAGMENTS_AHEAD, fast_acquire=True)
        self._opened: dict[int, tuple[FragmentReader, int]] = {}
        self._arrived = anyio.Event()

    async def get(self, number: int) -> tuple[FragmentReader, int]:
        """Wait for a fragment; they are asked for one after the other.

        With it comes the place, in a chain of requests, of one that had to wait for it.
        """
        if not self._has_openers:
            fragment = self._slices[number].fragment
            is_only = len(self._slices) == 1
            if is_only or is_at_hand(self._places, fragment, self._projection):
                return await self._open(number)
            self._next = number
            self._has_openers = True
            for _ in range(min(FRAGMENTS_AHEAD, len(self._slices) - number)):
                self._tg.start_soon(self._open_more)
        while number not in self._opened:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        self._room.release()
        return self._opened.pop(number)

    def is_ready(self, number: int) -> bool:
        """Whether a fragment needs no waiting for."""
        if self._has_openers:
            return number in self._opened
        return is_at_hand(self._places, self._slices[number].fragment, self._projection)

    async def _open_more(self) -> None:
        while self._next < len(self._slices):
            number = self._next
            self._next += 1
            await self._room.acquire()
            self._opened[number] = await self._open(number)
            self._arrived.set()

    async def _open(self, number: int) -> tuple[FragmentReader, int]:
        fragment = self._slices[number].fragment
        reader = await open_fragment(self._places, fragment, self._projection)
        await reader.measure_blobs(self._projection)
        return reader, next_place()
