"""How long the event loop is held while wide data is written, scanned, filtered and taken.

A heartbeat task notes how late it comes round. `late` is its longest pause, which has the pauses of
the interpreter in it: a thread that runs Python keeps the lock for up to `sys.getswitchinterval()`,
and so does the garbage collector. `held` is the longest time that the loop's own thread spent on
the processor between two beats: what the library does on the loop, in milliseconds.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np
import pyarrow as pa

import alance

NUM_NUMBERS, NUM_TEXTS, VECTOR_LENGTH = 60, 20, 64


@dataclass(frozen=True, slots=True)
class Stall:
    """Longest pauses of a heartbeat, in milliseconds."""

    took: float
    late: float
    held: float


def _wide(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    vectors = pa.array(rng.random(num_rows * VECTOR_LENGTH), pa.float32())
    columns = {f"n{i}": rng.integers(0, 1 << 20, num_rows) for i in range(NUM_NUMBERS)}
    texts = pa.array([f"row {i % 1000}" for i in range(num_rows)])
    columns |= {f"t{i}": texts for i in range(NUM_TEXTS)}
    columns["v"] = pa.FixedSizeListArray.from_arrays(vectors, VECTOR_LENGTH)
    return pa.table(columns)


async def measure(work: Callable[[], Awaitable[object]]) -> Stall:
    """Run something beside a heartbeat."""
    late = held = 0.0

    async def beat() -> None:
        nonlocal late, held
        wall, busy = time.perf_counter(), time.thread_time()
        while True:
            await anyio.lowlevel.checkpoint()
            now, spent = time.perf_counter(), time.thread_time()
            late, held = max(late, now - wall), max(held, spent - busy)
            wall, busy = now, spent

    gc.collect()
    async with anyio.create_task_group() as tg:
        tg.start_soon(beat)
        await anyio.lowlevel.checkpoint()
        start = time.perf_counter()
        await work()
        took = time.perf_counter() - start
        tg.cancel_scope.cancel()
    return Stall(took * 1e3, late * 1e3, held * 1e3)


async def bench_stalls(rows: int, runs: int, only: str) -> dict[str, Stall]:
    """Print, for each call, its time and the longest pauses in the best of the runs."""
    table, place = _wide(rows), Path(tempfile.mkdtemp()) / "wide"
    session = alance.Session()

    async def write() -> None:
        await alance.write_dataset(table, place, session=session, mode="overwrite")

    async def scan(filter: str | None = None) -> None:
        ds = await alance.open_dataset(place, session=session)
        async for _ in ds.scan(filter=filter):
            pass

    async def take() -> None:
        ds = await alance.open_dataset(place, session=session)
        await ds.take(range(0, rows, max(rows // 1000, 1)))

    calls: dict[str, Callable[[], Awaitable[None]]] = {
        "write": write,
        "scan": scan,
        "filter": lambda: scan("n0 < 1000"),
        "take 1000": take,
    }
    found: dict[str, Stall] = {}
    print(f"{rows:,} rows of {table.num_columns} columns\n{'':12}{'took':>9}{'late':>9}{'held':>9}")
    try:
        await write()
        for name, work in calls.items():
            if only in name:
                seen = [await measure(work) for _ in range(runs)]
                best = found[name] = min(seen, key=lambda stall: stall.held)
                print(f"{name:12}{best.took:9.1f}{best.late:9.1f}{best.held:9.1f}")
    finally:
        shutil.rmtree(place.parent)
    return found
