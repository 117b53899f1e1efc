"""Every type, written here and read by the reference implementation, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.dataset.projection import Projection
from alance.file.schema import Schema
from alance.testing.arrays import Content, random_table
from alance.testing.asserts import assert_same_table
from tests.dataset.samples import FEW, PAIR, SCHEMAS, SCHEMAS_2_2, STRUCT_LISTS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONTENTS = {
    "no nulls": Content(nulls=0.0, narrow=True),
    "some nulls": Content(nulls=0.3, text="few"),
    "all null": Content(nulls=1.0),
    "long": Content(nulls=0.1, text="long", list_items=3),
    "skewed": Content(nulls=0.1, text="skewed"),
    "empty lists": Content(nulls=0.1, list_items=0),
}


def row_sets(num_rows: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Rows to take: scattered with duplicates, the same in order, neighbours, the last."""
    if num_rows == 0:
        return []
    scattered = np.random.default_rng(num_rows).integers(0, num_rows, min(num_rows, 20))
    start = num_rows // 3
    return [
        scattered,
        np.unique(scattered),
        np.arange(start, num_rows)[:30],
        np.array([num_rows - 1]),
    ]


@pytest.fixture(params=["2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    """File version that both sides write."""
    return str(request.param)


async def write_here(table: pa.Table, path: Path, version: str) -> lance.LanceDataset:
    await alance.write_dataset(table, path, data_storage_version=version)
    return lance.dataset(path)


async def write_there(table: pa.Table, path: Path, version: str) -> alance.Dataset:
    lance.write_dataset(table, path, data_storage_version=version)
    return await alance.open_dataset(path)


def check_there(theirs: lance.LanceDataset, table: pa.Table) -> None:
    """The reference implementation reads these rows, in every way."""
    assert_same_table(theirs.to_table(), table)
    for rows in row_sets(table.num_rows):
        assert_same_table(theirs.take(rows), table, rows)
    third = table.num_rows // 3
    assert_same_table(theirs.to_table(offset=third, limit=third), table.slice(third, third))


async def check_here(ours: alance.Dataset, table: pa.Table) -> None:
    """So does this library."""
    assert_same_table(await ours.to_table(), table)
    for rows in row_sets(table.num_rows):
        assert_same_table(await ours.take(rows), table, rows)
    third = table.num_rows // 3
    found = await ours.to_table(offset=third, limit=third)
    assert_same_table(found, table.slice(third, third))
    size = third + 1
    batches = [batch async for batch in ours.scan(batch_size=size)]
    assert all(batch.num_rows == size for batch in batches[:-1])
    assert_same_table(pa.Table.from_batches(batches, ours.schema), table)


@pytest.mark.parametrize("num_rows", [0, 1, 200])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", SCHEMAS)
async def test_every_type_both_ways(
    name: str, content: str, num_rows: int, version: str, tmp_path: Path
) -> None:
    table = random_table(SCHEMAS[name], num_rows, 1, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours", version), table)
    await check_here(await write_there(table, tmp_path / "theirs", version), table)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", SCHEMAS_2_2)
async def test_types_of_file_version_2_2_both_ways(name: str, content: str, tmp_path: Path) -> None:
    table = random_table(SCHEMAS_2_2[name], 200, 1, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours", "2.2"), table)
    await check_here(await write_there(table, tmp_path / "theirs", "2.2"), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)


@pytest.mark.parametrize("num_rows", [1, 2000])
@pytest.mark.parametrize("content", ["no nulls", "some nulls", "all null"])
@pytest.mark.parametrize("kind", STRUCT_LISTS, ids=str)
async def test_fixed_size_lists_of_structs_both_ways(
    kind: pa.DataType, content: str, num_rows: int, tmp_path: Path
) -> None:
    """The reference reads them alone only, since their pages count more rows than there are."""
    table = random_table(pa.schema([pa.field("c", kind)]), num_rows, 1, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours", "2.2"), table)
    await check_here(await write_there(table, tmp_path / "theirs", "2.2"), table)
    beside = pa.StructArray.from_arrays([table["c"].combine_chunks()], ["c"])
    both = table.append_column("n", pa.array(range(num_rows))).append_column("s", beside)
    await write_here(both, tmp_path / "beside", "2.2")
    await check_here(await alance.open_dataset(tmp_path / "beside"), both)


@pytest.mark.parametrize("content", ["no nulls", "some nulls", "all null"])
async def test_lists_in_fixed_size_lists_of_structs(content: str, tmp_path: Path) -> None:
    """The reference writes them, but does not read them itself."""
    kind = pa.list_(pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.int8(), PAIR))]), 3)
    table = random_table(pa.schema([pa.field("c", kind)]), 500, 1, CONTENTS[content])
    await check_here(await write_there(table, tmp_path / "theirs", "2.2"), table)
    await write_here(table, tmp_path / "ours", "2.2")
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)


@pytest.mark.parametrize("content", ["no nulls", "some nulls", "all null"])
async def test_values_of_no_bytes_both_ways(content: str, tmp_path: Path) -> None:
    fields = [("c", pa.binary(0)), ("l", pa.list_(pa.struct([("v", pa.binary(0))])))]
    table = random_table(pa.schema(fields), 3000, 1, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours", "2.2"), table)
    await check_here(await write_there(table, tmp_path / "theirs", "2.2"), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)


async def test_values_of_no_bytes_have_no_place_in_older_files(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([b""], pa.binary(0))})
    with pytest.raises(alance.InvalidInputError, match=r"'c'.*data_storage_version='2\.2'"):
        await write_here(table, tmp_path / "ours", "2.1")
    lists = pa.table({"c": pa.array([[b"", b""]], pa.list_(pa.binary(0), 2))})
    with pytest.raises(alance.InvalidInputError, match="'c'"):
        await write_here(lists, tmp_path / "ours", "2.2")


def test_lists_of_fixed_size_lists_of_structs_are_not_read() -> None:
    schema = Schema.from_arrow(pa.schema([("c", pa.list_(pa.list_(PAIR, 3)))]))
    with pytest.raises(alance.UnsupportedFeatureError, match="'c"):
        Projection.of(schema)


@pytest.mark.parametrize("num_rows", [1023, 1024, 1025, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("content", ["no nulls", "some nulls"])
async def test_edges_of_chunks_both_ways(
    content: str, num_rows: int, version: str, tmp_path: Path
) -> None:
    table = random_table(FEW, num_rows, num_rows, CONTENTS[content])
    check_there(await write_here(table, tmp_path / "ours", version), table)
    await check_here(await write_there(table, tmp_path / "theirs", version), table)


EMPTIES = 70_000
"""More than the levels that one chunk may hold."""
SHAPES: dict[str, tuple[pa.DataType, Callable[[], list[object]]]] = {
    "empty lists": (pa.list_(pa.int32()), lambda: [[1], *[[]] * EMPTIES, [2, None]]),
    "null lists": (pa.list_(pa.string()), lambda: [*[None] * EMPTIES, ["a"], *[None] * EMPTIES]),
    "null lists of lists": (
        pa.list_(pa.list_(pa.bool_())),
        lambda: [[None, [True]], *[None, []] * (EMPTIES // 2), [[], [False]]],
    ),
    "a row of empty lists": (
        pa.list_(pa.list_(pa.bool_())),
        lambda: [[[True], *[[]] * EMPTIES, [False, None]], [[True]]],
    ),
    "a row of empty lists of strings": (
        pa.list_(pa.list_(pa.string())),
        lambda: [[["a"], *[None] * EMPTIES, ["b", None]], [["c"]]],
    ),
    "a long list": (pa.list_(pa.int64()), lambda: [[1], [*range(100_000)], [], None, [2]]),
    "a long list of strings": (pa.list_(pa.string()), lambda: [["a"], ["b", None] * 50_000, []]),
    "only empty lists": (pa.list_(pa.int8()), lambda: [[]] * EMPTIES),
    "runs": (pa.int32(), lambda: [n // 1000 for n in range(20_000)]),
    "one string": (pa.large_string(), lambda: ["same"] * 5000),
    "a megabyte": (pa.binary(), lambda: [b"a", None, b"\x00\xff" * 500_000, b""]),
    "empty strings": (pa.string(), lambda: [""] * 3000),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_extreme_shapes_both_ways(name: str, version: str, tmp_path: Path) -> None:
    kind, values = SHAPES[name]
    table = pa.table({"c": pa.array(values(), kind)})
    check_there(await write_here(table, tmp_path / "ours", version), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)
    await check_here(await write_there(table, tmp_path / "theirs", version), table)


async def test_columns_of_several_pages_both_ways(version: str, tmp_path: Path) -> None:
    """More than the 8 MiB that a page gathers, in chunks of several sizes."""
    num_rows = 90_000
    rng = np.random.default_rng(5)
    table = pa.table({
        "number": rng.integers(0, 2**63, num_rows),
        "text": pa.array([f"{n % 7919}-{n}" * (n % 37) for n in range(num_rows)]),
        "list": pa.array([[n] * (n % 30) for n in range(num_rows)], pa.list_(pa.int64())),
        "wide": pa.array([b"%0260d" % n for n in range(num_rows)], pa.binary(260)),
    })
    assert all(column.nbytes > 9 << 20 for column in table.columns[1:])
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 50_000), table.slice(50_007)])
    check_there(await write_here(chunked, tmp_path / "ours", version), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)
    await check_here(await write_there(chunked, tmp_path / "theirs", version), table)


@pytest.mark.parametrize(
    ("leaf", "wide"),
    [
        (pa.dictionary(pa.int32(), pa.string()), "x"),
        (pa.list_(pa.bool_(), 300_000), [True] * 300_000),
    ],
)
async def test_what_has_no_layout_is_refused(
    leaf: pa.DataType, wide: object, tmp_path: Path
) -> None:
    """Dictionary values and lists of bits fit mini-block chunks only, and these rows do not."""
    inner = pa.array([wide], leaf.value_type if pa.types.is_dictionary(leaf) else leaf)
    items = inner.dictionary_encode() if pa.types.is_dictionary(leaf) else inner
    lists = pa.ListArray.from_arrays([0, 1, *[1] * EMPTIES, 1], items)
    row = pa.ListArray.from_arrays([0, len(lists)], lists)
    table = pa.table({"c": row})  # one row: no page can be cut within it
    with pytest.raises(alance.UnsupportedFeatureError, match="mini-block chunk"):
        await alance.write_dataset(table, tmp_path / "ours")
    with pytest.raises(alance.DatasetNotFoundError):
        await alance.open_dataset(tmp_path / "ours")


@pytest.mark.parametrize("dimension", [2047, 2048, 2100, 131_072])
async def test_wide_lists_of_bits_are_read_by_the_reference(
    dimension: int, version: str, tmp_path: Path
) -> None:
    """It does not write them itself."""
    schema = pa.schema([pa.field("c", pa.list_(pa.bool_(), dimension))])
    table = random_table(schema, 5, 1, Content(nulls=0.0))
    check_there(await write_here(table, tmp_path / "ours", version), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)


async def test_views_and_extensions_are_stored_as_what_they_mean(
    version: str, tmp_path: Path
) -> None:
    strings = pa.array(["a", None, "long enough to lie outside of its view"])
    views = strings.cast(pa.string_view())
    table = pa.table({"s": views, "b": views.cast(pa.binary_view())})
    expected = pa.table({"s": strings, "b": strings.cast(pa.binary())})
    check_there(await write_here(table, tmp_path / "ours", version), expected)
    await check_here(await alance.open_dataset(tmp_path / "ours"), expected)


async def test_metadata_of_schema_and_fields_both_ways(version: str, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False, metadata={"unit": "m", "ü": "€"}),
            pa.field("s", pa.struct([pa.field("m", pa.string(), metadata={"k": "v"})])),
            pa.field("l", pa.list_(pa.field("element", pa.int8(), nullable=False))),
        ],
        metadata={"origin": "here", "empty": ""},
    )
    table = random_table(schema, 10, 3, Content(nulls=0.0))
    theirs = await write_here(table, tmp_path / "ours", version)
    assert theirs.schema.equals(schema, check_metadata=True)
    assert_same_table(theirs.to_table(), table)  # its takes out of order lose the metadata
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)
    ours = await write_there(table, tmp_path / "theirs", version)
    assert ours.schema.equals(schema, check_metadata=True)
    await check_here(ours, table)


async def test_extensions_beside_required_members_of_null_structs(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("x", pa.list_(pa.int32()), nullable=False)])
    kind = pa.struct([pa.field("id", pa.uuid()), pa.field("s", inner)])
    schema = pa.schema([pa.field("c", kind), pa.field("l", pa.list_(kind))])
    table = random_table(schema, 50, 5, Content(nulls=0.3))
    check_there(await write_here(table, tmp_path / "ours", "2.1"), table)
    await check_here(await alance.open_dataset(tmp_path / "ours"), table)
    await check_here(await write_there(table, tmp_path / "theirs", "2.1"), table)
