"""Tags: made, moved and removed, by this library and by the reference."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import lance
import pytest

import alance
from alance.table.refs import tag_path
from alance.testing.stores import CountingStore, FaultyStore, Request
from tests.dataset.helpers import ROOT, column_a, files, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

FIRST = "_versions/18446744073709551614.manifest"


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    """Versions 1 to 3 of three rows each."""
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await ds.append(numbers(3, 6))
    return await ds.append(numbers(6, 9))


async def test_a_tag_leads_to_its_version(dataset: alance.Dataset) -> None:
    began = datetime.now(UTC)
    await dataset.tags.create("v1.0", 1)
    await dataset.tags.create("current")
    for ds in (
        await dataset.checkout("v1.0"),
        await alance.open_dataset(dataset.uri, version="v1.0"),
    ):
        assert ds.version == 1
        assert column_a(await ds.to_table()) == [0, 1, 2]
    found = await dataset.tags.list()
    assert list(found) == ["current", "v1.0"]
    assert [tag["version"] for tag in found.values()] == [3, 1]
    one = found["v1.0"]
    assert (one["branch"], one["metadata"]) == (None, {})
    assert began <= one["created_at"] == one["updated_at"] <= datetime.now(UTC)
    assert one["manifest_size"] == files(Path(dataset.uri))[FIRST]
    assert await dataset.tags.get_version("v1.0") == 1


async def test_a_tag_moves(dataset: alance.Dataset) -> None:
    await dataset.tags.create("prod", 1)
    await dataset.tags.replace_metadata("prod", {"who": "me"})
    before = (await dataset.tags.list())["prod"]
    await dataset.tags.update("prod", 2)
    after = (await dataset.tags.list())["prod"]
    assert after["version"] == 2
    assert after["created_at"] == before["created_at"] < after["updated_at"]
    assert after["metadata"] == before["metadata"] == {"who": "me"}
    await dataset.tags.create("same", "prod")
    assert await dataset.tags.get_version("same") == 2


async def test_a_tag_goes(dataset: alance.Dataset) -> None:
    before = files(Path(dataset.uri))
    await dataset.tags.create("x", 1)
    await dataset.tags.delete("x")
    assert files(Path(dataset.uri)) == before
    assert await dataset.tags.list() == {}
    with pytest.raises(alance.VersionNotFoundError, match="has no tag 'x'"):
        await dataset.checkout("x")


async def test_the_reference_reads_ours(dataset: alance.Dataset) -> None:
    await dataset.tags.create("ours", 2)
    await dataset.tags.replace_metadata("ours", {"a": "ä"})
    theirs = lance.dataset(dataset.uri)
    assert theirs.tags.list() == await dataset.tags.list()
    assert lance.dataset(dataset.uri, version="ours").count_rows() == 6
    theirs.tags.update("ours", 1)
    assert await dataset.tags.get_version("ours") == 1
    theirs.tags.delete("ours")
    assert await dataset.tags.list() == {}


async def test_we_read_those_of_the_reference(dataset: alance.Dataset) -> None:
    theirs = lance.dataset(dataset.uri)
    theirs.tags.create("one", 1)
    theirs.tags.create("two", 2)
    theirs.tags.replace_metadata("two", {"a": "b"})
    assert await dataset.tags.list() == theirs.tags.list()
    assert (await dataset.checkout("two")).version == 2
    await dataset.tags.update("two", 3)
    await dataset.tags.delete("one")
    assert theirs.tags.list() == await dataset.tags.list()
    assert lance.dataset(dataset.uri, version="two").count_rows() == 9


async def test_a_name_is_given_once(dataset: alance.Dataset) -> None:
    await dataset.tags.create("x", 1)
    with pytest.raises(alance.AlreadyExistsError, match="has a tag 'x' already"):
        await dataset.tags.create("x", 2)
    assert await dataset.tags.get_version("x") == 1


async def test_what_is_not_there(dataset: alance.Dataset) -> None:
    for wrong in (
        dataset.tags.update("x", 1),
        dataset.tags.delete("x"),
        dataset.tags.get_version("x"),
        dataset.tags.replace_metadata("x", {}),
        dataset.checkout("x"),
    ):
        with pytest.raises(alance.VersionNotFoundError, match="has no tag 'x'"):
            await wrong
    with pytest.raises(alance.VersionNotFoundError, match="no version 9"):
        await dataset.tags.create("x", 9)
    await dataset.tags.create("x", 1)
    with pytest.raises(alance.VersionNotFoundError, match="no version 9"):
        await dataset.tags.update("x", 9)
    assert await dataset.tags.get_version("x") == 1


async def test_bad_arguments(dataset: alance.Dataset) -> None:
    before = files(Path(dataset.uri))
    for name in ("", "a/b", "a b", ".x", "x.lock"):
        with pytest.raises(alance.InvalidInputError, match="is no tag name"):
            await dataset.tags.create(name, 1)
    for no_text in (None, 1, b"x", "\ud800"):
        for call in (dataset.tags.get_version, dataset.tags.update, dataset.tags.delete):
            with pytest.raises(alance.InvalidInputError, match="a tag's name must be text"):
                await call(no_text)  # type: ignore[arg-type]
    for version in (0, -1, True, 1.5, ("main",), (None, "1")):
        with pytest.raises(alance.InvalidInputError):
            await dataset.tags.create("x", version)  # type: ignore[arg-type]
    for metadata in ("a", {"a": 1}, {1: "a"}):
        with pytest.raises(alance.InvalidInputError, match="metadata must map text to text"):
            await dataset.tags.replace_metadata("x", metadata)  # type: ignore[arg-type]
    assert files(Path(dataset.uri)) == before


async def test_a_damaged_tag(dataset: alance.Dataset) -> None:
    path = Path(dataset.uri) / "_refs" / "tags"
    path.mkdir(parents=True)
    (path / "bad.json").write_text('{"version": -1}')
    (path / "note.txt").write_text("no tag")
    with pytest.raises(alance.CorruptFileError, match=r"bad\.json: version must be"):
        await dataset.checkout("bad")
    with pytest.raises(alance.CorruptFileError, match=r"bad\.json: version must be"):
        await dataset.tags.list()
    (path / "bad.json").write_text("")
    with pytest.raises(alance.CorruptFileError, match=r"bad\.json"):
        await dataset.tags.list()
    (path / "bad.json").unlink()
    assert await dataset.tags.list() == {}


async def test_a_tag_of_a_version_that_is_gone(dataset: alance.Dataset) -> None:
    await dataset.tags.create("x", 1)
    await dataset._handle.places.client.delete(f"{dataset._handle.places.root}/{FIRST}")
    with pytest.raises(alance.VersionNotFoundError, match="no version 1"):
        await dataset.checkout("x")


@pytest.mark.parametrize("error", [alance.AlreadyExistsError, alance.StoreTimeoutError])
async def test_a_lost_answer_does_not_make_a_second_tag(error: type[alance.AlanceError]) -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")

    def put_again(request: Request) -> None:
        if request.kind == "put_if_absent":
            raise error("told to fail")

    ds = await open_on(session, FaultyStore(memory, after=put_again))
    await ds.tags.create("x")
    assert await ds.tags.get_version("x") == 1


async def test_a_store_that_refuses_is_told() -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")

    def refuse(request: Request) -> None:
        if request.kind == "put_if_absent":
            raise alance.PermissionDeniedError("told to fail")

    ds = await open_on(session, FaultyStore(memory, before=refuse))
    for create in (ds.tags.create, ds.branches.create):
        with pytest.raises(alance.PermissionDeniedError):
            await create("x")
    assert not await ds.tags.list()
    assert not await ds.branches.list()


async def test_a_tag_that_went_while_it_was_in_the_way() -> None:
    session = alance.Session()
    memory = session.clients.open("memory://")[0].store
    await write_on(session, memory, numbers(0, 3), "create")

    def refuse(request: Request) -> None:
        if request.kind == "put_if_absent":
            raise alance.AlreadyExistsError("exists")

    ds = await open_on(session, FaultyStore(memory, before=refuse))
    with pytest.raises(alance.AlreadyExistsError, match="has a tag 'x' already"):
        await ds.tags.create("x")
    with pytest.raises(alance.AlreadyExistsError, match="has a branch 'x' already"):
        await ds.branches.create("x")


async def test_requests() -> None:
    session = alance.Session()
    store = CountingStore(session.clients.open("memory://")[0].store)
    await write_on(session, store, numbers(0, 3), "create")
    ds = await open_on(session, store)
    store.requests.clear()
    await ds.tags.create("x")
    assert [one.kind for one in store.requests] == ["get_tail", "get_tail", "put_if_absent"]
    assert store.requests[-1].path == tag_path(ROOT, "x")
    store.requests.clear()
    await ds.checkout("x")
    assert [one.kind for one in store.requests] == ["get_tail", "get_tail"]
