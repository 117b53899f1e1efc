"""The record of a change: a transaction around one operation, and how to make the two we write."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from alance.errors import InvalidInputError
from alance.file.schema import Schema
from alance.table.manifest import Fragment, Manifest
from alance.types import FileVersion

__all__ = [
    "Append",
    "MapUpdate",
    "Merge",
    "Operation",
    "Other",
    "Overwrite",
    "Project",
    "Transaction",
    "UpdateConfig",
    "build_append",
    "build_overwrite",
]


@dataclass(frozen=True, slots=True)
class Append:
    """New fragments behind the existing ones; their ids are 0 until the commit gives them."""

    name: ClassVar[str] = "Append"
    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Overwrite:
    """New rows and a new schema in place of all others; on version 0 it creates the table.

    Parameters
    ----------
    fragments
        Their ids are 0 until the commit gives them.
    schema
        Of the new version; its ids start at 0.
    config
        Settings to add or change.
    file_version
        What the new version declares, None for what the old one did. Not part of the stored record.
    stable_row_ids
        Whether a new table gives its rows lasting ids; an existing one keeps to what it does. Not
        part of the stored record.
    """

    name: ClassVar[str] = "Overwrite"
    fragments: tuple[Fragment, ...]
    schema: Schema
    config: Mapping[str, str] = field(default_factory=dict)
    file_version: FileVersion | None = None
    stable_row_ids: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """Columns added to, or replaced in, existing fragments.

    Parameters
    ----------
    fragments
        The complete list.
    schema
        The complete schema.
    preserves_nullability
        Whether every null that was allowed before still is.
    """

    name: ClassVar[str] = "Merge"
    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Columns dropped, renamed, or made nullable or not.

    Parameters
    ----------
    schema
        The complete schema.
    preserves_nullability
        Whether every null that was allowed before still is.
    """

    name: ClassVar[str] = "Project"
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes to a map of strings.

    Parameters
    ----------
    entries
        New values; None removes the key.
    replace
        Whether everything else goes.
    """

    entries: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Changes to settings and metadata; None where a map is left alone.

    Parameters
    ----------
    config, table_metadata, schema_metadata
        Changes to the three maps of the table.
    field_metadata
        Changes by field id.
    """

    name: ClassVar[str] = "UpdateConfig"
    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Other:
    """An operation that is not looked into.

    Parameters
    ----------
    name
        As the format's documents call it, such as "Delete"; "Unknown" for one we have no name for.
    raw
        Its serialized message.
    """

    name: str
    raw: bytes = field(default=b"", repr=False)


Operation: TypeAlias = Append | Overwrite | Merge | Project | UpdateConfig | Other


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
