"""Which versions a dataset has, and reading their manifests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from alance._aio import both, run_all
from alance.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from alance.table.location import StoredVersion, TableLocation
from alance.table.manifest import Manifest, Naming
from alance.table.naming import VERSION_MAX, manifest_path
from alance.table.objects import MANIFEST_BYTES_MAX, check_size
from alance.table.wire import parse_manifest

__all__ = [
    "READS_MAX",
    "VersionInfo",
    "latest_version",
    "list_stored_versions",
    "list_versions",
    "read_all",
    "read_manifest",
    "read_version",
    "refresh",
]

PARSED_BYTES_MAX = 32 << 10
"""Of a manifest that is parsed on the event loop, at about 10 MB/s."""

READS_MAX = 16
"""Manifests read, and held, at once when there are many to go through."""

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One entry of a dataset's history.

    Parameters
    ----------
    version
        From 1.
    timestamp
        Time of the commit, UTC.
    metadata
        Totals of rows, files and bytes, as text, under the reference's names.
    """

    version: int
    timestamp: datetime
    metadata: dict[str, str]


async def latest_version(table: TableLocation) -> StoredVersion:
    """Find the newest version: one short listing where V2 names come sorted, else a full one.

    Raises
    ------
    DatasetNotFoundError
        There is no manifest.
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    found = await table.handler.newest(table.store, table.root)
    if found is None:
        raise _no_dataset(table)
    return found


async def list_stored_versions(table: TableLocation) -> Sequence[StoredVersion]:
    """All versions, oldest first, from names alone; one full listing.

    Raises
    ------
    DatasetNotFoundError
        There is none.
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    found = await table.handler.versions(table.store, table.root)
    if not found:
        raise _no_dataset(table)
    return found


async def list_versions(table: TableLocation) -> tuple[VersionInfo, ...]:
    """Describe all versions, oldest first: one full listing, then one read for each.

    Versions that are cleaned up meanwhile are left out.

    Raises
    ------
    DatasetNotFoundError
        There is none.
    """
    found = await list_stored_versions(table)
    reads = [partial(_read_stored, table, stored) for stored in found]
    async with aclosing(read_all(reads)) as manifests:
        infos = [_describe(manifest) async for manifest in manifests if manifest is not None]
    return tuple(infos)


async def read_manifest(table: TableLocation, version: int | None = None) -> Manifest:
    """Read a version: the newest in two requests (LIST, GET), one known by number in one GET.

    A numbered manifest of more than 64 KiB takes one GET more, as does one with a V1 name.

    Parameters
    ----------
    table
        Where it is.
    version
        None reads the newest.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError
        Nothing is there; other versions are.
    CorruptFileError, UnsupportedFeatureError
        The manifest is damaged; it uses what this library does not know.
    """
    if version is None:
        stored = await latest_version(table)
        version, manifest = stored.version, await _read_newest(table, stored)
    elif 1 <= version <= VERSION_MAX:
        manifest = await read_version(table, version, Naming.V2)
        if manifest is None:
            manifest = await read_version(table, version, Naming.V1)
    else:
        manifest = None
    if manifest is not None:
        return manifest
    newest = (await latest_version(table)).version
    raise VersionNotFoundError(
        f"{table.url} has no version {version}; the newest is {newest}, and older ones may "
        "have been cleaned up",
        uri=table.url,
        version=version,
    )


async def read_version(table: TableLocation, version: int, naming: Naming) -> Manifest | None:
    """Read the manifest of a version under its one possible name; None when there is none.

    One request, two above 64 KiB.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        The manifest is damaged; it uses what this library does not know.
    """
    data = await table.handler.read(table.store, table.root, version, naming)
    if data is None:
        return None
    return await _parse(data, manifest_path(table.root, version, naming), version, naming)


async def refresh(table: TableLocation, manifest: Manifest) -> Manifest:
    """Find the newest version, given one that may be it.

    A LIST and a GET of the next version go out together: one round when `manifest` or its successor
    is the newest, one GET more when the dataset has moved on further, two when it was made anew.
    The GET alone would not do, as a version may have been cleaned up while later ones stand.

    Raises
    ------
    DatasetNotFoundError
        The dataset is gone.
    """
    stored, following = await both(
        partial(latest_version, table),
        partial(read_version, table, manifest.version + 1, manifest.naming),
    )
    if following is not None and stored.version <= following.version:
        return following
    if stored.version == manifest.version:
        return manifest
    if stored.version < manifest.version:  # an old listing, or a table that was made anew
        same = await read_version(table, manifest.version, manifest.naming)
        if same is not None:
            return manifest
    newest = await _read_stored(table, stored)
    return await read_manifest(table) if newest is None else newest


async def read_all(
    reads: Sequence[Callable[[], Coroutine[Any, Any, A]]],
) -> AsyncGenerator[A, None]:
    """Results of many reads, in order; at most `READS_MAX` are under way or held at once."""
    for start in range(0, len(reads), READS_MAX):
        window = reads[start : start + READS_MAX]
        results: dict[int, A] = {}
        await run_all([partial(_keep, results, i, read) for i, read in enumerate(window)])
        for i in range(len(window)):
            yield results.pop(i)


async def _keep(
    results: dict[int, A], key: int, read: Callable[[], Coroutine[Any, Any, A]]
) -> None:
    results[key] = await read()


async def _read_newest(table: TableLocation, stored: StoredVersion) -> Manifest | None:
    """Read the newest version; where it is damaged, say how to go on without it."""
    try:
        return await _read_stored(table, stored)
    except CorruptFileError as exc:
        if stored.version > 1:
            exc.add_note(
                f"version {stored.version} is the newest of {table.url}; an older one may be "
                f"whole: open it by number, as with version={stored.version - 1}"
            )
        raise


async def _read_stored(table: TableLocation, stored: StoredVersion) -> Manifest | None:
    """One GET, as the listing told the size; none where these bytes were read before."""
    kept = None if table.manifests is None else table.manifests.get(stored)
    if kept is not None:
        return kept
    check_size(stored.path, stored.num_bytes, MANIFEST_BYTES_MAX)
    try:
        data = await table.store.get_range(stored.path, 0, stored.num_bytes)
    except ObjectNotFoundError:
        return None
    manifest = await _parse(data, stored.path, stored.version, stored.naming)
    if table.manifests is not None:
        table.manifests.put(stored, manifest)
    return manifest


async def _parse(data: memoryview, path: str, version: int, naming: Naming) -> Manifest:
    parse = partial(parse_manifest, data, path=path, naming=naming)
    is_long = len(data) > PARSED_BYTES_MAX
    manifest = await anyio.to_thread.run_sync(parse) if is_long else parse()
    if manifest.version != version:
        raise CorruptFileError(
            f"{path}: the manifest is named for version {version} but says {manifest.version}",
            path=path,
        )
    return manifest


def _no_dataset(table: TableLocation) -> DatasetNotFoundError:
    return DatasetNotFoundError(
        f"no dataset at {table.url}: there is no manifest in its _versions folder; check "
        "the address, or create it with write_dataset",
        uri=table.url,
    )


def _describe(manifest: Manifest) -> VersionInfo:
    files = [file for fragment in manifest.fragments for file in fragment.files]
    deletions = [f.deletion_file for f in manifest.fragments if f.deletion_file is not None]
    totals = {
        "total_data_file_rows": sum(f.physical_rows for f in manifest.fragments),
        "total_data_files": len(files),
        "total_deletion_file_rows": sum(d.num_deleted_rows for d in deletions),
        "total_deletion_files": len(deletions),
        "total_files_size": sum(file.file_size_bytes for file in files),
        "total_fragments": len(manifest.fragments),
        "total_rows": manifest.num_rows,
    }
    metadata = {key: str(value) for key, value in totals.items()}
    return VersionInfo(manifest.version, manifest.timestamp, metadata)
