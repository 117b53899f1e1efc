"""The real commit code, many seeds: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os
import random

import pytest

from alance.errors import StoreError
from alance.table.location import TableLocation
from alance.table.probe import ProbedPut
from tests.simulation.loop import run
from tests.simulation.network import Disk, Faults, Link
from tests.simulation.runs import Guard, simulate
from tests.simulation.world import Fate, World
from tests.simulation.writer import Writer
from tests.table.samples import ROOT

SEEDS = int(os.environ.get("ALANCE_SIMULATION_SEEDS", "240"))
FIRST = int(os.environ.get("ALANCE_SIMULATION_FIRST", "0"))
BUNDLE = 40


@pytest.mark.parametrize("start", range(FIRST, FIRST + SEEDS, BUNDLE))
def test_every_seed(start: int) -> None:
    """To replay one: ALANCE_SIMULATION_FIRST=<seed> ALANCE_SIMULATION_SEEDS=1."""
    for seed in range(start, min(start + BUNDLE, FIRST + SEEDS)):
        try:
            simulate(seed)
        except Exception as exc:
            exc.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("guard", [Guard.CONDITION, Guard.EXTERNAL])
def test_a_seed_replays(guard: Guard) -> None:
    assert simulate(7, guard) == simulate(7, guard)


@pytest.mark.parametrize("guard", [Guard.CONDITION, Guard.EXTERNAL])
def test_the_runs_are_eventful(guard: Guard) -> None:
    outcomes = [simulate(seed, guard) for seed in range(40)]
    assert {fate for outcome in outcomes for _, fate, _ in outcome.fates} == set(Fate)
    assert any(outcome.killed for outcome in outcomes)
    assert any(outcome.merged for outcome in outcomes)
    assert any(outcome.sightings for outcome in outcomes)
    assert max(outcome.versions for outcome in outcomes) > 12


def test_the_judge_sees_what_a_store_that_ignores_the_condition_does() -> None:
    condemned = 0
    for seed in range(10):
        try:
            simulate(seed, Guard.NOBODY)
        except (AssertionError, ExceptionGroup):
            condemned += 1
    assert condemned > 5


def test_a_store_that_ignores_the_condition_is_found_out() -> None:
    disk = Disk(honours_condition=False)
    link = Link(disk, random.Random(1), Faults())
    table = TableLocation(link, ROOT, ProbedPut())
    writer = Writer(World(disk), "first", link, table, random.Random(1))
    with pytest.raises(StoreError, match="ignores the condition"):
        run(writer.create)
    assert not [path for path in disk.objects if "_versions" in path]
