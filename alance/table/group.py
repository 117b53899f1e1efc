"""Group commit: appends of one session that wait at the same time become one version together."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from alance._aio import OwnedTasks, own_copy, run_to_end
from alance.receipts import (
    Receipt,
    SharedReceipt,
    current_receipts,
    next_place,
    waited_for,
    waiting,
)
from alance.table.commit import CommitPolicy, commit
from alance.table.location import TableLocation
from alance.table.manifest import Fragment, Manifest
from alance.table.prepare import RECENT_S, Prepared
from alance.table.transaction import Transaction, build_append

__all__ = ["AppendQueue", "AppendQueues", "PreparedAppend"]

GROUP_MAX = 256
"""Appends that become one version at most."""


@dataclass(frozen=True, slots=True)
class PreparedAppend:
    """The transaction of one append, and what has been done for its commit already."""

    transaction: Transaction
    prepared: Prepared


@dataclass(eq=False, slots=True)
class _Entry:
    """One append that waits for its version; its data files are there."""

    base: Manifest
    is_recent: bool
    fragments: Sequence[Fragment]
    properties: Mapping[str, str]
    alone: PreparedAppend | None
    done: anyio.Event = field(default_factory=anyio.Event)
    manifest: Manifest | None = None
    error: BaseException | None = None
    receipts: tuple[Receipt, ...] = field(default_factory=current_receipts)
    place: int = field(default_factory=next_place)
    num_rounds: int = 0
    """Requests of the commit that waited for one another."""
    may_stand: bool = False
    """Whether some version may have the rows."""
    is_left: bool = False
    """Whether the caller was cancelled."""


class AppendQueues:
    """The queues of a session: one for each dataset that is being appended to.

    Parameters
    ----------
    policy
        How hard their commits try.
    """

    def __init__(self, policy: CommitPolicy) -> None:
        self._policy = policy
        self._queues: dict[tuple[object, ...], AppendQueue] = {}

    @contextmanager
    def enter(
        self, key: tuple[object, ...], table: TableLocation
    ) -> Generator[AppendQueue, None, None]:
        """Take part in the appends to a dataset, from before data is uploaded.

        Parameters
        ----------
        key
            The same for the same dataset.
        table
            Where it is.
        """
        queue = self._queues.get(key)
        if queue is None or not queue.is_here:
            queue = self._queues[key] = AppendQueue(table, self._policy)
        queue.num_inside += 1
        try:
            yield queue
        finally:
            queue.num_inside -= 1
            if not queue.num_inside and self._queues.get(key) is queue:
                del self._queues[key]


class AppendQueue:
    """Appends to one dataset: while one version is on its way, others gather for the next.

    A version belongs to all whose rows are in it, so its commit runs in a task of the queue's. When
    the last of them has been cancelled, the commit is, too.
    """

    def __init__(self, table: TableLocation, policy: CommitPolicy) -> None:
        self.num_inside = 0
        self._table = table
        self._policy = policy
        # Weakly: a default session must not keep the loop alive that it is to die with.
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._tasks = OwnedTasks()
        self._waiting: list[_Entry] = []
        self._committing: list[_Entry] = []
        self._task: asyncio.Task[Manifest] | None = None
        self._newest: Manifest | None = None
        """The version that the queue committed last, while nothing newer is likely."""
        self._newest_s = 0.0
        self._since = 0
        """An append to any version from this one to the newest is the same."""

    @property
    def is_here(self) -> bool:
        """Whether this queue belongs to the running loop; one that was closed leaves it behind."""
        return self._loop() is asyncio.get_running_loop()

    @property
    def is_shared(self) -> bool:
        """Whether others append as well, so that no commit should be prepared for one alone."""
        return self.num_inside > 1

    async def commit(
        self,
        base: Manifest,
        fragments: Sequence[Fragment],
        *,
        properties: Mapping[str, str] | None,
        is_recent: bool,
        undo: Callable[[], Coroutine[Any, Any, None]],
        alone: PreparedAppend | None = None,
    ) -> Manifest:
        """Make fragments part of the next version, with those of others that wait.

        Parameters
        ----------
        base, properties
            As for `build_append`. Only appends with the same properties share a version.
        is_recent
            Whether `base` is the newest version as of this call.
        undo
            Awaited when the caller is cancelled and no version has the rows.
        alone
            Where the commit was prepared by its caller, which gives it a version of its own.

        Raises
        ------
        CommitError, StoreError, InvalidInputError, UnsupportedFeatureError
            As `alance.table.commit.commit`.

        Notes
        -----
        Requests: those of a commit, which count in the receipts of all that share it; none besides
        for an append that follows one of the same queue.
        """
        entry = _Entry(base, is_recent, fragments, dict(properties or {}), alone)
        self._waiting.append(entry)
        self._start()
        try:
            with waiting():
                await entry.done.wait()
        except asyncio.CancelledError:
            await self._leave(entry)
            if not entry.may_stand:
                await run_to_end(undo())
            raise
        waited_for(entry.place - 1 + entry.num_rounds)
        if entry.manifest is None:
            assert entry.error is not None, "an append ended without an outcome"
            raise entry.error
        return entry.manifest

    async def _leave(self, entry: _Entry) -> None:
        """Take no part any more; where a commit is under way, wait until its outcome is known."""
        entry.is_left = True
        if entry in self._waiting:
            self._waiting.remove(entry)
        elif not entry.done.is_set():
            if self._task is not None and all(each.is_left for each in self._committing):
                self._task.cancel()
            await run_to_end(entry.done.wait())

    def _start(self) -> None:
        """Commit what waits, as far as it fits together, unless a commit is under way."""
        if self._committing or not self._waiting:
            return
        base, batch = self._take()
        self._committing = batch
        self._task = self._tasks.start(self._commit(base, batch), partial(self._end, base))

    def _take(self) -> tuple[Manifest, list[_Entry]]:
        """The first that waits, and all others that can be in the same version."""
        first = self._waiting[0]
        base, batch = self._base_of(first), [first]
        if first.alone is None:
            batch = [each for each in self._waiting if self._go_together(first, each)][:GROUP_MAX]
        else:
            base = first.base
        self._waiting = [each for each in self._waiting if each not in batch]
        return base, batch

    def _go_together(self, one: _Entry, other: _Entry) -> bool:
        same_base = self._base_of(one).version == self._base_of(other).version
        return other.alone is None and same_base and one.properties == other.properties

    def _base_of(self, entry: _Entry) -> Manifest:
        """The version to append to: the newest, where that makes no difference to the caller's."""
        newest = self._newest
        is_fresh = anyio.current_time() - self._newest_s < RECENT_S
        if newest is not None and is_fresh and self._since <= entry.base.version <= newest.version:
            return newest
        return entry.base

    async def _commit(self, base: Manifest, batch: list[_Entry]) -> Manifest:
        """Make one version of a batch."""
        fragments = [fragment for each in batch for fragment in each.fragments]
        alone = batch[0].alone
        if alone is None:
            transaction = build_append(base, fragments, properties=batch[0].properties)
        else:
            transaction = alone.transaction
        is_recent = base is self._newest or any(each.is_recent for each in batch)

        async def note() -> None:
            for each in batch:
                each.may_stand = False

        spent = SharedReceipt()
        for each in batch:
            spent.join(each.receipts, each.place)
            each.may_stand = True
        with spent.counting():
            try:
                return await commit(
                    self._table,
                    transaction,
                    base=base,
                    rng=random.Random(transaction.uuid),
                    policy=self._policy,
                    look=not is_recent,
                    prepared=None if alone is None else alone.prepared,
                    undo=note,
                )
            finally:
                for each in batch:
                    each.num_rounds = next_place() - 1

    def _end(self, base: Manifest, task: asyncio.Task[Manifest]) -> None:
        """Tell all in a batch what became of it, and go on with the next."""
        batch, self._committing, self._task = self._committing, [], None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._remember(base, task.result())
        else:
            self._newest = None
        for each in batch:
            if error is None:
                each.manifest = task.result()
            else:
                each.error = own_copy(error)
            each.done.set()
        self._start()

    def _remember(self, base: Manifest, landed: Manifest) -> None:
        """Keep the newest version, and from which on nothing but such appends lies between."""
        follows = landed.version == base.version + 1
        if not (follows and base is self._newest):
            self._since = base.version if follows else landed.version
        self._newest, self._newest_s = landed, anyio.current_time()
