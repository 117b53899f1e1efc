"""Opened files that a session keeps: metadata and search caches, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

__all__ = ["FileCache"]


class Sized(Protocol):
    """What can say how many bytes it holds; that may grow while it is cached."""

    @property
    def cached_bytes(self) -> int:
        """Bytes held now."""
        ...


V = TypeVar("V", bound=Sized)


class FileCache(Generic[V]):
    """Values by key, bounded by the bytes that they hold together.

    Data files are written once under a name that is never used again, so a key of store, path and
    size cannot become stale. Values grow while they are cached, so their sizes are taken again: of
    one when it is touched, of all when as many have been touched as there are. That keeps the cost
    of a touch constant, however many there are, and what grew unseen small.

    Parameters
    ----------
    bytes_max
        When the values hold more, the least recently used go until they fit; the last one stays.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._values: OrderedDict[tuple[object, ...], V] = OrderedDict()
        self._sizes: dict[tuple[object, ...], int] = {}
        self._total = 0
        self._num_touched = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: tuple[object, ...]) -> bool:
        return key in self._values

    def get(self, key: tuple[object, ...]) -> V | None:
        """Value of a key, which becomes the most recently used; None when there is none."""
        value = self._values.get(key)
        if value is not None:
            self._touch(key, value)
        return value

    def put(self, key: tuple[object, ...], value: V) -> V:
        """Keep a value, or the one that another task has put first; returns the one kept."""
        kept = self._values.setdefault(key, value)
        self._touch(key, kept)
        return kept

    def _touch(self, key: tuple[object, ...], value: V) -> None:
        """Make a value the most recently used, and let others go while all hold too much."""
        self._values.move_to_end(key)
        self._measure(key, value)
        self._num_touched += 1
        if self._num_touched >= len(self._values):
            self._num_touched = 0
            for each in self._values.items():
                self._measure(*each)
        while self._total > self._bytes_max and len(self._values) > 1:
            gone, _ = self._values.popitem(last=False)
            self._total -= self._sizes.pop(gone)

    def _measure(self, key: tuple[object, ...], value: V) -> None:
        size = value.cached_bytes
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size
