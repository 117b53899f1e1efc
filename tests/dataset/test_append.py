"""Writers that meet: every acknowledged row stays, whoever was first."""

from __future__ import annotations

from pathlib import Path

import anyio
import pyarrow as pa
import pytest

import alance
from alance.io.simulated import SimulatedStore
from alance.testing.s3 import S3Server
from tests.dataset.helpers import ROOT, column_a, data_files, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

Place = tuple[str, dict[str, str] | None, list[alance.Session]]


@pytest.fixture(params=["memory", "local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """URI and options of an empty place, and two sessions that both see it."""
    if request.param == "memory":
        session = alance.Session()
        return "memory://set.lance", None, [session, session]
    sessions = [alance.Session(), alance.Session()]
    if request.param == "local":
        return str(tmp_path / ROOT), None, sessions
    server: S3Server = request.getfixturevalue("s3_server")
    name = tmp_path.name.replace("[", "-").replace("]", "")
    return f"s3://bucket/{name}.lance", server.storage_options, sessions


async def test_appends_at_once_all_survive(place: Place) -> None:
    uri, options, sessions = place
    await alance.write_dataset(numbers(0, 10), uri, storage_options=options, session=sessions[0])
    handles = [
        await alance.open_dataset(uri, storage_options=options, session=session)
        for session in sessions
    ]
    versions: list[int] = []

    async def append(i: int) -> None:
        ds = await handles[i % 2].append(numbers(i * 10, i * 10 + 10))
        versions.append(ds.version)
        assert set(column_a(await ds.to_table())) >= set(range(i * 10, i * 10 + 10))

    async with anyio.create_task_group() as tg:
        for i in range(1, 5):
            tg.start_soon(append, i)
    newest = await handles[0].latest()
    assert set(versions) == set(range(2, newest.version + 1)), "each caller is told its version"
    assert sorted(column_a(await newest.to_table())) == list(range(50))


async def test_creations_at_once_have_one_winner(place: Place) -> None:
    uri, options, sessions = place
    created: list[alance.Dataset] = []
    refused: list[str] = []

    async def create(i: int) -> None:
        try:
            ds = await alance.write_dataset(
                numbers(i, i + 5), uri, storage_options=options, session=sessions[i % 2]
            )
        except alance.DatasetAlreadyExistsError as exc:
            refused.append(str(exc))
        else:
            created.append(ds)

    async with anyio.create_task_group() as tg:
        for i in range(3):
            tg.start_soon(create, i)
    assert len(created) == 1
    assert len(refused) == 2
    assert all('mode="append" or mode="overwrite"' in text for text in refused)
    opened = await alance.open_dataset(uri, storage_options=options, session=sessions[0])
    assert (await opened.to_table()).equals(await created[0].to_table())
    client, root = sessions[0].clients.open(uri, options)
    stored = [info.path.rsplit("/", 1)[-1] for info in await client.list(f"{root}/data")]
    assert stored == [opened.fragments[0].files[0].path], "the others removed their files"
    assert len(await client.list(f"{root}/_transactions")) == 1


@pytest.mark.parametrize("mode", ["append", "overwrite"])
async def test_writes_at_once_to_nothing_all_succeed(place: Place, mode: str) -> None:
    uri, options, sessions = place

    async def write(i: int) -> None:
        await alance.write_dataset(
            numbers(i, i + 1), uri, mode=mode, storage_options=options, session=sessions[i % 2]
        )

    async with anyio.create_task_group() as tg:
        for i in range(2):
            tg.start_soon(write, i)
    ds = await alance.open_dataset(uri, storage_options=options, session=sessions[0])
    assert ds.version == 2
    first = await ds.checkout(1)
    rows = [column_a(await each.to_table()) for each in (first, ds)]
    other = 1 - rows[0][0]
    assert sorted(rows[1]) == ([0, 1] if mode == "append" else [other])


async def test_an_old_handle_appends_behind_what_others_wrote(tmp_path: Path) -> None:
    old = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    ds = old
    for i in range(1, 6):
        ds = await ds.append(numbers(i, i + 1))
    newest = await old.append(numbers(6, 7))
    assert newest.version == 7
    assert column_a(await newest.to_table()) == list(range(7))
    assert await old.count_rows() == 1


async def test_an_append_after_another_schema_was_written_is_refused(tmp_path: Path) -> None:
    old = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    await old.overwrite(pa.table({"x": [1]}))
    before = data_files(tmp_path / ROOT)
    with pytest.raises(alance.CommitConflictError, match=r"Append on version 1.*Overwrite"):
        await old.append(numbers(1, 2))
    assert data_files(tmp_path / ROOT) == before
    assert (await old.latest()).version == 2


async def test_an_overwrite_from_an_old_handle_wins(tmp_path: Path) -> None:
    old = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    await old.append(numbers(1, 2))
    newest = await old.overwrite(numbers(7, 8))
    assert newest.version == 3
    assert column_a(await newest.to_table()) == [7]


async def test_columns_in_another_order_and_nullable_ones_left_out(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 2), tmp_path / ROOT)
    ds = await ds.append(numbers(2, 4).select(["s", "a"]))
    found = await ds.to_table()
    assert column_a(found) == [0, 1, 2, 3]
    assert found["s"].to_pylist() == [None, "row 1", "row 2", "row 3"]
    assert found["p"].null_count == 2
    assert (await ds.take([3, 0])).equals(found.take([3, 0]))
    assert await ds.count_rows("p is null") == 2


async def test_a_dataset_of_other_ids_created_meanwhile() -> None:
    """The files of an append that was to create fit only a dataset with the same field ids."""
    store, session = SimulatedStore(), alance.Session()
    other = SimulatedStore()
    await write_on(session, other, numbers(0, 2).select(["p", "s", "a"]), "create")

    async def hook(request: object, moment: object) -> None:
        """Let the other writer finish once the files of this one are there."""
        if store.objects and not store.objects.keys() & other.objects.keys():
            for path, data in other.objects.items():
                store.preload(path, data)

    store.hook = hook
    with pytest.raises(alance.RetryableCommitError, match="run the write again"):
        await write_on(session, store, numbers(2, 4), "append")
    assert store.objects.keys() == other.objects.keys(), "nothing of the loser is left"
    store.hook = None
    ds = await open_on(session, store)
    assert (ds.version, await ds.count_rows()) == (1, 2)
    await write_on(session, store, numbers(2, 4), "append")
    assert sorted(column_a(await (await ds.latest()).to_table())) == [0, 1, 2, 3]
