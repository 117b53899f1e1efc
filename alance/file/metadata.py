"""Protobuf <-> schema, file descriptor, columns and pages (wire module 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from google.protobuf.message import DecodeError, Message

from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.file.fields import Field
from alance.file.footer import ALIGNMENT, check_range
from alance.file.schema import Schema
from alance.proto import file_pb2 as pb
from alance.types import ByteRange, FileVersion

__all__ = [
    "FILE_ROWS_MAX",
    "ColumnMetadata",
    "FileDescriptor",
    "PageInfo",
    "StoredEncoding",
    "build_column_metadata",
    "build_field",
    "build_file_descriptor",
    "build_schema",
    "parse_column_metadata",
    "parse_field",
    "parse_file_descriptor",
    "parse_schema",
]

M = TypeVar("M", bound=Message)

ROWS_MAX = 2**62
FILE_ROWS_MAX = 1 << 32
"""Of a file that is written, or read by itself: row offsets in a fragment take 32 bits."""
"""Rows of a column; keeps sums within signed 64 bits."""
ENCODING_BYTES_MAX = 1 << 24
"""Description of an encoding that is stored apart: symbol tables are the largest part of any."""

StoredEncoding: TypeAlias = bytes | ByteRange
"""A wrapped message, or where in the file it lies: in a global buffer, a column's or a page's."""


@dataclass(frozen=True, slots=True)
class PageInfo:
    """One page of a column.

    Parameters
    ----------
    num_rows
        Top-level rows (2.0: elements of this column).
    priority
        Top-level row number of the first row; a hint that may be anything.
    buffers
        Positions in the file, in the order that layouts refer to.
    layout
        Message that `encodings.wire.parse_page_layout` reads; kept as it is, since a file may have
        many thousand pages of which few are read.
    """

    num_rows: int
    priority: int
    buffers: tuple[ByteRange, ...]
    layout: StoredEncoding


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """Pages of a column, in row order.

    Parameters
    ----------
    encoding
        Message that `encodings.wire.check_column_encoding` reads.
    pages
        In row order; there may be none.
    buffers
        Buffers of the column as a whole, by position in the file; ordinary columns have none.
    """

    encoding: StoredEncoding
    pages: tuple[PageInfo, ...]
    buffers: tuple[ByteRange, ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows of all pages."""
        return sum(page.num_rows for page in self.pages)


@dataclass(frozen=True, slots=True)
class FileDescriptor:
    """Global buffer 0 of a file.

    Parameters
    ----------
    schema
        Fields, with their ids in the table.
    num_rows
        Rows in the file by the writer's word; pages decide.
    """

    schema: Schema
    num_rows: int


def parse_column_metadata(
    data: memoryview | bytes, *, limit: int, version: FileVersion
) -> ColumnMetadata:
    """Column metadata from its bytes.

    Parameters
    ----------
    data
        The message.
    limit
        Position in the file before which all buffers end.
    version
        Of the file.

    Raises
    ------
    CorruptFileError
        No such message; buffers outside the file or not aligned; row counts beyond reason.
    UnsupportedFeatureError
        A page or the column says that it has no encoding.
    """
    message = _parse_message(pb.ColumnMetadata, data, "column metadata")
    alignment = 1 if version is FileVersion.V2_0 else ALIGNMENT
    pages = tuple(
        PageInfo(
            num_rows=page.length,
            priority=page.priority,
            buffers=_parse_buffers(page.buffer_offsets, page.buffer_sizes, limit, alignment),
            layout=_parse_encoding(page.encoding, "page", limit),
        )
        for page in message.pages
    )
    column = ColumnMetadata(
        encoding=_parse_encoding(message.encoding, "column", limit),
        pages=pages,
        buffers=_parse_buffers(message.buffer_offsets, message.buffer_sizes, limit, 1),
    )
    if column.num_rows > ROWS_MAX:
        raise CorruptFileError(f"pages of a column have {column.num_rows} rows together")
    return column


def build_column_metadata(column: ColumnMetadata) -> bytes:
    """Inverse of `parse_column_metadata`."""
    message = pb.ColumnMetadata()
    _build_encoding(column.encoding, message.encoding)
    message.buffer_offsets.extend(buffer.start for buffer in column.buffers)
    message.buffer_sizes.extend(buffer.num_bytes for buffer in column.buffers)
    for page in column.pages:
        out = message.pages.add(length=page.num_rows, priority=page.priority)
        _build_encoding(page.layout, out.encoding)
        out.buffer_offsets.extend(buffer.start for buffer in page.buffers)
        out.buffer_sizes.extend(buffer.num_bytes for buffer in page.buffers)
    return message.SerializeToString(deterministic=True)


def _parse_buffers(
    offsets: Iterable[int], sizes: Iterable[int], limit: int, alignment: int
) -> tuple[ByteRange, ...]:
    starts, lengths = list(offsets), list(sizes)
    if len(starts) != len(lengths):
        raise CorruptFileError(f"{len(starts)} buffer offsets, but {len(lengths)} buffer sizes")
    buffers = tuple(
        ByteRange(start, start + size) for start, size in zip(starts, lengths, strict=True)
    )
    for i, buffer in enumerate(buffers):
        # Files have many thousand pages: messages are made for those that need one.
        if buffer.stop > limit or buffer.start % alignment:
            check_range(buffer, limit, f"buffer {i}", alignment=alignment)
    return buffers


def _parse_encoding(message: pb.Encoding, what: str, limit: int) -> StoredEncoding:
    match message.WhichOneof("location"):
        case "direct":
            return message.direct.encoding
        case "indirect":
            start, size = message.indirect.buffer_location, message.indirect.buffer_length
            place = ByteRange(start, start + size)
            check_range(place, limit, f"encoding of a {what}")
            if size > ENCODING_BYTES_MAX:
                raise CorruptFileError(
                    f"encoding of a {what} has {size} bytes; at most {ENCODING_BYTES_MAX} make "
                    "sense",
                    offset=start,
                )
            return place
        case "none":
            raise UnsupportedFeatureError(
                f"a {what} says that its encoding is 'none', which no file version gives a meaning",
                feature="none encoding",
            )
        case _:
            raise CorruptFileError(f"{what} has no encoding")


def _build_encoding(encoding: StoredEncoding, message: pb.Encoding) -> None:
    if isinstance(encoding, bytes):
        message.direct.encoding = encoding
        return
    message.indirect.buffer_location = encoding.start
    message.indirect.buffer_length = encoding.num_bytes


def parse_file_descriptor(data: memoryview | bytes) -> FileDescriptor:
    """File descriptor from the bytes of global buffer 0.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        No such message, or a schema that makes no sense or is newer than this library.
    """
    message = _parse_message(pb.FileDescriptor, data, "file descriptor")
    if not message.HasField("schema"):
        raise CorruptFileError("file descriptor has no schema")
    return FileDescriptor(parse_schema(message.schema), message.length)


def build_file_descriptor(descriptor: FileDescriptor) -> bytes:
    """Inverse of `parse_file_descriptor`."""
    message = pb.FileDescriptor(schema=build_schema(descriptor.schema), length=descriptor.num_rows)
    return message.SerializeToString(deterministic=True)


def parse_schema(message: pb.Schema) -> Schema:
    """Schema of a message.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        The fields make no tree, or have types unknown to this library.
    """
    fields = tuple(parse_field(field) for field in message.fields)
    return Schema(fields, dict(message.metadata))


def build_schema(schema: Schema) -> pb.Schema:
    """Inverse of `parse_schema`."""
    message = pb.Schema(fields=[build_field(field) for field in schema.fields])
    _build_metadata(schema.metadata, message)
    return message


def parse_field(message: pb.Field) -> Field:
    """Field of a message, as it stands: `Schema` checks how fields go together."""
    return Field(
        name=message.name,
        id=message.id,
        parent_id=message.parent_id,
        logical_type=message.logical_type,
        nullable=message.nullable,
        metadata=dict(message.metadata),
        extension_name=message.extension_name,
        encoding=message.encoding,
        dictionary=(message.dictionary.offset, message.dictionary.length)
        if message.HasField("dictionary")
        else None,
        unenforced_primary_key=message.unenforced_primary_key,
        unenforced_primary_key_position=message.unenforced_primary_key_position,
        unenforced_clustering_key=message.unenforced_clustering_key,
        unenforced_clustering_key_position=message.unenforced_clustering_key_position,
    )


def build_field(field: Field) -> pb.Field:
    """Inverse of `parse_field`."""
    message = pb.Field(
        name=field.name,
        id=field.id,
        parent_id=field.parent_id,
        logical_type=field.logical_type,
        nullable=field.nullable,
        encoding=cast("pb.Hint", field.encoding),
        extension_name=field.extension_name,
        unenforced_primary_key=field.unenforced_primary_key,
        unenforced_primary_key_position=field.unenforced_primary_key_position,
        unenforced_clustering_key=field.unenforced_clustering_key,
        unenforced_clustering_key_position=field.unenforced_clustering_key_position,
    )
    if field.dictionary is not None:
        message.dictionary.offset, message.dictionary.length = field.dictionary
        message.dictionary.SetInParent()
    _build_metadata(field.metadata, message)
    return message


def _build_metadata(metadata: Mapping[str, bytes], message: pb.Schema | pb.Field) -> None:
    for key, value in metadata.items():
        message.metadata[key] = value


def _parse_message(kind: type[M], data: memoryview | bytes, what: str) -> M:
    try:
        return kind.FromString(bytes(data))
    except DecodeError as exc:
        raise CorruptFileError(f"{what} of {len(data)} bytes is no valid message: {exc}") from exc
