"""Rows on their way to a file: they wait in columns until a page is full, and are encoded then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from alance.encodings.blob_values import FindBase
from alance.encodings.build import build_pages
from alance.encodings.build_blob import BlobPage, build_blob_page, build_descriptor_page
from alance.encodings.layout.page import EncodedPage
from alance.encodings.shred import leaf_bytes, prune
from alance.file.schema import Leaf, Nesting
from alance.types import ByteRange, FileVersion

__all__ = ["Column", "Due", "PlacedPage", "build_pages_of", "cut_fullest", "gather", "join_runs"]

PAGE_BYTES = 8 * 1024 * 1024
RUN_BYTES = 128 * 1024
"""Of rows that a thread encodes in one turn; to go there takes as long as to encode some 10 KiB."""


@dataclass(slots=True)
class PlacedPage:
    """A page whose data is written and whose search buffers wait for the end of the file."""

    page: EncodedPage
    priority: int
    places: list[ByteRange | None]


@dataclass(slots=True)
class Column:
    """One leaf being written: rows not yet cut into pages, and the pages so far."""

    leaf: Leaf
    child_path: tuple[int, ...]
    """Which child to follow at every struct of a whole row."""
    pending: list[pa.Array] = field(default_factory=list)
    pending_bytes: int = 0
    num_rows: int = 0
    pages: list[PlacedPage] = field(default_factory=list)

    @classmethod
    def of(cls, leaf: Leaf) -> Column:
        """Begin with no rows."""
        path = [
            parent.children.index(child)
            for parent, child in zip(leaf.nodes, leaf.nodes[1:], strict=False)
            if parent.kind is Nesting.STRUCT
        ]
        return cls(leaf, tuple(path))

    @property
    def path(self) -> tuple[int, ...]:
        """The same for rows pruned to this leaf."""
        return (0,) * len(self.child_path)

    def gather(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Add a batch's rows; returns those of pages that are full."""
        rows = prune(batch.column(self.leaf.top_level), self.child_path)
        num_bytes = leaf_bytes(rows, self.path)
        full = self.cut() if self.pending_bytes + num_bytes > PAGE_BYTES else []
        if num_bytes <= PAGE_BYTES // 2:
            self.pending.append(_copied(rows))
            self.pending_bytes += num_bytes
            return full
        if num_bytes < PAGE_BYTES:
            # The next rows like these would not fit: a page now, and no copy that waits.
            self.pending.append(rows)
            return [*full, *self.cut()]
        num_pages = -(-num_bytes // PAGE_BYTES)
        per_page = -(-len(rows) // num_pages)
        full.extend(rows.slice(start, per_page) for start in range(0, len(rows), per_page))
        return full

    def cut(self) -> list[pa.Array]:
        """Take all waiting rows out: for one page, or for as many as there must be."""
        rows = self.pending
        if len(rows) > 1:
            # Dictionaries that hold nulls, or more items together than the indices can tell apart,
            # cannot become one; nor can strings of more than 2 GiB.
            with suppress(pa.ArrowInvalid):
                rows = [pa.concat_arrays(rows)]
        self.pending, self.pending_bytes = [], 0
        return rows


Due: TypeAlias = tuple[Column, pa.Array]
"""Rows of a column that are to be encoded, as one page if they can."""


def _copied(rows: pa.Array) -> pa.Array:
    """Rows on their own: a batch that came over IPC keeps all its columns alive while one is held.

    Dictionaries that hold NaN are not equal to themselves, and with nulls Arrow cannot join them.
    """
    try:
        return pa.concat_arrays([rows, rows.slice(0, 0)])
    except pa.ArrowInvalid:
        return rows


def gather(columns: Sequence[Column], batch: pa.RecordBatch) -> list[Due]:
    """Add a batch's rows to all columns; returns the rows of pages that are full."""
    return [(column, rows) for column in columns for rows in column.gather(batch)]


def cut_fullest(columns: Sequence[Column], bytes_left_max: int) -> list[Due]:
    """Cut the columns with most waiting bytes until no more than these are left."""
    due: list[Due] = []
    left = sum(column.pending_bytes for column in columns)
    for column in sorted(columns, key=lambda c: c.pending_bytes, reverse=True):
        if left <= bytes_left_max:
            break
        left -= column.pending_bytes
        due.extend((column, rows) for rows in column.cut())
    return due


def join_runs(due: Sequence[Due]) -> list[list[Due]]:
    """Put small pages together, to be encoded in one turn of a thread."""
    runs: list[list[Due]] = []
    num_bytes = 0
    for column, rows in due:
        num_bytes += rows.nbytes
        if not runs or num_bytes > RUN_BYTES:
            runs.append([])
            num_bytes = rows.nbytes
        runs[-1].append((column, rows))
    return runs


def build_pages_of(
    run: Sequence[Due], version: FileVersion, find_base: FindBase | None
) -> list[tuple[Column, EncodedPage | BlobPage]]:
    """Encode rows, in order."""
    return [
        (column, page) for column, rows in run for page in _build(column, rows, version, find_base)
    ]


def _build(
    column: Column, rows: pa.Array, version: FileVersion, find_base: FindBase | None
) -> Sequence[EncodedPage | BlobPage]:
    """Encode rows as the pages that the metadata of their field asks for."""
    options = column.leaf.options
    if options.blob:
        return [build_blob_page(rows, column.path, version)]
    if column.leaf.node.field.is_blob_v2:
        return [build_descriptor_page(rows, column.path, options, version, find_base)]
    return build_pages(rows, column.path, options, version)
