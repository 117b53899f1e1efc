"""Local files, written beside their place and then put there; nothing is ever seen half written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

import anyio
import anyio.to_thread

from alance._aio import run_to_end
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StoreError,
)
from alance.io.pieces import joined, require_open
from alance.io.store import UPLOAD_PART_BYTES, Data, buffers_of

__all__ = ["LocalUpload", "in_thread", "os_error", "write_file"]

WRITE_BYTES_MAX = 1 << 20
"""Of one system call. Linux makes a writer wait for the disk by what one call dirties: of writes of
8 MB every third took 57 ms in place of 1.5; in pieces none did."""

T = TypeVar("T")


async def write_file(path: str, data: Data, *, replaces: bool) -> None:
    """Write a whole file; `path` is absolute, without the leading slash.

    As with obstore, nothing is forced to the disk.

    Raises
    ------
    AlreadyExistsError
        A file is there and `replaces` is False.
    StoreError
        The system refused.
    """
    await _to_end(partial(_write_whole, path, joined(buffers_of(data)), replaces))


class LocalUpload:
    """A file that grows under another name and gets its own at the end.

    Parameters
    ----------
    path
        Absolute, without the leading slash.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: list[memoryview] = []
        self._held_bytes = 0
        self._fd: int | None = None
        self._staged = ""
        self._over = False
        self._broken = False

    async def write(self, data: Data) -> None:
        """Add bytes; written out when there are many."""
        self._require_open()
        views = buffers_of(data)
        self._held.extend(views)
        self._held_bytes += sum(view.nbytes for view in views)
        if self._held_bytes > UPLOAD_PART_BYTES:
            await self._write_held()

    async def finish(self) -> None:
        """Write the rest and make the file appear."""
        self._require_open()
        if self._fd is None:
            await write_file(self._path, self._held, replaces=True)
            self._over, self._held = True, []
            return
        await self._write_held()
        await _to_end(self._publish)

    async def abort(self) -> None:
        """Forget the file and what was written of it. Safe after a failure, and twice."""
        self._held, self._over = [], True
        if self._fd is not None:
            await _to_end(self._discard)

    async def _write_held(self) -> None:
        held, self._held, self._held_bytes = joined(self._held), [], 0
        self._broken = True  # until all of it is written
        await _to_end(partial(self._append, held))
        self._broken = False

    def _append(self, views: Sequence[memoryview]) -> None:
        try:
            if self._fd is None:
                self._fd, self._staged = _stage(self._path)
            _write_all(self._fd, views)
        except OSError as exc:
            raise os_error(exc, self._path, "written") from exc

    def _publish(self) -> None:
        try:
            self._close()
            os.rename(self._staged, "/" + self._path)
            self._over = True
        except OSError as exc:
            raise os_error(exc, self._path, "written") from exc
        finally:
            if not self._over:
                _remove(self._staged)
                self._over = True

    def _discard(self) -> None:
        self._close()
        _remove(self._staged)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _require_open(self) -> None:
        require_open(self._path, over=self._over, broken=self._broken)


def _write_whole(path: str, views: Sequence[memoryview], replaces: bool) -> None:
    """Write a file under another name, then give it its own."""
    try:
        fd, staged = _stage(path)
        try:
            try:
                _write_all(fd, views)
            finally:
                os.close(fd)
            if replaces:
                os.rename(staged, "/" + path)
                return
            os.link(staged, "/" + path)
            os.unlink(staged)
        except BaseException:
            _remove(staged)
            raise
    except OSError as exc:
        raise os_error(exc, path, "written") from exc


def _stage(path: str) -> tuple[int, str]:
    """Create a file beside a path, and its folder: a name that no listing of obstore shows."""
    for number in count(1):
        staged = f"/{path}#{number}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        try:
            return os.open(staged, flags, 0o666), staged
        except FileExistsError:
            continue
        except FileNotFoundError:
            os.makedirs(os.path.dirname(staged), exist_ok=True)
            return os.open(staged, flags, 0o666), staged
    raise AssertionError("there is always another number")


def _write_all(fd: int, views: Sequence[memoryview]) -> None:
    for view in views:
        rest = view
        while rest:
            rest = rest[os.write(fd, rest[:WRITE_BYTES_MAX]) :]


def _remove(staged: str) -> None:
    try:
        os.unlink(staged)
    except FileNotFoundError:
        return


def os_error(error: OSError, path: str, wanted: str) -> AlanceError:
    """The error of the tree that says the same; `wanted` is "read", "listed" or "written"."""
    if isinstance(error, FileExistsError):
        return AlreadyExistsError(f"/{path} already exists", path=path)
    if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        return ObjectNotFoundError(f"there is no file /{path}", path=path)
    if isinstance(error, PermissionError):
        message = f"/{path} must not be {wanted}: {error.strerror}"
        return PermissionDeniedError(message, path=path)
    return StoreError(f"/{path} cannot be {wanted}: {error.strerror}", path=path)


async def in_thread(work: Callable[[], T]) -> T:
    """Run a read in a thread; how many run at once is the request gate's matter, not ours."""
    return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))


async def _to_end(work: Callable[[], T]) -> T:
    """Run a write in a thread, and wait for its end whatever cancels the caller."""
    return await run_to_end(in_thread(work))
