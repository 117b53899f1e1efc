"""`make bench`: alance and pylance side by side, in one run on the same data."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio

from benchmarks import encodings, local, remote, stalls
from benchmarks.remote.run import RemoteOptions

ROWS = {"local": 1_000_000, "encodings": 1_000_000, "remote": 300_000, "stalls": 200_000}
RUNS = {"local": 7, "encodings": 7, "remote": 3, "stalls": 3}


def _section(name: str) -> str:
    if name not in ROWS:
        raise argparse.ArgumentTypeError(f"no section {name!r}; there are {', '.join(ROWS)}")
    return name


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", type=_section, help="; ".join(ROWS) + "; else all")
    parser.add_argument("--rows", type=int, help="rows of each column")
    parser.add_argument("--runs", type=int, help="timed runs behind each median")
    parser.add_argument("--only", default="", help="part of a row's name")
    remotely = parser.add_argument_group("remote")
    remotely.add_argument(
        "--latency", type=float, nargs="+", default=[0, 30, 100], help="ms added to each request"
    )
    remotely.add_argument(
        "--bandwidth", type=float, default=90, help="MB/s of one connection; 0 is not bounded"
    )
    remotely.add_argument(
        "--budget", type=int, default=16, help="MiB in flight of the scan of 20 times as much"
    )
    remotely.add_argument(
        "--chart", type=Path, default=Path("build/bench-remote.html"), help="where the picture goes"
    )
    return parser.parse_args()


def main() -> None:
    """Run the sections one after the other and print what they found."""
    said = _arguments()
    options = RemoteOptions(said.latency, said.bandwidth, said.budget, said.chart)
    sections: dict[str, Callable[[int, int, str], Awaitable[object]]] = {
        "local": local.bench_local,
        "encodings": encodings.bench_encodings,
        "stalls": stalls.bench_stalls,
        "remote": partial(remote.bench_remote, options=options),
    }
    for name in said.sections or sections:
        print(sys.modules[f"benchmarks.{name}"].__doc__)
        anyio.run(sections[name], said.rows or ROWS[name], said.runs or RUNS[name], said.only)
        print()


if __name__ == "__main__":
    main()
