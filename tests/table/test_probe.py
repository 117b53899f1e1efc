"""Stores that may ignore the condition of puts are asked once, and refused if they do."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from alance.errors import StoreError, StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.probe import ProbedPut, made_ready
from tests.table.samples import ROOT, append, creation, meeting, put

pytestmark = pytest.mark.anyio


def kinds(store: SimulatedStore) -> list[str]:
    return [request.kind for request in store.requests]


def probes(store: SimulatedStore) -> list[str]:
    return [one.kind for one in store.requests if "/probe-" in one.path]


async def test_a_store_is_asked_once() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    base = await put(store, creation(), None, handler=handler)
    assert probes(store) == ["put_if_absent", "put_if_absent", "delete"]
    await put(store, append(base, "x"), base, handler=handler)
    assert len(probes(store)) == 3
    assert not any("/probe-" in path for path in store.objects)


async def test_both_puts_are_under_way_together() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    store.hook = meeting("put_if_absent")
    with anyio.fail_after(5):
        await handler.ready(store, ROOT)


async def test_concurrent_commits_share_one_probe() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    base = await put(store, creation(), None)
    made: list[Manifest] = []

    async def write(name: str) -> None:
        made.append(await put(store, append(base, name), base, handler=handler))

    async with anyio.create_task_group() as tg:
        for i in range(3):
            tg.start_soon(write, f"w{i}")
    assert sorted(one.version for one in made) == [2, 3, 4]
    assert len(probes(store)) == 3


async def test_a_store_that_ignores_the_condition_is_refused() -> None:
    store, handler = SimulatedStore(honours_condition=False), ProbedPut()
    for _ in range(2):
        with pytest.raises(StoreError, match="pass manifest_store=, an external manifest store"):
            await put(store, creation(), None, handler=handler)
    assert store.objects == {}
    assert len(probes(store)) == 3


async def test_a_probe_that_failed_is_made_again() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    failed = False

    async def fail(request: Request, moment: Moment) -> None:
        nonlocal failed
        if request.kind == "put_if_absent" and not failed:
            failed = True
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    with pytest.raises(StoreTimeoutError):
        await handler.ready(store, ROOT)
    assert store.objects == {}
    await handler.ready(store, ROOT)
    assert store.objects == {}


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("honours", [True, False])
async def test_failures_that_pass_do_not_change_the_answer(honours: bool, moment: Moment) -> None:
    store, handler = SimulatedStore(honours_condition=honours), ProbedPut()
    left = 2

    async def fail(request: Request, when: Moment) -> None:
        nonlocal left
        if request.kind == "put_if_absent" and when is moment and left:
            left -= 1
            raise StoreError("slow down", path=request.path, status=503, transient=True)

    store.hook = fail
    if honours:
        await handler.ready(store, ROOT)
    else:
        with pytest.raises(StoreError, match="ignores the condition"):
            await handler.ready(store, ROOT)
    assert store.objects == {}


async def test_whoever_waits_takes_over_a_cancelled_probe() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    first = anyio.CancelScope()

    async def cancel(request: Request, moment: Moment) -> None:
        if request.kind == "put_if_absent" and not first.cancel_called:
            first.cancel()
            await anyio.lowlevel.checkpoint()

    async def leave() -> None:
        with first:
            await handler.ready(store, ROOT)

    store.hook = cancel
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tg:
            tg.start_soon(leave)
            tg.start_soon(handler.ready, store, ROOT)
    assert kinds(store).count("put_if_absent") >= 3
    assert store.objects == {}


async def test_the_probe_runs_beside_the_block() -> None:
    store, handler = SimulatedStore(), ProbedPut()
    table = TableLocation(store, ROOT, handler)
    with anyio.fail_after(5):
        async with made_ready(table):
            while store.objects or not store.requests:
                await anyio.lowlevel.checkpoint()
    unsafe = TableLocation(SimulatedStore(honours_condition=False), ROOT, ProbedPut())
    with pytest.raises(StoreError, match="ignores the condition"):
        async with made_ready(unsafe):
            await anyio.sleep_forever()
