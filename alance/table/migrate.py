"""Giving the manifests of an old table the names that let the newest version be found at once."""

from __future__ import annotations

from functools import partial

from alance._aio import run_each
from alance.table.listing import list_manifests
from alance.table.location import StoredVersion, TableLocation
from alance.table.manifest import Naming
from alance.table.naming import manifest_path
from alance.table.versions import READS_MAX

__all__ = ["migrate_to_v2"]


async def migrate_to_v2(table: TableLocation) -> int:
    """Rename every manifest with a V1 name; nobody else may use the table meanwhile.

    All are copied before the first is removed, so that a version has a name at any time, and a
    migration that was cut off is completed by another. Until then the two schemes are side by side,
    which is refused by readers and writers.

    Returns
    -------
    int
        Manifests that were renamed.

    Raises
    ------
    StoreError
        A request failed; run it again.

    Notes
    -----
    Requests: a full listing, then a copy and a delete for each manifest, `READS_MAX` at a time.
    """
    found = await list_manifests(table.store, table.root)
    old = [stored for stored in found if stored.naming is Naming.V1]
    await run_each([partial(_copy, table, one) for one in old], at_once=READS_MAX)
    await run_each([partial(table.store.delete, one.path) for one in old], at_once=READS_MAX)
    return len(old)


async def _copy(table: TableLocation, stored: StoredVersion) -> None:
    path = manifest_path(table.root, stored.version, Naming.V2)
    await table.store.copy(stored.path, path)
    renamed = StoredVersion(stored.version, Naming.V2, path, stored.num_bytes)
    await table.handler.renamed(table.store, table.root, renamed)
