"""Writing one data file: columns gather rows, pages are cut, encoded in threads and uploaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

import anyio.lowlevel
import numpy as np
import pyarrow as pa

from alance._aio import run_all
from alance.encodings.blob_values import FindBase
from alance.encodings.build import build_pages
from alance.encodings.build_blob import BlobPage, build_blob_page, build_descriptor_page
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.options import ColumnOptions
from alance.encodings.shred import leaf_bytes, prune
from alance.encodings.wire import build_column_encoding, build_page_layout
from alance.errors import InvalidInputError
from alance.file.blob_schema import as_descriptors
from alance.file.footer import (
    GLOBAL_BUFFERS_MAX,
    build_metadata_section,
    num_padding_bytes,
)
from alance.file.metadata import (
    FILE_ROWS_MAX,
    ColumnMetadata,
    FileDescriptor,
    PageInfo,
    build_column_metadata,
    build_file_descriptor,
)
from alance.file.schema import Leaf, Nesting, Schema
from alance.file.sidecars import SidecarWriter
from alance.io.store import ObjectStore, Upload
from alance.types import ByteRange, FileVersion

__all__ = ["FileWriter", "WrittenFile"]

PAGE_BYTES = 8 * 1024 * 1024
RUN_BYTES = 128 * 1024
"""Of rows that a thread encodes in one turn; to go there takes as long as to encode some 10 KiB."""
PENDING_BYTES_MAX = 128 * 1024 * 1024
"""Rows waiting in all columns; beyond it the fullest columns cut their pages early."""
GATHERED_BYTES_MAX = 256 * 1024
"""Of a batch whose rows are copied on the event loop."""
SIDECAR_BYTES_MAX = 1 << 30
"""Of a file that blobs share."""
FINISHED_AT_ONCE = 16
"""Columns whose metadata is built before other tasks have their turn."""

T = TypeVar("T")


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


@dataclass(slots=True)
class _Column:
    """One leaf being written: rows not yet cut into pages, and the pages so far."""

    leaf: Leaf
    child_path: tuple[int, ...]
    """Which child to follow at every struct of a whole row."""
    pending: list[pa.Array] = field(default_factory=list)
    pending_bytes: int = 0
    num_rows: int = 0
    pages: list[_PlacedPage] = field(default_factory=list)

    @property
    def path(self) -> tuple[int, ...]:
        """The same for rows pruned to this leaf."""
        return (0,) * len(self.child_path)


@dataclass(slots=True)
class _PlacedPage:
    """A page whose data is written and whose search buffers wait for the end of the file."""

    page: EncodedPage
    priority: int
    places: list[ByteRange | None]


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
        self._columns = [_Column(leaf, _child_path(leaf)) for leaf in schema.leaves(version)]
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
            due = await self._run_in_thread(partial(_gather_all, self._columns, batch))
        else:
            due = _gather_all(self._columns, batch)
        if self._pending_bytes > PENDING_BYTES_MAX:
            due.extend(self._cut_fullest())
        await self._encode(due)

    def _cut_fullest(self) -> list[tuple[_Column, pa.Array]]:
        """Cut the columns with most waiting bytes until half the limit is left."""
        due: list[tuple[_Column, pa.Array]] = []
        left = self._pending_bytes
        for column in sorted(self._columns, key=lambda c: c.pending_bytes, reverse=True):
            if left <= PENDING_BYTES_MAX // 2:
                break
            left -= column.pending_bytes
            due.extend((column, rows) for rows in _cut(column))
        return due

    async def _encode(self, due: Sequence[tuple[_Column, pa.Array]]) -> None:
        """Encode pages in threads, a few at a time, and write them in order."""
        runs = _runs(due)
        for first in range(0, len(runs), 2):
            pair = runs[first : first + 2]
            built: list[list[tuple[_Column, EncodedPage | BlobPage]]] = [[] for _ in pair]

            async def build(i: int, run: Sequence[tuple[_Column, pa.Array]]) -> None:
                work = partial(_build_all, run, self._version, self._find_base)
                built[i] = await self._run_in_thread(work)  # noqa: B023

            await run_all([partial(build, i, run) for i, run in enumerate(pair)])
            for column, page in chain.from_iterable(built):
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

    async def _place(self, column: _Column, page: EncodedPage) -> None:
        """Write a page's data buffers; its search buffers wait."""
        places = [None if b.is_search else await self._write(b) for b in page.buffers]
        priority = column.num_rows
        column.num_rows += page.num_rows // column.leaf.items_per_row
        kept = tuple(b if b.is_search else PageBuffer((), False) for b in page.buffers)
        slim = EncodedPage(page.layout, kept, page.num_rows)
        column.pages.append(_PlacedPage(slim, priority, places))

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
        await self._encode([(column, rows) for column in self._columns for rows in _cut(column)])
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

    async def _finish_page(self, placed: _PlacedPage) -> PageInfo:
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


def _runs(due: Sequence[tuple[_Column, pa.Array]]) -> list[list[tuple[_Column, pa.Array]]]:
    """Put small pages together, to be encoded in one turn of a thread."""
    runs: list[list[tuple[_Column, pa.Array]]] = []
    num_bytes = 0
    for column, rows in due:
        num_bytes += rows.nbytes
        if not runs or num_bytes > RUN_BYTES:
            runs.append([])
            num_bytes = rows.nbytes
        runs[-1].append((column, rows))
    return runs


def _build_all(
    run: Sequence[tuple[_Column, pa.Array]], version: FileVersion, find_base: FindBase | None
) -> list[tuple[_Column, EncodedPage | BlobPage]]:
    """Encode pages in order."""
    return [
        (column, page) for column, rows in run for page in _build(column, rows, version, find_base)
    ]


def _build(
    column: _Column, rows: pa.Array, version: FileVersion, find_base: FindBase | None
) -> Sequence[EncodedPage | BlobPage]:
    """Encode rows as the pages that the metadata of their field asks for."""
    options = column.leaf.options
    if options.blob:
        return [build_blob_page(rows, column.path, version)]
    if column.leaf.node.field.is_blob_v2:
        return [build_descriptor_page(rows, column.path, options, version, find_base)]
    return build_pages(rows, column.path, options, version)


def _child_path(leaf: Leaf) -> tuple[int, ...]:
    """Which child to follow at every struct on the way to a leaf."""
    path = []
    for parent, child in zip(leaf.nodes, leaf.nodes[1:], strict=False):
        if parent.kind is Nesting.STRUCT:
            path.append(parent.children.index(child))
    return tuple(path)


def _gather_all(
    columns: Sequence[_Column], batch: pa.RecordBatch
) -> list[tuple[_Column, pa.Array]]:
    """Add a batch's rows to all columns; returns the rows of pages that are full."""
    return [(column, rows) for column in columns for rows in _gather(column, batch)]


def _gather(column: _Column, batch: pa.RecordBatch) -> list[pa.Array]:
    """Add a batch's rows to a column; returns the rows of pages that are full."""
    rows = prune(batch.column(column.leaf.top_level), column.child_path)
    num_bytes = leaf_bytes(rows, column.path)
    full = _cut(column) if column.pending_bytes + num_bytes > PAGE_BYTES else []
    if num_bytes < PAGE_BYTES:
        column.pending.append(_copied(rows))
        column.pending_bytes += num_bytes
        return full
    num_pages = -(-num_bytes // PAGE_BYTES)
    per_page = -(-len(rows) // num_pages)
    full.extend(rows.slice(start, per_page) for start in range(0, len(rows), per_page))
    return full


def _copied(rows: pa.Array) -> pa.Array:
    """Rows on their own: a batch that came over IPC keeps all its columns alive while one is held.

    Dictionaries that hold NaN are not equal to themselves, and with nulls Arrow cannot join them.
    """
    try:
        return pa.concat_arrays([rows, rows.slice(0, 0)])
    except pa.ArrowInvalid:
        return rows


def _cut(column: _Column) -> list[pa.Array]:
    """Take all waiting rows out of a column: for one page, or for as many as there must be."""
    rows = column.pending
    if len(rows) > 1:
        # Dictionaries that hold nulls, or more items together than the indices can tell apart,
        # cannot become one; nor can strings of more than 2 GiB.
        with suppress(pa.ArrowInvalid):
            rows = [pa.concat_arrays(rows)]
    column.pending, column.pending_bytes = [], 0
    return rows
