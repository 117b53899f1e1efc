"""Deleting rows: a scan finds them, deletion files hide them, one commit makes that a version."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from functools import partial

from pyroaring import BitMap

from alance._aio import both
from alance.dataset.handle import Handle
from alance.dataset.places import Places
from alance.dataset.rerun import Patience, RerunPolicy, run_again
from alance.dataset.row_changes import HiddenRows, find_rows, hide_rows, plan_find
from alance.dataset.writing import check_texts
from alance.errors import AlanceError, CommitStateUnknownError
from alance.table.commit import commit
from alance.table.features import check_writable
from alance.table.manifest import Manifest
from alance.table.operations import Delete
from alance.table.prepare import Prepared, prepare
from alance.table.transaction import Transaction
from alance.table.versions import refresh

__all__ = ["delete"]


async def delete(
    handle: Handle,
    manifest: Manifest,
    predicate: str,
    *,
    policy: RerunPolicy,
    properties: Mapping[str, str] | None,
) -> Manifest:
    """Delete rows of a version, or of the newest one once others came first; see `Dataset.delete`.

    Parameters
    ----------
    handle
        Leads to the dataset.
    manifest
        The version to begin with.
    predicate
        SQL text.
    policy
        How often all of it is run again.
    properties
        Transaction properties.
    """
    texts = check_texts("transaction_properties", properties)

    async def attempt(read: Manifest) -> Manifest:
        return await _attempt(handle.at(read).places, read, predicate, texts)

    latest = partial(refresh, handle.places.table)
    return await run_again(attempt, manifest, latest, Patience(policy))


async def _attempt(
    places: Places, read: Manifest, predicate: str, properties: Mapping[str, str]
) -> Manifest:
    """Find, hide and commit, once; a failure removes the deletion files again."""
    check_writable(read, places.table.url)
    projection = plan_find(read, predicate)
    rows, looked = await both(
        partial(find_rows, places, read, projection), partial(prepare, places.table, read)
    )
    hidden = await hide_rows(places, read, rows)
    operation = Delete(hidden.updated, hidden.removed, predicate)
    transaction = Transaction(read.version, str(uuid.uuid4()), operation, properties=properties)
    return await _commit(hidden, transaction, read, rows, looked)


async def _commit(
    hidden: HiddenRows,
    transaction: Transaction,
    read: Manifest,
    rows: Mapping[int, BitMap],
    prepared: Prepared,
) -> Manifest:
    places = hidden.places
    try:
        return await commit(
            places.table,
            transaction,
            base=read,
            rng=random.Random(transaction.uuid),
            policy=places.session.commit_policy,
            prepared=prepared,
            affected_rows=rows,
            bases=places.dataset_bases,
            undo=hidden.undo,
        )
    except CommitStateUnknownError:
        raise  # the version may be there: its files must stay
    except AlanceError:
        await hidden.undo()
        raise
