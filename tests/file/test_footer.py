import contextlib
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from alance.file.footer import (
    ALIGNMENT,
    FOOTER_BYTES,
    Footer,
    build_footer,
    build_metadata_section,
    build_offset_table,
    missing_range,
    num_padding_bytes,
    parse_footer,
    parse_offset_tables,
)
from alance.types import ByteRange, FileVersion

MIB = 1 << 20
VERSIONS = [FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2]


def forged(**members: int) -> bytes:
    """The footer of a file of 1000 bytes without columns, with some numbers replaced."""
    numbers = {
        "column_metadata": 900,
        "column_table": 900,
        "buffer_table": 944,
        "num_buffers": 1,
        "num_columns": 0,
        "major": 2,
        "minor": 1,
    } | members
    return struct.pack("<QQQIIHH4s", *numbers.values(), b"LANC")


def parse(tail: bytes, file_size: int = 1000) -> Footer:
    return parse_footer(memoryview(tail), file_size)


class TestWorkedExample:
    """Two columns, 641 bytes: the numbers of the format's own example."""

    def test_all_numbers(self) -> None:
        section = build_metadata_section(
            317, [b"a" * 115, b"b" * 121], [ByteRange(256, 317)], FileVersion.V2_1
        )
        data = memoryview(bytes(317) + section)
        assert len(data) == 641
        assert struct.unpack("<QQQIIHH4s", data[-40:]) == (317, 553, 585, 1, 2, 2, 1, b"LANC")
        footer = parse_footer(data, 641)
        tables = parse_offset_tables(footer, data)
        assert tuple(tables.column_metadata) == (ByteRange(317, 432), ByteRange(432, 553))
        assert tuple(tables.global_buffers) == (ByteRange(256, 317),)
        assert footer.column_table == ByteRange(553, 585)
        assert footer.global_buffer_table == ByteRange(585, 601)


class TestRoundTrip:
    @given(
        st.integers(0, 2**40),
        st.lists(st.binary(max_size=50), max_size=5),
        st.integers(1, 4),
        st.sampled_from(VERSIONS),
    )
    def test_section(
        self, position: int, columns: list[bytes], num_buffers: int, version: FileVersion
    ) -> None:
        buffers = [ByteRange(i * ALIGNMENT, i * ALIGNMENT) for i in range(num_buffers)]
        position = max(position, num_buffers * ALIGNMENT)
        section = memoryview(build_metadata_section(position, columns, buffers, version))
        file_size = position + len(section)
        footer = parse_footer(section[-FOOTER_BYTES:], file_size)
        assert footer.version is version
        assert build_footer(footer) == section[-FOOTER_BYTES:]
        assert missing_range(footer, position) is None
        tables = parse_offset_tables(footer, section)
        assert list(tables.global_buffers) == buffers
        stored = [
            bytes(section[each.start - position : each.stop - position])
            for each in tables.column_metadata
        ]
        assert stored == columns

    @given(st.integers(0, 10**6))
    def test_padding(self, position: int) -> None:
        assert (position + num_padding_bytes(position)) % ALIGNMENT == 0
        assert 0 <= num_padding_bytes(position) < ALIGNMENT


class TestParseFooter:
    def test_accepts_both_spellings_of_2_0(self) -> None:
        for major, minor in [(0, 3), (2, 0)]:
            assert parse(forged(major=major, minor=minor)).version is FileVersion.V2_0

    @pytest.mark.parametrize(
        "members",
        [
            {"column_table": 2**64 - 1},
            {"column_table": 961},
            {"column_table": 950, "num_columns": 1},
            {"buffer_table": 945},
            {"buffer_table": 2**63},
            {"column_metadata": 961},
            {"column_metadata": 2**64 - 8},
            {"num_columns": 2**32 - 1},
            {"num_columns": 100},
            {"num_buffers": 0},
            {"num_buffers": 2**32 - 1},
        ],
        ids=str,
    )
    def test_numbers_outside_the_file(self, members: dict[str, int]) -> None:
        with pytest.raises(CorruptFileError):
            parse(forged(**members))

    @pytest.mark.parametrize("pair", [(0, 2), (0, 0), (2, 3), (3, 0), (65535, 65535)], ids=str)
    def test_versions_not_known(self, pair: tuple[int, int]) -> None:
        with pytest.raises(UnsupportedFeatureError):
            parse(forged(major=pair[0], minor=pair[1]))

    def test_magic(self) -> None:
        with pytest.raises(CorruptFileError, match="PAR1") as caught:
            parse(forged()[:-4] + b"PAR1")
        assert caught.value.offset == 996

    @pytest.mark.parametrize("num_bytes", [0, 1, 39])
    def test_too_short(self, num_bytes: int) -> None:
        with pytest.raises(CorruptFileError, match=f"{num_bytes} bytes"):
            parse(forged()[40 - num_bytes :], num_bytes)

    def test_tail_longer_than_the_file(self) -> None:
        with pytest.raises(CorruptFileError):
            parse(forged(), 39)

    @given(st.binary(min_size=0, max_size=80), st.integers(0, 2**64))
    def test_any_bytes(self, data: bytes, file_size: int) -> None:
        with contextlib.suppress(FormatError):
            footer = parse(data[:-4] + b"LANC", file_size)
            assert footer.column_table.stop <= file_size
            assert footer.global_buffer_table.stop <= file_size


class TestMissingRange:
    footer = Footer(
        column_metadata_offset=1_000_000,
        column_table_offset=1_200_000,
        global_buffer_table_offset=1_200_160,
        num_global_buffers=1,
        num_columns=10,
        version=FileVersion.V2_1,
        file_size=1_200_216,
    )

    def test_tail_long_enough(self) -> None:
        assert missing_range(self.footer, 1_000_000) is None
        assert missing_range(self.footer, 0) is None

    def test_reaches_back_over_the_schema(self) -> None:
        assert missing_range(self.footer, 1_100_000, request_cost_bytes=MIB) == ByteRange(
            1_000_000 - 65536, 1_100_000
        )

    def test_never_before_the_file(self) -> None:
        footer = replace(self.footer, column_metadata_offset=100)
        assert missing_range(footer, 1_100_000, request_cost_bytes=2 * MIB) == ByteRange(
            0, 1_100_000
        )

    def test_few_columns_of_many(self) -> None:
        """Metadata of 200,000 bytes, of which the tail has half or none."""
        cost = 99_000
        assert missing_range(self.footer, 1_100_000, request_cost_bytes=cost) is None
        tables = ByteRange(1_200_000, 1_200_100)
        assert missing_range(self.footer, 1_200_100, request_cost_bytes=cost) == tables
        whole = ByteRange(1_000_000 - 65536, 1_200_100)
        for num_wanted, expected in [(None, tables), (5, tables), (6, whole), (10, whole)]:
            found = missing_range(
                self.footer, 1_200_100, num_wanted=num_wanted, request_cost_bytes=cost
            )
            assert found == expected

    def test_column_metadata_far_away_is_not_fetched_whole(self) -> None:
        far = replace(
            self.footer,
            column_table_offset=2**40,
            global_buffer_table_offset=2**40 + 160,
            file_size=2**40 + 216,
        )
        assert missing_range(far, 2**40 + 100, request_cost_bytes=2**50) == ByteRange(
            2**40, 2**40 + 100
        )
        assert missing_range(far, 2**40) is None

    def test_tables_far_away(self) -> None:
        with pytest.raises(CorruptFileError, match="before the end of the file"):
            missing_range(replace(self.footer, file_size=2**40), 2**40 - 65536)


class TestOffsetTables:
    def file(self, columns: list[ByteRange], buffers: list[ByteRange]) -> tuple[Footer, memoryview]:
        """A file whose tables start at byte 1024."""
        data = bytes(1024) + build_offset_table(columns) + build_offset_table(buffers)
        footer = Footer(
            column_metadata_offset=0,
            column_table_offset=1024,
            global_buffer_table_offset=1024 + 16 * len(columns),
            num_global_buffers=len(buffers),
            num_columns=len(columns),
            version=FileVersion.V2_1,
            file_size=len(data) + FOOTER_BYTES,
        )
        return footer, memoryview(data + build_footer(footer))

    def test_any_order_and_empty_buffers(self) -> None:
        columns = [ByteRange(7, 9), ByteRange(3, 3)]
        buffers = [ByteRange(640, 700), ByteRange(64, 64)]
        footer, data = self.file(columns, buffers)
        tables = parse_offset_tables(footer, data[1000:])
        assert (list(tables.column_metadata), list(tables.global_buffers)) == (columns, buffers)

    @pytest.mark.parametrize(
        ("columns", "buffers", "message"),
        [
            ([ByteRange(0, 2**64 - 1)], [ByteRange(0, 1)], "column 0"),
            ([ByteRange(2**63, 2**63 + 1)], [ByteRange(0, 1)], "column 0"),
            ([ByteRange(0, 900)] * 2, [ByteRange(0, 1)], "larger than the file"),
            ([], [ByteRange(0, 1), ByteRange(1024, 2048)], "global buffer 1"),
            ([], [ByteRange(1, 2)], "multiple of 64"),
        ],
        ids=["wide", "far", "overlap", "buffer", "alignment"],
    )
    def test_refused(
        self, columns: list[ByteRange], buffers: list[ByteRange], message: str
    ) -> None:
        footer, data = self.file(columns, buffers)
        with pytest.raises(CorruptFileError, match=message):
            parse_offset_tables(footer, data)

    def test_no_alignment_in_2_0(self) -> None:
        footer, data = self.file([], [ByteRange(1, 2)])
        tables = parse_offset_tables(replace(footer, version=FileVersion.V2_0), data)
        assert tuple(tables.global_buffers) == (ByteRange(1, 2),)

    def test_huge_descriptor(self) -> None:
        footer, data = self.file([], [ByteRange(0, 2**30)])
        far = replace(
            footer,
            column_table_offset=2**32 + 1024,
            global_buffer_table_offset=2**32 + 1024,
            file_size=2**32 + footer.file_size,
        )
        with pytest.raises(CorruptFileError, match="file descriptor"):
            parse_offset_tables(far, data)
