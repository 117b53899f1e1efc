"""The numbers that bound a session: nothing in alance is unlimited."""

from __future__ import annotations

from dataclasses import dataclass

from alance.errors import InvalidInputError, check_count

__all__ = ["Limits"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may use at once, and how hard it tries.

    Parameters
    ----------
    requests_max
        Requests under way at once, over all stores; fewer to a store that says "slow down". Those
        beyond wait as long as a round more: ten rows of a dozen columns are some 100 chunks.
    bytes_in_flight_max
        Bytes fetched, being decoded or waiting for the consumer, together.
    decoders_max
        Threads that decode or encode.
    cache_bytes_max
        Bytes of manifests, file metadata, search caches and deletion vectors kept for later calls,
        all together.
    page_cache_bytes_max
        Bytes of data pages kept besides, but for those of local files; 0 keeps none.
    request_bytes_max
        A longer read is split into requests of at most this size.
    request_bytes
        Size from which a read is split to use several connections, while some are free; None leaves
        it to what a request is found to cost at each store.
    merge_gap_bytes_max
        Two ranges further apart than this are never merged into one request.
    merge_gap_bytes
        Two ranges nearer than this are merged; None leaves it to what a request is found to cost at
        each store.
    commit_attempts_max
        Versions that one commit tries before it gives up.
    retries_max
        How often one request is sent again after a failure that may pass; 0 for never.
    retry_budget
        Retries that a session has in store; each takes one, each request that succeeds gives one
        back. So a store that is down is not asked without end.
    retry_deadline_s
        Seconds after which a request that has failed is not sent again.
    request_timeout_s
        Seconds after which a read, a put or a removal has failed. The storage option `timeout`,
        30 s where it is not given, may end it earlier.
    hedge_budget
        Share of reads that may be sent a second time when the first takes longer than 95 of 100
        like it have taken; 0 for none.
    """

    requests_max: int = 128
    bytes_in_flight_max: int = 256 * MIB
    decoders_max: int = 2
    cache_bytes_max: int = 256 * MIB
    page_cache_bytes_max: int = 0
    request_bytes_max: int = 16 * MIB
    request_bytes: int | None = None
    merge_gap_bytes_max: int = 1 * MIB
    merge_gap_bytes: int | None = None
    commit_attempts_max: int = 20
    retries_max: int = 8
    retry_budget: int = 500
    retry_deadline_s: float = 60.0
    request_timeout_s: float = 60.0
    hedge_budget: float = 0.0

    def __post_init__(self) -> None:
        for name in (
            "requests_max",
            "bytes_in_flight_max",
            "decoders_max",
            "cache_bytes_max",
            "request_bytes_max",
            "merge_gap_bytes_max",
            "commit_attempts_max",
        ):
            check_count(name, getattr(self, name), least=1)
        for name in ("page_cache_bytes_max", "retries_max", "retry_budget"):
            check_count(name, getattr(self, name), least=0)
        if self.request_bytes is not None:
            check_count("request_bytes", self.request_bytes, least=1)
        if self.merge_gap_bytes is not None:
            check_count("merge_gap_bytes", self.merge_gap_bytes, least=0)
        _check_number("retry_deadline_s", self.retry_deadline_s)
        _check_number("request_timeout_s", self.request_timeout_s)
        _check_number("hedge_budget", self.hedge_budget, most=1.0)


def _check_number(name: str, value: object, *, most: float = float("inf")) -> None:
    """Refuse what is no number from 0 up to `most`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:  # type: ignore[operator]
        raise InvalidInputError(f"{name} must be a number from 0 to {most}, not {value!r}")
