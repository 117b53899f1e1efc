"""Late materialization: a filter's columns first, then the others' rows that pass, if cheaper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import alance
from alance.dataset.late import Selectivity, is_late_cheaper, near_rows, rest_bytes
from alance.encodings.rows import RowRanges
from alance.io.simulated import SimulatedStore
from alance.testing.stores import WrapperStore
from tests.dataset.helpers import ROOT, nothing_left, open_on, write_on

pytestmark = pytest.mark.anyio

NUM_ROWS = 4000


class CheapStore(WrapperStore):
    """A store whose requests cost nothing besides their bytes: all that can be late, is."""

    @property
    def request_cost_bytes(self) -> int:
        """So little that reading over a gap is never worth it."""
        return 1


def wide(num_rows: int) -> pa.Table:
    """A narrow sorted column, one that is scattered, and wide ones of several layouts."""
    rng = np.random.default_rng(3)
    numbers = np.arange(num_rows)
    texts = [None if i % 7 == 0 else f"row {i} " * 5 for i in range(num_rows)]
    return pa.table({
        "sorted": pa.array(numbers, pa.int64()),
        "mixed": pa.array(rng.integers(0, 100, num_rows), pa.int64()),
        "text": pa.array(texts, pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(rng.random(num_rows * 128), pa.float32()), 128
        ),
        "list": pa.array([list(range(i % 5)) for i in range(num_rows)], pa.list_(pa.int32())),
        "p": pa.array(
            [None if i % 11 == 0 else {"x": i, "y": f"member {i}"} for i in range(num_rows)],
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
        ),
        "long": pa.array([bytes([i % 256]) * (i % 3000) for i in range(num_rows)], pa.binary()),
    })


TABLE = wide(NUM_ROWS)
FILTERS: dict[str, Any] = {
    "sorted >= 1500 and sorted < 1520": lambda t: pc.and_(
        pc.greater_equal(t["sorted"], 1500), pc.less(t["sorted"], 1520)
    ),
    "mixed = 7": lambda t: pc.equal(t["mixed"], 7),
    "mixed < 50": lambda t: pc.less(t["mixed"], 50),
    "mixed >= 0": lambda t: pc.greater_equal(t["mixed"], 0),
    "mixed < 0": lambda t: pc.less(t["mixed"], 0),
    "text is null": lambda t: pc.is_null(t["text"]),
    "p.x % 100 = 3": lambda t: pc.equal(
        pc.subtract(
            pc.struct_field(t["p"], "x"),
            pc.multiply(pc.divide(pc.struct_field(t["p"], "x"), 100), 100),
        ),
        3,
    ),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def store() -> CheapStore:
    found = CheapStore(SimulatedStore())
    await write_on(alance.Session(), found, TABLE, "create", limits=_limits(1300))
    return found


@pytest.fixture(scope="module")
async def dataset(store: CheapStore) -> alance.Dataset:
    return await open_on(alance.Session(), store)


def _limits(max_rows_per_file: int) -> Any:
    from alance.dataset.writing import WriteLimits

    return WriteLimits(max_rows_per_file)


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize(
    "columns",
    [None, ["long"], ["vector", "sorted"], ["p.y", "mixed"], ["list", "text", "p"], []],
    ids=str,
)
async def test_rows_are_the_same(
    dataset: alance.Dataset, filter: str, columns: list[str] | None
) -> None:
    expected = TABLE.filter(FILTERS[filter](TABLE))
    found = await dataset.to_table(columns, filter=filter)
    for name in columns if columns is not None else TABLE.column_names:
        whole = expected["p"] if name == "p.y" else expected[name]
        wanted = pc.struct_field(whole, "y") if name == "p.y" else whole
        assert found[name].combine_chunks().equals(wanted.combine_chunks())
    assert found.num_rows == expected.num_rows


@given(
    filter=st.sampled_from(list(FILTERS)),
    limit=st.none() | st.integers(0, 100),
    offset=st.none() | st.integers(0, 60),
    batch_size=st.none() | st.integers(1, 50),
    ordered=st.booleans(),
)
@example(filter="mixed < 50", limit=3, offset=59, batch_size=2, ordered=True)
@pytest.mark.slow
async def test_any_arguments(
    dataset: alance.Dataset,
    filter: str,
    limit: int | None,
    offset: int | None,
    batch_size: int | None,
    ordered: bool,
) -> None:
    scan = dataset.scan(
        ["text", "sorted"],
        filter=filter,
        limit=limit,
        offset=offset,
        batch_size=batch_size,
        ordered=ordered,
        with_row_address=True,
    )
    async with nothing_left(dataset.session):
        batches = [batch async for batch in scan]
    passed = TABLE.filter(FILTERS[filter](TABLE))
    found = pa.Table.from_batches(batches, scan.schema)
    if batch_size is not None:
        assert all(batch.num_rows == batch_size for batch in batches[:-1])
    rows = found["sorted"].to_pylist()
    if ordered:
        expected = passed.slice(offset or 0, limit)
        assert rows == expected["sorted"].to_pylist()
    assert len(set(rows)) == passed.slice(offset or 0, limit).num_rows
    assert set(rows) <= set(passed["sorted"].to_pylist())
    assert found.select(["text"]).equals(TABLE.take(pa.array(rows, pa.int64())).select(["text"]))
    addresses = [i // 1300 << 32 | i % 1300 for i in rows]
    assert found["_rowaddr"].to_pylist() == addresses


async def test_deleted_rows_and_files_of_the_reference(tmp_path: Path) -> None:
    lance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=1500)
    reference = lance.dataset(tmp_path / ROOT)
    reference.delete("sorted % 3 = 1")
    inner = SimulatedStore()
    for path in (tmp_path / ROOT).rglob("*"):
        if path.is_file():
            inner.preload(f"{ROOT}/{path.relative_to(tmp_path / ROOT)}", path.read_bytes())
    ds = await open_on(alance.Session(), CheapStore(inner))
    for filter in FILTERS:
        expected = reference.to_table(filter=filter)
        assert (await ds.to_table(filter=filter)).equals(expected)
    found = await ds.to_table(["long"], filter="_rowaddr = 2", with_row_address=True)
    assert found["_rowaddr"].to_pylist() == [2]
    assert found["long"].to_pylist() == [b"\2\2"]


class TestBytes:
    """What is fetched, where requests cost little."""

    async def test_no_row_passes(self, store: CheapStore) -> None:
        ds = await open_on(alance.Session(), store)
        with alance.receipt() as all_at_once:
            await ds.to_table(["sorted"])
        ds = await open_on(alance.Session(), store)
        with alance.receipt() as spent:
            assert (await ds.to_table(filter="sorted > 1000000")).num_rows == 0
        assert spent.bytes_used == all_at_once.bytes_used, "the filter's column and nothing else"
        assert spent.rounds == all_at_once.rounds

    async def test_few_rows_pass(self, store: CheapStore) -> None:
        ds = await open_on(alance.Session(), store)
        stored = sum(file.file_size_bytes for f in ds.fragments for file in f.files)
        await ds.take([0])
        with alance.receipt() as spent:
            found = await ds.to_table(filter="sorted between 1500 and 1503")
        assert found.equals(TABLE.slice(1500, 4))
        assert spent.bytes_fetched < stored / 8

    async def test_a_limit_stops_early(self, store: CheapStore) -> None:
        ds = await open_on(alance.Session(), store)
        await ds.to_table(["sorted"], filter="mixed = 1")
        with alance.receipt() as spent:
            found = await ds.to_table(["long"], filter="mixed < 50", limit=3)
        assert found.num_rows == 3
        with alance.receipt() as whole:
            await ds.to_table(["long"], filter="mixed < 50")
        assert spent.bytes_fetched < whole.bytes_fetched / 2

    async def test_not_where_requests_cost_more_than_they_save(self) -> None:
        store = SimulatedStore()
        await write_on(alance.Session(), store, TABLE.slice(0, 500), "create")
        ds = await open_on(alance.Session(), store)
        await ds.take([0])
        with alance.receipt() as spent:
            await ds.to_table(["text", "sorted"], filter="sorted = 3")
        assert spent.rounds <= 1


class TestCost:
    """The model, which is pure."""

    def test_all_rows_of_a_wide_column(self) -> None:
        assert rest_bytes(1000, [4096.0], 1.0, 0) == pytest.approx(1000 * 4096)
        assert not is_late_cheaper(1000, [4096.0], 1.0, 1)

    def test_few_rows_of_a_wide_column(self) -> None:
        assert is_late_cheaper(100_000, [4096.0], 0.001, 1 << 20)
        assert not is_late_cheaper(100, [4096.0], 0.001, 1 << 20)

    def test_scattered_rows_of_a_narrow_column_touch_every_chunk(self) -> None:
        assert not is_late_cheaper(1_000_000, [8.0], 0.01, 1)
        assert is_late_cheaper(1_000_000, [8.0], 0.000_001, 1)

    def test_columns_without_bytes(self) -> None:
        assert not is_late_cheaper(1000, [0.0, 0.0], 0.001, 1 << 20)

    @given(
        num_rows=st.integers(1, 10**7),
        row_bytes=st.lists(st.floats(0, 1e6), max_size=5),
        share=st.floats(0, 1),
        cost=st.integers(0, 1 << 24),
    )
    def test_never_more_than_everything(
        self, num_rows: int, row_bytes: list[float], share: float, cost: int
    ) -> None:
        found = rest_bytes(num_rows, row_bytes, share, cost)
        assert 0 <= found <= num_rows * sum(row_bytes) * (1 + 1e-9)

    def test_what_was_seen_outweighs_the_guess(self) -> None:
        seen = Selectivity()
        assert seen.share == pytest.approx(0.1)
        seen.add(100_000, 100_000)
        assert seen.share > 0.98
        seen.add(10_000_000, 0)
        assert seen.share < 0.02

    @given(st.sets(st.integers(0, 200)), st.integers(0, 50))
    def test_near_rows_are_joined(self, rows: set[int], gap: int) -> None:
        exact = RowRanges.of_rows(np.array(sorted(rows), np.int64))
        found = near_rows(exact, gap)
        assert rows <= set(found.rows().tolist())
        assert (found.starts[1:] - found.stops[:-1] > gap).all()
        assert set(found.starts.tolist()) <= set(exact.starts.tolist())
        assert set(found.stops.tolist()) <= set(exact.stops.tolist())
