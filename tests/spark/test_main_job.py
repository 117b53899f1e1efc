"""The demo's steps on a sample of the flights, and the same dataset through pylance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import alance
import alance.spark
import alance.sync
from alance.testing.s3 import S3Server
from demo.flights import Flights, delays_from_csv, join_flights, unpack_flights
from demo.job import delays_from_dataset, look_around, write_year

pytestmark = [pytest.mark.anyio, pytest.mark.spark, pytest.mark.slow]

NUM_FLIGHTS = 4000


@dataclass(frozen=True, slots=True)
class Job:
    """What the writing jobs were given, and what they committed."""

    source: Flights
    uri: str
    storage_options: dict[str, Any]
    versions: list[int]


@pytest.fixture(scope="module")
def job(spark: SparkSession, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The year's sample, written to S3 by two Spark jobs."""
    s3_server.create_bucket("main-job")
    uri, options = "s3://main-job/flights.lance", dict(s3_server.storage_options)
    source = unpack_flights(tmp_path_factory.mktemp("flights"), num_rows=NUM_FLIGHTS)
    return Job(source, uri, options, write_year(spark, source, uri, options))


@pytest.fixture(scope="module")
def expected(spark: SparkSession, job: Job) -> pa.Table:
    """The same rows as Spark hands them to Arrow, without any dataset."""
    frame = join_flights(spark, job.source, months=range(1, 13))
    return frame.toArrow().cast(
        alance.sync.open_dataset(job.uri, storage_options=job.storage_options).schema
    )


def test_two_jobs_commit_two_versions(job: Job) -> None:
    assert job.versions == [1, 2]


def test_spark_reads_the_totals_of_the_csv(spark: SparkSession, job: Job) -> None:
    found = delays_from_dataset(spark, job.uri, job.storage_options)
    assert found == delays_from_csv(job.source)
    assert len(found) > 10


async def test_asyncio_reads_what_spark_wrote(job: Job, expected: pa.Table) -> None:
    seen = await look_around(job.uri, job.storage_options, seed=1)
    assert (seen.version, seen.num_rows) == (2, expected.num_rows)
    late = [
        row
        for row in expected.select(["dep_delay", "origin"]).to_pylist()
        if (row["dep_delay"] or 0) > 180 and row["origin"]["code"] == "JFK"
    ]
    assert seen.num_late == len(late) > 0
    assert set(seen.receipts) == {"open", "count", "scan", "take"}
    dataset = await alance.open_dataset(job.uri, storage_options=job.storage_options)
    assert await dataset.to_table() == expected


def test_pylance_reads_what_alance_wrote(job: Job, expected: pa.Table) -> None:
    theirs = lance.dataset(job.uri, storage_options=job.storage_options)
    assert theirs.version == 2
    assert theirs.to_table() == expected
    assert theirs.count_rows("origin.code = 'JFK'") == len([
        code for code in expected["origin"].to_pylist() if code["code"] == "JFK"
    ])


async def test_alance_reads_what_pylance_wrote(expected: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "theirs.lance")
    lance.write_dataset(
        expected, uri, data_storage_version="2.1", max_rows_per_file=expected.num_rows // 3
    )
    dataset = await alance.open_dataset(uri)
    assert len(dataset.fragments) > 1
    assert await dataset.to_table() == expected
    rows = list(range(0, expected.num_rows, 97))
    assert await dataset.take(rows) == expected.take(rows)


def test_spark_appends_to_a_dataset_of_pylance(
    spark: SparkSession, job: Job, expected: pa.Table, tmp_path: Path
) -> None:
    uri = str(tmp_path / "theirs.lance")
    lance.write_dataset(expected.slice(0, 100), uri, data_storage_version="2.1")
    december = join_flights(spark, job.source, months=range(12, 13))
    assert alance.spark.write(december, uri, mode="append") == 2
    theirs = lance.dataset(uri)
    assert theirs.count_rows() == 100 + december.count()
    assert theirs.checkout_version(1).to_table() == expected.slice(0, 100)
