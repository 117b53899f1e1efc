"""Cutting a stream of batches to offset, limit and batch size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from alance.encodings.assemble import joining

__all__ = ["Rebatcher"]


class Rebatcher:
    """Takes batches of any size and gives back the rows that are wanted, in the sizes asked for.

    Parameters
    ----------
    batch_size
        Rows of every batch but the last; None passes batches on as they come, without empty ones.
    offset
        Rows to skip.
    limit
        Rows to give back at most; None for all.
    """

    def __init__(
        self, batch_size: int | None, *, offset: int = 0, limit: int | None = None
    ) -> None:
        self._batch_size = batch_size
        self._skip = offset
        self._left = limit
        self._waiting: list[pa.RecordBatch] = []
        self._num_waiting = 0

    def is_full(self) -> bool:
        """Whether the limit has been reached, so that more input is of no use."""
        return self._left == 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Put rows in; gives back the batches that are complete."""
        if self._skip:
            skipped = min(self._skip, batch.num_rows)
            self._skip -= skipped
            batch = batch.slice(skipped)
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        if batch.num_rows == 0:
            return
        if self._batch_size is None:
            yield batch
            return
        self._waiting.append(batch)
        self._num_waiting += batch.num_rows
        if self._num_waiting >= self._batch_size:
            yield from self._whole(self._batch_size)
        if self.is_full():
            yield from self.rest()

    def _whole(self, batch_size: int) -> Iterator[pa.RecordBatch]:
        """Batches that are complete; what is left over waits."""
        rows = self._joined()
        whole = rows.num_rows - rows.num_rows % batch_size
        for start in range(0, whole, batch_size):
            yield rows.slice(start, batch_size)
        if whole < rows.num_rows:
            self._waiting, self._num_waiting = [rows.slice(whole)], rows.num_rows - whole

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Rows that do not fill a batch."""
        if self._waiting:
            yield self._joined()

    def _joined(self) -> pa.RecordBatch:
        waiting, self._waiting, self._num_waiting = self._waiting, [], 0
        if len(waiting) == 1:
            return waiting[0]
        with joining():
            return pa.concat_batches(waiting)
