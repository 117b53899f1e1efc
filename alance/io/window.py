"""Pure: how many requests a store may be sent at once, by what it answers."""

from __future__ import annotations

__all__ = ["Window"]


class Window:
    """Halves when a store says "slow down", and grows again while it answers.

    As in TCP: up to half of what was too much it grows by one for each answer, beyond by about one
    for a whole window of answers. Refusals of requests that were sent before the last halving say
    nothing new.

    Parameters
    ----------
    num_most
        Requests at once when nothing speaks against it.
    """

    __slots__ = ("_epoch", "_has_answered", "_num_careful", "_num_most", "_size")

    def __init__(self, num_most: int) -> None:
        self._num_most = num_most
        self._num_careful = float(num_most)
        self._size = float(num_most)
        self._epoch = 0
        self._has_answered = True

    @property
    def num_slots(self) -> int:
        """Requests that may be under way at once, at least 1."""
        return int(self._size)

    @property
    def epoch(self) -> int:
        """Halvings so far: to be noted when a request is sent."""
        return self._epoch

    def answered(self) -> None:
        """Take note of a request that succeeded."""
        self._has_answered = True
        if self._size < self._num_most:
            step = 1.0 if self._size < self._num_careful else 1.0 / self._size
            self._size = min(self._size + step, float(self._num_most))

    def refused(self, epoch: int) -> None:
        """Take note of a request, sent in `epoch`, that came too soon."""
        if epoch == self._epoch:
            self._epoch += 1
            self._size = max(self._size / 2, 1.0)
            if self._has_answered:  # else it is still the same storm, and says nothing of how much
                self._num_careful = self._size
            self._has_answered = False
