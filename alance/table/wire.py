"""Protobuf <-> manifests and fragments; `wire_transaction` and the others have what goes with them.

The `wire` modules are the only ones of the table that see messages. What a message carries beyond
what we interpret is kept as bytes and written back as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.file.metadata import build_field, parse_field
from alance.file.schema import Schema
from alance.proto import table_pb2 as tables
from alance.table.features import Feature, check_readable
from alance.table.framing import build_trailer, frame, manifest_section, read_section
from alance.table.manifest import (
    BasePath,
    DataFile,
    DeletionFile,
    DeletionKind,
    Fragment,
    Manifest,
    Naming,
    WriterVersion,
)
from alance.types import FileVersion

__all__ = [
    "FRAGMENT_ID_MAX",
    "base_path_from_message",
    "base_path_to_message",
    "build_fragment",
    "build_manifest",
    "check_relative",
    "data_file_from_message",
    "data_file_to_message",
    "decode",
    "fragment_from_message",
    "fragment_to_message",
    "optional",
    "parse_fragment",
    "parse_manifest",
    "schema_from_messages",
    "unknown_bytes",
]

FRAGMENT_ID_MAX = (1 << 32) - 2
"""Row addresses have 32 bits for it, and all ones means no row."""

ROWS_MAX = 1 << 32
"""Rows of one fragment: row addresses have 32 bits for the offset."""

PATH_CHARS_MAX = 1024

SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""Years 1 to 9999, the range of a Timestamp message."""

M = TypeVar("M", bound=Message)


def parse_manifest(data: memoryview, *, path: str, naming: Naming = Naming.V2) -> Manifest:
    """Read a whole manifest file.

    Parameters
    ----------
    data
        All bytes of the file.
    path
        For messages.
    naming
        Scheme of the file's name.

    Raises
    ------
    CorruptFileError
        The bytes contradict the format.
    UnsupportedFeatureError
        The table uses what this library does not know.
    """
    message = decode(tables.Manifest, manifest_section(data, path), path)
    check_readable(message.reader_feature_flags, path)
    fragments = tuple(fragment_from_message(fragment, path) for fragment in message.fragments)
    base_paths = tuple(base_path_from_message(base) for base in message.base_paths)
    _check_fragments(fragments, base_paths, path)
    section = message.index_section if message.HasField("index_section") else None
    index_section = None if section is None else read_section(data, section, path, "index")
    position = _transaction_position(message)
    inline = None if position is None else read_section(data, position, path, "transaction")
    return Manifest(
        version=message.version,
        schema=schema_from_messages(message.fields, message.schema_metadata, path),
        fragments=fragments,
        file_version=_parse_file_version(message, fragments, path),
        timestamp_ns=_parse_timestamp(message, path),
        naming=naming,
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=optional(message, "max_fragment_id"),
        next_row_id=message.next_row_id,
        config=dict(message.config),
        table_metadata=dict(message.table_metadata),
        base_paths=base_paths,
        branch=optional(message, "branch"),
        tag=message.tag,
        writer=_parse_writer(message),
        max_allocated_field_id=optional(message, "max_allocated_field_id"),
        transaction_file=message.transaction_file,
        transaction=None if inline is None else bytes(inline),
        index_section=None if index_section is None else bytes(index_section),
        unknown=unknown_bytes(message),
    )


def build_manifest(manifest: Manifest) -> list[bytes]:
    """Whole manifest file, in pieces to be written one after the other."""
    message = tables.Manifest(
        fields=[build_field(field) for field in manifest.schema.fields],
        fragments=[fragment_to_message(fragment) for fragment in manifest.fragments],
        version=manifest.version,
        schema_metadata=manifest.schema.metadata,
        tag=manifest.tag,
        reader_feature_flags=manifest.reader_flags,
        writer_feature_flags=manifest.writer_flags,
        max_fragment_id=manifest.max_fragment_id,
        transaction_file=manifest.transaction_file,
        next_row_id=manifest.next_row_id,
        data_format=tables.DataStorageFormat(
            file_format="lance", version=manifest.file_version.value
        ),
        config=manifest.config,
        base_paths=[base_path_to_message(base) for base in manifest.base_paths],
        table_metadata=manifest.table_metadata,
        branch=manifest.branch,
        max_allocated_field_id=manifest.max_allocated_field_id,
    )
    seconds, nanos = divmod(manifest.timestamp_ns, 10**9)
    message.timestamp.seconds, message.timestamp.nanos = seconds, nanos
    if manifest.writer is not None:
        message.writer_version.CopyFrom(_build_writer(manifest.writer))
    message.MergeFromString(manifest.unknown)
    sections = [s for s in (manifest.index_section, manifest.transaction) if s is not None]
    pieces, positions = frame(sections)
    if manifest.index_section is not None:
        message.index_section = positions[0]
    if manifest.transaction is not None:
        message.transaction_section = positions[-1]
    pieces, positions = frame([*sections, message.SerializeToString(deterministic=True)])
    return [*pieces, build_trailer(positions[-1])]


def parse_fragment(data: bytes) -> Fragment:
    """Read what `build_fragment` made.

    Raises
    ------
    CorruptFileError
        The bytes are no fragment.
    """
    return fragment_from_message(decode(tables.DataFragment, data, "fragment"), "fragment")


def build_fragment(fragment: Fragment) -> bytes:
    """Fragment as bytes, to be sent between processes."""
    return fragment_to_message(fragment).SerializeToString(deterministic=True)


def decode(kind: type[M], data: bytes | memoryview, path: str) -> M:
    """Parse a message; CorruptFileError when the bytes are none."""
    message = kind()
    try:
        message.ParseFromString(bytes(data))
    except DecodeError as exc:
        raise CorruptFileError(
            f"{path}: {len(data)} bytes are not a valid {kind.__name__} message", path=path
        ) from exc
    return message


def optional(message: Message, name: str) -> Any:
    """Value of a field with explicit presence; None when it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def unknown_bytes(message: M) -> bytes:
    """What a message carries beyond the fields that we declare."""
    if not len(UnknownFieldSet(message)):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for field in message.DESCRIPTOR.fields:
        rest.ClearField(field.name)
    return rest.SerializeToString(deterministic=True)


def _transaction_position(message: tables.Manifest) -> int | None:
    for name in ("transaction_section", "transaction_section_2025"):
        if message.HasField(name):
            return int(getattr(message, name))
    return None


def schema_from_messages(fields: Iterable[Any], metadata: Mapping[str, bytes], path: str) -> Schema:
    """Schema of a manifest or an operation."""
    try:
        return Schema(tuple(parse_field(field) for field in fields), dict(metadata))
    except (CorruptFileError, UnsupportedFeatureError) as exc:
        exc.add_note(f"in the schema of {path}")
        raise


def _parse_file_version(
    message: tables.Manifest, fragments: tuple[Fragment, ...], path: str
) -> FileVersion:
    """Version a table declares; tables older than the declaration go by their files."""
    name = message.data_format.version
    if message.data_format.file_format not in ("", "lance"):
        raise UnsupportedFeatureError(
            f"{path}: data files are {message.data_format.file_format!r}, not lance",
            feature=f"file format {message.data_format.file_format}",
        )
    if not name:
        files = (file for fragment in fragments for file in fragment.files)
        v2 = message.writer_feature_flags & Feature.V2_FORMAT
        fallback = FileVersion.V2_0 if v2 else FileVersion.V0_1
        return next((file.file_version for file in files), fallback)
    try:
        return FileVersion(name)
    except ValueError:
        raise UnsupportedFeatureError(
            f"{path}: the dataset's data_storage_version is {name!r}, which this library does not "
            "know; a newer one may",
            feature=f"file version {name}",
        ) from None


def _parse_timestamp(message: tables.Manifest, path: str) -> int:
    seconds, nanos = message.timestamp.seconds, message.timestamp.nanos
    if not (SECONDS_MIN <= seconds <= SECONDS_MAX and 0 <= nanos < 10**9):
        raise CorruptFileError(
            f"{path}: timestamp of {seconds} s and {nanos} ns is none that the format allows",
            path=path,
        )
    return seconds * 10**9 + nanos


def _parse_writer(message: tables.Manifest) -> WriterVersion | None:
    if not message.HasField("writer_version"):
        return None
    writer = message.writer_version
    return WriterVersion(
        writer.library,
        writer.version,
        optional(writer, "prerelease"),
        optional(writer, "build_metadata"),
    )


def _build_writer(writer: WriterVersion) -> tables.WriterVersion:
    return tables.WriterVersion(
        library=writer.library,
        version=writer.version,
        prerelease=writer.prerelease,
        build_metadata=writer.build_metadata,
    )


def base_path_from_message(message: tables.BasePath) -> BasePath:
    """Base path of a manifest or an operation."""
    return BasePath(message.id, message.path, message.is_dataset_root, optional(message, "name"))


def base_path_to_message(base: BasePath) -> tables.BasePath:
    """Message of a base path."""
    return tables.BasePath(
        id=base.id, name=base.name, is_dataset_root=base.is_dataset_root, path=base.path
    )


def fragment_from_message(message: tables.DataFragment, path: str) -> Fragment:
    """Fragment of a manifest or an operation, checked as far as it can be alone."""
    where = f"{path}: fragment {message.id}"
    if message.id > FRAGMENT_ID_MAX:
        raise CorruptFileError(f"{where}: ids are below {FRAGMENT_ID_MAX + 1}", path=path)
    if message.physical_rows > ROWS_MAX:
        raise CorruptFileError(
            f"{where}: {message.physical_rows} rows; a fragment has at most {ROWS_MAX}", path=path
        )
    fragment = Fragment(
        id=message.id,
        files=tuple(data_file_from_message(file, where, path) for file in message.files),
        physical_rows=message.physical_rows,
        deletion_file=_parse_deletion_file(message.deletion_file)
        if message.HasField("deletion_file")
        else None,
        row_ids=optional(message, "inline_row_ids"),
        created_at=optional(message, "inline_created_at_versions"),
        last_updated_at=optional(message, "inline_last_updated_at_versions"),
        unknown=unknown_bytes(message),
    )
    if fragment.num_deleted_rows > fragment.physical_rows:
        raise CorruptFileError(
            f"{where}: {fragment.num_deleted_rows} rows deleted of {fragment.physical_rows}",
            path=path,
        )
    live = [i for file in fragment.files for i in file.fields if i >= 0]
    if len(live) != len(set(live)):
        raise CorruptFileError(f"{where}: a field is stored in two of its files", path=path)
    return fragment


def fragment_to_message(fragment: Fragment) -> tables.DataFragment:
    """Message of a fragment, with what was unknown in it."""
    message = tables.DataFragment(
        id=fragment.id,
        files=[data_file_to_message(file) for file in fragment.files],
        physical_rows=fragment.physical_rows,
        inline_row_ids=fragment.row_ids,
        inline_created_at_versions=fragment.created_at,
        inline_last_updated_at_versions=fragment.last_updated_at,
    )
    if fragment.deletion_file is not None:
        message.deletion_file.CopyFrom(_build_deletion_file(fragment.deletion_file))
    message.MergeFromString(fragment.unknown)
    return message


def data_file_from_message(message: tables.DataFile, where: str, path: str) -> DataFile:
    """Data file of a fragment or an operation, checked as far as it can be alone."""
    check_relative(message.path, "data", where, path)
    try:
        version = FileVersion.from_footer(message.file_major_version, message.file_minor_version)
    except UnsupportedFeatureError as exc:
        exc.add_note(f"in {where}, data file {message.path}")
        raise
    if version is not FileVersion.V0_1 and len(message.fields) != len(message.column_indices):
        raise CorruptFileError(
            f"{where}: data file {message.path} has {len(message.fields)} field ids for "
            f"{len(message.column_indices)} columns",
            path=path,
        )
    if any(index < -1 for index in message.column_indices):
        raise CorruptFileError(
            f"{where}: data file {message.path} has a column index below -1", path=path
        )
    return DataFile(
        path=message.path,
        fields=tuple(message.fields),
        column_indices=tuple(message.column_indices),
        file_version=version,
        file_size_bytes=message.file_size_bytes,
        base_id=optional(message, "base_id"),
        unknown=unknown_bytes(message),
    )


def data_file_to_message(file: DataFile) -> tables.DataFile:
    """Message of a data file, with what was unknown in it."""
    major, minor = file.file_version.manifest
    message = tables.DataFile(
        path=file.path,
        fields=file.fields,
        column_indices=file.column_indices,
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=file.file_size_bytes,
        base_id=file.base_id,
    )
    message.MergeFromString(file.unknown)
    return message


def check_relative(name: str, folder: str, where: str, path: str) -> None:
    """Hold a file to the folder that it lies in, below the dataset or its base path."""
    parts = name.split("/")
    escapes = any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in parts[0]
    if escapes or len(name) > PATH_CHARS_MAX or not name.isprintable():
        raise CorruptFileError(
            f"{where}: path {name[:100]!r} does not name a file below {folder}/; the manifest is "
            "damaged or forged",
            path=path,
        )


def _parse_deletion_file(message: tables.DeletionFile) -> DeletionFile:
    kinds = {tables.DeletionFile.ARROW_ARRAY: DeletionKind.ARROW}
    kinds[tables.DeletionFile.BITMAP] = DeletionKind.BITMAP
    if message.file_type not in kinds:
        raise UnsupportedFeatureError(
            f"deletion file of type {message.file_type}, which this library does not know",
            feature=f"deletion file type {message.file_type}",
        )
    return DeletionFile(
        kind=kinds[message.file_type],
        read_version=message.read_version,
        id=message.id,
        num_deleted_rows=message.num_deleted_rows,
        base_id=optional(message, "base_id"),
        unknown=unknown_bytes(message),
    )


def _build_deletion_file(file: DeletionFile) -> tables.DeletionFile:
    arrow = file.kind is DeletionKind.ARROW
    message = tables.DeletionFile(
        file_type=tables.DeletionFile.ARROW_ARRAY if arrow else tables.DeletionFile.BITMAP,
        read_version=file.read_version,
        id=file.id,
        num_deleted_rows=file.num_deleted_rows,
        base_id=file.base_id,
    )
    message.MergeFromString(file.unknown)
    return message


def _check_fragments(
    fragments: tuple[Fragment, ...], base_paths: tuple[BasePath, ...], path: str
) -> None:
    if len({fragment.id for fragment in fragments}) != len(fragments):
        raise CorruptFileError(f"{path}: two fragments have the same id", path=path)
    known = {None, *(base.id for base in base_paths)}
    if len(known) != len(base_paths) + 1:
        raise CorruptFileError(f"{path}: two base paths have the same id", path=path)
    for fragment in fragments:
        used = {file.base_id for file in fragment.files}
        if fragment.deletion_file is not None:
            used.add(fragment.deletion_file.base_id)
        if not used <= known:
            raise CorruptFileError(
                f"{path}: fragment {fragment.id} refers to a base path that is not listed",
                path=path,
            )
