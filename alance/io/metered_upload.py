"""Uploads whose requests pass the session's gate."""

from __future__ import annotations

from functools import partial

import anyio

from alance.io.gate import Cost, Kind, RequestGate
from alance.io.link import Link
from alance.io.store import UPLOAD_PART_BYTES, Data, Upload, buffers_of

__all__ = ["MeteredUpload"]

PARTS = Kind(idempotent=False, bounded=False)
"""A piece of a long upload: obstore retries the parts."""


class MeteredUpload:
    """An upload whose requests pass the gate; counts them by the rule of `UPLOAD_PART_BYTES`."""

    def __init__(self, upload: Upload, gate: RequestGate, link: Link) -> None:
        self._upload = upload
        self._gate = gate
        self._link = link
        self._num_bytes = 0

    async def write(self, data: Data) -> None:
        """Add bytes; may wait until earlier ones have been sent."""
        views = buffers_of(data)
        before = self._num_bytes
        self._num_bytes += sum(view.nbytes for view in views)
        parts = _full_parts(self._num_bytes) - _full_parts(before)
        starts = before <= UPLOAD_PART_BYTES < self._num_bytes
        if not (parts or starts):
            await self._upload.write(views)
            return
        sent = Cost(
            bytes_written=parts * UPLOAD_PART_BYTES,
            requests=parts + starts,
            rounds=1 + starts,
        )
        await self._gate.run(
            partial(self._upload.write, views),
            link=self._link,
            meter=self._gate.meter("multipart"),
            cost=lambda _: sent,
            kind=PARTS,
        )

    async def finish(self) -> None:
        """Send the rest and make the object appear."""
        rest = self._num_bytes % UPLOAD_PART_BYTES
        multipart = self._num_bytes > UPLOAD_PART_BYTES
        sent = (
            Cost(bytes_written=rest, requests=1 + bool(rest), rounds=1 + bool(rest))
            if multipart
            else Cost(bytes_written=self._num_bytes)
        )
        await self._gate.run(
            self._upload.finish,
            link=self._link,
            meter=self._gate.meter("multipart" if multipart else "put"),
            cost=lambda _: sent,
            kind=PARTS if multipart else Kind(),
        )

    async def abort(self) -> None:
        """Forget the object and what was sent of it; not interrupted by cancellation."""
        with anyio.CancelScope(shield=True):
            if self._num_bytes > UPLOAD_PART_BYTES:
                await self._gate.run(
                    self._upload.abort,
                    link=self._link,
                    meter=self._gate.meter("multipart"),
                    kind=PARTS,
                )
            else:
                await self._upload.abort()


def _full_parts(num_bytes: int) -> int:
    """Parts of an upload that are full once this much was written; none while one PUT may do."""
    return num_bytes // UPLOAD_PART_BYTES if num_bytes > UPLOAD_PART_BYTES else 0
