"""What a commit needs before its manifest, done while its data files are still on their way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from alance._aio import run_all
from alance.errors import StoreError
from alance.table.features import Feature
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.naming import transaction_path
from alance.table.objects import discard
from alance.table.transaction import Transaction
from alance.table.winners import Winner, read_winners
from alance.table.wire_transaction import build_transaction

__all__ = ["RECENT_S", "Prepared", "prepare", "put_transaction"]

RECENT_S = 5.0
"""How long a look at the newest version holds. Each number is taken once only as long as nobody
frees it: a cleanup does, once others have gone on by several versions."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a commit has done while its data files were still on their way.

    Parameters
    ----------
    newer
        Versions after the base, oldest first, each with the change that made it.
    file_name
        Name of the transaction file that was written; None when none was.
    looked_s
        When the look for newer versions began, by the clock of the event loop.
    """

    newer: tuple[Winner, ...] = ()
    file_name: str | None = None
    looked_s: float = field(default=0.0, compare=False)

    @property
    def is_recent(self) -> bool:
        """Whether its look still holds."""
        return anyio.current_time() - self.looked_s < RECENT_S


async def prepare(
    table: TableLocation,
    base: Manifest | None,
    transaction: Transaction | None = None,
    *,
    looked_s: float | None = None,
) -> Prepared:
    """Do what a commit needs before its manifest, at the same time as data files are uploaded.

    Parameters
    ----------
    table
        Where the dataset is.
    base
        As for `commit`.
    transaction
        The change, where it is known already; its file is written then. If nothing is committed
        after all, whoever asked for it removes the file; a failure here leaves none.
    looked_s
        When `base` was found to be the newest version, where that look holds still; None looks.

    Raises
    ------
    DatasetAlreadyExistsError
        `base` is None but there is a dataset, which another transaction created.
    RetryableCommitError
        A version in between has been cleaned up.
    StoreError
        A request failed, or the store ignores the condition of conditional puts.

    Notes
    -----
    Requests: a short listing together with the transaction file, then the newer manifests, read
    together; and the probe of a store that needs one.
    """
    found: list[tuple[Winner, ...]] = []
    written: list[str] = []

    async def look() -> None:
        found.append(await read_winners(table, base))

    async def write(known: Transaction) -> None:
        with suppress(StoreError):  # the commit sends it again
            await put_transaction(table, known)
            written.append(known.file_name)

    jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
    if looked_s is None:
        looked_s = anyio.current_time()
        jobs.append(look)
    jobs.append(partial(table.handler.ready, table.store, table.root))
    in_vain: list[str] = []
    if transaction is not None and _has_transaction_file(base):
        jobs.append(partial(write, transaction))
        in_vain.append(transaction_path(table.root, transaction.file_name))
    try:
        await run_all(jobs)
    except BaseException:
        await discard(table.store, in_vain)
        raise
    newer = found[0] if found else ()
    return Prepared(newer, written[0] if written else None, looked_s)


async def put_transaction(table: TableLocation, transaction: Transaction) -> None:
    """Write the file of a transaction: one request."""
    path = transaction_path(table.root, transaction.file_name)
    await table.store.put(path, build_transaction(transaction))


def _has_transaction_file(base: Manifest | None) -> bool:
    """Whether versions after this one have a transaction file each."""
    return base is None or not Feature.NO_TRANSACTION_FILES & base.writer_flags
