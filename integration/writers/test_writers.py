"""Eight processes of two libraries on one dataset: no acknowledged row is lost or there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.writers.scenario import Scenario, all_finish, some_are_killed

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


async def test_all_finish(tmp_path: Path) -> None:
    scenario = Scenario()
    promises = await all_finish(scenario, tmp_path)
    assert len(promises.added) > len(scenario.writers) * scenario.changes
    assert promises.removed


async def test_some_are_killed(tmp_path: Path) -> None:
    promises = await some_are_killed(Scenario(), tmp_path, kills=12)
    assert promises.added
    assert promises.removed
