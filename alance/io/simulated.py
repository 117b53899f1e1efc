"""An object store in memory that fails on purpose: for tests of what happens between requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeAlias

import anyio.lowlevel

from alance.errors import AlreadyExistsError, ObjectNotFoundError, StoreError
from alance.io.store import Data, ObjectInfo, Upload, buffers_of

__all__ = ["Hook", "Moment", "Request", "SimulatedStore"]

REQUEST_COST_BYTES = 1 << 20
"""As for a remote store."""


class Moment(Enum):
    """When a hook is called: with nothing done yet, or with all done but the answer."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, numbered from 0 in the order of arrival.

    Parameters
    ----------
    number
        Requests before it.
    kind
        Name of the store's method.
    path
        Key or prefix.
    """

    number: int
    kind: str
    path: str


Hook: TypeAlias = Callable[[Request, Moment], Awaitable[None]]
"""Called around each request. Raising fails it: before its effect, or after it (a lost answer)."""


class SimulatedStore:
    """Objects in a dictionary behind the `ObjectStore` protocol.

    Nothing in it depends on time or chance: its clock ticks one second with each write. Every
    request is a point where the caller may be cancelled, before and after its effect.

    Parameters
    ----------
    hook
        Called before and after the effect of each request; may wait, fail or cancel.
    lists_in_order
        Whether listings are sorted; if not they come in reverse.
    honours_condition
        Whether `put_if_absent` refuses to replace; False is a store that ignores the condition.
    start
        What its clock shows at first.

    Attributes
    ----------
    objects
        What is stored, by path.
    requests
        All requests so far.
    """

    def __init__(
        self,
        *,
        hook: Hook | None = None,
        lists_in_order: bool = True,
        honours_condition: bool = True,
        start: datetime = datetime(2020, 1, 1, tzinfo=UTC),
    ) -> None:
        self.hook = hook
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self._lists_in_order = lists_in_order
        self._honours_condition = honours_condition
        self._modified: dict[str, datetime] = {}
        self._clock = start

    @property
    def url(self) -> str:
        """A scheme of its own."""
        return "simulated://store"

    @property
    def lists_in_order(self) -> bool:
        """As asked for at construction."""
        return self._lists_in_order

    def preload(self, path: str, data: bytes) -> None:
        """Place an object without a request."""
        self._write(path, data)

    @property
    def request_cost_bytes(self) -> int:
        """Bytes that take about as long to read as a request takes to begin.

        A gap below this between two wanted ranges is read over rather than asked around.
        """
        return REQUEST_COST_BYTES

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object, which must have them."""
        request = await self._begin("get_range", path)
        data = self._find(path)
        if not 0 <= start <= stop <= len(data):
            raise StoreError(f"{path}: no range [{start}, {stop}) in {len(data)} bytes", path=path)
        await self._end(request)
        return memoryview(data)[start:stop]

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last bytes of an object and its size."""
        request = await self._begin("get_tail", path)
        data = self._find(path)
        await self._end(request)
        return memoryview(data)[max(0, len(data) - num_bytes) :], len(data)

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        request = await self._begin("head", path)
        info = ObjectInfo(path, len(self._find(path)), self._modified[path])
        await self._end(request)
        return info

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder; `start_after` counts in order of path."""
        request = await self._begin("list", prefix)
        folder = prefix.rstrip("/") + "/" if prefix else ""
        paths = sorted(path for path in self.objects if path.startswith(folder))
        if start_after is not None:
            paths = [path for path in paths if path > start_after]
        if not self._lists_in_order:
            paths.reverse()
        infos = [ObjectInfo(p, len(self.objects[p]), self._modified[p]) for p in paths[:limit]]
        await self._end(request)
        return infos

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object, replacing what is there."""
        request = await self._begin("put", path)
        self._write(path, data)
        await self._end(request)

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists, if the store honours that."""
        request = await self._begin("put_if_absent", path)
        if path in self.objects and self._honours_condition:
            raise AlreadyExistsError(f"{path} exists", path=path)
        self._write(path, data)
        await self._end(request)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object, replacing what is at `target`."""
        request = await self._begin("copy", target)
        self._write(target, self._find(source))
        await self._end(request)

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces."""
        return _SimulatedUpload(self, path)

    async def delete(self, path: str) -> None:
        """Remove an object; no error when there is none."""
        request = await self._begin("delete", path)
        self.objects.pop(path, None)
        self._modified.pop(path, None)
        await self._end(request)

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove objects one by one, as most stores do."""
        for path in paths:
            await self.delete(path)

    async def _begin(self, kind: str, path: str) -> Request:
        request = Request(len(self.requests), kind, path)
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        if self.hook is not None:
            await self.hook(request, Moment.BEFORE)
        return request

    async def _end(self, request: Request) -> None:
        await anyio.lowlevel.checkpoint()
        if self.hook is not None:
            await self.hook(request, Moment.AFTER)

    def _find(self, path: str) -> bytes:
        try:
            return self.objects[path]
        except KeyError:
            raise ObjectNotFoundError(f"no object at {path}", path=path) from None

    def _write(self, path: str, data: Data) -> None:
        self.objects[path] = b"".join(buffers_of(data))
        self._clock += timedelta(seconds=1)
        self._modified[path] = self._clock


class _SimulatedUpload:
    """Pieces in a list until they are put as one object."""

    def __init__(self, store: SimulatedStore, path: str) -> None:
        self._store = store
        self._path = path
        self._pieces: list[bytes] = []

    async def write(self, data: Data) -> None:
        await anyio.lowlevel.checkpoint()
        self._pieces.append(b"".join(buffers_of(data)))

    async def finish(self) -> None:
        await self._store.put(self._path, self._pieces)

    async def abort(self) -> None:
        await anyio.lowlevel.checkpoint()
        self._pieces.clear()
