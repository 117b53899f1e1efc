"""What a manifest says, as frozen values: the version, its fragments and their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from alance.file.schema import Schema
from alance.types import FileVersion

__all__ = [
    "BasePath",
    "DataFile",
    "DeletionFile",
    "DeletionKind",
    "Fragment",
    "Manifest",
    "Naming",
    "WriterVersion",
]


class Naming(Enum):
    """How the manifests of a dataset are named; one scheme for all of them."""

    V1 = "{version}.manifest"
    V2 = "{2**64 - 1 - version, 20 digits}.manifest"


class DeletionKind(Enum):
    """The two forms of a deletion file, by the ending of its name."""

    ARROW = "arrow"
    BITMAP = "bin"


@dataclass(frozen=True, slots=True)
class BasePath:
    """A place outside the dataset where some of its files lie.

    Parameters
    ----------
    id
        What `base_id` of a file refers to; 0 is a valid id.
    path
        Absolute path or URI.
    is_dataset_root
        Whether `path` has `data/` and `_deletions/` below it, or holds the files themselves.
    name
        The tag or branch it was made from, if any.
    """

    id: int
    path: str
    is_dataset_root: bool
    name: str | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file with some of the columns of a fragment.

    Parameters
    ----------
    path
        Below `data/` of the dataset, or below the base path.
    fields
        Field id of each slot: -2 is a slot that is no longer live, -3 to -5 are row lineage.
    column_indices
        Column of each slot, -1 for none; empty in 0.1 files.
    file_version
        Version of the file format.
    file_size_bytes
        0 when unknown.
    base_id
        Id of the base path; None for the dataset's own `data/`.
    unknown
        Stored fields that this library does not interpret.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    file_version: FileVersion
    file_size_bytes: int = 0
    base_id: int | None = None
    unknown: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The stored deletion vector of a fragment.

    Parameters
    ----------
    kind
        Its form.
    read_version, id
        Parts of its name: the version it was made on, and a random 64-bit number.
    num_deleted_rows
        Offsets in the vector.
    base_id
        Id of the base path; None for the dataset's own `_deletions/`.
    unknown
        Stored fields that this library does not interpret.
    """

    kind: DeletionKind
    read_version: int
    id: int
    num_deleted_rows: int
    base_id: int | None = None
    unknown: bytes = field(default=b"", repr=False)

    def name(self, fragment_id: int) -> str:
        """File name below `_deletions/`."""
        return f"{fragment_id}-{self.read_version}-{self.id}.{self.kind.value}"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of the rows.

    Parameters
    ----------
    id
        Unique for the life of the dataset; 0 in a transaction, as the commit gives the id.
    files
        Each live field id is in at most one; a field in none of them is null throughout.
    physical_rows
        Rows in the files, deleted ones included.
    deletion_file
        None when no row is deleted.
    row_ids, created_at, last_updated_at
        Serialized sequences of stable row ids and of row versions, where they are inline.
    unknown
        Stored fields that this library does not interpret.
    """

    id: int
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_ids: bytes | None = field(default=None, repr=False)
    created_at: bytes | None = field(default=None, repr=False)
    last_updated_at: bytes | None = field(default=None, repr=False)
    unknown: bytes = field(default=b"", repr=False)

    @property
    def num_deleted_rows(self) -> int:
        """Rows that the deletion file hides."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.num_deleted_rows


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """The library that wrote a manifest, and its version."""

    library: str
    version: str
    prerelease: str | None = None
    build_metadata: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One immutable version of a table.

    Parameters
    ----------
    version
        From 1.
    schema
        Fields with their ids, and the Arrow schema's metadata.
    fragments
        In dataset order.
    file_version
        What new data files are written as.
    timestamp_ns
        Time of the commit, nanoseconds since 1970 UTC.
    naming
        Scheme of the manifest's name; not part of the stored message.
    reader_flags, writer_flags
        Feature flags, as stored.
    max_fragment_id
        The highest id ever given; None until there was a fragment.
    next_row_id
        The next stable row id; 0 where they are not enabled.
    config, table_metadata
        Settings of the table, and metadata of its users.
    base_paths
        Places outside the dataset that files refer to.
    branch
        None on the main branch.
    tag
        Tag of the transaction, normally empty.
    writer
        None in manifests of ancient writers.
    max_allocated_field_id
        None unless field ids are never used again.
    transaction_file
        Name below `_transactions/`; empty when none was written.
    transaction
        The change that made this version, serialized, where the manifest carries it.
    index_section
        Serialized index metadata; None when there is no index.
    unknown
        Stored fields that this library does not interpret.
    """

    version: int
    schema: Schema
    fragments: tuple[Fragment, ...]
    file_version: FileVersion
    timestamp_ns: int
    naming: Naming = Naming.V2
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    next_row_id: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    tag: str = ""
    writer: WriterVersion | None = None
    max_allocated_field_id: int | None = None
    transaction_file: str = ""
    transaction: bytes | None = field(default=None, repr=False)
    index_section: bytes | None = field(default=None, repr=False)
    unknown: bytes = field(default=b"", repr=False)

    @property
    def num_rows(self) -> int:
        """Live rows of all fragments."""
        return sum(fragment.num_rows for fragment in self.fragments)

    @property
    def timestamp(self) -> datetime:
        """Time of the commit, UTC, to the microsecond."""
        seconds, nanos = divmod(self.timestamp_ns, 10**9)
        whole = datetime.fromtimestamp(seconds, UTC)
        return whole.replace(microsecond=nanos // 1000)
