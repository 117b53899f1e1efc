"""Which versions a dataset has, and reading their manifests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from alance._aio import run_all
from alance.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from alance.io.store import ObjectInfo, ObjectStore
from alance.table.manifest import Manifest, Naming
from alance.table.naming import (
    VERSION_MAX,
    manifest_path,
    parse_manifest_name,
    transaction_path,
    versions_prefix,
)
from alance.table.objects import check_size, read_object
from alance.table.transaction import Transaction
from alance.table.wire import parse_manifest
from alance.table.wire_transaction import parse_transaction

__all__ = [
    "READS_MAX",
    "StoredVersion",
    "VersionInfo",
    "latest_version",
    "list_stored_versions",
    "list_versions",
    "read_all",
    "read_manifest",
    "read_transaction",
    "read_version",
    "refresh",
]

OBJECT_BYTES_MAX = 1 << 30
"""Refused above: protobuf itself ends at twice that."""

LIST_KEYS = 10
"""The newest V2 name comes first, behind at most a few staged or temporary files."""

READS_MAX = 16
"""Manifests read, and held, at once when there are many to go through."""

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A manifest as a listing shows it.

    Parameters
    ----------
    version, naming
        What its name says.
    path
        Its key.
    num_bytes
        Size of the object.
    """

    version: int
    naming: Naming
    path: str
    num_bytes: int


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


async def latest_version(store: ObjectStore, root: str) -> StoredVersion:
    """Find the newest version: one short listing where V2 names come sorted, else a full one.

    Raises
    ------
    DatasetNotFoundError
        There is no manifest below `root`.
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    if store.lists_in_order:
        prefix = versions_prefix(root)
        infos = await store.list(prefix, limit=LIST_KEYS)
        found = _stored(infos, prefix)
        whole = len(infos) < LIST_KEYS
        if found and (whole or found[0].naming is Naming.V2):
            return found[-1]
        if whole:
            raise _no_dataset(store, root)
    return (await list_stored_versions(store, root))[-1]


async def list_stored_versions(store: ObjectStore, root: str) -> Sequence[StoredVersion]:
    """All versions, oldest first, from names alone; one full listing.

    Raises
    ------
    DatasetNotFoundError
        There is none.
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    prefix = versions_prefix(root)
    found = _stored(await store.list(prefix), prefix)
    if not found:
        raise _no_dataset(store, root)
    return found


async def list_versions(store: ObjectStore, root: str) -> tuple[VersionInfo, ...]:
    """Describe all versions, oldest first: one full listing, then one read for each.

    Versions that are cleaned up meanwhile are left out.

    Raises
    ------
    DatasetNotFoundError
        There is none.
    """
    found = await list_stored_versions(store, root)
    reads = [partial(_read_stored, store, stored) for stored in found]
    async with aclosing(read_all(reads)) as manifests:
        infos = [_describe(manifest) async for manifest in manifests if manifest is not None]
    return tuple(infos)


async def read_manifest(store: ObjectStore, root: str, version: int | None = None) -> Manifest:
    """Read a version: the newest in two requests (LIST, GET), one known by number in one GET.

    A numbered manifest of more than 64 KiB takes one GET more, as does one with a V1 name.

    Parameters
    ----------
    store
        Where the dataset is.
    root
        Its key prefix.
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
        stored = await latest_version(store, root)
        version, manifest = stored.version, await _read_stored(store, stored)
    elif 1 <= version <= VERSION_MAX:
        manifest = await read_version(store, root, version, Naming.V2)
        if manifest is None:
            manifest = await read_version(store, root, version, Naming.V1)
    else:
        manifest = None
    if manifest is not None:
        return manifest
    newest = (await latest_version(store, root)).version
    raise VersionNotFoundError(
        f"{store.url}/{root} has no version {version}; the newest is {newest}, and older ones may "
        "have been cleaned up",
        uri=f"{store.url}/{root}",
        version=version,
    )


async def read_version(
    store: ObjectStore, root: str, version: int, naming: Naming
) -> Manifest | None:
    """Read the manifest of a version under its one possible name; None when there is none.

    One request, two above 64 KiB.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        The manifest is damaged; it uses what this library does not know.
    """
    path = manifest_path(root, version, naming)
    try:
        data = await read_object(store, path, bytes_max=OBJECT_BYTES_MAX)
    except ObjectNotFoundError:
        return None
    return _parse(data, path, version, naming)


async def read_transaction(store: ObjectStore, root: str, manifest: Manifest) -> Transaction | None:
    """Read the change that made a version: from the manifest, else from its file.

    Returns
    -------
    Transaction | None
        None when the version has no record of its change, or the file is gone.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        The record is damaged; it has a schema that this library does not know.

    Notes
    -----
    No request for an inline transaction, which all usual ones are; else one, two above 64 KiB.
    """
    where = f"the transaction of version {manifest.version} below {versions_prefix(root)}"
    if manifest.transaction is not None:
        return parse_transaction(manifest.transaction, path=where)
    name = manifest.transaction_file
    if not name:
        return None
    if "/" in name or "\\" in name or name in (".", "..") or not name.isprintable():
        raise CorruptFileError(f"{where} is said to be in {name[:100]!r}, which is no file name")
    path = transaction_path(root, name)
    try:
        data = await read_object(store, path, bytes_max=OBJECT_BYTES_MAX)
    except ObjectNotFoundError:
        return None
    return parse_transaction(data, path=path)


async def refresh(store: ObjectStore, root: str, manifest: Manifest) -> Manifest:
    """Find the newest version, given one that may be it.

    A LIST and a GET of the next version go out together: one round when `manifest` or its successor
    is the newest, one GET more when the dataset has moved on further. The GET alone would not do,
    as a version may have been cleaned up while later ones stand.

    Raises
    ------
    DatasetNotFoundError
        The dataset is gone.
    """
    stored, following = await _both(
        partial(latest_version, store, root),
        partial(read_version, store, root, manifest.version + 1, manifest.naming),
    )
    if following is not None and stored.version <= following.version:
        return following
    if stored.version <= manifest.version:
        return manifest
    newest = await _read_stored(store, stored)
    return await read_manifest(store, root) if newest is None else newest


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


async def _read_stored(store: ObjectStore, stored: StoredVersion) -> Manifest | None:
    """One GET: the listing told the size."""
    check_size(stored.path, stored.num_bytes, OBJECT_BYTES_MAX)
    try:
        data = await store.get_range(stored.path, 0, stored.num_bytes)
    except ObjectNotFoundError:
        return None
    return _parse(data, stored.path, stored.version, stored.naming)


def _parse(data: memoryview, path: str, version: int, naming: Naming) -> Manifest:
    manifest = parse_manifest(data, path=path, naming=naming)
    if manifest.version != version:
        raise CorruptFileError(
            f"{path}: the manifest is named for version {version} but says {manifest.version}",
            path=path,
        )
    return manifest


def _stored(infos: Sequence[ObjectInfo], prefix: str) -> list[StoredVersion]:
    """Manifests among listed objects, oldest first."""
    found: list[StoredVersion] = []
    for info in infos:
        named = parse_manifest_name(info.path.removeprefix(f"{prefix}/"))
        if named is not None:
            found.append(StoredVersion(named.version, named.naming, info.path, info.num_bytes))
    if len({stored.naming for stored in found}) > 1:
        raise CorruptFileError(
            f"{prefix} holds manifests of both naming schemes, V1 and V2, so its newest version "
            "cannot be told; rename the V1 ones or move away what does not belong",
            path=prefix,
        )
    return sorted(found, key=lambda stored: stored.version)


def _no_dataset(store: ObjectStore, root: str) -> DatasetNotFoundError:
    return DatasetNotFoundError(
        f"no dataset at {store.url}/{root}: there is no manifest in its _versions folder; check "
        "the address, or create it with write_dataset",
        uri=f"{store.url}/{root}",
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


async def _both(
    first: Callable[[], Coroutine[Any, Any, A]], second: Callable[[], Coroutine[Any, Any, B]]
) -> tuple[A, B]:
    """Results of two requests that go out together."""
    firsts: dict[int, A] = {}
    seconds: dict[int, B] = {}
    await run_all([partial(_keep, firsts, 0, first), partial(_keep, seconds, 0, second)])
    return firsts[0], seconds[0]
