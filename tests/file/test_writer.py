"""Writing files: where pages are cut, what waits in memory, and where bytes are placed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TypeVar

import anyio
import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.spec import FullZipLayout, MiniBlockLayout
from alance.errors import InvalidInputError, StoreError
from alance.file.footer import ALIGNMENT, parse_footer, parse_offset_tables
from alance.file.gathering import PAGE_BYTES
from alance.file.metadata import PageInfo, parse_column_metadata
from alance.file.schema import Schema
from alance.file.writer import PENDING_BYTES_MAX, FileWriter
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.types import FileVersion
from tests.file.tables import (
    PATH,
    at_once,
    layout_of,
    make_writer,
    open_reader,
    read_table,
    write_table,
)

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(6)
MIB = 1 << 20
T = TypeVar("T")


def pages_of(store: SimulatedStore) -> list[tuple[PageInfo, ...]]:
    """Pages of every column of the file."""
    data = memoryview(store.objects[PATH])
    footer = parse_footer(data, len(data))
    columns = parse_offset_tables(footer, data).column_metadata
    parse = [(data[c.start : c.stop], len(data)) for c in columns]
    return [
        parse_column_metadata(each, limit=limit, version=footer.version).pages
        for each, limit in parse
    ]


def numbers(num_bytes: int) -> pa.Array:
    return pa.array(RNG.standard_normal(num_bytes // 8))


async def read_back(store: SimulatedStore, schema: pa.Schema) -> pa.Table:
    return await read_table(await open_reader(store, None), schema)


async def test_what_is_written_is_told() -> None:
    store = SimulatedStore()
    table = pa.table({"a": [1, 2, 3], "s": [{"x": 1.5, "y": "z"}] * 3})
    written = await write_table(store, table)
    assert (written.path, written.num_rows) == (PATH, 3)
    assert written.num_bytes == len(store.objects[PATH])
    assert written.field_ids == (0, 2, 3), "leaves only"
    assert (await read_back(store, table.schema)).equals(table)


async def test_pages_are_cut_at_8_mib() -> None:
    store = SimulatedStore()
    table = pa.table({"x": numbers(20 * MIB)})
    await write_table(store, table, max_chunksize=50_000)
    (pages,) = pages_of(store)
    raw = [page.num_rows * 8 for page in pages]
    assert all(PAGE_BYTES - 400_000 < each <= PAGE_BYTES for each in raw[:-1]), raw
    assert len(raw) == 3
    starts = np.cumsum([0, *(page.num_rows for page in pages)])
    assert [page.priority for page in pages] == starts[:-1].tolist()
    assert (await read_back(store, table.schema)).equals(table)


async def test_one_large_batch_is_cut_evenly() -> None:
    store = SimulatedStore()
    table = pa.table({"x": numbers(20 * MIB), "small": pa.nulls(20 * MIB // 8, pa.int8())})
    await write_table(store, table)
    large, small = pages_of(store)
    assert len(large) == 3
    assert max(p.num_rows for p in large) - min(p.num_rows for p in large) <= 3
    assert len(small) == 1
    assert (await read_back(store, table.schema)).equals(table)


async def test_rows_that_wait_go_before_a_large_batch() -> None:
    store = SimulatedStore()
    first, second = numbers(MIB), numbers(9 * MIB)
    writer = make_writer(store, pa.schema([("x", pa.float64())]))
    for array in (first, second):
        await writer.write(pa.record_batch({"x": array}))
    await writer.finish()
    (pages,) = pages_of(store)
    assert [page.num_rows * 8 for page in pages] == [MIB, 9 * MIB // 2, 9 * MIB // 2]
    found = await read_back(store, pa.schema([("x", pa.float64())]))
    assert found["x"].combine_chunks().equals(pa.concat_arrays([first, second]))


async def test_rows_of_more_than_half_a_page_do_not_wait() -> None:
    store = SimulatedStore()
    arrays = [numbers(size * MIB) for size in (5, 1, 5, 4)]
    writer = make_writer(store, pa.schema([("x", pa.float64())]))
    before = pa.total_allocated_bytes()
    for array in arrays:
        await writer.write(pa.record_batch({"x": array}))
    assert pa.total_allocated_bytes() - before < 5 * MIB, "only the last rows are copied"
    await writer.finish()
    (pages,) = pages_of(store)
    assert [page.num_rows * 8 for page in pages] == [5 * MIB, 6 * MIB, 4 * MIB]
    found = await read_back(store, pa.schema([("x", pa.float64())]))
    assert found["x"].combine_chunks().equals(pa.concat_arrays(arrays))


async def test_waiting_rows_of_many_columns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.file.writer.PENDING_BYTES_MAX", 4 * MIB)
    store = SimulatedStore()
    columns = {f"c{i}": numbers(64 * 1024) for i in range(40)}
    columns["wide"] = numbers(256 * 1024).cast(pa.float64()).slice(0, 8192)
    batch = pa.record_batch({name: array.slice(0, 8192) for name, array in columns.items()})
    writer = make_writer(store, batch.schema)
    largest = 0
    for _ in range(10):
        await writer.write(batch)
        waiting = writer.num_bytes - sum(map(len, store.objects.values()))
        largest = max(largest, waiting)
        pending = sum(column.pending_bytes for column in writer._columns)
        assert pending <= 4 * MIB
    await writer.finish()
    assert all(len(pages) > 1 for pages in pages_of(store)[:10])
    table = pa.Table.from_batches([batch] * 10)
    assert (await read_back(store, batch.schema)).equals(table.combine_chunks())
    assert PENDING_BYTES_MAX >= 4 * PAGE_BYTES


async def test_batches_are_not_kept_alive() -> None:
    writer = make_writer(SimulatedStore(), pa.schema([("x", pa.float64())]))
    before = pa.total_allocated_bytes()
    for _ in range(50):
        await writer.write(pa.record_batch({"x": numbers(8 * MIB).slice(0, 1000)}))
    assert pa.total_allocated_bytes() - before < 4 * MIB, "50 x 8 MiB if slices held their batch"


async def test_pages_of_nulls_become_one() -> None:
    store = SimulatedStore()
    nulls, some = pa.nulls(MIB, pa.float64()), numbers(8 * MIB)
    table = pa.table({"x": pa.chunked_array([nulls, nulls, some, nulls, nulls, nulls])})
    await write_table(store, table)
    (pages,) = pages_of(store)
    counts = [page.num_rows for page in pages]
    assert counts == [2 * MIB, MIB, 3 * MIB]
    assert [page.priority for page in pages] == [0, 2 * MIB, 3 * MIB]
    assert (await read_back(store, table.schema)).equals(table.combine_chunks())


async def test_every_buffer_is_aligned() -> None:
    store = SimulatedStore()
    table = pa.table({
        "a": range(777),
        "b": [f"{i}" * (i % 7) for i in range(777)],
        "c": [[i] * (i % 3) for i in range(777)],
        "d": [b"x" * 300] * 777,
    })
    await write_table(store, table)
    pages = [page for column in pages_of(store) for page in column]
    buffers = [buffer for page in pages for buffer in page.buffers]
    assert all(buffer.start % ALIGNMENT == 0 for buffer in buffers)
    ordered = sorted(buffers, key=lambda buffer: buffer.start)
    assert all(a.stop <= b.start for a, b in pairwise(ordered))


async def test_search_buffers_lie_behind_all_data() -> None:
    store = SimulatedStore()
    table = pa.table({
        "numbers": np.arange(9 * MIB // 8),
        "colours": pa.array(["red", "green", "blue"] * (9 * MIB // 24)),
    })
    await write_table(store, table.slice(0, 9 * MIB // 8), max_chunksize=100_000)
    data, search = [], []
    for page in (page for column in pages_of(store) for page in column):
        layout = layout_of(page)
        assert isinstance(layout, MiniBlockLayout)
        metadata, values, *dictionary = page.buffers
        data.append(values)
        search += [metadata, *dictionary]
    assert max(each.stop for each in data) <= min(each.start for each in search)
    assert len(data) > 2


async def test_indices_of_wide_values_lie_behind_all_data() -> None:
    store = SimulatedStore()
    table = pa.table({"x": [RNG.bytes(300) for _ in range(1000)], "y": range(1000)})
    await write_table(store, table)
    (wide,), (narrow,) = pages_of(store)
    assert isinstance(layout_of(wide), FullZipLayout)
    assert wide.buffers[1].start >= max(wide.buffers[0].stop, narrow.buffers[1].stop)


async def test_dictionaries_that_differ_from_batch_to_batch() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("x", kind)])
    batches = []
    for start in range(0, 400, 100):
        items = pa.array([f"item {i}" for i in range(start, start + 100)])
        codes = pa.array(np.arange(100, dtype=np.int8))
        array = pa.DictionaryArray.from_arrays(codes, items)
        batches.append(pa.record_batch([array], schema=schema))
    store = SimulatedStore()
    writer = make_writer(store, schema)
    for batch in batches:
        await writer.write(batch)
    await writer.finish()
    reader = await open_reader(store, None)
    column = await reader.column(0)
    assert column.num_rows == 400
    for i, batch in enumerate(batches):
        rows = list(range(i * 100, i * 100 + 100))
        found = await read_table(reader, schema, rows)
        assert found["x"].to_pylist() == batch.column(0).to_pylist()


async def test_no_rows() -> None:
    store = SimulatedStore()
    writer = make_writer(store, pa.schema([("x", pa.int8()), ("y", pa.list_(pa.string()))]))
    await writer.write(
        pa.record_batch({"x": pa.array([], pa.int8()), "y": pa.array([], pa.list_(pa.string()))})
    )
    written = await writer.finish()
    assert (written.num_rows, written.field_ids) == (0, (0, 2))
    assert pages_of(store) == [(), ()]


async def test_no_columns() -> None:
    store = SimulatedStore()
    written = await make_writer(store, pa.schema([])).finish()
    assert (written.num_rows, written.field_ids) == (0, ())
    assert (await open_reader(store, written.num_bytes)).num_columns == 0


async def test_nothing_is_sent_before_a_page_is_full() -> None:
    store = SimulatedStore()
    writer = make_writer(store, pa.schema([("x", pa.float64())]))
    await writer.write(pa.record_batch({"x": numbers(MIB)}))
    assert store.requests == []
    assert writer.num_bytes == MIB
    await writer.abort()
    assert store.requests == []


async def test_an_aborted_file_never_appears() -> None:
    store = SimulatedStore()
    writer = make_writer(store, pa.schema([("x", pa.float64())]))
    await writer.write(pa.record_batch({"x": numbers(9 * MIB)}))
    assert writer.num_bytes >= 9 * MIB, "two pages have been handed to the upload"
    await writer.abort()
    await writer.abort()
    assert store.objects == {}


async def test_a_failed_upload_can_be_aborted() -> None:
    async def fail(request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE and request.kind == "put":
            raise StoreError("the network is gone", path=request.path)

    store = SimulatedStore(hook=fail)
    writer = make_writer(store, pa.schema([("x", pa.float64())]))
    await writer.write(pa.record_batch({"x": numbers(MIB)}))
    with pytest.raises(StoreError, match="the network is gone"):
        await writer.finish()
    await writer.abort()
    assert store.objects == {}


async def test_an_error_while_encoding_is_raised_as_it_is() -> None:
    kind = pa.struct([])
    writer = make_writer(SimulatedStore(), pa.schema([("x", kind)]))
    await writer.write(pa.record_batch({"x": pa.array([{}, None], kind)}))
    with pytest.raises(InvalidInputError, match="without members"):
        await writer.finish()


async def test_pages_are_encoded_beside_one_another() -> None:
    running, most = 0, 0

    def in_thread(work: Callable[[], T]) -> Awaitable[T]:
        async def run() -> T:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.lowlevel.checkpoint()
            running -= 1
            return work()

        return run()

    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    writer = FileWriter(
        SimulatedStore(), PATH, Schema.from_arrow(schema), FileVersion.V2_1, in_thread
    )
    batch = pa.record_batch([numbers(80 * 1024)] * 4, schema=schema)
    await writer.write(batch)
    await writer.finish()
    assert most == 2


async def test_pages_are_written_while_others_are_encoded() -> None:
    begun, ended = list[int](), list[int]()

    def in_thread(work: Callable[[], T]) -> Awaitable[T]:
        async def run() -> T:
            begun.append(writer._position)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            ended.append(writer._position)
            return work()

        return run()

    store = SimulatedStore()
    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    writer = FileWriter(store, PATH, Schema.from_arrow(schema), FileVersion.V2_1, in_thread)
    table = pa.table([numbers(80 * 1024) for _ in schema], schema=schema)
    await writer.write(table.to_batches()[0])
    del begun[:], ended[:]  # of gathering
    await writer.finish()
    assert begun == [0, 0, 0, 0]
    assert ended == [0, 0, 2 * 80 * 1024, 2 * 80 * 1024]
    assert (await read_back(store, schema)).equals(table)


@pytest.mark.parametrize("version", [FileVersion.V2_0, FileVersion.V0_1])
def test_other_file_versions_are_refused(version: FileVersion) -> None:
    schema = Schema.from_arrow(pa.schema([("x", pa.int8())]))
    with pytest.raises(InvalidInputError, match=f"data_storage_version {version.value}"):
        FileWriter(SimulatedStore(), PATH, schema, version, at_once)


async def test_more_rows_than_a_file_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.file.writer.FILE_ROWS_MAX", 1000)
    writer = make_writer(SimulatedStore(), pa.schema([("x", pa.float64())]))
    batch = pa.record_batch({"x": numbers(8 * 600)})
    await writer.write(batch)
    with pytest.raises(InvalidInputError, match="at most 1000 rows"):
        await writer.write(batch)


async def test_numbers_of_levels_beyond_a_chunk_are_split() -> None:
    store = SimulatedStore()
    array = pa.array([[1]] + [[]] * 200_000 + [[2]], pa.list_(pa.int32()))
    table = pa.table({"x": array})
    await write_table(store, table)
    (pages,) = pages_of(store)
    assert len(pages) > 1
    assert sum(page.num_rows for page in pages) == 200_002
    assert (await read_back(store, table.schema)).equals(table)
