"""Shallow clones: tables that begin with the files of others, by this library and the reference."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.table.manifest import BasePath
from alance.table.naming import manifest_path
from alance.table.refs import Reference
from alance.table.wire import build_manifest
from alance.testing.s3 import S3Server
from alance.testing.stores import FaultyStore, Request
from tests.dataset.helpers import ROOT, column_a, data_files, files, numbers, open_on, write_on

pytestmark = pytest.mark.anyio


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    """Version 2 has two fragments of three rows, one of which is deleted."""
    ds = await alance.write_dataset(numbers(0, 6), tmp_path / ROOT, max_rows_per_file=3)
    lance.dataset(ds.uri).delete("a = 1")
    return await ds.latest()


async def values(ds: alance.Dataset) -> list[int]:
    return column_a(await ds.to_table())


def theirs_of(uri: str) -> list[int]:
    return column_a(lance.dataset(uri).to_table())


async def test_a_clone_has_the_rows_and_none_of_the_files(
    dataset: alance.Dataset, tmp_path: Path
) -> None:
    before = files(Path(dataset.uri))
    clone = await dataset.shallow_clone(tmp_path / "clone.lance")
    assert (clone.version, clone.branch, clone.uri) == (2, None, str(tmp_path / "clone.lance"))
    assert await values(clone) == [0, 2, 3, 4, 5] == theirs_of(clone.uri)
    kinds = {Path(one).parent.name for one in files(Path(clone.uri))}
    assert kinds == {"_transactions", "_versions"}
    assert files(Path(dataset.uri)) == before
    old = await dataset.shallow_clone(tmp_path / "old.lance", 1)
    assert (old.version, await values(old)) == (1, [0, 1, 2, 3, 4, 5])


async def test_a_clone_is_written_to(dataset: alance.Dataset, tmp_path: Path) -> None:
    clone = await dataset.shallow_clone(tmp_path / "clone.lance")
    before = files(Path(dataset.uri))
    clone = await clone.append(numbers(10, 12))
    theirs = lance.dataset(clone.uri)
    theirs.delete("a in (4, 10)")
    theirs = lance.write_dataset(numbers(20, 21), theirs, mode="append")
    clone = await (await clone.latest()).delete("a in (3, 20)")
    assert await values(clone) == [0, 2, 5, 11] == theirs_of(clone.uri)
    clone = await clone.overwrite(numbers(7, 8))
    assert await values(clone) == [7] == theirs_of(clone.uri)
    assert len(data_files(Path(clone.uri))) == 3
    assert files(Path(dataset.uri)) == before
    assert await values(await dataset.latest()) == [0, 2, 3, 4, 5]


async def test_a_clone_of_a_clone(dataset: alance.Dataset, tmp_path: Path) -> None:
    first = await (await dataset.shallow_clone(tmp_path / "one")).append(numbers(10, 11))
    second = await (await first.shallow_clone(tmp_path / "two")).append(numbers(20, 21))
    third = await second.shallow_clone(tmp_path / "three")
    assert await values(third) == [0, 2, 3, 4, 5, 10, 20] == theirs_of(third.uri)
    assert [base.id for base in third._manifest.base_paths] == [0, 1, 2]
    theirs = lance.dataset(third.uri).shallow_clone(str(tmp_path / "four"), 4)
    ours = await alance.open_dataset(theirs.uri)
    assert await values(ours) == [0, 2, 3, 4, 5, 10, 20]


async def test_of_tags_and_branches(dataset: alance.Dataset, tmp_path: Path) -> None:
    branch = await (await dataset.branches.create("x", 1)).append(numbers(10, 11))
    await branch.tags.create("t")
    references: list[Reference] = [("x", None), "t", ("x", 2)]
    for number, reference in enumerate(references):
        clone = await dataset.shallow_clone(tmp_path / f"{number}", reference)
        assert (clone.version, clone.branch) == (2, None)
        assert await values(clone) == [0, 1, 2, 3, 4, 5, 10] == theirs_of(clone.uri)
    of_branch = await branch.shallow_clone(tmp_path / "y")
    assert await values(of_branch) == [0, 1, 2, 3, 4, 5, 10]
    assert (await of_branch.latest()).branch is None


async def test_manifests_are_laid_out_as_the_reference_does(
    dataset: alance.Dataset, tmp_path: Path
) -> None:
    theirs = lance.dataset(dataset.uri)
    theirs.create_scalar_index("a", "BTREE")
    theirs.update_config({"k": "v"})
    found = []
    for name in ("ours", "theirs"):
        if name == "ours":
            await (await dataset.latest()).shallow_clone(tmp_path / name)
        else:
            theirs.shallow_clone(str(tmp_path / name), theirs.version)
        clone = await alance.open_dataset(tmp_path / name)
        found.append(
            replace(
                clone._manifest,
                timestamp_ns=0,
                writer=None,
                transaction=None,
                transaction_file="",
            )
        )
        assert lance.dataset(clone.uri).scanner(filter="a = 4").to_table().num_rows == 1
        assert lance.dataset(clone.uri).describe_indices()[0].name == "a_idx"
    assert found[0] == found[1]
    told = [
        await (await alance.open_dataset(tmp_path / n)).read_transaction()
        for n in ("ours", "theirs")
    ]
    assert [(one.operation, one.read_version) for one in told if one] == [("Clone", 4)] * 2


async def test_in_s3(s3_server: S3Server) -> None:
    options = s3_server.storage_options
    uri = "s3://bucket/clones/a set.lance"
    ds = await alance.write_dataset(numbers(0, 3), uri, storage_options=options, mode="overwrite")
    target = f"s3://bucket/clones/{ds.version}-clone.lance"
    clone = await ds.shallow_clone(target)
    assert await values(await clone.append(numbers(3, 4))) == [0, 1, 2, 3]
    found = lance.dataset(target, storage_options=options).to_table()
    assert column_a(found) == [0, 1, 2, 3]
    branch = await ds.branches.create(f"b{ds.version}/x")
    await branch.append(numbers(5, 6))
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.branches.list() == await ds.branches.list()
    theirs = theirs.checkout_version((branch.branch, None))
    assert column_a(theirs.to_table()) == [0, 1, 2, 5]


async def test_where_something_is(dataset: alance.Dataset, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(alance.DatasetAlreadyExistsError, match="a dataset exists at"):
        await dataset.shallow_clone(dataset.uri)
    with pytest.raises(alance.VersionNotFoundError, match="no version 9"):
        await dataset.shallow_clone(tmp_path / "x", 9)
    with pytest.raises(alance.VersionNotFoundError, match="no tag 't'"):
        await dataset.shallow_clone(tmp_path / "x", "t")
    with pytest.raises(alance.InvalidInputError):
        await dataset.shallow_clone("ftp://x/y")
    assert files(tmp_path) == before


async def test_a_failed_clone_leaves_nothing() -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")
    before = await memory.list("")

    def refuse(request: Request) -> None:
        if request.kind == "put_if_absent":
            raise alance.PermissionDeniedError("no")

    faulty = FaultyStore(memory, before=refuse)
    ds = await open_on(session, memory)
    session.clients._opened = {
        key: (faulty, config) for key, (_, config) in session.clients._opened.items()
    }
    with pytest.raises(alance.PermissionDeniedError):
        await ds.shallow_clone("memory://clone.lance")
    assert await memory.list("") == before


@pytest.mark.parametrize(
    ("base", "says"),
    [
        (BasePath(7, "/nowhere", True), "refers to a base path that is not listed"),
        (BasePath(0, "relative/path", True), "leads nowhere: it is relative"),
        (BasePath(0, "../up", True), "leads nowhere: it is relative"),
        (BasePath(0, "", True), "leads nowhere"),
        (BasePath(0, "ftp://host/path", True), "leads nowhere"),
        (BasePath(0, "s3:///path", True), "leads nowhere"),
        (BasePath(0, "/a\0b", True), "leads nowhere"),
    ],
)
async def test_base_paths_that_cannot_be(
    dataset: alance.Dataset, tmp_path: Path, base: BasePath, says: str
) -> None:
    clone = await dataset.shallow_clone(tmp_path / "clone.lance")
    forged = replace(clone._manifest, base_paths=(base,))
    place = clone._handle.places
    await place.client.put(
        manifest_path(place.root, clone.version, forged.naming), build_manifest(forged)
    )
    with pytest.raises(alance.CorruptFileError, match=says):
        await alance.open_dataset(clone.uri)


async def test_a_source_that_is_gone(dataset: alance.Dataset, tmp_path: Path) -> None:
    clone = await dataset.shallow_clone(tmp_path / "clone.lance")
    for name in data_files(Path(dataset.uri)):
        await clone._handle.places.client.delete(f"{dataset.uri[1:]}/data/{name}")
    assert await clone.count_rows() == 5
    with pytest.raises(alance.AlanceError, match=r"set\.lance/data/"):
        await clone.to_table()
    assert isinstance(clone.schema, pa.Schema)


async def test_a_version_that_is_cleaned_up(dataset: alance.Dataset, tmp_path: Path) -> None:
    newest = await dataset.overwrite(numbers(7, 8))
    await newest.cleanup_old_versions(timedelta(0))
    before = files(tmp_path)
    for version in (None, dataset.version):
        with pytest.raises(alance.VersionNotFoundError, match="cleaned up"):
            await dataset.shallow_clone(tmp_path / "clone", version)
    assert files(tmp_path) == before
