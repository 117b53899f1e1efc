"""Writing: data becomes fragments, fragments become a version."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

import anyio
import pyarrow as pa

from alance.dataset.source import BatchSource, Data, open_source
from alance.errors import (
    AlanceError,
    CommitStateUnknownError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    check_count,
)
from alance.file.schema import Schema, match_append
from alance.file.writer import FileWriter, WrittenFile
from alance.io.client import StoreClient
from alance.session import Session
from alance.table.commit import CommitPolicy, commit
from alance.table.features import check_writable
from alance.table.manifest import DataFile, Fragment, Manifest
from alance.table.naming import join
from alance.table.transaction import build_append, build_overwrite
from alance.table.versions import read_manifest
from alance.types import FileVersion

__all__ = [
    "Mode",
    "Target",
    "WriteLimits",
    "WriteProgress",
    "commit_version",
    "discard",
    "find_target",
    "upload_fragments",
    "write",
]

Mode = Literal["create", "append", "overwrite"]
MODES = ("create", "append", "overwrite")
MAX_BYTES_PER_FILE = 90 * 1024**3
DEFAULT_VERSION = "stable"


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """How far a write has come, as `progress` callbacks get it after every batch and file."""

    num_rows: int
    num_bytes: int
    num_files: int


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """When a write begins another file."""

    max_rows_per_file: int = 1_048_576
    max_bytes_per_file: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_rows_per_file", "max_bytes_per_file"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, least=1)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes and what it starts from; checked before anything is written."""

    session: Session
    client: StoreClient
    root: str
    mode: Mode
    """Never "append" without a `base`: appending to nothing creates."""
    base: Manifest | None
    schema: Schema
    """Of the data, with the field ids that its files shall have."""
    file_version: FileVersion
    is_recent: bool
    """Whether `base` was looked up for this write, or comes from a dataset opened some time ago."""


async def find_target(
    session: Session,
    client: StoreClient,
    root: str,
    *,
    mode: str,
    schema: pa.Schema,
    data_storage_version: str | None,
    base: Manifest | None = None,
) -> Target:
    """Check a write against what is there.

    Parameters
    ----------
    base
        The version to write on, from an open dataset; None looks for the newest.

    Raises
    ------
    DatasetAlreadyExistsError
        Mode "create" and there is a dataset.
    SchemaMismatchError
        Mode "append" and the data does not fit.
    InvalidInputError, UnsupportedFeatureError
        A bad argument; a type that cannot be stored; a table this library must not write to.

    Notes
    -----
    Requests: those of opening the newest version, none with `base`.
    """
    if mode not in MODES:
        raise InvalidInputError(f"mode {mode!r} is unknown; one of {', '.join(MODES)}")
    is_recent = base is None
    asked = None if data_storage_version is None else FileVersion.parse(data_storage_version)
    if base is None:
        base = await _find(client, root)
    if base is not None:
        if mode == "create":
            where = f"{client.url}/{root}"
            raise DatasetAlreadyExistsError(
                f"a dataset exists at {where} (version {base.version}); "
                'use mode="append" or mode="overwrite"',
                path=where,
            )
        check_writable(base, root)
    if mode == "append" and base is not None:
        stored, version = match_append(base.schema, schema), base.file_version
        if asked is not None and asked is not version:
            raise InvalidInputError(
                f"the dataset has data_storage_version {version.value}; an append cannot change it"
            )
    else:
        stored = Schema.from_arrow(schema)
        default = FileVersion.parse(DEFAULT_VERSION) if base is None else base.file_version
        version = default if asked is None else asked
    if version is not FileVersion.V2_1:
        raise InvalidInputError(
            f"data_storage_version {version.value} cannot be written by this library; use '2.1'"
        )
    stored.check_storable(version)
    _refuse_apart(stored)
    kept: Mode = "create" if base is None else "append" if mode == "append" else "overwrite"
    return Target(session, client, root, kept, base, stored, version, is_recent)


def _refuse_apart(schema: Schema) -> None:
    for field in schema.fields:
        if field.is_blob or field.is_packed:
            kind = "blob" if field.is_blob else "packed struct"
            raise InvalidInputError(
                f"column {field.name!r} asks to be stored as a {kind}, which this library does not "
                "write; remove the lance-encoding metadata of the field"
            )


async def _find(client: StoreClient, root: str) -> Manifest | None:
    try:
        return await read_manifest(client, root)
    except DatasetNotFoundError:
        return None


async def upload_fragments(
    target: Target,
    source: BatchSource,
    limits: WriteLimits,
    progress: Callable[[WriteProgress], object] | None = None,
) -> list[Fragment]:
    """Write data files and describe them as fragments; commits nothing.

    A failure or cancellation removes the files that were already complete, and aborts the rest.
    """
    done: list[WrittenFile] = []
    uploads = _Uploads(target, limits, progress, done)
    try:
        async with aclosing(source.batches()) as batches:  # type: ignore[type-var]
            async for batch in batches:
                await uploads.write(batch)
        await uploads.finish()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await uploads.abort()
            await _delete_files(target.client, target.root, [_file_name(file) for file in done])
        raise
    return [_fragment(file, target.file_version) for file in done]


class _Uploads:
    """Data files one after the other, each begun with the first row that goes there."""

    def __init__(
        self,
        target: Target,
        limits: WriteLimits,
        progress: Callable[[WriteProgress], object] | None,
        done: list[WrittenFile],
    ) -> None:
        self._target = target
        self._max_rows = limits.max_rows_per_file
        self._max_bytes = limits.max_bytes_per_file or MAX_BYTES_PER_FILE
        self._progress = progress
        self._done = done
        self._writer: FileWriter | None = None
        self._arrow = target.schema.to_arrow(extension_types=False)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, across as many files as they need."""
        batch = _fit(batch, self._arrow)
        while batch.num_rows:
            writer = self._current()
            room = self._max_rows - writer.num_rows
            await writer.write(batch.slice(0, room))
            batch = batch.slice(room)
            if writer.num_rows >= self._max_rows or writer.num_bytes >= self._max_bytes:
                await self.finish()
        self._report()

    def _current(self) -> FileWriter:
        if self._writer is None:
            target = self._target
            path = join(target.root, "data", data_file_name())
            self._writer = FileWriter(
                target.client,
                path,
                target.schema,
                target.file_version,
                target.session.run_in_thread,
            )
        return self._writer

    async def finish(self) -> None:
        """Complete the file under way."""
        if self._writer is not None:
            self._done.append(await self._writer.finish())
            self._writer = None
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            rows = sum(file.num_rows for file in self._done)
            size = sum(file.num_bytes for file in self._done)
            if self._writer is not None:
                rows, size = rows + self._writer.num_rows, size + self._writer.num_bytes
            self._progress(WriteProgress(rows, size, len(self._done)))

    async def abort(self) -> None:
        """Forget the file under way."""
        if self._writer is not None:
            await self._writer.abort()


def data_file_name() -> str:
    """Random name: 3 bytes as binary digits, which spread keys, then 13 as hexadecimal ones."""
    random_bytes = uuid.uuid4().bytes
    digits = "".join(f"{byte:08b}" for byte in random_bytes[:3])
    return f"{digits}{random_bytes[3:].hex()}.lance"


def _fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns as they are stored: views become plain, extension types their storage."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidInputError(
                f"column {field.name!r} is declared not null but holds {column.null_count} nulls"
            )
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _file_name(file: WrittenFile) -> str:
    return file.path.rsplit("/", 1)[-1]


def _fragment(file: WrittenFile, version: FileVersion) -> Fragment:
    columns = tuple(range(len(file.field_ids)))
    data_file = DataFile(_file_name(file), file.field_ids, columns, version, file.num_bytes)
    return Fragment(id=0, files=(data_file,), physical_rows=file.num_rows)


async def _delete_files(client: StoreClient, root: str, names: Sequence[str]) -> None:
    """Remove data files that no version refers to; failures leave them to a cleanup."""
    for name in names:
        try:
            await client.delete(join(root, "data", name))
        except AlanceError:
            return  # the store is in trouble; the error that led here says more


async def commit_version(
    target: Target,
    fragments: Sequence[Fragment],
    *,
    properties: Mapping[str, str] | None,
    stable_row_ids: bool = False,
) -> Manifest:
    """Make fragments the next version of the dataset.

    Raises
    ------
    CommitError
        See `alance.errors`; after `CommitStateUnknownError` the files must stay.
    """
    if target.mode == "append":
        assert target.base is not None
        transaction = build_append(target.base, fragments, properties=properties)
    else:
        transaction = build_overwrite(
            target.base,
            target.schema,
            fragments,
            file_version=target.file_version,
            stable_row_ids=stable_row_ids,
            properties=properties,
        )
    policy = CommitPolicy(attempts_max=target.session.limits.commit_attempts_max)
    return await commit(
        target.client,
        target.root,
        transaction,
        base=target.base,
        rng=random.Random(transaction.uuid),
        policy=policy,
        # An old base may be followed by a number that a cleanup has freed: look what is newest.
        look=not target.is_recent,
    )


async def write(
    session: Session,
    client: StoreClient,
    root: str,
    data: Data,
    *,
    mode: str,
    schema: pa.Schema | None = None,
    limits: WriteLimits | None = None,
    data_storage_version: str | None = None,
    stable_row_ids: bool = False,
    properties: Mapping[str, str] | None = None,
    progress: Callable[[WriteProgress], object] | None = None,
    base: Manifest | None = None,
) -> Manifest:
    """Write data as one new version; see `alance.write_dataset`."""
    limits = limits or WriteLimits()
    source = open_source(data, schema, session)
    target = await find_target(
        session,
        client,
        root,
        mode=mode,
        schema=source.schema,
        data_storage_version=data_storage_version,
        base=base,
    )
    fragments = await upload_fragments(target, source, limits, progress)
    try:
        return await commit_version(
            target, fragments, properties=properties, stable_row_ids=stable_row_ids
        )
    except CommitStateUnknownError:
        raise  # the version may be there: its files must stay
    except AlanceError:
        await discard(target.client, target.root, fragments)
        raise


async def discard(client: StoreClient, root: str, fragments: Sequence[Fragment]) -> None:
    """Remove the data files of fragments that were never committed."""
    names = [file.path for fragment in fragments for file in fragment.files]
    with anyio.CancelScope(shield=True):
        await _delete_files(client, root, names)
