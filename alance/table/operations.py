"""What a change does to a table: one frozen value for each operation of the transaction format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

from alance.file.schema import Schema
from alance.table.indices import IndexFile, IndexMetadata
from alance.table.manifest import BasePath, DataFile, Fragment
from alance.types import FileVersion

__all__ = [
    "Append",
    "Clone",
    "CreateIndex",
    "DataReplacement",
    "Delete",
    "MapUpdate",
    "Merge",
    "Operation",
    "Other",
    "Overwrite",
    "Project",
    "Replacement",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "RewrittenIndex",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "UpdateMode",
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
    initial_bases
        Base paths that the fragments refer to.
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
    initial_bases: tuple[BasePath, ...] = ()
    file_version: FileVersion | None = None
    stable_row_ids: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows hidden by deletion files, and fragments of which no row is left.

    Parameters
    ----------
    updated_fragments
        Complete new state of the fragments that got a deletion file.
    deleted_fragment_ids
        Fragments that go.
    predicate
        SQL text that said which rows, for the history.
    """

    name: ClassVar[str] = "Delete"
    updated_fragments: tuple[Fragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    predicate: str = ""


class UpdateMode(Enum):
    """How changed values were written; the numbers are the format's."""

    REWRITE_ROWS = 0
    REWRITE_COLUMNS = 1


@dataclass(frozen=True, slots=True)
class Update:
    """Changed rows moved to new fragments, or columns of whole fragments written anew.

    Parameters
    ----------
    removed_fragment_ids
        Fragments of which every row moved.
    updated_fragments
        Complete new state of the fragments that lost rows or had columns replaced.
    new_fragments
        Their ids are 0 until the commit gives them.
    fields_modified
        Field ids that were replaced in place.
    fields_for_preserving_frag_bitmap
        Field ids that were assigned; indices of other fields still hold for moved rows.
    update_mode
        None when the record does not say, which means REWRITE_ROWS.
    inserted_rows
        Serialized filter of inserted keys; None when there is none.
    updated_fragment_offset_bitmaps
        Fragment id -> rows that replaced columns gave other values, as serialized roaring bitmaps
        of row offsets; by these they count as updated. Fragments that are not there count as they
        stand in `updated_fragments`.
    unknown
        Stored fields that this library does not interpret.
    """

    name: ClassVar[str] = "Update"
    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[Fragment, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    fields_for_preserving_frag_bitmap: tuple[int, ...] = ()
    update_mode: UpdateMode | None = None
    inserted_rows: bytes | None = field(default=None, repr=False)
    updated_fragment_offset_bitmaps: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    unknown: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Index segments added, replaced or removed."""

    name: ClassVar[str] = "CreateIndex"
    new_indices: tuple[IndexMetadata, ...] = ()
    removed_indices: tuple[IndexMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments and those that hold the same rows instead, in the same order.

    New fragments have the ids that `ReserveFragments` set aside for them.
    """

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index segment that was brought up to the rows' new addresses.

    Parameters
    ----------
    old_id, new_id
        Uuids, hyphenated.
    new_index_details
        Serialized `google.protobuf.Any`; None keeps what was.
    new_index_version
        0 keeps what was.
    new_index_files
        Its files; none when the writer did not list them.
    unknown
        Stored fields that this library does not interpret.
    """

    old_id: str
    new_id: str
    new_index_details: bytes | None = field(default=None, repr=False)
    new_index_version: int = 0
    new_index_files: tuple[IndexFile, ...] = ()
    unknown: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The same rows in other fragments, as a compaction leaves them.

    Parameters
    ----------
    groups
        What replaces what; the deprecated form is read as one group.
    rewritten_indices
        Segments that changed with them.
    fragment_reuse_index
        The system index that later maps addresses, where indices were left as they are. Not part
        of the stored record.
    """

    name: ClassVar[str] = "Rewrite"
    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    fragment_reuse_index: IndexMetadata | None = None


@dataclass(frozen=True, slots=True)
class Restore:
    """An earlier version made the newest again."""

    name: ClassVar[str] = "Restore"
    version: int


@dataclass(frozen=True, slots=True)
class ReserveFragments:
    """Fragment ids set aside for a rewrite to come."""

    name: ClassVar[str] = "ReserveFragments"
    num_fragments: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """A data file in place of the one of a fragment that has the same fields."""

    fragment_id: int
    new_file: DataFile


@dataclass(frozen=True, slots=True)
class DataReplacement:
    """Data files of the same rows and fields, in place of others."""

    name: ClassVar[str] = "DataReplacement"
    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class Clone:
    """A table that starts with the files of another.

    Parameters
    ----------
    is_shallow
        Whether the files stay where they are.
    ref_name
        The tag or branch it was made from, if any.
    ref_version
        Version of the source.
    ref_path
        Address of the source.
    branch_name
        Set when the clone is a branch of the source.
    """

    name: ClassVar[str] = "Clone"
    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """Base paths added; an id of 0 asks for the next free one."""

    name: ClassVar[str] = "UpdateBases"
    new_bases: tuple[BasePath, ...]


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
        As the format's documents call it, such as "DataOverlay"; "Unknown" for one without a name.
    raw
        Its serialized message.
    """

    name: str
    raw: bytes = field(default=b"", repr=False)


Operation: TypeAlias = (
    Append
    | Clone
    | CreateIndex
    | DataReplacement
    | Delete
    | Merge
    | Other
    | Overwrite
    | Project
    | ReserveFragments
    | Restore
    | Rewrite
    | Update
    | UpdateBases
    | UpdateConfig
)
