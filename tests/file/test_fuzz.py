"""Damaged files: errors of the tree or valid arrays, whichever byte changes, wherever they end.

As for pages (tests/encodings/test_fuzz.py), `ALANCE_FUZZ_CASES` and `ALANCE_FUZZ_SEED` make the run
longer and move it.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import FormatError, InvalidInputError
from alance.file.footer import FOOTER_BYTES
from alance.io.simulated import SimulatedStore
from tests.file.handmade import HandmadeFile, column_encoding
from tests.file.reference import reference_file
from tests.file.tables import PATH, open_reader, read_table, write_table

pytestmark = pytest.mark.anyio

CASES = int(os.environ.get("ALANCE_FUZZ_CASES", "400"))
SEED = int(os.environ.get("ALANCE_FUZZ_SEED", "0"))
BYTES_MAX = 64 << 20
"""Memory that reading one damaged file of 100 KB may take from Arrow."""


def small_table() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table({
        "id": pa.array(range(300)),
        "name": pa.array([f"name {i}" if i % 3 else None for i in range(300)]),
        "colour": pa.array([("red", "green")[i % 2] for i in range(300)]),
        "tags": pa.array([None if i % 7 == 0 else [i] * (i % 4) for i in range(300)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(300 * 40)), 40),
        "none": pa.nulls(300, pa.float64()),
        "nested": pa.array([{"a": i, "b": None} for i in range(300)]),
    })


def compressed_table() -> pa.Table:
    """Columns that the reference stores in ways that are only read here."""
    rng = np.random.default_rng(3)
    runs = np.repeat(rng.integers(0, 9, 60), rng.integers(1, 99, 60))[:2000]
    numbers = np.arange(2000) % 977 * 1.5
    words = [f"page {i} of the manifest" for i in range(2000)]
    zstd = {"lance-encoding:compression": "zstd", "lance-encoding:bss": "off"}
    columns = {
        "runs": (pa.array(runs), {}),
        "zstd": (pa.array(numbers), zstd),
        "lz4": (pa.array(words), {"lance-encoding:compression": "lz4"}),
        "long": (pa.array([word * 2000 for word in words[:3]] + words[3:]), {}),
        "nulls": (pa.array([None if i % 9 else i for i in range(2000)]), {}),
    }
    fields = [pa.field(name, a.type, metadata=meta) for name, (a, meta) in columns.items()]
    return pa.table([array for array, _ in columns.values()], schema=pa.schema(fields))


def newer_table() -> pa.Table:
    """Columns that only file version 2.2 stores."""
    maps = [[("a", i), ("b", None)] if i % 3 else None if i % 2 else [] for i in range(300)]
    pairs = [[{"a": i, "s": "x"}, None] if i % 3 else None for i in range(300)]
    pair = pa.struct([("a", pa.int32()), ("s", pa.string())])
    return pa.table({
        "map": pa.array(maps, pa.map_(pa.string(), pa.int64())),
        "maps": pa.array([[each] for each in maps], pa.list_(pa.map_(pa.string(), pa.int64()))),
        "pairs": pa.array(pairs, pa.list_(pair, 2)),
        "same": pa.array(["same"] * 300),
        "same lists": pa.array([[7], [7, 7], None] * 10 + [[]] * 270),
    })


TABLE = small_table()
COMPRESSED = compressed_table()


async def make_file() -> bytes:
    store = SimulatedStore()
    await write_table(store, TABLE)
    return store.objects[PATH]


async def outcome(
    data: bytes, file_size: int | None = None, schema: pa.Schema = TABLE.schema
) -> pa.Table | FormatError:
    """Read a file that holds these bytes; any error but those of the format is a failure."""
    store = SimulatedStore()
    store.preload(PATH, data)
    try:
        reader = await open_reader(store, file_size)
        table = await read_table(reader, schema)
    except FormatError as exc:
        return exc
    table.validate()
    return table


async def test_the_sound_file() -> None:
    data = await make_file()
    assert TABLE.equals(await outcome(data))


@pytest.mark.parametrize("writer", ["ours", "reference"])
async def test_a_changed_byte_anywhere(writer: str, tmp_path: Path) -> None:
    table = TABLE if writer == "ours" else COMPRESSED
    if writer == "ours":
        data, cases = await make_file(), CASES
    else:
        data, cases = bytes(reference_file(tmp_path / "file", "2.1", table)), CASES // 6
    sound = await outcome(data, schema=table.schema)
    assert table.equals(sound)
    rng = np.random.default_rng(SEED)
    tail = np.arange(len(data) - min(cases, 4000), len(data))
    places = np.concatenate((tail, rng.integers(0, len(data), cases)))
    refused = 0
    before = pa.default_memory_pool().max_memory()
    for place in places.tolist():
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        found = await outcome(bytes(damaged), schema=table.schema)
        refused += isinstance(found, FormatError)
        if place >= len(data) - FOOTER_BYTES:
            assert isinstance(found, FormatError) or found.equals(table)
    assert pa.default_memory_pool().max_memory() < before + BYTES_MAX
    assert refused > cases // 4


async def test_a_file_cut_off_anywhere() -> None:
    data = await make_file()
    rng = np.random.default_rng(SEED)
    for stop in [*range(50), *rng.integers(0, len(data), CASES // 4).tolist(), len(data) - 1]:
        assert isinstance(await outcome(data[:stop]), FormatError)
        assert isinstance(await outcome(data[:stop], len(data)), FormatError)


async def test_a_file_with_bytes_before_its_tail() -> None:
    data = await make_file()
    for at in np.random.default_rng(SEED).integers(0, len(data) - 1, CASES // 4).tolist():
        for change in (data[:at] + b"\0" * 64 + data[at:], data[:at] + data[at + 64 :]):
            found = await outcome(change)
            assert isinstance(found, (FormatError, pa.Table))


async def handmade_file() -> bytes:
    """A file that has what writers do not make: encodings apart, gaps, buffers of all kinds."""
    file = HandmadeFile(await make_file())
    for column in file.columns:
        column.encoding.direct.encoding = column_encoding("zone_index", "blob")
        place = file.defer(column.encoding)
        column.buffer_offsets.append(place.start)
        column.buffer_sizes.append(place.num_bytes)
        for page in column.pages:
            file.global_buffers.append(file.add(page.encoding.direct.encoding))
            file.defer(page.encoding)
    file.gap = 7
    return file.build(backwards=True)


async def test_a_changed_byte_in_a_file_made_by_hand() -> None:
    data = await handmade_file()
    assert TABLE.equals(await outcome(data))
    rng = np.random.default_rng(SEED)
    refused = 0
    for place in rng.integers(len(data) - 8000, len(data), CASES).tolist():
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        refused += isinstance(await outcome(bytes(damaged)), FormatError)
    assert refused > CASES // 4


EDGES = [0, 1, 40, 63, 64, 1 << 31, 1 << 32, 1 << 48, 1 << 62, 1 << 63, (1 << 64) - 1]


@pytest.mark.parametrize("writer", ["ours", "by hand"])
async def test_forged_offset_tables(writer: str) -> None:
    data = await (make_file() if writer == "ours" else handmade_file())
    table, buffers, _, num_columns = struct.unpack_from("<QQII", data, len(data) - 32)
    places = [table + 8 * i for i in range(2 * num_columns)]
    places += [buffers, buffers + 8, *range(len(data) - 40, len(data) - 16, 8)]
    rng = np.random.default_rng(SEED)
    before = pa.default_memory_pool().max_memory()
    for place in places:
        (old,) = struct.unpack_from("<Q", data, place)
        for value in rng.choice([*EDGES, len(data), old - 1, old + 64, old ^ 1], 4).tolist():
            damaged = bytearray(data)
            struct.pack_into("<Q", damaged, place, int(value) & (1 << 64) - 1)
            found = await outcome(bytes(damaged))
            assert isinstance(found, FormatError) or found.num_rows == TABLE.num_rows
    assert pa.default_memory_pool().max_memory() < before + BYTES_MAX


async def test_forged_places_of_encodings() -> None:
    base = HandmadeFile(await make_file())
    rng = np.random.default_rng(SEED)
    for _ in range(CASES // 4):
        column = base.columns[int(rng.integers(len(base.columns)))]
        of = column if rng.random() < 0.3 else column.pages[0]
        sound = of.encoding.direct.encoding
        start, size = rng.choice(np.array(EDGES, np.uint64), 2).tolist()
        if rng.random() < 0.5:
            start, size = (int(each) for each in rng.integers(0, 20_000, 2))
        of.encoding.indirect.buffer_location = start
        of.encoding.indirect.buffer_length = size
        assert isinstance(await outcome(base.build()), FormatError)
        of.encoding.direct.encoding = sound


async def test_damaged_files_by_themselves(tmp_path: Path) -> None:
    data = await handmade_file()
    rng = np.random.default_rng(SEED)
    refused = 0
    for _ in range(CASES // 8):
        damaged = bytearray(data)
        damaged[len(data) - 1 - int(rng.integers(0, 6000))] ^= int(rng.integers(1, 256))
        (tmp_path / "f").write_bytes(damaged)
        try:
            file = await alance.open_file(tmp_path / "f")
            (await file.read(file.schema.names[:2])).validate()
            (await file.take([0, 7], ["tags"])).validate()
            await file.global_buffer(file.num_global_buffers - 1)
        except (FormatError, InvalidInputError):
            # A row or name that the damage has removed from the file is a bad argument.
            refused += 1
    assert refused


@pytest.mark.parametrize(("table", "version"), [(TABLE, "2.1"), (newer_table(), "2.2")])
async def test_damaged_data_files_of_a_dataset(
    table: pa.Table, version: str, tmp_path: Path
) -> None:
    sound = tmp_path / "sound"
    await alance.write_dataset(table, sound, data_storage_version=version)
    (file,) = sound.glob("data/*.lance")
    data = file.read_bytes()
    rng = np.random.default_rng(SEED)
    refused = 0
    for case in range(CASES // 8):
        place = tmp_path / str(case)
        shutil.copytree(sound, place)
        damaged = bytearray(data)
        at = (
            len(data) - 1 - int(rng.integers(0, 3000))
            if case % 2
            else int(rng.integers(0, len(data)))
        )
        damaged[at] ^= int(rng.integers(1, 256))
        (place / "data" / file.name).write_bytes(damaged)
        try:
            dataset = await alance.open_dataset(place)
            (await dataset.to_table()).validate()
            (await dataset.take([299, 0, 17])).validate()
        except FormatError:
            refused += 1
    assert refused
