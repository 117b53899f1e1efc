"""The cache of opened files: bounded by bytes, the least recently used go first."""

from __future__ import annotations

from dataclasses import dataclass

from alance.file.cache import FileCache


@dataclass
class Value:
    size: int
    num_measured: int = 0

    @property
    def cached_bytes(self) -> int:
        self.num_measured += 1
        return self.size


def test_keeps_what_was_put_first() -> None:
    cache: FileCache[Value] = FileCache(100)
    first, second = Value(1), Value(2)
    assert cache.get(("a",)) is None
    assert cache.put(("a",), first) is first
    assert cache.put(("a",), second) is first
    assert cache.get(("a",)) is first
    assert len(cache) == 1


def test_the_least_recently_used_go_when_there_is_too_much() -> None:
    cache: FileCache[Value] = FileCache(100)
    for name in "abc":
        cache.put((name,), Value(30))
    assert cache.get(("a",)) is not None
    cache.put(("d",), Value(40))
    assert len(cache) == 3
    assert cache.get(("b",)) is None, "it was used least recently"
    assert all(cache.get((name,)) is not None for name in "acd")


def test_one_that_is_too_large_stays_alone() -> None:
    cache: FileCache[Value] = FileCache(100)
    cache.put(("a",), Value(10))
    large = cache.put(("b",), Value(500))
    assert cache.get(("b",)) is large
    assert len(cache) == 1


def test_growth_counts() -> None:
    cache: FileCache[Value] = FileCache(100)
    values = [cache.put((name,), Value(10)) for name in "abc"]
    values[0].size = 95
    for _ in range(len(values)):
        cache.get(("c",))
    assert cache.get(("a",)) is None, "what grew went, as it was used least recently"
    assert cache.get(("b",)) is values[1]


def test_a_touch_costs_the_same_however_many_there_are() -> None:
    cache: FileCache[Value] = FileCache(1 << 40)
    values = [cache.put((i,), Value(1)) for i in range(2000)]
    for i in range(2000):
        cache.get((i,))
    assert sum(value.num_measured for value in values) < 10 * 2 * len(values)
