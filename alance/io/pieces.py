"""What all uploads share: fewer buffers for one system call or request, and an end."""

from __future__ import annotations

from collections.abc import Sequence

from alance.errors import InvalidInputError

__all__ = ["joined", "require_open"]

SMALL_BUFFER_BYTES = 256 << 10
"""Neighbouring buffers below this size are joined: one copy costs less than one call."""


def joined(views: Sequence[memoryview]) -> list[memoryview]:
    """The same bytes in fewer buffers: runs of small ones are copied together; never empty."""
    pieces: list[memoryview] = []
    run: list[memoryview] = []
    for view in views:
        if view.nbytes < SMALL_BUFFER_BYTES:
            run.append(view)
            continue
        pieces.extend(_one(run))
        run = []
        pieces.append(view)
    pieces.extend(_one(run))
    return pieces or [memoryview(b"")]


def require_open(path: str, *, over: bool, broken: bool) -> None:
    """Refuse a call on an upload that has ended, or of which a write did not come through.

    Raises
    ------
    InvalidInputError
        Says which.
    """
    if over:
        raise InvalidInputError(f"the upload of {path} is already finished or aborted")
    if broken:
        raise InvalidInputError(
            f"an earlier write to the upload of {path} failed or was cancelled; abort it"
        )


def _one(run: list[memoryview]) -> list[memoryview]:
    return run if len(run) < 2 else [memoryview(b"".join(run))]
