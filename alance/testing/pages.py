"""Pages without a file: build one from Arrow, keep its buffers in memory, read rows of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alance.encodings.assemble import (
    LeafCounts,
    is_list,
    is_struct_list,
    items_per_row,
    leaf_to_arrow,
    zip_leaves,
)
from alance.encodings.build import build_pages
from alance.encodings.compressive import default_registry
from alance.encodings.layout import open_page
from alance.encodings.layout.page import EncodedPage, PageReader
from alance.encodings.options import ColumnOptions
from alance.encodings.rows import RowRanges
from alance.encodings.step import Decode, Fetch
from alance.types import ByteRange, FileVersion

__all__ = ["StoredPage", "leaf_paths", "pages_of", "read_array", "read_page"]

NO_OPTIONS = ColumnOptions()


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page with its buffers laid out as a file would have them."""

    page: EncodedPage
    data: bytes
    buffers: tuple[ByteRange, ...]
    version: FileVersion = FileVersion.V2_1

    @classmethod
    def of(cls, page: EncodedPage, version: FileVersion = FileVersion.V2_1) -> StoredPage:
        """Lay out the buffers, each at a multiple of 64."""
        data, buffers = bytearray(), []
        for buffer in page.buffers:
            data.extend(b"\x00" * (-len(data) % 64))
            start = len(data)
            for part in buffer.parts:
                data.extend(part.tobytes())
            buffers.append(ByteRange(start, len(data)))
        return cls(page, bytes(data), tuple(buffers), version)

    def open(self) -> PageReader:
        """Open it with the default registry."""
        return open_page(
            self.page.layout, self.buffers, self.page.num_rows, default_registry(), self.version
        )


@dataclass(frozen=True, slots=True)
class _Path:
    steps: tuple[int, ...]
    chain: tuple[pa.DataType, ...]


def leaf_paths(kind: pa.DataType) -> Iterator[_Path]:
    """Every leaf of a type: which struct children lead there, and the types on the way."""
    if pa.types.is_struct(kind) and kind.num_fields:
        for i in range(kind.num_fields):
            field = kind.field(i)
            for below in leaf_paths(field.type):
                only = pa.struct([field.with_type(below.chain[0])])
                yield _Path((i, *below.steps), (only, *below.chain))
    elif is_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        for below in leaf_paths(kind.field(0).type):
            whole = make(kind.field(0).with_type(below.chain[0]))
            yield _Path(below.steps, (whole, *below.chain))
    elif is_struct_list(kind):
        for below in leaf_paths(kind.value_type):
            item = kind.value_field.with_type(below.chain[0])
            yield _Path(below.steps, (pa.list_(item, kind.list_size), *below.chain))
    else:
        yield _Path((), (kind,))


def pages_of(
    array: pa.Array,
    version: FileVersion = FileVersion.V2_1,
    options: ColumnOptions = NO_OPTIONS,
) -> list[list[StoredPage]]:
    """Pages of every leaf of an array."""
    return [
        [StoredPage.of(page, version) for page in build_pages(array, path.steps, options, version)]
        for path in leaf_paths(array.type)
    ]


def read_page(
    stored: StoredPage, chain: Sequence[pa.DataType], rows: RowRanges, data: bytes | None = None
) -> tuple[pa.Array, int]:
    """Read rows of a page; returns them and how many bytes were fetched."""
    step = stored.open().plan(rows)
    source = memoryview(stored.data if data is None else data)
    num_bytes = 0
    while isinstance(step, Fetch):
        num_bytes += sum(r.num_bytes for r in step.ranges)
        step = step.then([source[r.start : r.stop] for r in step.ranges])
    assert isinstance(step, Decode)
    return leaf_to_arrow(step.run(), chain), num_bytes


def read_array(
    kind: pa.DataType, leaves: Sequence[Sequence[StoredPage]], rows: RowRanges
) -> pa.Array:
    """Read rows of all leaves of a type and join them again."""
    arrays = []
    for path, pages in zip(leaf_paths(kind), leaves, strict=True):
        parts, start = [], 0
        for stored in pages:
            items = items_per_row(path.chain)
            num_rows = stored.page.num_rows // items
            inside = rows.within(start, start + num_rows)
            if len(inside.starts):
                inside = RowRanges(inside.starts * items, inside.stops * items)
                parts.append(read_page(stored, path.chain, inside)[0])
            start += num_rows
        arrays.append(pa.concat_arrays(parts) if parts else pa.nulls(0, path.chain[0]))
    return zip_leaves(kind, arrays, LeafCounts(kind), rows.num_rows)


def rows_of(rows: Sequence[int]) -> RowRanges:
    """Distinct ascending rows as ranges."""
    return RowRanges.of_rows(np.unique(np.array(rows, np.int64)))
