"""Appending jobs: one, eight or 32 writers that add single rows to one dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import lance
import pyarrow as pa

import alance
from benchmarks.remote.data import Place
from benchmarks.remote.measure import SIDES, Case, Job, Partly

__all__ = ["append_cases"]

APPENDS = {1: 4, 8: 2, 32: 1}
"""Appends of each writer, by number of writers."""


def append_cases(place: Place) -> Iterator[Case]:
    """Appends to datasets beside `place`, a new one for each run; every writer has a handle."""
    fresh = itertools.count()
    for writers, appends in APPENDS.items():
        name = f"append, {writers} writer{'s' if writers > 1 else ''} x {appends}"

        async def make() -> Place:
            target = Place(place.endpoint, f"appends-{next(fresh)}.lance")
            await alance.write_dataset(_rows(0), target.uri, storage_options=target.storage_options)
            return target

        async def prepare(_: int, writers: int = writers) -> object:
            target = await make()
            session = alance.Session()
            return [
                await alance.open_dataset(
                    target.uri, storage_options=target.storage_options, session=session
                )
                for _ in range(writers)
            ]

        async def prepare_theirs(_: int, writers: int = writers) -> object:
            target = await make()
            return [await anyio.to_thread.run_sync(target.open_pylance) for _ in range(writers)]

        async def run(handles: Any, appends: int = appends) -> object:
            async with anyio.create_task_group() as tasks:
                for writer, handle in enumerate(handles):
                    tasks.start_soon(_append, handle, writer, appends)
            return None

        async def run_theirs(handles: Any, appends: int = appends) -> object:
            return await anyio.to_thread.run_sync(_append_theirs, handles, appends)

        jobs = {SIDES[0]: Job(prepare, run), SIDES[2]: Job(prepare_theirs, run_theirs)}
        yield Case(name, jobs, is_long=writers > 1)


def _rows(value: int) -> pa.Table:
    return pa.table({"id": [value], "name": [f"row {value}"]})


async def _append(dataset: alance.Dataset, writer: int, appends: int) -> None:
    for i in range(appends):
        dataset = await dataset.append(_rows(writer * appends + i))


def _append_theirs(handles: Sequence[lance.LanceDataset], appends: int) -> Partly:
    """Append from threads; what pylance gives up, after half a minute, is work not done."""

    def append(writer: int) -> int:
        dataset, done = handles[writer], 0
        for i in range(appends):
            try:
                dataset = lance.write_dataset(_rows(writer * appends + i), dataset, mode="append")
                done += 1
            except OSError:
                dataset.checkout_latest()
        return done

    with ThreadPoolExecutor(len(handles)) as pool:
        done = sum(pool.map(append, range(len(handles))))
    return Partly(max(done, 1) / (len(handles) * appends))
