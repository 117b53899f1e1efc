"""The real commit code, many seeds: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os

import pytest

from tests.simulation.runs import simulate
from tests.simulation.world import Fate

SEEDS = int(os.environ.get("ALANCE_SIMULATION_SEEDS", "200"))
FIRST = int(os.environ.get("ALANCE_SIMULATION_FIRST", "0"))
BUNDLE = 50


@pytest.mark.parametrize("start", range(FIRST, FIRST + SEEDS, BUNDLE))
def test_every_seed(start: int) -> None:
    """To replay one: ALANCE_SIMULATION_FIRST=<seed> ALANCE_SIMULATION_SEEDS=1."""
    for seed in range(start, min(start + BUNDLE, FIRST + SEEDS)):
        try:
            simulate(seed)
        except Exception as exc:
            exc.add_note(f"seed {seed}")
            raise


def test_a_seed_replays() -> None:
    assert simulate(7) == simulate(7)


def test_the_runs_are_eventful() -> None:
    outcomes = [simulate(seed) for seed in range(60)]
    assert {fate for outcome in outcomes for _, fate, _ in outcome.fates} == set(Fate)
    assert any(outcome.killed for outcome in outcomes)
    assert any(outcome.merged for outcome in outcomes)
    assert any(outcome.sightings for outcome in outcomes)
    assert max(outcome.versions for outcome in outcomes) > 15
