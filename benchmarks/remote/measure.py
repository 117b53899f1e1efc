"""Measuring jobs against an endpoint: time, requests, rounds and bytes of each."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from alance.testing.endpoint import EndpointProcess, rounds

__all__ = ["SIDES", "Case", "Cost", "Job", "Partly", "measure_case", "median_cost"]

SIDES = ("alance on A", "alance on P", "pylance on P")
"""Who does a job, and on whose file."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one job took.

    Parameters
    ----------
    time_s
        From the call to its answer.
    requests, rounds, num_bytes
        As the endpoint saw them; bytes of both directions.
    """

    time_s: float
    requests: float
    rounds: float
    num_bytes: float


@dataclass(frozen=True, slots=True)
class Partly:
    """What a job returns that gave up on a part of its work; it is charged for the whole.

    Parameters
    ----------
    share
        That was done, above 0 and at most 1.
    """

    share: float


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be measured.

    Parameters
    ----------
    prepare
        Makes what `run` gets, untimed; is told the number of the run.
    run
        The job itself.
    """

    prepare: Callable[[int], Awaitable[Any]]
    run: Callable[[Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: the same job, done by each side.

    Parameters
    ----------
    name
        Of the row.
    jobs
        By side.
    is_long
        Whether once is enough, without a first time that does not count.
    """

    name: str
    jobs: Mapping[str, Job]
    is_long: bool = False


async def measure_case(endpoint: EndpointProcess, case: Case, runs: int) -> dict[str, Cost]:
    """Median costs by side, of so many runs in turns after one that does not count."""
    found: dict[str, list[Cost]] = {side: [] for side in case.jobs}
    for number in (1,) if case.is_long else range(runs + 1):
        order = list(case.jobs)[:: 1 if number % 2 else -1]
        for side in order:
            cost = await _measure(endpoint, case.jobs[side], number)
            if number:
                found[side].append(cost)
    return {side: median_cost(costs) for side, costs in found.items()}


async def _measure(endpoint: EndpointProcess, job: Job, number: int) -> Cost:
    prepared = await job.prepare(number)
    # Python looks through all objects once in so many, for 60 ms in a process with both libraries:
    # what preparations and other rows have left for that is not this job's.
    gc.collect()
    await anyio.to_thread.run_sync(endpoint.reset)
    start_s = time.perf_counter()
    done = await job.run(prepared)
    time_s = time.perf_counter() - start_s
    if isinstance(done, Partly):
        time_s /= done.share
    counters = await anyio.to_thread.run_sync(endpoint.counters)
    return Cost(
        time_s,
        counters.num_requests,
        rounds(counters.log),
        counters.bytes_sent + counters.bytes_received,
    )


def median_cost(costs: Sequence[Cost]) -> Cost:
    """Median of each figure."""
    return Cost(
        statistics.median(cost.time_s for cost in costs),
        statistics.median(cost.requests for cost in costs),
        statistics.median(cost.rounds for cost in costs),
        statistics.median(cost.num_bytes for cost in costs),
    )
