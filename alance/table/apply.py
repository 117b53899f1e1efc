"""The manifest that a transaction makes of the one before it: pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from alance.errors import InvalidInputError
from alance.table.apply_columns import apply_data_replacement, apply_merge, apply_project
from alance.table.apply_indices import apply_create_index, follow_moves
from alance.table.apply_rows import (
    apply_append,
    apply_delete,
    apply_overwrite,
    apply_reserve_fragments,
    apply_rewrite,
    apply_update,
    create,
)
from alance.table.apply_table import (
    apply_restore,
    apply_update_bases,
    apply_update_config,
)
from alance.table.draft import drop_dead_files, has_stable_row_ids, highest_fragment_id
from alance.table.features import Feature, compute_flags
from alance.table.manifest import Manifest, WriterVersion
from alance.table.naming import VERSION_MAX
from alance.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
)
from alance.table.transaction import Transaction
from alance.table.wire_transaction import build_transaction

__all__ = ["TRANSACTION_BYTES_MAX", "WRITER", "apply", "record"]

WRITER = WriterVersion("alance", "0.1.0")

TRANSACTION_BYTES_MAX = 20 << 20
"""A longer transaction is in its file only, not in the manifest as well."""

_OPERATIONS: Mapping[type[Operation], Callable[[Manifest, Any], Manifest]] = MappingProxyType({
    Append: apply_append,
    CreateIndex: apply_create_index,
    DataReplacement: apply_data_replacement,
    Delete: apply_delete,
    Merge: apply_merge,
    Overwrite: apply_overwrite,
    Project: apply_project,
    ReserveFragments: apply_reserve_fragments,
    Rewrite: apply_rewrite,
    Update: apply_update,
    UpdateBases: apply_update_bases,
    UpdateConfig: apply_update_config,
})
"""Each takes the version before, numbered as the next, and gives what the operation makes of it."""


def apply(
    base: Manifest | None,
    transaction: Transaction,
    *,
    timestamp_ns: int,
    source: Manifest | None = None,
) -> Manifest:
    """Build the next version; fragment ids and stable row ids are given here.

    Parameters
    ----------
    base
        The newest version, which may be later than the one the transaction was made on; None
        creates the table.
    transaction
        Any operation that has a name, but for a Clone, which makes another table.
    timestamp_ns
        Time of the commit, nanoseconds since 1970 UTC.
    source
        The version that a Restore restores.

    Raises
    ------
    InvalidInputError
        The transaction does not fit `base`; its files have another version than the table.
    CorruptFileError
        The index section or the row ids of `base` are damaged.
    """
    draft = _finish(_draft(base, transaction.operation, source))
    return record(draft, transaction, timestamp_ns=timestamp_ns)


def record(draft: Manifest, transaction: Transaction, *, timestamp_ns: int) -> Manifest:
    """Put into a new version how it came about: change, time, writer; and what follows, its flags.

    Parameters
    ----------
    draft
        The version but for that.
    transaction
        What made it.
    timestamp_ns
        Time of the commit, nanoseconds since 1970 UTC.
    """
    serialized = build_transaction(transaction)
    no_file = bool(Feature.NO_TRANSACTION_FILES & draft.writer_flags)
    inline = no_file or len(serialized) <= TRANSACTION_BYTES_MAX
    draft = replace(
        draft,
        timestamp_ns=timestamp_ns,
        writer=WRITER,
        tag=transaction.tag,
        transaction_file="" if no_file else transaction.file_name,
        transaction=serialized if inline else None,
    )
    reader_flags, writer_flags = compute_flags(draft)
    return replace(draft, reader_flags=reader_flags, writer_flags=writer_flags)


def _draft(base: Manifest | None, operation: Operation, source: Manifest | None) -> Manifest:
    if base is None:
        if isinstance(operation, Overwrite):
            return create(operation)
        raise InvalidInputError(f"{operation.name} needs a dataset; only Overwrite creates one")
    if base.version >= VERSION_MAX:
        raise InvalidInputError(f"version numbers are used up at {base.version}")
    draft = follow_moves(replace(base, version=base.version + 1))
    if isinstance(operation, Restore):
        return apply_restore(draft, operation, source)
    build = _OPERATIONS.get(type(operation))
    if build is None:
        raise InvalidInputError(f"this library does not commit {operation.name} operations")
    return build(draft, operation)


def _finish(draft: Manifest) -> Manifest:
    """Bring fragments into order, and check what every manifest promises."""
    fragments = tuple(
        sorted(map(drop_dead_files, draft.fragments), key=lambda fragment: fragment.id)
    )
    if len({fragment.id for fragment in fragments}) != len(fragments):
        raise InvalidInputError("the operation would leave two fragments with the same id")
    if has_stable_row_ids(draft):
        for fragment in fragments:
            if fragment.row_ids is None:
                raise InvalidInputError(
                    f"fragment {fragment.id} has no row ids; in this dataset rows have stable ones"
                )
    highest = highest_fragment_id(draft)
    return replace(draft, fragments=fragments, max_fragment_id=highest if highest >= 0 else None)
