"""`make bench`: alance and pylance side by side, in one run on the same data."""

from __future__ import annotations

import argparse
import asyncio

from benchmarks import local


def main() -> None:
    """Run the sections one after the other and print what they found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each column")
    parser.add_argument("--runs", type=int, default=7, help="timed runs behind each median")
    parser.add_argument("--only", default="", help="part of a column kind's name")
    arguments = parser.parse_args()
    print(local.__doc__)
    asyncio.run(local.bench_local(arguments.rows, arguments.runs, arguments.only))


if __name__ == "__main__":
    main()
