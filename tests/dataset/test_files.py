"""Single data files: written and read by themselves, exchanged with the reference."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance import sync
from alance.errors import (
    AlanceError,
    CorruptFileError,
    InvalidInputError,
    ObjectNotFoundError,
    SchemaMismatchError,
)

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(11)
NUM_ROWS = 5000
TABLE = pa.table({
    "id": pa.array(range(NUM_ROWS)),
    "name": [f"name {i}" if i % 7 else None for i in range(NUM_ROWS)],
    "tags": [None if i % 11 == 0 else list(range(i % 4)) for i in range(NUM_ROWS)],
    "place": [{"x": i * 0.5, "town": f"t{i % 9}"} if i % 5 else None for i in range(NUM_ROWS)],
}).replace_schema_metadata({"made": "händ", "for": "tests"})
SMALL = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def write(path: Path, table: pa.Table) -> None:
    async with alance.create_file(path, table.schema) as w:
        await w.write(table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_round_trip(version: str, tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    async with alance.create_file(path, TABLE.schema, data_storage_version=version) as w:
        for batch in TABLE.to_batches(max_chunksize=700):
            await w.write(batch)
        assert (w.num_rows, w.version, w.schema) == (NUM_ROWS, version, TABLE.schema)
        assert not path.exists(), "nothing appears before the block ends"
    file = await alance.open_file(path)
    assert (await file.read()).equals(TABLE)
    assert file.schema.equals(TABLE.schema, check_metadata=True)
    assert (file.num_rows, file.version, file.uri) == (NUM_ROWS, version, str(path))
    assert file.metadata == {"made": "händ", "for": "tests"}
    assert repr(file) == f"<alance.FileReader {path} version {version}: {NUM_ROWS} rows>"


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_reference_reads_it(version: str, tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    async with alance.create_file(path, TABLE.schema, data_storage_version=version) as w:
        await w.write(TABLE)
        assert await w.add_global_buffer(b"one") == 1
        assert await w.add_global_buffer(bytearray(200)) == 2
    theirs = LanceFileReader(str(path))
    assert theirs.read_all().to_table().equals(TABLE)
    assert theirs.read_global_buffer(1) == b"one"
    assert theirs.read_global_buffer(2) == bytes(200)
    assert theirs.metadata().schema.metadata == TABLE.schema.metadata


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_files_of_the_reference(version: str, tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    with LanceFileWriter(str(path), TABLE.schema, version=version) as w:
        for batch in TABLE.to_batches(max_chunksize=1000):
            w.write_batch(batch)
        assert w.add_global_buffer(b"theirs") == 1
    file = await alance.open_file(path)
    assert (await file.read()).equals(TABLE)
    rows = [4999, 17, 17, 1000]
    assert (await file.take(rows)).equals(TABLE.take(rows))
    assert (file.version, file.num_rows, file.num_global_buffers) == (version, NUM_ROWS, 2)
    assert await file.global_buffer(1) == b"theirs"
    assert len(await file.global_buffer(0)) > 100


@pytest.mark.parametrize(
    ("start", "stop"),
    [(None, None), (0, 0), (10, 4000), (4990, None), (None, 9), (7, 3), (9**9, 9**9 + 1)],
)
async def test_slices(tmp_path: Path, start: int | None, stop: int | None) -> None:
    await write(tmp_path / "f", TABLE)
    file = await alance.open_file(tmp_path / "f")
    found = await file.read(["name", "place.town"], start, stop)
    expected = TABLE["name"].slice(0).to_pylist()[start:stop]
    assert found["name"].to_pylist() == expected
    assert found.column_names == ["name", "place.town"]


async def test_takes_and_scans(tmp_path: Path) -> None:
    await write(tmp_path / "f", TABLE)
    file = await alance.open_file(tmp_path / "f")
    rows = RNG.integers(0, NUM_ROWS, 300)
    assert (await file.take(rows)).equals(TABLE.take(pa.array(rows)))
    assert (await file.take([], ["id"])).num_rows == 0
    found = await file.take([3, 3], {"twice": "id * 2"})
    assert found["twice"].to_pylist() == [6, 6]
    batches = [batch async for batch in file.scan(["id"], batch_size=999)]
    assert [batch.num_rows for batch in batches] == [999] * 5 + [5]
    assert pa.Table.from_batches(batches)["id"].equals(TABLE["id"])
    assert (await file.read([])).num_rows == NUM_ROWS
    assert f"fragment 0: rows 0 to {NUM_ROWS} of {NUM_ROWS}" in file.scan(["id"]).explain()


async def test_a_small_file_is_one_request(tmp_path: Path) -> None:
    await write(tmp_path / "f", SMALL)
    with alance.receipt() as r:
        file = await alance.open_file(tmp_path / "f")
        await file.read()
        await file.take([2, 0])
    assert r.requests == {"get": 1}


async def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "f"
    await write(path, SMALL)
    assert (await (await alance.open_file(path)).read()).equals(SMALL)
    other = SMALL.take([2, 1, 0])
    size = path.stat().st_size
    await write(path, other)
    assert path.stat().st_size == size
    assert (await (await alance.open_file(path)).read()).equals(other)


async def test_data_files_of_datasets(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(TABLE, tmp_path / "set", max_rows_per_file=3000)
    first, second = dataset.fragments
    file = await alance.open_file(tmp_path / "set" / "data" / second.files[0].path)
    assert (await file.read()).equals(TABLE.slice(3000))
    assert first.num_rows == 3000


@pytest.mark.parametrize("table", [SMALL.slice(0, 0), pa.table({}), pa.table({}).slice(0, 0)])
async def test_no_rows_no_columns(tmp_path: Path, table: pa.Table) -> None:
    await write(tmp_path / "f", table)
    file = await alance.open_file(tmp_path / "f")
    assert file.num_rows == 0
    assert (await file.read()).equals(table)
    assert (await file.take([])).num_rows == 0
    assert [batch async for batch in file.scan()] == []


async def test_rows_without_columns(tmp_path: Path) -> None:
    empty = pa.RecordBatch.from_struct_array(pa.array([{}] * 4, pa.struct([])))
    async with alance.create_file(tmp_path / "f", empty.schema) as w:
        await w.write(empty)
    file = await alance.open_file(tmp_path / "f")
    assert (file.num_rows, (await file.read()).num_rows) == (4, 4)
    assert (await file.take([3, 3])).num_rows == 2


async def test_extension_types_and_views(tmp_path: Path) -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16)))
    table = pa.table({"u": uuids, "v": pa.array(["a", None, "c"], pa.string_view())})
    await write(tmp_path / "f", table)
    found = await (await alance.open_file(tmp_path / "f")).read()
    assert found["u"].equals(table["u"])
    assert found["v"].to_pylist() == ["a", None, "c"]


class TestRefusedReads:
    async def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(ObjectNotFoundError):
            await alance.open_file(tmp_path / "none")

    async def test_no_data_file(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"PAR1" * 100)
        with pytest.raises(CorruptFileError, match="LANC"):
            await alance.open_file(tmp_path / "f")

    async def test_arguments(self, tmp_path: Path) -> None:
        await write(tmp_path / "f", SMALL)
        file = await alance.open_file(tmp_path / "f")
        with pytest.raises(InvalidInputError, match="the file has 3 rows, 0 to 2"):
            await file.take([3])
        with pytest.raises(InvalidInputError, match="start must be"):
            await file.read(start=-1)
        with pytest.raises(InvalidInputError, match="stop must be"):
            await file.read(stop=-1)
        with pytest.raises(InvalidInputError, match="batch_size"):
            file.scan(batch_size=0)
        with pytest.raises(InvalidInputError, match="column 'c' is not in the schema"):
            await file.read(["c"])
        with pytest.raises(InvalidInputError, match="has 1 global buffers"):
            await file.global_buffer(1)
        with pytest.raises(InvalidInputError, match="index must be"):
            await file.global_buffer(-1)


class TestRefusedWrites:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"schema": {"a": "int64"}}, "must be a pyarrow Schema"),
            ({"schema": pa.schema([("a", pa.month_day_nano_interval())])}, "'a'"),
            ({"data_storage_version": "7"}, "data_storage_version '7' is unknown"),
            ({"data_storage_version": "2.0"}, "cannot be written"),
            ({"path": "ftp://x/y"}, "ftp"),
        ],
        ids=["schema", "type", "version", "old version", "scheme"],
    )
    async def test_arguments(self, arguments: dict[str, Any], message: str) -> None:
        given = {"path": "memory://f", "schema": SMALL.schema} | arguments
        with pytest.raises(AlanceError, match=message):
            alance.create_file(**given)

    async def test_data_that_does_not_fit_leaves_the_file_as_it_was(self, tmp_path: Path) -> None:
        schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
        nulls = pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], schema=schema)
        good = pa.RecordBatch.from_arrays([pa.array([5], pa.int64())], schema=schema)
        async with alance.create_file(tmp_path / "f", schema) as w:
            with pytest.raises(SchemaMismatchError, match="has the schema"):
                await w.write(SMALL)
            with pytest.raises(InvalidInputError, match="holds 1 nulls"):
                await w.write(nulls)
            with pytest.raises(InvalidInputError, match="not list"):
                await w.write([good])
            with pytest.raises(InvalidInputError, match="buffer can be stored, not int"):
                await w.add_global_buffer(5)  # type: ignore[arg-type]
            await w.write(good)
        assert (await (await alance.open_file(tmp_path / "f")).read())["a"].to_pylist() == [5]

    async def test_outside_of_the_block(self, tmp_path: Path) -> None:
        writer = alance.create_file(tmp_path / "f", SMALL.schema)
        with pytest.raises(InvalidInputError, match="has not begun"):
            await writer.write(SMALL)
        async with writer:
            pass
        for call in (lambda: writer.write(SMALL), lambda: writer.add_global_buffer(b"")):
            with pytest.raises(InvalidInputError, match="is over"):
                await call()
        with pytest.raises(InvalidInputError, match="already"):
            async with writer:
                pass

    async def test_an_error_in_the_block(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        await write(path, SMALL)
        before = path.read_bytes()

        async def work() -> None:
            async with alance.create_file(path, TABLE.schema) as w:
                await w.write(TABLE)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert path.read_bytes() == before
        assert names(tmp_path) == ["f"]

    async def test_a_write_cut_short_is_not_passed_over(self, tmp_path: Path) -> None:
        numbers = pa.table({"a": RNG.random(3 << 20)})

        async def work() -> None:
            async with (
                alance.create_file(tmp_path / "f", numbers.schema) as w,
                anyio.create_task_group() as tg,
            ):
                tg.start_soon(w.write, numbers)
                while w.num_rows == 0:
                    await anyio.lowlevel.checkpoint()
                tg.cancel_scope.cancel()

        with pytest.raises(AlanceError, match="earlier call failed"):
            await work()
        assert names(tmp_path) == []

    async def test_cancelled_as_the_block_ends(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with alance.create_file(tmp_path / "f", SMALL.schema) as w:
                await w.write(SMALL)
                task.cancel()

        task = asyncio.get_running_loop().create_task(work())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert names(tmp_path) == []


def test_without_await(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with sync.create_file(path, TABLE.schema) as w:
        w.write(TABLE.slice(0, 10))
        assert w.add_global_buffer(b"x") == 1
        assert (w.num_rows, w.uri, w.version, w.schema) == (10, str(path), "2.1", TABLE.schema)
        assert repr(w).startswith("<alance.sync.FileWriter")
    file = sync.open_file(path)
    assert file.read().equals(TABLE.slice(0, 10))
    assert file.take([9, 1], ["id"])["id"].to_pylist() == [9, 1]
    assert sum(batch.num_rows for batch in file.scan()) == 10
    assert (file.num_rows, file.uri, file.version) == (10, str(path), "2.1")
    assert (file.num_global_buffers, file.global_buffer(1)) == (2, b"x")
    assert file.schema.equals(TABLE.schema)
    assert file.metadata["for"] == "tests"
    assert repr(file).startswith("<alance.sync.FileReader")
    with pytest.raises(ZeroDivisionError), sync.create_file(path, SMALL.schema):
        raise ZeroDivisionError
    assert sync.open_file(path).num_rows == 10
