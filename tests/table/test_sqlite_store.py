"""The manifest store in a SQLite file: alone, among processes, and under a dataset."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pyarrow as pa
import pytest

import alance
from alance.errors import AlreadyExistsError, InvalidInputError, StoreError, StoreTimeoutError
from alance.table.external import ExternalManifestStore, ManifestEntry
from alance.table.sqlite_store import SqliteManifestStore

pytestmark = pytest.mark.anyio

WRITER = """
import asyncio, sys, pyarrow as pa, alance
folder, name = sys.argv[1:]

async def main():
    entries = alance.SqliteManifestStore(folder + "/entries.db")
    for i in range(4):
        data = pa.table({"who": [name], "i": [i]})
        await alance.write_dataset(
            data, folder + "/t.lance", mode="append", manifest_store=entries
        )

asyncio.run(main())
"""


@pytest.fixture
def entries(tmp_path: Path) -> SqliteManifestStore:
    return SqliteManifestStore(tmp_path / "entries.db")


async def test_entries(entries: SqliteManifestStore) -> None:
    assert isinstance(entries, ExternalManifestStore)
    assert await entries.get_latest("d") is None
    for version in (1, 3, 12):
        await entries.put_if_absent("d", ManifestEntry(version, f"staged{version}", 7))
    await entries.put_if_absent("other", ManifestEntry(20, "p"))
    with pytest.raises(AlreadyExistsError, match="has version 3 of d"):
        await entries.put_if_absent("d", ManifestEntry(3, "mine", 8))
    assert await entries.get("d", 3) == ManifestEntry(3, "staged3", 7)
    assert await entries.get("d", 2) is None
    await entries.put("d", ManifestEntry(12, "final", 9))
    await entries.put("d", ManifestEntry(13, "of nothing", 9))
    assert await entries.get_latest("d") == ManifestEntry(12, "final", 9)
    assert await entries.get_latest("other") == ManifestEntry(20, "p", None)
    await entries.delete("d")
    assert await entries.get_latest("d") is None
    assert await entries.get_latest("other") == ManifestEntry(20, "p", None)


async def test_a_copy_leads_to_the_same_file(entries: SqliteManifestStore) -> None:
    await entries.put_if_absent("d", ManifestEntry(1, "p", 7))
    again = pickle.loads(pickle.dumps(entries))
    assert await again.get_latest("d") == ManifestEntry(1, "p", 7)
    assert "entries.db" in repr(again)


async def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database, but long enough to be looked at" * 100)
    for path in (tmp_path / "text", tmp_path / "missing" / "entries.db"):
        with pytest.raises(StoreError, match=path.name):
            await SqliteManifestStore(path).get("d", 1)


async def test_a_file_of_others_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute("CREATE TABLE manifests (x)")
    db.close()
    with pytest.raises(StoreError, match="no such column"):
        await SqliteManifestStore(tmp_path / "a.db").get("d", 1)


async def test_a_file_that_stays_locked(
    tmp_path: Path, entries: SqliteManifestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.table.sqlite_store.BUSY_S", 0.0)
    await entries.put_if_absent("d", ManifestEntry(1, "p"))
    with closing(sqlite3.connect(tmp_path / "entries.db", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreTimeoutError, match="locked"):
            await entries.put_if_absent("d", ManifestEntry(2, "p"))
    await entries.put_if_absent("d", ManifestEntry(2, "p"))


async def test_opening_and_closing_needs_nobody_else_to_stay(
    tmp_path: Path, entries: SqliteManifestStore
) -> None:
    await entries.put_if_absent("d", ManifestEntry(1, "p"))
    with closing(sqlite3.connect(tmp_path / "entries.db")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


async def test_a_dataset(tmp_path: Path, entries: SqliteManifestStore) -> None:
    uri = str(tmp_path / "t.lance")
    ds = await alance.write_dataset(pa.table({"i": [1]}), uri, manifest_store=entries)
    ds = await ds.append(pa.table({"i": [2]}))
    again = await alance.open_dataset(uri, manifest_store=entries)
    assert (again.version, again.uri) == (2, uri)
    assert (await again.to_table())["i"].to_pylist() == [1, 2]
    entry = await entries.get_latest(f"file://{uri}")
    assert entry is not None
    assert entry.path == f"{uri[1:]}/_versions/{(1 << 64) - 3}.manifest"
    with pytest.raises(InvalidInputError, match="must be an ExternalManifestStore"):
        await alance.open_dataset(uri, manifest_store="entries.db")  # type: ignore[arg-type]


@pytest.mark.slow
async def test_processes_share_it(tmp_path: Path, entries: SqliteManifestStore) -> None:
    uri = str(tmp_path / "t.lance")
    await alance.write_dataset(pa.table({"who": ["me"], "i": [0]}), uri, manifest_store=entries)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]

    async def run(name: str) -> None:
        done = await anyio.run_process([*command, name], check=False)
        assert done.returncode == 0, done.stderr.decode()

    async with anyio.create_task_group() as tg:
        for name in ("a", "b"):
            tg.start_soon(run, name)
    ds = await alance.open_dataset(uri, manifest_store=entries)
    rows = (await ds.to_table()).to_pydict()
    assert ds.version == 9
    expected = [("me", 0), *((name, i) for name in "ab" for i in range(4))]
    assert sorted(zip(rows["who"], rows["i"], strict=True)) == sorted(expected)
    assert [one["version"] for one in await ds.versions()] == list(range(1, 10))
