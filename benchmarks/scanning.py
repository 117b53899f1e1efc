"""One scan by one library, and what it did to this process: memory, and stalls of the event loop.

`python -m benchmarks.scanning alance|pylance URI OPTIONS BUDGET` prints the figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

__all__ = ["Footprint"]

BATCH_ROWS = 8192
BEAT_S = 0.001


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a scan took of its process.

    Parameters
    ----------
    peak_bytes
        Most memory, less what the process had before it; Linux says, elsewhere it is 0.
    time_s
        Of the scan.
    stall_s
        Longest time in which the event loop did nothing else; None where there is no loop.
    """

    peak_bytes: int
    time_s: float
    stall_s: float | None


async def _scan_alance(uri: str, options: dict[str, str], budget: int) -> Footprint:
    import alance

    session = alance.Session(limits=alance.Limits(bytes_in_flight_max=budget))
    dataset = await alance.open_dataset(uri, storage_options=options, session=session)

    async def scan() -> None:
        async with dataset.scan(batch_size=BATCH_ROWS) as batches:
            async for _ in batches:
                pass

    stalls = [0.0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_beat, stalls)
        await anyio.sleep(10 * BEAT_S)
        stalls[0] = 0.0
        peak, time_s = await _watched(scan)
        tasks.cancel_scope.cancel()
    return Footprint(peak, time_s, stalls[0])


async def _beat(stalls: list[float]) -> None:
    """Note the longest time between two beats, beyond what was asked for."""
    last_s = time.perf_counter()
    while True:
        await anyio.sleep(BEAT_S)
        now_s = time.perf_counter()
        stalls[0] = max(stalls[0], now_s - last_s - BEAT_S)
        last_s = now_s


async def _scan_pylance(uri: str, options: dict[str, str], budget: int) -> Footprint:
    import lance

    dataset = lance.dataset(uri, storage_options=options)

    async def scan() -> None:
        for _ in dataset.scanner(io_buffer_size=budget, batch_size=BATCH_ROWS).to_batches():
            pass

    peak, time_s = await _watched(scan)
    return Footprint(peak, time_s, None)


async def _watched(scan: Callable[[], Awaitable[None]]) -> tuple[int, float]:
    """Memory beyond what the process holds now, and time."""
    _forget_peak()
    before, start_s = _memory("VmRSS"), time.perf_counter()
    await scan()
    return max(_memory("VmHWM") - before, 0), time.perf_counter() - start_s


def _forget_peak() -> None:
    """Let the peak start from what is held now, where the system can."""
    counters = Path("/proc/self/clear_refs")
    if counters.exists():
        counters.write_text("5")


def _memory(name: str) -> int:
    """Return a figure of this process in bytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else 0


def main() -> None:
    """Scan and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("alance", "pylance"))
    parser.add_argument("uri")
    parser.add_argument("options", type=json.loads)
    parser.add_argument("budget", type=int)
    said = parser.parse_args()
    scan = _scan_alance if said.library == "alance" else _scan_pylance
    print(json.dumps(asdict(anyio.run(scan, said.uri, said.options, said.budget))))


if __name__ == "__main__":
    main()
