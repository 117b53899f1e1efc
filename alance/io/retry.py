"""Pure: whether a failed request is sent again, and when."""

from __future__ import annotations

import random

from alance.errors import StoreError
from alance.limits import Limits

__all__ = ["RetryBudget", "is_refused_for_now", "may_repeat", "pause_s"]

PAUSE_S = 0.05
PAUSE_S_MAX = 5.0


class RetryBudget:
    """Retries that a session has left: each takes one, each success gives one back.

    Parameters
    ----------
    most
        What it begins with, and never has more of.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def take(self) -> bool:
        """Take one, if there is one."""
        if self._left > 0:
            self._left -= 1
            return True
        return False

    def give_back(self) -> None:
        """Take note of a request that succeeded."""
        self._left = min(self._left + 1, self._most)


def is_refused_for_now(error: StoreError) -> bool:
    """Whether the store asks to be asked less."""
    return error.status in {429, 503}


def may_repeat(error: StoreError, *, idempotent: bool) -> bool:
    """Whether a request that failed so may be sent again at all.

    One that must not have its effect twice may be only if it was refused before anything else was
    looked at, as with credentials that have expired.
    """
    return bool(error.transient) and (idempotent or error.status in {401, 403})


def pause_s(tries: int, spent_s: float, limits: Limits, rng: random.Random) -> float | None:
    """How long to wait before the next try.

    Parameters
    ----------
    tries
        That have failed, at least 1.
    spent_s
        Since the first was sent.
    limits
        `retries_max` and `retry_deadline_s` are used.
    rng
        For the jitter: a random part of a time that doubles with each try.

    Returns
    -------
    float or None
        Seconds; None to give up.
    """
    if tries > limits.retries_max:
        return None
    pause = min(PAUSE_S * 2.0 ** min(tries - 1, 16), PAUSE_S_MAX) * rng.random()
    return pause if spent_s + pause <= limits.retry_deadline_s else None
