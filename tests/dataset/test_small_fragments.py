"""Scans of many small fragments of local files: several are read in one turn of a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.client import CachedReads, StoreClient
from alance.types import ByteRange

pytestmark = pytest.mark.anyio

ROWS = 10_000
"""More than the tail of a file holds, which comes with its metadata."""
FRAGMENTS = 24


class CountingSession(alance.Session):
    """Counts turns of its threads."""

    turns = 0

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        self.turns += 1
        return await super().run_in_thread(work)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    num_rows = ROWS * FRAGMENTS
    return pa.table({
        "i": np.arange(num_rows),
        "x": rng.random(num_rows),
        "y": rng.random(num_rows),
    })


@pytest.fixture(scope="module")
def uri(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("small") / "set.lance"
    made = lance.write_dataset(table, path, max_rows_per_file=ROWS, data_storage_version="2.1")
    assert len(made.get_fragments()) == FRAGMENTS
    return str(path)


async def open_warm(uri: str, **limits: int) -> tuple[alance.Dataset, CountingSession]:
    """A dataset whose files the session has opened."""
    session = CountingSession(limits=alance.Limits(**limits))
    ds = await alance.open_dataset(uri, session=session)
    await ds.to_table()
    session.turns = 0
    return ds, session


@pytest.mark.parametrize("ordered", [True, False])
async def test_several_fragments_share_a_turn(uri: str, table: pa.Table, ordered: bool) -> None:
    ds, session = await open_warm(uri)
    batches = [batch async for batch in ds.scan(ordered=ordered)]
    assert len(batches) == FRAGMENTS
    found = pa.Table.from_batches(batches)
    assert (found if ordered else found.sort_by("i")).equals(table)
    assert 0 < session.turns <= FRAGMENTS // 3
    assert session.stats().budget_held == 0


async def test_with_row_ids_a_limit_and_deleted_rows(table: pa.Table, tmp_path: Path) -> None:
    lance.write_dataset(table, tmp_path / "d", max_rows_per_file=ROWS, data_storage_version="2.1")
    lance.dataset(tmp_path / "d").delete(f"i % 3 = 1 or i between {ROWS} and {2 * ROWS + 10}")
    ds, session = await open_warm(str(tmp_path / "d"))
    found = await ds.to_table(limit=100_000, offset=7, with_row_id=True)
    reference = lance.dataset(tmp_path / "d")
    assert found.equals(reference.to_table(limit=100_000, offset=7, with_row_id=True))
    assert 0 < session.turns < FRAGMENTS // 2


async def test_a_filter_sees_the_same_rows(uri: str, table: pa.Table) -> None:
    ds, _ = await open_warm(uri)
    found = await ds.to_table(filter="x < 0.5")
    assert found.equals(table.filter(pa.compute.less(table["x"], 0.5)))


@pytest.mark.parametrize("at_hand", [0, 1, 5])
async def test_what_is_not_in_memory_is_waited_for(
    uri: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch, at_hand: int
) -> None:
    ds, session = await open_warm(uri)
    read = StoreClient.read_cached
    calls = 0

    def rarely(
        self: StoreClient, path: str, ranges: Sequence[ByteRange], reads: CachedReads
    ) -> list[memoryview] | None:
        nonlocal calls
        calls += 1
        return read(self, path, ranges, reads) if calls % 7 < at_hand else None

    monkeypatch.setattr(StoreClient, "read_cached", rarely)
    assert (await ds.to_table()).equals(table)
    assert session.stats().budget_held == 0


async def test_a_small_budget_is_kept_to(uri: str, table: pa.Table) -> None:
    ds, session = await open_warm(uri, bytes_in_flight_max=2_000_000)
    held = []
    rows = 0
    async for batch in ds.scan():
        held.append(session.stats().budget_held)
        rows += batch.num_rows
    assert rows == table.num_rows
    assert max(held) <= 2_000_000
    assert session.stats().budget_held == 0


async def test_a_damaged_fragment_among_them_is_named(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds, session = await open_warm(uri)
    read = StoreClient.read_cached
    broken = ds.fragments[11].files[0].path

    def zeros(
        self: StoreClient, path: str, ranges: Sequence[ByteRange], reads: CachedReads
    ) -> list[memoryview] | None:
        found = read(self, path, ranges, reads)
        if found is None or not path.endswith(broken):
            return found
        return [memoryview(b"\xff" * len(view)) for view in found]

    monkeypatch.setattr(StoreClient, "read_cached", zeros)
    with pytest.raises(alance.CorruptFileError) as caught:
        await ds.to_table()
    assert broken in str(caught.value)
    assert session.stats().budget_held == 0
