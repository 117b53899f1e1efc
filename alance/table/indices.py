"""What a manifest says of its secondary indices, as frozen values; their content is not read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyroaring

from alance.errors import CorruptFileError

__all__ = [
    "FRAGMENT_REUSE",
    "MEM_WAL",
    "IndexFile",
    "IndexMetadata",
    "build_fragment_bitmap",
    "parse_bitmap",
]

FRAGMENT_REUSE = "__lance_frag_reuse"
"""Name of the system index that maps row addresses from before a compaction."""

MEM_WAL = "__lance_mem_wal"
"""Name of the system index that keeps track of in-memory write-ahead logs."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index segment: its path below the segment's folder, and its size."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """One segment of an index.

    Parameters
    ----------
    uuid
        Hyphenated, lower case: its folder below `_indices/`.
    fields
        Ids of the indexed fields; empty for a system index.
    name
        Shared by the segments of one index.
    dataset_version
        Version it was built from.
    fragment_bitmap
        Fragments it covers, as a serialized 32-bit roaring bitmap; None when it does not say. Ids
        of fragments that are gone may be among them.
    base_id
        Id of the base path; None for the dataset's own `_indices/`.
    index_details
        Serialized `google.protobuf.Any` that tells the kind of index; None when absent.
    index_version, created_at_ms
        As stored; None when absent.
    files
        Its files, where the writer listed them.
    unknown
        Stored fields that this library does not interpret, carried along.
    """

    uuid: str
    fields: tuple[int, ...]
    name: str
    dataset_version: int
    fragment_bitmap: bytes | None = field(default=None, repr=False)
    base_id: int | None = None
    index_details: bytes | None = field(default=None, repr=False)
    index_version: int | None = None
    created_at_ms: int | None = None
    files: tuple[IndexFile, ...] = ()
    unknown: bytes = field(default=b"", repr=False)

    @property
    def is_system(self) -> bool:
        """Whether it belongs to the table rather than to a column."""
        return self.name in (FRAGMENT_REUSE, MEM_WAL)

    @property
    def fragments(self) -> pyroaring.BitMap | None:
        """Ids of the covered fragments, decoded anew; None when it does not say."""
        if self.fragment_bitmap is None:
            return None
        return parse_bitmap(self.fragment_bitmap, f"index segment {self.uuid}")


def parse_bitmap(data: bytes, where: str) -> pyroaring.BitMap:
    """Members of a serialized bitmap, such as ids of fragments.

    Raises
    ------
    CorruptFileError
        The bytes are no bitmap; `where` begins the message.
    """
    try:
        return pyroaring.BitMap.deserialize(data)
    except (ValueError, IndexError) as exc:
        raise CorruptFileError(f"{where}: a bitmap is damaged: {exc}") from exc


def build_fragment_bitmap(fragment_ids: Iterable[int]) -> bytes:
    """Serialized bitmap of fragment ids, in the two kinds of containers that every reader knows."""
    return bytes(pyroaring.BitMap(sorted(fragment_ids)).serialize())
