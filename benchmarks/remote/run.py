"""The remote section: start the endpoint, run all cases at each latency, print and draw."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alance.testing.endpoint import EndpointProcess, Settings, start_endpoint_process
from benchmarks.remote.chart import draw
from benchmarks.remote.data import Place, make_table, write_both, write_noise
from benchmarks.remote.footprint import measure_footprint
from benchmarks.remote.measure import SIDES, Case, Cost, measure_case
from benchmarks.remote.reads import read_cases
from benchmarks.remote.writes import append_cases

__all__ = ["RemoteOptions", "Row", "bench_remote"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How far away the endpoint is, and what else the section can be told.

    Parameters
    ----------
    latencies_ms
        Added to every request; all cases run at each.
    bandwidth_mb
        Megabytes per second of one connection; 0 for no bound.
    budget_mib
        Bytes in flight of the scan whose memory is measured, of a dataset 20 times that; 0 leaves
        it out.
    chart
        Where the picture goes; None draws none.
    """

    latencies_ms: Sequence[float] = (0, 30, 100)
    bandwidth_mb: float = 90
    budget_mib: int = 16
    chart: Path | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """What a case was found to cost."""

    name: str
    latency_ms: float
    costs: Mapping[str, Cost]

    def ratio(self, side: str) -> float | None:
        """Pylance's time over that of a side; None where the side has no such job."""
        ours = self.costs.get(side)
        return None if ours is None else self.costs[SIDES[2]].time_s / ours.time_s


async def bench_remote(
    num_rows: int, runs: int, only: str = "", options: RemoteOptions | None = None
) -> list[Row]:
    """All rows; prints each as it is known."""
    options = options or RemoteOptions()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table = make_table(num_rows)
        names = await write_both(table, root)
        noise = None
        if options.budget_mib and only in "memory":
            noise = await write_noise(20 * options.budget_mib * MIB, root)
        with start_endpoint_process(root) as endpoint:
            ours, theirs = (Place(endpoint, name) for name in names)
            for latency_ms in options.latencies_ms:
                settings = Settings(latency_ms / 1e3, options.bandwidth_mb * 1e6)
                endpoint.configure(settings)
                print(_heading(latency_ms, options.bandwidth_mb))
                for case in _cases(ours, theirs, table.column_names, num_rows):
                    if only in case.name:
                        costs = await measure_case(endpoint, case, runs)
                        rows.append(Row(case.name, latency_ms, costs))
                        print(_line(rows[-1]))
            if noise is not None:
                await _print_footprints(endpoint, noise, names[0], options.budget_mib)
    if options.chart is not None:
        options.chart.parent.mkdir(parents=True, exist_ok=True)
        options.chart.write_text(draw([(r.name, r.latency_ms, r.ratio) for r in rows]))
        print(f"Drawn in {options.chart}")
    return rows


def _cases(ours: Place, theirs: Place, columns: Sequence[str], num_rows: int) -> Iterator[Case]:
    yield from read_cases(ours, theirs, columns, num_rows)
    yield from append_cases(ours)


def _heading(latency_ms: float, bandwidth_mb: float) -> str:
    width = f"{bandwidth_mb:g} MB/s a connection" if bandwidth_mb else "no bound on bandwidth"
    columns = f"{'ms':>20}{'A':>9}{'P':>9}{'requests':>17}{'rounds':>11}{'MB':>20}"
    return f"\n{latency_ms:g} ms added to each request, {width}\n{'':26}{columns}"


def _line(row: Row) -> str:
    """Times of the three sides, both ratios, then requests, rounds and bytes of the three."""
    costs = [row.costs.get(side) for side in SIDES]

    def three(text: str, scale: float, of: str) -> str:
        return "/".join("-" if c is None else format(getattr(c, of) * scale, text) for c in costs)

    ratios = "".join(
        f"{'-' if ratio is None else f'{ratio:.2f}x':>9}"
        for ratio in (row.ratio(SIDES[0]), row.ratio(SIDES[1]))
    )
    return (
        f"{row.name:26}{three('.0f', 1e3, 'time_s'):>20}{ratios}"
        f"{three('.0f', 1, 'requests'):>17}{three('.0f', 1, 'rounds'):>11}"
        f"{three('.2f', 1e-6, 'num_bytes'):>20}"
    )


async def _print_footprints(
    endpoint: EndpointProcess, noise: str, mixed: str, budget_mib: int
) -> None:
    """Memory and stalls of scans by each library, without latency: that is the hardest."""
    endpoint.configure(Settings())
    print(f"\nScans that may hold {budget_mib} MiB in flight, in processes of their own")
    for name, label in ((noise, f"{20 * budget_mib} MiB of noise"), (mixed, "all column kinds")):
        for library in ("alance", "pylance"):
            found = await measure_footprint(library, Place(endpoint, name), budget_mib * MIB)
            stall = "" if found.stall_s is None else f", longest stall {found.stall_s * 1e3:.1f} ms"
            peak = f"peak memory {found.peak_bytes / MIB:.0f} MiB"
            print(f"{label:26}{library:10}{peak}, {found.time_s:.2f} s{stall}")
