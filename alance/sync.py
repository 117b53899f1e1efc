"""The public API without `await`, for scripts, notebooks and Spark workers.

All calls run on one event loop per process, in a background thread that starts with the first call.
A forked child notices that it is another process and starts its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from alance.dataset import entry
from alance.dataset.bridge import iterate_in_thread
from alance.dataset.dataset import Dataset as AsyncDataset
from alance.dataset.projection import Columns
from alance.dataset.scan import Scan as AsyncScan
from alance.dataset.source import Data
from alance.dataset.upload import WriteProgress
from alance.io.loop import background
from alance.io.uri import StorageOptions
from alance.session import Session
from alance.table.manifest import Fragment

__all__ = [
    "Dataset",
    "Scan",
    "commit_fragments",
    "discard_fragments",
    "open_dataset",
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
