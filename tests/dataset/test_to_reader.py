"""Synchronous readers of a dataset, and the libraries that take them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import alance
from tests.dataset.helpers import ROOT, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 1000)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=300)


async def test_reads_what_a_scan_reads(dataset: alance.Dataset) -> None:
    reader = dataset.to_reader()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == TABLE.schema
    assert reader.read_all().equals(TABLE)
    found = dataset.to_reader(["p.x"], filter="a >= 10", limit=5, offset=2, batch_size=3)
    assert [batch.to_pydict() for batch in found] == [{"p.x": [12, 13, 14]}, {"p.x": [15, 16]}]


async def test_arguments_are_checked_at_once(dataset: alance.Dataset) -> None:
    with pytest.raises(alance.InvalidInputError, match="nope"):
        dataset.to_reader(["nope"])
    with pytest.raises(alance.InvalidInputError, match="nope"):
        dataset.to_reader(filter="nope > 1")
    with pytest.raises(alance.InvalidInputError, match="limit must be a whole number"):
        dataset.to_reader(limit=-1)


def test_works_where_no_loop_runs(tmp_path: Path) -> None:
    ds = asyncio.run(alance.write_dataset(TABLE, tmp_path / ROOT))
    assert ds.to_reader().read_all().equals(TABLE)


async def test_works_in_any_thread(dataset: alance.Dataset) -> None:
    found: list[int] = []

    def read() -> None:
        found.append(dataset.to_reader().read_all().num_rows)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1000] * 4


async def test_reads_memory_stores_and_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = alance.Session()
    ds = await alance.write_dataset(TABLE, "memory://x", session=session)
    assert ds.to_reader().read_all().equals(TABLE)
    monkeypatch.chdir(tmp_path)
    ds = await alance.write_dataset(TABLE, ROOT)
    monkeypatch.chdir("/")
    assert ds.to_reader().read_all().equals(TABLE)


async def test_readers_side_by_side(dataset: alance.Dataset) -> None:
    one, two = dataset.to_reader(batch_size=100), dataset.to_reader(batch_size=100)
    pairs = zip(one, two, strict=True)
    assert all(a.equals(b) for a, b in pairs)


async def test_errors_come_through(dataset: alance.Dataset, tmp_path: Path) -> None:
    (tmp_path / ROOT / "data" / dataset.fragments[2].files[0].path).write_bytes(b"garbage")
    reader = dataset.to_reader(batch_size=300)
    with pytest.raises(alance.AlanceError, match=dataset.fragments[2].files[0].path):
        reader.read_all()


async def test_feeds_duckdb(dataset: alance.Dataset) -> None:
    reader = dataset.to_reader()  # noqa: F841 - DuckDB finds it by name
    found = duckdb.sql("select sum(a), count(s) from reader").fetchall()
    assert found == [(499_500, 800)]


async def test_feeds_pandas_and_whatever_takes_arrow_streams(dataset: alance.Dataset) -> None:
    assert pa.table(dataset).equals(TABLE)
    assert dataset.to_reader().read_pandas()["a"].sum() == 499_500


async def test_a_dataset_is_data_to_write(dataset: alance.Dataset, tmp_path: Path) -> None:
    copy = await alance.write_dataset(dataset, tmp_path / "copy.lance")
    assert (await copy.to_table()).equals(TABLE)
    more = await copy.append(dataset.to_reader(limit=3))
    assert await more.count_rows() == 1003


@pytest.mark.slow
def test_an_unfinished_reader_lets_the_process_end(tmp_path: Path) -> None:
    asyncio.run(alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=10))
    script = f"""
import alance
ds = alance.sync.open_dataset({str(tmp_path / ROOT)!r})
reader = ds.to_reader(batch_size=5)
batches = iter(ds.scan(batch_size=5))
print(next(reader).num_rows, next(batches).num_rows)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 5\n", "")
