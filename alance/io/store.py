"""What alance asks of a store: a protocol small enough to implement over anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "DELETE_MAX",
    "UPLOAD_PART_BYTES",
    "Data",
    "ObjectInfo",
    "ObjectStore",
    "Upload",
    "buffers_of",
]

DELETE_MAX = 1000
"""Objects that one request may remove, by the rules of S3."""

UPLOAD_PART_BYTES = 8 << 20
"""An upload of up to this many bytes is one PUT; a longer one is sent in parts of this size."""

Data: TypeAlias = "Buffer | Sequence[Buffer]"
"""One buffer, or several that are stored one after the other."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or HEAD says about an object."""

    path: str
    num_bytes: int
    last_modified: datetime
    e_tag: str | None = None
    """Of the very bytes that are there; None where the store does not say."""


class Upload(Protocol):
    """One object being written in pieces; it appears whole at `finish` or never.

    The buffers handed to `write` are kept, not copied: they must not change until `finish`.
    """

    async def write(self, data: Data) -> None:
        """Add bytes; may wait until earlier ones have been sent."""
        ...

    async def finish(self) -> None:
        """Send the rest and make the object appear."""
        ...

    async def abort(self) -> None:
        """Forget the object and what was sent of it. Safe after a failure, and twice."""
        ...


@runtime_checkable
class ObjectStore(Protocol):
    """Requests to one bucket, container or directory.

    Paths are keys without a leading slash. Every method raises errors of the tree only:
    `ObjectNotFoundError`, `AlreadyExistsError`, `PermissionDeniedError`, `StoreTimeoutError`,
    `StoreError`; `transient` is set on those after which the same request may go well, for whoever
    asks to try again. Each call is one request, apart from `list`, which is one per page of 1000.
    """

    @property
    def url(self) -> str:
        """Scheme and bucket, such as `s3://bucket`; identifies the store in caches and messages."""
        ...

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` answers in ascending order of path."""
        ...

    @property
    def request_cost_bytes(self) -> int:
        """Bytes that take about as long to read as a request takes to begin.

        A gap below this between two wanted ranges is read over rather than asked around.
        """
        ...

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object; exactly that many, or an error."""
        ...

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last `num_bytes` (or all, if it has fewer) and the object's size."""
        ...

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        ...

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder, sorted by path where `lists_in_order`; at most `limit`."""
        ...

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object, replacing what is there."""
        ...

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists, atomically.

        Raises
        ------
        AlreadyExistsError
            One exists. After an inner retry this may be our own.
        """
        ...

    async def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store, replacing what is at `target`."""
        ...

    async def open_upload(self, path: str) -> Upload:
        """Begin an object that is written in pieces."""
        ...

    async def delete(self, path: str) -> None:
        """Remove an object; no error when there is none."""
        ...

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove up to `DELETE_MAX` objects, in one request where the store has one for that.

        No error for those that are not there. After an error any of them may be gone.
        """
        ...


def buffers_of(data: Data) -> list[memoryview]:
    """Buffers of `data` as flat views of bytes, without the empty ones; nothing is copied.

    Raises
    ------
    InvalidInputError
        A buffer's bytes do not lie one after the other.
    """
    pieces: Sequence[Buffer] = data if isinstance(data, (list, tuple)) else (data,)
    views = []
    for piece in pieces:
        view = memoryview(piece)
        if not view.c_contiguous:
            raise InvalidInputError("a buffer to write must be contiguous; copy it first")
        if view.nbytes:
            views.append(view.cast("B"))
    return views
