"""Files of blobs beside a data file: shared ones that fill up, and one for each large blob."""

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
        self._shared: Upload | None = None
        self._shared_id = 0
        self._shared_bytes = 0
        self.num_bytes = 0

    async def add_shared(self, data: Bytes, file_bytes_max: int) -> tuple[int, int]:
        """Append to the shared file; begins another where this one would get too long.

        Returns
        -------
        blob_id, position
            Number of the file, and where in it the bytes begin.
        """
        if self._shared is not None and self._shared_bytes + len(data) > file_bytes_max:
            await self.finish()
        if self._shared is None:
            self._shared_id, self._shared = await self._open()
            self._shared_bytes = 0
        position = self._shared_bytes
        await self._shared.write([data.data])
        self._shared_bytes += len(data)
        self.num_bytes += len(data)
        return self._shared_id, position

    async def add_alone(self, data: Bytes) -> tuple[int, int]:
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
        """Make the shared file that is under way appear."""
        if self._shared is not None:
            await self._shared.finish()
            self._shared = None

    async def abort(self) -> None:
        """Forget the shared file that is under way; those before it stay."""
        if self._shared is not None:
            await self._shared.abort()
