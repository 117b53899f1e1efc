import contextlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.encodings.wire import build_column_encoding, check_column_encoding, parse_page_layout
from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from alance.file.footer import build_metadata_section, parse_footer, parse_offset_tables
from alance.file.metadata import (
    ColumnMetadata,
    FileDescriptor,
    PageInfo,
    build_column_metadata,
    build_field,
    build_file_descriptor,
    parse_column_metadata,
    parse_field,
    parse_file_descriptor,
)
from alance.file.schema import Field, Schema
from alance.proto import file_pb2 as pb
from alance.types import ByteRange, FileVersion
from tests.file.reference import reference_file
from tests.file.tables import layout_of

LIMIT = 2**50
TABLE = pa.table({
    "i": pa.array([1, None, 3], pa.int32()),
    "l": pa.array([[1, 2], [], None], pa.list_(pa.float64())),
    "s": pa.array([{"a": "x", "b": None}, None, {"a": "", "b": 1}]),
})


def parse(data: bytes, version: FileVersion = FileVersion.V2_1) -> ColumnMetadata:
    return parse_column_metadata(data, limit=LIMIT, version=version)


def column(**members: object) -> pb.ColumnMetadata:
    """A message of one page of ten rows, with members of the page replaced."""
    direct = pb.Encoding(direct=pb.DirectEncoding(encoding=b"e"))
    page = {"buffer_offsets": [64], "buffer_sizes": [8], "length": 10, "encoding": direct}
    return pb.ColumnMetadata(
        encoding=direct,
        pages=[pb.ColumnMetadata.Page(**(page | members))],  # type: ignore[arg-type]
    )


class TestReferenceFiles:
    @pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
    def test_same_bytes_again(self, version: str, tmp_path: Path) -> None:
        # Structs that are null came with 2.1.
        table = TABLE.drop(["s"]) if version == "2.0" else TABLE
        data = reference_file(tmp_path / "f", version, table)
        footer = parse_footer(data, len(data))
        assert footer.version is FileVersion.parse(version)
        tables = parse_offset_tables(footer, data)
        columns = []
        for place in tables.column_metadata:
            raw = data[place.start : place.stop]
            parsed = parse_column_metadata(
                raw, limit=footer.column_metadata_offset, version=footer.version
            )
            columns.append(build_column_metadata(parsed))
            assert columns[-1] == raw
            assert isinstance(parsed.encoding, bytes)
            check_column_encoding(parsed.encoding)
        place = tables.global_buffers[0]
        descriptor = parse_file_descriptor(data[place.start : place.stop])
        assert descriptor == FileDescriptor(Schema.from_arrow(table.schema), 3)
        assert build_file_descriptor(descriptor) == data[place.start : place.stop]
        section = build_metadata_section(
            footer.column_metadata_offset, columns, tables.global_buffers, footer.version
        )
        assert section == data[footer.column_metadata_offset :]

    def test_leaves_are_the_columns(self, tmp_path: Path) -> None:
        data = reference_file(tmp_path / "f", "2.1", TABLE)
        footer = parse_footer(data, len(data))
        leaves = Schema.from_arrow(TABLE.schema).leaves(footer.version)
        tables = parse_offset_tables(footer, data)
        assert len(leaves) == footer.num_columns == 4
        for leaf, place in zip(leaves, tables.column_metadata, strict=True):
            parsed = parse(bytes(data[place.start : place.stop]))
            assert parsed.num_rows == 3
            layout = layout_of(parsed.pages[0])
            assert len(layout.layers) == len(leaf.nodes)

    def test_flipped_bytes(self, tmp_path: Path) -> None:
        data = reference_file(tmp_path / "f", "2.1", TABLE)
        start = parse_offset_tables(parse_footer(data, len(data)), data).global_buffers[0].start
        survived = 0
        for position in range(start, len(data)):
            flipped = bytearray(data)
            flipped[position] ^= 0x55
            with contextlib.suppress(FormatError):
                read_all(memoryview(flipped))
                survived += 1
        assert 0 < survived < len(data) - start

    def test_truncated(self, tmp_path: Path) -> None:
        data = reference_file(tmp_path / "f", "2.1", TABLE)
        for num_bytes in range(len(data)):
            with pytest.raises(FormatError):
                read_all(data[:num_bytes])


def read_all(data: memoryview) -> None:
    """Everything that a reader parses before it reads pages."""
    footer = parse_footer(data, len(data))
    tables = parse_offset_tables(footer, data)
    for place in tables.column_metadata:
        parsed = parse_column_metadata(
            data[place.start : place.stop], limit=len(data), version=footer.version
        )
        if isinstance(parsed.encoding, bytes):
            check_column_encoding(parsed.encoding)
        for page in parsed.pages:
            if isinstance(page.layout, bytes):
                parse_page_layout(page.layout)
    place = tables.global_buffers[0]
    parse_file_descriptor(data[place.start : place.stop]).schema.to_arrow()


ranges = st.builds(
    lambda start, size: ByteRange(start * 64, start * 64 + size),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)
pages = st.builds(
    PageInfo,
    num_rows=st.integers(0, 2**40),
    priority=st.integers(0, 2**64 - 1),
    buffers=st.lists(ranges, max_size=4).map(tuple),
    layout=st.binary(max_size=20),
)


class TestColumnMetadata:
    @given(
        st.builds(
            ColumnMetadata,
            encoding=st.binary(max_size=20),
            pages=st.lists(pages, max_size=4).map(tuple),
            buffers=st.lists(ranges, max_size=2).map(tuple),
        )
    )
    def test_round_trip(self, metadata: ColumnMetadata) -> None:
        assert parse(build_column_metadata(metadata)) == metadata

    def test_zero_pages(self) -> None:
        metadata = ColumnMetadata(build_column_encoding(), ())
        assert parse(build_column_metadata(metadata)) == metadata
        assert metadata.num_rows == 0

    def test_unpacked_lists(self) -> None:
        page = b"\x08\x40\x10\x08" + b"\x18\x0a\x22\x05\x12\x03\x0a\x01e"
        data = b"\x0a\x05\x12\x03\x0a\x01e" + b"\x12" + bytes([len(page)]) + page
        assert parse(data).pages == (PageInfo(10, 0, (ByteRange(64, 72),), b"e"),)

    def test_unknown_members_are_passed_over(self) -> None:
        data = column().SerializeToString() + b"\xfa\x3e\x03abc"
        assert parse(data) == parse(column().SerializeToString())

    @pytest.mark.parametrize(
        ("members", "message"),
        [
            ({"buffer_sizes": []}, "1 buffer offsets, but 0"),
            ({"buffer_sizes": [2**64 - 1]}, "buffer 0 lies at"),
            ({"buffer_offsets": [2**63]}, "buffer 0 lies at"),
            ({"buffer_offsets": [LIMIT], "buffer_sizes": [1]}, "buffer 0 lies at"),
            ({"buffer_offsets": [65]}, "multiple of 64"),
            ({"buffer_offsets": [65], "buffer_sizes": [0]}, "multiple of 64"),
            ({"length": 2**63}, "9223372036854775808 rows"),
            ({"encoding": None}, "page has no encoding"),
            ({"encoding": pb.Encoding()}, "page has no encoding"),
        ],
        ids=str,
    )
    def test_hostile_pages(self, members: dict[str, object], message: str) -> None:
        with pytest.raises(CorruptFileError, match=message):
            parse(column(**members).SerializeToString())

    def test_no_alignment_in_2_0(self) -> None:
        data = column(buffer_offsets=[65]).SerializeToString()
        assert parse(data, FileVersion.V2_0).pages[0].buffers == (ByteRange(65, 73),)

    def test_row_counts_that_add_up_beyond_reason(self) -> None:
        page = PageInfo(2**62, 0, (), b"")
        data = build_column_metadata(ColumnMetadata(b"", (page, page)))
        with pytest.raises(CorruptFileError, match="rows together"):
            parse(data)

    def test_column_without_encoding(self) -> None:
        message = column()
        message.ClearField("encoding")
        with pytest.raises(CorruptFileError, match="column has no encoding"):
            parse(message.SerializeToString())

    @pytest.mark.parametrize(("start", "size"), [(0, 0), (77, 5), (LIMIT, 0), (0, 2**24)])
    def test_encodings_stored_apart(self, start: int, size: int) -> None:
        place = ByteRange(start, start + size)
        indirect = pb.DeferredEncoding(buffer_location=start, buffer_length=size)
        message = column(encoding=pb.Encoding(indirect=indirect))
        message.encoding.indirect.CopyFrom(indirect)
        found = parse(message.SerializeToString())
        assert (found.encoding, found.pages[0].layout) == (place, place)
        assert build_column_metadata(found) == message.SerializeToString()

    @pytest.mark.parametrize(
        ("start", "size", "message"),
        [
            (LIMIT, 1, "encoding of a page lies at"),
            (1, 2**64 - 1, "encoding of a page lies at"),
            (0, 2**24 + 1, "has 16777217 bytes"),
        ],
    )
    def test_encodings_nowhere(self, start: int, size: int, message: str) -> None:
        indirect = pb.DeferredEncoding(buffer_location=start, buffer_length=size)
        with pytest.raises(CorruptFileError, match=message):
            parse(column(encoding=pb.Encoding(indirect=indirect)).SerializeToString())

    def test_no_encoding(self) -> None:
        encoding = pb.Encoding()
        encoding.none.SetInParent()
        with pytest.raises(UnsupportedFeatureError, match=r"a page says .* 'none'"):
            parse(column(encoding=encoding).SerializeToString())

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        with contextlib.suppress(FormatError):
            assert all(
                buffer.stop <= LIMIT for page in parse(data).pages for buffer in page.buffers
            )


FULL = Field(
    name="x",
    id=3,
    parent_id=-1,
    logical_type="int32",
    nullable=True,
    metadata={"k": b"v", "a": b"\xff"},
    extension_name="e",
    encoding=4,
    dictionary=(0, 0),
    unenforced_primary_key=True,
    unenforced_primary_key_position=2,
    unenforced_clustering_key=True,
    unenforced_clustering_key_position=1,
)


class TestFieldsAndDescriptor:
    @pytest.mark.parametrize(
        "field",
        [FULL, Field("", 0, -1, "", nullable=False), Field("é", -1, 2**31 - 1, "x", encoding=77)],
        ids=["all members", "no members", "senseless members"],
    )
    def test_fields_round_trip(self, field: Field) -> None:
        message = pb.Field.FromString(build_field(field).SerializeToString())
        assert parse_field(message) == field

    def test_members_have_their_numbers(self) -> None:
        stored = build_field(Field("x", 0, -1, "null", nullable=False)).SerializeToString()
        assert stored == b"\x12\x01x" + b"\x20" + b"\xff" * 9 + b"\x01" + b"\x2a\x04null"

    def test_descriptor_round_trip(self) -> None:
        descriptor = FileDescriptor(Schema((FULL,), {"z": b"1", "a": b"2"}), 2**64 - 1)
        assert parse_file_descriptor(build_file_descriptor(descriptor)) == descriptor

    def test_bytes_do_not_depend_on_the_order_of_metadata(self) -> None:
        stored = [
            build_file_descriptor(FileDescriptor(Schema((), dict(items)), 0))
            for items in ([("a", b"1"), ("b", b"2")], [("b", b"2"), ("a", b"1")])
        ]
        assert stored[0] == stored[1]

    @pytest.mark.parametrize(
        "data", [b"", b"\x10\x05", b"\x0a\xff", b"\x0a\x05\x0a\x03\x12\x01\xff"]
    )
    def test_refused(self, data: bytes) -> None:
        with pytest.raises(CorruptFileError):
            parse_file_descriptor(data)

    def test_unknown_type(self) -> None:
        message = pb.FileDescriptor(schema=pb.Schema(fields=[build_field(FULL)]))
        message.schema.fields[0].logical_type = "int128"
        with pytest.raises(UnsupportedFeatureError, match="int128"):
            parse_file_descriptor(message.SerializeToString())
