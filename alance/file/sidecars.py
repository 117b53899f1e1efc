"""Files of blobs beside a data file: packed ones that fill up, and dedicated ones."""

from __future__ import annotations

from alance.encodings.blocks import Bytes
from alance.file.blobs import sidecar_path
from alance.io.store import ObjectStore, Upload

__all__ = ["SidecarWriter"]


class SidecarWriter:
    """Writes the sidecars of one data file; they are numbered from 1.

    Parameters
    ----------
    store
        Where the data file goes.
    path
        Of the data file.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._num_files = 0
        self._packed: Upload | None = None
        self._packed_id = 0
        self._packed_bytes = 0
        self.num_bytes = 0

    async def add_packed(self, data: Bytes, file_bytes_max: int) -> tuple[int, int]:
        """Append to the packed file; begins another where this one would get too long.

        Returns
        -------
        blob_id, position
            Number of the file, and where in it the bytes begin.
        """
        if self._packed is not None and self._packed_bytes + len(data) > file_bytes_max:
            await self.finish()
        if self._packed is None:
            self._packed_id, self._packed = await self._open()
            self._packed_bytes = 0
        position = self._packed_bytes
        await self._packed.write([data.data])
        self._packed_bytes += len(data)
        self.num_bytes += len(data)
        return self._packed_id, position

    async def add_dedicated(self, data: Bytes) -> tuple[int, int]:
        """Write a file of its own; returns the same."""
        blob_id, upload = await self._open()
        try:
            await upload.write([data.data])
            await upload.finish()
        except BaseException:
            await upload.abort()
            raise
        self.num_bytes += len(data)
        return blob_id, 0

    async def _open(self) -> tuple[int, Upload]:
        self._num_files += 1
        path = sidecar_path(self._path, self._num_files)
        return self._num_files, await self._store.open_upload(path)

    async def finish(self) -> None:
        """Make the packed file that is under way appear."""
        if self._packed is not None:
            await self._packed.finish()
            self._packed = None

    async def abort(self) -> None:
        """Forget the packed file that is under way; those before it stay."""
        if self._packed is not None:
            await self._packed.abort()
