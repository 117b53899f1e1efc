"""What the tests of datasets share: tables, places, and what must hold after every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa

from alance.dataset.dataset import Dataset
from alance.dataset.handle import Handle
from alance.dataset.places import Places
from alance.dataset.write import write
from alance.io.store import ObjectStore
from alance.session import Session, current_session
from alance.table.handler import ConditionalPut

ROOT = "set.lance"


def numbers(start: int, stop: int) -> pa.Table:
    """Rows with an integer, its text, null in every fifth row, and a struct."""
    values = range(start, stop)
    return pa.table({
        "a": pa.array(values, pa.int64()),
        "s": pa.array([f"row {i}" if i % 5 else None for i in values], pa.string()),
        "p": pa.array(
            [{"x": i, "y": float(i)} for i in values],
            pa.struct([("x", pa.int32()), ("y", pa.float64())]),
        ),
    })


def column_a(table: pa.Table) -> list[int]:
    """Values of column `a`."""
    found: list[int] = table["a"].to_pylist()
    return found


def files(place: Path) -> dict[str, int]:
    """Every file below a folder, with its size."""
    found = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.stat().st_size for path in found}


def data_files(place: Path) -> set[str]:
    """Names in the data folder of a dataset."""
    folder = place / "data"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def places_on(session: Session, store: ObjectStore) -> Places:
    """Lead to the files of the dataset in a store of the test's own."""
    return Places(session, session.clients.wrap(store), ROOT, ConditionalPut(), {})


def handle(session: Session, store: ObjectStore) -> Handle:
    """Lead to the dataset of a store of the test's own."""
    return Handle("test://set.lance", None, session, places_on(session, store))


async def open_on(session: Session, store: ObjectStore) -> Dataset:
    """Open the dataset of a store of the test's own."""
    there = handle(session, store)
    return Dataset(*await there.find(None))


async def write_on(session: Session, store: ObjectStore, data: Any, mode: str, **more: Any) -> None:
    """Write to the dataset of a store of the test's own, as `write_dataset` does."""
    await write(places_on(session, store), data, mode=mode, **more)


@asynccontextmanager
async def nothing_left(session: Session | None = None) -> AsyncGenerator[None, None]:
    """Check that the block leaves no task behind and holds no budget."""
    session = session or current_session()
    before = asyncio.all_tasks()
    yield
    await anyio.wait_all_tasks_blocked()
    assert asyncio.all_tasks() == before
    assert session.budget.held == 0
