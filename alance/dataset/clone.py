"""Beginning a table with the files of another, which stay where they are."""

from __future__ import annotations

import time
import uuid as uuids

from alance._aio import run_to_end
from alance.dataset.handle import Handle
from alance.io.store import ObjectStore
from alance.table.clone import build_clone, create_table
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.operations import Clone
from alance.table.transaction import Transaction

__all__ = ["address", "clone"]

_RESERVED = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


async def clone(
    source: Handle, manifest: Manifest, target: TableLocation, *, branch: str | None = None
) -> Manifest:
    """Make a table whose first version has the rows of a version of another.

    Parameters
    ----------
    source, manifest
        The version to begin with.
    target
        Where the new table shall be.
    branch
        Its name, if it is a branch of the source.

    Returns
    -------
    Manifest
        The clone's first version, of the same number.

    Raises
    ------
    DatasetAlreadyExistsError
        There is a table at `target`.
    CommitStateUnknownError, StoreError
        See `create_table`.

    Notes
    -----
    Requests: see `create_table`. Cancellation: once begun, it is seen through.
    """
    own = source.places
    transaction = Transaction(
        manifest.version,
        str(uuids.uuid4()),
        Clone(
            is_shallow=True,
            ref_name=source.branch,
            ref_version=manifest.version,
            ref_path=address(own.client, own.root),
            branch_name=branch,
        ),
    )
    built = build_clone(manifest, transaction, timestamp_ns=time.time_ns())
    await run_to_end(create_table(target, built))
    return built


def address(store: ObjectStore, root: str) -> str:
    """Address of a dataset by which others refer to it: an absolute path, or a URI."""
    if store.url.startswith("file:"):
        return f"/{root}"
    separator = "" if store.url.endswith("/") else "/"
    return f"{store.url}{separator}{root.translate(_RESERVED)}"
