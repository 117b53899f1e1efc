"""What field metadata may ask of the writer, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.encodings.options import ColumnOptions, column_options, parse_options
from alance.errors import DatasetNotFoundError, InvalidInputError
from alance.file.schema import Schema
from alance.types import FileVersion

pytestmark = pytest.mark.anyio


def parse(**marks: str) -> ColumnOptions:
    keys = {f"lance-encoding:{k.replace('_', '-')}": v.encode() for k, v in marks.items()}
    return parse_options({"comment": b"\xff", **keys}, "a.b")


def test_no_keys_leave_every_choice_to_the_writer() -> None:
    assert parse() == ColumnOptions()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("blob", "true", True),
        ("blob", "TRUE", True),
        ("blob_dedicated_size_threshold", "1", 1),
        ("blob_inline_size_threshold", "1024", 1024),
        ("blob_inline_size_threshold", "0", 0),
        ("blob_pack_file_size_threshold", "1", 1),
        ("bss", "on", "on"),
        ("bss", "OFF", "off"),
        ("bss", "auto", "auto"),
        ("compression", "none", "none"),
        ("compression", "lz4", "lz4"),
        ("compression", "zstd", "zstd"),
        ("compression", "fsst", "fsst"),
        ("compression_level", "0", 0),
        ("compression_level", "22", 22),
        ("dict_divisor", "1", 1),
        ("dict_size_ratio", "0.5", 0.5),
        ("dict_values_compression", "zstd", "zstd"),
        ("dict_values_compression_level", "3", 3),
        ("minichunk_size", "8192", 8192),
        ("packed", "true", True),
        ("rle_threshold", "1", 1.0),
        ("rle_threshold", "1e-3", 0.001),
        ("structural_encoding", "miniblock", "miniblock"),
        ("structural_encoding", "FullZip", "fullzip"),
    ],
)
def test_every_key_has_its_values(key: str, text: str, value: object) -> None:
    options = parse(**{key: text})
    assert getattr(options, key) == value
    assert type(getattr(options, key)) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("blob", "maybe"),
        ("blob", "false"),
        ("blob_dedicated_size_threshold", "0"),
        ("blob_inline_size_threshold", "1 KiB"),
        ("blob_pack_file_size_threshold", "0"),
        ("bss", "yes"),
        ("bss", ""),
        ("compression", "snappy"),
        ("compression", "LZ4"),
        ("compression_level", "99"),
        ("compression_level", "-1"),
        ("compression_level", "high"),
        ("compression_level", "9" * 5000),
        ("compression_level", "\u0663"),
        ("dict_divisor", "0"),
        ("dict_size_ratio", "0"),
        ("dict_size_ratio", "1.5"),
        ("dict_size_ratio", "nan"),
        ("dict_values_compression", "fsst"),
        ("dict_values_compression_level", "23"),
        ("minichunk_size", "0"),
        ("packed", "false"),
        ("rle_threshold", "-0.1"),
        ("rle_threshold", "inf"),
        ("rle_threshold", "half"),
        ("structural_encoding", "dense"),
        ("blob_size", "1"),
        ("", "1"),
    ],
)
def test_errors_name_field_and_key(key: str, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(**{key: text})
    assert "'a.b'" in str(caught.value)
    assert f"'lance-encoding:{key.replace('_', '-')}'" in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "dict_values_"])
def test_levels_are_those_of_the_scheme(prefix: str) -> None:
    level = f"{prefix}compression_level"
    assert getattr(parse(**{f"{prefix}compression": "lz4", level: "12"}), level) == 12
    assert getattr(parse(**{f"{prefix}compression": "zstd", level: "22"}), level) == 22
    with pytest.raises(InvalidInputError, match="level of lz4, from 0 to 12"):
        parse(**{f"{prefix}compression": "lz4", level: "13"})


def test_values_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="'lance-encoding:bss'"):
        parse_options({"lance-encoding:bss": b"\xff"}, "a")


def test_the_layout_is_asked_for_at_the_top_and_the_rest_at_the_leaf() -> None:
    top = {"lance-encoding:structural-encoding": b"fullzip", "lance-encoding:compression": b"lz4"}
    leaf = {"lance-encoding:bss": b"off"}
    options = column_options([("a", top), ("a.b", {}), ("a.b.c", leaf)])
    assert options == ColumnOptions(bss="off", structural_encoding="fullzip")
    assert column_options([("a", top)]).compression == "lz4"
    with pytest.raises(InvalidInputError, match=r"'a\.b'"):
        column_options([("a", top), ("a.b", {"lance-encoding:x": b""}), ("a.b.c", leaf)])


def test_a_schema_names_nested_fields_by_their_path() -> None:
    bad = pa.field("b", pa.int64(), metadata={"lance-encoding:compression-level": "99"})
    schema = Schema.from_arrow(pa.schema([pa.field("a", pa.list_(pa.struct([bad])))]))
    with pytest.raises(
        InvalidInputError, match=r"'a\.item\.b'.*'lance-encoding:compression-level'"
    ):
        schema.check_options()
    with pytest.raises(InvalidInputError, match=r"'a\.item\.b'"):
        _ = schema.leaves(FileVersion.V2_1)[0].options


async def test_nothing_is_written_for_bad_metadata(tmp_path: Path) -> None:
    field = pa.field("a", pa.int64(), metadata={"lance-encoding:compression": "snappy"})
    table = pa.table([pa.array([1, 2])], schema=pa.schema([field]))
    with pytest.raises(InvalidInputError, match=r"'a'.*'lance-encoding:compression'"):
        await alance.write_dataset(table, str(tmp_path / "d.lance"))
    with pytest.raises(DatasetNotFoundError):
        await alance.open_dataset(str(tmp_path / "d.lance"))


async def test_bad_metadata_does_not_keep_values_from_being_read(tmp_path: Path) -> None:
    field = pa.field("a", pa.int64(), metadata={"lance-encoding:rle-threshold": "x"})
    table = pa.table([pa.array([1, 2])], schema=pa.schema([field]))
    lance.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.1")
    dataset = await alance.open_dataset(str(tmp_path / "d"))
    assert await dataset.to_table() == table
