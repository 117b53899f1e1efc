"""Pages with other bytes or claims than a writer gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.rows import RowRanges
from alance.encodings.spec import Layout
from alance.testing.pages import StoredPage, leaf_paths, pages_of, read_page
from alance.types import FileVersion

__all__ = [
    "buffer_bytes",
    "only_page",
    "page",
    "read",
    "with_buffer",
    "with_layout",
    "with_rows",
]


def only_page(
    array: pa.Array, leaf: int = 0, version: FileVersion = FileVersion.V2_1
) -> StoredPage:
    """The one page of a leaf of an array."""
    (found,) = pages_of(array, version)[leaf]
    return found


def page(
    layout: Layout,
    buffers: Sequence[bytes],
    num_rows: int,
    version: FileVersion = FileVersion.V2_1,
) -> StoredPage:
    """Make a page of any layout over any bytes."""
    parts = [PageBuffer([np.frombuffer(data, np.uint8)], is_search=False) for data in buffers]
    return StoredPage.of(EncodedPage(layout, tuple(parts), num_rows), version)


def buffer_bytes(stored: StoredPage) -> list[bytes]:
    """Bytes of every buffer."""
    return [stored.data[buffer.start : buffer.stop] for buffer in stored.buffers]


def with_buffer(stored: StoredPage, index: int, data: bytes) -> StoredPage:
    """Replace the bytes of one buffer."""
    buffers = buffer_bytes(stored)
    buffers[index] = data
    return page(stored.page.layout, buffers, stored.page.num_rows, stored.version)


def with_layout(stored: StoredPage, **claims: Any) -> StoredPage:
    """Replace members of the layout."""
    layout = replace(stored.page.layout, **claims)
    return page(layout, buffer_bytes(stored), stored.page.num_rows, stored.version)


def with_rows(stored: StoredPage, num_rows: int) -> StoredPage:
    """Replace the number of rows."""
    return page(stored.page.layout, buffer_bytes(stored), num_rows, stored.version)


def read(
    stored: StoredPage, kind: pa.DataType, rows: RowRanges | None = None, *, leaf: int = 0
) -> tuple[pa.Array, int]:
    """Read rows of a page, all by default; returns them and the number of bytes fetched."""
    chain = list(leaf_paths(kind))[leaf].chain
    whole = RowRanges.one(0, stored.page.num_rows)
    return read_page(stored, chain, whole if rows is None else rows)
