"""The record of a change: a transaction around one operation, and how to make the two we write."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from alance.errors import InvalidInputError
from alance.file.schema import Schema
from alance.table.manifest import Fragment, Manifest
from alance.table.operations import Append, Operation, Overwrite
from alance.types import FileVersion

__all__ = ["Transaction", "build_append", "build_overwrite"]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One change to a table.

    Parameters
    ----------
    read_version
        The version it was made on; 0 when it creates the table.
    uuid
        Identifies the change, also in the manifest it leads to.
    operation
        What changes.
    tag
        Normally empty.
    properties
        Free text by key, kept in the history.
    """

    read_version: int
    uuid: str
    operation: Operation
    tag: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name below `_transactions/`."""
        return f"{self.read_version}-{self.uuid}.txn"


def build_append(
    base: Manifest,
    fragments: Sequence[Fragment],
    *,
    properties: Mapping[str, str] | None = None,
    uuid: str | None = None,
) -> Transaction:
    """Record that fragments are appended to the table that `base` describes.

    Parameters
    ----------
    base
        The version whose schema and field ids the files were written with.
    fragments
        In the order their rows shall have; ids are disregarded.
    properties
        Transaction properties.
    uuid
        None makes a random one.
    """
    return Transaction(
        base.version,
        uuid or str(uuids.uuid4()),
        Append(_without_ids(fragments)),
        properties=dict(properties or {}),
    )


def build_overwrite(
    base: Manifest | None,
    schema: Schema,
    fragments: Sequence[Fragment],
    *,
    file_version: FileVersion | None = None,
    stable_row_ids: bool = False,
    config: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    uuid: str | None = None,
) -> Transaction:
    """Record that a table is created (`base` None) or that all of it is replaced.

    Parameters
    ----------
    base
        The version that is replaced.
    schema
        The new schema, its field ids from 0.
    fragments
        In the order their rows shall have; ids are disregarded.
    file_version
        Version of the data files; needed to create, else None keeps the table's own.
    stable_row_ids
        Give the rows of a new table lasting ids; an existing table keeps to what it does.
    config
        Settings to add or change.
    properties
        Transaction properties.
    uuid
        None makes a random one.

    Raises
    ------
    InvalidInputError
        A table is to be created without a file version.
    """
    if base is None and file_version is None:
        raise InvalidInputError("a new dataset needs a file version, such as FileVersion.V2_1")
    operation = Overwrite(
        _without_ids(fragments),
        schema,
        config=dict(config or {}),
        file_version=file_version,
        stable_row_ids=stable_row_ids,
    )
    return Transaction(
        0 if base is None else base.version,
        uuid or str(uuids.uuid4()),
        operation,
        properties=dict(properties or {}),
    )


def _without_ids(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    return tuple(replace(fragment, id=0) for fragment in fragments)
