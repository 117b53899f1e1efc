from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import alance.spark
import alance.sync
from alance.errors import (
    CommitConflictError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
)
from alance.spark.writer import WriteTask

Batches = Iterator[pa.RecordBatch]


def _data_files(uri: Path) -> list[str]:
    return sorted(path.name for path in (uri / "data").glob("*"))


def _numbers(spark: SparkSession, num_rows: int, num_partitions: int) -> DataFrame:
    return spark.range(0, num_rows, 1, numPartitions=num_partitions).withColumnRenamed("id", "n")


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Spark hands rows over 100 at a time."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    old = spark.conf.get(key)
    spark.conf.set(key, "100")
    yield
    spark.conf.set(key, old)


@pytest.mark.spark
@pytest.mark.slow
def test_rows_keep_their_order_over_partitions_and_fragments(
    spark: SparkSession, small_batches: None, tmp_path: Path
) -> None:
    uri = tmp_path / "n.lance"
    version = alance.spark.write(_numbers(spark, 2000, 4), uri, max_rows_per_file=200)
    assert version == 1
    dataset = alance.sync.open_dataset(uri)
    assert dataset.to_table()["n"].to_pylist() == list(range(2000))
    assert [fragment.num_rows for fragment in dataset.fragments] == [200, 200, 100] * 4


@pytest.mark.spark
@pytest.mark.slow
def test_each_mode_commits_one_version(spark: SparkSession, tmp_path: Path) -> None:
    uri = tmp_path / "n.lance"
    frame = _numbers(spark, 10, 2)
    assert alance.spark.write(frame, uri, mode="append") == 1
    assert alance.spark.write(frame, uri, mode="append") == 2
    assert alance.sync.open_dataset(uri).count_rows() == 20
    assert alance.spark.write(frame.where("n < 3"), uri, mode="overwrite") == 3
    assert alance.sync.open_dataset(uri).count_rows() == 3
    assert alance.sync.open_dataset(uri, version=2).count_rows() == 20


@pytest.mark.spark
@pytest.mark.slow
def test_types_nulls_and_zones(spark: SparkSession, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    frame = spark.sql(
        """
        select n, timestamp'2013-03-10 07:00:00 UTC' as instant,
               timestamp_ntz'2013-03-10 07:00:00' as local,
               if(n = 1, null, array(1, null)) as list,
               if(n = 2, null, named_struct('x', n, 'days', array(date'2013-03-10'))) as struct,
               cast(n as decimal(20, 2)) as price
        from values 0, 1, 2 as t(n)
        """
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        alance.spark.write(frame, uri)
        same = alance.spark.read(spark, uri).collect()
        assert same == frame.collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = alance.sync.open_dataset(uri).to_table()
    assert table.schema.field("instant").type == pa.timestamp("us", tz="UTC")
    seven = datetime.datetime(2013, 3, 10, 7)
    assert table["instant"].to_pylist() == [seven.replace(tzinfo=datetime.UTC)] * 3
    assert table["local"].to_pylist() == [seven] * 3
    assert table["list"].to_pylist() == [[1, None], None, [1, None]]
    assert table["struct"][2].as_py() is None


@pytest.mark.spark
@pytest.mark.slow
def test_an_empty_frame_makes_a_dataset_with_its_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri = tmp_path / "empty.lance"
    frame = spark.createDataFrame([], "a int, b array<string>")
    assert alance.spark.write(frame, uri) == 1
    dataset = alance.sync.open_dataset(uri)
    assert dataset.count_rows() == 0
    assert dataset.schema.names == ["a", "b"]
    assert alance.spark.read(spark, uri).collect() == []


@pytest.mark.spark
@pytest.mark.slow
def test_others_may_write_while_tasks_run(spark: SparkSession, tmp_path: Path) -> None:
    uri = tmp_path / "n.lance"
    table = pa.table({"n": pa.array([7], pa.int64()), "m": pa.array([8], pa.int64())})
    swapped = table.select(["m", "n"])
    alance.sync.write_dataset(table, uri)

    def meanwhile(mode: str, data: pa.Table) -> DataFrame:
        def run(batches: Batches) -> Batches:
            for batch in batches:
                alance.sync.write_dataset(data, uri, mode=mode)
                yield batch

        frame = spark.range(0, 1, 1, 1).selectExpr("id as n", "id as m")
        return frame.mapInArrow(run, "n long, m long")

    assert alance.spark.write(meanwhile("append", table), uri, mode="append") == 3
    assert alance.sync.open_dataset(uri).to_table()["m"].to_pylist() == [8, 8, 0]
    with pytest.raises(CommitConflictError):
        alance.spark.write(meanwhile("overwrite", swapped), uri, mode="append")
    dataset = alance.sync.open_dataset(uri)
    assert dataset.to_table() == swapped
    assert len(_data_files(uri)) == 4, "the append that lost left files"


def _fails(partition: int, attempts: int) -> Callable[[Batches], Batches]:
    """Pass rows on, but fail at the end of one partition in its first attempts."""

    def run(batches: Batches) -> Batches:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == partition and context.attemptNumber() < attempts:
            raise RuntimeError("made to fail")

    return run


@pytest.mark.spark
@pytest.mark.slow
def test_a_retried_task_adds_no_duplicates(
    spark: SparkSession, small_batches: None, tmp_path: Path
) -> None:
    uri = tmp_path / "n.lance"
    frame = _numbers(spark, 1000, 2).mapInArrow(_fails(partition=1, attempts=1), "n long not null")
    assert alance.spark.write(frame, uri, max_rows_per_file=100) == 1
    dataset = alance.sync.open_dataset(uri)
    assert dataset.to_table()["n"].to_pylist() == list(range(1000))
    named = sorted(Path(f.path).name for fragment in dataset.fragments for f in fragment.files)
    assert _data_files(uri) == named, "the failed attempt left files"


@pytest.mark.spark
@pytest.mark.slow
def test_a_failed_job_changes_nothing(
    spark: SparkSession, small_batches: None, tmp_path: Path
) -> None:
    uri = tmp_path / "n.lance"
    alance.spark.write(_numbers(spark, 10, 1), uri)
    frame = _numbers(spark, 1000, 2).mapInArrow(_fails(partition=1, attempts=2), "n long not null")
    with pytest.raises(PythonException, match="made to fail"):
        alance.spark.write(frame, uri, mode="append", max_rows_per_file=100)
    dataset = alance.sync.open_dataset(uri)
    assert (dataset.version, dataset.count_rows()) == (1, 10)
    with pytest.raises(PythonException, match="made to fail"):
        alance.spark.write(frame, tmp_path / "new.lance")
    with pytest.raises(DatasetNotFoundError):
        alance.sync.open_dataset(tmp_path / "new.lance")


def test_a_task_given_up_after_its_upload_removes_its_files(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    task = WriteTask(
        uri=str(tmp_path / "n.lance"),
        schema=schema,
        mode="create",
        read_version=None,
        max_rows_per_file=2,
        max_bytes_per_file=None,
        data_storage_version=None,
        storage_options=None,
    )
    batch = pa.record_batch([pa.array(range(5), pa.int64())], schema=schema)
    report = task.run(iter([batch]), partition=3)
    described = next(report)
    assert described.column("partition").to_pylist() == [3, 3, 3]
    assert described.column("position").to_pylist() == [0, 1, 2]
    assert len(_data_files(tmp_path / "n.lance")) == 3
    report.close()
    assert _data_files(tmp_path / "n.lance") == []


@pytest.mark.spark
@pytest.mark.slow
def test_wrong_calls_fail_before_any_task(spark: SparkSession, tmp_path: Path) -> None:
    uri, ran = tmp_path / "n.lance", tmp_path / "ran"

    def touch(batches: Batches) -> Batches:
        ran.touch()
        yield from batches

    alance.spark.write(_numbers(spark, 3, 1), uri)
    frame = _numbers(spark, 3, 1).mapInArrow(touch, "n long not null")
    with pytest.raises(DatasetAlreadyExistsError, match="version 1"):
        alance.spark.write(frame, uri)
    with pytest.raises(SchemaMismatchError, match="n: "):
        alance.spark.write(frame.select(F.col("n").cast("string")), uri, mode="append")
    with pytest.raises(SchemaMismatchError, match="no such column"):
        alance.spark.write(frame.withColumn("m", F.lit(1)), uri, mode="append")
    with pytest.raises(InvalidInputError, match="mode 'upsert' is unknown"):
        alance.spark.write(frame, uri, mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="column 'm' has the Spark type"):
        alance.spark.write(frame.withColumn("m", F.expr("interval 1 month")), uri)
    with pytest.raises(InvalidInputError, match="memory of one process"):
        alance.spark.write(frame, "memory://n")
    assert not ran.exists()
    assert alance.spark.write(frame, uri, mode="append") == 2
    assert ran.exists()


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    task = WriteTask(
        uri=str(tmp_path),
        schema=pa.schema([]),
        mode="create",
        read_version=None,
        max_rows_per_file=1,
        max_bytes_per_file=None,
        data_storage_version=None,
        storage_options={"aws_secret_access_key": "hush-hush"},
    )
    assert "hush-hush" not in repr(task)
