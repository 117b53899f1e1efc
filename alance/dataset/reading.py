"""Reading the windows of a scan: all columns at once, or those of the filter first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.dataset.fragment import FragmentReader
from alance.dataset.late import CHUNK_BYTES, Selectivity, is_late_cheaper, near_rows
from alance.dataset.places import Places
from alance.dataset.projection import Projection, RootPlan, row_bytes_min
from alance.dataset.windows import rows_per_window
from alance.encodings.rows import RowRanges
from alance.io.client import CachedReads

__all__ = ["INLINE_BYTES", "Passed", "WindowReader"]

T = TypeVar("T")

INLINE_BYTES = 128 * 1024
"""Up to this much, stored and decoded, is decoded at once: less than the way to a thread costs."""
ROWS_MAX = 1 << 32


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows of a fragment that passed a filter, with the columns that it was applied to."""

    offsets: npt.NDArray[np.int64]
    batch: pa.RecordBatch

    def slice(self, start: int, num_rows: int) -> Passed:
        """Return some of these rows."""
        return Passed(self.offsets[start : start + num_rows], self.batch.slice(start, num_rows))


class WindowReader:
    """Reads rows of fragments into batches of a projection, and learns how many pass its filter."""

    def __init__(self, places: Places, projection: Projection) -> None:
        self._places = places
        self._projection = projection
        self._selectivity = Selectivity()

    def is_late(self, reader: FragmentReader, num_rows: int) -> bool:
        """Whether the filter's columns of so many rows should be read first."""
        late = self._projection.late
        if late is None:
            return False
        return is_late_cheaper(
            num_rows,
            [reader.row_bytes((root,)) for root in late.rest],
            self._selectivity.share,
            self._places.client.request_cost_bytes,
        )

    async def read(
        self, reader: FragmentReader, rows: RowRanges, *, num_bytes: int, priority: int
    ) -> pa.RecordBatch:
        """Read rows with all columns that are wanted.

        Parameters
        ----------
        reader, rows
            Which rows of which fragment.
        num_bytes
            Stored bytes of these, about.
        priority
            Lower goes first when requests must wait.
        """
        projection, finish = self._projection, self._finish(reader, rows)
        num_bytes += reader.pseudo_bytes(projection.pseudo, rows.num_rows)
        batch = await self._decoded(reader, projection.roots, rows, finish, num_bytes, priority)
        self._selectivity.add(rows.num_rows, batch.num_rows)
        return batch

    async def read_together(
        self, readers: Sequence[FragmentReader], rows: Sequence[RowRanges]
    ) -> list[pa.RecordBatch | None]:
        """Read rows of several fragments in one turn of a thread, all wanted columns of each.

        For windows that are small, of local files: most of their time is the way to a thread.

        Returns
        -------
        list of pyarrow.RecordBatch or None
            One for each of `readers`; None from the first on that has to be waited for.
        """
        reads = CachedReads()

        def work() -> list[pa.RecordBatch | None]:
            found: list[pa.RecordBatch | None] = []
            for reader, wanted in zip(readers, rows, strict=True):
                is_waiting = bool(found) and found[-1] is None
                batch = None if is_waiting else self._read_cached(reader, wanted, reads)
                found.append(batch)
            return found

        try:
            batches = await self._places.session.run_in_thread(work)
        finally:
            self._places.client.count_cached(reads)
        for wanted, batch in zip(rows, batches, strict=True):
            if batch is not None:
                self._selectivity.add(wanted.num_rows, batch.num_rows)
        return batches

    def _read_cached(
        self, reader: FragmentReader, rows: RowRanges, reads: CachedReads
    ) -> pa.RecordBatch | None:
        return _read_cached(reader, self._projection.roots, rows, self._finish(reader, rows), reads)

    def _finish(
        self, reader: FragmentReader, rows: RowRanges
    ) -> Callable[[Sequence[pa.Array]], pa.RecordBatch]:
        """What makes a batch of decoded columns."""

        def finish(arrays: Sequence[pa.Array]) -> pa.RecordBatch:
            pseudo = reader.pseudo_columns(self._projection.pseudo, rows)
            return self._projection.finish([*arrays, *pseudo], rows.num_rows)

        return finish

    async def read_first(
        self, reader: FragmentReader, rows: RowRanges, *, num_bytes: int, priority: int
    ) -> Passed:
        """Read the filter's columns, and tell which rows pass; parameters as for `read`."""
        late = self._projection.late
        assert late is not None

        def finish(arrays: Sequence[pa.Array]) -> Passed:
            pseudo = reader.pseudo_columns(late.pseudo, rows)
            mask, batch = late.apply([*arrays, *pseudo], rows.num_rows)
            return Passed(rows.rows()[mask.to_numpy(zero_copy_only=False)], batch)

        num_bytes += reader.pseudo_bytes(late.pseudo, rows.num_rows)
        passed = await self._decoded(reader, late.roots, rows, finish, num_bytes, priority)
        self._selectivity.add(rows.num_rows, len(passed.offsets))
        return passed

    def rest_rows(self, reader: FragmentReader) -> int:
        """Rows whose other columns make a window."""
        late = self._projection.late
        assert late is not None
        return rows_per_window(reader.row_bytes(late.rest))

    async def read_rest(
        self, reader: FragmentReader, passed: Passed, *, priority: int
    ) -> pa.RecordBatch:
        """Read the other columns of rows that passed."""
        projection, late = self._projection, self._projection.late
        assert late is not None
        exact = RowRanges.of_rows(passed.offsets)
        row_bytes = [reader.row_bytes((root,)) for root in late.rest]
        # Many ranges cost more to plan than the chunks between them to decode.
        rows = near_rows(exact, int(CHUNK_BYTES / max(row_bytes)) if any(row_bytes) else ROWS_MAX)
        wanted = None
        if rows.num_rows != len(passed.offsets):
            wanted = pa.array(np.searchsorted(rows.rows(), passed.offsets))

        def finish(arrays: Sequence[pa.Array]) -> pa.RecordBatch:
            kept = arrays if wanted is None else [array.take(wanted) for array in arrays]
            pseudo = reader.pseudo_columns(projection.pseudo, exact)
            return projection.complete(passed.batch, [*kept, *pseudo])

        num_bytes = int(rows.num_rows * sum(row_bytes))
        num_bytes += reader.pseudo_bytes(projection.pseudo, exact.num_rows)
        return await self._decoded(reader, late.rest, rows, finish, num_bytes, priority)

    async def _decoded(
        self,
        reader: FragmentReader,
        roots: Sequence[RootPlan],
        rows: RowRanges,
        finish: Callable[[Sequence[pa.Array]], T],
        num_bytes: int,
        priority: int,
    ) -> T:
        """Fetch and decode: at once where it is little, and else in a thread.

        What local files have in memory is read in the thread that decodes it.
        """
        client, run_in_thread = self._places.client, self._places.session.run_in_thread
        num_bytes = max(num_bytes, rows.num_rows * row_bytes_min(roots))
        if client.may_read_cached and num_bytes > INLINE_BYTES:
            reads = CachedReads()
            try:
                found = await run_in_thread(
                    partial(_read_cached, reader, roots, rows, finish, reads)
                )
            finally:
                client.count_cached(reads)
            if found is not None:
                return found
        decode, num_fetched = await reader.fetch(roots, rows, priority=priority)
        if max(num_bytes, num_fetched) <= INLINE_BYTES:
            return finish(decode())
        return await run_in_thread(lambda: finish(decode()))


def _read_cached(
    reader: FragmentReader,
    roots: Sequence[RootPlan],
    rows: RowRanges,
    finish: Callable[[Sequence[pa.Array]], T],
    reads: CachedReads,
) -> T | None:
    arrays = reader.read_cached(roots, rows, reads)
    return None if arrays is None else finish(arrays)
