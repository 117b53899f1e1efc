"""Whole tables to and from one data file, without a dataset around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from alance.encodings.assemble import LeafCounts, leaf_to_arrow, zip_leaves
from alance.encodings.compressive import default_registry
from alance.encodings.rows import RowRanges
from alance.encodings.spec import Layout
from alance.encodings.wire import parse_page_layout
from alance.errors import CorruptFileError
from alance.file.columns import run_steps
from alance.file.metadata import PageInfo
from alance.file.reader import FileReader
from alance.file.schema import Schema
from alance.file.writer import FileWriter, WrittenFile
from alance.io.client import StoreClients
from alance.io.store import ObjectStore
from alance.limits import Limits
from alance.testing.pages import leaf_paths
from alance.types import FileVersion

__all__ = [
    "PATH",
    "at_once",
    "layout_of",
    "make_writer",
    "open_reader",
    "read_column",
    "read_table",
    "write_table",
]

PATH = "data/file.lance"
T = TypeVar("T")


def at_once(work: Callable[[], T]) -> Awaitable[T]:
    """Run CPU work on the event loop."""

    async def run() -> T:
        return work()

    return run()


def make_writer(store: ObjectStore, schema: pa.Schema) -> FileWriter:
    return FileWriter(store, PATH, Schema.from_arrow(schema), FileVersion.V2_1, at_once)


def layout_of(page: PageInfo) -> Layout:
    """Layout of a page that has it at hand, as all written here and by the reference have."""
    assert isinstance(page.layout, bytes)
    return parse_page_layout(page.layout)


async def write_table(
    store: ObjectStore, table: pa.Table, *, max_chunksize: int | None = None
) -> WrittenFile:
    """Write a table as one file, at `PATH`."""
    writer = make_writer(store, table.schema)
    for batch in table.to_batches(max_chunksize=max_chunksize):
        await writer.write(batch)
    return await writer.finish()


async def open_reader(
    store: ObjectStore, file_size: int | None, *, num_wanted: int | None = None
) -> FileReader:
    """Open the file at `PATH`, with caches and limits of its own."""
    client = StoreClients(Limits()).wrap(store)
    return await FileReader.open(client, PATH, file_size, default_registry(), num_wanted=num_wanted)


async def read_column(
    reader: FileReader, index: int, rows: RowRanges | None, chain: tuple[pa.DataType, ...]
) -> pa.Array:
    """Read rows of one column, all by default."""
    column = await reader.column(index)
    wanted = RowRanges.one(0, column.num_rows) if rows is None else rows
    decodes, _ = await run_steps(column.plan(wanted), reader)
    parts = [leaf_to_arrow(decode.run(), chain) for decode in decodes]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, chain[0])


async def read_table(
    reader: FileReader, schema: pa.Schema, rows: list[int] | None = None
) -> pa.Table:
    """Read rows of all fields of a file that has these columns, in ascending order."""
    index, arrays = 0, []
    stored_rows = (await reader.column(0)).num_rows if len(schema) else 0
    wanted = None if rows is None else RowRanges.of_rows(np.array(rows, np.int64))
    for field in schema:
        leaves = []
        for path in leaf_paths(field.type):
            if (await reader.column(index)).num_rows != stored_rows:
                raise CorruptFileError(f"column {index} has not the {stored_rows} rows of column 0")
            leaves.append(await read_column(reader, index, wanted, path.chain))
            index += 1
        num_rows = len(leaves[0])
        arrays.append(zip_leaves(field.type, leaves, LeafCounts(field.type), num_rows))
    return pa.Table.from_arrays(arrays, schema=schema)
