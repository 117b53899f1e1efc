"""Deleting rows: which ones go, what is written and committed, and what others may do meanwhile."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import lance
import pyarrow as pa
import pytest

import alance
from alance.dataset.dataset import Dataset
from alance.table.manifest import DeletionKind
from alance.table.operations import Delete
from alance.table.transaction import Transaction
from alance.table.transactions import read_transaction
from tests.dataset.helpers import ROOT, column_a, files, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 100)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=30)


async def transaction_of(ds: alance.Dataset) -> Transaction:
    found = await read_transaction(ds._handle.places.table, ds._manifest)
    assert found is not None
    return found


def deletion_files(place: Path) -> set[str]:
    return {name for name in files(place) if name.startswith("_deletions/")}


class TestWhichRowsGo:
    @pytest.mark.parametrize(
        "predicate",
        [
            "a = 7",
            "a in (0, 29, 30, 99)",
            "a >= 30 and a < 60",
            "a < 35",
            "s is null",
            "s = 'row 8'",
            "s != 'row 8'",
            "p.x % 3 = 1 or p.y > 90.5",
            "not (s like 'row 1%')",
            "a = null",
            "a > 1000",
            "true",
            "false",
            "_rowaddr = 3",
            "_rowid > 40",
        ],
    )
    async def test_the_same_as_for_the_reference(
        self, dataset: alance.Dataset, tmp_path: Path, predicate: str
    ) -> None:
        copy = tmp_path / "copy.lance"
        shutil.copytree(dataset.uri, copy)
        theirs = lance.dataset(copy)
        theirs.delete(predicate)
        ours = await dataset.delete(predicate)
        assert ours.version == theirs.version == 2
        expected = lance.dataset(copy)
        assert (await ours.to_table()).equals(expected.to_table())
        assert lance.dataset(dataset.uri).to_table().equals(expected.to_table())
        assert await ours.count_rows() == expected.count_rows()
        shapes = [(f.id, f.physical_rows, f.num_rows) for f in ours.fragments]
        assert shapes == [
            (f.fragment_id, f.physical_rows, f.count_rows()) for f in (expected.get_fragments())
        ]
        lance.dataset(dataset.uri).validate()
        assert await dataset.count_rows() == 100, "the old version keeps its rows"

    async def test_again_and_again(self, dataset: alance.Dataset) -> None:
        left = set(range(100))
        ds = dataset
        for predicate, gone in [
            ("a % 10 = 3", {i for i in range(100) if i % 10 == 3}),
            ("a % 10 = 3", set()),
            ("a < 20", set(range(20))),
            ("a between 31 and 50", set(range(31, 51))),
            ("s is null and a < 80", {i for i in range(80) if i % 5 == 0}),
            ("true", set(range(100))),
        ]:
            ds = await ds.delete(predicate)
            left -= gone
            assert column_a(await ds.to_table()) == sorted(left)
            assert column_a(lance.dataset(ds.uri).to_table()) == sorted(left)
        assert (ds.version, len(ds.fragments)) == (7, 0)
        ds = await ds.append(numbers(100, 103))
        assert column_a(await ds.to_table()) == [100, 101, 102]

    async def test_many_rows_of_large_fragments(self, tmp_path: Path) -> None:
        table = pa.table({"a": range(60_000)})
        ds = await alance.write_dataset(table, tmp_path / ROOT, max_rows_per_file=40_000)
        ds = await ds.delete("a % 8 = 0 and a < 39992 or a = 40001")
        found = [f.deletion_file for f in ds.fragments]
        assert [(d.kind, d.num_deleted_rows) for d in found if d] == [
            (DeletionKind.ARROW, 4999),
            (DeletionKind.ARROW, 1),
        ]
        ds = await ds.delete("a = 1")
        assert [f.deletion_file.kind for f in ds.fragments if f.deletion_file] == [
            DeletionKind.BITMAP,
            DeletionKind.ARROW,
        ]
        left = [i for i in range(60_000) if i not in (1, 40_001) and (i % 8 or i >= 39_992)]
        assert column_a(await ds.to_table()) == left
        assert column_a(lance.dataset(ds.uri).to_table()) == left

    async def test_stable_row_ids_stay(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(
            TABLE, tmp_path / ROOT, max_rows_per_file=30, enable_stable_row_ids=True
        )
        ds = await (await ds.delete("a % 2 = 0")).append(numbers(100, 105))
        ids = [*range(1, 100, 2), *range(100, 105)]
        found = await ds.to_table(["a"], with_row_id=True)
        assert found["_rowid"].to_pylist() == column_a(found) == ids
        theirs = lance.dataset(ds.uri)
        assert theirs.to_table(columns=["a"], with_row_id=True).equals(found)
        assert column_a(await ds.take_rows([7, 8, 103])) == [7, 103]


class TestWhatIsCommitted:
    async def test_the_transaction_says_what_happened(self, dataset: alance.Dataset) -> None:
        ds = await dataset.delete("a < 33", transaction_properties={"why": "old"})
        done = await transaction_of(ds)
        assert isinstance(done.operation, Delete)
        assert done.operation.predicate == "a < 33"
        assert done.operation.deleted_fragment_ids == (0,)
        assert done.operation.updated_fragments == (ds.fragments[0],)
        assert (done.read_version, done.properties) == (1, {"why": "old"})
        assert ds._manifest.reader_flags & 1

    async def test_nothing_matched_is_a_version_all_the_same(self, dataset: alance.Dataset) -> None:
        ds = await dataset.delete("a = -1")
        done = await transaction_of(ds)
        assert done.operation == Delete(predicate="a = -1")
        assert (ds.version, ds.fragments) == (2, dataset.fragments)
        assert not deletion_files(Path(ds.uri))

    async def test_the_old_file_stays_for_the_old_version(self, dataset: alance.Dataset) -> None:
        first = await dataset.delete("a = 1")
        second = await first.delete("a = 2")
        assert len(deletion_files(Path(dataset.uri))) == 2
        file = second.fragments[0].deletion_file
        assert file is not None
        assert (file.num_deleted_rows, file.read_version) == (2, 2)
        assert await (await second.checkout(2)).count_rows("a in (1, 2)") == 1


class TestBadCalls:
    @pytest.mark.parametrize(
        ("predicate", "says"),
        [
            ("", "SQL"),
            ("a =", "SQL"),
            ("nowhere = 1", "there is no column 'nowhere'"),
            ("a + 1", "not boolean"),
            ("a = 'x'", "compare"),
            (None, "SQL"),
            (5, "SQL"),
        ],
    )
    async def test_bad_predicates(self, dataset: alance.Dataset, predicate: Any, says: str) -> None:
        with (
            alance.receipt() as spent,
            pytest.raises(alance.InvalidInputError, match=says),
        ):
            await dataset.delete(predicate)
        assert spent.num_requests == 0

    async def test_bad_properties(self, dataset: alance.Dataset) -> None:
        properties: Any = {"why": 5}
        with (
            alance.receipt() as spent,
            pytest.raises(alance.InvalidInputError, match="transaction_properties must map text"),
        ):
            await dataset.delete("a = 1", transaction_properties=properties)
        assert spent.num_requests == 0

    async def test_a_table_that_must_not_be_written(self, dataset: alance.Dataset) -> None:
        manifest = replace(dataset._manifest, writer_flags=1 << 40)
        with (
            alance.receipt() as spent,
            pytest.raises(alance.UnsupportedFeatureError, match="bit 40"),
        ):
            await Dataset(dataset._handle, manifest).delete("a = 1")
        assert spent.num_requests == 0

    async def test_a_damaged_deletion_file(self, dataset: alance.Dataset) -> None:
        await dataset.delete("a = 1")
        place = Path(dataset.uri)
        (name,) = deletion_files(place)
        data = (place / name).read_bytes()
        (place / name).write_bytes(data[: len(data) // 2])
        before = files(place)
        ds = await alance.open_dataset(place, session=alance.Session())
        with pytest.raises(alance.CorruptFileError, match="_deletions/"):
            await ds.delete("a = 2")
        (place / name).unlink()
        del before[name]
        with pytest.raises(alance.NotFoundError):
            await ds.delete("a = 2")
        assert files(place) == before


class TestOthers:
    @pytest.mark.parametrize("width", [1, 2], ids=["different", "overlapping"])
    async def test_several_at_once(self, dataset: alance.Dataset, width: int) -> None:
        async def delete(i: int) -> None:
            ds = await dataset.delete(f"a >= {i * 10} and a < {i * 10 + width * 6}")
            assert not await ds.count_rows(f"a = {i * 10}")

        async with anyio.create_task_group() as tg:
            for i in range(4):
                tg.start_soon(delete, i)
        newest = await dataset.latest()
        gone = {i * 10 + j for i in range(4) for j in range(width * 6)}
        assert column_a(await newest.to_table()) == [i for i in range(100) if i not in gone]
        assert newest.version == 5
        assert column_a(lance.dataset(dataset.uri).to_table()) == column_a(await newest.to_table())

    async def test_other_rows_of_the_same_fragment(self, dataset: alance.Dataset) -> None:
        await dataset.delete("a = 1")
        ds = await dataset.delete("a in (2, 40)")
        assert column_a(await ds.to_table()) == [i for i in range(100) if i not in (1, 2, 40)]
        kinds = [f.deletion_file.kind for f in ds.fragments if f.deletion_file]
        assert kinds == [DeletionKind.BITMAP, DeletionKind.ARROW], "merged, not run again"
        assert (await transaction_of(ds)).read_version == 2

    async def test_the_same_rows(self, dataset: alance.Dataset) -> None:
        await dataset.delete("a in (1, 2)")
        ds = await dataset.delete("a in (2, 3, 70)")
        assert column_a(await ds.to_table()) == [i for i in range(100) if i not in (1, 2, 3, 70)]
        assert (await transaction_of(ds)).read_version == 2
        assert len(deletion_files(Path(ds.uri))) == 3, "those of the first run are gone"

    async def test_rows_appended_meanwhile_stay(self, dataset: alance.Dataset) -> None:
        await dataset.append(numbers(0, 10))
        ds = await dataset.delete("a < 20")
        assert column_a(await ds.to_table()) == [*range(20, 100), *range(10)]

    async def test_but_not_where_all_is_run_again(self, dataset: alance.Dataset) -> None:
        await (await dataset.append(numbers(0, 10))).delete("a = 5")
        ds = await dataset.delete("a < 20")
        assert column_a(await ds.to_table()) == list(range(20, 100))

    async def test_an_overwrite_meanwhile(self, dataset: alance.Dataset) -> None:
        await dataset.overwrite(numbers(0, 10))
        before = files(Path(dataset.uri))
        with pytest.raises(alance.CommitConflictError, match="Delete"):
            await dataset.delete("a < 20")
        assert files(Path(dataset.uri)) == before

    async def test_a_fragment_that_another_emptied(self, dataset: alance.Dataset) -> None:
        await dataset.delete("a < 30")
        ds = await dataset.delete("a < 35")
        assert column_a(await ds.to_table()) == list(range(35, 100))

    async def test_the_reference_beside_us(self, dataset: alance.Dataset) -> None:
        theirs = lance.dataset(dataset.uri)
        theirs.delete("a = 1")
        ds = await dataset.delete("a = 2")
        old = lance.dataset(dataset.uri, version=1)
        old.delete("a in (2, 3)")
        lance.dataset(dataset.uri).optimize.compact_files(materialize_deletions_threshold=0.01)
        ds = await ds.delete("a = 4")
        gone = (1, 2, 3, 4)
        assert column_a(await ds.to_table()) == [i for i in range(100) if i not in gone]
        assert column_a(lance.dataset(ds.uri).to_table()) == column_a(await ds.to_table())

    async def test_no_retries_are_no_second_run(self, dataset: alance.Dataset) -> None:
        await dataset.delete("a in (1, 2)")
        before = files(Path(dataset.uri))
        with pytest.raises(alance.RetryableCommitError):
            await dataset.delete("a = 2", conflict_retries=0)
        assert files(Path(dataset.uri)) == before
