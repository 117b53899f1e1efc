"""Row ids and other columns that no file stores, beside pylance, for both kinds of ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import lance
import pyarrow as pa
import pytest

import alance
from alance.dataset.dataset import Dataset
from alance.table.row_ids import RowIdIndex
from tests.dataset.helpers import ROOT, column_a, numbers

pytestmark = pytest.mark.anyio

PSEUDO = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def reference(place: Path, *, stable: bool = True) -> lance.LanceDataset:
    """Rows that were deleted, updated, appended and compacted."""
    ds = lance.write_dataset(
        numbers(0, 100), place, max_rows_per_file=30, enable_stable_row_ids=stable
    )
    ds.delete("a in (3, 33, 34, 99)")
    ds.update({"s": "'new'"}, where="a % 7 = 0 and a < 60")
    lance.write_dataset(numbers(100, 130), place, mode="append", max_rows_per_file=20)
    ds = lance.dataset(place)
    ds.update({"s": "'newer'"}, where="a % 14 = 0")
    ds.optimize.compact_files(target_rows_per_fragment=60)
    ds = lance.dataset(place)
    ds.delete("a = 42 or a = 110")
    return lance.dataset(place)


@pytest.fixture(params=[True, False], ids=["stable", "addresses"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> lance.LanceDataset:
    return reference(tmp_path / ROOT, stable=request.param)


@pytest.fixture
async def ours(theirs: lance.LanceDataset) -> alance.Dataset:
    return await alance.open_dataset(theirs.uri, session=alance.Session())


class TestScans:
    async def test_all_columns_agree_with_the_reference(
        self, theirs: lance.LanceDataset, ours: alance.Dataset
    ) -> None:
        columns = ["a", *PSEUDO]
        assert (await ours.to_table(columns)).equals(theirs.to_table(columns=columns))

    async def test_versions_of_every_version(self, theirs: lance.LanceDataset) -> None:
        for version in range(1, theirs.version + 1):
            expected = lance.dataset(theirs.uri, version=version).to_table(columns=["a", *PSEUDO])
            ds = await alance.open_dataset(theirs.uri, version=version)
            assert (await ds.to_table(["a", *PSEUDO])).equals(expected)

    async def test_they_stand_where_they_are_named(self, ours: alance.Dataset) -> None:
        found = await ours.to_table(["_rowid", "a"], with_row_id=True, with_row_address=True)
        assert found.schema.names == ["_rowid", "a", "_rowaddr"]
        found = await ours.to_table([], with_row_address=True, with_row_id=True, limit=1)
        assert found.schema.names == ["_rowid", "_rowaddr"]
        assert set(found.schema.types) == {pa.uint64()}

    async def test_filters_and_expressions_may_use_them(
        self, theirs: lance.LanceDataset, ours: alance.Dataset
    ) -> None:
        where = "_rowid > 40 and _row_created_at_version > 2 or _rowaddr = 1"
        expected = theirs.to_table(filter=where)
        assert (await ours.to_table(filter=where)).equals(expected)
        assert await ours.count_rows(where) == len(expected)
        found = await ours.to_table({"twice": "_rowid * 2", "a": "a"}, filter="a < 9")
        ids = theirs.to_table(filter="a < 9", with_row_id=True)["_rowid"].to_pylist()
        assert found["twice"].to_pylist() == [2 * i for i in ids]

    async def test_limits_and_fragments(
        self, theirs: lance.LanceDataset, ours: alance.Dataset
    ) -> None:
        expected = theirs.to_table(columns=["_rowid"])["_rowid"].to_pylist()
        found = await ours.to_table(["_rowid"], offset=17, limit=40)
        assert found["_rowid"].to_pylist() == expected[17:57]
        found = await ours.scan(["_rowid"], fragments=[ours.fragments[-1]]).to_table()
        assert found["_rowid"].to_pylist() == expected[-len(found) :]

    async def test_a_column_is_asked_for_once(self, ours: alance.Dataset) -> None:
        with pytest.raises(alance.InvalidInputError, match="'_rowid' is asked for twice"):
            ours.scan(["_rowid", "_rowid"])
        with pytest.raises(alance.InvalidInputError, match="'_rowid' is asked for twice"):
            ours.scan({"_rowid": "a"}, with_row_id=True)

    async def test_files_alone_have_none(self, theirs: lance.LanceDataset) -> None:
        path = next((Path(theirs.uri) / "data").iterdir())
        file = await alance.open_file(path)
        with pytest.raises(alance.InvalidInputError, match="'_rowid' is not in the schema"):
            file.scan(["_rowid"])


class TestTakes:
    async def test_rows_by_id(self, theirs: lance.LanceDataset, ours: alance.Dataset) -> None:
        everything = theirs.to_table(with_row_id=True)
        ids = everything["_rowid"].to_pylist()
        wanted = [ids[i] for i in (5, 0, 90, 5, 60, 33, 89)]
        found = await ours.take_rows(wanted)
        assert found.equals(theirs._take_rows(wanted))
        assert (await ours.take_rows(everything["_rowid"])).equals(everything.drop(["_rowid"]))
        assert (await ours.take_rows(reversed(ids), ["a"]))["a"].to_pylist() == (
            everything["a"].to_pylist()[::-1]
        )

    async def test_ids_without_a_row_are_left_out(
        self, theirs: lance.LanceDataset, ours: alance.Dataset
    ) -> None:
        everything = theirs.to_table(with_row_id=True)
        by_id = dict(zip(everything["_rowid"].to_pylist(), column_a(everything), strict=True))
        asked = [*range(150), 77 << 32, (1 << 64) - 1, *list(by_id)[::-5], 3, (3 << 32) | 500]
        found = await ours.take_rows(asked, ["a", "_rowid"])
        assert found["_rowid"].to_pylist() == [i for i in asked if i in by_id]
        assert column_a(found) == [by_id[i] for i in asked if i in by_id]

    async def test_none_at_all(self, ours: alance.Dataset) -> None:
        for wanted in ([], [1 << 40]):
            found = await ours.take_rows(wanted)
            assert (found.schema, found.num_rows) == (ours.schema, 0)
        assert (await ours.take_rows([ours.fragments[0].id << 32], [])).num_columns == 0

    async def test_by_position_with_pseudo_columns(
        self, theirs: lance.LanceDataset, ours: alance.Dataset
    ) -> None:
        columns = ["a", *PSEUDO]
        wanted = [0, 50, 3, 3, 100]
        found = await ours.take(wanted, columns)
        assert found.equals(theirs.to_table(columns=columns).take(wanted))

    @pytest.mark.parametrize(
        ("wanted", "says"),
        [
            ([-1], "row_ids must be from 0, not -1"),
            ([1 << 64], "row_ids must be a flat sequence of integers"),
            (["1"], "row_ids must be a flat sequence of integers"),
            ([1.5], "row_ids must be a flat sequence of integers"),
            (7, "row_ids must be a flat sequence of integers"),
        ],
    )
    async def test_what_is_no_id(self, ours: alance.Dataset, wanted: Any, says: str) -> None:
        with pytest.raises(alance.InvalidInputError, match=says):
            await ours.take_rows(wanted)


async def test_an_index_reads_deletion_files_only_where_rows_have_moved(tmp_path: Path) -> None:
    place = tmp_path / ROOT
    ds = lance.write_dataset(
        numbers(0, 40), place, max_rows_per_file=10, enable_stable_row_ids=True
    )
    ds.delete("a in (3, 13, 23, 33)")
    plain = await alance.open_dataset(place, session=alance.Session())
    with alance.receipt() as spent:
        assert column_a(await plain.take_rows([15, 3, 4])) == [15, 4]
    assert (spent.requests, spent.rounds) == ({"get": 4}, 1)  # two files, two deletion files
    with alance.receipt() as spent:
        await plain.take_rows([15, 3, 4])
    assert spent.num_requests == 0
    ds.update({"s": "'new'"}, where="a in (12, 14)")
    moved = await alance.open_dataset(place, session=alance.Session())
    with alance.receipt() as spent:
        assert column_a(await moved.take_rows([12, 13, 14, 15])) == [12, 14, 15]
    assert spent.rounds == 2
    assert spent.requests == {"get": 1 + 2}


async def test_many_tasks_share_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = await alance.write_dataset(numbers(0, 40), tmp_path / ROOT, enable_stable_row_ids=True)
    built: list[RowIdIndex] = []
    build = RowIdIndex.build

    def count(fragments: Any) -> RowIdIndex:
        built.append(build(fragments))
        return built[-1]

    monkeypatch.setattr(RowIdIndex, "build", count)
    found: list[list[int]] = []

    async def take(i: int) -> None:
        found.append(column_a(await ds.take_rows([i, 90], ["a"])))

    async with anyio.create_task_group() as tg:
        for i in range(40):
            tg.start_soon(take, i)
    assert sorted(found) == [[i] for i in range(40)]
    assert len(built) == 1


async def test_appends_and_overwrites_carry_ids_on(tmp_path: Path) -> None:
    place = tmp_path / ROOT
    ds = await alance.write_dataset(numbers(0, 10), place, enable_stable_row_ids=True)
    lance.dataset(place).delete("a = 9")
    ds = await (await ds.latest()).append(numbers(10, 15))
    assert (await ds.to_table(["_rowid"]))["_rowid"].to_pylist() == [*range(9), *range(10, 15)]
    ds = await ds.overwrite(numbers(50, 55))
    found = await ds.to_table(["a", *PSEUDO])
    assert found["_rowid"].to_pylist() == list(range(15, 20))
    assert set(found["_row_created_at_version"].to_pylist()) == {4}
    theirs = lance.write_dataset(numbers(55, 60), place, mode="append")
    ds = await ds.latest()
    columns = ["a", *PSEUDO]
    assert (await ds.to_table(columns)).equals(theirs.to_table(columns=columns))
    assert column_a(await ds.take_rows([24, 3, 15])) == [59, 50]


async def test_a_fragment_without_row_ids_is_refused(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 10), tmp_path / ROOT, enable_stable_row_ids=True)
    bare = tuple(replace(fragment, row_ids=None) for fragment in ds.fragments)
    broken = Dataset(ds._handle, replace(ds._manifest, fragments=bare))
    with pytest.raises(alance.CorruptFileError, match="fragment 0 has none"):
        await broken.take_rows([1])
    with pytest.raises(alance.CorruptFileError, match="fragment 0 has none"):
        broken.scan(with_row_id=True)
    assert (await broken.to_table(["a", "_rowaddr"])).num_rows == 10


async def test_row_ids_of_another_number_are_refused(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 10), tmp_path / ROOT, enable_stable_row_ids=True)
    longer = tuple(replace(fragment, physical_rows=11) for fragment in ds.fragments)
    broken = Dataset(ds._handle, replace(ds._manifest, fragments=longer))
    with pytest.raises(alance.CorruptFileError, match="row ids of fragment 0"):
        await broken.take_rows([1])


@pytest.mark.parametrize("name", [*PSEUDO, "_rowoffset"])
async def test_names_that_are_reserved(tmp_path: Path, name: str) -> None:
    table = pa.table({"a": [1], name: [2]})
    with pytest.raises(alance.InvalidInputError, match=f"column name '{name}' is reserved"):
        await alance.write_dataset(table, tmp_path / ROOT)
    with pytest.raises(OSError, match="reserved name"):
        lance.write_dataset(table, tmp_path / "theirs.lance")
    assert not (tmp_path / ROOT).exists()


async def test_a_column_of_an_older_writer_with_such_a_name(tmp_path: Path) -> None:
    ds = await alance.write_dataset(pa.table({"a": [1, 2], "b": [7, 8]}), tmp_path / ROOT)
    fields = tuple(
        replace(field, name="_rowid" if field.name == "b" else "a")
        for field in ds._manifest.schema.fields
    )
    schema = replace(ds._manifest.schema, fields=fields)
    old = Dataset(ds._handle, replace(ds._manifest, schema=schema))
    assert (await old.to_table(filter="_rowid = 8")).to_pydict() == {"a": [2], "_rowid": [8]}
    assert (await old.take_rows([1])).to_pydict() == {"a": [2], "_rowid": [8]}
    with pytest.raises(alance.InvalidInputError, match="a stored column '_rowid'"):
        old.scan(with_row_id=True)


class TestSamples:
    async def test_the_same_seed_gives_the_same_rows(self, ours: alance.Dataset) -> None:
        first = await ours.sample(20, 5)
        assert first.equals(await ours.sample(20, seed=5))
        assert not first.equals(await ours.sample(20, seed=6))
        found = column_a(first)
        assert len(set(found)) == 20
        assert set(found) <= set(column_a(await ours.to_table(["a"])))
        assert found != sorted(found)

    async def test_all_rows_where_there_are_fewer(self, ours: alance.Dataset) -> None:
        found = await ours.sample(5000, columns=["a"])
        assert sorted(column_a(found)) == sorted(column_a(await ours.to_table(["a"])))
        assert (await ours.sample(0)).num_rows == 0

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [((-1,), "n must be"), ((2, -1), "seed must be"), ((2, "x"), "seed must be")],
    )
    async def test_what_is_no_number(
        self, ours: alance.Dataset, arguments: Iterable[Any], says: str
    ) -> None:
        with pytest.raises(alance.InvalidInputError, match=says):
            await ours.sample(*arguments)

    async def test_an_empty_dataset(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(numbers(0, 0), tmp_path / "empty.lance")
        assert (await ds.sample(5)).num_rows == 0


async def test_indices_share_the_limit_of_the_caches(tmp_path: Path) -> None:
    theirs = reference(tmp_path / ROOT)
    wanted = theirs.to_table(columns=["a"], with_row_id=True)
    roomy, tight = alance.Session(), alance.Session(limits=alance.Limits(cache_bytes_max=1))
    for session in (roomy, tight):
        ds = await alance.open_dataset(theirs.uri, session=session)
        for _ in range(2):
            found = await ds.take_rows(wanted["_rowid"].to_pylist(), ["a"])
            assert found["a"] == wanted["a"]
    kept = roomy.stats().caches["row_indices"]
    assert (kept.num_misses, kept.num_hits, kept.num_values) == (1, 1, 1)
    assert kept.num_bytes > 0
    kept = tight.stats().caches["row_indices"]
    assert (kept.num_misses, kept.num_hits, kept.num_values) == (2, 0, 0)
