"""Reads of datasets with deleted rows: every way to read leaves them out, as the reference does."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

import alance
from alance.dataset.dataset import Dataset
from alance.io.simulated import SimulatedStore
from alance.session import DeletedOffsets
from alance.table.deletion import write_deletion_file
from alance.table.manifest import BasePath, DeletionKind
from tests.dataset.helpers import ROOT, column_a, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

ROWS = 60


@dataclass(frozen=True)
class Step:
    """What one of the two libraries does next."""

    by_reference: bool
    predicate: str | None
    """None appends rows."""
    gone: frozenset[int] = frozenset()


def deletions() -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Predicates, with the values below 200 that they match."""
    some = st.frozensets(st.integers(0, ROWS + 20), min_size=1, max_size=6)
    bounds = st.tuples(st.integers(0, ROWS), st.integers(1, 40))
    steps = st.tuples(st.integers(2, 7), st.integers(0, 6))
    return st.one_of(
        some.map(lambda rows: (f"a in ({', '.join(map(str, rows))})", rows)),
        bounds.map(
            lambda b: (f"a >= {b[0]} and a < {b[0] + b[1]}", frozenset(range(b[0], sum(b))))
        ),
        steps.map(
            lambda m: (
                f"a % {m[0]} = {m[1]}",
                frozenset(i for i in range(200) if i % m[0] == m[1]),
            )
        ),
    )


def histories() -> st.SearchStrategy[list[Step]]:
    deletes = st.tuples(st.booleans(), deletions()).map(lambda d: Step(d[0], *d[1]))
    appends = st.booleans().map(lambda theirs: Step(theirs, None))
    return st.lists(st.one_of(deletes, deletes, deletes, appends), min_size=1, max_size=5)


async def take_step(ds: Dataset, step: Step, rows: list[int]) -> tuple[Dataset, list[int]]:
    """Do it, and to the model as well."""
    if step.predicate is None:
        start = max(rows, default=ROWS) + 1
        more = numbers(start, start + 7)
        if step.by_reference:
            lance.write_dataset(more, ds.uri, mode="append")
        else:
            await ds.append(more)
        return await ds.latest(), rows + list(range(start, start + 7))
    if step.by_reference:
        lance.dataset(ds.uri).delete(step.predicate)
    else:
        await ds.delete(step.predicate)
    return await ds.latest(), [i for i in rows if i not in step.gone]


async def check_reads(ds: Dataset, rows: Sequence[int]) -> None:
    """Every way to read agrees with a plain list, and with the reference."""
    expected = lance.dataset(ds.uri)
    everything = await ds.to_table(with_row_id=True, with_row_address=True)
    assert column_a(everything) == list(rows)
    assert everything.equals(expected.to_table(with_row_id=True, with_row_address=True))
    assert await ds.count_rows() == len(rows) == expected.count_rows()
    assert await ds.count_rows("a % 2 = 0") == sum(i % 2 == 0 for i in rows)
    assert (
        column_a(await ds.to_table(["a"], filter="a > 20", limit=9, offset=3))
        == [i for i in rows if i > 20][3:12]
    )
    assert column_a(await ds.to_table(["a"], limit=11, offset=5)) == list(rows[5:16])
    assert column_a(await ds.head(4)) == list(rows[:4])
    assert sorted(column_a(await ds.sample(5, 1))) == sorted(set(column_a(await ds.sample(5, 1))))
    positions = [i for i in (len(rows) - 1, 0, len(rows) // 2, 0) if 0 <= i < len(rows)]
    assert column_a(await ds.take(positions)) == [rows[i] for i in positions]
    with pytest.raises(alance.InvalidInputError, match="out of range"):
        await ds.take([len(rows)])
    ids = everything["_rowid"].to_pylist()
    assert column_a(await ds.take_rows(ids[::-3])) == list(rows[::-3])
    parts = [await ds.scan(["a"], fragments=[each]).to_table() for each in ds.fragments]
    assert [i for part in parts for i in column_a(part)] == list(rows)
    assert [len(part) for part in parts] == [each.num_rows for each in ds.fragments]


@pytest.mark.slow
@settings(max_examples=10)
@given(history=histories(), stable=st.booleans(), per_file=st.sampled_from([7, 25, 100]))
async def test_any_history_of_both_libraries(
    history: list[Step], stable: bool, per_file: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        ds = await alance.write_dataset(
            numbers(0, ROWS),
            f"{place}/{ROOT}",
            max_rows_per_file=per_file,
            enable_stable_row_ids=stable,
        )
        rows = list(range(ROWS))
        for step in history:
            ds, rows = await take_step(ds, step, rows)
            await check_reads(ds, rows)


@pytest.mark.slow
@pytest.mark.parametrize("num_deleted", [100, 6000])
async def test_rows_deleted_across_windows_and_pages(tmp_path: Path, num_deleted: int) -> None:
    num_rows = 20_000
    values = np.random.default_rng(3).permutation(num_rows)
    table = pa.table({"a": values, "s": [f"text {i}" for i in values]})
    ds = await alance.write_dataset(table, tmp_path / ROOT)
    ds = await ds.delete(f"a < {num_deleted}")
    (only,) = ds.fragments
    assert only.deletion_file is not None
    kind = DeletionKind.ARROW if num_deleted < 5000 else DeletionKind.BITMAP
    assert only.deletion_file.kind is kind
    live = table.filter(pa.array(values >= num_deleted))
    assert (await ds.to_table()).equals(live)
    assert (await ds.to_table(offset=700, limit=9000)).equals(live.slice(700, 9000))
    sizes = [batch.num_rows async for batch in ds.scan(batch_size=999)]
    assert set(sizes[:-1]) == {999}
    wanted = np.random.default_rng(4).integers(0, len(live), 300)
    assert (await ds.take(wanted)).equals(live.take(wanted))
    assert lance.dataset(ds.uri).to_table().equals(live)


async def test_a_fragment_of_which_all_rows_are_deleted(tmp_path: Path) -> None:
    """No writer should leave one, but a deletion file may say so."""
    ds = await alance.write_dataset(numbers(0, 30), tmp_path / ROOT, max_rows_per_file=10)
    places, middle = ds._handle.places, ds.fragments[1]
    file = await write_deletion_file(
        places.client, places.root, middle.id, BitMap(range(10)), read_version=1
    )
    emptied = (ds.fragments[0], replace(middle, deletion_file=file), ds.fragments[2])
    ds = Dataset(ds._handle, replace(ds._manifest, fragments=emptied))
    left = [*range(10), *range(20, 30)]
    assert column_a(await ds.to_table()) == left
    assert column_a(await ds.to_table(limit=5, offset=8)) == left[8:13]
    assert column_a(await ds.take([9, 10, 0])) == [9, 20, 0]
    assert column_a(await ds.take_rows([5, 1 << 32, 2 << 32])) == [5, 20]
    assert await ds.count_rows("a < 25") == 15
    assert column_a(await ds.scan(fragments=[1]).to_table()) == []
    ds = await ds.delete("a < 5")
    assert [fragment.num_rows for fragment in ds.fragments] == [5, 0, 10]
    assert column_a(await ds.to_table()) == left[5:]
    assert column_a(lance.dataset(ds.uri).to_table()) == left[5:]


async def test_deletion_files_come_in_one_round_with_footers(tmp_path: Path) -> None:
    store = SimulatedStore()
    await write_on(alance.Session(), store, numbers(0, 90), "create")
    for start in (100, 200):
        await write_on(alance.Session(), store, numbers(start, start + 90), "append")
    await (await open_on(alance.Session(), store)).delete("a % 10 = 3")
    ds = await open_on(alance.Session(), store)
    with alance.receipt() as spent:
        assert await ds.count_rows() == 243
    assert spent.num_requests == 0
    with alance.receipt() as spent:
        assert column_a(await ds.take([3, 240], ["a"])) == [4, 287]
    assert (spent.requests, spent.rounds) == ({"get": 4}, 1)
    with alance.receipt() as spent:
        assert len(await ds.to_table(["a"])) == 243
    assert (spent.requests, spent.rounds) == ({"get": 2}, 1)
    with alance.receipt() as spent:
        await ds.to_table(["a"])
        await ds.take([100])
        await ds.take_rows([3, 7])
    assert spent.num_requests == 0, "the session keeps them"


async def test_kept_deletion_vectors_give_way(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 60), tmp_path / ROOT, max_rows_per_file=10)
    ds = await ds.delete("a % 2 = 0")
    limits = alance.Limits(cache_bytes_max=2 * DeletedOffsets(np.arange(5)).cached_bytes)
    session = alance.Session(limits=limits)
    ds = await alance.open_dataset(ds.uri, session=session)
    for _ in range(2):
        assert column_a(await ds.to_table()) == list(range(1, 60, 2))
    assert len(session.deletions) <= 2


async def test_many_readers_share_a_deletion_file(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 60), tmp_path / ROOT)
    ds = await alance.open_dataset((await ds.delete("a = 5")).uri, session=alance.Session())
    found: list[list[int]] = []

    async def read() -> None:
        found.append(column_a(await ds.take([5], ["a"])))

    async with anyio.create_task_group() as tg:
        for _ in range(20):
            tg.start_soon(read)
    assert found == [[6]] * 20


class TestOtherPlaces:
    """Deletion files below base paths, as clones and branches have them."""

    async def moved(self, tmp_path: Path, *, is_root: bool) -> alance.Dataset:
        """A dataset whose deletion file has gone to a base path."""
        ds = await alance.write_dataset(numbers(0, 20), tmp_path / ROOT)
        ds = await ds.delete("a in (3, 4)")
        other = tmp_path / "other"
        other.mkdir()
        (tmp_path / ROOT / "_deletions").rename(other / "_deletions")
        (only,) = ds.fragments
        assert only.deletion_file is not None
        elsewhere = replace(only, deletion_file=replace(only.deletion_file, base_id=7))
        manifest = replace(
            ds._manifest,
            fragments=(elsewhere,),
            base_paths=(BasePath(7, str(other), is_root),),
        )
        return Dataset(replace(ds._handle, session=alance.Session()).at(manifest), manifest)

    async def test_below_another_dataset(self, tmp_path: Path) -> None:
        ds = await self.moved(tmp_path, is_root=True)
        assert column_a(await ds.to_table()) == [*range(3), *range(5, 20)]

    async def test_below_what_is_no_dataset(self, tmp_path: Path) -> None:
        ds = await self.moved(tmp_path, is_root=False)
        with pytest.raises(alance.CorruptFileError, match="below base path 7, which is no"):
            await ds.to_table()

    async def test_a_clone_deletes_for_itself(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(numbers(0, 20), tmp_path / ROOT)
        ds = await ds.delete("a in (3, 4)")
        place = tmp_path / "clone.lance"
        lance.dataset(ds.uri).shallow_clone(str(place), ds.version)
        clone = await (await alance.open_dataset(place)).delete("a in (5, 6)")
        assert column_a(await clone.to_table()) == [*range(3), *range(7, 20)]
        assert column_a(lance.dataset(place).to_table()) == column_a(await clone.to_table())
        (file,) = (each.deletion_file for each in clone.fragments)
        assert file is not None
        assert file.base_id is None
        assert await ds.count_rows() == 18
