"""From an asynchronous scan to a synchronous iterator, for readers that know no event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from alance.dataset.scan import Scan
from alance.dataset.stream import BatchStream
from alance.io.loop import background

__all__ = ["iterate_in_thread"]


def iterate_in_thread(open_scan: Callable[[], Scan]) -> Iterator[pa.RecordBatch]:
    """Iterate a scan on the event loop of the process's background thread.

    Parameters
    ----------
    open_scan
        Called on that loop when the first batch is asked for.

    Yields
    ------
    pyarrow.RecordBatch
        As read. Leaving the iteration stops the reading.
    """
    loop = background.thread()

    async def start() -> BatchStream:
        return aiter(open_scan())

    batches = loop.call(start)

    async def read() -> pa.RecordBatch | None:
        return await anext(batches, None)

    with loop.closing(batches):
        while (batch := loop.call(read)) is not None:
            yield batch
