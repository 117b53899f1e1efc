"""The store protocol over obstore: S3, GCS, Azure, local files and memory."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from obstore.store import AzureStore, LocalStore

from alance.errors import AlanceError, ObjectNotFoundError, StoreError
from alance.io.entity_tags import EntityTags
from alance.io.handle import AnyStore, Handle, Make, library, outstanding, remake
from alance.io.obstore_errors import is_expired, translate
from alance.io.obstore_upload import ObstoreUpload
from alance.io.pieces import joined
from alance.io.store import Data, ObjectInfo, Upload, buffers_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

__all__ = ["ObstoreStore"]

LIST_CHUNK = 1000
REMOTE_COST_BYTES = 128 << 10
"""30 ms to the first byte at 90 MB/s are 2.7 MB; far less, as dozens of requests run at once."""
IN_MEMORY_COST_BYTES = 16 << 10
CHECKED_BYTES = 64 << 10
"""Reads from this size on ask which object they read; that costs 0.1 ms, much for smaller ones."""
TAGS_MAX = 4096


class ObstoreStore:
    """One bucket, container, the local file system, or a piece of memory, through obstore.

    Parameters
    ----------
    store
        The obstore store. It should not retry: those who send requests do, and count them.
    url
        Scheme and bucket.
    make
        Makes the same store again, for a forked process or with fresh credentials; None takes it
        over from `store`.
    make_for_uploads
        Makes a store for long uploads, which retries the parts; None for one like `store`.
    has_credentials
        Whether a credential provider was given, that can be asked again.
    """

    def __init__(
        self,
        store: AnyStore,
        url: str,
        *,
        make: Make | None = None,
        make_for_uploads: Make | None = None,
        has_credentials: bool = False,
    ) -> None:
        again = make or partial(remake, store)
        self._handle = Handle(url, store, again, has_credentials=has_credentials)
        self._uploads = self._handle
        if make_for_uploads is not None:
            self._uploads = Handle(url, None, make_for_uploads, has_credentials=has_credentials)
        self._tags = EntityTags(TAGS_MAX)
        self._url = url
        self._is_local = isinstance(store, LocalStore)
        self._has_suffixes = not isinstance(store, AzureStore)

    @property
    def is_remote(self) -> bool:
        """Whether requests go over a network."""
        return not self._url.startswith(("memory:", "file:"))

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
        if self.is_remote and stop - start >= CHECKED_BYTES:
            return await self._get_checked(path, start, stop)
        with self._asking(path) as store:
            answer = memoryview(
                await outstanding.watch(
                    library.use().get_range_async(store, path, start=start, end=stop)
                )
            )
        if answer.nbytes != stop - start:
            # The answer does not say why: ask.
            size = (await self.head(path)).num_bytes
            raise self._short(path, start, stop, answer.nbytes, size)
        return answer

    async def _get_checked(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of the object that earlier reads were of."""
        with self._asking(path) as store:
            result = await outstanding.watch(
                library.use().get_async(store, path, options={"range": (start, stop)})
            )
            size, tag = result.meta["size"], result.meta["e_tag"]
            answer = memoryview(await outstanding.watch(result.bytes_async()))
        if tag is not None and not self._tags.is_same(path, tag):
            raise StoreError(
                f"{self._url}/{path} was replaced while it was read; open it again", path=path
            )
        if answer.nbytes != stop - start:
            raise self._short(path, start, stop, answer.nbytes, size)
        return answer

    def _short(self, path: str, start: int, stop: int, num_bytes: int, size: int) -> StoreError:
        """The error for an answer of the wrong length."""
        if size < stop:
            return self._beyond(path, start, stop, size)
        return StoreError(
            f"{self._url}/{path}: asked for bytes [{start}, {stop}), got {num_bytes} bytes: the"
            " answer was cut off",
            path=path,
            transient=True,
        )

    def _beyond(self, path: str, start: int, stop: int, size: int) -> StoreError:
        return StoreError(
            f"{self._url}/{path}: asked for bytes [{start}, {stop}), but the object has only"
            f" {size} bytes",
            path=path,
        )

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
        with self._asking(path) as store:
            result = await outstanding.watch(
                library.use().get_async(store, path, options={"range": {"suffix": num_bytes}})
            )
            start, stop = result.range
            size = result.meta["size"]
            answer = memoryview(await outstanding.watch(result.bytes_async()))
        self._tags.note(path, result.meta["e_tag"])
        if stop != size or stop - start != min(num_bytes, size) or answer.nbytes != stop - start:
            raise StoreError(
                f"{self._url}/{path}: asked for the last {num_bytes} of {size} bytes, got"
                f" {answer.nbytes} bytes of [{start}, {stop}): the answer was cut off",
                path=path,
                transient=True,
            )
        return answer, size

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        with self._asking(path) as store:
            return _info(await outstanding.watch(library.use().head_async(store, path)))

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
        with self._asking(prefix) as store:
            stream = library.use().list(
                store,
                prefix or None,
                offset=start_after,
                chunk_size=min(LIST_CHUNK, wanted),
            )
            while len(found) < wanted:
                try:
                    chunk = await outstanding.watch(stream.__anext__())
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
        self._tags.note(path, None)
        pieces = [outstanding.watch(memoryview(one)) for one in joined(buffers_of(data))]
        with self._asking(path) as store:
            sending = library.use().put_async(
                store,
                path,
                pieces[0] if len(pieces) == 1 else pieces,
                mode=mode,
                use_multipart=False,
            )
            await outstanding.watch(sending)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store, replacing what is at `target`."""
        self._tags.note(target, None)
        with self._asking(source) as store:
            await outstanding.watch(library.use().copy_async(store, source, target))

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces; sends nothing yet."""
        self._tags.note(path, None)
        return ObstoreUpload(self, self._uploads.use(), path)

    async def delete(self, path: str) -> None:
        """Remove an object; no error when there is none."""
        try:
            with self._asking(path) as store:
                await outstanding.watch(library.use().delete_async(store, path))
        except ObjectNotFoundError:
            return

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove up to 1000 objects: one request in S3, one each elsewhere."""
        if not paths:
            return
        try:
            with self._asking(paths[0]) as store:
                await outstanding.watch(library.use().delete_async(store, list(paths)))
        except ObjectNotFoundError:  # the first one missing hides the others
            for path in paths:
                await self.delete(path)

    @contextmanager
    def _asking(self, path: str) -> Generator[AnyStore, None, None]:
        """Use the store; credentials that it finds expired are asked for anew."""
        store = self._handle.use()
        try:
            with self.translated(path):
                yield store
        except StoreError as exc:
            if is_expired(exc) and self._handle.renew(store):
                exc.transient = True
            raise

    @contextmanager
    def translated(self, path: str) -> Generator[None, None, None]:
        """Turn obstore's exceptions into ours, with the place in message and attribute."""
        try:
            yield
        except AlanceError:
            raise
        except Exception as exc:
            error = translate(exc, self._url, path)
            if is_expired(error) and self._uploads is not self._handle:
                self._uploads.renew()  # an upload under way has failed; the next need not
            raise error from exc


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"], meta["e_tag"])
