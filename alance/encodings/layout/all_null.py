"""Reading all-null pages: levels at most, no values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alance.encodings.blocks import Levels, NullBlock, PageRows, as_bytes
from alance.encodings.layout.miniblock import cut_items
from alance.encodings.layout.page import need
from alance.encodings.levels import Shape, raw_levels
from alance.encodings.rows import RowRanges
from alance.encodings.spec import AllNullLayout, Layer
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.types import ByteRange, FileVersion

__all__ = ["AllNullReader"]

NO_LEVELS = (Layer.NULLABLE_ITEM,)
"""Layers of a page that is its number of rows and nothing else."""


class AllNullReader:
    """A page whose leaf slots are all null; a page of empty structs is one too."""

    __slots__ = ("_buffers", "_shape", "num_rows")

    def __init__(
        self,
        layout: AllNullLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        version: FileVersion,
    ) -> None:
        if version is not FileVersion.V2_1 and len(buffers) in (1, 3):
            # 2.2 keeps a value in the first buffer; a 2.1 reader ignores what it does not need.
            raise UnsupportedFeatureError(
                "a constant page with a value is not known to this library; a newer one may "
                "read it",
                feature="constant page with a value",
            )
        self.num_rows = num_rows
        self._shape = Shape.of(layout.layers)
        self._buffers: tuple[ByteRange, ...] = ()
        if layout.layers != NO_LEVELS or (version is not FileVersion.V2_1 and buffers):
            need(buffers, 2, "nested all-null")
            self._buffers = tuple(buffers[:2])

    @property
    def search_bytes(self) -> int:
        """Nothing is kept."""
        return 0

    def plan(self, rows: RowRanges) -> Step:
        """Fetch the levels, if the page has any; they are not indexed, so all of them."""
        if not self._buffers:
            return Decode(rows.num_rows, lambda: self._nulls(rows.num_rows))

        def then(found: Sequence[memoryview]) -> Step:
            return Decode(rows.num_rows, lambda: self._decode(rows, found))

        return Fetch(self._buffers, then)

    def _nulls(self, num_rows: int) -> PageRows:
        """Say of no slot that it is null: the block does, and empty structs never are."""
        return PageRows(num_rows, self._shape.layers, Levels(None, None), NullBlock(num_rows))

    def _decode(self, rows: RowRanges, found: Sequence[memoryview]) -> PageRows:
        shape = self._shape
        rep, def_ = (raw_levels(as_bytes(f)) for f in found)
        if (rep is None) != (shape.max_rep == 0) or (rep is None and def_ is None):
            raise CorruptFileError("an all-null page lacks the levels that its layers need")
        if rep is not None and def_ is not None and len(rep) != len(def_):
            raise CorruptFileError(f"{len(rep)} repetition but {len(def_)} definition levels")
        if rep is not None:
            bounds = np.append(np.flatnonzero(rep == shape.max_rep), len(rep))
        else:
            assert def_ is not None
            bounds = np.arange(len(def_) + 1)
        if len(bounds) != self.num_rows + 1 or bounds[0] != 0:
            raise CorruptFileError(f"levels of {len(bounds) - 1} rows in a page of {self.num_rows}")
        num_items = int(bounds[-1])
        visible = num_items if def_ is None else int(np.count_nonzero(def_ <= shape.max_visible))
        items = RowRanges(bounds[rows.starts], bounds[rows.stops])
        return cut_items(shape, Levels(rep, def_), NullBlock(visible), items, rows.num_rows)
