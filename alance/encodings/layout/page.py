"""What every layout offers: a page that says which bytes some of its rows need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from alance.encodings.blocks import Bytes
from alance.encodings.rows import RowRanges
from alance.encodings.spec import Layout
from alance.encodings.step import Step
from alance.errors import CorruptFileError
from alance.types import ByteRange

__all__ = ["EncodedPage", "PageBuffer", "PageReader", "need"]


class PageReader(Protocol):
    """One page, opened. Keeps its search cache once that has been fetched, nothing else."""

    num_rows: int

    @property
    def search_bytes(self) -> int:
        """Bytes that the search cache holds now."""
        ...

    def plan(self, rows: RowRanges) -> Step:
        """Say what must be fetched to decode these rows, which lie within the page."""
        ...


@dataclass(frozen=True, slots=True)
class PageBuffer:
    """One buffer of a page to be written."""

    parts: Sequence[Bytes]
    """Written one after the other."""
    is_search: bool
    """Belongs beside the footer: a reader needs it before it can locate values."""

    @property
    def num_bytes(self) -> int:
        """Size of all parts."""
        return sum(len(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page ready to be written."""

    layout: Layout
    buffers: tuple[PageBuffer, ...]
    num_rows: int

    @property
    def num_bytes(self) -> int:
        """Size of all buffers."""
        return sum(buffer.num_bytes for buffer in self.buffers)


def need(buffers: Sequence[ByteRange], count: int, what: str) -> None:
    """Refuse a page that has fewer buffers than its layout needs."""
    if len(buffers) < count:
        raise CorruptFileError(f"a {what} page needs {count} buffers but has {len(buffers)}")
