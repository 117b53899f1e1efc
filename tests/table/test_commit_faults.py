"""A fault at every point of a commit where one can be, and what must hold whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from alance.errors import (
    AlanceError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
)
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.manifest import Manifest
from alance.table.transaction import Transaction, build_overwrite
from alance.table.transactions import read_transaction
from alance.table.versions import list_stored_versions, read_manifest
from tests.table.entries import StoreWithEntries
from tests.table.samples import append, at, creation, fragment, paths, put, schema

pytestmark = pytest.mark.anyio

MINE = "mine"


async def appending(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    base = await put(store, creation(), None)
    return append(base, MINE), base


async def losing_a_race(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    base = await put(store, creation(), None)
    await put(store, append(base, "theirs"), base)
    return append(base, MINE), base


async def falling_behind(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    base = head = await put(store, creation(), None)
    for i in range(3):
        head = await put(store, append(head, f"theirs{i}"), head)
    return append(base, MINE), base


async def conflicting(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    base = await put(store, creation(), None)
    await put(store, build_overwrite(base, schema(), [], uuid="theirs"), base)
    return append(base, MINE), base


async def overwriting(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    base = await put(store, creation(), None)
    await put(store, append(base, "theirs"), base)
    return build_overwrite(base, schema(), [fragment(MINE)], uuid=MINE), base


async def creating(store: SimulatedStore) -> tuple[Transaction, Manifest | None]:
    return creation(MINE), None


Scenario = Callable[[SimulatedStore], Awaitable[tuple[Transaction, Manifest | None]]]
SCENARIOS: list[Scenario] = [
    appending,
    losing_a_race,
    falling_behind,
    conflicting,
    overwriting,
    creating,
]


Make = Callable[[], SimulatedStore]
MAKES: list[Make] = [SimulatedStore, StoreWithEntries]
"""Versions guarded by conditional puts, and by entries beside a store that ignores conditions."""


class Fault:
    """Something that happens once, at a chosen point among all before and after requests."""

    def __init__(self, point: int, act: Callable[[str], object]) -> None:
        self.left = point
        self.act = act
        self.happened = False

    async def __call__(self, request: Request, moment: Moment) -> None:
        self.left -= 1
        if self.left < 0 and not self.happened:
            self.happened = True
            self.act(request.path)


async def check(store: SimulatedStore, told: Manifest | AlanceError | None) -> None:
    """Versions form one line, nothing is there twice, and what was told is true."""
    store.hook = None
    try:
        versions = [stored.version for stored in await list_stored_versions(at(store))]
    except DatasetNotFoundError:
        assert not isinstance(told, Manifest)
        return
    assert versions == list(range(1, len(versions) + 1))
    landed: list[int] = []
    for version in versions:
        manifest = await read_manifest(at(store), version)
        ids = [f.id for f in manifest.fragments]
        assert len(set(ids)) == len(ids)
        assert len(set(paths(manifest))) == len(paths(manifest))
        transaction = await read_transaction(at(store), manifest)
        assert transaction is not None
        if transaction.uuid == MINE:
            landed.append(version)
            assert MINE in paths(manifest)
    assert len(landed) <= 1
    if isinstance(told, Manifest):
        assert landed == [told.version]
        assert told == await read_manifest(at(store), told.version)
    elif told is not None and not isinstance(told, CommitStateUnknownError):
        assert landed == []


def cancel_scope(scope: anyio.CancelScope, _: str) -> None:
    scope.cancel()


async def every_point(
    make: Make,
    scenario: Scenario,
    act: Callable[[str], None],
    told: list[Manifest | AlanceError | None],
) -> int:
    """Run a scenario with the fault at each point in turn; how many points there are."""
    for point in range(200):
        store = make()
        transaction, base = await scenario(store)
        store.hook = fault = Fault(point, act)
        answer: Manifest | AlanceError | None = None
        try:
            answer = await put(store, transaction, base)
        except AlanceError as exc:
            answer = exc
        told.append(answer)
        await check(store, answer)
        if not fault.happened:
            return point
    raise AssertionError("the commit does not end")


@pytest.mark.parametrize("error", [StoreTimeoutError, StoreError, PermissionDeniedError])
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_failed_request_anywhere(
    make: Make, scenario: Scenario, error: type[StoreError]
) -> None:
    def fail(path: str) -> None:
        raise error("told to fail", path=path)

    told: list[Manifest | AlanceError | None] = []
    assert await every_point(make, scenario, fail, told) >= 4
    if scenario is appending and error is not PermissionDeniedError:
        assert all(isinstance(answer, Manifest) for answer in told)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_cancelled_scope_anywhere(make: Make, scenario: Scenario) -> None:
    points = 0
    for point in range(200):
        store = make()
        transaction, base = await scenario(store)
        answer: Manifest | AlanceError | None = None
        with anyio.CancelScope() as scope:
            store.hook = fault = Fault(point, partial(cancel_scope, scope))
            try:
                answer = await put(store, transaction, base)
            except AlanceError as exc:
                answer = exc
        await check(store, answer)
        if not fault.happened:
            break
        points += 1
    assert points >= 4


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_cancelled_task_anywhere(make: Make, scenario: Scenario) -> None:
    """As `asyncio.timeout` does it, which no shield holds off."""
    task = asyncio.current_task()
    assert task is not None
    points = 0
    for point in range(200):
        store = make()
        transaction, base = await scenario(store)
        store.hook = fault = Fault(point, lambda _: task.cancel())
        answer: Manifest | AlanceError | None = None
        try:
            answer = await put(store, transaction, base)
        except AlanceError as exc:
            answer = exc
        except asyncio.CancelledError:
            task.uncancel()
        if task.cancelling():  # asked for, but the commit had no wait left
            with pytest.raises(asyncio.CancelledError):
                await anyio.lowlevel.checkpoint()
            task.uncancel()
        await check(store, answer)
        if not fault.happened:
            break
        points += 1
    assert points >= 4


async def test_a_manifest_once_sent_arrives_whatever_cancels() -> None:
    task = asyncio.current_task()
    assert task is not None
    store = SimulatedStore()
    transaction, base = await appending(store)

    async def cancel(request: Request, moment: Moment) -> None:
        if request.kind == "put_if_absent" and moment is Moment.BEFORE:
            task.cancel()
            await anyio.lowlevel.checkpoint()  # would end the put here

    store.hook = cancel
    with pytest.raises(asyncio.CancelledError):
        await put(store, transaction, base)
    task.uncancel()
    store.hook = None
    assert MINE in paths(await read_manifest(at(store)))


async def test_a_manifest_once_sent_arrives_though_its_scope_is_cancelled() -> None:
    store = SimulatedStore()
    transaction, base = await appending(store)
    with anyio.CancelScope() as scope:

        async def cancel(request: Request, moment: Moment) -> None:
            if request.kind == "put_if_absent" and moment is Moment.BEFORE:
                scope.cancel()
                await anyio.lowlevel.checkpoint()  # would end the put here

        store.hook = cancel
        await put(store, transaction, base)
    assert scope.cancel_called
    store.hook = None
    assert MINE in paths(await read_manifest(at(store)))


async def test_a_timeout_of_asyncio_ends_as_a_timeout() -> None:
    store = SimulatedStore()
    transaction, base = await appending(store)
    deadline = asyncio.timeout(None)

    async def expire(request: Request, moment: Moment) -> None:
        if request.kind == "put_if_absent" and moment is Moment.BEFORE:
            deadline.reschedule(0.0)
            while not deadline.expired():
                await anyio.lowlevel.checkpoint()

    async def limited() -> None:
        async with deadline:
            await put(store, transaction, base)

    store.hook = expire
    with pytest.raises(TimeoutError):
        await limited()
    store.hook = None
    assert MINE in paths(await read_manifest(at(store)))
