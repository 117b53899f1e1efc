"""A slice of the test with writer processes of both libraries; `make integration` has all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.writers.scenario import Scenario, some_are_killed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_no_promise_is_broken(tmp_path: Path) -> None:
    scenario = Scenario(("alance", "pylance"), changes=5, latency_s=0.0, requests=200)
    promises = await some_are_killed(scenario, tmp_path, kills=2)
    assert promises.added
