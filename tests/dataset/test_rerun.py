"""Changes that are run again: how often, after which pauses, and on which version."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import alance
from alance.dataset.rerun import Patience, RerunPolicy, run_again
from tests.dataset.helpers import ROOT, column_a, numbers

pytestmark = pytest.mark.anyio

CONFLICT = alance.RetryableCommitError("overtaken", read_version=3, version=4, uuid="u")


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def patience(clock: Clock, **policy: Any) -> Patience:
    return Patience(RerunPolicy(**policy), rng=random.Random(5), clock=clock)


async def latest(state: int) -> int:
    return state + 1


async def test_each_run_gets_the_newest_state() -> None:
    clock, seen = Clock(), []

    async def change(state: int) -> str:
        seen.append(state)
        if len(seen) < 4:
            raise CONFLICT
        return "done"

    assert await run_again(change, 7, latest, patience(clock), sleep=clock.sleep) == "done"
    assert seen == [7, 8, 9, 10]
    assert clock.slept[0] == 0
    assert 0 < clock.slept[1] < 0.1
    assert 0 < clock.slept[2] < 0.2


async def test_pauses_double_up_to_their_bound() -> None:
    policy, rng = RerunPolicy(backoff_s=1, backoff_max_s=10), random.Random(5)
    longest = [max(policy.pause_s(failures, rng) for _ in range(500)) for failures in range(1, 9)]
    assert [round(each + 0.05) for each in longest] == [0, 1, 2, 4, 8, 10, 10, 10]
    assert policy.pause_s(10_000, rng) <= 10


@pytest.mark.parametrize("retries", [1, 10])
async def test_retries_are_counted(retries: int) -> None:
    clock, runs = Clock(), 0

    async def change(state: int) -> None:
        nonlocal runs
        runs += 1
        raise CONFLICT

    with pytest.raises(
        alance.CommitContentionError, match=f"first {retries + 1} times .* overtaken"
    ) as info:
        await run_again(change, 0, latest, patience(clock, retries=retries), sleep=clock.sleep)
    assert runs == retries + 1
    assert info.value.__cause__ is CONFLICT
    assert (info.value.read_version, info.value.version, info.value.uuid) == (3, 4, "u")


async def test_without_retries_the_conflict_is_raised_as_it_is() -> None:
    clock = Clock()

    async def change(state: int) -> None:
        raise CONFLICT

    with pytest.raises(alance.RetryableCommitError) as info:
        await run_again(change, 0, latest, patience(clock, retries=0), sleep=clock.sleep)
    assert info.value is CONFLICT


async def test_no_run_begins_after_the_timeout() -> None:
    clock, runs = Clock(), 0

    async def change(state: int) -> None:
        nonlocal runs
        runs += 1
        await clock.sleep(12)
        raise CONFLICT

    with pytest.raises(alance.CommitContentionError):
        await run_again(change, 0, latest, patience(clock), sleep=clock.sleep)
    assert runs == 3  # begun after 0, 12 and a little more than 24 seconds


async def test_other_errors_end_it() -> None:
    clock = Clock()

    async def change(state: int) -> None:
        raise alance.CommitConflictError("meaningless")

    with pytest.raises(alance.CommitConflictError):
        await run_again(change, 0, latest, patience(clock), sleep=clock.sleep)
    assert clock.slept == []


@pytest.mark.parametrize(
    ("retries", "timeout", "says"),
    [
        (-1, timedelta(0), "conflict_retries must be a whole number from 0"),
        (1.5, timedelta(0), "conflict_retries must be a whole number from 0"),
        (1, timedelta(-1), "retry_timeout must be a timedelta from 0"),
        (1, 30, "retry_timeout must be a timedelta from 0, not 30"),
    ],
)
async def test_what_is_no_policy(tmp_path: Path, retries: Any, timeout: Any, says: str) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    with pytest.raises(alance.InvalidInputError, match=says):
        await ds.delete("a = 1", conflict_retries=retries, retry_timeout=timeout)
    with pytest.raises(alance.InvalidInputError, match=says):
        await ds.retrying(alance.Dataset.latest, conflict_retries=retries, retry_timeout=timeout)


async def test_a_change_of_ones_own_sees_what_others_did(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 10), tmp_path / ROOT)
    archives: list[list[int]] = []

    async def archive(old: alance.Dataset) -> alance.Dataset:
        archives.append(column_a(await old.to_table(filter="a < 5")))
        if len(archives) == 1:
            await (await old.append(numbers(-2, 0))).delete("a = 3")
        return await old.delete("a < 5", conflict_retries=0)

    after = await ds.retrying(archive)
    assert archives == [[0, 1, 2, 3, 4], [0, 1, 2, 4, -2, -1]]
    assert column_a(await after.to_table()) == [5, 6, 7, 8, 9]
    assert after.version == 4


def test_the_same_without_await(tmp_path: Path) -> None:
    ds = alance.sync.write_dataset(numbers(0, 10), tmp_path / ROOT)
    seen: list[int] = []

    def change(old: alance.sync.Dataset) -> int:
        seen.append(old.version)
        if len(seen) == 1:
            ds.delete("a = 3")
        return old.delete("a < 5", conflict_retries=0).version

    assert ds.retrying(change) == 3
    assert seen == [1, 2]
    with pytest.raises(alance.RetryableCommitError):
        ds.retrying(lambda old: old.delete("a = 0", conflict_retries=0), conflict_retries=0)
