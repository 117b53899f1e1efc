"""Blobs of file version 2.2 that lie outside of the dataset's own files: at URIs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from alance._aio import run_each
from alance.errors import (
    AlanceError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from alance.io.client import StoreClient
from alance.types import ByteRange

__all__ = [
    "EXTERNAL_BYTES_MAX",
    "ExternalBlob",
    "LocateBlob",
    "count_external_bytes",
    "fetch_unchecked",
    "read_external",
]

EXTERNAL_BYTES_MAX = 1 << 34
"""Of values at URIs in one read: a page of few bytes may refer to any number of large objects."""
BYTES_TRUSTED = 256 * 1024 * 1024
"""Objects are asked for their size where ranges that nothing has checked end after this."""
OBJECTS_AT_ONCE = 256
"""Objects that tasks wait for; how many requests go out is the session's to say."""
TAIL_BYTES_MIN = 64 * 1024
"""Least that is asked of an object that is wanted whole, before its size is known."""


class LocateBlob(Protocol):
    """Where in which store a blob at a URI lies."""

    def __call__(self, base_id: int, uri: str) -> tuple[StoreClient, str]:
        """Client and path; `uri` is absolute below base path 0, else a path below that one.

        Raises
        ------
        CorruptFileError
            It leads nowhere.
        InvalidInputError
            The storage options of the dataset do not fit the place.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExternalBlob:
    """What a descriptor says of a value at a URI.

    Parameters
    ----------
    base_id
        Base path of the dataset that `uri` starts from; 0 where it is absolute.
    uri
        The object.
    position, num_bytes
        Which bytes of it; 0 and 0 for all.
    """

    base_id: int
    uri: str
    position: int = 0
    num_bytes: int = 0

    @property
    def place(self) -> ByteRange:
        """Bytes of the object, where they are not all of it."""
        return ByteRange(self.position, self.position + self.num_bytes)


async def read_external(
    blobs: Iterable[ExternalBlob], locate: LocateBlob, *, priority: int = 0
) -> dict[ExternalBlob, memoryview]:
    """Read values at URIs, each once.

    Raises
    ------
    ObjectNotFoundError
        An object is not there; a note has its URI.
    CorruptFileError, StoreError
        A URI leads nowhere; an object is shorter than it should be, or cannot be read.
    UnsupportedFeatureError
        An object is too large to be read at once.

    Notes
    -----
    Rounds: one, two for whole objects that are long. Requests: one for an object that is wanted
    whole, else one for all ranges of an object after coalescing.
    """
    found: dict[ExternalBlob, memoryview] = {}

    async def read(members: Sequence[ExternalBlob]) -> None:
        first = members[0]
        client, path = locate(first.base_id, first.uri)
        with _referred(first.uri):
            if not first.num_bytes:
                found[first] = await _read_whole(client, path)
                return
            ranges = [blob.place for blob in members]
            views = await fetch_unchecked(client, path, ranges, priority=priority)
        found.update(zip(members, views, strict=True))

    groups: dict[tuple[int, str, bool], list[ExternalBlob]] = {}
    for blob in dict.fromkeys(blobs):
        # Ranges of one object go out together; the object as a whole goes alone.
        groups.setdefault((blob.base_id, blob.uri, not blob.num_bytes), []).append(blob)
    await run_each([partial(read, members) for members in groups.values()], at_once=OBJECTS_AT_ONCE)
    return found


async def count_external_bytes(
    blobs: Iterable[ExternalBlob], locate: LocateBlob
) -> dict[ExternalBlob, int]:
    """Sizes of values at URIs; one request for each object that is wanted whole."""
    found: dict[ExternalBlob, int] = {}

    async def measure(blob: ExternalBlob) -> None:
        client, path = locate(blob.base_id, blob.uri)
        with _referred(blob.uri):
            found[blob] = (await client.head(path)).num_bytes

    works = []
    for blob in dict.fromkeys(blobs):
        if blob.num_bytes:
            found[blob] = blob.num_bytes
        else:
            works.append(partial(measure, blob))
    await run_each(works, at_once=OBJECTS_AT_ONCE)
    return found


async def _read_whole(client: StoreClient, path: str) -> memoryview:
    """All bytes of an object of unknown size: its tail, and what that lacks."""
    tail, num_bytes = await client.get_tail(path, max(client.request_cost_bytes, TAIL_BYTES_MIN))
    if num_bytes > EXTERNAL_BYTES_MAX:
        raise UnsupportedFeatureError(
            f"a blob of {num_bytes} bytes at {path}; at most {EXTERNAL_BYTES_MAX} are read at once",
            feature="large external blobs",
        )
    if num_bytes <= len(tail):
        return tail
    front = await client.get_range(path, 0, num_bytes - len(tail))
    return memoryview(b"".join((front, tail)))


async def fetch_unchecked(
    client: StoreClient, path: str, ranges: Sequence[ByteRange], *, priority: int = 0
) -> Sequence[memoryview]:
    """Fetch ranges that nothing has checked, in one round; two where they would be long.

    Raises
    ------
    CorruptFileError
        A range of a long object ends after it.
    """
    stop = max((each.stop for each in ranges), default=0)
    # Cutting up one that is made up would take for ever.
    if stop > BYTES_TRUSTED:
        size = (await client.head(path)).num_bytes
        if stop > size:
            raise CorruptFileError(
                f"file {path} has {size} bytes and is referred to for {stop}", path=path
            )
    return await client.get_ranges(path, ranges, priority=priority)


@contextmanager
def _referred(uri: str) -> Generator[None, None, None]:
    """Say in errors which URI led there."""
    try:
        yield
    except InvalidInputError as exc:
        # Stores know paths that none of their objects can have.
        raise CorruptFileError(f"the URI {uri[:200]!r} of a blob leads nowhere: {exc}") from exc
    except AlanceError as exc:
        exc.add_note(f"a blob lies at {uri[:200]!r}, outside of the dataset")
        raise
