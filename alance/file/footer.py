"""The end of a data file: footer and offset tables, bytes <-> values.

A reader fetches the tail of a file, takes the footer from it (`parse_footer`), learns whether the
tail reaches back far enough (`missing_range`), and finds column metadata and global buffers in the
offset tables (`parse_offset_tables`). A writer appends what `build_metadata_section` returns.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.types import ByteRange, FileVersion

__all__ = [
    "ALIGNMENT",
    "FOOTER_BYTES",
    "GLOBAL_BUFFERS_MAX",
    "METADATA_BYTES_MAX",
    "Footer",
    "OffsetTables",
    "RangeTable",
    "build_footer",
    "build_metadata_section",
    "build_offset_table",
    "check_range",
    "missing_range",
    "num_padding_bytes",
    "parse_footer",
    "parse_offset_tables",
]

ALIGNMENT = 64
"""Positions of page buffers and global buffers are multiples of this, since 2.1."""
FOOTER_BYTES = 40
MAGIC = b"LANC"

COLUMNS_MAX = 1 << 20
GLOBAL_BUFFERS_MAX = 1 << 20
METADATA_BYTES_MAX = 1 << 28
"""Column metadata and tables that are fetched as one range."""
SLACK_BYTES = 1 << 16
"""Fetched before the column metadata in the same request: the schema usually lies there."""

_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 40 bytes of a file.

    Parameters
    ----------
    column_metadata_offset
        Position of the first column's metadata.
    column_table_offset, global_buffer_table_offset
        Positions of the tables that list column metadata and global buffers.
    num_global_buffers, num_columns
        Entries in these tables.
    version
        Of the file.
    file_size
        Bytes of the whole file.
    """

    column_metadata_offset: int
    column_table_offset: int
    global_buffer_table_offset: int
    num_global_buffers: int
    num_columns: int
    version: FileVersion
    file_size: int

    @property
    def column_table(self) -> ByteRange:
        """Where the table of column metadata lies."""
        start = self.column_table_offset
        return ByteRange(start, start + _ENTRY.size * self.num_columns)

    @property
    def global_buffer_table(self) -> ByteRange:
        """Where the table of global buffers lies."""
        start = self.global_buffer_table_offset
        return ByteRange(start, start + _ENTRY.size * self.num_global_buffers)


class RangeTable(Sequence[ByteRange]):
    """An offset table as it is stored; entries become values when they are asked for.

    Files may have many thousand columns of which few are read.

    Parameters
    ----------
    entries
        Position and size of each.
    """

    def __init__(self, entries: npt.NDArray[np.uint64]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> ByteRange: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ByteRange, ...]: ...

    def __getitem__(self, index: int | slice) -> ByteRange | tuple[ByteRange, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        start, size = self._entries[index].tolist()
        return ByteRange(start, start + size)

    @property
    def num_bytes(self) -> int:
        """Bytes of all entries together."""
        # As floats: sums of hostile sizes would wrap around.
        return int(self._entries[:, 1].sum(dtype=np.float64))

    def check(self, limit: int, what: str, *, alignment: int = 1) -> None:
        """Check all entries as `check_range` does one, which makes the error."""
        starts, sizes = self._entries[:, 0], self._entries[:, 1]
        fits = (starts <= limit) & (sizes <= limit)
        fits &= starts <= limit - np.minimum(sizes, limit)
        fits &= starts % alignment == 0
        if not fits.all():
            wrong = int(np.argmin(fits))
            check_range(self[wrong], limit, f"{what} {wrong}", alignment=alignment)


@dataclass(frozen=True, slots=True)
class OffsetTables:
    """Where things lie in the file, in the order of their numbers."""

    column_metadata: RangeTable
    global_buffers: RangeTable
    """Number 0 is the file descriptor."""


def num_padding_bytes(position: int) -> int:
    """Bytes from `position` to the next aligned one."""
    return -position % ALIGNMENT


def parse_footer(tail: memoryview, file_size: int) -> Footer:
    """Footer of a file whose last bytes are `tail`.

    Parameters
    ----------
    tail
        At least the last 40 bytes, or all of a smaller file.
    file_size
        Bytes of the whole file.

    Raises
    ------
    CorruptFileError
        No data file, or one whose footer points outside of it.
    UnsupportedFeatureError
        A file version that this library does not know, or the legacy one.
    """
    if len(tail) < FOOTER_BYTES or len(tail) > file_size:
        raise CorruptFileError(
            f"file of {file_size} bytes is no Lance data file: its footer alone has {FOOTER_BYTES}"
        )
    columns, column_table, buffer_table, num_buffers, num_columns, major, minor, magic = (
        _FOOTER.unpack(tail[len(tail) - FOOTER_BYTES :])
    )
    if magic != MAGIC:
        raise CorruptFileError(
            f"file of {file_size} bytes ends in {magic!r}; a Lance data file ends in {MAGIC!r}",
            offset=file_size - len(MAGIC),
        )
    version = FileVersion.from_footer(major, minor)
    if version is FileVersion.V0_1:
        raise UnsupportedFeatureError(
            "file has the legacy format 0.1, whose footer is another", feature="file version 0.1"
        )
    footer = Footer(
        column_metadata_offset=columns,
        column_table_offset=column_table,
        global_buffer_table_offset=buffer_table,
        num_global_buffers=num_buffers,
        num_columns=num_columns,
        version=version,
        file_size=file_size,
    )
    _check_footer(footer)
    return footer


def _check_footer(footer: Footer) -> None:
    if footer.num_columns > COLUMNS_MAX or footer.num_global_buffers > GLOBAL_BUFFERS_MAX:
        raise CorruptFileError(
            f"footer counts {footer.num_columns} columns and {footer.num_global_buffers} global "
            f"buffers; at most {COLUMNS_MAX} and {GLOBAL_BUFFERS_MAX} make sense"
        )
    if footer.num_global_buffers == 0:
        raise CorruptFileError("file has no global buffer 0, which holds its schema")
    limit = footer.file_size - FOOTER_BYTES
    check_range(footer.column_table, limit, "table of column metadata")
    check_range(footer.global_buffer_table, limit, "table of global buffers")
    check_range(ByteRange(footer.column_metadata_offset, limit), limit, "column metadata")


def check_range(found: ByteRange, limit: int, what: str, *, alignment: int = 1) -> None:
    """Make sure that a stored range lies in [0, limit] and starts at a multiple of `alignment`.

    Raises
    ------
    CorruptFileError
        It does not; says `what` it is.
    """
    if not 0 <= found.start <= found.stop <= limit:
        raise CorruptFileError(
            f"{what} lies at bytes {found.start} to {found.stop}; expected within 0 to {limit}",
            offset=found.start,
        )
    if found.start % alignment:
        raise CorruptFileError(
            f"{what} starts at byte {found.start}; expected a multiple of {alignment}",
            offset=found.start,
        )


def missing_range(
    footer: Footer, tail_start: int, *, num_wanted: int | None = None, request_cost_bytes: int = 0
) -> ByteRange | None:
    """Bytes right before a tail that is too short for tables or column metadata.

    Parameters
    ----------
    footer
        Of the file.
    tail_start
        Position in the file of the first byte that was fetched.
    num_wanted
        Columns whose metadata will be needed; None for few.
    request_cost_bytes
        Bytes that take about as long to read as a request takes to begin.

    Returns
    -------
    ByteRange or None
        What to fetch and put in front of the tail; None when nothing should be.

    Raises
    ------
    CorruptFileError
        The tables lie so far from the end that no writer can have put them there.

    Notes
    -----
    Metadata of all columns is fetched, with what lies before it (normally the schema), where it is
    small, or where leaving out what is not wanted saves less than asking for the rest in another
    round costs. Else only the tables are, if they are missing: they say where the metadata of each
    column lies.
    """
    tables = min(footer.column_table_offset, footer.global_buffer_table_offset)
    start = min(tables, footer.column_metadata_offset)
    oldest = footer.file_size - METADATA_BYTES_MAX
    if tables < oldest:
        raise CorruptFileError(
            f"offset tables lie {footer.file_size - tables} bytes before the end of the file; at "
            f"most {METADATA_BYTES_MAX} make sense",
            offset=tables,
        )
    if start >= tail_start:
        return None
    share = min((num_wanted or 0) / max(footer.num_columns, 1), 1.0)
    saved = (min(tables, tail_start) - start) * (1.0 - share)
    if start >= oldest and saved <= request_cost_bytes:
        return ByteRange(max(start - SLACK_BYTES, 0), tail_start)
    return ByteRange(tables, tail_start) if tables < tail_start else None


def parse_offset_tables(footer: Footer, tail: memoryview) -> OffsetTables:
    """Tables of a file, from a tail that reaches back to them (see `missing_range`).

    Raises
    ------
    CorruptFileError
        An entry points outside the file, or a global buffer is not aligned.
    """
    start = footer.file_size - len(tail)
    limit = footer.file_size - FOOTER_BYTES
    alignment = 1 if footer.version is FileVersion.V2_0 else ALIGNMENT
    columns = _parse_table(tail, start, footer.column_table)
    buffers = _parse_table(tail, start, footer.global_buffer_table)
    columns.check(limit, "metadata of column")
    buffers.check(limit, "global buffer", alignment=alignment)
    # Entries that overlap would make little bytes cost much to parse.
    if columns.num_bytes > limit:
        raise CorruptFileError(f"metadata of {len(columns)} columns is larger than the file")
    if buffers[0].num_bytes > METADATA_BYTES_MAX:
        raise CorruptFileError(
            f"file descriptor has {buffers[0].num_bytes} bytes; at most {METADATA_BYTES_MAX} make "
            "sense"
        )
    return OffsetTables(columns, buffers)


def _parse_table(tail: memoryview, tail_start: int, table: ByteRange) -> RangeTable:
    assert tail_start <= table.start, "tail does not reach back to the offset tables"
    view = tail[table.start - tail_start : table.stop - tail_start]
    return RangeTable(np.frombuffer(view, "<u8").reshape(-1, 2))


def build_footer(footer: Footer) -> bytes:
    """Inverse of `parse_footer`: 40 bytes."""
    return _FOOTER.pack(
        footer.column_metadata_offset,
        footer.column_table_offset,
        footer.global_buffer_table_offset,
        footer.num_global_buffers,
        footer.num_columns,
        *footer.version.footer,
        MAGIC,
    )


def build_offset_table(ranges: Sequence[ByteRange]) -> bytes:
    """Entries of a table: 16 bytes each."""
    return b"".join(_ENTRY.pack(each.start, each.num_bytes) for each in ranges)


def build_metadata_section(
    position: int,
    columns: Sequence[bytes],
    global_buffers: Sequence[ByteRange],
    version: FileVersion,
) -> bytes:
    """Everything from the column metadata to the end of the file.

    Parameters
    ----------
    position
        Where in the file the section will start; needs no alignment.
    columns
        Serialized metadata of each column.
    global_buffers
        Where they have been written, the file descriptor first.
    version
        Of the file.
    """
    ranges: list[ByteRange] = []
    end = position
    for column in columns:
        ranges.append(ByteRange(end, end + len(column)))
        end += len(column)
    column_table, buffer_table = build_offset_table(ranges), build_offset_table(global_buffers)
    footer = Footer(
        column_metadata_offset=position,
        column_table_offset=end,
        global_buffer_table_offset=end + len(column_table),
        num_global_buffers=len(global_buffers),
        num_columns=len(columns),
        version=version,
        file_size=end + len(column_table) + len(buffer_table) + FOOTER_BYTES,
    )
    return b"".join((*columns, column_table, buffer_table, build_footer(footer)))
