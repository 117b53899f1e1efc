"""Stores to put around other stores: they count, delay or fail requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio

from alance.io.store import Data, ObjectInfo, ObjectStore, Upload, buffers_of

__all__ = ["CountingStore", "FaultyStore", "LatencyStore", "Request", "WrapperStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a store's method.

    Parameters
    ----------
    kind
        Name of the method; for uploads upload_write, upload_finish, upload_abort.
    path
        Path, or prefix of a listing.
    start, stop
        Byte range of a read, else None; of a tail, start is minus its length.
    num_bytes
        Bytes to be written.
    """

    kind: str
    path: str
    start: int | None = None
    stop: int | None = None
    num_bytes: int = 0


class WrapperStore:
    """Passes every request to another store; subclasses override `around`.

    Parameters
    ----------
    inner
        The store that answers.
    """

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        """Scheme and bucket of the inner store."""
        return self.inner.url

    @property
    def request_cost_bytes(self) -> int:
        """As the inner store says."""
        return self.inner.request_cost_bytes

    @property
    def lists_in_order(self) -> bool:
        """Whether the inner store lists in ascending order of path."""
        return self.inner.lists_in_order

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request; override to do something before, after or instead."""
        return await send()

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object."""
        send = partial(self.inner.get_range, path, start, stop)
        return await self.around(Request("get_range", path, start, stop), send)

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last `num_bytes` and the object's size."""
        send = partial(self.inner.get_tail, path, num_bytes)
        return await self.around(Request("get_tail", path, -num_bytes), send)

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        return await self.around(Request("head", path), partial(self.inner.head, path))

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder."""
        send = partial(self.inner.list, prefix, start_after=start_after, limit=limit)
        return await self.around(Request("list", prefix), send)

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object."""
        await self.around(_write("put", path, data), partial(self.inner.put, path, data))

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists."""
        send = partial(self.inner.put_if_absent, path, data)
        await self.around(_write("put_if_absent", path, data), send)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object."""
        send = partial(self.inner.copy, source, target)
        await self.around(Request("copy", target), send)

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces."""
        send = partial(self.inner.open_upload, path)
        return _WrapperUpload(self, path, await self.around(Request("open_upload", path), send))

    async def delete(self, path: str) -> None:
        """Remove an object."""
        await self.around(Request("delete", path), partial(self.inner.delete, path))

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove objects; the request's path is the first of them."""
        send = partial(self.inner.delete_many, paths)
        await self.around(Request("delete_many", paths[0] if paths else ""), send)


class CountingStore(WrapperStore):
    """Keeps a list of all requests, in the order they were sent.

    Attributes
    ----------
    requests
        May be cleared between the parts of a test.
    under_way, most_under_way
        Requests sent and not answered, now and at most.
    """

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []
        self.under_way = 0
        self.most_under_way = 0

    def count(self, *kinds: str) -> int:
        """Requests of these kinds, or of all when none is given."""
        return sum(not kinds or one.kind in kinds for one in self.requests)

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        """Note the request and send it."""
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await send()
        finally:
            self.under_way -= 1


class LatencyStore(WrapperStore):
    """Waits before each request, as a far store would.

    Parameters
    ----------
    inner
        The store that answers.
    latency_s
        Seconds before each request is passed on.
    """

    def __init__(self, inner: ObjectStore, latency_s: float) -> None:
        super().__init__(inner)
        self.latency_s = latency_s

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        """Sleep, then send."""
        await anyio.sleep(self.latency_s)
        return await send()


class FaultyStore(WrapperStore):
    """Fails the requests that a test picks, before or after they have their effect.

    Parameters
    ----------
    inner
        The store that answers.
    before
        Called with each request; raises to fail it before it is sent.
    after
        Called with each request that was answered; raises to lose its answer.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        before: Callable[[Request], None] | None = None,
        after: Callable[[Request], None] | None = None,
    ) -> None:
        super().__init__(inner)
        self._before = before
        self._after = after

    async def around(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        """Send the request unless a fault is due; drop the answer when one is due then."""
        if self._before is not None:
            self._before(request)
        answer = await send()
        if self._after is not None:
            self._after(request)
        return answer


class _WrapperUpload:
    """An upload of which each step passes the wrapper's `around`."""

    def __init__(self, owner: WrapperStore, path: str, inner: Upload) -> None:
        self._owner = owner
        self._path = path
        self._inner = inner

    async def write(self, data: Data) -> None:
        """Add bytes."""
        request = _write("upload_write", self._path, data)
        await self._owner.around(request, partial(self._inner.write, data))

    async def finish(self) -> None:
        """Make the object appear."""
        await self._owner.around(Request("upload_finish", self._path), self._inner.finish)

    async def abort(self) -> None:
        """Forget the object."""
        await self._owner.around(Request("upload_abort", self._path), self._inner.abort)


def _write(kind: str, path: str, data: Data) -> Request:
    return Request(kind, path, num_bytes=sum(view.nbytes for view in buffers_of(data)))
