from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    StoreTimeoutError,
    VersionNotFoundError,
)
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.manifest import Manifest, Naming
from alance.table.naming import manifest_path
from alance.table.objects import TAIL_BYTES
from alance.table.versions import (
    latest_version,
    list_stored_versions,
    list_versions,
    read_manifest,
    read_version,
    refresh,
)
from alance.table.wire import build_manifest
from tests.table.samples import ROOT, append, at, fragment, load, manifest, put

pytestmark = pytest.mark.anyio


def store_with(
    *versions: int, naming: Naming = Naming.V2, lists_in_order: bool = True
) -> SimulatedStore:
    store = SimulatedStore(lists_in_order=lists_in_order)
    for version in versions:
        place(store, manifest(version, naming=naming))
    return store


def place(store: SimulatedStore, value: Manifest) -> str:
    path = manifest_path(ROOT, value.version, value.naming)
    store.preload(path, b"".join(build_manifest(value)))
    return path


def kinds(store: SimulatedStore) -> list[str]:
    return [request.kind for request in store.requests]


async def test_the_newest_is_found_by_one_listing_and_read_by_one_get() -> None:
    store = store_with(*range(1, 30))
    assert (await read_manifest(at(store))).version == 29
    assert kinds(store) == ["list", "get_range"]


async def test_a_version_known_by_number_is_one_get() -> None:
    store = store_with(1, 2, 3)
    assert (await read_manifest(at(store), 2)).version == 2
    assert kinds(store) == ["get_tail"]


async def test_a_large_manifest_by_number_is_one_get_more() -> None:
    store = SimulatedStore()
    large = manifest(1, *(fragment(f"file-{i}", id=i) for i in range(2000)))
    assert len(store.objects[place(store, large)]) > TAIL_BYTES
    assert await read_manifest(at(store), 1) == large
    assert kinds(store) == ["get_tail", "get_range"]
    assert await read_manifest(at(store)) == large
    assert kinds(store)[2:] == ["list", "get_range"]


@pytest.mark.parametrize("naming", Naming)
@pytest.mark.parametrize("lists_in_order", [True, False])
async def test_versions_of_any_naming_and_store(naming: Naming, lists_in_order: bool) -> None:
    store = store_with(*range(1, 13), naming=naming, lists_in_order=lists_in_order)
    assert (await latest_version(at(store))).version == 12
    assert [s.version for s in await list_stored_versions(at(store))] == list(range(1, 13))
    newest = await read_manifest(at(store))
    assert (newest.version, newest.naming) == (12, naming)
    assert await read_manifest(at(store), 7) == manifest(7, naming=naming)


async def test_what_is_no_version_is_passed_over() -> None:
    store = store_with(1, 2)
    folder = f"{ROOT}/_versions"
    for name in ("18446744073709551612.manifest-staged", "latest_version_hint.json", "d9.manifest"):
        store.preload(f"{folder}/{name}", b"x")
    assert (await latest_version(at(store))).version == 2
    for i in range(20):
        store.preload(f"{folder}/.tmp_{i}", b"x")
    assert (await latest_version(at(store))).version == 2
    assert kinds(store) == ["list", "list", "list"]


async def test_both_namings_in_one_dataset_are_refused() -> None:
    store = store_with(1, 2)
    place(store, manifest(3, naming=Naming.V1))
    with pytest.raises(CorruptFileError, match="both naming schemes"):
        await latest_version(at(store))


@pytest.mark.parametrize("lists_in_order", [True, False])
async def test_no_dataset(lists_in_order: bool) -> None:
    store = SimulatedStore(lists_in_order=lists_in_order)
    for asked in (None, 1):
        with pytest.raises(DatasetNotFoundError, match=ROOT) as caught:
            await read_manifest(at(store), asked)
        assert caught.value.uri == f"simulated://store/{ROOT}"
    with pytest.raises(DatasetNotFoundError):
        await list_versions(at(store))


@pytest.mark.parametrize("version", [-1, 0, 4, 2**63, 2**70])
async def test_no_such_version(version: int) -> None:
    store = store_with(1, 2, 3)
    with pytest.raises(VersionNotFoundError, match="newest is 3") as caught:
        await read_manifest(at(store), version)
    assert caught.value.version == version


async def test_a_version_that_vanishes_after_the_listing() -> None:
    store = store_with(1, 2)

    async def clean_up(request: Request, moment: Moment) -> None:
        if request.kind == "list" and moment is Moment.AFTER:
            store.objects.pop(manifest_path(ROOT, 2, Naming.V2), None)

    store.hook = clean_up
    with pytest.raises(VersionNotFoundError, match="no version 2; the newest is 1"):
        await read_manifest(at(store))


@pytest.mark.parametrize("data", [b"", b"LANC", b"\0" * 100])
async def test_a_manifest_that_is_none(data: bytes) -> None:
    store = SimulatedStore()
    path = manifest_path(ROOT, 1, Naming.V2)
    store.preload(path, data)
    for asked in (None, 1):
        with pytest.raises(CorruptFileError) as caught:
            await read_manifest(at(store), asked)
        assert caught.value.path == path


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
async def test_a_damaged_newest_version_leads_to_an_older_one(cut: int) -> None:
    store = store_with(1, 2, 3)
    path = manifest_path(ROOT, 3, Naming.V2)
    store.preload(path, store.objects[path][:cut])
    before = dict(store.objects)
    with pytest.raises(CorruptFileError) as caught:
        await read_manifest(at(store))
    assert caught.value.path == path
    assert "as with version=2" in caught.value.__notes__[0]
    assert await read_manifest(at(store), 2) == manifest(2)
    with pytest.raises(CorruptFileError):
        await put(store, append(manifest(2), "x"), manifest(2), look=True)
    assert store.objects == before


async def test_a_manifest_under_the_name_of_another() -> None:
    store = store_with(1)
    store.preload(manifest_path(ROOT, 2, Naming.V2), b"".join(build_manifest(manifest(1))))
    with pytest.raises(CorruptFileError, match="named for version 2 but says 1"):
        await read_manifest(at(store))


async def test_history_as_the_reference_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    data = pa.table({"i": [1, 2, 3]})
    lance.write_dataset(data, path)
    lance.write_dataset(data, path, mode="append")
    lance.dataset(path).delete("i = 1")
    store = SimulatedStore()
    found = await list_versions(at(store, load(store, path)))
    assert [info.version for info in found] == [1, 2, 3]
    for info, expected in zip(found, lance.dataset(path).versions(), strict=True):
        off_s = info.timestamp.timestamp() - expected["timestamp"].timestamp()
        assert abs(off_s) < 2e-6  # the reference goes through a float
        assert info.metadata == expected["metadata"]


async def test_history_reads_a_bounded_number_at_once() -> None:
    store = store_with(*range(1, 41))
    waiting = most = 0

    async def count(request: Request, moment: Moment) -> None:
        nonlocal waiting, most
        if request.kind == "get_range":
            waiting += 1 if moment is Moment.BEFORE else -1
            most = max(most, waiting)

    store.hook = count
    assert len(await list_versions(at(store))) == 40
    assert kinds(store) == ["list"] + ["get_range"] * 40
    assert 1 < most <= 16


async def test_history_leaves_out_what_is_cleaned_up_meanwhile() -> None:
    store = store_with(1, 2, 3)

    async def clean_up(request: Request, moment: Moment) -> None:
        if request.kind == "list" and moment is Moment.AFTER:
            del store.objects[manifest_path(ROOT, 1, Naming.V2)]

    store.hook = clean_up
    assert [info.version for info in await list_versions(at(store))] == [2, 3]


async def test_one_failed_read_fails_the_history() -> None:
    store = store_with(1, 2, 3)

    async def fail(request: Request, moment: Moment) -> None:
        if request.path == manifest_path(ROOT, 2, Naming.V2):
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    with pytest.raises(StoreTimeoutError):
        await list_versions(at(store))


@pytest.mark.parametrize(
    ("newest", "requests"),
    [(3, {"list", "get_tail"}), (4, {"list", "get_tail"}), (9, {"list", "get_tail", "get_range"})],
)
async def test_refresh(newest: int, requests: set[str]) -> None:
    store = store_with(*range(1, newest + 1))
    assert (await refresh(at(store), manifest(3))).version == newest
    assert len(kinds(store)) == len(requests)
    assert set(kinds(store)) == requests


async def test_refresh_across_versions_that_were_cleaned_up() -> None:
    assert (await refresh(at(store_with(8, 9)), manifest(3))).version == 9


async def test_refresh_of_a_dataset_that_is_gone() -> None:
    with pytest.raises(DatasetNotFoundError):
        await refresh(at(SimulatedStore()), manifest(3))


async def test_a_name_that_does_not_exist_is_none() -> None:
    store = store_with(1)
    assert await read_version(at(store), 2, Naming.V2) is None
    found = await read_version(at(store), 1, Naming.V2)
    assert found == replace(manifest(1), naming=Naming.V2)


async def test_appending_keeps_v1_names() -> None:
    store = store_with(1, naming=Naming.V1)
    base = await read_manifest(at(store))
    made = await put(store, append(base, "x"), base)
    assert f"{ROOT}/_versions/2.manifest" in store.objects
    assert await read_manifest(at(store)) == made
