"""Cleaning up: what goes and what stays, beside the reference, and in bad circumstances."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import lance
import pyarrow as pa
import pytest

import alance
from alance.dataset.cleanup import clean_up
from alance.dataset.handle import Handle
from alance.io.store import ObjectInfo, ObjectStore
from alance.table.cleanup import CleanupPolicy
from alance.table.features import Feature
from alance.table.naming import manifest_path
from alance.table.wire import build_manifest
from alance.testing.s3 import S3Server
from alance.testing.stores import CountingStore, FaultyStore, Request
from tests.dataset.helpers import ROOT, column_a, files, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

NOW = timedelta(0)


def busy(uri: str) -> None:
    """A history of all kinds of changes, by the reference: versions 1 to 9 and some."""
    ds = lance.write_dataset(numbers(0, 100), uri, max_rows_per_file=40, data_storage_version="2.1")
    ds.delete("a in (3, 50)")
    ds.create_scalar_index("a", "BTREE")
    ds = lance.write_dataset(numbers(100, 150), uri, mode="append")
    ds.tags.create("tagged", 4)
    ds.update({"s": "'x'"}, where="a > 140")
    ds.create_scalar_index("a", "BTREE", replace=True)
    ds.create_branch("feat/x", 2)
    ds.delete("a in (4, 51)")
    ds.optimize.compact_files()
    ds = lance.write_dataset(numbers(0, 10), uri, mode="overwrite")
    lance.write_dataset(numbers(10, 20), uri, mode="append")


def age(place: Path, days: float, *names: str) -> None:
    """Make files, all of `place` or those named, look older."""
    then = time.time() - days * 86_400
    chosen = [place / name for name in names] or [p for p in place.rglob("*") if p.is_file()]
    for path in chosen:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (then, then))


def rows(uri: str) -> dict[object, list[int]]:
    """Column `a` of every version, tag and branch, as the reference reads it."""
    ds = lance.dataset(uri)
    found: dict[object, list[int]] = {}
    references: list[object] = [one["version"] for one in ds.versions()]
    references += list(ds.tags.list())
    references += [(name, None) for name in ds.branches.list()]
    for reference in references:
        found[reference] = column_a(ds.checkout_version(reference).to_table())
    return found


def copy(source: str, target: Path) -> str:
    shutil.copytree(source, target)
    return str(target)


ORPHANS = [
    "data/orphan.lance",
    "data/orphan/1.blob",
    "_deletions/0-1-7.arrow",
    "_transactions/1-orphan.txn",
    "_indices/0cc00be5-22da-4011-aa61-c199ee5a8e64/page.idx",
    "data/unknown.txt",
    "notes.txt",
]
LENIENT = {"error_if_tagged_old_versions": False}


@pytest.mark.parametrize(
    ("arguments", "num_versions"),
    [
        ({"older_than": NOW, **LENIENT}, 8),
        ({"older_than": NOW, "retain_versions": 3, **LENIENT}, 6),
        ({"retain_versions": 5, **LENIENT}, 4),
        ({"older_than": timedelta(days=1)}, 0),
        ({}, 0),
        ({"older_than": NOW, "delete_unverified": True, **LENIENT}, 8),
    ],
)
async def test_the_reference_removes_the_same_files(
    tmp_path: Path, arguments: dict[str, object], num_versions: int
) -> None:
    uri = str(tmp_path / ROOT)
    busy(uri)
    age(Path(uri), 8, *ORPHANS)
    age(Path(uri), 0, "data/young.lance", "_deletions/0-1-8.bin")
    copy(uri, tmp_path / "copy")  # the branch refers to its parent by path: both work at one
    before = rows(uri)
    ds = await alance.open_dataset(uri)
    transaction_file = (await ds.checkout(2))._manifest.transaction_file
    planned = await ds.cleanup_old_versions(dry_run=True, **arguments)  # type: ignore[arg-type]
    assert rows(uri) == before, "a dry run removes nothing"
    done = await ds.cleanup_old_versions(**arguments)  # type: ignore[arg-type]
    mine, left = files(Path(uri)), rows(uri)
    shutil.rmtree(uri)
    shutil.move(tmp_path / "copy", uri)
    stats = lance.dataset(uri).cleanup_old_versions(**arguments)

    theirs = files(Path(uri))
    # The reference keeps the version that a branch began with, but not its transaction file.
    extra = {name: size for name, size in mine.items() if name not in theirs}
    assert set(extra) <= {f"_transactions/{transaction_file}"}
    assert {**theirs, **extra} == mine
    assert left == rows(uri) == {reference: before[reference] for reference in left}
    assert {"tagged", ("feat/x", None), 2, 4, 11} <= left.keys()
    assert (done.versions, set(done.files)) == (planned.versions, set(planned.files))
    assert done.old_versions == stats.old_versions == num_versions
    assert done.data_files_removed == stats.data_files_removed
    assert done.index_files_removed == stats.index_files_removed
    assert done.deletion_files_removed == stats.deletion_files_removed
    assert done.transaction_files_removed + len(extra) == stats.transaction_files_removed
    assert done.bytes_removed + sum(extra.values()) == stats.bytes_removed


async def test_what_is_left_is_written_on(tmp_path: Path) -> None:
    uri = str(tmp_path / ROOT)
    busy(uri)
    ds = await alance.open_dataset(uri)
    await ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    ds = await (await ds.append(numbers(20, 21))).append(numbers(21, 22))
    assert column_a(await ds.to_table()) == list(range(22))
    assert column_a(lance.dataset(uri).to_table()) == list(range(22))
    assert await ds.tags.get_version("tagged") == 4


async def test_the_dataset_at_hand_stays(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    for i in range(1, 5):
        newest = await ds.append(numbers(i, i + 1))
    old = await newest.checkout(3)
    done = await old.cleanup_old_versions(NOW)
    assert done.versions == (1, 2)
    assert [one["version"] for one in await old.versions()] == [3, 4, 5]


async def test_progress_and_numbers(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    for _ in range(3):
        ds = await ds.overwrite(numbers(0, 1))
    seen: list[alance.CleanupProgress] = []
    done = await ds.cleanup_old_versions(NOW, progress=seen.append)
    assert [one.files_removed for one in seen] == list(range(1, 10))
    assert {one.files_total for one in seen} == {9}
    assert seen[-1].bytes_removed == seen[-1].bytes_total == done.bytes_removed
    assert [file.kind for file in done.files[-3:]] == [alance.FileKind.MANIFEST] * 3
    assert done.failed == {}


async def test_tags_protect(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    ds = await ds.overwrite(numbers(1, 2))
    ds = await ds.overwrite(numbers(2, 3))
    await ds.tags.create("keep", 1)
    before = files(tmp_path)
    with pytest.raises(alance.InvalidInputError, match=r"keep \(version 1\)"):
        await ds.cleanup_old_versions(NOW)
    assert files(tmp_path) == before
    done = await ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert done.versions == (2,)
    assert column_a(await (await ds.checkout("keep")).to_table()) == [0]


async def test_branches_keep_their_files(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    one = await (await ds.branches.create("one")).append(numbers(10, 11))
    two = await (await one.branches.create("two")).append(numbers(20, 21))
    one = await one.overwrite(numbers(30, 31))
    ds = await ds.overwrite(numbers(1, 2))
    for line in (ds, one, two):
        await line.cleanup_old_versions(NOW, delete_unverified=True)
    assert [v["version"] for v in await ds.versions()] == [1, 2]
    assert [v["version"] for v in await one.versions()] == [2, 3]
    assert [v["version"] for v in await two.versions()] == [3]
    assert rows(ds.uri) == {
        1: [0, 1, 2],
        2: [1],
        ("one", None): [30],
        ("two", None): [0, 1, 2, 10, 20],
    }
    # Even with the version gone that a branch began with, its files stay.
    place = ds._handle.places
    first = manifest_path(place.root, 1, ds._manifest.naming)
    await place.client.delete(first)
    await ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert column_a(await two.to_table()) == [0, 1, 2, 10, 20]


async def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    clone = await ds.shallow_clone(tmp_path / "clone.lance")
    clone = await (await clone.append(numbers(3, 6))).overwrite(numbers(7, 8))
    before = files(Path(ds.uri))
    await clone.cleanup_old_versions(NOW, delete_unverified=True)
    assert files(Path(ds.uri)) == before
    assert column_a(await clone.to_table()) == [7]
    assert len(await clone.versions()) == 1


async def test_an_unknown_feature_stops_it(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await ds.overwrite(numbers(0, 3))
    await forge(ds, 1, writer_flags=int(Feature.ZONE_WRITE_SEED))
    await stays_whole(tmp_path, ds, alance.UnsupportedFeatureError)


async def test_a_damaged_manifest_stops_it(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await (await ds.overwrite(numbers(0, 3))).overwrite(numbers(0, 3))
    place = ds._handle.places
    await place.client.put(manifest_path(place.root, 2, ds._manifest.naming), b"torn")
    await stays_whole(tmp_path, ds, alance.CorruptFileError)


async def test_a_damaged_index_section_stops_it(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await ds.overwrite(numbers(0, 3))
    await forge(ds, 1, index_section=b"\xff\xff")
    await stays_whole(tmp_path, ds, alance.CorruptFileError)


async def test_a_damaged_tag_stops_it(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await ds.overwrite(numbers(0, 3))
    place = ds._handle.places
    await place.client.put(f"{place.root}/_refs/tags/x.json", b"{}")
    await stays_whole(tmp_path, ds, alance.CorruptFileError)


async def forge(ds: alance.Dataset, version: int, **changed: object) -> None:
    """Put a changed manifest in place of a version's own."""
    manifest = (await ds.checkout(version))._manifest
    place = ds._handle.places
    forged = build_manifest(replace(manifest, **changed))  # type: ignore[arg-type]
    await place.client.put(manifest_path(place.root, version, manifest.naming), forged)


async def stays_whole(place: Path, ds: alance.Dataset, error: type[Exception]) -> None:
    before = files(place)
    with pytest.raises(error):
        await ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert files(place) == before


async def test_a_detached_version_keeps_its_files(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    transaction = lance.LanceOperation.Append([
        lance.fragment.LanceFragment.create(ds.uri, numbers(3, 6))
    ])
    theirs = lance.LanceDataset.commit(ds.uri, transaction, read_version=1, detached=True)
    assert theirs.version >= 1 << 63
    age(Path(ds.uri), 9)
    ds = await ds.overwrite(numbers(7, 8))
    await ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert column_a(theirs.checkout_version(theirs.version).to_table()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("arguments", [{"older_than": timedelta(-1)}, {"retain_versions": 0}])
async def test_bad_arguments(tmp_path: Path, arguments: dict[str, object]) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    with pytest.raises(alance.InvalidInputError):
        await ds.cleanup_old_versions(**arguments)  # type: ignore[arg-type]


async def memory_history(wrap: Callable[[ObjectStore], ObjectStore]) -> alance.Dataset:
    """Three versions in memory of which the first two are to go, seen through a wrapper."""
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")
    await write_on(session, memory, numbers(3, 6), "overwrite")
    await write_on(session, memory, numbers(6, 9), "overwrite")
    return await open_on(session, wrap(memory))


async def test_what_cannot_be_removed_is_reported() -> None:
    broken = True

    def refuse(request: Request) -> None:
        if broken and request.kind.startswith("delete") and "/data/" in request.path:
            raise alance.PermissionDeniedError("locked")

    ds = await memory_history(lambda store: FaultyStore(store, before=refuse))
    done = await ds.cleanup_old_versions(NOW)
    assert done.failed_deletes == 2
    assert set(done.failed.values()) == {"locked"}
    assert done.versions == ()
    assert [v["version"] for v in await ds.versions()] == [1, 2, 3], "so that it can go on"
    broken = False
    again = await ds.cleanup_old_versions(NOW)
    assert (again.versions, again.data_files_removed) == ((1, 2), 2)


async def test_a_version_restored_meanwhile_keeps_its_files() -> None:
    """Between the two looks another writer restores version 1 and tags version 2."""
    seen: list[Request] = []

    class Racing(CountingStore):
        async def list(
            self, prefix: str, *, start_after: str | None = None, limit: int | None = None
        ) -> Sequence[ObjectInfo]:
            found = await super().list(prefix, start_after=start_after, limit=limit)
            if prefix.endswith("_versions") and len(seen) == 1:
                other = await open_on(alance.Session(), self.inner)
                await (await other.checkout(1)).restore()
                await other.tags.create("late", 2)
            seen.extend(one for one in self.requests[-1:] if prefix.endswith("_versions"))
            return found

    ds = await memory_history(Racing)
    done = await ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert done.versions == (1,)
    newest = await ds.latest()
    assert (newest.version, column_a(await newest.to_table())) == (4, [0, 1, 2])
    assert column_a(await (await ds.checkout("late")).to_table()) == [3, 4, 5]


async def test_a_clock_that_is_ahead_of_the_stores(tmp_path: Path) -> None:
    """Files of a writer at work would look like leftovers of one that died."""
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    (tmp_path / ROOT / "data" / "uploaded.lance").write_bytes(b"x")
    before = files(tmp_path)
    handle, _ = await Handle.of(ds.uri, None, alance.Session()).find(None)

    def ahead(days: float) -> datetime:
        return datetime.now(UTC) + timedelta(days=days)

    with pytest.raises(alance.StoreError, match="by the clock of this machine"):
        await clean_up(handle, 1, CleanupPolicy(), now=partial(ahead, 8))
    assert files(tmp_path) == before
    done = await clean_up(handle, 1, CleanupPolicy(), now=partial(ahead, 6))
    assert (done.files, files(tmp_path)) == ((), before)
    age(tmp_path / ROOT, 8, "data/uploaded.lance")
    with alance.receipt() as spent:
        done = await clean_up(handle, 1, CleanupPolicy())
    assert [file.path for file in done.files] == ["data/uploaded.lance"]
    assert spent.requests["put"] == spent.requests["head"] == 1
    assert files(tmp_path) == {name: n for name, n in before.items() if "uploaded" not in name}


async def test_requests() -> None:
    ds = await memory_history(CountingStore)
    with alance.receipt() as spent:
        await ds.cleanup_old_versions(NOW, dry_run=True)
    assert spent.requests == {"list": 8, "get": 3}
    with alance.receipt() as spent:
        done = await ds.cleanup_old_versions(NOW)
    assert spent.requests == {"list": 11, "get": 3, "delete": 2}, "files, then manifests"
    assert len(done.files) == 6


async def test_in_s3(s3_server: S3Server) -> None:
    options = s3_server.storage_options
    uri = "s3://bucket/cleanup.lance"
    ds = await alance.write_dataset(numbers(0, 3), uri, storage_options=options)
    for i in range(3):
        ds = await ds.overwrite(numbers(i, i + 1))
    done = await ds.cleanup_old_versions(NOW)
    assert done.versions == (1, 2, 3)
    theirs = lance.dataset(uri, storage_options=options)
    assert [one["version"] for one in theirs.versions()] == [4]
    assert theirs.to_table()["a"] == pa.chunked_array([[2]])


@pytest.mark.parametrize("at", range(1, 30, 3))
async def test_a_cancelled_cleanup_is_taken_up_by_the_next(at: int) -> None:
    scope = anyio.CancelScope()
    count = 0

    def stop(_: Request) -> None:
        nonlocal count
        count += 1
        if count == at:
            scope.cancel()

    ds = await memory_history(lambda store: FaultyStore(store, after=stop))
    count = 0
    with scope:
        await ds.cleanup_old_versions(NOW)
    count = -1000
    assert column_a(await ds.to_table()) == [6, 7, 8]
    await ds.cleanup_old_versions(NOW)
    client, root = ds._handle.places.client, ds._handle.places.root
    left = [info.path.removeprefix(f"{root}/") for info in await client.list(root)]
    assert sorted(Path(path).parent.name for path in left) == ["_transactions", "_versions", "data"]
