"""Branches: begun, written on and removed, by this library and by the reference."""

from __future__ import annotations

import json
import pickle
import shutil
from datetime import timedelta
from pathlib import Path

import anyio
import lance
import pytest

import alance
from alance.testing.stores import FaultyStore, Request
from tests.dataset.helpers import ROOT, column_a, data_files, files, numbers, open_on, write_on

pytestmark = pytest.mark.anyio


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    """Versions 1 and 2 of three rows each."""
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    return await ds.append(numbers(3, 6))


async def values(ds: alance.Dataset) -> list[int]:
    return column_a(await ds.to_table())


def text(ds: alance.Dataset, path: str) -> str:
    return Path(ds.uri, path).read_text()


def remove(ds: alance.Dataset, path: str) -> None:
    Path(ds.uri, path).unlink()


async def test_a_branch_goes_its_own_way(dataset: alance.Dataset) -> None:
    branch = await dataset.branches.create("feat/x", 1)
    assert (branch.version, branch.branch) == (1, "feat/x")
    assert branch.uri == f"{dataset.uri}/tree/feat/x"
    assert await values(branch) == [0, 1, 2]
    branch = await branch.append(numbers(7, 8))
    assert (branch.version, branch.branch) == (2, "feat/x")
    assert await values(branch) == [0, 1, 2, 7]
    assert await values(await branch.latest()) == [0, 1, 2, 7]
    assert await values(await dataset.latest()) == [0, 1, 2, 3, 4, 5], "the main line stays"
    assert [one["version"] for one in await branch.versions()] == [1, 2]
    assert len(data_files(Path(branch.uri))) == 1, "only what was written on it"


async def test_ways_to_a_branch(dataset: alance.Dataset) -> None:
    branch = await (await dataset.branches.create("x")).append(numbers(7, 8))
    for ds in (
        await dataset.checkout(("x", None)),
        await dataset.checkout(("x", 3)),
        await alance.open_dataset(dataset.uri, version=("x", None)),
        await alance.open_dataset(branch.uri),
        await (await branch.checkout(2)).latest(),
    ):
        assert (ds.uri, ds.branch, ds.version) == (branch.uri, "x", 3)
        assert await values(ds) == [0, 1, 2, 3, 4, 5, 7]
    for ds in (
        await branch.checkout(("main", None)),
        await branch.checkout((None, 2)),
        await alance.open_dataset(branch.uri, version=("main", None)),
    ):
        assert (ds.uri, ds.branch, ds.version) == (dataset.uri, None, 2)


async def test_tags_belong_to_the_dataset(dataset: alance.Dataset) -> None:
    branch = await (await dataset.branches.create("x", 1)).append(numbers(7, 8))
    await branch.tags.create("tip")
    await branch.tags.create("first", 1)
    await branch.tags.create("main", ("main", 2))
    found = await dataset.tags.list()
    assert {name: (tag["branch"], tag["version"]) for name, tag in found.items()} == {
        "first": ("x", 1),
        "main": (None, 2),
        "tip": ("x", 2),
    }
    for ds in (dataset, branch, await alance.open_dataset(branch.uri)):
        assert await ds.tags.list() == found
        assert await values(await ds.checkout("tip")) == [0, 1, 2, 7]
        assert (await ds.checkout("main")).uri == dataset.uri
    assert (await alance.open_dataset(branch.uri, version="tip")).version == 2
    assert lance.dataset(dataset.uri).tags.list() == found
    assert lance.dataset(dataset.uri, version="tip").count_rows() == 4


async def test_a_branch_of_a_branch(dataset: alance.Dataset) -> None:
    first = await (await dataset.branches.create("one", 1)).append(numbers(10, 12))
    second = await (await first.branches.create("two")).append(numbers(20, 22))
    assert second.uri == f"{dataset.uri}/tree/two"
    assert await values(second) == [0, 1, 2, 10, 11, 20, 21]
    found = await second.branches.list()
    assert [found[name]["parent_branch"] for name in ("one", "two")] == [None, "one"]
    assert found["two"]["branch_identifier"][:1] == found["one"]["branch_identifier"]
    assert [version for version, _ in found["two"]["branch_identifier"]] == [1, 2]
    theirs = lance.dataset(dataset.uri)
    assert theirs.branches.list() == found
    assert theirs.checkout_version(("two", None)).to_table()["a"].to_pylist() == await values(
        second
    )


async def test_the_reference_goes_on_from_ours(dataset: alance.Dataset) -> None:
    ours = await dataset.branches.create("feat/x", 1)
    theirs = lance.dataset(dataset.uri).checkout_version(("feat/x", None))
    assert theirs.to_table()["a"].to_pylist() == [0, 1, 2]
    theirs.delete("a = 1")
    theirs = lance.write_dataset(numbers(8, 9), theirs, mode="append")
    again = await (await ours.latest()).append(numbers(9, 10))
    assert (again.version, await values(again)) == (4, [0, 2, 8, 9])
    again = await again.delete("a = 2")
    assert (again.version, again.branch, await values(again)) == (5, "feat/x", [0, 8, 9])
    theirs = lance.dataset(dataset.uri).checkout_version(("feat/x", None))
    assert theirs.to_table()["a"].to_pylist() == [0, 8, 9]
    assert await values(await dataset.latest()) == [0, 1, 2, 3, 4, 5]


async def test_we_go_on_from_those_of_the_reference(dataset: alance.Dataset) -> None:
    theirs = lance.dataset(dataset.uri)
    branch = theirs.create_branch("feat/x", 1)
    branch.delete("a = 1")
    branch = lance.write_dataset(numbers(8, 9), branch, mode="append")
    branch.create_branch("sub")
    assert await dataset.branches.list() == theirs.branches.list()
    ours = await dataset.checkout(("feat/x", None))
    assert await values(ours) == [0, 2, 8]
    ours = await ours.append(numbers(9, 10))
    branch.checkout_latest()
    assert branch.to_table()["a"].to_pylist() == await values(ours) == [0, 2, 8, 9]
    assert await values(await dataset.checkout(("sub", None))) == [0, 2, 8]
    await dataset.branches.delete("sub")
    assert list(theirs.branches.list()) == ["feat/x"]


async def test_manifests_are_laid_out_as_the_reference_does(tmp_path: Path) -> None:
    found = []
    for name in ("ours", "theirs"):
        ds = await alance.write_dataset(numbers(0, 3), tmp_path / name)
        theirs = lance.dataset(ds.uri)
        theirs.delete("a = 1")
        if name == "ours":
            await ds.branches.create("x", 2)
        else:
            theirs.create_branch("x", 2)
        manifest = (await alance.open_dataset(ds.uri, version=("x", None)))._manifest
        found.append((
            manifest.version,
            manifest.branch,
            [(b.id, b.is_dataset_root, b.name, b.path == ds.uri) for b in manifest.base_paths],
            [(f.id, [d.base_id for d in f.files]) for f in manifest.fragments],
            [f.deletion_file and f.deletion_file.base_id for f in manifest.fragments],
            (manifest.reader_flags, manifest.writer_flags, manifest.max_fragment_id),
            list(json.loads(text(ds, "_refs/branches/x.json"))),
            sorted(Path(one).suffix for one in files(Path(ds.uri, "tree")) if "hint" not in one),
        ))
    assert found[0] == found[1]


async def test_a_branch_goes_with_its_files(dataset: alance.Dataset) -> None:
    before = files(Path(dataset.uri))
    await (await dataset.branches.create("feat", 1)).append(numbers(7, 8))
    nested = await (await dataset.branches.create("feat/data", 1)).append(numbers(8, 9))
    await dataset.branches.delete("feat")
    assert list(await dataset.branches.list()) == ["feat/data"]
    assert await values(await nested.latest()) == [0, 1, 2, 8]
    with pytest.raises(alance.VersionNotFoundError, match="has no branch 'feat'"):
        await dataset.checkout(("feat", None))
    await dataset.branches.delete("feat/data")
    assert files(Path(dataset.uri)) == before


async def test_a_branch_in_use_stays(dataset: alance.Dataset) -> None:
    one = await dataset.branches.create("one", 1)
    await one.branches.create("two")
    await one.tags.create("t")
    with pytest.raises(alance.InvalidInputError, match="in use by branch 'two', tag 't'"):
        await dataset.branches.delete("one")
    await dataset.branches.delete("two")
    await dataset.tags.delete("t")
    await dataset.branches.delete("one")
    assert await dataset.branches.list() == {}


async def test_metadata(dataset: alance.Dataset) -> None:
    await dataset.branches.create("x")
    await dataset.branches.replace_metadata("x", {"who": "me"})
    assert (await dataset.branches.list())["x"]["metadata"] == {"who": "me"}
    assert lance.dataset(dataset.uri).branches.list() == await dataset.branches.list()
    with pytest.raises(alance.InvalidInputError, match="metadata must map"):
        await dataset.branches.replace_metadata("x", {"who": 1})  # type: ignore[dict-item]


async def test_what_cannot_be(dataset: alance.Dataset) -> None:
    await dataset.branches.create("x")
    before = files(Path(dataset.uri))
    with pytest.raises(alance.AlreadyExistsError, match="has a branch 'x' already"):
        await dataset.branches.create("x", 1)
    for name in ("main", "a//b", "../up", "", "a b"):
        with pytest.raises(alance.InvalidInputError, match="is no branch name"):
            await dataset.branches.create(name)
        with pytest.raises(alance.InvalidInputError, match="is no branch name"):
            await dataset.branches.delete(name)
    with pytest.raises(alance.InvalidInputError, match="is no branch name"):
        await dataset.checkout(("../up", None))
    with pytest.raises(alance.VersionNotFoundError, match="no version 9"):
        await dataset.branches.create("y", 9)
    for wrong in (
        dataset.branches.create("y", ("zz", None)),
        dataset.checkout(("zz", None)),
        dataset.branches.delete("zz"),
        dataset.branches.replace_metadata("zz", {}),
    ):
        with pytest.raises(alance.VersionNotFoundError, match="has no branch 'zz'"):
            await wrong
    assert files(Path(dataset.uri)) == before


async def test_leftovers_of_a_branch(dataset: alance.Dataset) -> None:
    await dataset.branches.create("x")
    remove(dataset, "_refs/branches/x.json")
    before = files(Path(dataset.uri))
    with pytest.raises(alance.AlreadyExistsError, match=r"delete them with branches\.delete"):
        await dataset.branches.create("x")
    assert files(Path(dataset.uri)) == before
    await dataset.branches.delete("x")
    await dataset.branches.create("x")


async def test_a_failed_branch_leaves_nothing() -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")
    before = await memory.list("")

    def refuse(request: Request) -> None:
        if request.kind == "put_if_absent" and "tree/x/_versions" in request.path:
            raise alance.PermissionDeniedError("no")

    ds = await open_on(session, FaultyStore(memory, before=refuse))
    with pytest.raises(alance.PermissionDeniedError):
        await ds.branches.create("x")
    assert await memory.list("") == before


async def test_an_outcome_that_cannot_be_known() -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")

    def cut(request: Request) -> None:
        if "tree/x/_versions" in request.path and request.kind != "list":
            raise alance.StoreError("gone")

    ds = await open_on(session, FaultyStore(memory, after=cut))
    with pytest.raises(alance.CommitStateUnknownError):
        await ds.branches.create("x")
    assert list(await ds.branches.list()) == ["x"], "it may be there"


@pytest.mark.parametrize("error", [alance.AlreadyExistsError, alance.StoreTimeoutError])
async def test_a_lost_answer_is_looked_up(error: type[alance.AlanceError]) -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")

    def cut(request: Request) -> None:
        if request.kind == "put_if_absent":
            raise error("told to fail")

    ds = await open_on(session, FaultyStore(memory, after=cut))
    branch = await ds.branches.create("x")
    assert await values(branch) == [0, 1, 2]


async def test_with_an_external_manifest_store(tmp_path: Path) -> None:
    entries = alance.SqliteManifestStore(tmp_path / "entries.db")
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT, manifest_store=entries)
    ds = await ds.append(numbers(3, 4))
    for _ in range(2):  # the second branch of the name finds nothing of the first
        branch = await (await ds.branches.create("x", 1)).append(numbers(7, 8))
        assert (branch.version, await values(branch)) == (2, [0, 1, 2, 7])
        await branch.tags.create("tip")
        assert await values(await ds.checkout("tip")) == [0, 1, 2, 7]
        await ds.tags.delete("tip")
        await ds.branches.delete("x")
    clone = await ds.shallow_clone(tmp_path / "clone", manifest_store=entries)
    clone = await (await clone.overwrite(numbers(7, 8))).append(numbers(8, 9))
    done = await clone.cleanup_old_versions(timedelta(0))
    assert (done.versions, await values(await clone.latest())) == ((2, 3), [7, 8])
    with pytest.raises(alance.VersionNotFoundError):
        await clone.checkout(2)
    assert await values(ds) == [0, 1, 2, 3]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 9))
async def test_a_cancelled_branch_is_there_or_not(at: int, after: bool) -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")
    before = await memory.list("")
    scope = anyio.CancelScope()
    count = 0

    def stop(_: Request) -> None:
        nonlocal count
        count += 1
        if count == at:
            scope.cancel()

    faulty = FaultyStore(memory, **{"after" if after else "before": stop})
    ds = await open_on(session, faulty)
    count = 0
    with scope:
        await ds.branches.create("x")
    count = -1000
    branches = await ds.branches.list()
    if branches:
        assert await values(await ds.checkout(("x", None))) == [0, 1, 2]
    else:
        assert await memory.list("") == before


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_uris_of_branches(tmp_path: Path, scheme: str) -> None:
    uri = f"{scheme}{tmp_path}/a b.lance/"
    ds = await alance.write_dataset(numbers(0, 3), uri)
    branch = await ds.branches.create("feat/x")
    assert branch.uri == f"{scheme}{tmp_path}/a b.lance/tree/feat/x"
    there = await alance.open_dataset(branch.uri)
    back = await there.checkout(("main", None))
    assert (back.uri, back.branch) == (f"{scheme}{tmp_path}/a b.lance", None)
    other = await there.branches.create("größe")
    assert await values(await alance.open_dataset(other.uri)) == [0, 1, 2]
    escaped = await alance.open_dataset(f"file://{tmp_path}/a%20b.lance/tree/gr%C3%B6%C3%9Fe")
    assert escaped.branch == "größe"
    assert (await escaped.checkout((None, 1))).branch is None
    assert len(await escaped.branches.list()) == 2


async def test_a_branch_that_was_copied_elsewhere_stands_by_itself(
    dataset: alance.Dataset, tmp_path: Path
) -> None:
    branch = await dataset.branches.create("x")
    copy = tmp_path / "copy.lance"
    shutil.copytree(branch.uri, copy)
    ds = await alance.open_dataset(copy)
    assert (ds.branch, await values(ds)) == ("x", [0, 1, 2, 3, 4, 5])
    await ds.tags.create("t")
    assert list(await ds.tags.list()) == ["t"]
    assert await dataset.tags.list() == {}
    below = await (await ds.branches.create("y")).append(numbers(7, 8))
    assert await values(below) == [0, 1, 2, 3, 4, 5, 7]
    assert list(await dataset.branches.list()) == ["x"]


async def test_a_branch_travels_pickled(dataset: alance.Dataset) -> None:
    branch = await (await dataset.branches.create("feat/x")).append(numbers(7, 8))
    there = pickle.loads(pickle.dumps(branch))
    assert (there.uri, there.branch, there.version) == (branch.uri, "feat/x", 3)
    assert await values(there) == [0, 1, 2, 3, 4, 5, 7]
    assert (await there.checkout(("main", None))).uri == dataset.uri
