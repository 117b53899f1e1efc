"""Columns of a file: which pages hold which rows, and the steps that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Protocol

import numpy as np

from alance.encodings.blocks import PageRows
from alance.encodings.layout import open_page
from alance.encodings.layout.blob import BlobReader
from alance.encodings.layout.page import PageReader
from alance.encodings.registry import EncodingRegistry
from alance.encodings.rows import RowRanges
from alance.encodings.step import Decode, Fetch, Step
from alance.encodings.wire import parse_page_layout
from alance.errors import CorruptFileError, FormatError
from alance.file.located import located
from alance.file.metadata import PageInfo
from alance.types import ByteRange, FileVersion

__all__ = ["ColumnReader", "Source", "run_steps", "run_steps_cached"]

ROUNDS_MAX = 8
"""Fetches that one page may ask for after another; the known layouts need at most two,
and one more where the encoding lies apart."""


class ColumnReader:
    """One column of a file. Pages are opened at first use and keep their search caches.

    Parameters
    ----------
    index
        Its place in the file.
    pages
        From the column's metadata, in row order.
    registry
        Encodings that pages may use.
    version, path
        Of the file; errors name it, the column and the page, whenever they come up.
    items_per_row
        How often pages count each row, that of a list of structs of fixed size once for each item.

    Attributes
    ----------
    num_rows
        Rows over all pages.

    Raises
    ------
    CorruptFileError
        A page ends within a row.
    """

    def __init__(
        self,
        index: int,
        pages: Sequence[PageInfo],
        registry: EncodingRegistry,
        version: FileVersion,
        *,
        path: str,
        items_per_row: int = 1,
    ) -> None:
        self.index = index
        self._path = path
        self._pages = tuple(pages)
        self._opened: dict[int, PageReader] = {}
        self._registry = registry
        self._version = version
        self._items_per_row = items_per_row
        counts, rest = np.divmod(
            np.array([page.num_rows for page in pages], np.int64), items_per_row
        )
        if rest.any():
            raise CorruptFileError(f"a page ends within a list of {items_per_row} structs")
        self._row_starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        self.num_rows = int(self._row_starts[-1])
        self._stored_bytes = sum(buffer.num_bytes for page in pages for buffer in page.buffers)
        self._has_blobs: bool | None = None

    @property
    def num_bytes(self) -> int:
        """Stored bytes over all pages; of blobs as many at most, with what lies between them."""
        num_bytes = self._stored_bytes
        if self._holds_blobs():
            # Each page comes after its values; what a reader needs first may lie further on.
            last = self._pages[-1]
            num_bytes += min((buffer.start for buffer in last.buffers), default=0)
        return num_bytes

    def _holds_blobs(self) -> bool:
        """Whether the first page with rows does, as far as can be told without reading.

        A page that is damaged concerns those who read its rows only.
        """
        if self._has_blobs is not None:
            return self._has_blobs
        number = next((i for i, page in enumerate(self._pages) if page.num_rows), None)
        if number is None:
            return False
        page, layout = self._opened.get(number), self._pages[number].layout
        if page is None and isinstance(layout, bytes):
            with suppress(FormatError):
                page = self._open(number, layout)
        if page is not None:
            self._has_blobs = isinstance(page, BlobReader)
        return bool(self._has_blobs)

    @property
    def search_bytes(self) -> int:
        """Bytes that the search caches of its pages hold."""
        # A copy: threads that read local files open pages.
        return sum(page.search_bytes for page in tuple(self._opened.values()))

    def page_bounds(self) -> Sequence[int]:
        """Row where each page starts, and the end of the last."""
        bounds: list[int] = self._row_starts.tolist()
        return bounds

    def plan(self, rows: RowRanges) -> list[Step]:
        """First step of every page that holds some of these rows, in row order."""
        if not len(rows.starts):
            return []
        first = int(self._row_starts.searchsorted(rows.starts[0], side="right")) - 1
        last = int(self._row_starts.searchsorted(rows.stops[-1] - 1, side="right")) - 1
        steps = []
        for number in range(first, last + 1):
            start, stop = int(self._row_starts[number]), int(self._row_starts[number + 1])
            inside = rows.within(start, stop)
            if len(inside.starts):
                items = self._items_per_row
                if items > 1:
                    inside = RowRanges(inside.starts * items, inside.stops * items)
                steps.append(self._run(number, partial(self._plan, number, inside)))
        return steps

    def _plan(self, number: int, rows: RowRanges) -> Step:
        """First step of a page; where its encoding lies apart, to fetch that."""
        layout = self._pages[number].layout
        if number in self._opened:
            return self._opened[number].plan(rows)
        if isinstance(layout, bytes):
            return self._open(number, layout).plan(rows)
        return Fetch((layout,), lambda found: self._open(number, bytes(found[0])).plan(rows))

    def _open(self, number: int, layout: bytes) -> PageReader:
        info = self._pages[number]
        page = open_page(
            parse_page_layout(layout), info.buffers, info.num_rows, self._registry, self._version
        )
        return self._opened.setdefault(number, page)

    def _run(self, number: int, make: Callable[[], Step]) -> Step:
        """Make a step of a page; errors of this and of all that follows from it name the page."""
        with self._locate(number):
            step = make()
        if isinstance(step, Fetch):
            then = step.then
            return Fetch(step.ranges, lambda found: self._run(number, partial(then, found)))
        run = step.run

        def decode() -> PageRows:
            with self._locate(number):
                return run()

        return Decode(step.num_rows, decode)

    def _locate(self, number: int) -> AbstractContextManager[None]:
        return located(self._path, f"in page {number} of column {self.index}")


class Source(Protocol):
    """Where pages get their bytes from: a file, parts of which are in memory."""

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges that are all in memory, else None."""
        ...

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of ranges."""
        ...


class CachedSource(Protocol):
    """Where pages get bytes from that need not be waited for, in a thread."""

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges that are all in memory, else None."""
        ...

    def read_cached(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        """Bytes of ranges, or None when some must be waited for."""
        ...


async def run_steps(
    steps: Sequence[Step], source: Source, *, priority: int = 0
) -> tuple[list[Decode], int]:
    """Fetch what the steps ask for, all in the same round, until every page can be decoded.

    Returns
    -------
    decodes, num_bytes
        One `Decode` for each step, in order; and the bytes that they will work on.

    Notes
    -----
    Rounds: the longest chain of `Fetch` steps among the pages that ask for bytes which are not in
    memory. All ranges of a round go to `source` in one call, in the order of the steps.
    """
    progress = _Progress(steps, source.at_hand)
    while ranges := progress.missing():
        progress.go_on(await source.fetch(ranges, priority=priority))
    return progress.decodes(), progress.num_bytes


def run_steps_cached(steps: Sequence[Step], source: CachedSource) -> list[Decode] | None:
    """Do the same in a thread, with bytes that need not be waited for; None when some must be."""
    progress = _Progress(steps, source.at_hand)
    while ranges := progress.missing():
        found = source.read_cached(ranges)
        if found is None:
            return None
        progress.go_on(found)
    return progress.decodes()


class _Progress:
    """How far steps have come: which bytes they ask for next, all together."""

    def __init__(
        self,
        steps: Sequence[Step],
        at_hand: Callable[[Sequence[ByteRange]], list[memoryview] | None],
    ) -> None:
        self.num_bytes = 0
        self._current = list(steps)
        self._at_hand = at_hand
        self._asking: list[tuple[int, Fetch]] = []
        self._rounds_left = ROUNDS_MAX

    def missing(self) -> list[ByteRange]:
        """Ranges that are not in memory; none when every page can be decoded."""
        self._asking = []
        for i, step in enumerate(self._current):
            if isinstance(step, Fetch):
                self._current[i] = step = self._advance(step)
            if isinstance(step, Fetch):
                self._asking.append((i, step))
        assert self._rounds_left or not self._asking, "a page asks for bytes without end"
        self._rounds_left -= 1
        return [each for _, step in self._asking for each in step.ranges]

    def _advance(self, step: Step) -> Step:
        """Go on as far as bytes in memory lead."""
        while isinstance(step, Fetch):
            found = self._at_hand(step.ranges)
            if found is None:
                break
            step = step.then(found)
        return step

    def go_on(self, found: Sequence[memoryview]) -> None:
        """Take the bytes of the ranges that were missing."""
        self.num_bytes += sum(len(view) for view in found)
        at = 0
        for i, step in self._asking:
            self._current[i] = step.then(found[at : at + len(step.ranges)])
            at += len(step.ranges)

    def decodes(self) -> list[Decode]:
        """One for each step, once nothing is missing."""
        return [step for step in self._current if isinstance(step, Decode)]
