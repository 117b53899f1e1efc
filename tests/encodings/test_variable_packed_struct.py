from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.blocks import (
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.build import build_pages
from alance.encodings.compressive import default_registry
from alance.encodings.options import ColumnOptions
from alance.encodings.rows import RowRanges
from alance.encodings.spec import (
    FixedSizeList,
    Flat,
    Fsst,
    FullZipLayout,
    PackedField,
    Variable,
    VariablePackedStruct,
)
from alance.errors import CorruptFileError
from alance.testing.pages import StoredPage, read_page
from alance.types import FileVersion

TEXT = PackedField(Variable(Flat(32)), bits_per_length=32)
NUMBER = PackedField(Flat(32), bits_per_value=32)
PAIR = VariablePackedStruct((NUMBER, TEXT))


def _rows(*rows: str) -> VariableWidthBlock:
    """Rows in hexadecimal digits."""
    found = [bytes.fromhex(row) for row in rows]
    offsets = np.cumsum([0, *map(len, found)]).astype(np.int32)
    return VariableWidthBlock(offsets, as_bytes(b"".join(found)))


def _decode(spec: VariablePackedStruct, rows: VariableWidthBlock) -> PackedStructBlock:
    block = default_registry().decode_values(spec, rows)
    assert isinstance(block, PackedStructBlock)
    return block


def _stored(array: pa.Array) -> StoredPage:
    options = ColumnOptions(packed=True)
    (page,) = build_pages(array, (), options, FileVersion.V2_2)
    return StoredPage.of(page, FileVersion.V2_2)


def _structs(num_rows: int) -> pa.StructArray:
    numbers = np.arange(num_rows)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * num_rows), pa.int16()), 2)
    members = [
        pa.array([f"text of row {i}" * (i % 3) for i in range(num_rows)]),
        pa.array(numbers, pa.int32()),
        lists,
        pa.array([b"b" * (i % 5) for i in range(num_rows)], pa.large_binary()),
    ]
    return pa.StructArray.from_arrays(members, ["t", "n", "l", "b"])


def test_a_row_is_its_members_one_after_the_other() -> None:
    block = _decode(PAIR, _rows("01000000 02000000 7879", "", "02000000 00000000"))
    number, text = block.members
    assert isinstance(number, FixedWidthBlock)
    assert isinstance(text, VariableWidthBlock)
    assert number.data.view("<i4").tolist() == [1, 0, 2]
    assert text.offsets.tolist() == [0, 2, 2, 2]
    assert bytes(text.data) == b"xy"


@pytest.mark.parametrize("num_rows", [1, 1025, 5000])
def test_pages(num_rows: int) -> None:
    array = _structs(num_rows)
    stored = _stored(array)
    assert isinstance(stored.page.layout, FullZipLayout)
    spec = stored.page.layout.value_compression
    assert isinstance(spec, VariablePackedStruct)
    assert [field.bits_per_value for field in spec.fields] == [None, 32, 32, None]
    assert [field.bits_per_length for field in spec.fields] == [32, None, None, 64]
    assert isinstance(spec.fields[2].value, FixedSizeList)
    assert isinstance(spec.fields[0].value, Fsst if num_rows == 5000 else Variable)
    found, _ = read_page(stored, (array.type,), RowRanges.one(0, num_rows))
    found.validate(full=True)
    assert found.equals(array)


def test_some_rows_need_some_bytes() -> None:
    array = _structs(5000)
    rows = np.array([0, 7, 8, 4999])
    found, num_bytes = read_page(_stored(array), (array.type,), RowRanges.of_rows(rows))
    assert found.equals(array.take(pa.array(rows)))
    assert num_bytes < 500


def test_null_structs_in_lists() -> None:
    kind = pa.list_(pa.struct([("a", pa.string()), ("b", pa.int8())]))
    rows = [[{"a": "x", "b": 1}, None], None, [], [None, {"a": "", "b": 2}]]
    array = pa.array(rows, kind)
    found, _ = read_page(_stored(array), (kind, kind.value_type), RowRanges.one(0, 4))
    assert found.to_pylist() == rows


@pytest.mark.parametrize(
    ("spec", "row", "message"),
    [
        (PAIR, "01000000 02000000 78", "longer than what is left"),
        (PAIR, "01000000 0200", "longer than what is left"),
        (PAIR, "01000000 FFFFFFFF 7879", "longer than what is left"),
        (PAIR, "01000000 00000000 78", "longer than its members"),
        (VariablePackedStruct(()), "01", "longer than its members"),
        (VariablePackedStruct((PackedField(Flat(1), bits_per_value=1),)), "01", "1 bits"),
        (VariablePackedStruct((PackedField(Flat(8), bits_per_value=0),)), "01", "0 bits"),
        (VariablePackedStruct((PackedField(Flat(8), bits_per_length=16),)), "01", "16 bits"),
        (VariablePackedStruct((PackedField(Flat(8)),)), "01", "lengths of 0 bits"),
        (VariablePackedStruct((PackedField(Flat(16), bits_per_value=8),)), "01", "8 bits"),
        (
            VariablePackedStruct((PackedField(Variable(Flat(64)), bits_per_length=64),)),
            "FFFFFFFFFFFFFFFF",
            "longer than what is left",
        ),
    ],
)
def test_damage(spec: VariablePackedStruct, row: str, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        _decode(spec, _rows(row))


def test_fixed_width_rows() -> None:
    with pytest.raises(CorruptFileError, match="fixed-width"):
        default_registry().decode_values(PAIR, FixedWidthBlock(8, 1, as_bytes(b"x")))
