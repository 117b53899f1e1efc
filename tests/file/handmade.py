"""Files put together by hand: what the format allows and no writer makes."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any as AnyMessage

from alance.file.footer import (
    ALIGNMENT,
    Footer,
    build_footer,
    build_offset_table,
    parse_footer,
    parse_offset_tables,
)
from alance.proto import encodings_pb2, file_pb2
from alance.types import ByteRange

__all__ = ["HandmadeFile", "column_encoding"]


class HandmadeFile:
    """The parts of a file, to be changed and put together again.

    Parameters
    ----------
    data
        A file to begin with.

    Attributes
    ----------
    columns, descriptor
        Messages, to be changed in place.
    global_buffers
        Where those behind the descriptor lie.
    gap
        Bytes without meaning between all sections.
    """

    def __init__(self, data: bytes) -> None:
        view = memoryview(data)
        footer = parse_footer(view, len(data))
        tables = parse_offset_tables(footer, view)
        first = tables.global_buffers[0]
        self.version = footer.version
        self.columns = [
            file_pb2.ColumnMetadata.FromString(data[place.start : place.stop])
            for place in tables.column_metadata
        ]
        self.descriptor = file_pb2.FileDescriptor.FromString(data[first.start : first.stop])
        self.global_buffers = list(tables.global_buffers[1:])
        self.gap = 0
        self._data = bytearray(data[: footer.column_metadata_offset])

    def add(self, data: bytes, *, alignment: int = ALIGNMENT) -> ByteRange:
        """Put bytes behind what is there."""
        self._data += b"H" * (-len(self._data) % alignment)
        start = len(self._data)
        self._data += data
        return ByteRange(start, len(self._data))

    def defer(self, encoding: file_pb2.Encoding) -> ByteRange:
        """Store an encoding apart."""
        place = self.add(encoding.direct.encoding, alignment=1)
        encoding.indirect.buffer_location = place.start
        encoding.indirect.buffer_length = place.num_bytes
        return place

    def build(self, *, backwards: bool = False) -> bytes:
        """The file, its sections in the usual order or the other way round."""
        kept = bytes(self._data)
        columns = [ByteRange(0, 0)] * len(self.columns)
        places: dict[str, ByteRange] = {}

        def put_descriptor() -> None:
            places["descriptor"] = self.add(self.descriptor.SerializeToString())

        def put_columns() -> None:
            order = range(len(columns))
            for i in reversed(order) if backwards else order:
                data = self.columns[i].SerializeToString()
                columns[i] = self.add(b"?" * self.gap + data, alignment=1)
                columns[i] = ByteRange(columns[i].stop - len(data), columns[i].stop)

        def put_tables() -> None:
            places["columns"] = self.add(build_offset_table(columns), alignment=1)
            self.add(b"?" * self.gap, alignment=1)
            buffers = [places["descriptor"], *self.global_buffers]
            places["buffers"] = self.add(build_offset_table(buffers), alignment=1)

        steps = [put_descriptor, put_columns, put_tables]
        for step in [put_columns, put_descriptor, put_tables] if backwards else steps:
            step()
            self.add(b"?" * self.gap, alignment=1)
        footer = Footer(
            column_metadata_offset=columns[0].start if columns else places["columns"].start,
            column_table_offset=places["columns"].start,
            global_buffer_table_offset=places["buffers"].start,
            num_global_buffers=1 + len(self.global_buffers),
            num_columns=len(columns),
            version=self.version,
            file_size=0,
        )
        built = bytes(self._data) + build_footer(footer)
        self._data = bytearray(kept)
        return built


def column_encoding(*arms: str) -> bytes:
    """A wrapped column encoding: one inside the other, `values` innermost."""
    message = encodings_pb2.ColumnEncoding()
    inner = message
    for arm in arms:
        inner = getattr(inner, arm).inner
    inner.values.SetInParent()
    url = "/lance.encodings.ColumnEncoding"
    return AnyMessage(type_url=url, value=message.SerializeToString()).SerializeToString()
