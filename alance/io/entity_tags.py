"""Which object stood at a path when it was last looked at, by its entity tag."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["EntityTags"]


class EntityTags:
    """The tags of the paths that were looked at last.

    Parameters
    ----------
    num_most
        Paths that are remembered.
    """

    def __init__(self, num_most: int) -> None:
        self._num_most = num_most
        self._tags: OrderedDict[str, str] = OrderedDict()

    def note(self, path: str, tag: str | None) -> None:
        """Take note of a new look at a path; None when it is about to be replaced."""
        self._tags.pop(path, None)
        if tag is not None:
            self._tags[path] = tag
            if len(self._tags) > self._num_most:
                self._tags.popitem(last=False)

    def is_same(self, path: str, tag: str) -> bool:
        """Whether this may be the object that was seen before; another one is forgotten."""
        known = self._tags.get(path)
        if known is not None and known != tag:
            self.note(path, None)
            return False
        self.note(path, tag)
        return True
