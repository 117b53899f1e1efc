"""Make a transaction the next version of a table, and know for sure whether it became one."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pyroaring

from alance._aio import first_error, run_to_end
from alance.errors import (
    AlanceError,
    CommitConflictError,
    CommitContentionError,
    CommitStateUnknownError,
    InvalidInputError,
    RetryableCommitError,
    StoreError,
)
from alance.io.store import ObjectStore
from alance.table.apply import apply
from alance.table.conflicts import Verdict, verdict
from alance.table.features import check_writable
from alance.table.freed import frees_numbers, stands
from alance.table.hint import write_hint
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.naming import manifest_path, transaction_path
from alance.table.objects import discard
from alance.table.operations import Delete, Update
from alance.table.outcome import Landed, Lost, Open, Outcome, Sender
from alance.table.prepare import Prepared, put_transaction
from alance.table.rebase import rebase
from alance.table.transaction import Transaction
from alance.table.winners import Winner, already_exists, read_winner, read_winners
from alance.table.wire import build_manifest

__all__ = ["CommitPolicy", "commit"]

FRAGMENTS_BUILT = 500
"""Of a version whose next one is made on the event loop, at about 5 us each."""

Bases: TypeAlias = Mapping[int, tuple[ObjectStore, str]]


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """How hard a commit tries.

    Parameters
    ----------
    attempts_max
        Manifests that are put before it gives up.
    time_max_s
        After so many seconds no further attempt begins.
    put_deadline_s
        For one attempt: the put, the store's own retries, and reading back what became of it.
    backoff_s, backoff_max_s
        Longest pause after the second failed attempt in a row, which doubles with each one more;
        and its bound. After the first there is none: most races are between two.
    """

    attempts_max: int = 20
    time_max_s: float = 1800.0
    put_deadline_s: float = 300.0
    backoff_s: float = 0.1
    backoff_max_s: float = 5.0

    def pause_s(self, failures: int, rng: random.Random) -> float:
        """Pause after so many failed attempts, from 2: a random part of the longest."""
        longest = min(self.backoff_s * 2.0 ** min(failures - 2, 32), self.backoff_max_s)
        return longest * rng.random()


async def commit(
    table: TableLocation,
    transaction: Transaction,
    *,
    base: Manifest | None,
    rng: random.Random,
    policy: CommitPolicy | None = None,
    affected_rows: Mapping[int, pyroaring.BitMap] | None = None,
    bases: Bases | None = None,
    source: Manifest | None = None,
    look: bool = False,
    prepared: Prepared | None = None,
    undo: Callable[[], Coroutine[Any, Any, None]] | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    now_ns: Callable[[], int] = time.time_ns,
) -> Manifest:
    """Make a transaction the next version; its data files are in place already.

    Parameters
    ----------
    table
        Where the dataset is.
    transaction
        What changes. Committing the same one again (the same uuid, the same base) finds the version
        it has become, if it has.
    base
        The version that the transaction was made on; None creates the dataset. Without `look` or
        `prepared` it must be a recent look: a version number that a cleanup has freed since can be
        taken a second time.
    rng
        For the jitter of pauses.
    policy
        Attempts, deadlines and pauses.
    affected_rows
        Fragment id -> offsets of the rows that a Delete or Update removes. With them it can follow
        a change of other rows of the same fragment.
    bases
        Base id -> store and path: where deletion files that lie outside the dataset can be read.
    source
        The version that a Restore restores, read anew: it may have been cleaned up.
    look
        List the newest version first, where `base` is not recent; one request more, and the newer
        manifests.
    prepared
        From `prepare`, in place of `look`.
    undo
        Awaited, shielded, when the commit is cancelled and known not to have landed: removes the
        data files. An error says by its kind whether it may have landed.
    sleep, now_ns
        The clock: pauses, and the manifest's timestamp.

    Returns
    -------
    Manifest
        The version that the transaction became.

    Raises
    ------
    DatasetAlreadyExistsError
        To be created, but exists; nothing is left behind but the data files.
    CommitConflictError, RetryableCommitError
        Another change came first that this one cannot follow, or only if the whole operation is
        run again.
    CommitContentionError
        Others won every attempt.
    CommitStateUnknownError
        The answer was lost and could not be found out: data files must stay.
    InvalidInputError, UnsupportedFeatureError
        The transaction does not fit the table; the table uses what this library does not know.
    StoreError
        The store refused, or ignores the condition; nothing was committed.

    Notes
    -----
    Requests: the transaction file and the manifest, put at the same time. A lost race costs one
    read and another put; from the second in a row on, a listing and the manifests in between, read
    together. Creating lists first. Before the first commit of a session to a store that needs
    probing, the probe. After a commit to a table that cleans up by itself, a short listing.
    Cancellation: an attempt, once sent, is seen through, then the cancellation is raised; the
    transaction may have landed unless `undo` was called.
    """
    if transaction.read_version != (0 if base is None else base.version):
        raise InvalidInputError(
            f"the transaction was made on version {transaction.read_version}, which the given base "
            "is not: what was committed between the two would not be looked at"
        )
    policy = policy or CommitPolicy()
    sender = Sender(table, transaction.read_version, transaction.uuid, policy.put_deadline_s)
    attempts = _Attempts(
        table, transaction, affected_rows, bases, source, policy, sender, rng, undo, sleep, now_ns
    )
    return await attempts.run(base, look=look, prepared=prepared)


@dataclass(slots=True)
class _Attempts:
    """One commit: everything that its attempts share."""

    table: TableLocation
    transaction: Transaction
    affected_rows: Mapping[int, pyroaring.BitMap] | None
    bases: Bases | None
    source: Manifest | None
    policy: CommitPolicy
    sender: Sender
    rng: random.Random
    undo: Callable[[], Coroutine[Any, Any, None]] | None
    sleep: Callable[[float], Awaitable[None]]
    now_ns: Callable[[], int]
    read: Manifest | None = None
    """The version that the transaction is made on; it moves on with a Delete or Update."""
    written: set[str] = field(default_factory=set)
    """Files of this commit's own: worth nothing when it fails."""
    superseded: set[str] = field(default_factory=set)
    """Files that earlier forms of the transaction needed: worth nothing when it has landed."""
    file_name: str | None = None
    """Of the transaction file that was written last."""
    below: Manifest | None = None
    """What the manifest that was sent last builds upon."""

    async def run(
        self, base: Manifest | None, *, look: bool, prepared: Prepared | None
    ) -> Manifest:
        """Attempt until the outcome is known; what was written in vain is removed."""
        self.written.add(self._transaction_path)
        self.read = base
        try:
            landed = await self._begin(base, look=look, prepared=prepared)
            await self._check_stands(landed)
        except CommitStateUnknownError:
            raise
        except AlanceError:
            try:
                await run_to_end(discard(self.table.store, self.written))
            except asyncio.CancelledError:  # which the caller sees in place of the error
                await self._undo()
                raise
            raise
        except asyncio.CancelledError:
            if not self.sender.may_stand:
                await run_to_end(discard(self.table.store, self.written))
                await self._undo()
            raise
        if self.superseded:
            await discard(self.table.store, self.superseded)
        await write_hint(self.table, landed.version)
        return landed

    async def _undo(self) -> None:
        if self.undo is not None:
            await run_to_end(self.undo())

    async def _begin(
        self, base: Manifest | None, *, look: bool, prepared: Prepared | None
    ) -> Manifest:
        if prepared is not None:
            self.file_name = prepared.file_name
            newer = prepared.newer
        else:
            newer = await read_winners(self.table, base) if look or base is None else ()
        found = await self._follow(base, newer)
        if prepared is not None and not prepared.is_recent and not isinstance(found, Landed):
            found = await self._follow(found, await read_winners(self.table, found))
        return found.manifest if isinstance(found, Landed) else await self._loop(found)

    async def _check_stands(self, landed: Manifest) -> None:
        """Where numbers are freed all the time, look whether others went on from ours."""
        below = self.below
        if below is None or landed.version != below.version + 1 or not frees_numbers(landed):
            return
        unknown = CommitStateUnknownError(
            f"whether others went on from version {landed.version} of {self.table.url} is not "
            "known: they committed and cleaned up at the same time; look for its changes in the "
            "newest version before making them again",
            **self.sender.details(landed.version),
        )
        try:
            found = await stands(self.table, below, landed)
        except AlanceError as exc:
            raise unknown from exc
        if found is None:
            raise unknown
        if not found:
            self.written.add(manifest_path(self.table.root, landed.version, landed.naming))
            self.sender.may_stand = False
            raise RetryableCommitError(
                f"version {landed.version} of {self.table.url} was committed by another writer and "
                "cleaned up before this commit could be checked against it; run the operation "
                "again",
                **self.sender.details(landed.version),
            )

    async def _loop(self, base: Manifest | None) -> Manifest:
        outcome: Outcome | None = None
        num_attempts = 0
        end_s = anyio.current_time() + self.policy.time_max_s
        for failures in range(self.policy.attempts_max):
            if failures and anyio.current_time() >= end_s:
                break
            if failures >= 2:
                await self.sleep(self.policy.pause_s(failures, self.rng))
                if isinstance(outcome, Lost):
                    found = await self._follow(base, await read_winners(self.table, base))
                    if isinstance(found, Landed):
                        return found.manifest
                    base = found
            num_attempts += 1
            outcome = await self._attempt(base, resent=isinstance(outcome, Open))
            if isinstance(outcome, Landed):
                return outcome.manifest
            if isinstance(outcome, Lost):
                if base is None:
                    raise already_exists(self.table)
                winner = await read_winner(self.table, outcome.winner)
                await self._follow(base, (winner,))
                base = outcome.winner
        if isinstance(outcome, Open):
            raise self.sender.unknown(_next(base)) from outcome.error
        raise self._contention(base, num_attempts)

    def _contention(self, base: Manifest | None, num_attempts: int) -> CommitContentionError:
        return CommitContentionError(
            f"other writers were first in every attempt to commit to {self.table.url}, "
            f"{num_attempts} in all; try again later, or with fewer writers",
            **self.sender.details(_next(base)),
        )

    async def _attempt(self, base: Manifest | None, *, resent: bool) -> Outcome:
        """Put one manifest, and the transaction file where it is not there yet."""
        self.below = base
        if base is not None:
            check_writable(base, self.table.url)
        earliest_ns = 0 if base is None else base.timestamp_ns
        # A clock that is behind another writer's must not turn the history around.
        timestamp_ns = max(self.now_ns(), earliest_ns)
        make = partial(_make, base, self.transaction, timestamp_ns, self.source)
        is_long = base is not None and len(base.fragments) > FRAGMENTS_BUILT
        manifest, data = await anyio.to_thread.run_sync(make) if is_long else make()
        send = partial(self.sender.send, manifest, data, resent=resent)
        name = manifest.transaction_file
        if not name or name == self.file_name:
            return await self._put(send)
        self.file_name = name
        if manifest.transaction is None:
            await put_transaction(self.table, self.transaction)  # too long: the only copy
            return await self._put(send)
        with first_error():
            async with anyio.create_task_group() as tg:
                tg.start_soon(self._put_transaction_copy)
                outcome = await self._put(send)
        return outcome

    async def _put(self, send: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        await self.table.handler.ready(self.table.store, self.table.root)
        return await run_to_end(send())

    async def _put_transaction_copy(self) -> None:
        """The manifest carries the transaction, so a lost file must not fail a landed commit."""
        with suppress(StoreError):
            await put_transaction(self.table, self.transaction)

    async def _follow(
        self, base: Manifest | None, winners: Sequence[Winner]
    ) -> Manifest | Landed | None:
        """Newest version, once our change fits on top of it; or our own among the winners."""
        merges = False
        for winner in winners:
            if self.sender.is_ours(winner.manifest):
                return Landed(winner.manifest)
            if base is None:
                raise already_exists(self.table)
            merges |= self._judge(winner) is Verdict.REBASE
            base = winner.manifest
        if winners:
            assert base is not None
            await self._move_to(base, merges=merges)
        return base

    def _judge(self, winner: Winner) -> Verdict:
        """Raise unless our change may follow another's, merged with it or as it is."""
        mine, theirs = self.transaction.operation, winner.operation
        judged = verdict(mine, theirs, has_affected_rows=self.affected_rows is not None)
        version = winner.manifest.version
        if judged is Verdict.RETRY:
            raise RetryableCommitError(
                f"{mine.name} on version {self.transaction.read_version} of {self.table.url} was "
                f"overtaken by {theirs.name} in version {version}; run the whole operation again "
                "on the newest version",
                **self.sender.details(version),
            )
        if judged is Verdict.INCOMPATIBLE:
            raise CommitConflictError(
                f"{mine.name} on version {self.transaction.read_version} of {self.table.url} is "
                f"incompatible with {theirs.name}, which was committed as version {version}; look "
                "at the newest version and decide again",
                **self.sender.details(version),
            )
        return judged

    async def _move_to(self, current: Manifest, *, merges: bool) -> None:
        """Let the transaction follow `current`: the form that its attempts will have from here."""
        if merges:
            assert self.read is not None, "what creates a table has nobody to merge with"
            rebased = await rebase(
                self.table.store,
                self.table.root,
                self.transaction,
                read=self.read,
                current=current,
                affected_rows=self.affected_rows,
                bases=self.bases,
            )
            self.written.update(rebased.written)
            self.superseded.update(rebased.superseded)
            self._become(rebased.transaction)
        if isinstance(self.transaction.operation, Delete | Update):
            # The format's rule: their record names the version that they were last checked against.
            self._become(replace(self.transaction, read_version=current.version))
            self.read = current

    def _become(self, transaction: Transaction) -> None:
        """Go on with another form of the transaction; its file may have another name."""
        before, self.transaction = self._transaction_path, transaction
        if self._transaction_path != before:
            self.superseded.add(before)
            self.written.add(self._transaction_path)

    @property
    def _transaction_path(self) -> str:
        return transaction_path(self.table.root, self.transaction.file_name)


def _next(base: Manifest | None) -> int:
    return 1 if base is None else base.version + 1


def _make(
    base: Manifest | None, transaction: Transaction, timestamp_ns: int, source: Manifest | None
) -> tuple[Manifest, list[bytes]]:
    """The next version, and its file; CPU only."""
    manifest = apply(base, transaction, timestamp_ns=timestamp_ns, source=source)
    return manifest, build_manifest(manifest)
