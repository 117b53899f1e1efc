"""Reading small objects whole, when only their names are known, and removing them again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import anyio

from alance._aio import run_all
from alance.errors import AlanceError, CorruptFileError
from alance.io.store import ObjectStore

__all__ = ["MANIFEST_BYTES_MAX", "TAIL_BYTES", "check_size", "discard", "read_object"]

DISCARD_S = 5.0
"""Patience for removing what was written in vain."""

MANIFEST_BYTES_MAX = 1 << 30
"""Manifests and transaction files above are refused: protobuf itself ends at twice that."""

TAIL_BYTES = 64 << 10
"""First read of an object of unknown size: most are smaller and come whole."""


async def read_object(store: ObjectStore, path: str, *, bytes_max: int) -> memoryview:
    """Read all of an object; one request, two above 64 KiB.

    Parameters
    ----------
    store
        Where it is.
    path
        Its key.
    bytes_max
        A larger object is not what it should be.

    Raises
    ------
    ObjectNotFoundError
        There is none.
    CorruptFileError
        It is empty or too large.
    """
    tail, num_bytes = await store.get_tail(path, TAIL_BYTES)
    check_size(path, num_bytes, bytes_max)
    if num_bytes <= len(tail):
        return tail
    front = await store.get_range(path, 0, num_bytes - len(tail))
    return memoryview(b"".join((front, tail)))


def check_size(path: str, num_bytes: int, bytes_max: int) -> None:
    """Refuse an object of an impossible size before any of it is read.

    Raises
    ------
    CorruptFileError
        It is empty or too large.
    """
    if not 0 < num_bytes <= bytes_max:
        raise CorruptFileError(
            f"{path}: expected an object of 1 to {bytes_max} bytes, found {num_bytes}", path=path
        )


async def discard(store: ObjectStore, paths: Iterable[str]) -> None:
    """Remove what was written in vain; what cannot be removed is for the cleanup of old files.

    Raises nothing and ends within seconds, though its scope is cancelled; all requests go out
    together.
    """
    with anyio.move_on_after(DISCARD_S, shield=True):
        await run_all([partial(_discard, store, path) for path in paths])


async def _discard(store: ObjectStore, path: str) -> None:
    with suppress(AlanceError):
        await store.delete(path)
