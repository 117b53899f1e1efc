"""Versions that others committed while a change was on its way, and what each of them did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from alance._aio import run_all
from alance.errors import (
    CommitConflictError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    RetryableCommitError,
)
from alance.table.location import TableLocation
from alance.table.manifest import Manifest, Naming
from alance.table.operations import Operation, Other
from alance.table.transactions import read_transaction
from alance.table.versions import READS_MAX, latest_version, read_version

__all__ = ["Winner", "already_exists", "read_winner", "read_winners"]


@dataclass(frozen=True, slots=True)
class Winner:
    """A version that was there first.

    Parameters
    ----------
    manifest
        It.
    operation
        The change that made it; `Other("Unknown")` where no record of that is left.
    """

    manifest: Manifest
    operation: Operation


async def read_winner(table: TableLocation, manifest: Manifest) -> Winner:
    """Find out what made a version; one request where its manifest does not say."""
    transaction = await read_transaction(table, manifest)
    operation = Other("Unknown") if transaction is None else transaction.operation
    return Winner(manifest, operation)


async def read_winners(table: TableLocation, base: Manifest | None) -> tuple[Winner, ...]:
    """Versions after `base`, oldest first; the first version where `base` is None.

    Raises
    ------
    RetryableCommitError
        One of them has been cleaned up.
    CommitConflictError
        The table was removed and made anew since, and is not as far yet.
    DatasetAlreadyExistsError
        `base` is None and a dataset exists of which the first version has been cleaned up.

    Notes
    -----
    Requests: a short listing, then the manifests, at most `READS_MAX` at once.
    """
    try:
        newest = (await latest_version(table)).version
    except DatasetNotFoundError:
        if base is None:
            return ()
        raise
    if base is None:
        first = await read_version(table, 1, Naming.V2)
        if first is None:
            raise already_exists(table)
        return (await read_winner(table, first),)
    if newest < base.version:
        await _check_is_there(table, base, newest)
    found: dict[int, Winner] = {}
    for start in range(base.version + 1, newest + 1, READS_MAX):
        stop = min(start + READS_MAX, newest + 1)
        await run_all([partial(_read, table, base, i, found) for i in range(start, stop)])
    return tuple(found[version] for version in sorted(found))


async def _check_is_there(table: TableLocation, base: Manifest, newest: int) -> None:
    """Refuse to go on from a version that stands no more; a listing may just be old."""
    if await read_version(table, base.version, base.naming) is None:
        raise CommitConflictError(
            f"{table.url} was removed and made anew: its newest version is {newest}, while this "
            f"change was made on version {base.version}; open it again",
            read_version=base.version,
            version=newest,
        )


async def _read(
    table: TableLocation, base: Manifest, version: int, found: dict[int, Winner]
) -> None:
    manifest = await read_version(table, version, base.naming)
    if manifest is None:
        raise RetryableCommitError(
            f"version {version} of {table.url} has been cleaned up before this commit could be "
            "checked against it; run the operation again",
            version=version,
        )
    found[version] = await read_winner(table, manifest)


def already_exists(table: TableLocation) -> DatasetAlreadyExistsError:
    """Say that nothing can be created here."""
    return DatasetAlreadyExistsError(
        f'a dataset exists at {table.url}; write with mode="append" or mode="overwrite"',
        path=table.root,
    )
