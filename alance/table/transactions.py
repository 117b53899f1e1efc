"""Reading the changes that made versions."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap

from alance.errors import CorruptFileError, ObjectNotFoundError
from alance.table.indices import FRAGMENT_REUSE
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.naming import transaction_path, versions_prefix
from alance.table.objects import MANIFEST_BYTES_MAX, read_object
from alance.table.operations import Rewrite
from alance.table.transaction import Transaction
from alance.table.wire_indices import parse_indices
from alance.table.wire_transaction import parse_transaction

__all__ = ["read_transaction"]


async def read_transaction(table: TableLocation, manifest: Manifest) -> Transaction | None:
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
    where = f"the transaction of version {manifest.version} below {versions_prefix(table.root)}"
    if manifest.transaction is not None:
        return _completed(parse_transaction(manifest.transaction, path=where), manifest, where)
    name = manifest.transaction_file
    if not name:
        return None
    if "/" in name or "\\" in name or name in (".", "..") or not name.isprintable():
        raise CorruptFileError(f"{where} is said to be in {name[:100]!r}, which is no file name")
    path = transaction_path(table.root, name)
    try:
        data = await read_object(table.store, path, bytes_max=MANIFEST_BYTES_MAX)
    except ObjectNotFoundError:
        return None
    return _completed(parse_transaction(data, path=path), manifest, where)


def _completed(transaction: Transaction, manifest: Manifest, where: str) -> Transaction:
    """Add to a rewrite the map of addresses that it left, which only its version tells of."""
    operation = transaction.operation
    if not isinstance(operation, Rewrite):
        return transaction
    made = BitMap([new.id for group in operation.groups for new in group.new_fragments])
    for entry in parse_indices(manifest.index_section, path=where):
        covered = entry.fragments if entry.name == FRAGMENT_REUSE else None
        if made and covered is not None and made.issubset(covered):
            return replace(transaction, operation=replace(operation, fragment_reuse_index=entry))
    return transaction
