from __future__ import annotations

import anyio
import pytest

from alance.io.client import StoreClients
from alance.io.link import Link, StoreStats
from alance.io.simulated import SimulatedStore
from alance.io.slots import Slots
from alance.limits import Limits

pytestmark = pytest.mark.anyio

MIB = 1 << 20


class Near(SimulatedStore):
    """A store whose requests are cheap."""

    @property
    def request_cost_bytes(self) -> int:
        return 128 << 10


@pytest.mark.parametrize(
    ("limits", "gap_bytes"),
    [
        (Limits(), 128 << 10),
        (Limits(merge_gap_bytes_max=1000), 1000),
        (Limits(merge_gap_bytes=0), 0),
        (Limits(merge_gap_bytes=5000), 5000),
        (Limits(merge_gap_bytes=5000, merge_gap_bytes_max=100), 100),
    ],
)
def test_gaps_are_bounded_and_may_be_fixed(limits: Limits, gap_bytes: int) -> None:
    assert Link(Near(), limits).merge_gap_bytes == gap_bytes


def test_what_is_learned_counts_unless_it_is_fixed() -> None:
    for limits, gap_bytes in ((Limits(), MIB), (Limits(merge_gap_bytes=7), 7)):
        link = Link(Near(), limits, learns=True)
        for _ in range(40):
            link.answered(1000, 0.3)
            link.answered(8 * MIB, 0.4)
        assert link.merge_gap_bytes == gap_bytes
        assert link.stats.latency_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("limits", "num_bytes", "num_free", "request_bytes"),
    [
        pytest.param(Limits(), 40 * MIB, 64, 5 * MIB // 2, id="latency times bandwidth"),
        pytest.param(Limits(), 640 * MIB, 64, 10 * MIB, id="no more parts than may be sent"),
        pytest.param(Limits(), 40 * MIB, 3, 40 * MIB // 3 + 1, id="rounded up"),
        pytest.param(Limits(), 40 * MIB, 0, 16 * MIB, id="nothing is free"),
        pytest.param(Limits(), 40 * MIB, -5, 16 * MIB, id="less than nothing is free"),
        pytest.param(Limits(request_bytes=MIB), 40 * MIB, 64, MIB, id="fixed"),
        pytest.param(Limits(request_bytes_max=1000), 40 * MIB, 64, 1000, id="bounded"),
    ],
)
def test_reads_are_cut_for_the_connections_that_are_free(
    limits: Limits, num_bytes: int, num_free: int, request_bytes: int
) -> None:
    link = Link(Near(), limits, learns=True)
    assert link.request_bytes(num_bytes, num_free) == request_bytes


def test_what_is_near_is_cut_only_if_it_must_be() -> None:
    assert Link(Near(), Limits()).request_bytes(40 * MIB, 64) == 16 * MIB
    assert Link(Near(), Limits(request_bytes=MIB)).request_bytes(40 * MIB, 64) == MIB


def test_only_stores_behind_a_network_are_learned() -> None:
    clients = StoreClients(Limits())
    for uri in ("memory://x", "/tmp", "s3://bucket/x"):
        store, _ = clients.open(uri, {"region": "r"})
        link = clients._gate.link(store.store)
        for _ in range(40):
            link.answered(1000, 0.3)
    assert clients.store_stats == (
        StoreStats("memory://", 128, None, None, 16 << 10),
        StoreStats("file://", 128, None, None, 64 << 10),
        StoreStats("s3://bucket", 128, 0.3, None, 128 << 10),
    )


async def test_slots_may_become_fewer_and_more() -> None:
    slots = Slots(2)
    line = slots.line()
    held: list[int] = []

    async def hold(number: int) -> None:
        await slots.line().acquire(number)
        held.append(number)

    async with anyio.create_task_group() as tg:
        for number in range(5):
            tg.start_soon(hold, number)
        await anyio.wait_all_tasks_blocked()
        slots.resize(1)
        line.release()
        await anyio.wait_all_tasks_blocked()
        assert held == [0, 1], "one slot too many is held, so none is given out"
        line.release()
        await anyio.wait_all_tasks_blocked()
        assert held == [0, 1, 2]
        slots.resize(3)
        await anyio.wait_all_tasks_blocked()
        assert held == [0, 1, 2, 3, 4]
        assert not line.take_free()
