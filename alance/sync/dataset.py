"""The dataset without `await`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pyarrow as pa

from alance.dataset.cleanup import CleanupProgress, CleanupStats
from alance.dataset.config import Values
from alance.dataset.dataset import Dataset as AsyncDataset
from alance.dataset.projection import Columns
from alance.dataset.rerun import CONFLICT_RETRIES, RETRY_TIMEOUT, Patience, RerunPolicy
from alance.dataset.source import Data
from alance.dataset.transactions import TransactionInfo
from alance.dataset.writing import WriteProgress
from alance.errors import RetryableCommitError
from alance.io.uri import StorageOptions
from alance.session import Session
from alance.sync.refs import Branches, Tags
from alance.sync.run import run
from alance.sync.scan import Scan
from alance.table.external import ExternalManifestStore
from alance.table.manifest import Fragment
from alance.table.refs import Reference

__all__ = ["Dataset"]

T = TypeVar("T")


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
        return run(lambda: self._dataset.count_rows(filter))

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
        return run(lambda: self._dataset.take(indices, columns))

    def take_rows(self, row_ids: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by row id; see `alance.Dataset.take_rows`."""
        return run(lambda: self._dataset.take_rows(row_ids, columns))

    def sample(self, n: int, seed: int | None = None, columns: Columns = None) -> pa.Table:
        """Read n rows at random, or all where there are fewer."""
        return run(lambda: self._dataset.sample(n, seed, columns))

    def head(self, n: int) -> pa.Table:
        """Read the first n rows, or all where there are fewer."""
        return run(lambda: self._dataset.head(n))

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
            run(
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
            run(
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

    @property
    def branch(self) -> str | None:
        """Branch that this version is on; None for the main line."""
        return self._dataset.branch

    @property
    def tags(self) -> Tags:
        """Names of versions; see `alance.Tags`."""
        return Tags(self._dataset.tags)

    @property
    def branches(self) -> Branches[Dataset]:
        """Lines of versions beside the main one; see `alance.Branches`."""
        return Branches(self._dataset.branches, Dataset)

    def delete(
        self,
        predicate: str,
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Delete the rows for which a predicate is true; see `alance.Dataset.delete`."""
        return Dataset(
            run(
                lambda: self._dataset.delete(
                    predicate,
                    conflict_retries=conflict_retries,
                    retry_timeout=retry_timeout,
                    transaction_properties=transaction_properties,
                )
            )
        )

    def retrying(
        self,
        change: Callable[[Dataset], T],
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> T:
        """Run a change of one's own, and again on the newest version when another was first.

        See `alance.Dataset.retrying`; `change` runs in this thread.
        """
        patience = Patience(RerunPolicy(conflict_retries, retry_timeout))
        dataset = self
        while True:
            try:
                return change(dataset)
            except RetryableCommitError as exc:
                pause_s = patience.pause_s(exc)
            time.sleep(pause_s)
            dataset = dataset.latest()

    def versions(self) -> list[dict[str, Any]]:
        """List all versions, oldest first."""
        return run(self._dataset.versions)

    def checkout(self, version: Reference) -> Dataset:
        """Open another version of this dataset; see `alance.Dataset.checkout`."""
        return Dataset(run(lambda: self._dataset.checkout(version)))

    def migrate_manifest_paths_v2(self) -> Dataset:
        """Give all manifests V2 names; see `alance.Dataset.migrate_manifest_paths_v2`."""
        return Dataset(run(self._dataset.migrate_manifest_paths_v2))

    def latest(self) -> Dataset:
        """Open the newest version."""
        return Dataset(run(self._dataset.latest))

    def read_transaction(self, version: Reference | None = None) -> TransactionInfo | None:
        """Say what made a version; see `alance.Dataset.read_transaction`."""
        return run(lambda: self._dataset.read_transaction(version))

    def restore(self, *, transaction_properties: Mapping[str, str] | None = None) -> Dataset:
        """Make this version the newest again; see `alance.Dataset.restore`."""
        return Dataset(
            run(lambda: self._dataset.restore(transaction_properties=transaction_properties))
        )

    def update_config(self, values: Values, *, replace: bool = False) -> Dataset:
        """Change settings of the table; see `alance.Dataset.update_config`."""
        return Dataset(run(lambda: self._dataset.update_config(values, replace=replace)))

    def update_metadata(self, values: Values, *, replace: bool = False) -> Dataset:
        """Change the metadata that users keep with the table."""
        return Dataset(run(lambda: self._dataset.update_metadata(values, replace=replace)))

    def update_schema_metadata(self, values: Values, *, replace: bool = False) -> Dataset:
        """Change the metadata of the Arrow schema."""
        return Dataset(run(lambda: self._dataset.update_schema_metadata(values, replace=replace)))

    def update_field_metadata(
        self, field_updates: Mapping[str, Values], *, replace: bool = False
    ) -> Dataset:
        """Change the metadata of fields, given by dotted names."""
        return Dataset(
            run(lambda: self._dataset.update_field_metadata(field_updates, replace=replace))
        )

    def shallow_clone(
        self,
        target_uri: str | os.PathLike[str],
        version: Reference | None = None,
        *,
        storage_options: StorageOptions = None,
        manifest_store: ExternalManifestStore | None = None,
    ) -> Dataset:
        """Make another dataset with the rows of a version; see `alance.Dataset.shallow_clone`."""
        return Dataset(
            run(
                lambda: self._dataset.shallow_clone(
                    target_uri,
                    version,
                    storage_options=storage_options,
                    manifest_store=manifest_store,
                )
            )
        )

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        *,
        retain_versions: int | None = None,
        dry_run: bool = False,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        progress: Callable[[CleanupProgress], object] | None = None,
    ) -> CleanupStats:
        """Remove old versions; see `alance.Dataset.cleanup_old_versions`."""
        return run(
            lambda: self._dataset.cleanup_old_versions(
                older_than,
                retain_versions=retain_versions,
                dry_run=dry_run,
                delete_unverified=delete_unverified,
                error_if_tagged_old_versions=error_if_tagged_old_versions,
                progress=progress,
            )
        )
