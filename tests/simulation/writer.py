"""Programs that change and read one table, each over its own line to the store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pyroaring

from alance.errors import (
    AlanceError,
    CommitError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    RetryableCommitError,
    StoreError,
)
from alance.table.commit import CommitPolicy, commit
from alance.table.deletion import read_deletion_vector, write_deletion_file
from alance.table.location import TableLocation
from alance.table.manifest import DataFile, Fragment, Manifest
from alance.table.operations import (
    Delete,
    MapUpdate,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    UpdateConfig,
)
from alance.table.prepare import prepare
from alance.table.transaction import Transaction, build_append, build_overwrite
from alance.table.versions import read_manifest
from alance.types import FileVersion
from tests.simulation.network import Link
from tests.simulation.world import (
    Add,
    Clear,
    Fate,
    Intent,
    Keep,
    Remove,
    Return,
    Row,
    Sighting,
    World,
)
from tests.table.samples import ROOT, schema

__all__ = ["Reader", "Writer", "live_rows"]

POLICY = CommitPolicy(attempts_max=8, put_deadline_s=20.0)
ROWS_MAX = 12
RERUNS_MAX = 4


class Writer:
    """Makes a few changes, one after the other, until it is done or killed.

    Parameters
    ----------
    world
        Where it writes down what it means and what it is told.
    name
        Unique; part of the uuids of its changes.
    link, table
        Its way to the table.
    rng
        What it decides by.
    """

    def __init__(
        self, world: World, name: str, link: Link, table: TableLocation, rng: random.Random
    ) -> None:
        self._world = world
        self._name = name
        self._link = link
        self._table = table
        self._rng = rng
        self._changes = 0
        self._handle: Manifest | None = None
        self._is_recent = True

    async def create(self) -> None:
        """Make the table, without faults in the way."""
        self._handle = await self._overwrite(None)

    async def run(self, changes: int) -> None:
        """Make so many changes; what fails is not tried for ever."""
        actions = (
            (self._append, 8),
            (self._delete, 8),
            (self._compact, 3),
            (self._configure, 2),
            (self._overwrite, 1),
            (self._restore, 1),
        )
        kinds, weights = zip(*actions, strict=True)
        for _ in range(changes):
            await asyncio.sleep(self._rng.random())
            (action,) = self._rng.choices(kinds, weights)
            await self._rerun(action)

    async def _rerun(self, action: Callable[[Manifest], Awaitable[Manifest]]) -> None:
        """Run an action, again where another change came first, as applications do."""
        for _ in range(RERUNS_MAX):
            try:
                self._is_recent = self._handle is None or self._rng.random() < 0.7
                if self._handle is None or self._is_recent:
                    self._handle = await read_manifest(self._table)
                self._handle = await action(self._handle)
            except RetryableCommitError:
                self._handle = None
            except (StoreError, CommitError, NotFoundError):
                return
            else:
                return

    async def _append(self, base: Manifest) -> Manifest:
        uuid = self._next()
        added = await self._write_file(uuid, self._new_rows(uuid))
        intent = Add(frozenset(self._world.rows[added.files[0].path]))
        return await self._commit(build_append(base, [added], uuid=uuid), base, intent)

    async def _overwrite(self, base: Manifest | None) -> Manifest:
        uuid = self._next()
        added = await self._write_file(uuid, self._new_rows(uuid))
        transaction = build_overwrite(
            base, schema(), [added], file_version=FileVersion.V2_1, uuid=uuid
        )
        intent = Clear(frozenset(self._world.rows[added.files[0].path]))
        return await self._commit(transaction, base, intent)

    async def _delete(self, base: Manifest) -> Manifest:
        uuid = self._next()
        count = min(len(base.fragments), self._rng.randint(1, 2))
        affected: dict[int, pyroaring.BitMap] = {}
        updated, deleted = [], []
        removed: set[Row] = set()
        for fragment in self._rng.sample(base.fragments, count):
            gone = await _deleted(self._table, fragment)
            live = sorted(set(range(fragment.physical_rows)) - gone)
            most = len(live) if self._rng.random() < 0.2 else min(2, len(live))
            chosen = self._rng.sample(live, self._rng.randint(1, most))
            names = self._world.rows[fragment.files[0].path]
            removed.update(names[offset] for offset in chosen)
            affected[fragment.id] = pyroaring.BitMap(chosen)
            if len(chosen) == len(live):
                deleted.append(fragment.id)
                continue
            file = await write_deletion_file(
                self._table.store,
                self._table.root,
                fragment.id,
                pyroaring.BitMap(gone.union(chosen)),
                read_version=base.version,
            )
            updated.append(replace(fragment, deletion_file=file))
        operation = Delete(tuple(updated), tuple(deleted), "a > 1")
        transaction = Transaction(base.version, uuid, operation)
        intent = Remove(frozenset(removed))
        return await self._commit(transaction, base, intent, affected)

    async def _compact(self, base: Manifest) -> Manifest:
        start = self._rng.randrange(max(1, len(base.fragments) - 1))
        old = base.fragments[start : start + 2]
        if not old:
            return base
        rows: list[Row] = []
        for fragment in old:
            rows.extend(await _live(self._world, self._table, fragment))
        reserved = await self._commit(
            Transaction(base.version, self._next(), ReserveFragments(1)), base, Keep()
        )
        uuid = self._next()
        assert reserved.max_fragment_id is not None
        new = replace(await self._write_file(uuid, rows), id=reserved.max_fragment_id)
        operation = Rewrite((RewriteGroup(tuple(old), (new,)),))
        self._is_recent = False
        try:
            return await self._commit(Transaction(base.version, uuid, operation), base, Keep())
        except InvalidInputError:  # a stale listing hid the reservation
            raise RetryableCommitError("look again") from None

    async def _configure(self, base: Manifest) -> Manifest:
        uuid = self._next()
        key = self._rng.choice("abc")
        operation = UpdateConfig(config=MapUpdate({key: uuid}))
        return await self._commit(
            Transaction(base.version, uuid, operation), base, Keep({key: uuid})
        )

    async def _restore(self, base: Manifest) -> Manifest:
        source = await read_manifest(self._table, self._rng.randint(1, base.version))
        transaction = Transaction(base.version, self._next(), Restore(source.version))
        return await self._commit(transaction, base, Return(source.version), source=source)

    async def _commit(
        self,
        transaction: Transaction,
        base: Manifest | None,
        intent: Intent,
        affected: Mapping[int, pyroaring.BitMap] | None = None,
        source: Manifest | None = None,
    ) -> Manifest:
        """Commit, and write down what was meant and what was answered."""
        uuid = transaction.uuid
        self._world.intents[uuid] = intent
        try:
            ahead = base is not None and self._rng.random() < 0.3
            prepared = await prepare(self._table, base, transaction) if ahead else None
            manifest = await commit(
                self._table,
                transaction,
                base=base,
                rng=self._rng,
                policy=POLICY,
                source=source,
                look=base is not None and not (ahead or self._is_recent),
                prepared=prepared,
                affected_rows=affected,
                sleep=asyncio.sleep,
                now_ns=lambda: 1,
            )
        except CommitStateUnknownError:
            self._tell(uuid, Fate.UNKNOWN)
            raise
        except AlanceError:
            self._tell(uuid, Fate.LOST)
            raise
        self._tell(uuid, Fate.LANDED, manifest.version)
        return manifest

    def _tell(self, uuid: str, fate: Fate, version: int = 0) -> None:
        """Write down an answer; the dead hear none."""
        if not self._link.is_dead:
            self._world.told[uuid] = (fate, version)

    async def _write_file(self, uuid: str, rows: list[Row]) -> Fragment:
        path = f"{uuid}.lance"
        self._world.rows[path] = tuple(rows)
        await self._link.put(f"{ROOT}/data/{path}", uuid.encode())
        file = DataFile(path, (0, 1), (0, 1), FileVersion.V2_1, file_size_bytes=len(uuid))
        return Fragment(0, (file,), len(rows))

    def _new_rows(self, uuid: str) -> list[Row]:
        return [(uuid, i) for i in range(self._rng.randint(1, ROWS_MAX))]

    def _next(self) -> str:
        self._changes += 1
        return f"{self._name}-{self._changes}"


class Reader:
    """Looks at the newest version again and again, and at all that it refers to."""

    def __init__(self, world: World, table: TableLocation, rng: random.Random) -> None:
        self._world = world
        self._table = table
        self._rng = rng

    async def run(self, looks: int) -> None:
        """Look so many times; a look that fails counts for nothing."""
        for _ in range(looks):
            await asyncio.sleep(self._rng.random())
            try:
                manifest = await read_manifest(self._table)
                rows = await live_rows(self._world, self._table, manifest)
            except AlanceError:
                continue
            assert len(set(rows)) == len(rows), f"version {manifest.version} has a row twice"
            self._world.sightings.append(Sighting(manifest.version, frozenset(rows)))


async def live_rows(world: World, table: TableLocation, manifest: Manifest) -> list[Row]:
    """Rows of a version, read as a scan would."""
    rows: list[Row] = []
    for fragment in manifest.fragments:
        rows.extend(await _live(world, table, fragment))
    return rows


async def _live(world: World, table: TableLocation, fragment: Fragment) -> list[Row]:
    path = fragment.files[0].path
    await table.store.head(f"{table.root}/data/{path}")
    gone = await _deleted(table, fragment)
    return [row for offset, row in enumerate(world.rows[path]) if offset not in gone]


async def _deleted(table: TableLocation, fragment: Fragment) -> set[int]:
    if fragment.deletion_file is None:
        return set()
    return set(map(int, await read_deletion_vector(table.store, table.root, fragment)))
