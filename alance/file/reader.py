"""Reading one data file: its tail in one request, then the pages of the columns that are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import anyio.lowlevel

from alance.encodings.registry import EncodingRegistry
from alance.encodings.wire import check_column_encoding
from alance.errors import (
    CorruptFileError,
    FormatError,
    InvalidInputError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
    UnsupportedFeatureError,
)
from alance.file.blobs import sidecar_path
from alance.file.cache import CachedBytes, CacheKind
from alance.file.columns import ColumnReader
from alance.file.external import fetch_unchecked
from alance.file.footer import (
    METADATA_BYTES_MAX,
    Footer,
    OffsetTables,
    missing_range,
    parse_footer,
    parse_offset_tables,
)
from alance.file.located import located
from alance.file.metadata import (
    ColumnMetadata,
    FileDescriptor,
    parse_column_metadata,
    parse_file_descriptor,
)
from alance.io.client import CachedReads, StoreClient
from alance.types import ByteRange, FileVersion

__all__ = ["CachedFile", "FileReader", "tail_bytes"]

TAIL_BYTES_MIN = 128 * 1024
TAIL_BYTES_MAX = 1024 * 1024
TAIL_SHARE = 256
PARSED_AT_ONCE = 16
"""Columns whose metadata is parsed before other tasks have their turn."""


def tail_bytes(file_size: int) -> int:
    """How much of a file to ask for first: footer, metadata and search cache, rarely less.

    Metadata and search cache grow with the file, by about a thousandth of it (2 bytes a chunk of
    4-8 KiB, 16 where there are lists, 2 KiB of symbols a page) and by dictionaries, which vary
    more: 40 columns of 340,000 flights have a 600th. More than twice that is asked for, as bytes
    cost a remote store less than another round.
    """
    guess = min(max(file_size // TAIL_SHARE, TAIL_BYTES_MIN), TAIL_BYTES_MAX)
    return min(guess, file_size)


class FileReader:
    """An opened data file: what its tail says, and readers of its columns.

    Parsed parts are kept, bytes of values are not; sharing one among tasks is safe. Use `open`.
    """

    def __init__(
        self,
        client: StoreClient,
        path: str,
        tail: memoryview,
        footer: Footer,
        tables: OffsetTables,
        registry: EncodingRegistry,
        pages: CacheKind[CachedBytes] | None = None,
    ) -> None:
        self.path = path
        self._client = client
        self._tail = tail
        self._tail_start = footer.file_size - len(tail)
        self._footer = footer
        self._tables = tables
        self._registry = registry
        self._pages = pages
        self._columns: dict[int, ColumnReader] = {}
        self._parsed_bytes = 0
        self._preloaded: dict[ByteRange, memoryview] = {}

    @classmethod
    async def open(
        cls,
        client: StoreClient,
        path: str,
        file_size: int | None,
        registry: EncodingRegistry,
        *,
        num_wanted: int | None = None,
        pages: CacheKind[CachedBytes] | None = None,
    ) -> FileReader:
        """Read the tail of a file.

        Parameters
        ----------
        client, path
            Where it lies.
        file_size
            Bytes, as the manifest records them; None when unknown.
        registry
            Encodings that its pages may use.
        num_wanted
            Columns that will be read; None for few. Others' metadata may be left unread.
        pages
            Where what is read may be kept; None for files that may be replaced under their name.

        Raises
        ------
        CorruptFileError, UnsupportedFeatureError
            It is no data file, is damaged, or is newer than this library.
        ObjectNotFoundError, StoreError
            It cannot be fetched.

        Notes
        -----
        Requests: 1; one more when metadata does not fit the tail, or the recorded size is wrong.
        Of many columns few of which are wanted, only the offset tables come with these: `columns`
        then asks for the rest.
        """
        tail, footer = await _read_footer(client, path, file_size)
        size = footer.file_size
        with located(path):
            missing = missing_range(
                footer,
                size - len(tail),
                num_wanted=num_wanted,
                request_cost_bytes=client.request_cost_bytes,
            )
            if missing is not None:
                (front,) = await client.get_ranges(path, (missing,))
                tail = memoryview(b"".join((front, tail)))
            tables = parse_offset_tables(footer, tail)
        if footer.version not in (FileVersion.V2_1, FileVersion.V2_2):
            raise UnsupportedFeatureError(
                f"file {path} has version {footer.version.value}; this library reads 2.1 and 2.2",
                feature=f"file version {footer.version.value}",
            )
        return cls(client, path, tail, footer, tables, registry, pages)

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        return self._footer.version

    @property
    def num_columns(self) -> int:
        """Columns of the file."""
        return self._footer.num_columns

    @property
    def cached_bytes(self) -> int:
        """Bytes that this reader keeps."""
        opened = sum(column.search_bytes for column in self._columns.values())
        return len(self._tail) + self._parsed_bytes + opened

    @property
    def num_global_buffers(self) -> int:
        """Global buffers of the file; number 0 is the file descriptor."""
        return self._footer.num_global_buffers

    async def column(self, index: int, items_per_row: int = 1) -> ColumnReader:
        """Reader of one column; see `columns`."""
        return (await self.columns((index,), {index: items_per_row}))[0]

    async def columns(
        self, indices: Sequence[int], items_per_row: Mapping[int, int] | None = None
    ) -> list[ColumnReader]:
        """Readers of columns, in the order of `indices`.

        Parameters
        ----------
        indices
            Their places in the file.
        items_per_row
            How often pages of a column count each row, where that is not once.

        Raises
        ------
        CorruptFileError
            There is no such column, or its metadata is damaged.
        UnsupportedFeatureError
            A column is stored in a way that this library does not know.

        Notes
        -----
        Requests: one round for metadata that lies outside the tail, one for column encodings that
        are stored apart. None for columns that were asked for before.
        """
        wanted = [index for index in dict.fromkeys(indices) if index not in self._columns]
        if wanted:
            metadata = await self._read_metadata(wanted)
            for (index, found), encoding in zip(
                metadata, await self._column_encodings(metadata), strict=True
            ):
                with self._locate_metadata(index):
                    check_column_encoding(encoding)
                    column = ColumnReader(
                        index,
                        found.pages,
                        self._registry,
                        self.version,
                        path=self.path,
                        items_per_row=(items_per_row or {}).get(index, 1),
                    )
                self._columns.setdefault(index, column)
        return [self._columns[index] for index in indices]

    async def _read_metadata(self, wanted: Sequence[int]) -> list[tuple[int, ColumnMetadata]]:
        """Metadata of columns, each with its index."""
        places = self._tables.column_metadata
        for index in wanted:
            if not 0 <= index < len(places):
                raise CorruptFileError(
                    f"file {self.path} has {len(places)} columns; column {index} is none of them",
                    path=self.path,
                )
        ranges = [places[index] for index in wanted]
        for index, place in zip(wanted, ranges, strict=True):
            if place.num_bytes > METADATA_BYTES_MAX:
                raise CorruptFileError(
                    f"metadata of column {index} has {place.num_bytes} bytes; at most "
                    f"{METADATA_BYTES_MAX} make sense; in file {self.path}",
                    path=self.path,
                )
        parsed = []
        for number, data in enumerate(await self.fetch(ranges)):
            index = wanted[number]
            with self._locate_metadata(index):
                metadata = parse_column_metadata(
                    data, limit=self._footer.file_size, version=self.version
                )
            parsed.append((index, metadata))
            if ranges[number].start < self._tail_start:
                self._parsed_bytes += len(data)
            if number % PARSED_AT_ONCE == PARSED_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
        return parsed

    async def _column_encodings(
        self, metadata: Sequence[tuple[int, ColumnMetadata]]
    ) -> list[bytes]:
        """Encodings of columns, those that are stored apart fetched together."""
        encodings = [found.encoding for _, found in metadata]
        apart = [each for each in encodings if isinstance(each, ByteRange)]
        fetched = iter(await self.fetch(apart) if apart else ())
        return [each if isinstance(each, bytes) else bytes(next(fetched)) for each in encodings]

    def _locate_metadata(self, index: int) -> AbstractContextManager[None]:
        return located(self.path, f"in the metadata of column {index}")

    async def descriptor(self) -> FileDescriptor:
        """Schema and number of rows as the file itself says them."""
        (data,) = await self.fetch((self._tables.global_buffers[0],))
        with located(self.path, "in the file descriptor"):
            return parse_file_descriptor(data)

    async def preload(self) -> None:
        """Fetch what opening a file by itself needs, at once: schema, first column's metadata."""
        places = (self._tables.global_buffers[0], *self._tables.column_metadata[:1])
        if self.at_hand(places) is None:
            self._preloaded = dict(zip(places, await self.fetch(places), strict=True))

    async def global_buffer(self, index: int) -> memoryview:
        """Bytes of a global buffer.

        Raises
        ------
        InvalidInputError
            There is no such buffer.
        """
        places = self._tables.global_buffers
        if not 0 <= index < len(places):
            raise InvalidInputError(
                f"file {self.path} has {len(places)} global buffers, from 0; {index} is none"
            )
        return (await self.fetch((places[index],)))[0]

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges that the tail has all of, else None."""
        if any(each.start < self._tail_start for each in ranges):
            return None
        base = self._tail_start
        return [self._tail[each.start - base : each.stop - base] for each in ranges]

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of the file: from the tail where it has them, the rest in one round.

        Raises
        ------
        CorruptFileError
            A range ends after the file: pages may hold places that nothing has checked.
        """
        found, missing = self._look_up(ranges)
        if not missing:
            return [data for data in found if data is not None]
        fetched = iter(await self._client.get_ranges(self.path, missing, priority=priority))
        return [
            data if data is not None else self._keep(each, next(fetched))
            for each, data in zip(ranges, found, strict=True)
        ]

    def _page_key(self, place: ByteRange) -> tuple[object, ...]:
        return self._client.store, self.path, self._footer.file_size, place

    def _keep(self, place: ByteRange, data: memoryview) -> memoryview:
        """Keep a copy of bytes that were read, if any are kept: an answer may hold many more."""
        if self._pages is not None and data.nbytes:
            self._pages.put(self._page_key(place), CachedBytes(memoryview(bytes(data))))
        return data

    def cached(self, reads: CachedReads) -> CachedFile | None:
        """Return what reads this file in a thread where nothing must be waited for; else None."""
        return CachedFile(self, self._client, reads) if self._client.may_read_cached else None

    def _look_up(
        self, ranges: Sequence[ByteRange]
    ) -> tuple[list[memoryview | None], list[ByteRange]]:
        """Bytes of ranges where the tail has them, and the ranges where it does not."""
        size = self._footer.file_size
        if any(each.stop > size for each in ranges):
            raise CorruptFileError(
                f"file {self.path} has {size} bytes and refers to more", path=self.path
            )
        found = [self._from_tail(each) for each in ranges]
        return found, [each for each, data in zip(ranges, found, strict=True) if data is None]

    async def fetch_sidecar(
        self, blob_id: int, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of blobs that lie in a file beside this one, in one round; two where it is long.

        Raises
        ------
        CorruptFileError
            A range of a long file ends after it.
        """
        path = sidecar_path(self.path, blob_id)
        return await fetch_unchecked(self._client, path, ranges, priority=priority)

    def _from_tail(self, wanted: ByteRange) -> memoryview | None:
        start = wanted.start - self._tail_start
        if start < 0:
            found = self._preloaded.pop(wanted, None)
            if found is None and self._pages is not None:
                kept = self._pages.get(self._page_key(wanted))
                return None if kept is None else kept.data
            return found
        return self._tail[start : wanted.stop - self._tail_start]


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A local file as far as the kernel holds it in memory; for a thread."""

    file: FileReader
    client: StoreClient
    reads: CachedReads

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges that the tail has all of, else None."""
        return self.file.at_hand(ranges)

    def read_cached(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges; None when some must be waited for.

        Raises
        ------
        CorruptFileError
            A range ends after the file.
        """
        found, missing = self.file._look_up(ranges)
        read = self.client.read_cached(self.file.path, missing, self.reads) if missing else []
        if read is None:
            return None
        rest = iter(read)
        return [data if data is not None else next(rest) for data in found]


async def _read_footer(
    client: StoreClient, path: str, file_size: int | None
) -> tuple[memoryview, Footer]:
    """Last bytes of a file and the footer in them; asks for the size where it is in doubt."""
    problem: StoreError | CorruptFileError | None = None
    if file_size:
        try:
            tail = await client.get_range(path, file_size - tail_bytes(file_size), file_size)
            return tail, parse_footer(tail, file_size)
        except (StoreTimeoutError, PermissionDeniedError):
            raise
        except (StoreError, CorruptFileError) as exc:
            if isinstance(exc, StoreError) and exc.transient:
                raise  # it says nothing of the size
            problem = exc
    tail, size = await client.get_tail(path, TAIL_BYTES_MIN)
    try:
        return tail, parse_footer(tail, size)
    except FormatError as exc:
        if problem is not None and size != file_size:
            raise CorruptFileError(
                f"file {path} has {size} bytes where the manifest records {file_size}, and no "
                "footer at its end: it was cut off or replaced; restore it, or check out a version "
                "that does not use it",
                path=path,
            ) from exc
        with located(path):
            raise
