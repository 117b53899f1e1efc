"""Make a transaction the next version of a table, and know for sure whether it became one."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import anyio

from alance._aio import first_error, run_to_end
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitConflictError,
    CommitContentionError,
    CommitStateUnknownError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    PermissionDeniedError,
    RetryableCommitError,
    StoreError,
    UnsupportedFeatureError,
)
from alance.io.store import ObjectStore
from alance.table.apply import apply
from alance.table.conflicts import Verdict, verdict
from alance.table.features import check_writable
from alance.table.location import TableLocation
from alance.table.manifest import Manifest, Naming
from alance.table.naming import transaction_path
from alance.table.objects import discard
from alance.table.operations import Other
from alance.table.transaction import Transaction
from alance.table.versions import latest_version, read_all, read_transaction, read_version
from alance.table.wire import build_manifest
from alance.table.wire_transaction import build_transaction

__all__ = ["CommitPolicy", "commit", "probe_conditional_put"]


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """How hard a commit tries.

    Parameters
    ----------
    attempts_max
        Manifests that are put before it gives up.
    put_deadline_s
        For one attempt: the put, the store's own retries, and reading back what became of it.
    backoff_s, backoff_max_s
        Longest pause after the second failed attempt in a row, which doubles with each one more;
        and its bound. After the first there is none: most races are between two.
    """

    attempts_max: int = 20
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
    look: bool = False,
    probe: bool = False,
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
        An append or an overwrite. Committing the same one again (the same uuid, the same base)
        finds the version it has become, if it has.
    base
        The newest version that the caller knows of; None creates the dataset. It must be a recent
        look: a version number that a cleanup has freed since can be taken a second time.
    rng
        For the jitter of pauses.
    policy
        Attempts, deadline and pauses.
    look
        List the newest version first, where `base` is not recent; one request more, and the newer
        manifests.
    probe
        Try first whether the store honours conditional puts; see `probe_conditional_put`.
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
    together. Creating lists first. Cancellation: an attempt, once sent, is seen through, then the
    cancellation is raised; the transaction may have landed unless `undo` was called.
    """
    attempts = _Attempts(table, transaction, policy or CommitPolicy(), rng, undo, sleep, now_ns)
    if probe and not await probe_conditional_put(table.store, table.root):
        raise StoreError(
            f"{table.store.url} ignores the condition of conditional puts, so commits there could "
            "overwrite each other; use an external manifest store for this dataset",
            path=table.root,
        )
    return await attempts.run(base, look=look)


async def probe_conditional_put(store: ObjectStore, root: str) -> bool:
    """Try whether a store refuses to create an object twice, as commits rely on.

    Parameters
    ----------
    store
        The store in question; one that is known to honour the condition needs no probe.
    root
        A dataset's key prefix; a small object appears below it and is removed.

    Returns
    -------
    bool
        False: the store must not be committed to.

    Notes
    -----
    Requests: two puts and a delete, one after the other.
    """
    path = transaction_path(root, f"probe-{uuid.uuid4()}.txn")
    await store.put_if_absent(path, b"")
    try:
        await store.put_if_absent(path, b"")
    except AlreadyExistsError:
        return True
    else:
        return False
    finally:
        await discard(store, [path])


@dataclass(frozen=True, slots=True)
class _Landed:
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class _Lost:
    winner: Manifest


@dataclass(frozen=True, slots=True)
class _Open:
    """The put failed and nothing is there, but it may still arrive."""

    error: AlanceError


_Outcome: TypeAlias = _Landed | _Lost | _Open


@dataclass(slots=True)
class _Attempts:
    """One commit: everything that its attempts share."""

    table: TableLocation
    transaction: Transaction
    policy: CommitPolicy
    rng: random.Random
    undo: Callable[[], Coroutine[Any, Any, None]] | None
    sleep: Callable[[float], Awaitable[None]]
    now_ns: Callable[[], int]
    may_stand: bool = False
    """Whether a manifest was sent that is not known to have lost."""

    async def run(self, base: Manifest | None, *, look: bool) -> Manifest:
        """Attempt until the outcome is known; a commit that is lost leaves no transaction file."""
        try:
            found: Manifest | _Landed | None = base
            if base is None:
                found = await self._check_absent()
            elif look:
                found = await self._catch_up(base)
            if isinstance(found, _Landed):
                return found.manifest
            return await self._loop(found)
        except CommitStateUnknownError:
            raise
        except AlanceError:
            await discard(self.table.store, [self._transaction_path])
            raise
        except asyncio.CancelledError:
            if not self.may_stand:
                await discard(self.table.store, [self._transaction_path])
                if self.undo is not None:
                    await run_to_end(self.undo())
            raise

    async def _loop(self, base: Manifest | None) -> Manifest:
        outcome: _Outcome | None = None
        for failures in range(self.policy.attempts_max):
            if failures >= 2:
                await self.sleep(self.policy.pause_s(failures, self.rng))
                if isinstance(outcome, _Lost):
                    found = await self._catch_up(outcome.winner)
                    if isinstance(found, _Landed):
                        return found.manifest
                    base = found
            outcome = await self._attempt(base, first=failures == 0, before=outcome)
            if isinstance(outcome, _Landed):
                return outcome.manifest
            if isinstance(outcome, _Lost):
                if base is None:
                    raise self._exists()
                await self._judge(outcome.winner)
                base = outcome.winner
        if isinstance(outcome, _Open):
            raise self._unknown(base) from outcome.error
        raise CommitContentionError(
            f"other writers won all {self.policy.attempts_max} attempts to commit to {self._where}"
            "; try again later, or with fewer writers",
            **self._details(base),
        )

    async def _attempt(
        self, base: Manifest | None, *, first: bool, before: _Outcome | None
    ) -> _Outcome:
        """Put one manifest, and with the first one the transaction file."""
        if base is not None:
            check_writable(base, self._where)
        manifest = apply(base, self.transaction, timestamp_ns=self.now_ns())
        pieces = build_manifest(manifest)
        put = partial(self._put, manifest, pieces, base, resent=isinstance(before, _Open))
        if not (first and manifest.transaction_file):
            return await run_to_end(put())
        if manifest.transaction is None:
            await self._put_transaction_file()  # too long for the manifest: the only copy
            return await run_to_end(put())
        with first_error():
            async with anyio.create_task_group() as tg:
                tg.start_soon(self._put_transaction_copy)
                outcome = await run_to_end(put())
        return outcome

    async def _put(
        self,
        manifest: Manifest,
        pieces: list[bytes],
        base: Manifest | None,
        *,
        resent: bool,
    ) -> _Outcome:
        """Put a manifest; whatever is answered but success, look what is there."""
        self.may_stand = True
        with anyio.move_on_after(self.policy.put_deadline_s):
            try:
                await self.table.handler.put(
                    self.table.store, self.table.root, manifest.version, manifest.naming, pieces
                )
            except (AlreadyExistsError, StoreError) as exc:
                outcome = await self._read_back(manifest, base, exc)
                refused = isinstance(exc, PermissionDeniedError)
                if isinstance(outcome, _Open) and refused and not resent:
                    raise
                return outcome
            return _Landed(manifest)
        raise self._unknown(base)

    async def _read_back(
        self, manifest: Manifest, base: Manifest | None, error: AlanceError
    ) -> _Outcome:
        """Whose manifest stands where ours should: no error answer is a verdict by itself.

        The store retries, so even "exists" and "denied" may follow a put that went through.
        """
        try:
            stored = await read_version(self.table, manifest.version, manifest.naming)
        except UnsupportedFeatureError:
            raise  # another's: ours can be read
        except AlanceError as exc:
            raise self._unknown(base) from exc
        if stored is None:
            return _Open(error)
        self.may_stand = self._is_ours(stored)
        return _Landed(stored) if self.may_stand else _Lost(stored)

    async def _put_transaction_file(self) -> None:
        await self.table.store.put(self._transaction_path, build_transaction(self.transaction))

    async def _put_transaction_copy(self) -> None:
        """The manifest carries the transaction, so a lost file must not fail a landed commit."""
        with suppress(StoreError):
            await self._put_transaction_file()

    async def _catch_up(self, base: Manifest) -> Manifest | _Landed:
        """Newest version, once all between have been judged; or our own among them."""
        newest = (await latest_version(self.table)).version
        reads = [
            partial(read_version, self.table, version, base.naming)
            for version in range(base.version + 1, newest + 1)
        ]
        async with aclosing(read_all(reads)) as manifests:
            async for manifest in manifests:
                if manifest is None:
                    raise RetryableCommitError(
                        f"version {base.version + 1} of {self._where} has been cleaned up before "
                        "this commit could be checked against it; run the operation again",
                        **self._details(base),
                    )
                if self._is_ours(manifest):
                    return _Landed(manifest)
                await self._judge(manifest)
                base = manifest
        return base

    async def _judge(self, winner: Manifest) -> None:
        """Raise unless our change may follow another's."""
        theirs = await read_transaction(self.table, winner)
        operation = Other("Unknown") if theirs is None else theirs.operation
        judged = verdict(self.transaction.operation, operation)
        if judged is Verdict.COMPATIBLE:
            return
        mine = self.transaction.operation.name
        details = {**self._details(None), "version": winner.version}
        if judged is Verdict.RETRY:
            raise RetryableCommitError(
                f"{mine} on version {self.transaction.read_version} of {self._where} was "
                f"overtaken by {operation.name} in version {winner.version}; run the whole "
                "operation again on the newest version",
                **details,
            )
        raise CommitConflictError(
            f"{mine} on version {self.transaction.read_version} of {self._where} is incompatible "
            f"with {operation.name}, which was committed as version {winner.version}; look at the "
            "newest version and decide again",
            **details,
        )

    async def _check_absent(self) -> _Landed | None:
        """Refuse to create what exists, unless it is what we created.

        A cleaned-up dataset has no version 1, so the put alone would not tell.
        """
        try:
            await latest_version(self.table)
        except DatasetNotFoundError:
            return None
        first = await read_version(self.table, 1, Naming.V2)
        if first is not None and self._is_ours(first):
            return _Landed(first)
        raise self._exists()

    def _is_ours(self, manifest: Manifest) -> bool:
        if manifest.transaction_file:
            return manifest.transaction_file.endswith(f"-{self.transaction.uuid}.txn")
        return manifest.transaction == build_transaction(self.transaction)

    def _exists(self) -> DatasetAlreadyExistsError:
        return DatasetAlreadyExistsError(
            f'a dataset exists at {self._where}; write with mode="append" or mode="overwrite"',
            path=self.table.root,
        )

    def _unknown(self, base: Manifest | None) -> CommitStateUnknownError:
        details = self._details(base)
        return CommitStateUnknownError(
            f"whether version {details['version']} of {self._where} was committed is not known: "
            f"the answer was lost; look for transaction {self.transaction.uuid} in the history "
            "before writing the same data again",
            **details,
        )

    def _details(self, base: Manifest | None) -> dict[str, int | str]:
        version = 1 if base is None else base.version + 1
        read_version = self.transaction.read_version
        return {"read_version": read_version, "version": version, "uuid": self.transaction.uuid}

    @property
    def _where(self) -> str:
        return self.table.url

    @property
    def _transaction_path(self) -> str:
        return transaction_path(self.table.root, self.transaction.file_name)
