"""Deletes that meet other deletes: merged, run again, and nothing left of lost attempts."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import anyio
import pytest
from pyroaring import BitMap

from alance.errors import AlanceError, InvalidInputError, RetryableCommitError, StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.deletion import deletion_path, read_deletion_vector, write_deletion_file
from alance.table.manifest import Manifest
from alance.table.operations import Delete
from alance.table.transaction import Transaction
from alance.table.transactions import read_transaction
from alance.table.versions import read_manifest
from tests.table.samples import ROOT, append, at, creation, paths, put

pytestmark = pytest.mark.anyio

Rows = AbstractSet[int]


async def table() -> tuple[SimulatedStore, Manifest]:
    store = SimulatedStore()
    base = await put(store, creation(), None)
    return store, base


async def deletion(store: SimulatedStore, base: Manifest, uuid: str, rows: Rows) -> Transaction:
    """A change that hides rows of the only fragment, its deletion file written."""
    (only,) = base.fragments
    file = await write_deletion_file(store, ROOT, only.id, BitMap(rows), read_version=base.version)
    return Transaction(base.version, uuid, Delete((replace(only, deletion_file=file),)))


async def delete(store: SimulatedStore, base: Manifest, uuid: str, rows: Rows) -> Manifest:
    mine = await deletion(store, base, uuid, rows)
    return await put(store, mine, base, affected_rows={0: BitMap(rows)})


async def hidden(store: SimulatedStore, version: Manifest) -> set[int]:
    return set((await read_deletion_vector(store, ROOT, version.fragments[0])).tolist())


def files(store: SimulatedStore, folder: str) -> list[str]:
    prefix = f"{ROOT}/{folder}/"
    return sorted(path.removeprefix(prefix) for path in store.objects if path.startswith(prefix))


async def test_deletes_of_different_rows_merge() -> None:
    store, base = await table()
    theirs = await delete(store, base, "theirs", {1, 2})
    made = await delete(store, base, "mine", {5})
    assert (made.version, await hidden(store, made)) == (3, {1, 2, 5})
    assert made == await read_manifest(at(store))
    record = await read_transaction(at(store), made)
    assert record is not None
    assert (record.read_version, record.uuid) == (2, "mine")
    assert files(store, "_transactions") == ["0-create.txn", "1-theirs.txn", "2-mine.txn"]
    kept = {deletion_path(ROOT, version.fragments[0]) for version in (theirs, made)}
    assert kept == {f"{ROOT}/_deletions/{name}" for name in files(store, "_deletions")}


async def test_a_delete_that_merges_again_and_again() -> None:
    store, base = await table()
    head = base

    async def overtake(request: Request, moment: Moment) -> None:
        nonlocal head
        if request.kind == "put_if_absent" and moment is Moment.BEFORE and head.version < 4:
            store.hook = None
            head = await delete(store, head, f"theirs{head.version}", {head.version})
            store.hook = overtake

    (only,) = base.fragments
    mine = await deletion(store, base, "mine", {9})
    store.hook = overtake
    made = await put(store, mine, base, affected_rows={only.id: BitMap({9})})
    store.hook = None
    assert made.version == head.version + 1
    assert 9 in await hidden(store, made)
    assert [name for name in files(store, "_transactions") if "mine" in name] == [
        f"{head.version}-mine.txn"
    ]
    referred = {
        deletion_path(ROOT, (await read_manifest(at(store), i)).fragments[0])
        for i in range(2, made.version + 1)
    }
    assert referred == {f"{ROOT}/_deletions/{name}" for name in files(store, "_deletions")}


async def test_deletes_of_the_same_row_are_to_be_run_again() -> None:
    store, base = await table()
    await delete(store, base, "theirs", {1, 2})
    mine = await deletion(store, base, "mine", {2})
    before = dict(store.objects)
    with pytest.raises(RetryableCommitError):
        await put(store, mine, base, affected_rows={0: BitMap({2})})
    assert store.objects == before


async def test_a_delete_of_other_fragments_moves_its_record_only() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    made = await delete(store, base, "mine", {3})
    assert (made.version, paths(made)) == (3, ["create", "theirs"])
    record = await read_transaction(at(store), made)
    assert record is not None
    assert record.read_version == 2
    assert files(store, "_transactions") == ["0-create.txn", "1-theirs.txn", "2-mine.txn"]
    assert len(files(store, "_deletions")) == 1


async def test_a_delete_follows_several_at_once() -> None:
    store, base = await table()
    mine = await deletion(store, base, "mine", {5})
    second = await put(store, append(base, "theirs"), base)
    head = await delete_first(store, second)
    rows = {0: BitMap({5})}
    made = await put(store, mine, base, affected_rows=rows, look=True)
    assert (made.version, await hidden(store, made)) == (head.version + 1, {1, 5})


async def delete_first(store: SimulatedStore, base: Manifest) -> Manifest:
    """Hide row 1 of the first fragment."""
    first = base.fragments[0]
    file = await write_deletion_file(store, ROOT, 0, BitMap({1}), read_version=base.version)
    change = Delete((replace(first, deletion_file=file),))
    return await put(store, Transaction(base.version, "second", change), base)


async def test_a_base_that_is_not_the_version_it_was_made_on() -> None:
    store, base = await table()
    second = await put(store, append(base, "x"), base)
    for mine, other in ((append(base, "y"), second), (creation("again"), second)):
        with pytest.raises(InvalidInputError, match="which the given base is not"):
            await put(store, mine, other)
    assert await read_manifest(at(store)) == second


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_fault_anywhere_leaves_no_stray_file_behind_a_known_outcome(
    moment: Moment,
) -> None:
    for point in range(60):
        store, base = await table()
        theirs = await delete(store, base, "theirs", {1})
        mine = await deletion(store, base, "mine", {5})
        (own,) = mine.operation.updated_fragments  # type: ignore[union-attr]
        left = point

        async def fail(request: Request, when: Moment) -> None:
            nonlocal left
            if when is moment:
                left -= 1
                if left == -1:
                    raise StoreTimeoutError("down", path=request.path)

        store.hook = fail
        told: Manifest | AlanceError
        try:
            told = await put(store, mine, base, affected_rows={0: BitMap({5})})
        except AlanceError as exc:
            told = exc
        store.hook = None
        newest = await read_manifest(at(store))
        landed = newest.version == 3
        assert isinstance(told, Manifest) is landed
        assert await hidden(store, newest) == ({1, 5} if landed else {1})
        known = {deletion_path(ROOT, one.fragments[0]) for one in (theirs, newest)}
        strays = {f"{ROOT}/_deletions/{name}" for name in files(store, "_deletions")} - known
        assert strays <= {deletion_path(ROOT, own)} or left < 0
        if left >= 0:
            break
    assert point > 4


async def test_a_clock_that_is_behind_does_not_turn_history_around() -> None:
    store, base = await table()
    early = await put(store, append(base, "x"), base, now_ns=lambda: 5)
    assert early.timestamp_ns == base.timestamp_ns
    late = await put(store, append(early, "y"), early, now_ns=lambda: base.timestamp_ns + 7)
    assert late.timestamp_ns == base.timestamp_ns + 7


async def test_concurrent_deletes_all_survive() -> None:
    store, base = await table()

    async def write(row: int) -> None:
        await delete(store, base, f"w{row}", {row})

    async with anyio.create_task_group() as tg:
        for row in range(4):
            tg.start_soon(write, row)
    newest = await read_manifest(at(store))
    assert (newest.version, await hidden(store, newest)) == (5, {0, 1, 2, 3})
