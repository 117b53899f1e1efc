"""Opening files: how many requests, whatever is known of their size, and what is refused."""

from __future__ import annotations

import struct

import anyio
import numpy as np
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError, ObjectNotFoundError, UnsupportedFeatureError
from alance.file.footer import FOOTER_BYTES
from alance.file.reader import TAIL_BYTES_MAX, TAIL_BYTES_MIN, tail_bytes
from alance.io.simulated import SimulatedStore
from alance.types import ByteRange
from tests.file.tables import PATH, open_reader, read_table, write_table

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(8)
SMALL = pa.table({"id": range(1000), "name": [f"name {i}" for i in range(1000)]})
LARGE = pa.table({"x": RNG.standard_normal(100_000), "y": RNG.standard_normal(100_000)})
WIDE = pa.table({f"column {i}": [float(i), None, 1.5] for i in range(2000)})


async def stored(table: pa.Table) -> SimulatedStore:
    store = SimulatedStore()
    await write_table(store, table)
    store.requests.clear()
    return store


def size_of(store: SimulatedStore) -> int:
    return len(store.objects[PATH])


def kinds(store: SimulatedStore) -> list[str]:
    return [request.kind for request in store.requests]


def test_tail_bytes() -> None:
    assert tail_bytes(10) == 10
    assert tail_bytes(TAIL_BYTES_MIN + 1) == TAIL_BYTES_MIN
    assert tail_bytes(100 << 20) == (100 << 20) // 256
    assert tail_bytes(10 << 30) == TAIL_BYTES_MAX


@pytest.mark.parametrize("known", [True, False])
async def test_a_small_file_is_one_request(known: bool) -> None:
    store = await stored(SMALL)
    assert size_of(store) < TAIL_BYTES_MIN
    reader = await open_reader(store, size_of(store) if known else None)
    assert (await read_table(reader, SMALL.schema)).equals(SMALL)
    assert kinds(store) == ["get_range" if known else "get_tail"]
    assert reader.num_columns == 2
    assert reader.cached_bytes >= size_of(store)


async def test_a_size_of_zero_means_unknown() -> None:
    store = await stored(SMALL)
    reader = await open_reader(store, 0)
    assert (await read_table(reader, SMALL.schema)).equals(SMALL)
    assert kinds(store) == ["get_tail"]


async def test_rows_of_a_larger_file_are_one_round_more() -> None:
    store = await stored(LARGE)
    assert size_of(store) > 2 * LARGE.num_rows * 8
    reader = await open_reader(store, size_of(store))
    found = await read_table(reader, LARGE.schema, [5, 99_000])
    assert found.equals(LARGE.take([5, 99_000]))
    assert kinds(store)[0] == "get_range"
    assert len(store.requests) <= 1 + 4, "chunk tables came with the tail: only chunks are left"


@pytest.mark.parametrize("known", [True, False])
async def test_metadata_larger_than_the_tail(known: bool) -> None:
    store = await stored(WIDE)
    assert size_of(store) > 2 * TAIL_BYTES_MIN
    reader = await open_reader(store, size_of(store) if known else None)
    assert len(store.requests) == 2
    assert reader.num_columns == 2000
    for index in range(2000):
        assert (await reader.column(index)).num_rows == 3
    assert len(store.requests) == 2, "metadata of all columns is at hand"
    found = await read_table(reader, WIDE.schema)
    assert found.equals(WIDE)


@pytest.mark.parametrize("wrong", [-1, 1, 7, -64, 64, 10_000])
async def test_a_wrong_size_is_looked_up(wrong: int) -> None:
    store = await stored(SMALL)
    reader = await open_reader(store, size_of(store) + wrong)
    assert (await read_table(reader, SMALL.schema)).equals(SMALL)
    assert kinds(store) == ["get_range", "get_tail"]


async def test_columns_are_opened_once() -> None:
    store = await stored(SMALL)
    reader = await open_reader(store, size_of(store))
    found = []

    async def ask() -> None:
        found.append(await reader.column(1))

    async with anyio.create_task_group() as tg:
        for _ in range(5):
            tg.start_soon(ask)
    assert all(each is found[0] for each in found)


async def test_the_descriptor() -> None:
    store = await stored(SMALL)
    reader = await open_reader(store, size_of(store))
    descriptor = await reader.descriptor()
    assert descriptor.num_rows == 1000
    assert descriptor.schema.to_arrow().equals(SMALL.schema)
    assert reader.version.value == "2.1"


async def test_bytes_before_the_tail_are_fetched_together() -> None:
    store = await stored(LARGE)
    reader = await open_reader(store, size_of(store))
    data = store.objects[PATH]
    store.requests.clear()
    wanted = [
        ByteRange(0, 10),
        ByteRange(len(data) - 50, len(data) - 40),
        ByteRange(700_000, 700_010),
    ]
    found = await reader.fetch(wanted)
    assert [view.tobytes() for view in found] == [data[r.start : r.stop] for r in wanted]
    assert len(store.requests) <= 2
    assert reader.at_hand(wanted) is None
    assert reader.at_hand(wanted[1:2]) == [memoryview(data)[-50:-40]]


@pytest.mark.parametrize("data", [b"", b"LANC", bytes(39), bytes(40), bytes(100_000)])
async def test_no_data_file(data: bytes) -> None:
    store = SimulatedStore()
    store.preload(PATH, data)
    for file_size in (None, len(data), len(data) + 100):
        with pytest.raises(CorruptFileError) as caught:
            await open_reader(store, file_size)
        assert PATH in str(caught.value)


async def test_no_object() -> None:
    for file_size in (None, 1000):
        with pytest.raises(ObjectNotFoundError):
            await open_reader(SimulatedStore(), file_size)


async def test_a_file_cut_off_names_both_sizes() -> None:
    store = await stored(SMALL)
    data = store.objects[PATH]
    store.preload(PATH, data[:-100])
    with pytest.raises(CorruptFileError, match=f"{len(data) - 100} bytes.*records {len(data)}"):
        await open_reader(store, len(data))


def with_version(data: bytes, major: int, minor: int) -> bytes:
    return data[:-8] + struct.pack("<HH", major, minor) + data[-4:]


@pytest.mark.parametrize(("major", "minor"), [(0, 3), (2, 3), (9, 9)])
async def test_other_file_versions_are_named(major: int, minor: int) -> None:
    store = await stored(SMALL)
    data = store.objects[PATH]
    store.preload(PATH, with_version(data, major, minor))
    with pytest.raises(UnsupportedFeatureError, match="version"):
        await open_reader(store, len(data))


async def test_columns_that_a_file_does_not_have() -> None:
    store = await stored(SMALL)
    reader = await open_reader(store, size_of(store))
    for index in (-1, 2, 2**31):
        with pytest.raises(CorruptFileError, match=f"has 2 columns.*column {index}") as caught:
            await reader.column(index)
        assert caught.value.path == PATH


async def test_damaged_metadata_names_file_and_column() -> None:
    store = await stored(SMALL)
    data = bytearray(store.objects[PATH])
    (table,) = struct.unpack_from("<Q", data, len(data) - FOOTER_BYTES + 8)
    start, _ = struct.unpack_from("<QQ", data, table + 16)
    data[start] = 0xFF
    store.preload(PATH, bytes(data))
    reader = await open_reader(store, len(data))
    with pytest.raises(CorruptFileError, match=PATH) as caught:
        await reader.column(1)
    assert caught.value.path == PATH
    assert "in the metadata of column 1" in caught.value.__notes__
    assert (await reader.column(0)).num_rows == 1000, "the other column is sound"


async def test_a_file_without_rows_or_columns() -> None:
    for table in (SMALL.slice(0, 0), pa.table({})):
        store = await stored(table)
        reader = await open_reader(store, size_of(store))
        assert reader.num_columns == table.num_columns
        assert (await reader.descriptor()).num_rows == 0
        for index in range(table.num_columns):
            assert (await reader.column(index)).num_rows == 0
