"""obstore's asynchronous functions for a forked child, where those of obstore never answer.

obstore answers them from threads that a child does not have, if its parent has used them. Its
blocking functions start threads of their own, so here they run, each in a Python thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import obstore

__all__ = [
    "delete_async",
    "get_async",
    "get_range_async",
    "head_async",
    "list",
    "open_writer_async",
    "put_async",
]

T = TypeVar("T")


async def delete_async(*args: Any, **options: Any) -> Any:
    """`obstore.delete_async`."""
    return await _in_thread(partial(obstore.delete, *args, **options))


async def get_async(*args: Any, **options: Any) -> Any:
    """`obstore.get_async`."""
    return _Result(await _in_thread(partial(obstore.get, *args, **options)))


async def get_range_async(*args: Any, **options: Any) -> Any:
    """`obstore.get_range_async`."""
    return await _in_thread(partial(obstore.get_range, *args, **options))


async def head_async(*args: Any, **options: Any) -> Any:
    """`obstore.head_async`."""
    return await _in_thread(partial(obstore.head, *args, **options))


async def put_async(*args: Any, **options: Any) -> Any:
    """`obstore.put_async`."""
    return await _in_thread(partial(obstore.put, *args, **options))


def list(*args: Any, **options: Any) -> _Listing:
    """`obstore.list`, to be iterated asynchronously."""
    return _Listing(obstore.list(*args, **options))


def open_writer_async(*args: Any, **options: Any) -> _Writer:
    """`obstore.open_writer_async`."""
    return _Writer(obstore.open_writer(*args, **options))


class _Result:
    """What `get_async` answers."""

    def __init__(self, result: obstore.GetResult) -> None:
        self.range = result.range
        self.meta = result.meta
        self._result = result

    async def bytes_async(self) -> Any:
        return await _in_thread(self._result.bytes)


class _Listing:
    """Chunks of a listing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __anext__(self) -> Any:
        chunk = await _in_thread(lambda: next(self._stream, None))
        if chunk is None:
            raise StopAsyncIteration
        return chunk


class _Writer:
    """An upload."""

    def __init__(self, writer: obstore.WritableFile) -> None:
        self._writer = writer

    async def write(self, data: Any) -> Any:
        return await _in_thread(partial(self._writer.write, data))

    async def flush(self) -> None:
        await _in_thread(self._writer.flush)

    async def close(self) -> None:
        await _in_thread(self._writer.close)

    async def __aexit__(self, *error: Any) -> None:
        await _in_thread(partial(self._writer.__exit__, *error))


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a request in a thread; how many run at once is the request gate's matter, not ours."""
    return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
