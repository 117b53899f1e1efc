"""What pylance and this library say of two changes of which one was made unaware of the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
from pyroaring import BitMap

from alance.errors import RetryableCommitError
from alance.io.simulated import SimulatedStore
from alance.table.conflicts import Verdict, verdict
from alance.table.deletion import read_deletion_vector
from alance.table.manifest import Manifest
from alance.table.operations import Delete, Update
from alance.table.rebase import rebase
from alance.table.transaction import Transaction
from alance.table.transactions import read_transaction
from alance.table.versions import list_stored_versions, read_manifest
from tests.table.changes import CHANGES
from tests.table.samples import at, load

__all__ = ["Made", "agree", "copy_dataset", "judge", "make", "reference_verdict"]

_SEVERITY = (Verdict.COMPATIBLE, Verdict.REBASE, Verdict.RETRY, Verdict.INCOMPATIBLE)


@dataclass(frozen=True)
class Made:
    """A change on its own.

    Parameters
    ----------
    name
        Of the change.
    folder
        Its dataset, as pylance left it.
    store
        The same in memory, below the name of the folder.
    read
        The version it was made on.
    made
        Each version that it made, with its record.
    affected_rows
        Offsets of the rows that it deleted, by fragment; None when pylance is not told.
    """

    name: str
    folder: Path
    store: SimulatedStore
    read: Manifest
    made: tuple[tuple[Manifest, Transaction], ...]
    affected_rows: Mapping[int, BitMap] | None


async def make(name: str, base: Path, version: int, folder: Path) -> Made:
    """Let pylance make a change of a copy of the dataset."""
    copy_dataset(base, folder)
    CHANGES[name](lance.dataset(folder, version=version))
    store = SimulatedStore()
    table = at(store, load(store, folder))
    made: list[tuple[Manifest, Transaction]] = []
    for stored in await list_stored_versions(table):
        if stored.version > version:
            manifest = await read_manifest(table, stored.version)
            transaction = await read_transaction(table, manifest)
            assert transaction is not None
            made.append((manifest, transaction))
    operation = made[-1][1].operation
    affected: dict[int, BitMap] | None = None
    if isinstance(operation, Delete | Update) and not name.endswith("(rows unknown)"):
        changed = [each for each in operation.updated_fragments if each.deletion_file is not None]
        affected = {
            each.id: BitMap(await read_deletion_vector(store, table.root, each)) for each in changed
        }
    return Made(name, folder, store, await read_manifest(table, version), tuple(made), affected)


def reference_verdict(mine: Made, theirs: Made, scratch: Path) -> Verdict | None:
    """Let pylance make a change on top of another that it has not seen; None if it is confused."""
    copy_dataset(theirs.folder, scratch)
    try:
        CHANGES[mine.name](lance.dataset(scratch, version=mine.read.version))
    except (OSError, ValueError) as exc:
        told = str(exc)
    else:
        return Verdict.COMPATIBLE
    finally:
        shutil.rmtree(scratch)
    if "Retryable commit conflict" in told or "Too many concurrent writers" in told:
        return Verdict.RETRY
    return Verdict.INCOMPATIBLE if "Incompatible transaction" in told else None


async def judge(mine: Made, theirs: Made) -> Verdict:
    """Judge every version of the one against every version of the other; the worst counts."""
    worst = Verdict.COMPATIBLE
    for _, ours in mine.made:
        for _, other in theirs.made:
            found = verdict(
                ours.operation,
                other.operation,
                has_affected_rows=mine.affected_rows is not None,
            )
            worst = max(worst, found, key=_SEVERITY.index)
    if worst is Verdict.REBASE:
        try:
            await rebase(
                theirs.store,
                theirs.folder.name,
                mine.made[-1][1],
                read=mine.read,
                current=theirs.made[-1][0],
                affected_rows=mine.affected_rows,
            )
        except RetryableCommitError:
            return Verdict.RETRY
    return worst


def agree(reference: Verdict | None, own: Verdict) -> bool:
    """Pylance does not tell whether it merged anything."""
    return reference is (Verdict.COMPATIBLE if own is Verdict.REBASE else own)


def copy_dataset(dataset: Path, folder: Path) -> None:
    """Copy by links: what is in a dataset is never written to again, the version hint aside."""
    hint = shutil.ignore_patterns("latest_version_hint.json")
    shutil.copytree(dataset, folder, copy_function=os.link, ignore=hint)
