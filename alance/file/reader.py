"""Reading one data file: its tail in one request, then the pages of the columns that are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from alance.encodings.registry import EncodingRegistry
from alance.encodings.wire import check_column_encoding
from alance.errors import (
    CorruptFileError,
    FormatError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
    UnsupportedFeatureError,
)
from alance.file.columns import ColumnReader
from alance.file.footer import (
    Footer,
    OffsetTables,
    missing_range,
    parse_footer,
    parse_offset_tables,
)
from alance.file.metadata import FileDescriptor, parse_column_metadata, parse_file_descriptor
from alance.io.client import StoreClient
from alance.types import ByteRange, FileVersion

__all__ = ["FileReader", "tail_bytes"]

TAIL_BYTES_MIN = 64 * 1024
TAIL_BYTES_MAX = 1024 * 1024
TAIL_SHARE = 512


def tail_bytes(file_size: int) -> int:
    """How much of a file to ask for first: footer, metadata and search cache, rarely less.

    Metadata and search cache grow with the file, by about a thousandth of it (2 bytes a chunk of
    4-8 KiB, 16 where there are lists, 2 KiB of symbols a page); twice that is asked for.
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
    ) -> None:
        self.path = path
        self._client = client
        self._tail = tail
        self._tail_start = footer.file_size - len(tail)
        self._footer = footer
        self._tables = tables
        self._registry = registry
        self._columns: dict[int, ColumnReader] = {}

    @classmethod
    async def open(
        cls, client: StoreClient, path: str, file_size: int | None, registry: EncodingRegistry
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

        Raises
        ------
        CorruptFileError, UnsupportedFeatureError
            It is no data file, is damaged, or is newer than this library.
        ObjectNotFoundError, StoreError
            It cannot be fetched.

        Notes
        -----
        Requests: 1; one more when metadata does not fit the tail, or the recorded size is wrong.
        """
        tail, footer = await _read_footer(client, path, file_size)
        size = footer.file_size
        try:
            missing = missing_range(footer, size - len(tail))
            if missing is not None:
                (front,) = await client.get_ranges(path, (missing,))
                tail = memoryview(b"".join((front, tail)))
            tables = parse_offset_tables(footer, tail)
        except FormatError as exc:
            raise _located(exc, path) from exc.__cause__
        if footer.version not in (FileVersion.V2_1, FileVersion.V2_2):
            raise UnsupportedFeatureError(
                f"file {path} has version {footer.version.value}; this library reads 2.1 and 2.2",
                feature=f"file version {footer.version.value}",
            )
        return cls(client, path, tail, footer, tables, registry)

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
        return len(self._tail) + opened

    async def column(self, index: int) -> ColumnReader:
        """Reader of a column; a request only when its metadata lies outside the tail.

        Raises
        ------
        CorruptFileError
            There is no such column, or its metadata is damaged.
        """
        column = self._columns.get(index)
        if column is not None:
            return column
        places = self._tables.column_metadata
        if not 0 <= index < len(places):
            raise CorruptFileError(
                f"file {self.path} has {len(places)} columns; the manifest names column {index}",
                path=self.path,
            )
        (data,) = await self.fetch((places[index],))
        try:
            metadata = parse_column_metadata(
                data, limit=self._footer.file_size, version=self.version
            )
            check_column_encoding(metadata.encoding)
            column = ColumnReader(index, metadata.pages, self._registry, self.version)
        except FormatError as exc:
            exc.add_note(f"in the metadata of column {index}")
            raise _located(exc, self.path) from exc.__cause__
        return self._columns.setdefault(index, column)

    async def descriptor(self) -> FileDescriptor:
        """Schema and number of rows as the file itself says them."""
        (data,) = await self.fetch((self._tables.global_buffers[0],))
        try:
            return parse_file_descriptor(data)
        except FormatError as exc:
            raise _located(exc, self.path) from exc.__cause__

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges that the tail has all of, else None."""
        if any(each.start < self._tail_start for each in ranges):
            return None
        base = self._tail_start
        return [self._tail[each.start - base : each.stop - base] for each in ranges]

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of the file: from the tail where it has them, the rest in one round."""
        found: list[memoryview | None] = [self._from_tail(each) for each in ranges]
        missing = [each for each, data in zip(ranges, found, strict=True) if data is None]
        if not missing:
            return [data for data in found if data is not None]
        fetched = iter(await self._client.get_ranges(self.path, missing, priority=priority))
        return [data if data is not None else next(fetched) for data in found]

    def _from_tail(self, wanted: ByteRange) -> memoryview | None:
        start = wanted.start - self._tail_start
        if start < 0:
            return None
        return self._tail[start : wanted.stop - self._tail_start]


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
        raise _located(exc, path) from exc.__cause__


def _located(error: FormatError, path: str) -> FormatError:
    """Add the file to an error that does not know it yet."""
    if isinstance(error, CorruptFileError) and error.path is None:
        found = CorruptFileError(f"{error}; in file {path}", path=path, offset=error.offset)
        for note in getattr(error, "__notes__", ()):
            found.add_note(note)
        return found
    error.add_note(f"in file {path}")
    return error
