"""Writer processes of two libraries on one dataset behind a bad line, and what must hold of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import lance
import pyarrow as pa

import alance
from alance.testing.endpoint import (
    EndpointProcess,
    Fault,
    FaultKind,
    Settings,
    start_endpoint_process,
)
from integration.writers.journal import Promises, read_journals

__all__ = ["Scenario", "all_finish", "some_are_killed"]

ROOT = Path(__file__).parent.parent.parent
URI = "s3://bucket/shared.lance"
IDS_EACH = 1_000_000
KINDS = (FaultKind.SLOW_DOWN, FaultKind.INTERNAL, FaultKind.LOST, FaultKind.CUT)
PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who writes how much over what kind of line.

    Parameters
    ----------
    writers
        The library of each process.
    changes
        That each process makes.
    latency_s
        Added to each request.
    faulty
        Share of requests that go wrong.
    requests
        About as many as there will be: faults are spread over so many.
    """

    writers: tuple[str, ...] = ("alance", "pylance") * 4
    changes: int = 12
    latency_s: float = 0.03
    faulty: float = 0.05
    requests: int = 6000

    def faults(self, seed: int) -> Sequence[Fault]:
        """What goes wrong, each at a place of its own."""
        rng = random.Random(seed)
        places = rng.sample(range(self.requests), int(self.requests * self.faulty))
        return [Fault(rng.choice(KINDS), skip=place) for place in places]


async def all_finish(scenario: Scenario, folder: Path) -> Promises:
    """Let every writer come to its end, then look what became of what they were told."""
    with start_endpoint_process(folder / "s3", settings=Settings(scenario.latency_s)) as endpoint:
        _create(endpoint)
        endpoint.reset(*scenario.faults(1))
        processes = [_start(scenario, endpoint, folder, i) for i in range(len(scenario.writers))]
        for process in processes:
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, errors
        assert endpoint.counters().faults
        endpoint.reset()
        promises = read_journals(folder)
        await _check(endpoint, promises)
        return promises


async def some_are_killed(scenario: Scenario, folder: Path, *, kills: int) -> Promises:
    """Kill writers at any moment and start others, then look what became of what they were told.

    The dataset must open after each death.
    """
    rng = random.Random(2)
    with start_endpoint_process(folder / "s3", settings=Settings(scenario.latency_s)) as endpoint:
        _create(endpoint)
        endpoint.reset(*scenario.faults(2))
        count = len(scenario.writers)
        running = [_start(scenario, endpoint, folder, i) for i in range(count)]
        for kill in range(kills):
            i = rng.randrange(count)
            await anyio.sleep(rng.random())
            running[i].kill()
            running[i].communicate()
            await _look(endpoint)
            running[i] = _start(scenario, endpoint, folder, i, number=count + kill)
        for process in running:
            process.communicate(timeout=PATIENCE_S)
        endpoint.reset()
        promises = read_journals(folder)
        await _check(endpoint, promises)
        return promises


def _start(
    scenario: Scenario,
    endpoint: EndpointProcess,
    folder: Path,
    index: int,
    *,
    number: int | None = None,
) -> subprocess.Popen[str]:
    """Start a writer; each process has a number, and ids and a journal of its own."""
    number = index if number is None else number
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "integration.writers.worker", scenario.writers[index], URI),
            *("--options", json.dumps(endpoint.storage_options)),
            *("--journal", str(folder / f"{number}.journal")),
            *("--first-id", str((number + 1) * IDS_EACH)),
            *("--changes", str(scenario.changes)),
            *("--seed", str(number)),
        ],
        cwd=ROOT,
        text=True,
        stderr=subprocess.PIPE,
    )


async def _check(endpoint: EndpointProcess, promises: Promises) -> None:
    """Both libraries read the same rows, and they are those that were promised."""
    ds = await alance.open_dataset(URI, storage_options=endpoint.storage_options)
    ids = (await ds.to_table())["id"].to_pylist()
    theirs = lance.dataset(URI, storage_options=endpoint.storage_options).to_table()
    assert ids == theirs["id"].to_pylist()
    assert len(set(ids)) == len(ids), "a row is there twice"
    found = set(ids)
    must = promises.added - promises.removed - promises.perhaps_removed
    assert not must - found, f"{len(must - found)} acknowledged rows are lost"
    assert not promises.removed & found, "a deleted row is there"
    assert not promises.never_added & found, "a row is there whose append was reported to fail"
    assert found <= {0} | promises.added | promises.perhaps_added
    versions = [entry["version"] for entry in await ds.versions()]
    assert versions == list(range(1, len(versions) + 1))


async def _look(endpoint: EndpointProcess) -> None:
    """The dataset opens, whatever its writers are in the middle of, and no row is there twice."""
    ds = await alance.open_dataset(URI, storage_options=endpoint.storage_options)
    ids = (await ds.to_table())["id"].to_pylist()
    assert len(set(ids)) == len(ids)


def _create(endpoint: EndpointProcess) -> None:
    """Make the dataset, with one row."""
    endpoint.create_bucket("bucket")
    data = pa.table({"id": pa.array([0], pa.int64())})
    lance.write_dataset(data, URI, storage_options=endpoint.storage_options)
