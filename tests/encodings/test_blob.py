from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.blocks import (
    FixedWidthBlock,
    Levels,
    PackedStructBlock,
    PageRows,
    VariableWidthBlock,
)
from alance.encodings.build_blob import build_blob_page
from alance.encodings.compressive import default_registry
from alance.encodings.layout import open_page
from alance.encodings.layout.blob import BlobReader, describe_blobs, join_blobs
from alance.encodings.rows import RowRanges
from alance.encodings.spec import BlobLayout, ConstantLayout, Layer, PackedStruct
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.testing.pages import StoredPage, read_page
from alance.types import ByteRange, FileVersion

VALUES = [b"abc", None, b"", b"z" * 100, None, b"q"]
NULLABLE = (Layer.NULLABLE_ITEM,)


def _stored(array: pa.Array, path: tuple[int, ...] = ()) -> StoredPage:
    """The page with its values before it, as in a file."""
    version = FileVersion.V2_1
    page = build_blob_page(array, path, version)
    values = b"".join(part.tobytes() for part in page.values.parts)
    start = len(values) + -len(values) % 64
    placed = StoredPage.of(page.place(0, ()))
    buffers = tuple(ByteRange(b.start + start, b.stop + start) for b in placed.buffers)
    return StoredPage(placed.page, values.ljust(start, b"\0") + placed.data, buffers, version)


def test_round_trip() -> None:
    array = pa.array(VALUES, pa.large_binary())
    stored = _stored(array)
    assert isinstance(stored.page.layout, BlobLayout)
    assert stored.page.layout.layers == NULLABLE
    inner = stored.page.layout.inner_layout
    assert inner.layers == (Layer.ALL_VALID_ITEM,)
    found, _ = read_page(stored, (array.type,), RowRanges.one(0, 6))
    found.validate(full=True)
    assert found.equals(array)


def test_only_the_wanted_values_are_fetched() -> None:
    array = pa.array([bytes([i]) * 10_000 for i in range(20)], pa.large_binary())
    found, num_bytes = read_page(_stored(array), (array.type,), RowRanges.of_rows(np.array([3, 9])))
    assert found.equals(array.take(pa.array([3, 9])))
    assert 20_000 <= num_bytes < 21_000


def test_values_lie_at_multiples_of_64() -> None:
    offsets = np.array([2, 5, 5, 5, 105, 106], np.int64)
    data, starts = join_blobs(VariableWidthBlock(offsets, np.arange(110, dtype=np.uint8)))
    assert starts.tolist() == [0, 64, 64, 64, 192]
    assert len(data) == 193
    assert data[:3].tolist() == [2, 3, 4]
    assert data[192] == 105


def test_structs_around_blobs() -> None:
    kind = pa.struct([("v", pa.large_binary()), ("n", pa.int8())])
    array = pa.array([{"v": b"abc"}, None, {"v": None}, {"v": b""}], kind)
    chain = (pa.struct([("v", pa.large_binary())]), pa.large_binary())
    found, _ = read_page(_stored(array, (0,)), chain, RowRanges.one(0, 4))
    assert found.to_pylist() == [{"v": b"abc"}, None, {"v": None}, {"v": b""}]


def test_places() -> None:
    sizes = np.array([3, 0, 0, 100], np.int64)
    starts = np.array([64, 128, 128, 128], np.int64)
    block = describe_blobs(starts, sizes, np.array([0, 1, 0, 0], np.uint16))
    position, size = block.members
    assert isinstance(position, FixedWidthBlock)
    assert isinstance(size, FixedWidthBlock)
    assert position.data.view("<u8").tolist() == [64, 0x10000, 0, 128]
    assert size.data.view("<u8").tolist() == [3, 0, 0, 100]


@pytest.mark.parametrize("values", [[None, None], [b"", b""], [b"", None]])
def test_nothing_to_fetch(values: list[bytes | None]) -> None:
    array = pa.array(values, pa.large_binary())
    found, _ = read_page(_stored(array), (array.type,), RowRanges.one(0, 2))
    assert found.equals(array)


def test_lists_of_blobs() -> None:
    inner = ConstantLayout(NULLABLE)
    layout = BlobLayout(inner, (Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST))
    with pytest.raises(UnsupportedFeatureError, match="inside lists"):
        open_page(layout, (), 3, default_registry(), FileVersion.V2_1)


class _Forged:
    """An inner page that says what a test wants."""

    search_bytes = 0

    def __init__(self, positions: list[int], sizes: list[int], bits: int = 64) -> None:
        self.positions, self.sizes, self.bits = positions, sizes, bits
        self.num_rows = len(sizes)

    def plan(self, rows: RowRanges) -> Step:
        members = tuple(
            FixedWidthBlock(self.bits, len(each), np.array(each, "<u8").view(np.uint8))
            for each in (self.positions, self.sizes)
        )
        levels = Levels(None, None)
        block = PackedStructBlock(len(self.sizes), members)
        page = PageRows(len(self.sizes), (Layer.ALL_VALID_ITEM,), levels, block)
        return Decode(len(self.sizes), lambda: page)


@pytest.mark.parametrize(
    ("positions", "sizes", "layers", "message"),
    [
        ([0, 0], [1 << 40, 1 << 40], NULLABLE, "overlap"),
        ([1 << 63], [1], NULLABLE, "beyond"),
        ([0], [(1 << 64) - 1], NULLABLE, "beyond"),
        ([0, 0, 0], [1 << 61] * 3, NULLABLE, "larger"),
        ([2 << 16], [0], NULLABLE, "levels"),
        ([1], [0], NULLABLE, "levels"),
        ([1 << 16], [0], (Layer.ALL_VALID_ITEM,), "levels"),
        ([1 << 61], [0], NULLABLE, "levels"),
    ],
)
def test_forged_places(
    positions: list[int], sizes: list[int], layers: tuple[Layer, ...], message: str
) -> None:
    page = _Forged(positions, sizes)
    with pytest.raises(CorruptFileError, match=message):
        BlobReader(layers, page).plan(RowRanges.one(0, len(sizes)))


def test_places_of_another_kind() -> None:
    with pytest.raises(CorruptFileError, match="pairs"):
        BlobReader(NULLABLE, _Forged([0], [1], bits=32)).plan(RowRanges.one(0, 1))


def test_bytes_that_are_not_there() -> None:
    step = BlobReader(NULLABLE, _Forged([64], [10])).plan(RowRanges.one(0, 1))
    assert isinstance(step, Fetch)
    assert step.ranges == (ByteRange(64, 74),)
    step = step.then([memoryview(b"short")])
    assert isinstance(step, Decode)
    with pytest.raises(CorruptFileError, match="10 bytes, of which 5"):
        step.run()


def test_the_inner_page_is_packed() -> None:
    page = _stored(pa.array(VALUES, pa.large_binary())).page
    assert isinstance(page.layout, BlobLayout)
    inner = page.layout.inner_layout
    assert not isinstance(inner, ConstantLayout)
    assert isinstance(inner.value_compression, PackedStruct)
    assert inner.value_compression.bits_per_value == (64, 64)
