"""What a session keeps of what it has read: one limit of bytes over values of several kinds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

__all__ = ["ByteCache", "CacheKind", "CacheStats", "CachedBytes"]


class Sized(Protocol):
    """What can say how many bytes it holds; that may grow while it is cached."""

    @property
    def cached_bytes(self) -> int:
        """Bytes held now."""
        ...


V = TypeVar("V", bound=Sized)
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CachedBytes:
    """Bytes of an object, on their own."""

    data: memoryview

    @property
    def cached_bytes(self) -> int:
        """Bytes held."""
        return self.data.nbytes


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How one kind of values has been of use.

    Attributes
    ----------
    num_hits, num_misses
        How often a value was asked for, and was there or was not.
    num_values, num_bytes
        What is kept now; sizes are those when values were last counted.
    """

    num_hits: int
    num_misses: int
    num_values: int
    num_bytes: int


class ByteCache:
    """Values of several kinds, bounded by the bytes that they hold together.

    The least recently used goes first, of whatever kind. Keys name what can never change: data and
    deletion files are written once under a name that is never used again, and whatever may be
    replaced under its name has an ETag in its key.

    Values grow while they are cached, so their sizes are taken again: of one when it is touched, of
    all when as many have been touched as there are. That keeps the cost of a touch constant,
    however many there are, and what grew unseen small.

    Parameters
    ----------
    bytes_max
        When the values hold more, the least recently used go until they fit; the last one stays.
        0 keeps nothing.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._values: OrderedDict[_Key, tuple[Sized, CacheKind[Sized]]] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._total = 0
        self._num_touched = 0

    def __contains__(self, key: _Key) -> bool:
        return key in self._values

    @property
    def num_bytes(self) -> int:
        """Bytes that all values hold, as they were last counted."""
        return self._total

    def get(self, key: _Key) -> Sized | None:
        """Value of a key, which becomes the most recently used; None when there is none."""
        found = self._values.get(key)
        if found is None:
            return None
        self._touch(key)
        return found[0]

    def put(self, key: _Key, value: Sized, kind: CacheKind[Sized]) -> Sized:
        """Keep a value, or the one that another task has put first; returns the one kept."""
        if not self._bytes_max:
            return value
        kept, _ = self._values.setdefault(key, (value, kind))
        kind.num_values += kept is value
        self._touch(key)
        return kept

    def _touch(self, key: _Key) -> None:
        """Make a value the most recently used, and let others go while all hold too much."""
        self._values.move_to_end(key)
        self._measure(key)
        self._num_touched += 1
        if self._num_touched >= len(self._values):
            self._num_touched = 0
            for each in self._values:
                self._measure(each)
        while self._total > self._bytes_max and len(self._values) > 1:
            gone, (_, kind) = self._values.popitem(last=False)
            size = self._sizes.pop(gone)
            self._total -= size
            kind.num_bytes -= size
            kind.num_values -= 1

    def _measure(self, key: _Key) -> None:
        value, kind = self._values[key]
        size = value.cached_bytes
        grown = size - self._sizes.get(key, 0)
        self._total += grown
        kind.num_bytes += grown
        self._sizes[key] = size


class CacheKind(Generic[V]):
    """Values of one kind in a cache, and how often they were of use.

    Parameters
    ----------
    cache
        Where they are kept, with those of other kinds.
    """

    def __init__(self, cache: ByteCache) -> None:
        self._cache = cache
        self._num_hits = 0
        self._num_misses = 0
        self.num_values = 0
        self.num_bytes = 0

    def __len__(self) -> int:
        return self.num_values

    def __contains__(self, key: _Key) -> bool:
        return (id(self), *key) in self._cache

    def get(self, key: _Key) -> V | None:
        """Value of a key, which becomes the most recently used; None when there is none."""
        found = self._cache.get((id(self), *key))
        if found is None:
            self._num_misses += 1
            return None
        self._num_hits += 1
        return cast("V", found)

    def put(self, key: _Key, value: V) -> V:
        """Keep a value, or the one that another task has put first; returns the one kept."""
        kind = cast("CacheKind[Sized]", self)
        return cast("V", self._cache.put((id(self), *key), value, kind))

    def stats(self) -> CacheStats:
        """How they have been of use so far."""
        return CacheStats(self._num_hits, self._num_misses, self.num_values, self.num_bytes)
