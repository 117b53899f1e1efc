"""Damaged files: errors of the tree or valid arrays, whichever byte changes, wherever they end.

As for pages (tests/encodings/test_fuzz.py), `ALANCE_FUZZ_CASES` and `ALANCE_FUZZ_SEED` make the run
longer and move it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import FormatError
from alance.file.footer import FOOTER_BYTES
from alance.io.simulated import SimulatedStore
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


async def test_damaged_data_files_of_a_dataset(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    await alance.write_dataset(TABLE, sound)
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
            table = await dataset.to_table()
            table.validate()
            await dataset.take([299, 0, 17])
        except FormatError:
            refused += 1
    assert refused
