"""Deletions of which any request fails, or is where the caller gives up: nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

import alance
from alance.io.simulated import Moment, Request, SimulatedStore
from tests.dataset.helpers import ROOT, column_a, nothing_left, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

REQUESTS_MAX = 100

BEFORE = [i for i in range(40) if i != 7]
AFTER = [i for i in range(21) if i not in (7, 8, 9)]


class Trial:
    """One deletion with one fault.

    Parameters
    ----------
    conflict
        Whether another writer has deleted one of the rows, so that there is a second run.
    """

    def __init__(self, *, conflict: bool) -> None:
        self.conflict = conflict
        self.store = SimulatedStore()
        self.session = alance.Session()
        self.left_at_most = 0
        """Files whose removal was made to fail."""

    async def run(self, number: int, moment: Moment, act: Callable[[], object]) -> bool:
        """Delete, with `act` at one of the requests; False if there were not so many."""
        await write_on(self.session, self.store, numbers(0, 40), "create")
        ds = await (await open_on(self.session, self.store)).delete("a = 7")
        if self.conflict:
            await ds.delete("a = 8")
        num_before, acted = len(self.store.requests), False

        async def hook(request: Request, when: Moment) -> None:
            nonlocal acted
            if request.number - num_before == number and when is moment:
                acted = True
                self.left_at_most = int(request.kind == "delete")
                act()

        self.store.hook = hook
        try:
            async with nothing_left(self.session):
                await ds.delete("a in (8, 9) or a > 20")
        finally:
            self.store.hook = None
        return acted

    async def check(self) -> bool:
        """Look at what is left, which is one of two things; whether the rows are gone."""
        ds = await open_on(alance.Session(), self.store)
        for info in await ds.versions():
            await (await ds.checkout(info["version"])).to_table()
        rows, version = column_a(await ds.to_table()), ds.version - self.conflict
        if version == 2:
            assert rows == [i for i in BEFORE if not (self.conflict and i == 8)]
        else:
            assert (version, rows) == (3, AFTER)
        return version == 3

    @property
    def num_deletion_files(self) -> int:
        return sum(path.startswith(f"{ROOT}/_deletions/") for path in self.store.objects)


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("conflict", [False, True])
async def test_a_request_that_fails(moment: Moment, conflict: bool) -> None:
    def fail() -> None:
        raise alance.StoreError("not now")

    for number in range(REQUESTS_MAX):
        trial = Trial(conflict=conflict)
        try:
            acted = await trial.run(number, moment, fail)
        except alance.CommitStateUnknownError:
            await trial.check()
        except alance.StoreError:
            assert not await trial.check()
            assert trial.num_deletion_files == 1 + conflict, f"left by request {number}"
        else:
            assert await trial.check()
            assert 0 <= trial.num_deletion_files - 2 - conflict <= trial.left_at_most
            if not acted:
                assert number >= 4
                return
    raise AssertionError("there is always one more request")


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("conflict", [False, True])
@pytest.mark.parametrize("native", [False, True], ids=["scope", "task"])
async def test_a_caller_that_gives_up(moment: Moment, conflict: bool, native: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in range(REQUESTS_MAX):
        trial, acted = Trial(conflict=conflict), False
        with anyio.CancelScope() as scope:
            try:
                acted = await trial.run(number, moment, task.cancel if native else scope.cancel)
                await anyio.lowlevel.checkpoint()  # asked for, but no wait was left
            except asyncio.CancelledError:
                acted = True
                if not native:
                    raise
                task.uncancel()
        if not await trial.check():
            assert trial.num_deletion_files == 1 + conflict, f"left by request {number}"
        if not acted and not scope.cancelled_caught:
            assert number >= 4
            return
    raise AssertionError("there is always one more request")
