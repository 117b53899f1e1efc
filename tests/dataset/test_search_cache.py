"""What is needed before values can be located lies together at the end of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.encodings.build import SEARCH_BYTES_MAX
from alance.encodings.spec import FullZipLayout, Layout, MiniBlockLayout
from alance.file.footer import parse_footer, parse_offset_tables
from alance.file.metadata import parse_column_metadata
from alance.file.reader import tail_bytes
from alance.testing.asserts import assert_same_table
from alance.types import ByteRange
from tests.file.tables import layout_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NUM_ROWS = 300_000
ROWS_PER_FILE = 140_000


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where the buffers of a page are."""

    layout: Layout
    buffers: tuple[ByteRange, ...]

    @property
    def data(self) -> Iterator[ByteRange]:
        """Buffers with values."""
        yield self.buffers[1 if isinstance(self.layout, MiniBlockLayout) else 0]
        yield from (b for b in self._others() if b.num_bytes > SEARCH_BYTES_MAX)

    @property
    def search(self) -> Iterator[ByteRange]:
        """Buffers that say where values are, and dictionaries, unless they are large."""
        if isinstance(self.layout, MiniBlockLayout):
            yield self.buffers[0]
        yield from (b for b in self._others() if b.num_bytes <= SEARCH_BYTES_MAX)

    def _others(self) -> tuple[ByteRange, ...]:
        return self.buffers[2 if isinstance(self.layout, MiniBlockLayout) else 1 :]


def rows() -> pa.Table:
    """A number, a string and a list in every row; long strings behind short ones."""
    numbers = np.random.default_rng(11).integers(0, 2**40, NUM_ROWS)
    long = NUM_ROWS - 20_000
    return pa.table({
        "number": numbers,
        "text": pa.array([f"{n:x}" * (1 if i < long else 30) for i, n in enumerate(numbers)]),
        "list": pa.array([[n, n + 1] * (n % 7) for n in range(NUM_ROWS)], pa.list_(pa.int64())),
    })


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows()


@pytest.fixture
async def path(table: pa.Table, tmp_path: Path) -> Path:
    await alance.write_dataset(table, tmp_path / "d", max_rows_per_file=ROWS_PER_FILE)
    return tmp_path / "d"


def pages_of(file: Path) -> tuple[list[list[_Placed]], int]:
    """Pages of every column, and where the column metadata starts."""
    data = memoryview(file.read_bytes())
    footer = parse_footer(data, len(data))
    columns = []
    for place in parse_offset_tables(footer, data).column_metadata:
        metadata = parse_column_metadata(
            data[place.start : place.stop], limit=len(data), version=footer.version
        )
        columns.append([_Placed(layout_of(p), p.buffers) for p in metadata.pages])
    return columns, footer.column_metadata_offset


async def test_search_buffers_lie_behind_all_data(path: Path) -> None:
    files = sorted((path / "data").iterdir())
    assert len(files) == 3
    layouts = set()
    for file in files:
        columns, metadata_start = pages_of(file)
        assert len(columns) == 3
        pages = [page for column in columns for page in column]
        layouts |= {type(page.layout) for page in pages}
        assert all(b.start % 64 == 0 for page in pages for b in page.buffers)
        data_stop = max(b.stop for page in pages for b in page.data)
        search = [b for page in pages for b in page.search]
        assert search
        assert data_stop <= min(b.start for b in search)
        assert max(b.stop for b in search) <= metadata_start
        size = file.stat().st_size
        assert size - tail_bytes(size) <= min(b.start for b in search)
    assert layouts == {MiniBlockLayout, FullZipLayout}


async def test_the_reference_reads_such_files(path: Path, table: pa.Table) -> None:
    theirs = lance.dataset(path)
    assert len(theirs.get_fragments()) == 3
    assert_same_table(theirs.to_table(), table)
    taken = np.random.default_rng(2).integers(0, NUM_ROWS, 500)
    assert_same_table(theirs.take(taken), table, taken)
    assert_same_table(await (await alance.open_dataset(path)).take(taken), table, taken)
