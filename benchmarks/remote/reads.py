"""Reading jobs: open, takes, scans, filters, many takes at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

import alance
from benchmarks.remote.data import Place
from benchmarks.remote.measure import SIDES, Case, Job

__all__ = ["CONCURRENT", "read_cases"]

CONCURRENT = 1000
THREADS = 64
WARM = 100
SEVERAL = ["int64_sorted", "double", "string_text"]

Ours = Callable[[alance.Dataset, int], Awaitable[object]]
Theirs = Callable[[Any, int], object]


def read_cases(ours: Place, theirs: Place, columns: Sequence[str], num_rows: int) -> Iterator[Case]:
    """All reading jobs, for a dataset of each library with these columns and rows."""
    yield _case("open", ours, theirs, None, None)
    for count in (1, 10, 1000):
        for label, chosen in (("1 column", ["int64_small"]), ("3", SEVERAL), ("all", None)):
            for state in ("cold", "warm"):
                yield _take(
                    f"take {count}, {label}, {state}", ours, theirs, num_rows, count, chosen
                )
    yield _case("1000 takes at once", ours, theirs, *_concurrent(num_rows))
    for column in columns:
        yield _scan(f"scan {column}", ours, theirs, [column], None)
    yield _scan("scan all", ours, theirs, None, None)
    third, many = 10**12 + num_rows // 3, num_rows // 100
    for label, text in (
        ("sorted range", f"int64_sorted >= {third} AND int64_sorted < {third + many}"),
        ("selective", "int64_small = 7"),
        ("half", "double < 0.5"),
    ):
        yield _scan(f"filter {label}", ours, theirs, SEVERAL, text)


def _case(
    name: str,
    ours: Place,
    theirs: Place,
    run: Ours | None,
    run_theirs: Theirs | None,
    *,
    warm: bool = False,
) -> Case:
    """Jobs on handles: opened fresh, where `warm` used once already; without jobs, opening."""
    jobs: dict[str, Job] = {}
    for side, place in zip(SIDES, (ours, theirs, theirs), strict=True):
        if run is None or run_theirs is None:
            is_ours = side != SIDES[2]
            jobs[side] = Job(_nothing, _open_ours(place) if is_ours else _open_theirs(place))
        elif side == SIDES[2]:
            jobs[side] = _their_job(place, run_theirs, warm)
        else:
            jobs[side] = _our_job(place, run, warm)
    return Case(name, jobs)


async def _nothing(number: int) -> object:
    return number


def _open_ours(place: Place) -> Callable[[object], Awaitable[object]]:
    async def run(_: object) -> object:
        return await place.open_alance()

    return run


def _open_theirs(place: Place) -> Callable[[object], Awaitable[object]]:
    async def run(_: object) -> object:
        return await anyio.to_thread.run_sync(place.open_pylance)

    return run


def _our_job(place: Place, run: Ours, warm: bool) -> Job:
    async def prepare(number: int) -> object:
        dataset = await place.open_alance()
        if warm:
            await run(dataset, -1 - number)
        return dataset, number

    async def do(prepared: Any) -> object:
        dataset, number = prepared
        return await run(dataset, number)

    return Job(prepare, do)


def _their_job(place: Place, run: Theirs, warm: bool) -> Job:
    def prepare_in_thread(number: int) -> object:
        dataset = place.open_pylance()
        if warm:
            run(dataset, -1 - number)
        return dataset, number

    async def prepare(number: int) -> object:
        return await anyio.to_thread.run_sync(prepare_in_thread, number)

    async def do(prepared: Any) -> object:
        dataset, number = prepared
        return await anyio.to_thread.run_sync(run, dataset, number)

    return Job(prepare, do)


def _picks(num_rows: int, count: int, number: int) -> list[int]:
    """Rows of a run: random, and others in every run; below 0 enough to warm all fragments."""
    rng = np.random.default_rng(abs(number) * 2 + (number < 0))
    count = max(count, WARM) if number < 0 else count
    return [int(row) for row in rng.integers(0, num_rows, count)]


def _take(
    name: str, ours: Place, theirs: Place, num_rows: int, count: int, columns: list[str] | None
) -> Case:
    async def run(dataset: alance.Dataset, number: int) -> object:
        return await dataset.take(_picks(num_rows, count, number), columns)

    def run_theirs(dataset: Any, number: int) -> object:
        return dataset.take(_picks(num_rows, count, number), columns)

    return _case(name, ours, theirs, run, run_theirs, warm=name.endswith("warm"))


def _concurrent(num_rows: int) -> tuple[Ours, Theirs]:
    """Single rows, each by a task or in a thread of its own."""

    async def run(dataset: alance.Dataset, number: int) -> object:
        async with anyio.create_task_group() as tasks:
            for row in _picks(num_rows, CONCURRENT, number):
                tasks.start_soon(dataset.take, [row], SEVERAL)
        return None

    def run_theirs(dataset: Any, number: int) -> object:
        picks = _picks(num_rows, CONCURRENT, number)
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda row: dataset.take([row], SEVERAL), picks))

    return run, run_theirs


def _scan(
    name: str, ours: Place, theirs: Place, columns: list[str] | None, text: str | None
) -> Case:
    async def run(dataset: alance.Dataset, number: int) -> object:
        return await dataset.to_table(columns, filter=text)

    def run_theirs(dataset: Any, number: int) -> object:
        return dataset.to_table(columns, filter=text)

    return _case(name, ours, theirs, run, run_theirs)
