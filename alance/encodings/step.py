"""What a page reader asks for next: more bytes, or a thread to decode in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from alance.encodings.blocks import PageRows
from alance.types import ByteRange

__all__ = ["Decode", "Fetch", "Step"]


@dataclass(frozen=True, slots=True)
class Fetch:
    """The page needs these bytes, as absolute positions in its file."""

    ranges: tuple[ByteRange, ...]
    then: Callable[[Sequence[memoryview]], Step]
    """Cheap, does no I/O: takes the bytes of `ranges` in order and says what comes next."""


@dataclass(frozen=True, slots=True)
class Decode:
    """All bytes are here."""

    num_rows: int
    run: Callable[[], PageRows]
    """CPU only; may run in a thread; touches no shared state."""


Step: TypeAlias = Fetch | Decode
