"""Planned reads without `await`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from alance.dataset.bridge import iterate_in_thread
from alance.dataset.scan import Scan as AsyncScan
from alance.sync.run import run

__all__ = ["Scan"]


class Scan:
    """A planned read; iterate it for record batches, as often as you like."""

    def __init__(self, scan: AsyncScan) -> None:
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return self._scan.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches as they are read; leaving the loop early stops the reading."""
        return iterate_in_thread(lambda: self._scan)

    def to_table(self) -> pa.Table:
        """Read everything."""
        return run(self._scan.to_table)

    def explain(self) -> str:
        """Say which fragments, files and columns will be read, and what was pruned."""
        return self._scan.explain()
