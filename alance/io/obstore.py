"""The store protocol over obstore: S3, GCS, Azure, local files and memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
import obstore
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    StoreTimeoutError,
)
from alance.io.exit import OutstandingObjects
from alance.io.forked import ObstoreLibrary
from alance.io.store import UPLOAD_PART_BYTES, Data, ObjectInfo, Upload, buffers_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

__all__ = ["AnyStore", "ObstoreStore", "summary"]

T = TypeVar("T")
AnyStore: TypeAlias = "AzureStore | GCSStore | LocalStore | MemoryStore | S3Store"

LIST_CHUNK = 1000
UPLOAD_PARTS_AT_ONCE = 4
MESSAGE_MAX = 500
SMALL_BUFFER_BYTES = 256 << 10
"""Neighbouring buffers below this size are joined: one copy costs less than one call."""
REMOTE_COST_BYTES = 128 << 10
"""30 ms to the first byte at 90 MB/s are 2.7 MB; far less, as dozens of requests run at once."""
IN_MEMORY_COST_BYTES = 16 << 10
LAST_CALL_S = 30.0
"""How long the request that ends an upload may go on after its caller was cancelled."""

_library = ObstoreLibrary()
_outstanding = OutstandingObjects(drain=lambda: _library.use().Bytes())


class ObstoreStore:
    """One bucket, container, the local file system, or a piece of memory, through obstore.

    Parameters
    ----------
    store
        The obstore store; its own retries and time limits hold.
    url
        Scheme and bucket.
    make
        Makes the same store again from another copy of obstore, for a forked process; None takes it
        over from `store`.
    """

    def __init__(
        self, store: AnyStore, url: str, *, make: Callable[[ModuleType], AnyStore] | None = None
    ) -> None:
        self._given = store
        self._make = make or partial(_remake, store)
        self._url = url
        self._is_local = isinstance(store, LocalStore)
        self._has_suffixes = not isinstance(store, AzureStore)

    @property
    def _store(self) -> AnyStore:
        """The store; after a fork one of the child's own, with connections of its own.

        Raises
        ------
        StoreError
            It is in the parent's memory.
        """
        kind = getattr(_library.use().store, type(self._given).__name__)
        if not isinstance(self._given, kind):
            if isinstance(self._given, MemoryStore):
                raise StoreError(f"{self._url} is in the memory of this forked process's parent")
            self._given = self._make(_library.use())
        return self._given

    @property
    def url(self) -> str:
        """Scheme and bucket, such as `s3://bucket`; identifies the store in messages."""
        return self._url

    @property
    def lists_in_order(self) -> bool:
        """Whether listings are in ascending order of path; not so in S3 directory buckets."""
        return not (self._url.startswith("s3://") and self._url.endswith("--x-s3"))

    @property
    def request_cost_bytes(self) -> int:
        """Bytes that take about as long to read as a request takes to begin.

        A gap below this between two wanted ranges is read over rather than asked around.
        """
        return IN_MEMORY_COST_BYTES if self._url.startswith("memory:") else REMOTE_COST_BYTES

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object; exactly that many, or an error."""
        if start == stop:
            return memoryview(b"")
        with self.translated(path):
            answer = memoryview(
                await _outstanding.watch(
                    _library.use().get_range_async(self._store, path, start=start, end=stop)
                )
            )
        return self._checked(answer, path, start, stop)

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last `num_bytes` (or all, if it has fewer) and the object's size.

        Two requests instead of one on Azure, which knows no suffix ranges, for an empty object on
        S3 and GCS, which refuse them, and for `num_bytes` of 0.
        """
        if num_bytes > 0 and self._has_suffixes:
            try:
                return await self._get_suffix(path, num_bytes)
            except StoreError as exc:
                if "416" not in str(exc) and "non-partial" not in str(exc):
                    raise
        size = (await self.head(path)).num_bytes
        return await self.get_range(path, max(0, size - num_bytes), size), size

    async def _get_suffix(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        with self.translated(path):
            result = await _outstanding.watch(
                _library.use().get_async(
                    self._store, path, options={"range": {"suffix": num_bytes}}
                )
            )
            start, stop = result.range
            size = result.meta["size"]
            answer = memoryview(await _outstanding.watch(result.bytes_async()))
        if stop != size or stop - start != min(num_bytes, size):
            raise StoreError(
                f"{self._url}/{path}: asked for the last {num_bytes} of {size} bytes, got"
                f" [{start}, {stop})",
                path=path,
            )
        return self._checked(answer, path, start, stop), size

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        with self.translated(path):
            return _info(await _outstanding.watch(_library.use().head_async(self._store, path)))

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder, sorted by path where `lists_in_order`; at most `limit`.

        A local listing is read whole and sorted here, whatever the limit. Below a file there are
        none, as in a bucket.
        """
        try:
            return await self._list(prefix, start_after, limit)
        except ObjectNotFoundError:
            if not self._is_local:
                raise  # the bucket is missing
            return ()

    async def _list(
        self, prefix: str, start_after: str | None, limit: int | None
    ) -> Sequence[ObjectInfo]:
        local = self._is_local
        wanted = sys.maxsize if limit is None or local else limit
        found: list[ObjectInfo] = []
        if wanted <= 0:
            return found
        with self.translated(prefix):
            stream = _library.use().list(
                self._store,
                prefix or None,
                offset=start_after,
                chunk_size=min(LIST_CHUNK, wanted),
            )
            while len(found) < wanted:
                try:
                    chunk = await _outstanding.watch(stream.__anext__())
                except StopAsyncIteration:
                    break
                found.extend(_info(meta) for meta in chunk)
        if local:
            found.sort(key=lambda info: info.path)
        return found[:limit]

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object with one PUT, replacing what is there."""
        await self._put(path, data, "overwrite")

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists, atomically; see `ObjectStore`."""
        await self._put(path, data, "create")

    async def _put(self, path: str, data: Data, mode: Any) -> None:
        pieces = [_outstanding.watch(memoryview(one)) for one in joined(buffers_of(data))]
        with self.translated(path):
            sending = _library.use().put_async(
                self._store,
                path,
                pieces[0] if len(pieces) == 1 else pieces,
                mode=mode,
                use_multipart=False,
            )
            await _outstanding.watch(sending)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store, replacing what is at `target`."""
        with self.translated(source):
            await _outstanding.watch(_library.use().copy_async(self._store, source, target))

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces; sends nothing yet."""
        return _ObstoreUpload(self, self._store, path)

    async def delete(self, path: str) -> None:
        """Remove an object; no error when there is none."""
        try:
            with self.translated(path):
                await _outstanding.watch(_library.use().delete_async(self._store, path))
        except ObjectNotFoundError:
            return

    def _checked(self, answer: memoryview, path: str, start: int, stop: int) -> memoryview:
        """Pass on an answer of the right length."""
        if answer.nbytes != stop - start:
            raise StoreError(
                f"{self._url}/{path}: asked for bytes [{start}, {stop}), got {answer.nbytes} bytes:"
                " the object is shorter, or its answer was cut off",
                path=path,
            )
        return answer

    @contextmanager
    def translated(self, path: str) -> Generator[None, None, None]:
        """Turn obstore's exceptions into ours, with the place in message and attribute."""
        try:
            yield
        except AlanceError:
            raise
        except Exception as exc:
            raise _translate(exc, self._url, path) from exc


class _ObstoreUpload:
    """Keeps the first part in memory; past it, an obstore writer sends parts as they fill."""

    def __init__(self, owner: ObstoreStore, store: AnyStore, path: str) -> None:
        self._owner = owner
        self._store = store
        self._path = path
        self._held: list[memoryview] = []
        self._held_bytes = 0
        self._handed_bytes = 0
        self._writer: obstore.AsyncWritableFile | None = None
        self._over = False
        self._broken = False

    async def write(self, data: Data) -> None:
        """Add bytes; waits while all slots for parts are taken."""
        self._require_open()
        views = buffers_of(data)
        self._held.extend(views)
        self._held_bytes += sum(view.nbytes for view in views)
        if self._handed_bytes + self._held_bytes > UPLOAD_PART_BYTES:
            if self._writer is None:
                self._writer = _library.use().open_writer_async(
                    self._store,
                    self._path,
                    buffer_size=UPLOAD_PART_BYTES,
                    max_concurrency=UPLOAD_PARTS_AT_ONCE,
                )
            if self._held_bytes >= UPLOAD_PART_BYTES or not self._handed_bytes:
                await self._hand_over(self._writer)

    async def finish(self) -> None:
        """Send the rest and make the object appear."""
        self._require_open()
        if self._writer is None:
            self._over = True
            await self._owner.put(self._path, self._held)
            self._held = []
            return
        await self._hand_over(self._writer)
        with self._owner.translated(self._path):
            # A failed part must show here, while the upload can still be aborted.
            await _outstanding.watch(self._writer.flush())
            with anyio.move_on_after(LAST_CALL_S, shield=True) as deadline:
                self._over = True
                await _outstanding.watch(self._writer.close())
        if deadline.cancelled_caught:
            raise StoreTimeoutError(
                f"{self._owner.url}/{self._path}: no answer to the end of the upload in"
                f" {LAST_CALL_S:.0f} s",
                path=self._path,
            )

    async def abort(self) -> None:
        """Forget the object and what was sent of it. Safe after a failure, and twice."""
        self._held = []
        over, self._over = self._over, True
        if over or self._writer is None:
            return
        with (
            anyio.move_on_after(LAST_CALL_S, shield=True),
            self._owner.translated(self._path),
        ):
            await _outstanding.watch(self._writer.__aexit__(Exception, None, None))

    async def _hand_over(self, writer: obstore.AsyncWritableFile) -> None:
        """Pass what is held to the writer, in pieces of at most one part."""
        held, self._held, self._held_bytes = self._held, [], 0
        self._broken = True  # until all of it has arrived: a call cut off in between loses bytes
        for view in joined(held):
            for start in range(0, view.nbytes, UPLOAD_PART_BYTES):
                piece = _outstanding.watch(view[start : start + UPLOAD_PART_BYTES])
                before = self._handed_bytes
                self._handed_bytes += piece.nbytes
                # Were the call that creates the upload cut off, nobody could abort the upload.
                creates = before < UPLOAD_PART_BYTES <= self._handed_bytes
                with (
                    anyio.CancelScope(shield=creates),
                    self._owner.translated(self._path),
                ):
                    await _outstanding.watch(writer.write(piece))
        self._broken = False

    def _require_open(self) -> None:
        if self._over:
            raise InvalidInputError(f"the upload of {self._path} is already finished or aborted")
        if self._broken:
            raise InvalidInputError(
                f"an earlier write to the upload of {self._path} failed or was cancelled; abort it"
            )


def _remake(store: Any, library: ModuleType) -> AnyStore:
    """Make the same store from another copy of obstore, by what pickling would keep of it."""
    arguments, options = store.__getnewargs_ex__()
    made: AnyStore = getattr(library.store, type(store).__name__)(*arguments, **options)
    return made


def joined(views: Sequence[memoryview]) -> list[memoryview]:
    """The same bytes in fewer buffers: runs of small ones are copied together; never empty."""
    pieces: list[memoryview] = []
    run: list[memoryview] = []
    for view in views:
        if view.nbytes < SMALL_BUFFER_BYTES:
            run.append(view)
            continue
        pieces.extend(_one(run))
        run = []
        pieces.append(view)
    pieces.extend(_one(run))
    return pieces or [memoryview(b"")]


def _one(run: list[memoryview]) -> list[memoryview]:
    return run if len(run) < 2 else [memoryview(b"".join(run))]


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"])


def _translate(exc: Exception, url: str, path: str) -> AlanceError:
    """Our exception for one of obstore's; some kinds are only told apart by their text."""
    place, text = f"{url}/{path}", str(exc)
    message = f"{place}: {summary(exc)}"
    theirs = _library.use().exceptions
    if isinstance(exc, FileNotFoundError) or "NotADirectory" in text:
        return ObjectNotFoundError(f"{place} does not exist", path=path)
    if isinstance(exc, theirs.AlreadyExistsError):
        return AlreadyExistsError(f"{place} already exists", path=path)
    if isinstance(exc, theirs.PermissionDeniedError | theirs.UnauthenticatedError) or (
        "PermissionDenied" in text
    ):
        return PermissionDeniedError(f"{message}; check the credentials", path=path)
    if isinstance(exc, theirs.PreconditionError | theirs.NotModifiedError):
        return PreconditionFailedError(message, path=path)
    if isinstance(exc, ValueError):
        return InvalidInputError(message)
    if "TimedOut" in text or "timed out" in text:
        return StoreTimeoutError(message, path=path)
    return StoreError(message, path=path)


def summary(exc: Exception) -> str:
    """What obstore says, on one line, without the dump of its error values behind it."""
    said = " ".join(str(exc).partition("\n\nDebug source")[0].split())
    return said if len(said) <= MESSAGE_MAX else f"{said[:MESSAGE_MAX]}..."
