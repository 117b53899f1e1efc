"""Running a change again when another writer was first, until it goes through or patience ends."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import anyio

from alance.errors import (
    CommitContentionError,
    InvalidInputError,
    RetryableCommitError,
    check_count,
)

__all__ = ["CONFLICT_RETRIES", "RETRY_TIMEOUT", "Patience", "RerunPolicy", "run_again"]

CONFLICT_RETRIES = 10
RETRY_TIMEOUT = timedelta(seconds=30)

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RerunPolicy:
    """How often a change is run again.

    Parameters
    ----------
    retries
        Runs after the first one, from 0; then the conflict itself is raised.
    timeout
        No run begins later than this after the first; one that has begun is not cut short.
    backoff_s, backoff_max_s
        Longest pause after the second failed run, which doubles with each one more; and its bound.
        After the first there is none: most conflicts are between two.

    Raises
    ------
    InvalidInputError
        A number or a time that makes no sense.
    """

    retries: int = CONFLICT_RETRIES
    timeout: timedelta = RETRY_TIMEOUT
    backoff_s: float = 0.1
    backoff_max_s: float = 5.0

    def __post_init__(self) -> None:
        check_count("conflict_retries", self.retries, least=0)
        _check_timeout(self.timeout)

    def pause_s(self, failures: int, rng: random.Random) -> float:
        """Pause after so many failed runs, from 1: a random part of the longest."""
        if failures == 1:
            return 0.0
        longest = min(self.backoff_s * 2.0 ** min(failures - 2, 32), self.backoff_max_s)
        return longest * rng.random()


def _check_timeout(timeout: object) -> None:
    if not isinstance(timeout, timedelta) or timeout < timedelta(0):
        raise InvalidInputError(f"retry_timeout must be a timedelta from 0, not {timeout!r}")


class Patience:
    """Counts the failed runs of one change; begins with its first run.

    Parameters
    ----------
    policy
        When to give up.
    rng
        For the jitter of pauses; None makes one.
    clock
        Seconds from anywhere.
    """

    def __init__(
        self,
        policy: RerunPolicy,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._rng = random.Random() if rng is None else rng
        self._clock = clock
        self._began_s = clock()
        self._failures = 0

    def pause_s(self, error: RetryableCommitError) -> float:
        """Take note of a failed run, and say how long to wait before the next.

        Raises
        ------
        CommitContentionError
            There is to be none.
        RetryableCommitError
            The same, where there never was to be one.
        """
        if not self._policy.retries:
            raise error
        self._failures += 1
        elapsed_s = self._clock() - self._began_s
        timeout_s = self._policy.timeout.total_seconds()
        if self._failures <= self._policy.retries and elapsed_s <= timeout_s:
            return self._policy.pause_s(self._failures, self._rng)
        raise CommitContentionError(
            f"other writers were first {self._failures} times within {elapsed_s:.1f} s; try again "
            f"later, or with fewer writers. The last time: {error}",
            read_version=error.read_version,
            version=error.version,
            uuid=error.uuid,
        ) from error


async def run_again(
    change: Callable[[S], Awaitable[T]],
    start: S,
    latest: Callable[[S], Awaitable[S]],
    patience: Patience,
    *,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> T:
    """Run a change, and again on the newest state for as long as that is to be.

    Parameters
    ----------
    change
        Leaves everything as it was when it raises `RetryableCommitError`.
    start
        What it is run on first.
    latest
        Finds the newest state, given an older one.
    patience
        When to give up.
    sleep
        Waits some seconds.

    Raises
    ------
    CommitContentionError
        Given up; `RetryableCommitError` where there was to be one run only.
    """
    state = start
    while True:
        try:
            return await change(state)
        except RetryableCommitError as exc:
            pause_s = patience.pause_s(exc)
        await sleep(pause_s)
        state = await latest(state)
