"""Columns: rows find their pages, and all pages go round by round together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.assemble import leaf_to_arrow
from alance.encodings.blocks import Levels, NullBlock, PageRows
from alance.encodings.compressive import default_registry
from alance.encodings.rows import RowRanges
from alance.encodings.spec import ConstantLayout, Layer
from alance.encodings.step import Decode, Fetch
from alance.encodings.wire import build_page_layout
from alance.errors import CorruptFileError
from alance.file.columns import ColumnReader, run_steps
from alance.file.metadata import PageInfo
from alance.testing.pages import StoredPage, pages_of
from alance.types import ByteRange, FileVersion

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(4)


class Memory:
    """Bytes of several pages, one after the other, and a record of what was asked for."""

    def __init__(self, *, held_from: int | None = None) -> None:
        self.data = b""
        self.rounds: list[Sequence[ByteRange]] = []
        self.priorities: set[int] = set()
        self._held_from = held_from

    def add(self, stored: StoredPage) -> PageInfo:
        self.data += bytes(-len(self.data) % 64)
        base = len(self.data)
        self.data += stored.data
        buffers = tuple(ByteRange(b.start + base, b.stop + base) for b in stored.buffers)
        layout = build_page_layout(stored.page.layout)
        return PageInfo(stored.page.num_rows, 0, buffers, layout)

    def at_hand(self, ranges: Sequence[ByteRange]) -> list[memoryview] | None:
        if self._held_from is None or any(each.start < self._held_from for each in ranges):
            return None
        return self._cut(ranges)

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        self.rounds.append(ranges)
        self.priorities.add(priority)
        return self._cut(ranges)

    def _cut(self, ranges: Sequence[ByteRange]) -> list[memoryview]:
        return [memoryview(self.data)[each.start : each.stop] for each in ranges]


ARRAYS = [
    pa.array(RNG.random(1000)),
    pa.nulls(500, pa.float64()),
    pa.array(RNG.random(2000), mask=RNG.random(2000) < 0.5),
]
WHOLE = pa.concat_arrays(ARRAYS)


def make_column(memory: Memory) -> ColumnReader:
    pages = [memory.add(page) for array in ARRAYS for page in pages_of(array)[0]]
    return ColumnReader(3, pages, default_registry(), FileVersion.V2_1, path="f")


async def read(column: ColumnReader, memory: Memory, rows: RowRanges) -> pa.Array:
    decodes, _ = await run_steps(column.plan(rows), memory)
    return pa.concat_arrays([leaf_to_arrow(each.run(), [pa.float64()]) for each in decodes])


def ranges(*pairs: tuple[int, int]) -> RowRanges:
    starts, stops = zip(*pairs, strict=True)
    return RowRanges(np.array(starts, np.int64), np.array(stops, np.int64))


async def test_counts() -> None:
    memory = Memory()
    column = make_column(memory)
    assert column.num_rows == 3500
    assert list(column.page_bounds()) == [0, 1000, 1500, 3500]
    assert column.num_bytes <= len(memory.data)
    assert column.search_bytes == 0


@pytest.mark.parametrize(
    ("rows", "num_pages"),
    [
        (ranges((0, 3500)), 3),
        (ranges((999, 1000)), 1),
        (ranges((1000, 1001)), 1),
        (ranges((999, 1001)), 2),
        (ranges((1499, 1501)), 2),
        (ranges((0, 1), (3499, 3500)), 2),
        (ranges((1100, 1200)), 1),
        (ranges((990, 1010), (1490, 1510), (2000, 2001)), 3),
    ],
)
async def test_rows_find_their_pages(rows: RowRanges, num_pages: int) -> None:
    memory = Memory()
    column = make_column(memory)
    assert len(column.plan(rows)) == num_pages
    found = await read(column, memory, rows)
    assert found.equals(WHOLE.take(pa.array(rows.rows())))


async def test_no_rows_no_steps() -> None:
    column = make_column(Memory())
    assert column.plan(RowRanges.one(0, 0)) == []


async def test_pages_share_their_rounds() -> None:
    memory = Memory()
    column = make_column(memory)
    await read(column, memory, ranges((1, 3499)))
    tables, chunks = memory.rounds
    assert [len(tables), len(chunks)] == [2, 2], "one range for each of two pages"
    assert column.search_bytes > 0
    await read(column, memory, ranges((5, 6), (3000, 3001)))
    assert len(memory.rounds) == 3, "chunk tables are kept"


async def test_whole_pages_are_read_with_their_tables() -> None:
    memory = Memory()
    column = make_column(memory)
    found = await read(column, memory, ranges((0, 3500)))
    assert found.equals(WHOLE)
    assert len(memory.rounds) == 1
    await read(column, memory, ranges((5, 6)))
    assert len(memory.rounds) == 2, "chunk tables are kept"


async def test_bytes_in_memory_are_not_fetched() -> None:
    memory = Memory(held_from=0)
    column = make_column(memory)
    found = await read(column, memory, ranges((0, 3500)))
    assert found.equals(WHOLE)
    assert memory.rounds == []


async def test_each_page_is_told_what_it_asked_for() -> None:
    def asks(start: int, then: Fetch | Decode) -> Fetch:
        def check(found: Sequence[memoryview]) -> Fetch | Decode:
            assert [view.tobytes() for view in found] == [memory.data[start : start + 2]]
            return then

        return Fetch((ByteRange(start, start + 2),), check)

    memory = Memory()
    memory.data = bytes(range(100))
    done = [Decode(i, lambda: rows) for i in range(3)]
    rows = PageRows(1, (Layer.NULLABLE_ITEM,), Levels(None, None), NullBlock(1))
    steps: list[Fetch | Decode] = [asks(3, asks(60, done[0])), done[1], asks(10, done[2])]
    decodes, num_bytes = await run_steps(steps, memory, priority=7)
    assert decodes == done
    assert num_bytes == 6
    assert memory.rounds == [[ByteRange(3, 5), ByteRange(10, 12)], [ByteRange(60, 62)]]
    assert memory.priorities == {7}


async def test_errors_name_page_and_column() -> None:
    good = PageInfo(10, 0, (), build_page_layout(ConstantLayout((Layer.NULLABLE_ITEM,))))
    bad = PageInfo(10, 10, (), b"\xff")
    column = ColumnReader(3, [good, bad], default_registry(), FileVersion.V2_1, path="f")
    assert len(column.plan(RowRanges.one(0, 10))) == 1, "the other page is not looked at"
    with pytest.raises(CorruptFileError) as caught:
        column.plan(RowRanges.one(0, 11))
    assert caught.value.__notes__ == ["in page 1 of column 3"]
    assert caught.value.path == "f"
    assert str(caught.value).endswith("in file f")


async def test_constant_pages_of_file_version_2_2() -> None:
    layout = build_page_layout(ConstantLayout((Layer.NULLABLE_ITEM,)))
    page = PageInfo(10, 0, (ByteRange(0, 8),), layout)
    older = ColumnReader(0, [page], default_registry(), FileVersion.V2_1, path="f")
    newer = ColumnReader(0, [page], default_registry(), FileVersion.V2_2, path="f")
    (step,) = older.plan(RowRanges.one(0, 10))
    assert isinstance(step, Decode)
    (step,) = newer.plan(RowRanges.one(0, 10))
    assert isinstance(step, Fetch), "there a buffer holds the value"
