"""Finding the version of a table that was the newest at some time."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime
from functools import partial

from alance.errors import InvalidInputError, VersionNotFoundError
from alance.table.location import StoredVersion, TableLocation
from alance.table.manifest import Manifest
from alance.table.versions import list_stored_versions, read_all, read_version

__all__ = ["read_manifest_at"]

PROBES = 4
"""Manifests read in one round: a thousand versions take five rounds rather than ten."""


async def read_manifest_at(table: TableLocation, time: datetime) -> Manifest:
    """Read the newest version that was committed at a time or before.

    Parameters
    ----------
    table
        Where its versions are.
    time
        With a time zone.

    Raises
    ------
    InvalidInputError
        `time` has no time zone.
    DatasetNotFoundError, VersionNotFoundError
        There is no table; all its versions are later.
    CorruptFileError, UnsupportedFeatureError
        A manifest is damaged, or uses what this library does not know.

    Notes
    -----
    Requests: a listing, then four manifests in each round until the version is found, the number
    of versions left going down to a fifth each time. Times are those in the manifests, and are
    taken to ascend: where clocks of writers disagreed by more than the time between two commits,
    the version found is one of those around `time`.
    """
    if time.tzinfo is None or time.utcoffset() is None:
        raise InvalidInputError(f"{time!r} has no time zone; give one, such as datetime.UTC")
    left = list(await list_stored_versions(table))
    found: Manifest | None = None
    while left:
        probes = _probes(len(left))
        reads = [partial(_read, table, left[place]) for place in probes]
        async with aclosing(read_all(reads)) as manifests:
            probed = [manifest async for manifest in manifests]
        start, stop = 0, len(left)
        for place, manifest in zip(probes, probed, strict=True):
            if manifest is None:
                continue  # cleaned up meanwhile
            if manifest.timestamp <= time:
                found, start = manifest, place + 1
            else:
                stop = place
                break
        left = [one for i, one in enumerate(left) if start <= i < stop and i not in probes]
    if found is None:
        raise VersionNotFoundError(
            f"{table.url} has no version from {time} or before; older ones may have been cleaned "
            "up",
            uri=table.url,
            version=str(time),
        )
    return found


def _probes(num_versions: int) -> list[int]:
    """Places that cut a sequence into parts of about the same length."""
    count = min(PROBES, num_versions)
    return [(i + 1) * num_versions // (count + 1) for i in range(count)]


async def _read(table: TableLocation, stored: StoredVersion) -> Manifest | None:
    return await read_version(table, stored.version, stored.naming)
