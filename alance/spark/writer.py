"""Write a DataFrame: tasks upload fragments, the driver commits them all in one version."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from alance import sync
from alance.dataset.write import Mode
from alance.errors import (
    AlanceError,
    CommitStateUnknownError,
    DatasetNotFoundError,
)
from alance.io.uri import StorageOptions
from alance.spark.source import absolute_uri, arrow_schema, cast_batch, fit_schema
from alance.table.manifest import Fragment
from alance.table.wire import build_fragment, parse_fragment

__all__ = ["write"]

RESULT_SCHEMA = "partition int not null, position int not null, fragment binary not null"


def write(
    df: DataFrame,
    uri: str | PathLike[str],
    *,
    mode: Mode = "create",
    max_rows_per_file: int = 1_048_576,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    storage_options: StorageOptions = None,
    transaction_properties: Mapping[str, str] | None = None,
) -> int:
    """Write a DataFrame as one new version of a dataset.

    Each task encodes and uploads the fragments of its partition while Spark hands it the rows;
    the driver then commits all of them at once. Rows keep the order of the DataFrame: by
    partition, then as they come.

    Parameters
    ----------
    df
        Its schema becomes the dataset's. Timestamps are stored as microseconds in UTC.
    uri
        As for `open_dataset`; the driver and all executors must be able to reach it. A path
        without a scheme must name a directory that they share.
    mode
        "create" fails where a dataset exists, "append" creates one where there is none,
        "overwrite" makes a version with only these rows; older versions stay.
    max_rows_per_file, max_bytes_per_file
        A task begins another fragment when its current one reaches either; None: no such bound.
    data_storage_version
        File version of a new dataset, "2.1" by default. Appends keep the dataset's own.
    storage_options
        As for `open_dataset`. Sent to the tasks inside their code, not part of any plan.
    transaction_properties
        Kept with the transaction, for people who read the history.

    Returns
    -------
    int
        The version committed.

    Raises
    ------
    DatasetAlreadyExistsError
        Mode "create" and there is one; before any task runs, or when another writer was first.
    SchemaMismatchError
        Mode "append" and the columns do not fit the dataset's; before any task runs.
    InvalidInputError
        A column of a type that a dataset cannot hold, named in the message; a bad argument.
    CommitError
        All rows are uploaded but the version is not, or not known to be, committed. Appends of
        other writers meanwhile are no conflict; a change of the schema may be.

    Notes
    -----
    Exactly once: only the successful attempt of each task reports its fragments, so retries and
    speculative execution add no rows, and a failed job commits nothing. A failed attempt removes
    what it uploaded. Files of an attempt that was killed, or of the other tasks of a failed job,
    belong to no version; `cleanup_old_versions` removes them. An error in a task reaches the
    caller as Spark's own exception, with the error of the task in its message.

    Memory: per task, the pages in flight, whatever the partition's size; on the driver, the
    description of each fragment. Requests on the driver: those of opening and of one commit.
    """
    target = absolute_uri(uri)
    base = _open_base(target, storage_options) if mode == "append" else None
    schema = arrow_schema(df.schema)
    task = WriteTask(
        uri=target,
        schema=schema if base is None else fit_schema(schema, base.schema),
        mode="create" if mode == "append" and base is None else mode,
        read_version=None if base is None else base.version,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_storage_version=data_storage_version,
        storage_options=storage_options,
    )
    task.upload(())  # no rows: every check of the arguments, before Spark does anything

    def write_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in a task only"
        return task.run(batches, partition=context.partitionId())

    rows = df.mapInArrow(write_partition, RESULT_SCHEMA).collect()
    rows.sort(key=lambda row: (row.partition, row.position))
    fragments = [parse_fragment(bytes(row.fragment)) for row in rows]
    try:
        return task.commit(fragments, transaction_properties)
    except CommitStateUnknownError:
        raise  # the version may be there: its files must stay
    except AlanceError:
        task.discard(fragments)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """What the tasks of a write need to know; pickled to the executors."""

    uri: str
    schema: pa.Schema
    mode: Mode
    read_version: int | None
    """Version that an append builds upon: its field ids are those of all tasks and the commit."""
    max_rows_per_file: int
    max_bytes_per_file: int | None
    data_storage_version: str | None
    storage_options: StorageOptions = field(repr=False)

    def run(
        self, batches: Iterator[pa.RecordBatch], *, partition: int
    ) -> Generator[pa.RecordBatch, None, None]:
        """Upload a partition as fragments and yield their descriptions, one row each."""
        fragments = self.upload(cast_batch(b, self.schema) for b in batches if b.num_rows)
        if not fragments:
            return
        try:
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([partition] * len(fragments), pa.int32()),
                    pa.array(range(len(fragments)), pa.int32()),
                    pa.array([build_fragment(fragment) for fragment in fragments], pa.binary()),
                ],
                names=["partition", "position", "fragment"],
            )
        except BaseException:  # Spark gave the task up after its upload
            self.discard(fragments)
            raise

    def upload(self, batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
        """Write batches of `schema` as data files that belong to no version yet."""
        return sync.write_fragments(
            batches,
            self.uri,
            schema=self.schema,
            mode=self.mode,
            max_rows_per_file=self.max_rows_per_file,
            max_bytes_per_file=self.max_bytes_per_file,
            data_storage_version=self.data_storage_version,
            read_version=self.read_version,
            storage_options=self.storage_options,
        )

    def commit(self, fragments: list[Fragment], properties: Mapping[str, str] | None) -> int:
        """Make uploaded fragments the next version, and return its number."""
        dataset = sync.commit_fragments(
            self.uri,
            fragments,
            mode=self.mode,
            schema=self.schema,
            data_storage_version=self.data_storage_version,
            read_version=self.read_version,
            transaction_properties=properties,
            storage_options=self.storage_options,
        )
        return dataset.version

    def discard(self, fragments: list[Fragment]) -> None:
        """Remove the files of fragments that no version will have."""
        sync.discard_fragments(self.uri, fragments, storage_options=self.storage_options)


def _open_base(uri: str, storage_options: StorageOptions) -> sync.Dataset | None:
    """Dataset that an append builds upon; None where it creates one."""
    try:
        return sync.open_dataset(uri, storage_options=storage_options)
    except DatasetNotFoundError:
        return None
