"""Run the main job and print what happened: `python -m demo [--store DIR]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from alance.testing.s3 import start_s3_server
from demo.flights import CarrierDelay, delays_from_csv, unpack_flights
from demo.job import NUM_TAKEN, Lookups, delays_from_dataset, look_around, write_year
from demo.spark import open_spark

SEED = 2013
BUCKET = "demo"


def main() -> int:
    """Run all steps; 1 when the totals differ."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="write below this directory; without it, to an S3 server started for the run",
    )
    store = parser.parse_args().store
    with (
        tempfile.TemporaryDirectory(prefix="alance-demo-") as scratch,
        _open_store(store) as (uri, storage_options),
    ):
        return _run(Path(scratch), uri, storage_options)


@contextmanager
def _open_store(directory: Path | None) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """URI of the dataset and the options that reach it."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield str(directory.resolve() / "flights.lance"), None
        return
    with start_s3_server() as server:
        server.create_bucket(BUCKET)
        yield f"s3://{BUCKET}/flights.lance", dict(server.storage_options)


def _run(scratch: Path, uri: str, storage_options: dict[str, Any] | None) -> int:
    clock = _Clock()
    source = unpack_flights(scratch)
    expected = delays_from_csv(source)
    clock.lap("totals straight from the CSV")
    with open_spark(scratch) as spark:
        clock.lap("Spark started")
        versions = write_year(spark, source, uri, storage_options)
        clock.lap(f"two Spark jobs wrote versions {versions[0]} and {versions[1]} of {uri}")
        lookups = anyio.run(lambda: look_around(uri, storage_options, seed=SEED))
        clock.lap("asyncio code read them")
        found = delays_from_dataset(spark, uri, storage_options)
        clock.lap("a Spark job read them back")
    _print_lookups(lookups)
    _print_delays(found, expected)
    same = found == expected
    print("\nSpark's totals equal those of the CSV." if same else "\nTOTALS DIFFER.")
    return 0 if same else 1


class _Clock:
    """Prints how long each step took."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        print(f"{now - self._last:6.1f} s  {what}", flush=True)
        self._last = now


def _print_lookups(lookups: Lookups) -> None:
    """What asyncio code saw, with the receipt of each call."""
    what = {
        "open": f"version {lookups.version}, {lookups.num_fragments} fragments",
        "count": f"{lookups.num_rows:,} rows",
        "scan": f"{lookups.num_late:,} flights very late from JFK, {lookups.num_batches} batches",
        "take": f"{NUM_TAKEN} random rows, {lookups.taken.num_columns} columns",
    }
    print("\nasyncio")
    for step, receipt in lookups.receipts.items():
        print(f"  {step:6}{what[step]}\n        {receipt}")
    print("\n  some of the rows taken")
    for row in lookups.taken.slice(0, 3).to_pylist():
        print(
            f"    {row['scheduled']:%Y-%m-%d %H:%M} {row['airline']} {row['flight']} "
            f"{row['origin']['name']} to {row['dest']}, times {row['times']}"
        )


def _print_delays(found: dict[str, CarrierDelay], expected: dict[str, CarrierDelay]) -> None:
    """Mean delays by carrier, and where the two ways of counting differ."""
    print("\ncarrier   flights   mean minutes late at departure   at arrival")
    for carrier in sorted(found.keys() | expected.keys()):
        delay = found.get(carrier, CarrierDelay(0, 0, 0))
        mark = "" if delay == expected.get(carrier) else f"   CSV: {expected.get(carrier)}"
        flights = max(1, delay.num_flights)
        print(
            f"{carrier:7} {delay.num_flights:9,} {delay.departure / flights:32.1f} "
            f"{delay.arrival / flights:12.1f}{mark}"
        )


if __name__ == "__main__":
    sys.exit(main())
