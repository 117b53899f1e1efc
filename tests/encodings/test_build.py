"""Which layout pages get, by width, metadata and version, and the limits of their chunks."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.encodings.options import ColumnOptions
from alance.encodings.rows import RowRanges
from alance.encodings.spec import FullZipLayout, Layout, MiniBlockLayout
from alance.errors import UnsupportedFeatureError
from alance.testing.asserts import assert_same_array
from alance.testing.pages import pages_of, read_array, rows_of
from alance.types import FileVersion
from tests.encodings.forging import buffer_bytes, only_page

VERSIONS = [FileVersion.V2_1, FileVersion.V2_2]
RNG = np.random.default_rng(11)
MINI_BLOCK = ColumnOptions(structural_encoding="miniblock")
FULL_ZIP = ColumnOptions(structural_encoding="fullzip")


def binaries(num_values: int, width: int) -> pa.Array:
    """Binaries that no encoding makes shorter, every fifth null."""
    values = [RNG.bytes(width) if i % 5 else None for i in range(num_values)]
    return pa.array(values, pa.binary())


def layouts(array: pa.Array, version: FileVersion, options: ColumnOptions) -> set[type[Layout]]:
    """Layouts of an array's pages, which must read back."""
    stored = pages_of(array, version, options)
    for rows in (RowRanges.one(0, len(array)), rows_of([0, len(array) // 2, len(array) - 1])):
        found = read_array(array.type, stored, rows)
        assert_same_array(found, array.take(pa.array(rows.rows())))
    return {type(page.page.layout) for leaf in stored for page in leaf}


@pytest.mark.parametrize("version", VERSIONS)
class TestStructuralEncoding:
    @pytest.mark.parametrize(("width", "expected"), [(255, MiniBlockLayout), (256, FullZipLayout)])
    def test_the_width_decides(
        self, width: int, expected: type[Layout], version: FileVersion
    ) -> None:
        assert layouts(binaries(50, width), version, ColumnOptions()) == {expected}
        fixed = binaries(50, width).cast(pa.binary(width))
        assert layouts(fixed, version, ColumnOptions()) == {expected}

    @pytest.mark.parametrize("width", [256, 4000])
    def test_mini_block_holds_wide_values(self, width: int, version: FileVersion) -> None:
        array = binaries(50, width)
        assert layouts(array, version, MINI_BLOCK) == {MiniBlockLayout}
        assert layouts(array.cast(pa.binary(width)), version, MINI_BLOCK) == {MiniBlockLayout}

    def test_mini_block_holds_what_a_chunk_can(self, version: FileVersion) -> None:
        expected = FullZipLayout if version is FileVersion.V2_1 else MiniBlockLayout
        assert layouts(binaries(20, 100_000), version, MINI_BLOCK) == {expected}

    @pytest.mark.parametrize(
        "array",
        [
            pa.array(RNG.integers(0, 99, 300)),
            pa.array(["few", "words", None] * 100),
            pa.array(RNG.random(300) < 0.5),
            pa.array([["a", None], [], None, ["b"]] * 50),
            pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(600)), 2),
        ],
    )
    def test_full_zip_holds_narrow_values(self, array: pa.Array, version: FileVersion) -> None:
        assert layouts(array, version, FULL_ZIP) == {FullZipLayout}

    @pytest.mark.parametrize(
        "array",
        [
            pa.array(["few", "words", None] * 100).dictionary_encode(),
            pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(600) < 0.5), 2),
        ],
    )
    def test_some_values_have_no_full_zip_form(self, array: pa.Array, version: FileVersion) -> None:
        assert layouts(array, version, FULL_ZIP) == {MiniBlockLayout}

    @pytest.mark.parametrize("wanted", ["miniblock", "fullzip"])
    def test_the_reference_reads_it(
        self, wanted: str, version: FileVersion, tmp_path: Path
    ) -> None:
        marks = {"lance-encoding:structural-encoding": wanted}
        schema = pa.schema([
            pa.field("wide", pa.binary(), metadata=marks),
            pa.field("narrow", pa.list_(pa.int64()), metadata=marks),
        ])
        narrow = pa.array([[1, None], [], None, [2]] * 10, pa.list_(pa.int64()))
        table = pa.Table.from_arrays([binaries(40, 30_000), narrow], schema=schema)
        alance.sync.write_dataset(table, tmp_path / "x", data_storage_version=version.value)
        assert lance.dataset(tmp_path / "x").to_table().equals(table)


class TestChunks:
    @pytest.mark.parametrize(("version", "width"), [(VERSIONS[0], 2), (VERSIONS[1], 4)])
    def test_words_have_the_width_of_the_version(self, version: FileVersion, width: int) -> None:
        stored = only_page(pa.array([1, 2, 3, None], pa.int32()), version=version)
        assert isinstance(stored.page.layout, MiniBlockLayout)
        assert stored.page.layout.has_large_chunk is (width == 4)
        words, chunks = buffer_bytes(stored)
        assert words == (0x30).to_bytes(width, "little")
        header = bytes.fromhex("0400 0800 1000 0000" if width == 2 else "0400 0800 10000000")
        assert chunks[:8] == header
        assert chunks[8:16] == bytes.fromhex("0000 0000 0000 0100")

    @pytest.mark.parametrize("version", VERSIONS)
    def test_more_levels_than_a_chunk_holds_are_cut_into_pages(self, version: FileVersion) -> None:
        array = pa.array([[1], *[[]] * 70_000, [2, None]], pa.list_(pa.int32()))
        (pages,) = pages_of(array, version)
        assert len(pages) > 1
        assert read_array(array.type, [pages], RowRanges.one(0, len(array))).equals(array)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_row_of_more_levels_than_a_chunk_holds_is_full_zip(
        self, version: FileVersion
    ) -> None:
        array = pa.array([[[1], *[[]] * 70_000, [2]]], pa.list_(pa.list_(pa.int32())))
        assert layouts(array, version, ColumnOptions()) == {FullZipLayout}

    @pytest.mark.parametrize("version", VERSIONS)
    def test_dictionary_values_have_no_other_layout(self, version: FileVersion) -> None:
        items = pa.array(["a"]).dictionary_encode()
        inner = pa.ListArray.from_arrays([0, 1, *[1] * 70_000, 1], items)
        row = pa.ListArray.from_arrays([0, len(inner)], inner)
        with pytest.raises(UnsupportedFeatureError, match="mini-block chunk"):
            pages_of(row, version)


DEEP = pa.list_(pa.struct([("a", pa.int64()), ("l", pa.list_(pa.struct([("s", pa.string())])))]))


def deep_rows(num_rows: int) -> list[object]:
    """Rows of null and empty lists and structs at every level, one row longer than any chunk."""
    rng = np.random.default_rng(num_rows)

    def some(make: object, share: float = 0.2) -> object:
        return None if rng.random() < share else make

    def strings(count: int) -> list[object]:
        return [some({"s": some(f"text {rng.integers(0, 10_000)}")}) for _ in range(count)]

    def structs(count: int) -> list[object]:
        inner = [some(strings(int(rng.integers(0, 4)))) for _ in range(count)]
        return [some({"a": some(i), "l": each}) for i, each in enumerate(inner)]

    rows = [some(structs(int(rng.integers(0, 4)))) for _ in range(num_rows)]
    rows[num_rows // 2] = structs(20_000)
    rows[num_rows // 3] = [{"a": 1, "l": strings(20_000)}, None]
    return rows


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_longer_than_chunks_at_every_depth(version: FileVersion) -> None:
    array = pa.array(deep_rows(900), DEEP)
    stored = pages_of(array, version)
    for rows in (
        RowRanges.one(0, 900),
        RowRanges.one(299, 302),
        RowRanges.one(450, 451),
        rows_of([0, 300, 301, 449, 451, 899]),
    ):
        found = read_array(DEEP, stored, rows)
        found.validate(full=True)
        assert_same_array(found, array.take(pa.array(rows.rows())))
