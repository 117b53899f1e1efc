"""Versions of a table as a listing of its manifests shows them."""

from __future__ import annotations

from collections.abc import Sequence

from alance.errors import CorruptFileError
from alance.io.store import ObjectInfo, ObjectStore
from alance.table.location import StoredVersion
from alance.table.manifest import Naming
from alance.table.naming import parse_manifest_name, versions_prefix

__all__ = ["list_manifests", "list_newest", "list_stored"]

LIST_KEYS = 10
"""The newest V2 name comes first, behind at most a few staged or temporary files."""


async def list_newest(store: ObjectStore, root: str) -> StoredVersion | None:
    """Find the newest version: one short listing where V2 names come sorted, else a full one.

    Raises
    ------
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    if store.lists_in_order:
        prefix = versions_prefix(root)
        infos = await store.list(prefix, limit=LIST_KEYS)
        found = _in_one_scheme(_stored(infos, prefix), prefix)
        whole = len(infos) < LIST_KEYS
        if found and (whole or found[0].naming is Naming.V2):
            return found[-1]
        if whole:
            return None
    everything = await list_stored(store, root)
    return everything[-1] if everything else None


async def list_stored(store: ObjectStore, root: str) -> list[StoredVersion]:
    """All versions, oldest first, from names alone; one full listing.

    Raises
    ------
    CorruptFileError
        Manifests of both naming schemes lie there.
    """
    return _in_one_scheme(await list_manifests(store, root), versions_prefix(root))


async def list_manifests(store: ObjectStore, root: str) -> list[StoredVersion]:
    """All manifests, oldest first, of whichever naming scheme; one full listing."""
    prefix = versions_prefix(root)
    return _stored(await store.list(prefix), prefix)


def _stored(infos: Sequence[ObjectInfo], prefix: str) -> list[StoredVersion]:
    """Manifests among listed objects, oldest first."""
    found: list[StoredVersion] = []
    for info in infos:
        named = parse_manifest_name(info.path.removeprefix(f"{prefix}/"))
        if named is not None:
            version, naming = named.version, named.naming
            found.append(StoredVersion(version, naming, info.path, info.num_bytes, info.e_tag))
    return sorted(found, key=lambda stored: stored.version)


def _in_one_scheme(found: list[StoredVersion], prefix: str) -> list[StoredVersion]:
    """Refuse a mixture, in which the newest version cannot be told."""
    if len({stored.naming for stored in found}) > 1:
        raise CorruptFileError(
            f"{prefix} holds manifests of both naming schemes, V1 and V2, so its newest version "
            "cannot be told; complete the migration of the V1 ones, or move away what does not "
            "belong",
            path=prefix,
        )
    return found
