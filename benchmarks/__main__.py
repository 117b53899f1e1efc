"""`make bench`: alance and pylance side by side, in one run on the same data."""

from __future__ import annotations

import argparse
import asyncio
import sys

from benchmarks import encodings, local

SECTIONS = {"local": local.bench_local, "encodings": encodings.bench_encodings}


def main() -> None:
    """Run the sections one after the other and print what they found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each column")
    parser.add_argument("--runs", type=int, default=7, help="timed runs behind each median")
    parser.add_argument("--only", default="", help="part of a column kind's name")
    parser.add_argument("--section", choices=SECTIONS, help="one section only")
    arguments = parser.parse_args()
    for name, bench in SECTIONS.items():
        if arguments.section in (None, name):
            print(sys.modules[bench.__module__].__doc__)
            asyncio.run(bench(arguments.rows, arguments.runs, arguments.only))
            print()


if __name__ == "__main__":
    main()
