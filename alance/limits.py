"""The numbers that bound a session: nothing in alance is unlimited."""

from __future__ import annotations

from dataclasses import dataclass, fields

from alance.errors import check_count

__all__ = ["Limits"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may use at once.

    Parameters
    ----------
    requests_max
        Requests under way at once, over all stores.
    bytes_in_flight_max
        Bytes fetched, being decoded or waiting for the consumer, together.
    decoders_max
        Threads that decode or encode.
    cache_bytes_max
        Bytes of manifests, file metadata, search caches and deletion vectors kept for later calls,
        all together.
    page_cache_bytes_max
        Bytes of data pages kept besides; 0 keeps none.
    request_bytes_max
        A longer read is split into requests of at most this size.
    merge_gap_bytes_max
        Two ranges further apart than this are never merged into one request.
    commit_attempts_max
        Versions that one commit tries before it gives up.
    """

    requests_max: int = 64
    bytes_in_flight_max: int = 256 * MIB
    decoders_max: int = 2
    cache_bytes_max: int = 256 * MIB
    page_cache_bytes_max: int = 0
    request_bytes_max: int = 16 * MIB
    merge_gap_bytes_max: int = 1 * MIB
    commit_attempts_max: int = 20

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "page_cache_bytes_max" else 1
            check_count(field.name, getattr(self, field.name), least=least)
