"""Read a version as a DataFrame: one pinned version, its fragments spread over the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from alance import sync
from alance.io.uri import StorageOptions
from alance.spark.source import absolute_uri, arrow_schema, cast_batch, spark_schema

__all__ = ["Slice", "plan_partitions", "read"]

PARTITIONS_PER_CORE = 4
PARTITION_ROWS_MIN = 1 << 17
PARTITION_ROWS_MAX = 1 << 20


def read(
    spark: SparkSession,
    uri: str | PathLike[str],
    *,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    filter: str | None = None,
    version: int | str | None = None,
    storage_options: StorageOptions = None,
) -> DataFrame:
    """Read a dataset; tasks stream their fragments from storage when the DataFrame is used.

    Parameters
    ----------
    spark
        The session that will run the tasks.
    uri
        As for `open_dataset`; the driver and all executors must be able to reach it.
    columns
        As for `Dataset.scan`: names, or output names with SQL expressions. None reads all.
        Spark does not push its own projections down, so name here what the job needs.
    filter
        SQL; only rows for which it is true are read. Spark's own `where` is not pushed down.
    version
        Number or tag; None: the latest. Pinned now: every task, retry and reuse of the DataFrame
        reads this version, whatever is committed meanwhile.
    storage_options
        As for `open_dataset`. Sent to the tasks inside their code, not part of any plan.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows in dataset order: partitions follow one another as their fragments do. Without a
        filter large fragments are split, so that all cores have work; small ones are grouped.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError
        Nothing to read.
    InvalidInputError
        An unknown column, a filter that does not parse, or a type that Spark does not have,
        named in the message.

    Notes
    -----
    Requests: two here to open the dataset; in each task those of opening and of the scan. Memory:
    per task, the session's byte budget. Nanoseconds that Spark's microseconds cannot hold fail
    the task.
    """
    target = absolute_uri(uri)
    dataset = sync.open_dataset(target, version=version, storage_options=storage_options)
    wanted = columns if columns is None or isinstance(columns, Mapping) else list(columns)
    schema = spark_schema(dataset.scan(wanted, filter=filter).schema)
    task = ReadTask(
        uri=target,
        version=dataset.version,
        columns=wanted,
        filter=filter,
        partitions=plan_partitions(
            [(fragment.id, fragment.num_rows) for fragment in dataset.fragments],
            num_cores=spark.sparkContext.defaultParallelism,
            split=filter is None,
        ),
        schema=arrow_schema(schema),
        storage_options=storage_options,
    )

    def read_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task.run(batches)

    # One row per partition, whose value says which: the only input that the tasks have.
    numbers = spark.range(0, len(task.partitions), 1, numPartitions=max(1, len(task.partitions)))
    return numbers.mapInArrow(read_partition, schema)


@dataclass(frozen=True, slots=True)
class Slice:
    """Live rows [start, stop) of one fragment."""

    fragment_id: int
    start: int
    stop: int


def plan_partitions(
    fragments: Sequence[tuple[int, int]], *, num_cores: int, split: bool
) -> tuple[tuple[Slice, ...], ...]:
    """Spread fragments over partitions of similar size, in dataset order.

    Parameters
    ----------
    fragments
        Id and number of live rows of each.
    num_cores
        Tasks that Spark runs at once.
    split
        Whether a large fragment may be cut by row numbers.

    Returns
    -------
    tuple of tuple of Slice
        The partitions; together each row once. Fragments without rows are left out.
    """
    total = sum(num_rows for _, num_rows in fragments)
    goal = -(-total // (num_cores * PARTITIONS_PER_CORE))
    goal = min(max(goal, PARTITION_ROWS_MIN), PARTITION_ROWS_MAX)
    partitions: list[tuple[Slice, ...]] = []
    pending: list[Slice] = []
    num_pending = 0
    for piece in _cut(fragments, goal if split else None):
        num_rows = piece.stop - piece.start
        if pending and num_pending + num_rows > goal:
            partitions.append(tuple(pending))
            pending, num_pending = [], 0
        pending.append(piece)
        num_pending += num_rows
    if pending:
        partitions.append(tuple(pending))
    return tuple(partitions)


def _cut(fragments: Sequence[tuple[int, int]], rows_max: int | None) -> Iterator[Slice]:
    """Fragments as slices of nearly equal size, none longer than `rows_max`."""
    for fragment_id, num_rows in fragments:
        num_slices = 1 if rows_max is None else -(-num_rows // rows_max)
        for i in range(num_slices):
            start, stop = num_rows * i // num_slices, num_rows * (i + 1) // num_slices
            if stop > start:
                yield Slice(fragment_id, start, stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What one task needs to know; pickled to the executors."""

    uri: str
    version: int
    columns: list[str] | Mapping[str, str] | None
    filter: str | None
    partitions: tuple[tuple[Slice, ...], ...]
    schema: pa.Schema
    storage_options: StorageOptions = field(repr=False)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partitions whose numbers come in."""
        dataset = sync.open_dataset(
            self.uri, version=self.version, storage_options=self.storage_options
        )
        whole = {fragment.id: fragment.num_rows for fragment in dataset.fragments}
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece in self.partitions[number]:
                    complete = (piece.start, piece.stop) == (0, whole[piece.fragment_id])
                    scan = dataset.scan(
                        self.columns,
                        filter=self.filter,
                        fragments=[piece.fragment_id],
                        offset=None if complete else piece.start,
                        limit=None if complete else piece.stop - piece.start,
                    )
                    for found in scan:
                        yield cast_batch(found, self.schema)
