"""Whether a version that was just put stands in the history, or apart from it.

A cleanup frees the numbers of the versions that it removes. A writer that took its last look before
others went on, and before a cleanup removed what they did first, puts a manifest under such a
number: the put succeeds, but the newest version knows nothing of it.
"""

from __future__ import annotations

from alance.errors import AlanceError
from alance.table.apply import apply
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.naming import manifest_path
from alance.table.operations import Overwrite, Restore
from alance.table.transactions import read_transaction
from alance.table.versions import read_version

__all__ = ["AUTO_CLEANUP", "frees_numbers", "stands"]

AUTO_CLEANUP = "lance.auto_cleanup."
"""Begins the settings by which commits clean up."""


def frees_numbers(manifest: Manifest) -> bool:
    """Whether numbers of recent versions may be freed: every writer may clean up at any commit."""
    return f"{AUTO_CLEANUP}interval" in manifest.config


async def stands(table: TableLocation, base: Manifest, landed: Manifest) -> bool | None:
    """Whether a version that was just put was followed by no other than its successors.

    Parameters
    ----------
    table
        Where it is.
    base, landed
        The version that it builds upon, and itself.

    Returns
    -------
    bool | None
        False: those with higher numbers were there before it. None where that cannot be told.

    Notes
    -----
    Requests: a short listing; where others have committed since, one of their manifests, and where
    that does not tell, the times of both.
    """
    newest = await table.handler.newest(table.store, table.root)
    if newest is None:
        return None
    if newest.version <= landed.version:
        return True
    following = await read_version(table, landed.version + 1, landed.naming)
    later = following or await read_version(table, newest.version, landed.naming)
    if later is None:
        return None
    own = _traces(landed) - _traces(base)
    if not own.isdisjoint(_traces(later)) or _content(landed) == _content(base):
        return True
    if following is not None and await _leads_to(table, landed, following):
        return True
    # The same clock for both: the store's.
    ours, theirs = [
        (await table.store.head(manifest_path(table.root, one.version, one.naming))).last_modified
        for one in (landed, later)
    ]
    if ours != theirs:
        return ours < theirs
    return False if own and following is not None else None


async def _leads_to(table: TableLocation, landed: Manifest, following: Manifest) -> bool:
    """Whether a version is what its change makes of the one before."""
    transaction = await read_transaction(table, following)
    if transaction is None:
        return False
    if isinstance(transaction.operation, Overwrite | Restore):
        return True  # whatever it followed is history
    try:
        expected = apply(landed, transaction, timestamp_ns=following.timestamp_ns)
    except AlanceError:
        return False
    return _content(expected) == _content(following)


def _content(manifest: Manifest) -> tuple[object, ...]:
    rows = {
        (one.id, tuple(file.path for file in one.files), one.deletion_file)
        for one in manifest.fragments
    }
    return rows, dict(manifest.config), dict(manifest.table_metadata), manifest.schema


def _traces(manifest: Manifest) -> set[object]:
    """What shows that a version is built upon: files, whose names were never used, and settings."""
    found: set[object] = {file.path for one in manifest.fragments for file in one.files}
    for one in manifest.fragments:
        if one.deletion_file is not None:
            found.add(one.deletion_file.name(one.id))
    found.update(("config", *item) for item in manifest.config.items())
    return found | {("metadata", *item) for item in manifest.table_metadata.items()}
