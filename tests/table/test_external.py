"""Versions through an external manifest store: each step of a commit, and whoever finishes it."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from alance.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptFileError,
    DatasetNotFoundError,
    StoreError,
    StoreTimeoutError,
    VersionNotFoundError,
)
from alance.io.simulated import Moment, Request
from alance.table.external import ExternalHandler, ExternalManifestStore, ManifestEntry
from alance.table.location import TableLocation
from alance.table.manifest import Manifest, Naming
from alance.table.naming import manifest_path
from alance.table.versions import list_stored_versions, list_versions, read_manifest, refresh
from alance.table.wire import build_manifest
from tests.table.entries import EntriesInMemory, StoreWithEntries
from tests.table.samples import ROOT, append, at, creation, manifest, paths, put

pytestmark = pytest.mark.anyio

DATASET = f"simulated://store/{ROOT}"


def final(version: int, naming: Naming = Naming.V2) -> str:
    return manifest_path(ROOT, version, naming)


def kinds(store: StoreWithEntries) -> list[str]:
    return [request.kind for request in store.requests]


def staged_objects(store: StoreWithEntries) -> list[str]:
    return [path for path in store.objects if ".manifest-" in path]


def clear(store: StoreWithEntries) -> None:
    store.requests.clear()
    store.entries.calls.clear()


def leave_staged(store: StoreWithEntries, value: Manifest) -> str:
    """A version of which the writer died once it was committed."""
    path = f"{final(value.version)}-00000000-0000-4000-8000-000000000000"
    data = b"".join(build_manifest(value))
    store.preload(path, data)
    store.entries.entries[DATASET, value.version] = ManifestEntry(value.version, path, len(data))
    return path


async def table() -> tuple[StoreWithEntries, Manifest]:
    store = StoreWithEntries()
    base = await put(store, creation(), None)
    clear(store)
    return store, base


def test_the_entries_of_the_tests_are_a_store() -> None:
    assert isinstance(EntriesInMemory(), ExternalManifestStore)


async def test_the_steps_of_a_commit() -> None:
    store, base = await table()
    made = await put(store, append(base, "x"), base)
    beside = {"put": 1}  # the transaction file goes out at the same time
    assert kinds(store).count("put") == 1 + beside["put"]
    steps = [kind for kind in kinds(store) if kind != "put"]
    assert steps == ["copy", "head", "delete"]
    assert store.entries.calls == ["entry_get", "entry_put_if_absent", "entry_put"]
    size = len(store.objects[final(2)])
    assert store.entries.entries[DATASET, 2] == ManifestEntry(2, final(2), size)
    assert staged_objects(store) == []
    assert await read_manifest(at(store)) == made


async def test_the_newest_version_is_an_entry_and_one_get() -> None:
    store, base = await table()
    assert await read_manifest(at(store)) == base
    assert (kinds(store), store.entries.calls) == (["get_range"], ["entry_get_latest"])
    clear(store)
    assert await read_manifest(at(store), 1) == base
    assert (kinds(store), store.entries.calls) == (["get_tail"], ["entry_get"])
    assert await refresh(at(store), base) is base


async def test_an_entry_without_size_is_looked_at() -> None:
    store, base = await table()
    store.entries.entries[DATASET, 1] = ManifestEntry(1, final(1))
    assert await read_manifest(at(store)) == base
    assert kinds(store) == ["head", "get_range"]


async def test_an_entry_outlives_a_version_that_is_cleaned_up() -> None:
    store, base = await table()
    second = await put(store, append(base, "x"), base)
    store.entries.entries[DATASET, 1] = ManifestEntry(1, final(1))
    del store.objects[final(1)]
    with pytest.raises(VersionNotFoundError, match="the newest is 2"):
        await read_manifest(at(store), 1)
    assert [one.version for one in await list_stored_versions(at(store))] == [2]
    assert await read_manifest(at(store)) == second


async def test_entries_outlive_a_dataset_that_was_removed() -> None:
    store, _ = await table()
    store.entries.entries[DATASET, 1] = ManifestEntry(1, final(1))
    store.objects.clear()
    with pytest.raises(CorruptFileError, match="delete its entries too"):
        await read_manifest(at(store))
    await store.entries.delete(DATASET)
    with pytest.raises(DatasetNotFoundError):
        await read_manifest(at(store))


@pytest.mark.parametrize("number", [None, 2])
async def test_a_reader_finishes_what_a_writer_left(number: int | None) -> None:
    store, _ = await table()
    left = leave_staged(store, manifest(2))
    assert await read_manifest(at(store), number) == manifest(2)
    steps = [kind for kind in kinds(store) if not kind.startswith("get")]
    assert steps == ["copy", "head", "delete"]
    assert store.entries.entries[DATASET, 2].path == final(2)
    assert left not in store.objects
    assert [one.version for one in await list_stored_versions(at(store))] == [1, 2]


async def test_a_reader_meets_another_that_has_just_finished() -> None:
    store, _ = await table()
    left = leave_staged(store, manifest(2))

    async def finish(request: Request, moment: Moment) -> None:
        if request.kind == "copy" and moment is Moment.BEFORE:
            store.preload(final(2), store.objects.pop(left))

    store.hook = finish
    assert await read_manifest(at(store)) == manifest(2)


async def test_a_staged_manifest_that_is_nowhere() -> None:
    store, _ = await table()
    del store.objects[leave_staged(store, manifest(2))]
    with pytest.raises(CorruptFileError, match="but it is gone") as caught:
        await read_manifest(at(store))
    assert caught.value.path == final(2)


async def test_history_begins_with_what_is_staged() -> None:
    store, _ = await table()
    leave_staged(store, manifest(2))
    assert [info.version for info in await list_versions(at(store))] == [1, 2]


async def test_a_writer_finishes_the_version_before_its_own() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if request.kind == "copy":
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    second = await put(store, append(base, "x"), base)
    assert final(2) not in store.objects
    store.hook = None
    third = await put(store, append(second, "y"), second)
    assert (second.version, third.version) == (2, 3)
    assert [info.version for info in await list_versions(at(store))] == [1, 2, 3]
    assert staged_objects(store) == []


@pytest.mark.parametrize("lists_in_order", [True, False])
async def test_versions_from_before_are_found_and_made_known(lists_in_order: bool) -> None:
    store = StoreWithEntries(lists_in_order=lists_in_order)
    for version in (1, 2):
        store.preload(final(version), b"".join(build_manifest(manifest(version))))
    assert (await read_manifest(at(store), 1)).version == 1
    assert (await read_manifest(at(store))).version == 1, "the only one that is known now"
    store.entries.entries.clear()
    assert (await read_manifest(at(store))).version == 2
    assert store.entries.entries[DATASET, 2].path == final(2)
    made = await put(store, append(manifest(2), "x"), await read_manifest(at(store)))
    assert made.version == 3


async def test_no_dataset() -> None:
    store = StoreWithEntries()
    for number in (None, 1):
        with pytest.raises(DatasetNotFoundError):
            await read_manifest(at(store), number)


async def test_names_stay_what_they_are() -> None:
    store = StoreWithEntries()
    old = manifest(1, naming=Naming.V1)
    store.preload(final(1, Naming.V1), b"".join(build_manifest(old)))
    base = await read_manifest(at(store))
    await put(store, append(base, "x"), base)
    assert final(2, Naming.V1) in store.objects
    for number in (None, 2):
        found = await read_manifest(at(store), number)
        assert (found.version, found.naming) == (2, Naming.V1)


@pytest.mark.parametrize(
    "path",
    [
        "elsewhere/_versions/18446744073709551613.manifest",
        f"{ROOT}/_versions/../x/18446744073709551613.manifest",
        f"{ROOT}/_versions/18446744073709551614.manifest",
        f"{ROOT}/_versions/18446744073709551613.manifest-a/../b",
        f"{ROOT}/data/x.lance",
        "",
    ],
)
async def test_an_entry_that_leads_astray(path: str) -> None:
    store, base = await table()
    store.entries.entries[DATASET, 2] = ManifestEntry(2, path, 10)
    with pytest.raises(CorruptFileError, match="no name of that version"):
        await read_manifest(at(store))
    with pytest.raises(CommitStateUnknownError):
        await put(store, append(base, "x"), base)


async def test_concurrent_writers_all_survive() -> None:
    store, base = await table()
    made: list[Manifest] = []

    async def write(name: str) -> None:
        made.append(await put(store, append(base, name), base))

    async with anyio.create_task_group() as tg:
        for i in range(4):
            tg.start_soon(write, f"w{i}")
    assert sorted(one.version for one in made) == [2, 3, 4, 5]
    newest = await read_manifest(at(store))
    assert sorted(paths(newest)) == ["create", "w0", "w1", "w2", "w3"]
    assert staged_objects(store) == []


async def test_an_entry_that_a_retry_met_is_our_own() -> None:
    store, base = await table()
    inner = store.entries.put_if_absent

    async def retried(dataset: str, entry: ManifestEntry) -> None:
        await inner(dataset, entry)
        await inner(dataset, entry)

    store.entries.put_if_absent = retried  # type: ignore[method-assign]
    made = await put(store, append(base, "x"), base)
    assert (made.version, made) == (2, await read_manifest(at(store)))


async def test_a_lost_entry_takes_its_staged_manifest_along() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    clear(store)
    made = await put(store, append(base, "mine"), base)
    assert paths(made) == ["create", "theirs", "mine"]
    assert staged_objects(store) == []


async def test_an_entry_that_arrives_late_keeps_its_staged_manifest() -> None:
    store, base = await table()
    late: list[ManifestEntry] = []

    async def hold(request: Request, moment: Moment) -> None:
        key = (DATASET, 2)
        if request.kind == "entry_put_if_absent" and moment is Moment.AFTER and not late:
            late.append(store.entries.entries.pop(key))
            raise StoreTimeoutError("held")
        if request.kind == "entry_put_if_absent" and moment is Moment.BEFORE and late:
            store.entries.entries[key] = late[0]

    store.hook = hold
    made = await put(store, append(base, "x"), base)
    store.hook = None
    assert (made.version, paths(made)) == (2, ["create", "x"])
    assert await read_manifest(at(store)) == made
    assert staged_objects(store) == []


class Broken(EntriesInMemory):
    """Fails as a user's own code may."""

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        raise KeyError(dataset)


async def test_foreign_errors_become_ours() -> None:
    store = StoreWithEntries()
    place = TableLocation(store, ROOT, ExternalHandler(Broken()))
    with pytest.raises(StoreError, match="the external manifest store failed: KeyError"):
        await read_manifest(place)


async def test_a_cancelled_commit_is_seen_through() -> None:
    task = asyncio.current_task()
    assert task is not None
    store, base = await table()

    async def cancel(request: Request, moment: Moment) -> None:
        if request.kind == "entry_put_if_absent" and moment is Moment.BEFORE:
            task.cancel()

    store.hook = cancel
    with pytest.raises(asyncio.CancelledError):
        await put(store, append(base, "x"), base)
    task.uncancel()
    store.hook = None
    assert paths(await read_manifest(at(store))) == ["create", "x"]
    assert (staged_objects(store), final(2) in store.objects) == ([], True)


async def test_a_staged_manifest_that_fails_is_removed() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if request.kind == "put" and moment is Moment.AFTER:
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    with pytest.raises(CommitStateUnknownError):
        await put(store, append(base, "x"), base)
    assert staged_objects(store) == []
    store.hook = None
    assert (await read_manifest(at(store))).version == 1


async def test_put_raises_where_another_was_first() -> None:
    store, base = await table()
    with pytest.raises(AlreadyExistsError):
        await store.handler.put(store, ROOT, 1, Naming.V2, build_manifest(base))
    assert staged_objects(store) == []
