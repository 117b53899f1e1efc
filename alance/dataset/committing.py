"""Committing a change that writes no data files."""

from __future__ import annotations

import random
import uuid as uuids
from collections.abc import Mapping

from alance.dataset.places import Places
from alance.dataset.writing import check_texts
from alance.table.commit import commit
from alance.table.manifest import Manifest
from alance.table.operations import Operation
from alance.table.transaction import Transaction

__all__ = ["commit_change"]


async def commit_change(
    places: Places,
    base: Manifest,
    operation: Operation,
    *,
    properties: Mapping[str, str] | None = None,
    source: Manifest | None = None,
    is_recent: bool = False,
) -> Manifest:
    """Make an operation the next version.

    Parameters
    ----------
    places
        Where the dataset is.
    base
        The version that the operation was made on.
    operation
        What changes.
    properties
        Transaction properties.
    source
        The version that a Restore restores.
    is_recent
        Whether `base` was looked up for this change, or comes from a dataset opened some time ago.

    Raises
    ------
    CommitError
        See `alance.errors`.
    InvalidInputError
        The properties are not text, or the operation does not fit the table.

    Notes
    -----
    Requests: a short listing unless `is_recent`, with the manifests that are newer, then the
    transaction file and the manifest in one round.
    """
    texts = check_texts("transaction_properties", properties)
    transaction = Transaction(base.version, str(uuids.uuid4()), operation, properties=texts)
    return await commit(
        places.table,
        transaction,
        base=base,
        rng=random.Random(transaction.uuid),
        policy=places.session.commit_policy,
        source=source,
        look=not is_recent,
    )
