"""What a commit does while its data files are still on their way."""

from __future__ import annotations

import anyio
import pytest

from alance.errors import (
    CommitConflictError,
    DatasetAlreadyExistsError,
    RetryableCommitError,
    StoreError,
    StoreTimeoutError,
)
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.features import Feature
from alance.table.location import TableLocation
from alance.table.manifest import Manifest, Naming
from alance.table.naming import manifest_path
from alance.table.prepare import Prepared, prepare
from alance.table.probe import ProbedPut
from alance.table.transaction import build_overwrite
from alance.table.versions import read_manifest
from tests.table.samples import ROOT, append, at, creation, manifest, meeting, paths, put, schema

pytestmark = pytest.mark.anyio


async def table(num_newer: int = 0) -> tuple[SimulatedStore, Manifest]:
    """A store with a base and newer versions, its requests forgotten."""
    store = SimulatedStore()
    base = head = await put(store, creation(), None)
    for i in range(num_newer):
        head = await put(store, append(head, f"theirs{i}"), head)
    store.requests.clear()
    return store, base


def kinds(store: SimulatedStore) -> list[str]:
    return [request.kind for request in store.requests]


async def test_the_manifest_is_all_that_is_left_to_do() -> None:
    store, base = await table()
    mine = append(base, "x")
    prepared = await prepare(at(store), base, mine)
    assert prepared == Prepared((), "1-x.txn")
    assert sorted(kinds(store)) == ["list", "put"]
    store.requests.clear()
    made = await put(store, mine, base, prepared=prepared)
    assert (kinds(store), made.version) == (["put_if_absent"], 2)


async def test_newer_versions_cost_no_lost_race() -> None:
    store, base = await table(num_newer=3)
    prepared = await prepare(at(store), base)
    assert [one.manifest.version for one in prepared.newer] == [2, 3, 4]
    assert kinds(store) == ["list", "get_tail", "get_tail", "get_tail"]
    store.requests.clear()
    made = await put(store, append(base, "mine"), base, prepared=prepared)
    assert sorted(kinds(store)) == ["put", "put_if_absent"]
    assert (made.version, paths(made)[-1]) == (5, "mine")


async def test_look_and_transaction_file_go_out_together() -> None:
    store, base = await table()
    store.hook = meeting()
    with anyio.fail_after(5):
        await prepare(at(store), base, append(base, "x"))


async def test_a_conflict_is_told_by_the_commit() -> None:
    store, base = await table()
    await put(store, build_overwrite(base, schema(), [], uuid="theirs"), base)
    mine = append(base, "mine")
    prepared = await prepare(at(store), base, mine)
    with pytest.raises(CommitConflictError):
        await put(store, mine, base, prepared=prepared)
    assert f"{ROOT}/_transactions/1-mine.txn" not in store.objects


async def test_creating() -> None:
    store = SimulatedStore()
    prepared = await prepare(at(store), None, creation())
    assert prepared == Prepared((), "0-create.txn")
    made = await put(store, creation(), None, prepared=prepared)
    found = await prepare(at(store), None, creation())
    assert await put(store, creation(), None, prepared=found) == made
    found = await prepare(at(store), None)
    with pytest.raises(DatasetAlreadyExistsError):
        await put(store, creation("again"), None, prepared=found)
    del store.objects[manifest_path(ROOT, 1, Naming.V2)]
    store.preload(manifest_path(ROOT, 2, Naming.V2), b"x")
    with pytest.raises(DatasetAlreadyExistsError):
        await prepare(at(store), None)


async def test_a_transaction_file_that_fails_is_sent_again() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if request.kind == "put":
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    prepared = await prepare(at(store), base, append(base, "x"))
    assert prepared.file_name is None
    store.hook = None
    await put(store, append(base, "x"), base, prepared=prepared)
    assert f"{ROOT}/_transactions/1-x.txn" in store.objects


async def test_no_transaction_file_where_the_table_has_none() -> None:
    store, _ = await table()
    base = manifest(writer_flags=int(Feature.NO_TRANSACTION_FILES))
    assert await prepare(at(store), base, append(base, "x")) == Prepared()


async def test_a_failure_leaves_nothing() -> None:
    store, base = await table(num_newer=3)
    del store.objects[manifest_path(ROOT, 2, Naming.V2)]
    before = dict(store.objects)
    with pytest.raises(RetryableCommitError, match=r"version 2 .* has been cleaned up"):
        await prepare(at(store), base, append(base, "x"))
    assert store.objects == before


async def test_an_unsafe_store_is_told_early() -> None:
    store = SimulatedStore(honours_condition=False)
    with pytest.raises(StoreError, match="ignores the condition"):
        await prepare(TableLocation(store, ROOT, ProbedPut()), None, creation())
    assert store.objects == {}


async def test_others_may_commit_between() -> None:
    store, base = await table()
    mine = append(base, "mine")
    prepared = await prepare(at(store), base, mine)
    await put(store, append(base, "theirs"), base)
    made = await put(store, mine, base, prepared=prepared)
    assert paths(made) == ["create", "theirs", "mine"]
    assert await read_manifest(at(store)) == made
