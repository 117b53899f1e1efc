"""From an asynchronous scan to a synchronous iterator, for readers that know no event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pyarrow as pa
from anyio.from_thread import start_blocking_portal

from alance.dataset.scan import Scan
from alance.session import Session

__all__ = ["iterate_in_thread"]


def iterate_in_thread(
    open_session: Callable[[], Session], open_scan: Callable[[Session], Scan]
) -> Iterator[pa.RecordBatch]:
    """Iterate a scan on an event loop of its own, in a thread that lives as long as the iterator.

    Parameters
    ----------
    open_session, open_scan
        Called on that loop when the first batch is asked for.
    """
    with start_blocking_portal() as portal:

        async def enter() -> tuple[Scan, AsyncIterator[pa.RecordBatch]]:
            scan = open_scan(open_session())
            return scan, await scan.__aenter__()

        async def read() -> pa.RecordBatch:
            return await batches.__anext__()

        scan, batches = portal.call(enter)
        try:
            while True:
                try:
                    yield portal.call(read)
                except StopAsyncIteration:
                    return
        finally:
            portal.call(scan.__aexit__, None, None, None)
