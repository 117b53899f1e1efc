"""Scan, take and write from local disk, alance and pylance side by side in one run.

Every row is one column kind. Both libraries read the same two datasets, one written by each; times
are medians of alternating runs with warm handles, and every figure is pylance's time over alance's:
above 1, alance is faster. `size` is alance's bytes over pylance's.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import alance
from benchmarks.kinds import make_columns

HEADINGS = ("scan A", "scan P", "take 10", "take 1000", "write", "size")


async def _time(run: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await run()
    return time.perf_counter() - start


async def _ratio(
    ours: Callable[[], Awaitable[object]], theirs: Callable[[], object], runs: int
) -> float:
    """Median time of theirs over ours, after one run of each that does not count."""

    async def call_theirs() -> object:
        return theirs()

    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for i in range(runs + 1):
        pair = [("ours", ours), ("theirs", call_theirs)]
        for name, run in pair if i % 2 else reversed(pair):
            taken = await _time(run)
            if i:
                found[name].append(taken)
    return statistics.median(found["theirs"]) / statistics.median(found["ours"])


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "data").iterdir())


async def bench_table(
    table: pa.Table, folder: Path, runs: int, *, version: str = "2.1", is_blob: bool = False
) -> dict[str, float]:
    """All ratios of a table with one column `c`; leaves the datasets of both in the folder."""
    ours_path, theirs_path = folder / "alance", folder / "pylance"

    async def write_ours() -> None:
        shutil.rmtree(ours_path, ignore_errors=True)
        await alance.write_dataset(table, ours_path, data_storage_version=version)

    def write_theirs() -> None:
        shutil.rmtree(theirs_path, ignore_errors=True)
        lance.write_dataset(table, str(theirs_path), data_storage_version=version)

    result = {"write": await _ratio(write_ours, write_theirs, runs)}
    for name, path in (("scan A", ours_path), ("scan P", theirs_path)):
        ours, theirs = await alance.open_dataset(path), lance.dataset(str(path))
        scan = partial(theirs.to_table, blob_handling="all_binary" if is_blob else None)
        assert (await ours.to_table()).equals(scan()), "the libraries disagree"
        result[name] = await _ratio(ours.to_table, scan, runs)
    ours, theirs = await alance.open_dataset(ours_path), lance.dataset(str(theirs_path))
    take = partial(_take_blobs, theirs) if is_blob else theirs.take
    for count in (10, 1000):
        picks = np.random.default_rng(count).integers(0, len(table), count).tolist()
        result[f"take {count}"] = await _ratio(
            partial(ours.take, picks), partial(take, picks), runs * 3
        )
    result["size"] = _bytes(ours_path) / _bytes(theirs_path)
    return result


def _take_blobs(dataset: lance.LanceDataset, rows: list[int]) -> list[bytes]:
    """Values that lie apart from their column; a take would only say where."""
    return [file.read() for file in dataset.take_blobs("c", indices=rows)]


async def bench_local(num_rows: int, runs: int, only: str = "") -> dict[str, dict[str, float]]:
    """All ratios by column kind; prints a line as each is known."""
    print(f"{'column':16}" + "".join(f"{name:>11}" for name in HEADINGS))
    found = {}
    for name, make in make_columns(num_rows).items():
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found[name] = await bench_table(pa.table({"c": make()}), Path(folder), runs)
        print(f"{name:16}" + "".join(f"{found[name][heading]:>10.2f}x" for heading in HEADINGS))
    return found
