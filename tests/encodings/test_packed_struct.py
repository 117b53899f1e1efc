from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.encodings.blocks import Chunks, FixedWidthBlock, PackedStructBlock, as_bytes
from alance.encodings.build import build_pages
from alance.encodings.compressive import default_registry
from alance.encodings.compressive.packed_struct import encode_packed_struct
from alance.encodings.options import ColumnOptions
from alance.encodings.rows import RowRanges
from alance.encodings.spec import Flat, MiniBlockLayout, PackedStruct, Spec
from alance.errors import CorruptFileError, InvalidInputError
from alance.testing.pages import StoredPage, read_page
from alance.types import FileVersion

WIDTHS = st.lists(st.sampled_from([1, 2, 3, 4, 8, 13, 16, 32]), min_size=1, max_size=5)
VERSIONS = [FileVersion.V2_1, FileVersion.V2_2]


def _decode(spec: Spec, data: bytes, num_values: int) -> PackedStructBlock:
    """Decode one chunk."""
    sizes = np.array([[len(data)]], np.int64)
    chunks = Chunks(as_bytes(data), np.zeros_like(sizes), sizes, np.array([num_values], np.int64))
    block = default_registry().decode_chunks(spec, chunks)
    assert isinstance(block, PackedStructBlock)
    return block


def _stored(array: pa.Array, version: FileVersion = FileVersion.V2_1) -> StoredPage:
    (page,) = build_pages(array, (), ColumnOptions(packed=True), version)
    return StoredPage.of(page, version)


def _structs(num_rows: int) -> pa.StructArray:
    numbers = np.arange(num_rows)
    members = [
        pa.array(numbers, pa.int32()),
        pa.array(numbers / 3),
        pa.array([b"%03d" % (i % 1000) for i in range(num_rows)], pa.binary(3)),
        pa.array(numbers, pa.timestamp("us", "UTC")),
        pa.array(numbers, pa.int64()).cast(pa.decimal128(30, 2)),
    ]
    return pa.StructArray.from_arrays(members, ["a", "b", "c", "d", "e"])


def test_members_lie_side_by_side() -> None:
    data = bytes([1, 2, 0, 3, 4, 0])
    block = _decode(PackedStruct((8, 16), Flat(24)), data, 2)
    first, second = block.members
    assert isinstance(first, FixedWidthBlock)
    assert isinstance(second, FixedWidthBlock)
    assert first.data.tolist() == [1, 3]
    assert second.data.view("<u2").tolist() == [2, 4]


@given(widths=WIDTHS, num_values=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
def test_round_trip(widths: list[int], num_values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts: list[npt.NDArray[np.uint8]] = [
        rng.integers(0, 256, num_values * width, np.uint8) for width in widths
    ]
    members = tuple(
        FixedWidthBlock(8 * width, num_values, part)
        for width, part in zip(widths, parts, strict=True)
    )
    encoded = encode_packed_struct(PackedStructBlock(num_values, members))
    assert encoded.spec == PackedStruct(tuple(8 * w for w in widths), Flat(8 * sum(widths)))
    found = _decode(encoded.spec, encoded.streams[0].data.tobytes(), num_values)
    for member, part in zip(found.members, parts, strict=True):
        assert isinstance(member, FixedWidthBlock)
        assert member.data.tolist() == part.tolist()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (PackedStruct((), Flat(8)), "whole bytes"),
        (PackedStruct((16, 1), Flat(24)), "whole bytes"),
        (PackedStruct((12, 4), Flat(16)), "whole bytes"),
        (PackedStruct((0, 8), Flat(8)), "whole bytes"),
        (PackedStruct((8, 8), Flat(24)), "not as wide"),
        (PackedStruct((8, 8), PackedStruct((16,), Flat(16))), "not as wide"),
        (PackedStruct((64, 64), Flat(128)), "shorter"),
    ],
)
def test_damage(spec: Spec, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        _decode(spec, bytes(24), 8)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("num_rows", [1, 1023, 1025, 4097])
def test_pages(num_rows: int, version: FileVersion) -> None:
    array = _structs(num_rows)
    stored = _stored(array, version)
    assert isinstance(stored.page.layout, MiniBlockLayout)
    assert isinstance(stored.page.layout.value_compression, PackedStruct)
    found, _ = read_page(stored, (array.type,), RowRanges.one(0, num_rows))
    found.validate(full=True)
    assert found.equals(array)


def test_some_rows_need_some_chunks() -> None:
    array = _structs(5000)
    rows = np.array([0, 1, 2600, 4999])
    found, num_bytes = read_page(_stored(array), (array.type,), RowRanges.of_rows(rows))
    assert found.equals(array.take(pa.array(rows)))
    assert num_bytes < 5000 * 39 / 4


def test_null_structs() -> None:
    plain = _structs(2000)
    mask = pa.array(np.arange(2000) % 3 == 0)
    members = [plain.field(i) for i in range(plain.type.num_fields)]
    array = pa.StructArray.from_arrays(members, fields=list(plain.type), mask=mask)
    found, _ = read_page(_stored(array), (array.type,), RowRanges.one(0, 2000))
    assert found.equals(array)
    nulls = pa.nulls(3, array.type)
    found, _ = read_page(_stored(nulls), (array.type,), RowRanges.one(0, 3))
    assert found.equals(nulls)


def test_lists_of_packed_structs() -> None:
    items = _structs(3000)
    offsets = pa.array([0, 2, None, 2, 3000], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, items)
    found, _ = read_page(_stored(lists), (lists.type, items.type), RowRanges.one(1, 4))
    assert found.equals(lists.slice(1))


def test_a_struct_wider_than_a_chunk_likes() -> None:
    wide = pa.array([bytes([i]) * 3000 for i in range(20)], pa.binary(3000))
    array = pa.StructArray.from_arrays([wide, pa.array(range(20))], ["w", "n"])
    found, _ = read_page(_stored(array), (array.type,), RowRanges.one(0, 20))
    assert found.equals(array)


def test_nulls_inside_are_refused() -> None:
    kind = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    with pytest.raises(InvalidInputError, match="'y' of a packed struct holds nulls"):
        _stored(pa.array([{"x": 1, "y": None}], kind))
    below_null = pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.array([None, 2])], ["x", "y"], mask=pa.array([True, False])
    )
    assert _stored(below_null).page.num_rows == 2
