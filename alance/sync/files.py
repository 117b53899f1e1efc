"""Data files by themselves, without `await`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.dataset import file_reader, file_writer
from alance.dataset.file_reader import FileReader as AsyncFileReader
from alance.dataset.file_writer import FileWriter as AsyncFileWriter
from alance.dataset.projection import Columns
from alance.io.uri import StorageOptions
from alance.session import Session
from alance.sync.run import run
from alance.sync.scan import Scan

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FileReader", "FileWriter", "create_file", "open_file"]


class FileReader:
    """`alance.FileReader` without `await`: the same attributes, methods and arguments."""

    def __init__(self, file: AsyncFileReader) -> None:
        self._file = file

    def __repr__(self) -> str:
        return repr(self._file).replace("alance.FileReader", "alance.sync.FileReader", 1)

    @property
    def uri(self) -> str:
        """Where the file is, as it was opened."""
        return self._file.uri

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._file.schema

    @property
    def num_rows(self) -> int:
        """Rows of the first column; see `alance.FileReader.num_rows`."""
        return self._file.num_rows

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the schema; a copy."""
        return self._file.metadata

    @property
    def version(self) -> str:
        """Version of the file format, such as "2.1"."""
        return self._file.version

    @property
    def num_global_buffers(self) -> int:
        """Buffers of the file as a whole; number 0 holds the schema."""
        return self._file.num_global_buffers

    def scan(self, columns: Columns = None, *, batch_size: int | None = None) -> Scan:
        """Plan a read of all rows; see `alance.FileReader.scan`."""
        return Scan(self._file.scan(columns, batch_size=batch_size))

    def read(
        self, columns: Columns = None, start: int | None = None, stop: int | None = None
    ) -> pa.Table:
        """Read rows [start, stop) into a table; see `alance.FileReader.read`."""
        return run(lambda: self._file.read(columns, start, stop))

    def take(self, rows: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by position; see `alance.FileReader.take`."""
        return run(lambda: self._file.take(rows, columns))

    def global_buffer(self, index: int) -> bytes:
        """Read one of the buffers that belong to the file as a whole."""
        return run(lambda: self._file.global_buffer(index))


class FileWriter:
    """`alance.FileWriter` without `await`, for use in ``with``."""

    def __init__(self, file: AsyncFileWriter) -> None:
        self._file = file

    def __repr__(self) -> str:
        return repr(self._file).replace("alance.FileWriter", "alance.sync.FileWriter", 1)

    @property
    def uri(self) -> str:
        """Where the file will be."""
        return self._file.uri

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema that batches must have."""
        return self._file.schema

    @property
    def version(self) -> str:
        """Version of the file format, such as "2.1"."""
        return self._file.version

    @property
    def num_rows(self) -> int:
        """Rows written so far."""
        return self._file.num_rows

    def __enter__(self) -> FileWriter:
        run(self._file.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run(lambda: self._file.__aexit__(kind, error, trace))

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows; see `alance.FileWriter.write`."""
        run(lambda: self._file.write(data))

    def add_global_buffer(self, data: Buffer) -> int:
        """Store bytes that belong to the file as a whole; returns their number."""
        return run(lambda: self._file.add_global_buffer(data))


def open_file(
    path: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> FileReader:
    """Open one data file, of a dataset or by itself; see `alance.open_file`."""
    return FileReader(
        run(lambda: file_reader.open_file(path, storage_options=storage_options, session=session))
    )


def create_file(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    data_storage_version: str | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> FileWriter:
    """Write one data file by itself; see `alance.create_file`."""
    return FileWriter(
        file_writer.create_file(
            path,
            schema,
            data_storage_version=data_storage_version,
            storage_options=storage_options,
            session=session,
        )
    )
