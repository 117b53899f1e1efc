"""Whatever can be stored is read again: by scans, takes and projections, here and elsewhere."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.testing.asserts import assert_same_table
from alance.testing.strategies import row_lists, tables

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FILE_ROWS = st.sampled_from((1_048_576, 600, 100))


def versioned(*, sliced: bool = True) -> st.SearchStrategy[tuple[str, pa.Table]]:
    """A file version, and a table that it stores."""
    older = st.tuples(st.just("2.1"), tables(sliced=sliced))
    return older | st.tuples(st.just("2.2"), tables(sliced=sliced, maps=True))


async def check_reads(ours: alance.Dataset, table: pa.Table, data: st.DataObject) -> None:
    """All rows, some rows, and windows of rows are those of the table."""
    assert await ours.count_rows() == table.num_rows
    assert_same_table(await ours.to_table(), table)
    rows = data.draw(row_lists(table.num_rows), "rows")
    assert_same_table(await ours.take(rows), table, rows)
    offset = data.draw(st.integers(0, table.num_rows), "offset")
    limit = data.draw(st.integers(0, table.num_rows), "limit")
    found = await ours.to_table(offset=offset, limit=limit)
    assert_same_table(found, table.slice(offset, limit))
    size = data.draw(st.integers(1, max(table.num_rows, 1)), "batch_size")
    batches = [batch async for batch in ours.scan(batch_size=size)]
    assert all(batch.num_rows == size for batch in batches[:-1])
    assert_same_table(pa.Table.from_batches(batches, ours.schema), table)


@given(versioned=versioned(), file_rows=FILE_ROWS, data=st.data())
async def test_written_rows_are_read(
    versioned: tuple[str, pa.Table], file_rows: int, data: st.DataObject
) -> None:
    version, table = versioned
    session = alance.Session()
    ours = await alance.write_dataset(
        table,
        "memory://d",
        max_rows_per_file=file_rows,
        data_storage_version=version,
        session=session,
    )
    await check_reads(ours, table, data)
    reopened = await alance.open_dataset("memory://d", session=session)
    assert_same_table(await reopened.to_table(), table)


@given(table=tables(max_length=200), parts=st.lists(st.integers(0, 600), max_size=3))
async def test_appended_rows_follow(table: pa.Table, parts: list[int]) -> None:
    cuts = [0, *sorted(min(part, table.num_rows) for part in parts), table.num_rows]
    session, ours = alance.Session(), None
    for start, stop in pairwise(cuts):
        piece = table.slice(start, stop - start)
        ours = await alance.write_dataset(piece, "memory://d", mode="append", session=session)
    assert ours is not None
    assert ours.version == len(cuts) - 1
    assert_same_table(await ours.to_table(), table)


@given(table=tables(max_columns=3), data=st.data())
async def test_columns_may_be_read_alone(table: pa.Table, data: st.DataObject) -> None:
    ours = await alance.write_dataset(table, "memory://d", session=alance.Session())
    names = data.draw(st.permutations(table.column_names), "columns")
    chosen = names[: data.draw(st.integers(1, len(names)), "number")]
    found = await ours.to_table(chosen)
    assert_same_table(found, table.select(chosen))
    for name in table.column_names:
        kind = table.schema.field(name).type
        if pa.types.is_struct(kind):
            member = f"{name}.{kind.field(0).name}"
            alone = await ours.to_table([member])
            whole = (await ours.to_table([name]))[name]
            assert_same_table(alone, pa.table({member: pc.struct_field(whole, [0])}))


@given(versioned=versioned(), file_rows=FILE_ROWS, data=st.data())
def test_the_reference_reads_what_is_written(
    versioned: tuple[str, pa.Table],
    file_rows: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    version, table = versioned
    path = tmp_path_factory.mktemp("d")
    alance.sync.write_dataset(
        table, path, max_rows_per_file=file_rows, data_storage_version=version
    )
    theirs = lance.dataset(path)
    assert_same_table(theirs.to_table(), table)
    rows = data.draw(row_lists(table.num_rows), "rows")
    if rows:
        assert_same_table(theirs.take(rows), table, rows)


@given(versioned=versioned(sliced=False), file_rows=FILE_ROWS, data=st.data())
async def test_what_the_reference_writes_is_read(
    versioned: tuple[str, pa.Table],
    file_rows: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    version, table = versioned
    path: Path = tmp_path_factory.mktemp("d")
    lance.write_dataset(table, path, max_rows_per_file=file_rows, data_storage_version=version)
    await check_reads(await alance.open_dataset(path), table, data)
