"""The cache of opened files: least recently used out first, by the bytes they hold now."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from alance.file.cache import ByteCache, CacheKind


@dataclass
class Held:
    cached_bytes: int


def test_get_and_put() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    assert cache.get(("a",)) is None
    first = Held(10)
    assert cache.put(("a",), first) is first
    assert cache.get(("a",)) is first
    assert len(cache) == 1


def test_the_first_of_two_values_is_kept() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    first = cache.put(("a",), Held(10))
    assert cache.put(("a",), Held(10)) is first
    assert len(cache) == 1


def test_the_least_recently_used_goes_first() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    for name in "abc":
        cache.put((name,), Held(30))
    cache.get(("a",))
    cache.put(("d",), Held(30))
    assert cache.get(("b",)) is None
    assert [cache.get((name,)) is not None for name in "acd"] == [True] * 3


def test_a_value_larger_than_the_cache_stays_alone() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    cache.put(("a",), Held(10))
    big = cache.put(("b",), Held(1000))
    assert cache.get(("b",)) is big
    assert len(cache) == 1
    cache.put(("c",), Held(10))
    assert cache.get(("b",)) is None


def test_values_that_grow_are_counted_again() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    values = [cache.put((i,), Held(10)) for i in range(8)]
    for value in values:
        value.cached_bytes = 40
    for i in range(8):
        cache.get((i,))
    assert len(cache) == 2
    assert cache.get((7,)) is values[7]


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 60), st.booleans())),
)
def test_it_never_holds_more_than_it_may(steps: list[tuple[str, int, bool]]) -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    sizes: dict[str, int] = {}
    for name, num_bytes, is_put in steps:
        if is_put:
            sizes[name] = cache.put((name,), Held(num_bytes)).cached_bytes
        else:
            cache.get((name,))
    kept = [name for name in sizes if cache.get((name,)) is not None]
    assert len(kept) == len(cache)
    assert sum(sizes[name] for name in kept) <= 100


def test_kinds_share_one_limit() -> None:
    shared = ByteCache(100)
    one: CacheKind[Held] = CacheKind(shared)
    other: CacheKind[Held] = CacheKind(shared)
    one.put(("a",), Held(60))
    other.put(("a",), Held(30))
    assert one.get(("a",)) is not other.get(("a",))
    one.put(("b",), Held(50))
    assert (len(one), len(other)) == (1, 1), "the least recently used went, of whatever kind"
    assert shared.num_bytes == 80
    assert ("a",) in other
    assert ("a",) not in one


def test_stats() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(100))
    value = cache.put(("a",), Held(10))
    cache.get(("a",))
    cache.get(("b",))
    value.cached_bytes = 25
    cache.get(("a",))
    found = cache.stats()
    assert (found.num_hits, found.num_misses) == (2, 1)
    assert (found.num_values, found.num_bytes) == (1, 25)


def test_a_limit_of_nothing_keeps_nothing() -> None:
    cache: CacheKind[Held] = CacheKind(ByteCache(0))
    value = Held(10)
    assert cache.put(("a",), value) is value
    assert cache.get(("a",)) is None
