"""The public API without `await`, for scripts, notebooks and Spark workers.

All calls run on one event loop per process, in a background thread that starts with the first call.
A forked child notices that it is another process and starts its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from alance.dataset import entry, file_reader, file_writer
from alance.dataset.bridge import iterate_in_thread
from alance.dataset.dataset import Dataset as AsyncDataset
from alance.dataset.file_reader import FileReader as AsyncFileReader
from alance.dataset.file_writer import FileWriter as AsyncFileWriter
from alance.dataset.projection import Columns
from alance.dataset.scan import Scan as AsyncScan
from alance.dataset.source import Data
from alance.dataset.upload import WriteProgress
from alance.io.loop import background
from alance.io.uri import StorageOptions
from alance.session import Session
from alance.table.manifest import Fragment

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Dataset",
    "FileReader",
    "FileWriter",
    "Scan",
    "commit_fragments",
    "create_file",
    "discard_fragments",
    "open_dataset",
    "open_file",
    "write_dataset",
    "write_fragments",
]

T = TypeVar("T")


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return background.thread().call(work)


class Scan:
    """A planned read; iterate it for record batches, as often as you like."""

    def __init__(self, scan: AsyncScan) -> None:
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return self._scan.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches as they are read; leaving the loop early stops the reading."""
        return iterate_in_thread(lambda: self._scan)

    def to_table(self) -> pa.Table:
        """Read everything."""
        return _run(self._scan.to_table)

    def explain(self) -> str:
        """Say which fragments, files and columns will be read, and what was pruned."""
        return self._scan.explain()


class Dataset:
    """`alance.Dataset` without `await`: the same attributes, methods and arguments."""

    def __init__(self, dataset: AsyncDataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        return repr(self._dataset).replace("alance.Dataset", "alance.sync.Dataset", 1)

    @property
    def uri(self) -> str:
        """Where the dataset is, as it was opened."""
        return self._dataset.uri

    @property
    def version(self) -> int:
        """Number of this version, from 1."""
        return self._dataset.version

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._dataset.schema

    @property
    def data_storage_version(self) -> str:
        """File version that new data files get."""
        return self._dataset.data_storage_version

    @property
    def config(self) -> dict[str, str]:
        """Settings of the table; a copy."""
        return self._dataset.config

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that users keep with the table; a copy."""
        return self._dataset.metadata

    @property
    def session(self) -> Session:
        """Limits and caches that this dataset uses."""
        return self._dataset.session

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Fragments in dataset order."""
        return self._dataset.fragments

    def count_rows(self, filter: str | None = None) -> int:
        """Count live rows, or those that pass a filter."""
        return _run(lambda: self._dataset.count_rows(filter))

    def scan(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Iterable[Fragment | int] | None = None,
        ordered: bool = True,
    ) -> Scan:
        """Plan a read of rows; see `alance.Dataset.scan`."""
        return Scan(
            self._dataset.scan(
                columns,
                filter=filter,
                limit=limit,
                offset=offset,
                batch_size=batch_size,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                fragments=fragments,
                ordered=ordered,
            )
        )

    def to_table(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Read rows into a table; see `alance.Dataset.to_table`."""
        return self.scan(
            columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        ).to_table()

    def take(self, indices: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by position; see `alance.Dataset.take`."""
        return _run(lambda: self._dataset.take(indices, columns))

    def head(self, n: int) -> pa.Table:
        """Read the first n rows, or all where there are fewer."""
        return _run(lambda: self._dataset.head(n))

    def to_reader(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return a `pa.RecordBatchReader` of a scan."""
        return self._dataset.to_reader(
            columns, filter=filter, limit=limit, offset=offset, batch_size=batch_size
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows over the Arrow C stream interface."""
        return self._dataset.__arrow_c_stream__(requested_schema)

    def append(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = 1_048_576,
        max_bytes_per_file: int | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        progress: Callable[[WriteProgress], object] | None = None,
    ) -> Dataset:
        """Add rows behind the existing ones; see `alance.Dataset.append`."""
        return Dataset(
            _run(
                lambda: self._dataset.append(
                    data,
                    schema=schema,
                    max_rows_per_file=max_rows_per_file,
                    max_bytes_per_file=max_bytes_per_file,
                    transaction_properties=transaction_properties,
                    progress=progress,
                )
            )
        )

    def overwrite(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = 1_048_576,
        max_bytes_per_file: int | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        progress: Callable[[WriteProgress], object] | None = None,
    ) -> Dataset:
        """Make a version that has only these rows; see `alance.Dataset.overwrite`."""
        return Dataset(
            _run(
                lambda: self._dataset.overwrite(
                    data,
                    schema=schema,
                    max_rows_per_file=max_rows_per_file,
                    max_bytes_per_file=max_bytes_per_file,
                    transaction_properties=transaction_properties,
                    progress=progress,
                )
            )
        )

    def versions(self) -> list[dict[str, Any]]:
        """List all versions, oldest first."""
        return _run(self._dataset.versions)

    def checkout(self, version: int | str) -> Dataset:
        """Open another version of this dataset."""
        return Dataset(_run(lambda: self._dataset.checkout(version)))

    def latest(self) -> Dataset:
        """Open the newest version."""
        return Dataset(_run(self._dataset.latest))


def open_dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> Dataset:
    """Open a version of a dataset; see `alance.open_dataset`."""
    return Dataset(
        _run(
            lambda: entry.open_dataset(
                uri, version=version, storage_options=storage_options, session=session
            )
        )
    )


def write_dataset(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: str = "create",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1_048_576,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    progress: Callable[[WriteProgress], object] | None = None,
) -> Dataset:
    """Write data as a new version of a dataset; see `alance.write_dataset`."""
    return Dataset(
        _run(
            lambda: entry.write_dataset(
                data,
                uri,
                mode=mode,
                schema=schema,
                max_rows_per_file=max_rows_per_file,
                max_bytes_per_file=max_bytes_per_file,
                data_storage_version=data_storage_version,
                enable_stable_row_ids=enable_stable_row_ids,
                storage_options=storage_options,
                session=session,
                transaction_properties=transaction_properties,
                progress=progress,
            )
        )
    )


def write_fragments(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: str = "append",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1_048_576,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    read_version: int | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> list[Fragment]:
    """Upload data files without committing them; see `alance.write_fragments`."""
    return _run(
        lambda: entry.write_fragments(
            data,
            uri,
            mode=mode,
            schema=schema,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            data_storage_version=data_storage_version,
            read_version=read_version,
            storage_options=storage_options,
            session=session,
        )
    )


def commit_fragments(
    uri: str | os.PathLike[str],
    fragments: Sequence[Fragment],
    *,
    mode: str = "append",
    schema: pa.Schema,
    data_storage_version: str | None = None,
    read_version: int | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> Dataset:
    """Commit what `write_fragments` uploaded as one version; see `alance.commit_fragments`."""
    return Dataset(
        _run(
            lambda: entry.commit_fragments(
                uri,
                fragments,
                mode=mode,
                schema=schema,
                data_storage_version=data_storage_version,
                read_version=read_version,
                transaction_properties=transaction_properties,
                storage_options=storage_options,
                session=session,
            )
        )
    )


def discard_fragments(
    uri: str | os.PathLike[str],
    fragments: Sequence[Fragment],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> None:
    """Remove the files of fragments that will not be committed."""
    _run(
        lambda: entry.discard_fragments(
            uri, fragments, storage_options=storage_options, session=session
        )
    )


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
        return _run(lambda: self._file.read(columns, start, stop))

    def take(self, rows: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by position; see `alance.FileReader.take`."""
        return _run(lambda: self._file.take(rows, columns))

    def global_buffer(self, index: int) -> bytes:
        """Read one of the buffers that belong to the file as a whole."""
        return _run(lambda: self._file.global_buffer(index))


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
        _run(self._file.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _run(lambda: self._file.__aexit__(kind, error, trace))

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows; see `alance.FileWriter.write`."""
        _run(lambda: self._file.write(data))

    def add_global_buffer(self, data: Buffer) -> int:
        """Store bytes that belong to the file as a whole; returns their number."""
        return _run(lambda: self._file.add_global_buffer(data))


def open_file(
    path: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> FileReader:
    """Open one data file, of a dataset or by itself; see `alance.open_file`."""
    return FileReader(
        _run(lambda: file_reader.open_file(path, storage_options=storage_options, session=session))
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
