"""Writing one data file: pages of gathered rows are encoded in threads, written and described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio.lowlevel
import numpy as np
import pyarrow as pa

from alance._aio import run_all
from alance.encodings.blob_values import FindBase
from alance.encodings.build_blob import BlobPage
from alance.encodings.constant import join_constants
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.options import ColumnOptions
from alance.encodings.wire import build_column_encoding, build_page_layout
from alance.errors import InvalidInputError
from alance.file.blob_schema import as_descriptors
from alance.file.footer import (
    GLOBAL_BUFFERS_MAX,
    build_metadata_section,
    num_padding_bytes,
)
from alance.file.gathering import (
    Column,
    Due,
    PlacedPage,
    build_pages_of,
    cut_fullest,
    gather,
    join_runs,
)
from alance.file.metadata import (
    FILE_ROWS_MAX,
    ColumnMetadata,
    FileDescriptor,
    PageInfo,
    build_column_metadata,
    build_file_descriptor,
)
from alance.file.schema import Schema
from alance.file.sidecars import SidecarWriter
from alance.io.store import ObjectStore, Upload
from alance.types import ByteRange, FileVersion

__all__ = ["FileWriter", "WrittenFile"]

PENDING_BYTES_MAX = 128 * 1024 * 1024
"""Rows waiting in all columns; beyond it the fullest columns cut their pages early."""
GATHERED_BYTES_MAX = 256 * 1024
"""Of a batch whose rows are copied on the event loop."""
SIDECAR_BYTES_MAX = 1 << 30
"""Of a file that blobs share."""
FINISHED_AT_ONCE = 16
"""Columns whose metadata is built before other tasks have their turn."""

T = TypeVar("T")
Built: TypeAlias = tuple[Column, EncodedPage | BlobPage]
Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class RunInThread(Protocol):
    """How CPU work leaves the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run it and return its result."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a manifest must know of a finished file."""

    path: str
    num_rows: int
    num_bytes: int
    field_ids: tuple[int, ...]
    """Of the leaves, in column order."""


class FileWriter:
    """Writes record batches to one file; memory is bounded by the pages being cut.

    Parameters
    ----------
    store, path
        Where the file goes; nothing is visible there until `finish`.
    schema
        Fields with their ids; batches have its Arrow schema.
    version
        2.1 or 2.2.
    run_in_thread
        Runs the encoding of some pages.
    find_base
        Finds base paths of the dataset that blobs at URIs lie below.
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        schema: Schema,
        version: FileVersion,
        run_in_thread: RunInThread,
        *,
        find_base: FindBase | None = None,
    ) -> None:
        if version not in (FileVersion.V2_1, FileVersion.V2_2):
            raise InvalidInputError(
                f"data_storage_version {version.value} cannot be written; use '2.1' or '2.2'"
            )
        schema.check_options()
        self.path = path
        self._store = store
        self._schema = schema
        self._version = version
        self._run_in_thread = run_in_thread
        self._find_base = find_base
        self._columns = [Column.of(leaf) for leaf in schema.leaves(version)]
        self._sidecars = SidecarWriter(store, path)
        self._upload: Upload | None = None
        self._position = 0
        self._global_buffers: list[ByteRange] = []
        self.num_rows = 0

    @property
    def num_bytes(self) -> int:
        """Bytes written so far, and those of rows that wait."""
        return self._position + self._sidecars.num_bytes + self._pending_bytes

    @property
    def _pending_bytes(self) -> int:
        return sum(column.pending_bytes for column in self._columns)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Waits for pages that are due to be encoded and uploaded.

        Parameters
        ----------
        batch
            Columns in the order of the schema; types have been checked by the caller.
        """
        if batch.num_rows == 0:
            return
        if self.num_rows + batch.num_rows > FILE_ROWS_MAX:
            raise InvalidInputError(f"a file holds at most {FILE_ROWS_MAX} rows")
        self.num_rows += batch.num_rows
        if batch.nbytes > GATHERED_BYTES_MAX:
            due = await self._run_in_thread(partial(gather, self._columns, batch))
        else:
            due = gather(self._columns, batch)
        if self._pending_bytes > PENDING_BYTES_MAX:
            due.extend(cut_fullest(self._columns, PENDING_BYTES_MAX // 2))
        await self._encode(due)

    async def _encode(self, due: Sequence[Due]) -> None:
        """Encode pages in threads, two runs at a time, and write them in order meanwhile."""
        runs = join_runs(due)
        before: Sequence[Built] = ()
        for first in range(0, len(runs), 2):
            pair = runs[first : first + 2]
            built: list[Sequence[Built]] = [[] for _ in pair]

            async def build(i: int, run: Sequence[Due]) -> None:
                work = partial(build_pages_of, run, self._version, self._find_base)
                built[i] = await self._run_in_thread(work)  # noqa: B023

            jobs: list[Job] = [partial(build, i, run) for i, run in enumerate(pair)]
            if before:
                jobs.append(partial(self._place_all, before))
            await run_all(jobs)
            before = list(chain.from_iterable(built))
        await self._place_all(before)

    async def _place_all(self, pages: Sequence[Built]) -> None:
        """Write pages in order."""
        for column, page in pages:
            if isinstance(page, BlobPage):
                page = await self._write_blobs(page, column.leaf.options)
            await self._place(column, page)

    async def _write_blobs(self, page: BlobPage, options: ColumnOptions) -> EncodedPage:
        """Write the values of a page, here and beside the file, then build it."""
        start = (await self._write(page.values)).start
        longest = options.blob_pack_file_size_threshold or SIDECAR_BYTES_MAX
        homes = [
            await (
                self._sidecars.add_dedicated(blob.data)
                if blob.is_dedicated
                else self._sidecars.add_packed(blob.data, longest)
            )
            for blob in page.apart
        ]
        return page.place(start, homes)

    async def _place(self, column: Column, page: EncodedPage) -> None:
        """Write a page's data buffers; its search buffers wait."""
        last = column.pages[-1] if column.pages else None
        joined = None if last is None else join_constants(last.page, page)
        if last is not None and joined is not None:
            column.num_rows += page.num_rows // column.leaf.items_per_row
            last.page = joined
            return
        places = [None if b.is_search else await self._write(b) for b in page.buffers]
        priority = column.num_rows
        column.num_rows += page.num_rows // column.leaf.items_per_row
        kept = tuple(b if b.is_search else PageBuffer((), False) for b in page.buffers)
        slim = EncodedPage(page.layout, kept, page.num_rows)
        column.pages.append(PlacedPage(slim, priority, places))

    async def add_global_buffer(self, data: bytes) -> int:
        """Write a buffer of the file as a whole; returns its number, from 1.

        Raises
        ------
        InvalidInputError
            There are as many as a file can have.
        """
        if len(self._global_buffers) + 1 >= GLOBAL_BUFFERS_MAX:
            raise InvalidInputError(f"a file holds at most {GLOBAL_BUFFERS_MAX} global buffers")
        place = await self._write(PageBuffer((np.frombuffer(data, np.uint8),), False))
        self._global_buffers.append(place)
        return len(self._global_buffers)

    async def _write(self, buffer: PageBuffer) -> ByteRange:
        """Write a buffer at the next multiple of 64."""
        padding = num_padding_bytes(self._position)
        start = self._position + padding
        await self._send([part for part in (bytes(padding), *buffer.parts) if len(part)])
        return ByteRange(start, self._position)

    async def _pad(self) -> None:
        padding = num_padding_bytes(self._position)
        if padding:
            await self._send([bytes(padding)])

    async def _send(self, parts: Sequence[object]) -> None:
        if self._upload is None:
            self._upload = await self._store.open_upload(self.path)
        views = [memoryview(part) for part in parts]  # type: ignore[arg-type]
        await self._upload.write(views)
        self._position += sum(view.nbytes for view in views)

    async def finish(self) -> WrittenFile:
        """Write what waits, the search buffers and the metadata; the file appears."""
        written = await self.seal()
        await self.send()
        return written

    async def seal(self) -> WrittenFile:
        """Write what waits, the search buffers and the metadata; `send` makes the file appear.

        Notes
        -----
        Everything a reader needs before it can locate values lies in one run before the footer.
        Requests: none for a file of up to `UPLOAD_PART_BYTES`, whose size is so known beforehand.
        """
        await self._encode([(column, rows) for column in self._columns for rows in column.cut()])
        metadata = []
        for number, column in enumerate(self._columns):
            assert column.num_rows == self.num_rows, "pages and rows of a column differ"
            pages = [await self._finish_page(placed) for placed in column.pages]
            metadata.append(ColumnMetadata(build_column_encoding(), tuple(pages)))
            if number % FINISHED_AT_ONCE == FINISHED_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
        await self._pad()
        stored = FileDescriptor(as_descriptors(self._schema), self.num_rows)
        descriptor = build_file_descriptor(stored)
        start = self._position
        await self._send([descriptor])
        section = build_metadata_section(
            self._position,
            [build_column_metadata(column) for column in metadata],
            [ByteRange(start, self._position), *self._global_buffers],
            self._version,
        )
        await self._send([section])
        ids = tuple(column.leaf.field_id for column in self._columns)
        return WrittenFile(self.path, self.num_rows, self._position, ids)

    async def send(self) -> None:
        """Send what is still here of a sealed file."""
        # Sidecars first: a data file that is there is whole.
        await self._sidecars.finish()
        assert self._upload is not None
        await self._upload.finish()

    async def _finish_page(self, placed: PlacedPage) -> PageInfo:
        buffers = [
            place if place is not None else await self._write(buffer)
            for place, buffer in zip(placed.places, placed.page.buffers, strict=True)
        ]
        layout = build_page_layout(placed.page.layout)
        return PageInfo(placed.page.num_rows, placed.priority, tuple(buffers), layout)

    async def abort(self) -> None:
        """Forget the file and whatever was uploaded of it; complete sidecars stay."""
        await self._sidecars.abort()
        if self._upload is not None:
            await self._upload.abort()
