"""Writing one data file that no dataset stands around."""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from alance._aio import run_to_end
from alance.dataset.writing import DEFAULT_VERSION, DISCARD_S, check_file_schema
from alance.errors import AlanceError, InvalidInputError, SchemaMismatchError
from alance.file.schema import Schema
from alance.io.uri import StorageOptions, parse_uri
from alance.receipts import one_call
from alance.session import Session, current_session
from alance.types import FileVersion

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from alance.file.writer import FileWriter as StoredWriter

__all__ = ["FileWriter", "create_file"]


class FileWriter:
    """One data file being written, inside ``async with``. Made by `alance.create_file`.

    The file appears, whole, when the block ends. If the block ends with an error nothing appears,
    and what stood at its path stays. Calls from several tasks are carried out one after the other.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        version: FileVersion,
        storage_options: StorageOptions,
        session: Session | None,
    ) -> None:
        self._uri = path
        self._schema = schema
        self._stored = Schema.from_arrow(schema)
        check_file_schema(self._stored, version)
        self._arrow = self._stored.to_arrow(extension_types=False)
        self._version = version
        self._storage_options = storage_options
        self._session = session
        self._writer: StoredWriter | None = None
        self._turn = anyio.Lock()
        self._is_over = False
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<alance.FileWriter {self.uri} version {self.version}: {self.num_rows} rows>"

    @property
    def uri(self) -> str:
        """Where the file will be."""
        return os.fspath(self._uri)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema that batches must have."""
        return self._schema

    @property
    def version(self) -> str:
        """Version of the file format, such as "2.1"."""
        return self._version.value

    @property
    def num_rows(self) -> int:
        """Rows written so far."""
        return 0 if self._writer is None else self._writer.num_rows

    async def __aenter__(self) -> FileWriter:
        if self._writer is not None:
            raise InvalidInputError(f"the file {self.uri} is being written already, or was")
        session = self._session or current_session()
        await session.load("alance.dataset.upload")
        from alance.file.writer import FileWriter as StoredWriter

        client, key = session.clients.open(self._uri, self._storage_options)
        self._writer = StoredWriter(client, key, self._stored, self._version, session.run_in_thread)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        if error is not None or self._failure is not None:
            await self._abort()
            if error is None:
                raise AlanceError(
                    f"the file {self.uri} was not written: an earlier call failed"
                ) from self._failure
            return
        await self._finish()

    @one_call
    async def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows.

        Parameters
        ----------
        data
            With the schema of the file, up to metadata.

        Raises
        ------
        SchemaMismatchError
            It has another schema. Nothing was added; the file can go on.
        InvalidInputError
            It holds nulls where the schema allows none, or is no batch or table (nothing was
            added); or the block is over, or has not begun.
        StoreError
            A request failed after retries; the file will not appear.

        Notes
        -----
        Requests: parts of 8 MiB, sent while later rows are encoded. Memory: the pages that are not
        full yet, and those being encoded; beyond 128 MiB they are cut early.
        """
        if isinstance(data, pa.RecordBatch):
            batches = [data]
        elif isinstance(data, pa.Table):
            batches = data.to_batches()
        else:
            raise InvalidInputError(
                f"a RecordBatch or Table can be written, not {type(data).__name__}"
            )
        if not data.schema.equals(self._schema):
            raise SchemaMismatchError(
                f"the file {self.uri} has the schema\n{self._schema}\nbut the data has\n"
                f"{data.schema}"
            )
        from alance.dataset.upload import fit  # loaded when the block began

        fitting = [fit(batch, self._arrow) for batch in batches]
        writer = self._active()
        async with self._turn:
            try:
                for batch in fitting:
                    await writer.write(batch)
            except BaseException as exc:
                self._failure = exc
                raise

    @one_call
    async def add_global_buffer(self, data: Buffer) -> int:
        """Store bytes that belong to the file as a whole.

        Returns
        -------
        int
            The number under which `FileReader.global_buffer` gives them back, from 1.

        Raises
        ------
        InvalidInputError
            It is no buffer; or the block is over, or has not begun.
        StoreError
            A request failed after retries; the file will not appear.
        """
        try:
            content = bytes(memoryview(data))
        except TypeError:
            raise InvalidInputError(
                f"bytes or another buffer can be stored, not {type(data).__name__}"
            ) from None
        writer = self._active()
        async with self._turn:
            try:
                return await writer.add_global_buffer(content)
            except BaseException as exc:
                self._failure = exc
                raise

    def _active(self) -> StoredWriter:
        if self._writer is None or self._is_over:
            raise InvalidInputError(
                f"the file {self.uri} is written inside of 'async with' only: "
                + ("the block is over" if self._is_over else "the block has not begun")
            )
        return self._writer

    @one_call
    async def _finish(self) -> None:
        assert self._writer is not None
        try:
            async with self._turn:
                await self._writer.finish()
        except BaseException:
            await self._abort()
            raise

    async def _abort(self) -> None:
        """Forget what was uploaded, as far as the store lets us; not cut short by cancellation."""
        assert self._writer is not None
        await run_to_end(self._forget(self._writer))

    async def _forget(self, writer: StoredWriter) -> None:
        with anyio.move_on_after(DISCARD_S), suppress(AlanceError):
            await writer.abort()


def create_file(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    data_storage_version: str | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> FileWriter:
    """Write one data file by itself: ``async with alance.create_file(path, schema) as w``.

    Parameters
    ----------
    path
        URI or local path, as for `open_dataset`. A file that is there is replaced when the block
        ends.
    schema
        Of the rows. Its metadata, and that of the fields, is stored with the file.
    data_storage_version
        As for `write_dataset`; "2.1" by default.
    storage_options, session
        As for `open_dataset`.

    Returns
    -------
    FileWriter
        For ``async with``; sends nothing yet.

    Raises
    ------
    InvalidInputError
        An argument or type that cannot be; names it.

    Notes
    -----
    Requests: one PUT for a file of up to 8 MiB, else parts of that size. An error in the block, or
    a cancellation, removes what was sent.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema must be a pyarrow Schema, not {type(schema).__name__}")
    parse_uri(path, storage_options)
    version = FileVersion.parse(data_storage_version or DEFAULT_VERSION)
    return FileWriter(path, schema, version, storage_options, session)
