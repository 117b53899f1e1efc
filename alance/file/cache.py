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
    size cannot become stale.

    Parameters
    ----------
    bytes_max
        When the values hold more, the least recently used go until they fit.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._values: OrderedDict[tuple[object, ...], V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: tuple[object, ...]) -> V | None:
        """Value of a key, which becomes the most recently used; None when there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: tuple[object, ...], value: V) -> V:
        """Keep a value, or the one that another task has put first; returns the one kept."""
        kept = self._values.setdefault(key, value)
        self._values.move_to_end(key)
        self.shrink()
        return kept

    def shrink(self) -> None:
        """Let the least recently used go while the rest hold too much."""
        total = sum(value.cached_bytes for value in self._values.values())
        while total > self._bytes_max and len(self._values) > 1:
            _, gone = self._values.popitem(last=False)
            total -= gone.cached_bytes
