"""Datasets with a history of appends, deletions and changed columns, in both directions."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.testing.arrays import Content, random_table
from alance.testing.asserts import assert_same_table
from tests.dataset.samples import FEW, SCHEMAS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONTENT = Content(nulls=0.2, text="few", narrow=True)
NESTED = pa.schema([
    pa.field("id", pa.int64()),
    pa.field(
        "s",
        pa.struct([
            ("x", pa.float64()),
            ("t", pa.struct([("y", pa.string()), ("z", pa.list_(pa.int16()))])),
            ("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ]),
    ),
    pa.field("with space", pa.int32()),
    pa.field("list", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.bool_())]))),
])


def numbered(num_rows: int, seed: int = 0) -> pa.Table:
    """Random rows with an `id` that counts."""
    return random_table(NESTED, num_rows, seed, CONTENT).set_column(
        0, NESTED.field("id"), pa.array(range(num_rows), pa.int64())
    )


async def both(table: pa.Table, tmp_path: Path, rows_per_file: int = 400) -> list[Path]:
    """The same rows in several fragments, written here and there."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    await alance.write_dataset(table, ours, max_rows_per_file=rows_per_file)
    lance.write_dataset(table, theirs, max_rows_per_file=rows_per_file, data_storage_version="2.1")
    return [ours, theirs]


COLUMNS = (
    ["id"],
    ["s"],
    ["s.x"],
    ["s.t.y", "s.t.z"],
    ["s.l", "id", "s.t"],
    ["with space", "list"],
)


@pytest.mark.parametrize("columns", COLUMNS, ids=",".join)
async def test_projections_are_those_of_the_reference(columns: list[str], tmp_path: Path) -> None:
    rows = [999, 3, 3, 401, 400]
    for path in await both(numbered(1000), tmp_path):
        ours, theirs = await alance.open_dataset(path), lance.dataset(path)
        expected = theirs.to_table(columns=columns)
        assert_same_table(await ours.to_table(columns), expected)
        assert_same_table(await ours.take(rows, columns), expected, rows)


@pytest.mark.parametrize(
    "predicate",
    [
        "id >= 390 and id < 410",
        "s.x is null",
        "s.t.y in ('', 'ka') or id = 7",
        "`with space` between 10 and 20 and not s.x > 0",
        "id < 0",
    ],
)
async def test_filters_give_the_rows_of_the_reference(predicate: str, tmp_path: Path) -> None:
    for path in await both(numbered(1000), tmp_path):
        ours, theirs = await alance.open_dataset(path), lance.dataset(path)
        expected = theirs.to_table(filter=predicate)
        assert_same_table(await ours.to_table(filter=predicate), expected)
        assert await ours.count_rows(predicate) == expected.num_rows
        found = await ours.to_table(["list"], filter=predicate, offset=3, limit=9)
        assert_same_table(found, expected.select(["list"]).slice(3, 9))


async def test_appends_may_order_columns_anew_and_leave_nullable_ones_out(tmp_path: Path) -> None:
    first, second = random_table(FEW, 300, 1, CONTENT), random_table(FEW, 200, 2, CONTENT)
    reordered = second.select(FEW.names[::-1])
    partial = second.select(["required", "texts"])
    filled = pa.Table.from_arrays(
        [
            partial[field.name] if field.name in partial.column_names else pa.nulls(200, field.type)
            for field in FEW
        ],
        schema=FEW,
    )
    expected = pa.concat_tables([first, second, filled])
    for path in await both(first, tmp_path, 150):
        ours = await alance.open_dataset(path)
        ours = await (await ours.append(reordered)).append(partial)
        assert_same_table(await ours.to_table(), expected)
        assert_same_table(lance.dataset(path).to_table(), expected)
        rows = [650, 0, 301, 149, 150, 650]
        assert_same_table(await ours.take(rows), expected, rows)
        assert_same_table(lance.dataset(path).take(rows), expected, rows)


async def test_appends_of_the_reference_are_read(tmp_path: Path) -> None:
    first, second = random_table(FEW, 300, 1, CONTENT), random_table(FEW, 200, 2, CONTENT)
    for path in await both(first, tmp_path):
        lance.write_dataset(second.select(FEW.names[::-1]), path, mode="append")
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), pa.concat_tables([first, second]))


@pytest.mark.parametrize(
    ("predicate", "suffix"), [("id % 97 = 5", ".arrow"), ("id % 3 > 0 or id > 9000", ".bin")]
)
async def test_deleted_rows_are_gone(predicate: str, suffix: str, tmp_path: Path) -> None:
    for path in await both(numbered(20_000), tmp_path, 8000):
        theirs = lance.dataset(path)
        theirs.delete(predicate)
        assert suffix in {file.suffix for file in (path / "_deletions").iterdir()}
        expected = theirs.to_table(with_row_id=True)
        ours = await alance.open_dataset(path)
        assert await ours.count_rows() == expected.num_rows < 20_000
        assert_same_table(await ours.to_table(with_row_id=True), expected)
        addressed = await ours.to_table(["id"], with_row_address=True)
        assert addressed["_rowaddr"].equals(expected["_rowid"])
        plain = expected.drop_columns(["_rowid"])
        rows = np.random.default_rng(1).integers(0, len(plain), 50)
        assert_same_table(await ours.take(rows), plain, rows)
        assert_same_table(await ours.to_table(offset=77, limit=900), plain.slice(77, 900))
        filtered = theirs.to_table(filter="id % 5 = 1")
        assert_same_table(await ours.to_table(filter="id % 5 = 1"), filtered)
        assert await ours.count_rows("id % 5 = 1") == filtered.num_rows
        batches = [batch async for batch in ours.scan(batch_size=333)]
        assert_same_table(pa.Table.from_batches(batches), plain)


async def test_a_fragment_without_live_rows_is_passed_over(tmp_path: Path) -> None:
    for path in await both(numbered(1200), tmp_path):
        theirs = lance.dataset(path)
        theirs.delete("id >= 400 and id < 800")
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), theirs.to_table())
        assert (await ours.take([400], ["id"]))["id"].to_pylist() == [800]


async def test_changed_columns_are_read_as_the_reference_reads_them(tmp_path: Path) -> None:
    for path in await both(numbered(1000), tmp_path):
        theirs = lance.dataset(path)
        theirs.add_columns({"double": "id * 2"})
        theirs.drop_columns(["with space"])
        theirs.alter_columns({"path": "s", "name": "renamed"}, {"path": "id", "nullable": True})
        theirs.alter_columns({"path": "double", "data_type": pa.int32()})
        theirs.drop_columns(["renamed.t"])
        theirs.add_columns(pa.field("later", pa.list_(pa.string())))
        lance.write_dataset(theirs.to_table(), path, mode="append")
        theirs = lance.dataset(path)
        ours = await alance.open_dataset(path)
        expected = theirs.to_table()
        assert_same_table(await ours.to_table(), expected)
        rows = [1999, 0, 999, 1000]
        assert_same_table(await ours.take(rows), expected, rows)
        old = await ours.checkout(1)
        assert_same_table(await old.to_table(), numbered(1000))


async def test_updated_and_compacted_rows_are_read(tmp_path: Path) -> None:
    for path in await both(numbered(1000), tmp_path):
        theirs = lance.dataset(path)
        theirs.update({"with space": "5"}, where="id % 10 = 3")
        theirs.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
            numbered(30, seed=9)
        )
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), lance.dataset(path).to_table())
        lance.dataset(path).optimize.compact_files()
        ours = await ours.latest()
        assert_same_table(await ours.to_table(), lance.dataset(path).to_table())


@pytest.mark.parametrize("name", SCHEMAS)
async def test_files_of_version_2_2_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """Never read wrongly: one dataset for each column."""
    table = random_table(SCHEMAS[name], 500, 4, CONTENT)
    read = 0
    for i, field in enumerate(table.schema):
        path = tmp_path / str(i)
        lance.write_dataset(table.select([field.name]), path, data_storage_version="2.2")
        try:
            found = await (await alance.open_dataset(path)).to_table()
        except alance.UnsupportedFeatureError:
            continue
        assert_same_table(found, table.select([field.name]))
        read += 1
    assert read > 0
