"""The steps of the main job, each returning what it saw."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import alance
import alance.spark
from alance.dataset.write import Mode
from demo.flights import CarrierDelay, Flights, join_flights

__all__ = ["Lookups", "delays_from_dataset", "look_around", "write_year"]

FIRST_MONTHS = range(1, 12)
LAST_MONTH = range(12, 13)
LATE = "dep_delay > 180 and origin.code = 'JFK'"
NUM_TAKEN = 10


def write_year(
    spark: SparkSession, source: Flights, uri: str, storage_options: dict[str, Any] | None
) -> list[int]:
    """Write eleven months, then append December in a second job; the versions committed."""

    def write(months: range, mode: Mode) -> int:
        return alance.spark.write(
            join_flights(spark, source, months=months),
            uri,
            mode=mode,
            storage_options=storage_options,
            transaction_properties={"lance.commit.message": f"{len(months)} months of flights"},
        )

    return [write(FIRST_MONTHS, "overwrite"), write(LAST_MONTH, "append")]


@dataclass(frozen=True, slots=True)
class Lookups:
    """What asyncio code read, and what each call cost."""

    version: int
    num_fragments: int
    num_rows: int
    num_late: int
    num_batches: int
    taken: pa.Table
    receipts: dict[str, str]


async def look_around(uri: str, storage_options: dict[str, Any] | None, *, seed: int) -> Lookups:
    """Open, count, stream a filtered projection, and take ten random rows."""
    receipts = {}
    with alance.receipt() as receipt:
        dataset = await alance.open_dataset(uri, storage_options=storage_options)
    receipts["open"] = str(receipt)

    with alance.receipt() as receipt:
        num_rows = await dataset.count_rows()
    receipts["count"] = str(receipt)

    num_late = num_batches = 0
    with alance.receipt() as receipt:
        async for batch in dataset.scan(["scheduled", "airline", "dep_delay"], filter=LATE):
            num_late += batch.num_rows
            num_batches += 1
    receipts["scan"] = str(receipt)

    with alance.receipt() as receipt:
        rows = random.Random(seed).sample(range(num_rows), NUM_TAKEN)
        taken = await dataset.take(rows)
    receipts["take"] = str(receipt)
    return Lookups(
        version=dataset.version,
        num_fragments=len(dataset.fragments),
        num_rows=num_rows,
        num_late=num_late,
        num_batches=num_batches,
        taken=taken,
        receipts=receipts,
    )


def delays_from_dataset(
    spark: SparkSession, uri: str, storage_options: dict[str, Any] | None
) -> dict[str, CarrierDelay]:
    """Delay by carrier of the flights that arrived, aggregated by Spark."""
    arrived = alance.spark.read(
        spark,
        uri,
        columns=["carrier", "dep_delay", "arr_delay"],
        filter="arr_delay is not null",
        storage_options=storage_options,
    )
    rows = (
        arrived
        .groupBy("carrier")
        .agg(F.count("*").alias("num_flights"), F.sum("dep_delay"), F.sum("arr_delay"))
        .collect()
    )
    return {row[0]: CarrierDelay(row[1], row[2], row[3]) for row in rows}
