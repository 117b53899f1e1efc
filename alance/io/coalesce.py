"""Pure: byte ranges -> requests, and how to cut the answers up again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from alance.types import ByteRange

__all__ = ["cut", "locate", "plan_requests"]


def plan_requests(
    ranges: Iterable[ByteRange], *, gap_bytes_max: int, request_bytes_max: int
) -> list[ByteRange]:
    """Choose the requests that fetch these ranges of one object.

    Neighbours are merged when the gap between them is small and the request stays small; a range
    that is itself too long is split into parts of nearly equal size, to be fetched side by side.
    No byte is fetched twice.

    Parameters
    ----------
    ranges
        In any order; may repeat, overlap and nest. Empty ones need no bytes and are passed over.
    gap_bytes_max
        Largest gap, in bytes, that is read along to save a request; 0 merges only what touches.
    request_bytes_max
        Longest request, in bytes, at least 1.

    Returns
    -------
    list of ByteRange
        In ascending order, disjoint, each at most `request_bytes_max` long; together they cover
        every byte of `ranges`. The same for any order of `ranges`.
    """
    requests: list[ByteRange] = []
    start = stop = 0
    for one in sorted(set(ranges), key=_extent):
        if one.stop <= max(stop, one.start):
            continue
        near = one.start - stop <= gap_bytes_max and one.stop - start <= request_bytes_max
        if stop > start and near:
            stop = one.stop
            continue
        if stop > start:
            requests.append(ByteRange(start, stop))
        start, stop = max(one.start, stop), one.stop
        parts = _split(start, stop, request_bytes_max)
        requests.extend(parts[:-1])
        start = parts[-1].start
    if stop > start:
        requests.append(ByteRange(start, stop))
    return requests


def locate(one: ByteRange, requests: Sequence[ByteRange]) -> slice:
    """Where in a plan the requests stand that hold the bytes of one of its ranges."""
    first = bisect_right(requests, one.start, key=_start) - 1
    return slice(first, bisect_left(requests, one.stop, lo=first, key=_start))


def cut(one: ByteRange, requests: Sequence[ByteRange], answers: Sequence[memoryview]) -> memoryview:
    """Bytes of a range out of the answers that hold it.

    Parameters
    ----------
    one
        Not empty; within the requests.
    requests, answers
        The neighbouring requests that hold the range, and what came back, one for one.

    Returns
    -------
    memoryview
        A view of the answer when there is one; joined with a single copy when there are several.
    """
    pieces = [
        answer[max(one.start - request.start, 0) : one.stop - request.start]
        for request, answer in zip(requests, answers, strict=True)
    ]
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def _split(start: int, stop: int, part_bytes_max: int) -> list[ByteRange]:
    """Parts of nearly equal size, none above the limit."""
    num_parts = -(-(stop - start) // part_bytes_max)
    part_bytes = -(-(stop - start) // num_parts)
    return [
        ByteRange(part, min(part + part_bytes, stop)) for part in range(start, stop, part_bytes)
    ]


def _start(one: ByteRange) -> int:
    return one.start


def _extent(one: ByteRange) -> tuple[int, int]:
    return one.start, one.stop
