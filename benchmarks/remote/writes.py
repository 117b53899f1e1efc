"""Appending jobs: one, eight or 32 writers that add single rows to one dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import lance
import pyarrow as pa

import alance
from benchmarks.remote.data import Place
from benchmarks.remote.measure import SIDES, Case, Job

__all__ = ["append_cases"]

APPENDS = {1: 4, 8: 2, 32: 1}
"""Appends of each writer, by number of writers."""


def append_cases(place: Place) -> Iterator[Case]:
    """Appends to datasets beside `place`, a new one for each run."""
    fresh = itertools.count()
    for writers, appends in APPENDS.items():
        name = f"append, {writers} writer{'s' if writers > 1 else ''} x {appends}"

        async def prepare(number: int) -> object:
            target = Place(place.endpoint, f"appends-{next(fresh)}.lance")
            session = alance.Session()
            options = target.storage_options
            await alance.write_dataset(
                _rows(0), target.uri, storage_options=options, session=session
            )
            return target, session

        async def run(prepared: Any, writers: int = writers, appends: int = appends) -> object:
            target, session = prepared
            async with anyio.create_task_group() as tasks:
                for writer in range(writers):
                    tasks.start_soon(_append_ours, target, session, writer, appends)
            return None

        async def run_theirs(
            prepared: Any, writers: int = writers, appends: int = appends
        ) -> object:
            target, _ = prepared
            return await anyio.to_thread.run_sync(_append_theirs, target, writers, appends)

        yield Case(name, {SIDES[0]: Job(prepare, run), SIDES[2]: Job(prepare, run_theirs)})


def _rows(value: int) -> pa.Table:
    return pa.table({"id": [value], "name": [f"row {value}"]})


async def _append_ours(target: Place, session: alance.Session, writer: int, appends: int) -> None:
    for i in range(appends):
        await alance.write_dataset(
            _rows(writer * appends + i),
            target.uri,
            mode="append",
            storage_options=target.storage_options,
            session=session,
        )


def _append_theirs(target: Place, writers: int, appends: int) -> None:
    def append(writer: int) -> None:
        for i in range(appends):
            lance.write_dataset(
                _rows(writer * appends + i),
                target.uri,
                mode="append",
                storage_options=target.storage_options,
            )

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(append, range(writers)))
