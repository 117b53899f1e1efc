"""The simulated store keeps the protocol, and fails exactly when told to."""

from datetime import UTC, datetime

import pytest

from alance.errors import AlreadyExistsError, ObjectNotFoundError, StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.io.store import ObjectStore
from alance.testing.store_conformance import StoreConformance

pytestmark = pytest.mark.anyio


class TestSimulated(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return SimulatedStore(start=datetime.now(UTC))


class TestUnordered(StoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return SimulatedStore(start=datetime.now(UTC), lists_in_order=False)


async def test_a_hook_before_stops_the_effect() -> None:
    store = SimulatedStore()

    async def refuse(request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            raise StoreTimeoutError("down", path=request.path)

    store.hook = refuse
    with pytest.raises(StoreTimeoutError):
        await store.put("a", b"1")
    assert store.objects == {}


async def test_a_hook_after_loses_the_answer() -> None:
    store = SimulatedStore()

    async def lose(request: Request, moment: Moment) -> None:
        if moment is Moment.AFTER:
            raise StoreTimeoutError("lost", path=request.path)

    store.hook = lose
    with pytest.raises(StoreTimeoutError):
        await store.put_if_absent("a", b"1")
    assert store.objects == {"a": b"1"}


async def test_requests_are_numbered_in_order() -> None:
    store = SimulatedStore()
    await store.put("a", b"1")
    with pytest.raises(ObjectNotFoundError):
        await store.head("b")
    assert store.requests == [Request(0, "put", "a"), Request(1, "head", "b")]


async def test_a_store_that_ignores_the_condition() -> None:
    store = SimulatedStore(honours_condition=False)
    await store.put_if_absent("a", b"1")
    await store.put_if_absent("a", b"2")
    assert store.objects == {"a": b"2"}
    store = SimulatedStore()
    await store.put_if_absent("a", b"1")
    with pytest.raises(AlreadyExistsError):
        await store.put_if_absent("a", b"2")
    assert store.objects == {"a": b"1"}


async def test_unordered_listings_come_in_reverse() -> None:
    store = SimulatedStore(lists_in_order=False)
    for name in ("b", "a", "c"):
        await store.put(f"x/{name}", b"")
    assert [info.path for info in await store.list("x", limit=2)] == ["x/c", "x/b"]
