"""An external manifest store in one SQLite file: for the processes of a single host."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import anyio
import anyio.to_thread

from alance.errors import AlreadyExistsError, StoreError, StoreTimeoutError
from alance.table.external import ManifestEntry

__all__ = ["SqliteManifestStore"]

BUSY_S = 30.0
"""How long one process waits for another's transaction, which takes milliseconds."""

_CREATE = (
    "CREATE TABLE IF NOT EXISTS manifests (dataset TEXT NOT NULL, version INTEGER NOT NULL, "
    "path TEXT NOT NULL, num_bytes INTEGER, PRIMARY KEY (dataset, version)) WITHOUT ROWID"
)
_GET = "SELECT version, path, num_bytes FROM manifests WHERE dataset = ? AND version = ?"
_GET_LATEST = (
    "SELECT version, path, num_bytes FROM manifests WHERE dataset = ? ORDER BY version DESC LIMIT 1"
)
_PUT_IF_ABSENT = "INSERT INTO manifests (version, path, num_bytes, dataset) VALUES (?, ?, ?, ?)"
_PUT = "UPDATE manifests SET path = ?, num_bytes = ? WHERE dataset = ? AND version = ?"
_DELETE = "DELETE FROM manifests WHERE dataset = ?"


class SqliteManifestStore:
    """An `ExternalManifestStore` in a file of the local file system.

    Any number of processes and threads of one host may share it; it must not lie on a network file
    system, whose locks SQLite cannot rely on. May be pickled: it holds nothing but the path.

    Parameters
    ----------
    path
        The file; made at first use, in a folder that exists.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(os.fspath(path))

    def __repr__(self) -> str:
        return f"alance.SqliteManifestStore({self._path!r})"

    async def get(self, dataset: str, version: int) -> ManifestEntry | None:
        """Entry of a version; None when there is none."""
        return _entry(await self._run(_GET, (dataset, version)))

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        """Entry of the highest version; None when the dataset is not known here."""
        return _entry(await self._run(_GET_LATEST, (dataset,)))

    async def put_if_absent(self, dataset: str, entry: ManifestEntry) -> None:
        """Add an entry unless its version has one.

        Raises
        ------
        AlreadyExistsError
            It has one.
        """
        values = (entry.version, entry.path, entry.num_bytes, dataset)
        try:
            await self._run(_PUT_IF_ABSENT, values)
        except sqlite3.IntegrityError as exc:
            raise AlreadyExistsError(
                f"{self._path} has version {entry.version} of {dataset}", path=entry.path
            ) from exc

    async def put(self, dataset: str, entry: ManifestEntry) -> None:
        """Replace the entry of a version; nothing happens when there is none."""
        await self._run(_PUT, (entry.path, entry.num_bytes, dataset, entry.version))

    async def delete(self, dataset: str) -> None:
        """Forget all entries of a dataset."""
        await self._run(_DELETE, (dataset,))

    async def _run(self, sql: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        """Run one statement in a thread, durable when it returns; callers judge a taken key."""
        work = partial(_execute, self._path, sql, values)
        try:
            return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
        except sqlite3.IntegrityError:
            raise
        except sqlite3.OperationalError as exc:
            kind = StoreTimeoutError if "locked" in str(exc) else StoreError
            raise kind(f"the manifest store {self._path} failed: {exc}", path=self._path) from exc
        except sqlite3.Error as exc:
            raise StoreError(
                f"the manifest store {self._path} failed: {exc}", path=self._path
            ) from exc


def _execute(path: str, sql: str, values: Sequence[object]) -> list[tuple[object, ...]]:
    """Open, run, close: a connection for each call serves threads, loops and forks alike.

    Not with a write-ahead log, which the last one to close takes away: whoever opens the file at
    that moment is told that it is busy, however long it would have waited.
    """
    with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=FULL")
        db.execute(_CREATE)
        return db.execute(sql, values).fetchall()


def _entry(rows: Sequence[tuple[object, ...]]) -> ManifestEntry | None:
    if not rows:
        return None
    version, path, num_bytes = rows[0]
    assert isinstance(version, int)
    return ManifestEntry(version, str(path), num_bytes if isinstance(num_bytes, int) else None)
