"""Protobuf <-> index metadata: the index section of a manifest, and segments in operations."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable

from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from pyroaring import BitMap

from alance.errors import CorruptFileError
from alance.proto import table_pb2 as tables
from alance.table.indices import IndexFile, IndexMetadata, parse_bitmap
from alance.table.wire import FRAGMENT_ID_MAX, check_relative, decode, optional, unknown_bytes

__all__ = [
    "any_from_bytes",
    "any_to_bytes",
    "build_indices",
    "files_from_messages",
    "files_to_messages",
    "index_from_message",
    "index_to_message",
    "parse_fragment_moves",
    "parse_indices",
    "uuid_from_message",
    "uuid_to_message",
]


def parse_indices(section: bytes | None, *, path: str) -> tuple[IndexMetadata, ...]:
    """Read the index section of a manifest.

    Parameters
    ----------
    section
        `Manifest.index_section`; None has no index.
    path
        For messages.

    Raises
    ------
    CorruptFileError
        The bytes are no index section; a uuid, a field id or a bitmap in it is none.
    """
    if section is None:
        return ()
    message = decode(tables.IndexSection, section, path)
    return tuple(index_from_message(index, path) for index in message.indices)


def build_indices(indices: Iterable[IndexMetadata], *, like: bytes | None = None) -> bytes | None:
    """Index section with these segments, which keeps what else was in the one before.

    Parameters
    ----------
    indices
        All segments, in the order they are stored.
    like
        The section that this one replaces; None when there was none.

    Returns
    -------
    bytes | None
        None when there is no segment and nothing else to keep.
    """
    message = tables.IndexSection()
    if like is not None:
        message.MergeFromString(like)
        message.ClearField("indices")
    message.indices.extend(map(index_to_message, indices))
    return message.SerializeToString(deterministic=True) or None


def parse_fragment_moves(
    reuse: IndexMetadata, *, path: str
) -> tuple[tuple[BitMap, BitMap], ...] | None:
    """Read from the fragment reuse index which fragments became which others.

    Parameters
    ----------
    reuse
        Metadata of that index.
    path
        For messages.

    Returns
    -------
    tuple | None
        Ids of the old and of the new fragments of each move, in the order they happened; None when
        a file has them.

    Raises
    ------
    CorruptFileError
        The details are damaged.
    """
    details = decode(Any, reuse.index_details or b"", path)
    message = decode(tables.FragmentReuseIndexDetails, details.value, path)
    if message.HasField("external"):
        return None
    groups = [group for version in message.inline.versions for group in version.groups]
    return tuple(
        (_fragment_ids(group.old_fragments, path), _fragment_ids(group.new_fragments, path))
        for group in groups
    )


def _fragment_ids(
    fragments: Iterable[tables.FragmentReuseIndexDetails.FragmentDigest], path: str
) -> BitMap:
    ids = [fragment.id for fragment in fragments]
    if ids and max(ids) > FRAGMENT_ID_MAX:
        raise CorruptFileError(f"{path}: {max(ids)} is no fragment id", path=path)
    return BitMap(ids)


def index_from_message(message: tables.IndexMetadata, path: str) -> IndexMetadata:
    """One segment of an index, checked as far as it can be alone."""
    uuid = uuid_from_message(message, "uuid", path)
    where = f"{path}: index {message.name[:100]!r}, segment {uuid}"
    if any(field_id < 0 for field_id in message.fields):
        raise CorruptFileError(f"{where}: a field id is negative", path=path)
    index = IndexMetadata(
        uuid=uuid,
        fields=tuple(message.fields),
        name=message.name,
        dataset_version=message.dataset_version,
        fragment_bitmap=message.fragment_bitmap or None,
        base_id=optional(message, "base_id"),
        index_details=any_to_bytes(message, "index_details"),
        index_version=optional(message, "index_version"),
        created_at_ms=optional(message, "created_at"),
        files=files_from_messages(message.files, path),
        unknown=unknown_bytes(message),
    )
    if index.fragment_bitmap is not None:
        parse_bitmap(index.fragment_bitmap, where)
    return index


def index_to_message(index: IndexMetadata) -> tables.IndexMetadata:
    """Message of a segment, with what was unknown in it."""
    message = tables.IndexMetadata(
        uuid=uuid_to_message(index.uuid),
        fields=index.fields,
        name=index.name,
        dataset_version=index.dataset_version,
        fragment_bitmap=index.fragment_bitmap or b"",
        index_details=any_from_bytes(index.index_details),
        index_version=index.index_version,
        created_at=index.created_at_ms,
        base_id=index.base_id,
        files=files_to_messages(index.files),
    )
    message.MergeFromString(index.unknown)
    return message


def files_from_messages(messages: Iterable[tables.IndexFile], path: str) -> tuple[IndexFile, ...]:
    """Files of a segment."""
    for file in messages:
        check_relative(file.path, "_indices", "an index segment", path)
    return tuple(IndexFile(file.path, file.size_bytes) for file in messages)


def files_to_messages(files: Iterable[IndexFile]) -> list[tables.IndexFile]:
    """Messages of the files of a segment."""
    return [tables.IndexFile(path=file.path, size_bytes=file.size_bytes) for file in files]


def uuid_from_message(message: Message, name: str, path: str) -> str:
    """A uuid member, hyphenated and in lower case; it must be there."""
    data: bytes = getattr(message, name).uuid
    if len(data) != 16:
        raise CorruptFileError(
            f"{path}: the {name} of an index segment has {len(data)} bytes, a uuid 16", path=path
        )
    return str(uuids.UUID(bytes=data))


def uuid_to_message(uuid: str) -> tables.UUID:
    """Message of a hyphenated uuid."""
    return tables.UUID(uuid=uuids.UUID(uuid).bytes)


def any_to_bytes(message: Message, name: str) -> bytes | None:
    """A member of any kind, serialized; None when it is absent."""
    value: Any | None = optional(message, name)
    return None if value is None else value.SerializeToString(deterministic=True)


def any_from_bytes(data: bytes | None) -> Any | None:
    """Inverse of `any_to_bytes`."""
    return None if data is None else Any.FromString(data)
