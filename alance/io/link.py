"""What a session knows of one store: how much it may be asked, and what a request costs."""

from __future__ import annotations

from dataclasses import dataclass

from alance.io.learned import AnswerTimes, CostModel
from alance.io.slots import Slots
from alance.io.store import ObjectStore
from alance.io.window import Window
from alance.limits import Limits

__all__ = ["Link", "StoreStats"]


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a session has learned about one store.

    Parameters
    ----------
    url
        Scheme and bucket.
    requests_max
        Requests that may be under way to it now; fewer than `Limits.requests_max` after it has said
        "slow down".
    latency_s
        To the first byte; None while too few requests were answered, and for disks and memory.
    bandwidth
        Bytes per second of one connection; None as above.
    merge_gap_bytes
        Ranges nearer than this are read in one request.
    """

    url: str
    requests_max: int
    latency_s: float | None
    bandwidth: float | None
    merge_gap_bytes: int


class Link:
    """The way from a session to one store.

    Parameters
    ----------
    store
        The store; only what it says of itself is used.
    limits
        The session's, as the options of the store have them.
    learns
        Whether answers change what a request is taken to cost.
    """

    __slots__ = ("cost", "limits", "slots", "times", "url", "window")

    def __init__(self, store: ObjectStore, limits: Limits, *, learns: bool = False) -> None:
        self.limits = limits
        self.url = store.url
        self.cost = CostModel(store.request_cost_bytes, learns=learns)
        self.slots = Slots(limits.requests_max)
        self.times = AnswerTimes()
        self.window = Window(limits.requests_max)

    @property
    def merge_gap_bytes(self) -> int:
        """Largest gap between two wanted ranges that is read over rather than asked around."""
        fixed = self.limits.merge_gap_bytes
        gap = self.cost.gap_bytes if fixed is None else fixed
        return min(gap, self.limits.merge_gap_bytes_max)

    def request_bytes(self, num_bytes: int, num_free: int) -> int:
        """Longest request to cut a read into.

        Parameters
        ----------
        num_bytes
            Of all that is to be read.
        num_free
            Requests that may be sent for it at once; the rest would wait.
        """
        most = self.limits.request_bytes_max
        fixed = self.limits.request_bytes
        wanted = self.cost.request_bytes if fixed is None else fixed
        if wanted is None or num_free < 1:
            return most
        return min(max(wanted, -(-num_bytes // num_free)), most)

    def answered(self, num_bytes: int | None, seconds: float) -> None:
        """Take note of a request that succeeded; `num_bytes` of a read, else None."""
        self.window.answered()
        self.slots.resize(self.window.num_slots)
        if num_bytes is not None:
            self.cost.answered(num_bytes, seconds)
            self.times.answered(num_bytes, seconds)

    def refused(self, epoch: int) -> None:
        """Take note that the store asks to be asked less; `epoch` as when it was sent."""
        self.window.refused(epoch)
        self.slots.resize(self.window.num_slots)

    @property
    def stats(self) -> StoreStats:
        """What is known now."""
        return StoreStats(
            self.url,
            self.window.num_slots,
            self.cost.latency_s,
            self.cost.bandwidth,
            self.merge_gap_bytes,
        )
