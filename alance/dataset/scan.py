"""Scans: a planned read, to iterate, collect or explain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType

import pyarrow as pa

from alance.dataset.places import Places
from alance.dataset.run import ScanOptions
from alance.dataset.stream import BatchStream
from alance.receipts import one_call
from alance.session import Session

__all__ = ["Scan"]


class Scan:
    """A planned read. Iterate it for record batches, or collect it with `to_table`.

    Each iteration reads anew. ``async for batch in scan`` stops its I/O when the iterator is
    dropped; ``async with scan as batches`` when the block ends.
    """

    def __init__(self, places: Places, options: ScanOptions) -> None:
        self._places = places
        self._options = options
        self._entered: list[tuple[asyncio.Task[object] | None, BatchStream]] = []

    def on(self, session: Session) -> Scan:
        """Return the same scan through another session, for another event loop."""
        return Scan(self._places.on(session), self._options)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return self._options.projection.schema

    def __aiter__(self) -> BatchStream:
        return BatchStream(self._places, self._options)

    async def __aenter__(self) -> AsyncIterator[pa.RecordBatch]:
        stream = BatchStream(self._places, self._options)
        self._entered.append((asyncio.current_task(), stream))
        return stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Tasks may share a scan, each with blocks of its own, which nest.
        task = asyncio.current_task()
        mine = [entry for entry in self._entered if entry[0] is task] or self._entered
        entry = mine[-1]
        self._entered.remove(entry)
        await entry[1].aclose()

    @one_call
    async def to_table(self) -> pa.Table:
        """Read everything.

        Returns
        -------
        pyarrow.Table
            All rows of the scan; columns may be chunked.

        Notes
        -----
        Requests: as `Dataset.scan`. Memory: the result, and the windows under way.
        """
        async with aclosing(BatchStream(self._places, self._options)) as batches:
            found = [batch async for batch in batches]
        return pa.Table.from_batches(found, schema=self.schema)

    def explain(self) -> str:
        """Say which fragments, files and columns will be read, and what was pruned."""
        options, projection = self._options, self._options.projection
        slices = options.slices()
        lines = [f"scan into columns {', '.join(self.schema.names) or '(none)'}"]
        lines += [
            f"  reads {root.name}: {root.kind}, leaves {[leaf.field_id for leaf in root.leaves]}"
            for root in projection.roots
        ]
        if projection.filter is not None:
            lines.append(f"  keeps rows where {projection.filter}")
        if projection.late is not None:
            first = [root.name for root in projection.late.roots]
            first += projection.late.pseudo
            rest = [root.name for root in projection.late.rest]
            lines.append(
                f"  reads {', '.join(first)} first, and {', '.join(rest)} of the rows that pass, "
                "in fragments where that costs less than all at once"
            )
        if options.limit is not None or options.offset:
            where = "before reading" if projection.filter is None else "after the filter"
            lines.append(f"  limit {options.limit}, offset {options.offset}, applied {where}")
        for wanted in slices:
            files = ", ".join(file.path for file in wanted.fragment.files)
            rows = f"rows {wanted.start} to {wanted.stop} of {wanted.fragment.num_rows}"
            lines.append(f"  fragment {wanted.fragment.id}: {rows} from {files}")
        lines.append(f"  fragments pruned: {len(options.fragments) - len(slices)}")
        return "\n".join(lines)
