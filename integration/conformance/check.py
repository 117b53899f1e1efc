"""Both directions of one case: written by one library, read in every way by the other."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import alance
from alance.file import gathering
from alance.testing.asserts import assert_same_table
from alance.testing.observe import observe
from integration.conformance.matrix import Case
from integration.conformance.quirks import not_read, not_written

__all__ = ["check_case"]

PAGES_MIN = 4


def _row_sets(num_rows: int) -> list[npt.NDArray[np.int64]]:
    """Rows to take: scattered with duplicates, the same in order, neighbours, the last."""
    if num_rows == 0:
        return []
    scattered = np.random.default_rng(num_rows).integers(0, num_rows, min(num_rows, 20))
    scattered = np.append(scattered, scattered[:3])
    return [
        scattered,
        np.sort(scattered),
        np.arange(num_rows // 3, num_rows)[:30],
        np.array([num_rows - 1]),
    ]


def _windows(num_rows: int) -> list[tuple[int, int]]:
    """Offsets and limits: a third out of the middle, odd ends, one row across a chunk's edge."""
    return [
        (num_rows // 3, num_rows // 3),
        (1, max(num_rows - 2, 0)),
        (min(1023, num_rows), min(2, max(num_rows - 1023, 0))),
    ]


def _projections(table: pa.Table) -> list[list[str]]:
    names = table.column_names
    found = [names[::-1], *([name] for name in names)] if len(names) > 1 else []
    kind = table.schema.field("c").type
    if pa.types.is_struct(kind):
        found.append([f"c.{kind.field(0).name}"])
    return found


def _page_bytes(case: Case, table: pa.Table) -> int:
    """What a column may gather, so that the one of interest gets several pages."""
    assert case.in_pages
    num_bytes: int = table["c"].nbytes
    return max(num_bytes // PAGES_MIN, 512)


async def _write_here(case: Case, table: pa.Table, path: Path) -> None:
    """Write it with this library."""
    page_bytes = _page_bytes(case, table) if case.in_pages else gathering.PAGE_BYTES
    with mock.patch.object(gathering, "PAGE_BYTES", page_bytes):
        await alance.write_dataset(table, path, data_storage_version=case.version)


def _write_there(case: Case, table: pa.Table, path: Path) -> None:
    """Write it with the reference implementation."""
    cache = _page_bytes(case, table) * table.num_columns if case.in_pages else None
    lance.write_dataset(table, path, data_storage_version=case.version, data_cache_bytes=cache)


async def _check_here(path: Path, table: pa.Table) -> None:
    """This library reads these rows, in every way."""
    ours = await alance.open_dataset(path)
    assert await ours.count_rows() == table.num_rows
    assert_same_table(await ours.to_table(), table)
    for rows in _row_sets(table.num_rows):
        assert_same_table(await ours.take(rows), table, rows)
    for offset, limit in _windows(table.num_rows):
        found = await ours.to_table(offset=offset, limit=limit)
        assert_same_table(found, table.slice(offset, limit))
    size = table.num_rows // 3 + 1
    batches = [batch async for batch in ours.scan(batch_size=size)]
    assert all(batch.num_rows == size for batch in batches[:-1])
    assert_same_table(pa.Table.from_batches(batches, ours.schema), table)
    for columns in _projections(table):
        expected = _project(table, columns)
        assert_same_table(await ours.to_table(columns), expected)
        for rows in _row_sets(table.num_rows)[:1]:
            assert_same_table(await ours.take(rows, columns), expected, rows)


def _check_there(case: Case, path: Path, table: pa.Table) -> None:
    """So does the reference implementation."""
    theirs = lance.dataset(path)
    assert theirs.count_rows() == table.num_rows
    if case.is_blob:
        _check_blobs_there(theirs, table)
        return
    assert_same_table(theirs.to_table(), table)
    for rows in _row_sets(table.num_rows):
        with _refused(not_read(case, table, rows)):
            assert_same_table(_with_metadata(theirs.take(rows), table.schema), table, rows)
    for offset, limit in _windows(table.num_rows):
        expected = table.slice(offset, limit)
        with _refused(not_read(case, table, np.arange(offset, offset + limit))):
            assert_same_table(theirs.to_table(offset=offset, limit=limit), expected)
    for columns in _projections(table):
        assert_same_table(theirs.to_table(columns=columns), _project(table, columns))


def _check_blobs_there(theirs: lance.LanceDataset, table: pa.Table) -> None:
    """Its own ways to read values that lie apart from their column."""
    found = theirs.to_table(blob_handling="all_binary")
    assert_same_table(_with_metadata(found, table.schema), table)
    assert theirs.to_table().num_rows == table.num_rows, "descriptions"
    for rows in _row_sets(table.num_rows):
        files = theirs.take_blobs("c", indices=rows.tolist())
        found = [None if file is None else file.read() for file in files]
        assert found == table["c"].take(rows).to_pylist()


def _refused(complaint: str | None) -> AbstractContextManager[object]:
    """Expect the reference implementation to fail like this; also when it panics."""
    return nullcontext() if complaint is None else pytest.raises(BaseException, match=complaint)


def _project(table: pa.Table, columns: list[str]) -> pa.Table:
    """Columns of a table; of a member of a struct, that member with the struct's nulls."""
    arrays, fields = [], []
    for name in columns:
        if "." not in name:
            arrays.append(table[name])
            fields.append(table.schema.field(name))
            continue
        parent, _, member = name.partition(".")
        kind = table.schema.field(parent).type
        chunks = [chunk.flatten()[kind.get_field_index(member)] for chunk in table[parent].chunks]
        field = kind.field(member)
        if table.schema.field(parent).nullable:
            field = field.with_nullable(True)
        arrays.append(pa.chunked_array(chunks, field.type))
        fields.append(field.with_name(name))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _with_metadata(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """The reference loses metadata of fields in takes out of order, and of blobs."""
    return pa.Table.from_arrays(found.columns, schema=schema) if found.schema == schema else found


async def check_case(case: Case, folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Write a case with both libraries and read both files with both.

    Returns
    -------
    here, there
        What layouts and encodings this library and the reference implementation wrote.
    """
    table, here, there = case.table(), folder / "here", folder / "there"
    await _write_here(case, table, here)
    await _check_here(here, table)
    _check_there(case, here, table)
    complaint = not_written(case, table)
    with _refused(complaint):
        _write_there(case, table, there)
    if complaint:
        return observe(here), frozenset()
    _check_there(case, there, table)
    await _check_here(there, table)
    return observe(here), observe(there)
