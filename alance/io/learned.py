"""Pure: what requests to a store cost, learned from those that were answered."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from statistics import median

__all__ = ["AnswerTimes", "CostModel"]

SMALL_BYTES = 64 << 10
"""Answers up to this size take about as long as their first byte."""
LARGE_BYTES = 1 << 20
"""Answers from this size on show how wide the way is."""
SAMPLES_MAX = 32
SMALL_SAMPLES_MIN = 16
LARGE_SAMPLES_MIN = 8
GAP_BYTES_MIN = 4 << 10
REQUEST_BYTES_MIN = 2 << 20
"""Requests for less are not split: each takes its time of this machine as well."""
SIDE_BY_SIDE = 20
"""Requests that share one latency. Were they to follow one another, one saved would be worth
latency x bandwidth, 2.7 MB at 30 ms and 90 MB/s; they wait together, but bytes hold up others.
"""
SHORTEST_S = 1e-4
"""No time below this is believed."""


class CostModel:
    """Latency and bandwidth of one connection to a store.

    Medians of the latest answers, so that a slow one does not count; and none are used before there
    are enough, nor in steps finer than a factor of two, so that plans do not change with each
    answer.

    Parameters
    ----------
    gap_bytes
        What is assumed at first: bytes that take as long as a request, its share of the latency.
    learns
        Whether it is changed by answers; those of a disk or of memory tell of other things.
    """

    __slots__ = ("_bandwidths", "_gap_bytes", "_latencies", "_learns")

    def __init__(self, gap_bytes: int, *, learns: bool) -> None:
        self._gap_bytes = gap_bytes
        self._learns = learns
        self._latencies: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._bandwidths: deque[float] = deque(maxlen=SAMPLES_MAX)

    @property
    def gap_bytes(self) -> int:
        """Bytes that are rather read along than asked around; at least 4 KiB."""
        return self._gap_bytes

    @property
    def request_bytes(self) -> int | None:
        """Bytes that take as long as the wait for the first; None where nothing is learned.

        A longer request is faster as several at once. Disks and memory are not: they have one way.
        """
        return max(self._gap_bytes * SIDE_BY_SIDE, REQUEST_BYTES_MIN) if self._learns else None

    @property
    def latency_s(self) -> float | None:
        """Time to the first byte; None while too few small answers are known."""
        known = len(self._latencies) >= SMALL_SAMPLES_MIN
        return median(self._latencies) if known else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of one connection; None while too few large answers are known."""
        known = len(self._bandwidths) >= LARGE_SAMPLES_MIN
        return median(self._bandwidths) if known else None

    def answered(self, num_bytes: int, seconds: float) -> None:
        """Take note of a read that was answered in so many seconds from its sending."""
        if not self._learns:
            return
        if num_bytes <= SMALL_BYTES:
            self._latencies.append(max(seconds, SHORTEST_S))
        elif num_bytes >= LARGE_BYTES and (latency_s := self.latency_s) is not None:
            self._bandwidths.append(num_bytes / max(seconds - latency_s, SHORTEST_S))
        else:
            return
        latency_s, bandwidth = self.latency_s, self.bandwidth
        if latency_s is not None and bandwidth is not None:
            worth = latency_s * bandwidth / SIDE_BY_SIDE
            if not self._gap_bytes / 2 < worth < self._gap_bytes * 2:
                self._gap_bytes = max(1 << (int(worth).bit_length() - 1), GAP_BYTES_MIN)


class AnswerTimes:
    """How long reads of about the same size took, for those that take longer."""

    __slots__ = ("_classes",)

    BOUNDS = (SMALL_BYTES, LARGE_BYTES, 4 << 20)
    KEPT = 64
    KNOWN_MIN = 20
    LATE_SHARE = 0.95

    def __init__(self) -> None:
        self._classes: list[deque[float]] = [
            deque(maxlen=self.KEPT) for _ in range(len(self.BOUNDS) + 1)
        ]

    def answered(self, num_bytes: int, seconds: float) -> None:
        """Take note of a read."""
        self._class_of(num_bytes).append(seconds)

    def late_after_s(self, num_bytes: int) -> float | None:
        """Time that 95 of 100 such reads took at most; None while too few are known."""
        known = sorted(self._class_of(num_bytes))
        if len(known) < self.KNOWN_MIN:
            return None
        return known[int(len(known) * self.LATE_SHARE)]

    def _class_of(self, num_bytes: int) -> deque[float]:
        return self._classes[bisect_left(self.BOUNDS, num_bytes)]
