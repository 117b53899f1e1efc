"""Scans: which rows, columns and batches come out, whatever the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import alance
from alance import Fragment
from tests.dataset.helpers import ROOT, column_a, nothing_left, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 1000)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=300)


async def sizes(scan: alance.Scan) -> list[int]:
    return [batch.num_rows async for batch in scan]


class TestColumns:
    async def test_all_of_them(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table()
        assert found.equals(TABLE)
        assert found.schema.equals(dataset.schema, check_metadata=True)

    async def test_names_in_the_order_asked_for(self, dataset: alance.Dataset) -> None:
        assert (await dataset.to_table(["s", "a"])).equals(TABLE.select(["s", "a"]))

    async def test_members_of_structs(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(["p.y", "a", "p.x"], limit=2)
        assert found.to_pydict() == {"p.y": [0.0, 1.0], "a": [0, 1], "p.x": [0, 1]}
        assert found.schema.types == [pa.float64(), pa.int64(), pa.int32()]

    async def test_expressions(self, dataset: alance.Dataset) -> None:
        columns = {"double": "a * 2", "a": "s", "high": "p.y >= 1"}
        found = await dataset.to_table(columns, limit=3)
        assert found.to_pydict() == {
            "double": [0, 2, 4],
            "a": [None, "row 1", "row 2"],
            "high": [False, True, True],
        }

    async def test_none_at_all(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table([])
        assert (found.num_columns, found.num_rows) == (0, 1000)
        found = await dataset.to_table([], filter="a < 7")
        assert (found.num_columns, found.num_rows) == (0, 7)

    async def test_row_ids_and_addresses(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(
            ["a"], filter="a in (1, 301, 999)", with_row_id=True, with_row_address=True
        )
        places = [1, 1 << 32 | 1, 3 << 32 | 99]
        assert found.to_pydict() == {"a": [1, 301, 999], "_rowid": places, "_rowaddr": places}
        assert found.schema.field("_rowid").type == found.schema.field("_rowaddr").type
        assert found.schema.field("_rowid").type == pa.uint64()
        alone = await dataset.to_table([], limit=2, with_row_address=True)
        assert alone.to_pydict() == {"_rowaddr": [0, 1]}

    async def test_the_schema_is_known_before(self, dataset: alance.Dataset) -> None:
        with alance.receipt() as spent:
            scan = dataset.scan({"double": "p.y * 2"}, with_row_id=True)
            assert scan.schema == pa.schema([("double", pa.float64()), ("_rowid", pa.uint64())])
        assert spent.num_requests == 0
        assert (await scan.to_table()).schema == scan.schema


class TestRows:
    @pytest.mark.parametrize("filter", [None, "a >= 0", "a % 2 = 0"])
    @pytest.mark.parametrize("offset", [None, 0, 1, 299, 300, 450, 1000, 5000])
    @pytest.mark.parametrize("limit", [None, 0, 1, 301, 5000])
    async def test_limit_and_offset(
        self, dataset: alance.Dataset, filter: str | None, offset: int | None, limit: int | None
    ) -> None:
        found = await dataset.to_table(["a"], filter=filter, limit=limit, offset=offset)
        kept = [i for i in range(1000) if filter != "a % 2 = 0" or i % 2 == 0]
        start = offset or 0
        assert column_a(found) == kept[start : None if limit is None else start + limit]

    async def test_filter_on_columns_that_are_not_read(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(["s"], filter="p.x between 3 and 5 or s is null and a < 9")
        assert found["s"].to_pylist() == [None, "row 3", "row 4", None]

    async def test_chosen_fragments(self, dataset: alance.Dataset) -> None:
        last, first = dataset.fragments[3], dataset.fragments[0]
        mixed: list[Fragment | int] = [3, first]
        choices: list[Iterable[Fragment | int]] = [[last, first], [3, 0], iter(mixed)]
        for chosen in choices:
            found = await dataset.scan(["a"], fragments=chosen).to_table()
            assert column_a(found) == [*range(900, 1000), *range(300)]
        none: list[int] = []
        assert await dataset.scan(fragments=none).to_table() == TABLE.slice(0, 0)
        limited = await dataset.scan(["a"], fragments=[3, 0], offset=99, limit=2).to_table()
        assert column_a(limited) == [999, 0]

    async def test_in_any_order(self, dataset: alance.Dataset) -> None:
        found = await dataset.scan(ordered=False).to_table()
        assert found.sort_by("a").equals(TABLE)
        found = await dataset.scan(["a"], ordered=False, filter="a >= 500", limit=10).to_table()
        assert len(set(column_a(found))) == 10
        assert min(column_a(found)) >= 500

    @pytest.mark.slow
    @given(
        batch_size=st.none() | st.integers(1, 60),
        limit=st.none() | st.integers(0, 110),
        offset=st.none() | st.integers(0, 110),
        filter=st.sampled_from([None, "a % 3 = 0", "s is not null", "a > 90"]),
    )
    @example(batch_size=5, limit=1, offset=None, filter="a % 3 = 0")
    async def test_any_arguments(
        self,
        batch_size: int | None,
        limit: int | None,
        offset: int | None,
        filter: str | None,
    ) -> None:
        session = alance.Session()
        table = numbers(0, 100)
        ds = await alance.write_dataset(
            table, "memory://set.lance", max_rows_per_file=17, session=session
        )
        scan = ds.scan(limit=limit, offset=offset, filter=filter, batch_size=batch_size)
        batches = [batch async for batch in scan]
        keeps: dict[str | None, Callable[[int], bool]] = {
            None: lambda i: True,
            "a % 3 = 0": lambda i: i % 3 == 0,
            "s is not null": lambda i: i % 5 != 0,
            "a > 90": lambda i: i > 90,
        }
        rows = [i for i in range(100) if keeps[filter](i)][offset or 0 :][:limit]
        expected = table.take(pa.array(rows, pa.int64()))
        assert pa.Table.from_batches(batches, scan.schema).equals(expected)
        assert all(batch.num_rows for batch in batches)
        if batch_size is not None:
            assert all(batch.num_rows == batch_size for batch in batches[:-1])
            assert all(batch.num_rows <= batch_size for batch in batches[-1:])


class TestBatches:
    @pytest.mark.parametrize(
        ("batch_size", "expected"),
        [(400, [400, 400, 200]), (1000, [1000]), (5000, [1000]), (250, [250] * 4)],
    )
    async def test_exact_sizes(
        self, dataset: alance.Dataset, batch_size: int, expected: list[int]
    ) -> None:
        assert await sizes(dataset.scan(batch_size=batch_size)) == expected

    async def test_sizes_after_a_filter_and_a_limit(self, dataset: alance.Dataset) -> None:
        scan = dataset.scan(filter="a % 2 = 1", batch_size=64, offset=3, limit=200)
        assert await sizes(scan) == [64, 64, 64, 8]

    async def test_never_an_empty_one(self, dataset: alance.Dataset) -> None:
        assert await sizes(dataset.scan(filter="a < 0")) == []
        assert await sizes(dataset.scan(filter="a >= 900")) == [100]
        assert await sizes(dataset.scan(limit=0)) == []

    async def test_each_iteration_reads_anew(self, dataset: alance.Dataset) -> None:
        scan = dataset.scan(["a"], batch_size=300)
        for _ in range(2):
            assert await sizes(scan) == [300, 300, 300, 100]
        async with scan as batches:
            assert [batch.num_rows async for batch in batches] == [300, 300, 300, 100]
        assert column_a(await scan.to_table()) == list(range(1000))

    async def test_iterations_of_one_scan_do_not_mix(self, dataset: alance.Dataset) -> None:
        scan = dataset.scan(["a"], batch_size=100)
        found: dict[int, list[int]] = {}

        async def read(reader: int) -> None:
            rows: list[int] = []
            async with scan as batches:
                async for batch in batches:
                    rows += batch["a"].to_pylist()
                    if reader == 2 and len(rows) >= 300:
                        break
            found[reader] = rows

        async with nothing_left(), anyio.create_task_group() as tg:
            for reader in range(5):
                tg.start_soon(read, reader)
            tg.start_soon(scan.to_table)
        assert found.pop(2) == list(range(300))
        assert all(rows == list(range(1000)) for rows in found.values())

    async def test_blocks_of_one_scan_nest(self, dataset: alance.Dataset) -> None:
        scan = dataset.scan(["a"], batch_size=600)
        pairs = []
        async with scan as outer:
            async for one in outer:
                async with scan as inner:
                    pairs += [(one.num_rows, other.num_rows) async for other in inner]
        assert pairs == [(600, 600), (600, 400), (400, 600), (400, 400)]

    async def test_scans_in_scans_get_on_in_any_budget(self, tmp_path: Path) -> None:
        session = alance.Session(limits=alance.Limits(bytes_in_flight_max=1))
        ds = await alance.write_dataset(
            TABLE, tmp_path / ROOT, max_rows_per_file=100, session=session
        )
        num_pairs = 0
        with anyio.fail_after(60):
            async for one in ds.scan(["a"], batch_size=100):
                async for other in ds.scan(["a"], batch_size=100, limit=300):
                    num_pairs += one.num_rows * other.num_rows
        assert num_pairs == 1000 * 300
        await anyio.wait_all_tasks_blocked()
        assert session.budget.held == 0


async def test_an_empty_dataset(tmp_path: Path) -> None:
    ds = await alance.write_dataset(TABLE.slice(0, 0), tmp_path / ROOT)
    assert (await ds.to_table()).equals(TABLE.slice(0, 0))
    assert (await ds.to_table({"x": "a + 1"}, filter="a > 1")).num_rows == 0
    assert await sizes(ds.scan(batch_size=5)) == []


async def test_explain(dataset: alance.Dataset) -> None:
    with alance.receipt() as spent:
        said = dataset.scan(["s"], offset=350, limit=100).explain()
        filtered = dataset.scan({"x": "a + 1"}, filter="p.y > 3", limit=5).explain()
    assert spent.num_requests == 0
    assert "scan into columns s" in said
    assert f"fragment 1: rows 50 to 150 of 300 from {dataset.fragments[1].files[0].path}" in said
    assert "fragments pruned: 3" in said
    assert "before reading" in said
    assert "reads p" in filtered
    assert "keeps rows where" in filtered
    assert "reads p first, and a of the rows that pass" in filtered
    assert "after the filter" in filtered
    assert all(f"fragment {i}:" in filtered for i in range(4))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": ["b"]}, "column 'b' is not in the schema; columns: ['a', 's', 'p'"),
        ({"columns": ["A"]}, "'a'"),
        ({"columns": ["p.z"]}, "p.z"),
        ({"columns": ["a.x"]}, "a.x"),
        ({"columns": ["a", "a"]}, "asked for twice"),
        ({"columns": "a"}, "must be a list of names"),
        ({"columns": [1]}, "must be a list of names, or a dict of SQL expressions, not [1]"),
        ({"columns": {"x": "nope + 1"}}, "nope"),
        ({"columns": {"x": "a +"}}, "a +"),
        ({"columns": {"x": 5}}, "must be a string, not int"),
        ({"columns": 5}, "columns"),
        ({"filter": "a >"}, "a >"),
        ({"filter": "nope = 1"}, "nope"),
        ({"filter": "a + 1"}, "filter"),
        ({"filter": "s > 5"}, "s"),
        ({"filter": ""}, "is empty"),
        ({"filter": 5}, "must be a string, not int"),
        ({"filter": []}, "must be a string, not list"),
        ({"limit": -1}, "limit must be a whole number from 0, not -1"),
        ({"limit": "5"}, "limit must be a whole number from 0, not '5'"),
        ({"limit": 1.5}, "limit"),
        ({"limit": True}, "limit"),
        ({"offset": -1}, "offset must be a whole number from 0, not -1"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1, not 0"),
        ({"fragments": [9]}, "no fragment 9; it has [0, 1, 2, 3]"),
        ({"fragments": ["0"]}, "no fragment '0'"),
        ({"fragments": 0}, "fragments"),
    ],
    ids=repr,
)
async def test_arguments_that_make_no_sense(
    dataset: alance.Dataset, arguments: dict[str, Any], says: str
) -> None:
    with alance.receipt() as spent, pytest.raises(alance.InvalidInputError) as caught:
        dataset.scan(**arguments)
    assert says in str(caught.value)
    assert spent.num_requests == 0
