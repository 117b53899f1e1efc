"""Data files: cut from record batches, a few sent side by side, removed when not committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import anyio
import anyio.abc
import pyarrow as pa

from alance._aio import run_all, run_to_end
from alance.dataset.json_values import store_json
from alance.dataset.writing import DISCARD_S, WriteLimits, WriteProgress
from alance.encodings.blob_values import FindBase
from alance.errors import AlanceError, InvalidInputError
from alance.file.blobs import sidecar_folder
from alance.file.given_blobs import check_given, given_type
from alance.file.schema import Schema
from alance.file.writer import FileWriter, WrittenFile
from alance.io.client import StoreClient
from alance.receipts import next_place
from alance.session import Session
from alance.table.manifest import DataFile, Fragment
from alance.table.naming import join
from alance.types import FileVersion

__all__ = ["Uploads", "discard", "fit"]

MAX_BYTES_PER_FILE = 90 * 1024**3
FILES_AT_ONCE = 4
"""Sealed files being sent; of each, one part of an upload may be in memory."""
FIT_BYTES_MAX = 256 * 1024
"""Of a batch that is cast and checked on the event loop."""


class Uploads:
    """Data files of one write, each begun with the first row that goes there.

    A file is sealed when its last row is there: from then on its size is known, and the rest of it
    is sent while the next one is being filled.

    Parameters
    ----------
    session, client, root
        Whose threads encode; where the dataset is.
    schema, file_version
        Of the files.
    limits
        When another file begins.
    progress
        Called after every batch and file.
    find_base
        Finds base paths of the dataset that blobs at URIs lie below.
    """

    def __init__(
        self,
        session: Session,
        client: StoreClient,
        root: str,
        schema: Schema,
        file_version: FileVersion,
        *,
        limits: WriteLimits,
        progress: Callable[[WriteProgress], object] | None,
        find_base: FindBase | None = None,
    ) -> None:
        self.place = 0
        """In a chain of requests, of one that had to wait for the files so far."""
        self._sending = anyio.Semaphore(FILES_AT_ONCE)
        self._session = session
        self._client = client
        self._root = root
        self._schema = schema
        self._file_version = file_version
        self._max_rows = limits.max_rows_per_file
        self._max_bytes = limits.max_bytes_per_file or MAX_BYTES_PER_FILE
        self._progress = progress
        self._find_base = find_base
        self._done: list[WrittenFile] = []
        self._unsent: dict[str, FileWriter] = {}
        self._writer: FileWriter | None = None
        self._arrow = schema.to_arrow(extension_types=False)
        self._has_json = any(entry.logical_type == "json" for entry in schema.fields)
        self._takes_all = not self._has_json and not any(map(_forbids_nulls, self._arrow))
        """Whether there is nothing to look at in columns that have the types that are stored."""

    @property
    def fragments(self) -> list[Fragment]:
        """One for each sealed file, in the order of the rows."""
        return [_fragment(file, self._file_version) for file in self._done]

    async def write(self, batch: pa.RecordBatch, tg: anyio.abc.TaskGroup) -> None:
        """Add rows, across as many files as they need; full ones are sent in `tg`."""
        row_bytes = batch.nbytes / max(batch.num_rows, 1)
        while batch.num_rows:
            writer = self._current()
            room = (self._max_bytes - writer.num_bytes) / row_bytes if row_bytes else self._max_rows
            num_rows = max(1, min(self._max_rows - writer.num_rows, int(room)))
            await writer.write(await self._fit(batch.slice(0, num_rows)))
            batch = batch.slice(num_rows)
            if writer.num_rows >= self._max_rows or writer.num_bytes >= self._max_bytes:
                await self.seal(tg)
        self._report()

    async def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Columns as they are stored; not on the loop where that takes long, as for JSON."""
        if self._takes_all and batch.schema.equals(self._arrow):
            return batch
        work = partial(fit, batch, self._arrow)
        is_long = self._has_json or batch.nbytes > FIT_BYTES_MAX
        return await self._session.run_in_thread(work) if is_long else work()

    def _current(self) -> FileWriter:
        if self._writer is None:
            self._writer = FileWriter(
                self._client,
                join(self._root, "data", _random_name()),
                self._schema,
                self._file_version,
                self._session.run_in_thread,
                find_base=self._find_base,
            )
        return self._writer

    async def seal(self, tg: anyio.abc.TaskGroup) -> None:
        """Complete the file under way, and begin to send what is left of it.

        Parameters
        ----------
        tg
            Sends it; all files are there when it has ended.
        """
        if self._writer is None:
            return
        sealed = await self._writer.seal()
        await self._sending.acquire()
        writer, self._writer = self._writer, None
        self._done.append(sealed)
        self._unsent[writer.path] = writer
        tg.start_soon(self._send, writer)
        self._report()

    async def _send(self, writer: FileWriter) -> None:
        await writer.send()
        self.place = max(self.place, next_place())
        del self._unsent[writer.path]
        self._sending.release()

    def _report(self) -> None:
        if self._progress is not None:
            rows = sum(file.num_rows for file in self._done)
            size = sum(file.num_bytes for file in self._done)
            if self._writer is not None:
                rows, size = rows + self._writer.num_rows, size + self._writer.num_bytes
            self._progress(WriteProgress(rows, size, len(self._done)))

    async def abort(self) -> None:
        """Remove what was written, as far as the store lets us; not interrupted by cancellation."""
        await run_to_end(self._remove())

    async def _remove(self) -> None:
        paths = [file.path for file in self._done]
        unsent = list(self._unsent.values())
        if self._writer is not None:
            # A request that ended the upload may have gone through though we saw it fail.
            paths.append(self._writer.path)
            unsent.append(self._writer)

        async def abort(writer: FileWriter) -> None:
            with suppress(AlanceError):
                await writer.abort()

        with anyio.move_on_after(DISCARD_S):
            await run_all([partial(abort, writer) for writer in unsent])
            await _delete(self._client, paths, self._file_version)


async def discard(client: StoreClient, root: str, fragments: Iterable[Fragment]) -> None:
    """Remove the data files of fragments that were never committed; failures are passed over."""
    files = [file for fragment in fragments for file in fragment.files]

    async def work() -> None:
        with anyio.move_on_after(DISCARD_S):
            for version in {file.file_version for file in files}:
                paths = [join(root, "data", f.path) for f in files if f.file_version is version]
                await _delete(client, paths, version)

    await run_to_end(work())


async def _delete(client: StoreClient, paths: Iterable[str], version: FileVersion) -> None:
    """Delete data files, and the blobs that files of version 2.2 may have beside them."""

    async def delete(path: str) -> None:
        with suppress(AlanceError):
            await client.delete(path)

    async def delete_sidecars(path: str) -> None:
        with suppress(AlanceError):
            found = await client.list(sidecar_folder(path))
            await run_all([partial(delete, info.path) for info in found])

    works = [partial(delete, path) for path in paths]
    if version is FileVersion.V2_2:
        works += [partial(delete_sidecars, path) for path in paths]
    await run_all(works)


def _random_name() -> str:
    """Random name: 3 bytes as binary digits, which spread keys, then 13 as hexadecimal ones."""
    random_bytes = uuid.uuid4().bytes
    digits = "".join(f"{byte:08b}" for byte in random_bytes[:3])
    return f"{digits}{random_bytes[3:].hex()}.lance"


def _fragment(file: WrittenFile, version: FileVersion) -> Fragment:
    columns = tuple(range(len(file.field_ids)))
    name = file.path.rsplit("/", 1)[-1]
    data_file = DataFile(name, file.field_ids, columns, version, file.num_bytes)
    return Fragment(id=0, files=(data_file,), physical_rows=file.num_rows)


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns as they are stored: views become plain, JSON binary, extension types their storage.

    Blobs stay bytes or places, as they are given.

    Raises
    ------
    InvalidInputError
        A column holds nulls where the schema allows none, text that is no JSON, or a blob that is
        neither bytes nor one place; names it.
    """
    if not len(schema):
        return batch
    columns, stored = [], schema
    for i, (given, field) in enumerate(zip(batch.columns, schema, strict=True)):
        column = store_json(given, field)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if not column.type.equals(field.type):
            column = column.cast(given_type(column.type, field))
            check_given(column, field.type, field.name)
            stored = stored.set(i, field.with_type(column.type))
        _check_nulls(column, field, field.name)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=stored)


def _check_nulls(array: pa.Array, field: pa.Field, path: str) -> None:
    """Refuse nulls where a field, or a member of it, is declared not null."""
    if not field.nullable and array.null_count:
        raise InvalidInputError(
            f"column {path!r} is declared not null but holds {array.null_count} nulls; "
            "fill them, or declare the column nullable"
        )
    kind = field.type
    if pa.types.is_struct(kind) and any(map(_forbids_nulls, kind)):
        present = array.drop_null() if array.null_count else array
        for i, member in enumerate(kind):
            _check_nulls(present.field(i), member, f"{path}.{member.name}")
    elif _is_list(kind) and _forbids_nulls(kind.value_field):
        item = kind.value_field
        _check_nulls(array.flatten(), item, f"{path}.{item.name}")
    elif pa.types.is_map(kind) and _forbids_nulls(kind.item_field):
        entries = array.cast(pa.list_(kind.field(0))).flatten()
        _check_nulls(entries.field(1), kind.item_field, f"{path}.entries.{kind.item_field.name}")


def _forbids_nulls(field: pa.Field) -> bool:
    """Whether some level of a field is declared not null."""
    kind = field.type
    if not field.nullable:
        return True
    if pa.types.is_struct(kind):
        return any(map(_forbids_nulls, kind))
    if pa.types.is_map(kind):
        return _forbids_nulls(kind.item_field)  # keys never are
    return _is_list(kind) and _forbids_nulls(kind.value_field)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)
