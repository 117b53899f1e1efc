"""Dictionaries, views and extension types, alone and nested, in both versions and directions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.testing.asserts import assert_same_table

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NUM_ROWS = 60
CODES = np.arange(NUM_ROWS) % 5
NULLS = CODES % 7 == 0
INDICES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
ITEMS: dict[pa.DataType, list[object]] = {
    pa.string(): ["a", None, "", "long" * 100, "e"],
    pa.large_string(): ["a", "b", None, "d", "e"],
    pa.binary(): [b"a", b"b", None, b"d", b""],
    pa.large_binary(): [b"a", b"b", None, b"d", b""],
    pa.bool_(): [True, False, True, None, False],
    pa.int8(): [1, 2, None, 4, 5],
    pa.uint64(): [1, 2**64 - 1, None, 4, 5],
    pa.float16(): [np.float16(1), np.float16(2), np.float16(3), None, np.float16(-0.0)],
    pa.float32(): [1.5, 2.5, float("inf"), None, 0.0],
    pa.float64(): [1.5, 2.5, float("inf"), None, 0.0],
}


def dictionary(index: pa.DataType, items: pa.DataType) -> pa.Array:
    codes = pa.array(CODES, index, mask=NULLS)
    return pa.DictionaryArray.from_arrays(codes, pa.array(ITEMS[items], items))


def extension(kind: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


def uuids() -> pa.Array:
    values = [uuid.UUID(int=i).bytes if i % 3 else None for i in range(NUM_ROWS)]
    return pa.array(values, pa.binary(16))


VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(NUM_ROWS * 6, dtype=np.float32)), 6)
COLUMNS: dict[str, pa.Array] = {
    **{f"{index} to string": dictionary(index, pa.string()) for index in INDICES},
    **{f"int16 to {items}": dictionary(pa.int16(), items) for items in ITEMS},
    "uuid": extension(pa.uuid(), uuids()),
    "bool8": extension(pa.bool8(), pa.array((CODES % 2).astype(np.int8), mask=NULLS)),
    "tensor": extension(pa.fixed_shape_tensor(pa.float32(), [2, 3]), VECTORS),
    "opaque": extension(pa.opaque(pa.binary(), "t", "v"), pa.array([b"%d" % i for i in CODES])),
    "one uuid": extension(pa.uuid(), pa.array([b"0123456789abcdef"] * NUM_ROWS, pa.binary(16))),
}
OFFSETS = pa.array(range(0, NUM_ROWS + 1, 3), pa.int32())
NESTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "alone": lambda array: array,
    "list": lambda array: pa.ListArray.from_arrays(OFFSETS, array),
    "struct": lambda array: pa.StructArray.from_arrays(
        [array, pa.array(CODES)], ["m", "n"], mask=pa.array(CODES == 3)
    ),
    "map": lambda array: pa.MapArray.from_arrays(OFFSETS, pa.array(CODES).cast("string"), array),
}


BOTH_VERSIONS = [(nest, version) for nest in NESTS for version in ("2.1", "2.2")]


@pytest.mark.parametrize(
    ("nest", "version"), [case for case in BOTH_VERSIONS if case != ("map", "2.1")]
)
async def test_both_ways(nest: str, version: str, tmp_path: Path) -> None:
    table = pa.table({name: NESTS[nest](array) for name, array in COLUMNS.items()})
    rows = [len(table) - 1, 0, 3, 3]
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=version)
    theirs = lance.dataset(tmp_path / "theirs").to_table()
    ours = await alance.open_dataset(tmp_path / "theirs")
    assert ours.schema == theirs.schema
    assert_same_table(await ours.to_table(), theirs)
    assert_same_table(await ours.take(rows), theirs, rows)
    await alance.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    assert_same_table(lance.dataset(tmp_path / "ours").to_table(), theirs)
    ours = await alance.open_dataset(tmp_path / "ours")
    assert ours.schema == table.schema
    assert_same_table(await ours.to_table(), theirs)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_dictionaries_that_change_from_page_to_page(version: str, tmp_path: Path) -> None:
    words = [[f"{letter}{i}" for i in range(40)] for letter in "abcd"]
    codes = np.arange(3_000_000) % 37
    batches = [
        pa.record_batch({"c": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), items)})
        for items in words
    ]
    table = pa.Table.from_batches(batches)
    assert batches[0].nbytes > 8 << 20, "a page of its own"
    await alance.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=version)
    rows = [0, 2_999_999, 3_000_000, 11_999_999]
    expected = table["c"].cast(pa.string()).take(pa.array(rows))
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        assert lance.dataset(path).take(rows)["c"].cast(pa.string()).equals(expected)
        found = await (await alance.open_dataset(path)).take(rows)
        assert found["c"].cast(pa.string()).equals(expected)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_bfloat16_is_kept_through_metadata(version: str, tmp_path: Path) -> None:
    """Where its type is not registered, it is bytes with the name of the extension."""
    marks = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    item = pa.field("item", pa.binary(2), metadata=marks)
    schema = pa.schema([pa.field("x", pa.binary(2), metadata=marks), ("v", pa.list_(item, 4))])
    values = pa.array([b"%02d" % i for i in CODES], pa.binary(2))
    lists = pa.FixedSizeListArray.from_arrays(values, type=schema.field("v").type)
    table = pa.Table.from_arrays([values[: len(lists)], lists], schema=schema)
    await alance.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=version)
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        found = await (await alance.open_dataset(path)).to_table()
        assert found.schema.equals(schema, check_metadata=True)
        assert_same_table(found, table)
        assert_same_table(lance.dataset(path).to_table(), table)
