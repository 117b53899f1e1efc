"""What the file and table layers talk to: one store, through the session's gate and scheduler."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread

from alance.io.coalesce import cut, locate, plan_requests
from alance.io.gate import Cost, Kind, RequestGate
from alance.io.link import StoreStats
from alance.io.local import CACHED_GAP_BYTES, LocalFileStore, may_read_at_once
from alance.io.metered_upload import MeteredUpload
from alance.io.obstore import ObstoreStore
from alance.io.opening import limits_of, open_store, path_in_store
from alance.io.scheduler import Scheduler
from alance.io.store import (
    Data,
    ObjectInfo,
    ObjectStore,
    Upload,
    buffers_of,
)
from alance.io.uri import StorageOptions, StoreConfig, parse_uri
from alance.limits import Limits
from alance.receipts import Receipt, next_place, waited_for
from alance.types import ByteRange

__all__ = ["CachedReads", "StoreClient", "StoreClients"]

LIST_PAGE = 1000
"""Objects that one listing request answers with, at most."""
IN_ONE_THREAD_BYTES_MAX = 16 << 20
"""More is read in several threads, and not before its turn."""
LISTING = Kind(bounded=False)
"""Of many requests, each of which has the store's own time limit."""
CONDITIONAL = Kind(idempotent=False)
"""Once sent, whoever sent it finds out what became of it."""


@dataclass(slots=True)
class CachedReads:
    """Reads of files that the kernel held in memory, made in a thread and counted afterwards."""

    num_requests: int = 0
    bytes_fetched: int = 0
    bytes_used: int = 0


class StoreClient:
    """An `ObjectStore` of which every request is limited, counted and, for reads, shared.

    Parameters
    ----------
    store
        The store behind it; equal clients over the same store object share their reads.
    scheduler, gate, readers
        The session's; `readers` are the threads that may copy bytes.
    """

    def __init__(
        self,
        store: ObjectStore,
        scheduler: Scheduler,
        gate: RequestGate,
        readers: anyio.CapacityLimiter,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._gate = gate
        self._readers = readers
        self._link = gate.link(store)

    @property
    def store(self) -> ObjectStore:
        """The store behind it; the same object means the same store, which caches rely on."""
        return self._store

    @property
    def url(self) -> str:
        """Scheme and bucket, such as `s3://bucket`."""
        return self._store.url

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` answers in ascending order of path."""
        return self._store.lists_in_order

    @property
    def request_cost_bytes(self) -> int:
        """Bytes that take about as long to read as a request takes to begin.

        A gap below this between two wanted ranges is read over rather than asked around.
        """
        return self._link.cost.gap_bytes

    async def get_ranges(
        self, path: str, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> list[memoryview]:
        """Read byte ranges of one object, planned with all that is asked for in the same tick.

        See `Scheduler.get_ranges` for parameters, results, errors and cost.
        """
        if isinstance(self._store, LocalFileStore):
            found = await self._read_if_cached(self._store, path, ranges)
            if found is not None:
                return found
        return await self._scheduler.get_ranges(self._store, path, ranges, priority=priority)

    @property
    def may_read_cached(self) -> bool:
        """Whether `read_cached` is worth a try: the store is the local file system."""
        return isinstance(self._store, LocalFileStore)

    def read_cached(
        self, path: str, ranges: Sequence[ByteRange], reads: CachedReads
    ) -> list[memoryview] | None:
        """Read ranges of a local file that the kernel holds in memory; blocks, for a thread.

        Parameters
        ----------
        path, ranges
            As in `get_ranges`.
        reads
            Takes down what was read, for `count_cached` on the event loop.

        Returns
        -------
        list of memoryview, or None
            None when some bytes are not in memory: await `get_ranges` then.
        """
        if not isinstance(self._store, LocalFileStore):
            return None
        extents = plan_requests(
            ranges,
            gap_bytes_max=min(CACHED_GAP_BYTES, self._link.merge_gap_bytes),
            request_bytes_max=sys.maxsize,
        )
        found = self._store.read_cached(path, extents)
        if found is None:
            return None
        reads.num_requests += len(extents)
        reads.bytes_fetched += sum(view.nbytes for view in found)
        reads.bytes_used += sum(one.num_bytes for one in ranges)
        return [_cut(one, extents, found) for one in ranges]

    def count_cached(self, reads: CachedReads) -> None:
        """Count reads of a thread that has ended, as requests of one round."""
        if not reads.num_requests:
            return
        meter, place = self._gate.meter("get"), next_place()
        meter.sent()
        self._gate.count_used(reads.bytes_used)
        waited_for(place)
        meter.close(answered=True, bytes_fetched=reads.bytes_fetched, requests=reads.num_requests)

    async def _read_if_cached(
        self, store: LocalFileStore, path: str, ranges: Sequence[ByteRange]
    ) -> list[memoryview] | None:
        """Read ranges that the kernel holds in memory: few at once, many in a thread."""
        if sum(one.num_bytes for one in ranges) > IN_ONE_THREAD_BYTES_MAX:
            return None
        reads = CachedReads()
        if may_read_at_once(ranges):
            found = store.read_cached(path, ranges)
            if found is None:
                return None
            num_bytes = sum(view.nbytes for view in found)
            reads = CachedReads(max(len(found), 1), num_bytes, num_bytes)
            # A caller that reads on and on from memory would keep the event loop to itself.
            await anyio.lowlevel.checkpoint()
        else:
            work = partial(self.read_cached, path, ranges, reads)
            found = await anyio.to_thread.run_sync(work, limiter=self._readers)
        self.count_cached(reads)
        return found

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object, planned as in `get_ranges`."""
        return (await self.get_ranges(path, (ByteRange(start, stop),)))[0]

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last `num_bytes` (or all, if it has fewer) and the object's size; one request."""
        answer = await self._gate.run(
            partial(self._store.get_tail, path, num_bytes),
            link=self._link,
            meter=self._gate.meter("get"),
            cost=lambda found: Cost(bytes_fetched=found[0].nbytes),
            kind=Kind(read_bytes=num_bytes),
        )
        self._gate.count_used(answer[0].nbytes)
        return answer

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        return await self._gate.run(
            partial(self._store.head, path), link=self._link, meter=self._gate.meter("head")
        )

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder; one request per page of 1000, one after the other."""
        return await self._gate.run(
            partial(self._store.list, prefix, start_after=start_after, limit=limit),
            link=self._link,
            meter=self._gate.meter("list"),
            cost=_cost_of_list,
            kind=LISTING,
        )

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object, replacing what is there."""
        views = buffers_of(data)
        await self._gate.run(
            partial(self._store.put, path, views),
            link=self._link,
            meter=self._gate.meter("put"),
            cost=_cost_of_put(views),
        )

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists, atomically; see `ObjectStore`."""
        views = buffers_of(data)
        await self._gate.run(
            partial(self._store.put_if_absent, path, views),
            link=self._link,
            meter=self._gate.meter("put"),
            cost=_cost_of_put(views),
            kind=CONDITIONAL,
        )

    async def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store, replacing what is at `target`."""
        await self._gate.run(
            partial(self._store.copy, source, target),
            link=self._link,
            meter=self._gate.meter("copy"),
        )

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces; sends nothing yet.

        A write that sends parts takes one slot of `Limits.requests_max`, however many of its parts
        are under way behind it.
        """
        return MeteredUpload(await self._store.open_upload(path), self._gate, self._link)

    async def delete(self, path: str) -> None:
        """Remove an object; no error when there is none."""
        await self._gate.run(
            partial(self._store.delete, path), link=self._link, meter=self._gate.meter("delete")
        )

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove up to `DELETE_MAX` objects; counted as one request."""
        await self._gate.run(
            partial(self._store.delete_many, paths),
            link=self._link,
            meter=self._gate.meter("delete"),
        )


class StoreClients:
    """The stores that one session talks to, each opened once, behind one gate and one scheduler.

    Parameters
    ----------
    limits
        The session's.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._gate = RequestGate(limits)
        self._readers = anyio.CapacityLimiter(limits.decoders_max)
        self._scheduler = Scheduler(limits, self._gate, self._readers)
        self._opened: dict[tuple[object, ...], tuple[ObjectStore, StoreConfig]] = {}

    def sibling(self) -> StoreClients:
        """Clients of the same stores, those opened later included, for another event loop.

        Gate, scheduler and counters are its own. Safe to use from another thread.
        """
        other = StoreClients(self._limits)
        other._opened = self._opened
        return other

    @property
    def total(self) -> Receipt:
        """What the session sent so far; a request shared by several calls counts once."""
        return self._gate.total

    @property
    def store_stats(self) -> tuple[StoreStats, ...]:
        """What was learned about each store."""
        return self._gate.store_stats

    def open(
        self, uri: str | os.PathLike[str], storage_options: StorageOptions = None
    ) -> tuple[StoreClient, str]:
        """Client for the store of a URI, and the path in it; sends nothing.

        The same bucket with the same options is the same store, connections and all; `memory://`
        is one store that lives as long as this object.

        Parameters
        ----------
        uri, storage_options
            See `parse_uri`.

        Raises
        ------
        InvalidInputError
            The URI or an option is wrong, or does not fit the given obstore store.
        UnsupportedFeatureError
            The scheme is not known to this version.
        """
        config, path = parse_uri(uri, storage_options)
        opened = self._opened.get(config.key)
        if opened is None:
            # setdefault: a sibling in another thread may have been first.
            opened = self._opened.setdefault(config.key, (open_store(config), config))
        store, _ = opened
        remote = isinstance(store, ObstoreStore) and store.is_remote
        self._gate.link(store, limits=limits_of(config, self._limits), learns=remote)
        return self.wrap(store), path_in_store(config, path)

    def wrap(self, store: ObjectStore) -> StoreClient:
        """Client for a store of the caller's own, in this session's limits and counters."""
        return StoreClient(store, self._scheduler, self._gate, self._readers)


def _cost_of_list(found: Sequence[ObjectInfo]) -> Cost:
    pages = max(1, -(-len(found) // LIST_PAGE))
    return Cost(requests=pages, rounds=pages)


def _cost_of_put(views: Sequence[memoryview]) -> Callable[[None], Cost]:
    sent = Cost(bytes_written=sum(view.nbytes for view in views))
    return lambda _: sent


def _cut(one: ByteRange, extents: Sequence[ByteRange], found: Sequence[memoryview]) -> memoryview:
    """Bytes of a range out of the reads that hold it."""
    if not one.num_bytes:
        return memoryview(b"")
    place = locate(one, extents)
    return cut(one, extents[place], found[place])
