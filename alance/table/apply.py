"""The manifest that a transaction makes of the one before it: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alance.errors import InvalidInputError
from alance.table.features import Feature, compute_flags
from alance.table.manifest import Fragment, Manifest, WriterVersion
from alance.table.naming import VERSION_MAX
from alance.table.operations import Append, Overwrite
from alance.table.row_ids import ROW_ID_MAX, RowIds
from alance.table.row_versions import RowVersions
from alance.table.transaction import Transaction
from alance.table.wire import FRAGMENT_ID_MAX
from alance.table.wire_rows import build_row_ids, build_row_versions
from alance.table.wire_transaction import build_transaction
from alance.types import FileVersion

__all__ = ["TRANSACTION_BYTES_MAX", "WRITER", "apply"]

WRITER = WriterVersion("alance", "0.1.0")

TRANSACTION_BYTES_MAX = 20 << 20
"""A longer transaction is in its file only, not in the manifest as well."""


def apply(base: Manifest | None, transaction: Transaction, *, timestamp_ns: int) -> Manifest:
    """Build the next version; fragment ids and stable row ids are given here.

    Parameters
    ----------
    base
        The newest version, which may be later than the one the transaction was made on; None
        creates the table.
    transaction
        An append or an overwrite.
    timestamp_ns
        Time of the commit, nanoseconds since 1970 UTC.

    Raises
    ------
    InvalidInputError
        The transaction does not fit `base`; its files have another version than the table.
    """
    operation = transaction.operation
    if base is not None and base.version >= VERSION_MAX:
        raise InvalidInputError(f"version numbers are used up at {base.version}")
    if isinstance(operation, Overwrite):
        draft = _overwrite(base, operation)
    elif base is None:
        raise InvalidInputError(f"{operation.name} needs a dataset; only Overwrite creates one")
    elif isinstance(operation, Append):
        draft = _append(base, operation)
    else:
        raise InvalidInputError(f"this library does not commit {operation.name} operations")
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


def _append(base: Manifest, operation: Append) -> Manifest:
    draft = replace(base, version=base.version + 1)
    if not Feature.MIXED_FILE_VERSIONS & base.writer_flags:
        _check_file_version(operation.fragments, base.file_version)
    return _with_new_fragments(draft, base.fragments, operation.fragments)


def _overwrite(base: Manifest | None, operation: Overwrite) -> Manifest:
    """Everything but the settings is new; ids of fragments and rows are never given twice."""
    file_version = operation.file_version
    if file_version is None and base is not None:
        file_version = base.file_version
    if file_version is None:
        raise InvalidInputError("a new dataset needs a file version")
    _check_file_version(operation.fragments, file_version)
    if base is None:
        stable = int(Feature.STABLE_ROW_IDS) if operation.stable_row_ids else 0
        draft = Manifest(
            version=1,
            schema=operation.schema,
            fragments=(),
            file_version=file_version,
            timestamp_ns=0,
            reader_flags=stable,
            writer_flags=stable,
            config=dict(operation.config),
        )
    else:
        draft = replace(
            base,
            version=base.version + 1,
            schema=operation.schema,
            file_version=file_version,
            config={**base.config, **operation.config},
            index_section=None,
        )
    return _with_new_fragments(draft, (), operation.fragments)


def _check_file_version(fragments: Sequence[Fragment], file_version: FileVersion) -> None:
    for fragment in fragments:
        for file in fragment.files:
            if file.file_version is not file_version:
                raise InvalidInputError(
                    f"data file {file.path} has version {file.file_version.value}, the dataset "
                    f"{file_version.value}; write it with that version"
                )


def _with_new_fragments(
    draft: Manifest, kept: Sequence[Fragment], new: Sequence[Fragment]
) -> Manifest:
    """Number the new fragments, and their rows where rows have lasting ids."""
    stable = bool(Feature.STABLE_ROW_IDS & draft.writer_flags)
    used = [fragment.id for fragment in draft.fragments]
    if draft.max_fragment_id is not None:
        used.append(draft.max_fragment_id)
    next_id = max(used, default=-1) + 1
    if next_id + len(new) - 1 > FRAGMENT_ID_MAX:
        raise InvalidInputError(f"fragment ids are used up: the next would be {next_id}")
    next_row_id = draft.next_row_id
    numbered: list[Fragment] = []
    for i, fragment in enumerate(new):
        fragment = replace(fragment, id=next_id + i)
        if stable:
            stop = next_row_id + fragment.physical_rows
            if stop > ROW_ID_MAX:
                raise InvalidInputError(f"stable row ids are used up: the next is {next_row_id}")
            versions = build_row_versions(
                RowVersions.uniform(fragment.physical_rows, draft.version)
            )
            fragment = replace(
                fragment,
                row_ids=build_row_ids(RowIds.from_range(next_row_id, stop)),
                created_at=versions,
                last_updated_at=versions,
            )
            next_row_id = stop
        numbered.append(fragment)
    last = next_id + len(new) - 1
    return replace(
        draft,
        fragments=tuple(sorted((*kept, *numbered), key=lambda fragment: fragment.id)),
        max_fragment_id=last if last >= 0 else None,
        next_row_id=next_row_id,
    )
