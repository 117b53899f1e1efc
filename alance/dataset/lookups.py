"""Takes that are asked for at the same time are read together: one plan, one decode for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pyarrow as pa

from alance._aio import OwnedTasks, own_copy, run_to_end
from alance.dataset.late import CHUNK_BYTES
from alance.dataset.projection import Projection, blob_ids
from alance.dataset.take import Rows, VersionRows
from alance.errors import FormatError
from alance.receipts import SharedReceipt, current_receipts, next_place, waited_for

__all__ = ["Lookups"]

ROWS_MAX = 4096
"""Rows that are read together at most."""
BUDGET_PARTS = 8
"""What is read together takes this part of the budget at most, by what is known beforehand."""


class Lookups:
    """Reads rows for many callers; see docs/decisions/018-takes-of-one-tick.md.

    Takes of the same columns that are asked for in the same tick of the event loop become one, as
    far as this stays small. A take that is by itself is read in its caller's own task. What several
    share runs in a task of this object's, which ends early when all of them have been cancelled.

    Parameters
    ----------
    rows
        Those of a version.
    """

    def __init__(self, rows: VersionRows) -> None:
        self._rows = rows
        self._gathering: dict[tuple[int, str], _Gathering] = {}
        self._tasks = OwnedTasks()

    async def take(self, asked: Rows, projection: Projection) -> pa.Table:
        """Read rows by position or address, together with what others ask for in this tick.

        Parameters
        ----------
        asked
            Checked by the caller; as for `VersionRows.take`.
        projection
            Takes share a read where it is the same object.

        Raises
        ------
        CorruptFileError, UnsupportedFeatureError, StoreError
            As `VersionRows.take`; each caller gets its own exception. What is damaged fails only
            those whose rows it holds.

        Notes
        -----
        Requests: those of one take of the rows of all. They count once in each receipt of those
        who wait for them.
        """
        if len(asked):
            entry = _Entry(asked)
            self._add(entry, projection)
            try:
                table = await entry.answered
            except asyncio.CancelledError:
                if entry.batch is not None:
                    await entry.batch.leave(entry)
                raise
            except FormatError:
                table = None  # the damage may be in rows of others
            finally:
                if entry.batch is not None:
                    waited_for(entry.place - 1 + entry.batch.num_rounds)
            if table is not None:
                return table
        return (await self._rows.take([asked], projection))[0]

    def _add(self, entry: _Entry, projection: Projection) -> None:
        """Gather with those of this tick that read the same."""
        loop = asyncio.get_running_loop()
        key = id(projection), entry.asked.dtype.kind
        gathering = self._gathering.get(key)
        if gathering is None or gathering.loop is not loop:
            gathering = self._gathering[key] = _Gathering(loop, projection)
            loop.call_soon(self._flush, key, gathering)
        gathering.entries.append(entry)

    def _flush(self, key: tuple[int, str], gathering: _Gathering) -> None:
        """Start to read what has gathered."""
        if self._gathering.get(key) is gathering:  # and not that of a later loop
            del self._gathering[key]
        waiting = [entry for entry in gathering.entries if not entry.answered.done()]
        rows_max = self._rows_max(gathering.projection) if len(waiting) > 1 else ROWS_MAX
        for entries in _cut(waiting, rows_max):
            if len(entries) == 1:
                entries[0].answered.set_result(None)
            else:
                batch = _Batch(entries)
                work = self._read(batch, gathering.projection)
                batch.task = self._tasks.start(work, batch.finish)

    def _rows_max(self, projection: Projection) -> int:
        """Rows of a projection that may be read together; 0 where nobody knows what they take."""
        rows, num_bytes_max = self._rows, self._rows.session.budget.total // BUDGET_PARTS
        if rows.stored_bytes is None or blob_ids(projection.roots):
            return 0
        if rows.stored_bytes <= num_bytes_max:
            return ROWS_MAX
        row_bytes = rows.stored_bytes // max(rows.physical_rows, 1)
        row_bytes += CHUNK_BYTES * len(projection.leaves)
        return min(num_bytes_max // max(row_bytes, 1), ROWS_MAX)

    async def _read(self, batch: _Batch, projection: Projection) -> list[pa.Table]:
        """Read the rows of a batch."""
        with batch.spent.counting():
            try:
                return await self._rows.take([entry.asked for entry in batch.entries], projection)
            finally:
                batch.num_rounds = next_place() - 1


class _Gathering:
    """Takes of one tick that read the same columns."""

    __slots__ = ("entries", "loop", "projection")

    def __init__(self, loop: asyncio.AbstractEventLoop, projection: Projection) -> None:
        self.loop = loop
        self.projection = projection
        self.entries: list[_Entry] = []


class _Entry:
    """One take that waits."""

    __slots__ = ("answered", "asked", "batch", "place", "receipts")

    def __init__(self, asked: Rows) -> None:
        self.asked = asked
        self.receipts = current_receipts()
        self.place = next_place()
        self.answered: asyncio.Future[pa.Table | None] = asyncio.get_running_loop().create_future()
        """None for a take that is to be read by itself."""
        self.batch: _Batch | None = None


class _Batch:
    """Takes that are read together, and the task that does it."""

    __slots__ = ("entries", "num_rounds", "num_waiting", "spent", "task")

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.entries = entries
        self.num_waiting = len(entries)
        self.num_rounds = 0
        self.spent = SharedReceipt()
        self.task: asyncio.Task[list[pa.Table]] | None = None
        for entry in entries:
            entry.batch = self
            self.spent.join(entry.receipts, entry.place, len(entry.asked))

    async def leave(self, entry: _Entry) -> None:
        """Take no part any more; whoever is last waits until nothing goes on."""
        assert self.task is not None, "a batch without a task"
        if self.task.done():
            return
        self.spent.leave(entry.receipts, len(entry.asked))
        self.num_waiting -= 1
        if not self.num_waiting:
            self.task.cancel()
            await run_to_end(asyncio.wait({self.task}))

    def finish(self, task: asyncio.Task[list[pa.Table]]) -> None:
        """Give each caller its rows, or an exception of its own."""
        error = None if task.cancelled() else task.exception()
        tables = [] if task.cancelled() or error is not None else task.result()
        # Entries hold the batch: without a cycle rows go with their last user.
        entries, self.entries = self.entries, ()
        for number, entry in enumerate(entries):
            if entry.answered.done():
                continue
            if tables:
                entry.answered.set_result(tables[number])
            elif error is not None:
                entry.answered.set_exception(own_copy(error))
            else:
                entry.answered.cancel()


def _cut(entries: Sequence[_Entry], rows_max: int) -> Iterator[Sequence[_Entry]]:
    """Cut into parts of so many rows at most, a take of more in a part of its own."""
    start = num_rows = 0
    for number, entry in enumerate(entries):
        if number > start and num_rows + len(entry.asked) > rows_max:
            yield entries[start:number]
            start, num_rows = number, 0
        num_rows += len(entry.asked)
    if entries:
        yield entries[start:]
