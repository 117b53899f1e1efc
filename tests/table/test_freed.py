"""Commits under numbers that a cleanup has freed: they are found out, or were never there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alance.errors import CommitStateUnknownError, RetryableCommitError, StoreError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.freed import AUTO_CLEANUP
from alance.table.manifest import Manifest, Naming
from alance.table.naming import manifest_path
from alance.table.operations import (
    Append,
    Delete,
    MapUpdate,
    Operation,
    Overwrite,
    UpdateConfig,
)
from alance.table.prepare import prepare
from alance.table.transaction import Transaction
from alance.table.versions import list_stored_versions, read_manifest
from alance.types import FileVersion
from tests.table.samples import ROOT, append, at, creation, fragment, paths, put, schema

pytestmark = pytest.mark.anyio

SETTINGS = {f"{AUTO_CLEANUP}interval": "1"}


async def table(settings: dict[str, str] = SETTINGS) -> tuple[SimulatedStore, Manifest]:
    """A store with version 2 of a table that cleans up by itself, or does not."""
    store = SimulatedStore()
    base = await put(store, creation(), None)
    config = UpdateConfig(config=MapUpdate(settings))
    base = await put(store, Transaction(1, "settings", config), base)
    store.requests.clear()
    return store, base


def others_go_on(
    store: SimulatedStore, base: Manifest, *changes: Transaction, freed: tuple[int, ...]
) -> None:
    """Let others commit right before the next manifest is put, and clean up versions."""

    async def hook(request: Request, moment: Moment) -> None:
        if request.kind != "put_if_absent" or moment is not Moment.BEFORE:
            return
        store.hook = None
        current = base
        for change in changes:
            current = await put(store, replace(change, read_version=current.version), current)
        for version in freed:
            del store.objects[manifest_path(ROOT, version, Naming.V2)]

    store.hook = hook


async def versions(store: SimulatedStore) -> list[int]:
    store.hook = None
    return [one.version for one in await list_stored_versions(at(store))]


@pytest.mark.parametrize("freed", [(3,), (1, 2, 3), (1, 2, 3, 4)])
async def test_a_number_that_was_freed(freed: tuple[int, ...]) -> None:
    store, base = await table()
    others = [append(base, name) for name in ("a", "b", "c")]
    others_go_on(store, base, *others, freed=freed)
    with pytest.raises(RetryableCommitError, match=r"version 3 .* cleaned up before") as caught:
        await put(store, append(base, "mine"), base)
    assert (caught.value.version, caught.value.uuid) == (3, "mine")
    assert await versions(store) == [n for n in range(1, 6) if n not in freed]
    assert paths(await read_manifest(at(store))) == ["create", "a", "b", "c"]
    assert not any("mine" in path for path in store.objects)


async def test_a_change_without_files() -> None:
    store, base = await table()
    others_go_on(store, base, append(base, "a"), append(base, "b"), freed=(3,))
    change = UpdateConfig(config=MapUpdate({"x": "y"}))
    with pytest.raises(RetryableCommitError):
        await put(store, Transaction(2, "mine", change), base)
    assert await versions(store) == [1, 2, 4]


async def test_the_newest_takes_one_listing_more() -> None:
    store, base = await table()
    await put(store, append(base, "mine"), base)
    assert sorted(one.kind for one in store.requests) == ["list", "put", "put_if_absent"]


async def test_tables_that_are_not_cleaned_up_all_the_time_are_not_looked_at() -> None:
    store, base = await table({"a": "b"})
    await put(store, append(base, "mine"), base)
    assert sorted(one.kind for one in store.requests) == ["put", "put_if_absent"]


@pytest.mark.parametrize(
    "operation",
    [
        Append((fragment("a"),)),
        Delete(deleted_fragment_ids=(1,)),
        Overwrite((fragment("a"),), schema(), file_version=FileVersion.V2_1),
        UpdateConfig(config=MapUpdate({"x": "y"})),
    ],
    ids=lambda operation: operation.name,
)
@pytest.mark.parametrize("mine", [Append((fragment("mine"),)), UpdateConfig()])
async def test_those_that_others_have_followed_stand(mine: Operation, operation: Operation) -> None:
    """Also where nothing is left of them."""
    if isinstance(mine, UpdateConfig) and isinstance(operation, Delete):
        operation = Delete(deleted_fragment_ids=(0,))
    store, base = await table()

    async def hook(request: Request, moment: Moment) -> None:
        if request.kind == "list" and moment is Moment.BEFORE:
            store.hook = None
            current = await read_manifest(at(store))
            assert current.version == 3
            for name in ("theirs", "more"):
                change = operation if name == "theirs" else UpdateConfig()
                current = await put(store, Transaction(current.version, name, change), current)

    store.hook = hook
    made = await put(store, Transaction(2, "mine", mine), base)
    assert made.version == 3
    assert await versions(store) == [1, 2, 3, 4, 5]


async def test_what_cannot_be_looked_at_is_not_known() -> None:
    store, base = await table()

    async def hook(request: Request, moment: Moment) -> None:
        if request.kind == "list":
            raise StoreError("told to fail", path=request.path)

    store.hook = hook
    with pytest.raises(CommitStateUnknownError) as caught:
        await put(store, append(base, "mine"), base)
    assert (caught.value.version, caught.value.uuid) == (3, "mine")
    assert await versions(store) == [1, 2, 3]


async def test_a_look_that_has_become_old_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, base = await table({"a": "b"})
    transaction = append(base, "mine")
    prepared = await prepare(at(store), base, transaction)
    monkeypatch.setattr("alance.table.prepare.RECENT_S", 0.0)
    for name in ("a", "b", "c"):
        current = await read_manifest(at(store))
        await put(store, append(current, name), current)
    for version in (1, 2, 3):
        del store.objects[manifest_path(ROOT, version, Naming.V2)]
    with pytest.raises(RetryableCommitError, match=r"version 3 .* cleaned up"):
        await put(store, transaction, base, prepared=prepared)
    assert await versions(store) == [4, 5]
