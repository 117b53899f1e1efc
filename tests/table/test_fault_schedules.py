"""Several faults in one commit, wherever they may fall: what it is told is what became of it."""

from __future__ import annotations

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alance.errors import AlanceError, PermissionDeniedError, StoreError, StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.manifest import Manifest
from tests.table.entries import StoreWithEntries
from tests.table.samples import put
from tests.table.test_commit_faults import MAKES, SCENARIOS, Make, Scenario, check

KINDS = (StoreError, StoreTimeoutError, PermissionDeniedError)

schedules = st.dictionaries(
    st.integers(0, 40), st.tuples(st.sampled_from(Moment), st.sampled_from(KINDS)), max_size=12
)
"""Number of a request -> the error that it meets, before its effect or after it."""


class Schedule:
    """Fails the requests that it lists, counted from the first one after it was made."""

    def __init__(self, faults: dict[int, tuple[Moment, type[StoreError]]]) -> None:
        self.faults = faults
        self.count = -1
        self.numbers: dict[Request, int] = {}

    async def __call__(self, request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            self.count += 1
            self.numbers[request] = self.count
        when, kind = self.faults.get(self.numbers[request], (None, StoreError))
        if when is moment:
            raise kind("told to fail", path=request.path)


async def run(
    make: Make, scenario: Scenario, faults: dict[int, tuple[Moment, type[StoreError]]]
) -> None:
    store = make()
    transaction, base = await scenario(store)
    store.hook = Schedule(faults)
    told: Manifest | AlanceError
    try:
        told = await put(store, transaction, base)
    except AlanceError as exc:
        told = exc
    await check(store, told)
    await check_whole(store)


async def check_whole(store: SimulatedStore) -> None:
    """Whatever an entry names is there."""
    if isinstance(store, StoreWithEntries):
        named = {entry.path for entry in store.entries.entries.values()}
        assert named <= store.objects.keys()


@pytest.mark.parametrize("make", MAKES)
@given(scenario=st.sampled_from(SCENARIOS), faults=schedules)
def test_any_faults(
    make: Make, scenario: Scenario, faults: dict[int, tuple[Moment, type[StoreError]]]
) -> None:
    asyncio.run(run(make, scenario, faults))
