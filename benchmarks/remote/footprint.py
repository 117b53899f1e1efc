"""What a scan does to its process, by either library in a process of its own."""

from __future__ import annotations

import json
import sys

import anyio

from benchmarks.remote.data import Place
from benchmarks.scanning import Footprint

__all__ = ["measure_footprint"]


async def measure_footprint(library: str, place: Place, budget: int) -> Footprint:
    """Scan with a library that may hold `budget` bytes in flight; see `benchmarks.scanning`."""
    said = json.dumps(place.storage_options)
    command = [sys.executable, "-m", "benchmarks.scanning", library, place.uri, said, str(budget)]
    done = await anyio.run_process(command, stderr=None)
    return Footprint(**json.loads(done.stdout))
