"""Objects written in pieces through obstore: one PUT for a short one, parts for a long one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import anyio

from alance.errors import StoreTimeoutError
from alance.io.handle import AnyStore, library, outstanding
from alance.io.pieces import joined, require_open
from alance.io.store import UPLOAD_PART_BYTES, Data, buffers_of

if TYPE_CHECKING:
    import obstore

__all__ = ["ObstoreUpload"]

UPLOAD_PARTS_AT_ONCE = 4
LAST_CALL_S = 30.0
"""How long the request that ends an upload may go on after its caller was cancelled."""


class Owner(Protocol):
    """The store that an upload writes to."""

    @property
    def url(self) -> str:
        """Scheme and bucket."""
        ...

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object."""
        ...

    def translated(self, path: str) -> AbstractContextManager[None]:
        """Turn obstore's exceptions into ours."""
        ...


class ObstoreUpload:
    """Keeps the first part in memory; past it, an obstore writer sends parts as they fill."""

    def __init__(self, owner: Owner, store: AnyStore, path: str) -> None:
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
                self._writer = library.use().open_writer_async(
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
            await self._owner.put(self._path, self._held)  # may fail, and be tried again
            self._over = True
            self._held = []
            return
        await self._hand_over(self._writer)
        with self._owner.translated(self._path):
            # A failed part must show here, while the upload can still be aborted.
            await outstanding.watch(self._writer.flush())
            with anyio.move_on_after(LAST_CALL_S, shield=True) as deadline:
                self._over = True
                await outstanding.watch(self._writer.close())
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
            await outstanding.watch(self._writer.__aexit__(Exception, None, None))

    async def _hand_over(self, writer: obstore.AsyncWritableFile) -> None:
        """Pass what is held to the writer, in pieces of at most one part."""
        held, self._held, self._held_bytes = self._held, [], 0
        self._broken = True  # until all of it has arrived: a call cut off in between loses bytes
        for view in joined(held):
            for start in range(0, view.nbytes, UPLOAD_PART_BYTES):
                piece = outstanding.watch(view[start : start + UPLOAD_PART_BYTES])
                before = self._handed_bytes
                self._handed_bytes += piece.nbytes
                # Were the call that creates the upload cut off, nobody could abort the upload.
                creates = before < UPLOAD_PART_BYTES <= self._handed_bytes
                with (
                    anyio.CancelScope(shield=creates),
                    self._owner.translated(self._path),
                ):
                    await outstanding.watch(writer.write(piece))
        self._broken = False

    def _require_open(self) -> None:
        require_open(self._path, over=self._over, broken=self._broken)
