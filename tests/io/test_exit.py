import gc

import pytest

from alance.io import exit as exit_module
from alance.io.exit import PRUNE_AT_LEAST, WAIT_S_MAX, OutstandingObjects


class Held:
    """Something that can be watched."""


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(exit_module, "time", clock)
    monkeypatch.setattr("alance.io.exit.atexit.register", lambda _: None)
    return clock


def test_nothing_watched_is_no_wait(clock: Clock) -> None:
    drained: list[int] = []
    OutstandingObjects(lambda: drained.append(1)).wait()
    assert (drained, clock.now_s) == ([], 0.0)


def test_waits_until_all_are_gone(clock: Clock) -> None:
    held = [Held(), Held(), Held()]
    watched = OutstandingObjects(lambda: held and held.pop())
    for one in held:
        assert watched.watch(one) is one
    del one
    watched.wait()
    assert held == []
    assert 0.0 < clock.now_s < 0.01


def test_the_wait_is_bounded(clock: Clock) -> None:
    forever = Held()
    watched = OutstandingObjects(lambda: None)
    watched.watch(forever)
    watched.wait()
    assert WAIT_S_MAX < clock.now_s < WAIT_S_MAX + 0.1


def test_objects_in_cycles_are_collected(clock: Clock) -> None:
    watched = OutstandingObjects(lambda: None)
    gc.disable()
    try:
        ring = Held()
        ring.itself = ring  # type: ignore[attr-defined]
        watched.watch(ring)
        del ring
        watched.wait()
    finally:
        gc.enable()
    assert clock.now_s < 0.1


def test_a_child_process_waits_for_nothing(clock: Clock) -> None:
    watched = OutstandingObjects(lambda: None)
    forever = watched.watch(Held())
    watched.forget()
    watched.wait()
    assert (type(forever), clock.now_s) == (Held, 0.0)


def test_the_list_does_not_grow_with_what_is_gone(clock: Clock) -> None:
    watched = OutstandingObjects(lambda: None)
    alive = [watched.watch(Held()) for _ in range(10)]
    for _ in range(20 * PRUNE_AT_LEAST):
        watched.watch(Held())
    assert len(watched._watched) <= PRUNE_AT_LEAST
    assert {id(one) for one in alive} <= {id(ref()) for ref in watched._watched}
    assert clock.now_s == 0.0
