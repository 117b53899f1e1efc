"""Reading constant pages: levels at most, and one value for all valid leaf slots, or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import (
    Bytes,
    Chunks,
    ConstantBlock,
    DataBlock,
    FixedWidthBlock,
    Levels,
    NullBlock,
    PageRows,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.layout.miniblock import cut_items
from alance.encodings.layout.page import need
from alance.encodings.levels import Shape, decode_levels, raw_levels
from alance.encodings.registry import EncodingRegistry
from alance.encodings.rows import RowRanges
from alance.encodings.spec import ConstantLayout, Layer, Spec
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError
from alance.types import ByteRange, FileVersion

__all__ = ["ConstantReader"]

NO_LEVELS = (Layer.NULLABLE_ITEM,)
"""Layers of a page of nulls that is its number of rows and nothing else."""
INLINE_BYTES_MAX = 32
LEVELS_PER_BYTE_MAX = 128
"""More than run lengths of 255 with a two-byte level each, or LZ4, can say in one byte."""
LEVELS_FREE = 1024
"""Levels that may come from no bytes at all: one group that is bitpacked to zero bits."""


class ConstantReader:
    """A page without distinct leaf values; a page of empty structs is one too."""

    __slots__ = ("_buffers", "_is_stored", "_layout", "_registry", "_shape", "_value", "num_rows")

    def __init__(
        self,
        layout: ConstantLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        registry: EncodingRegistry,
        version: FileVersion,
    ) -> None:
        self.num_rows = num_rows
        self._layout = layout
        self._registry = registry
        self._shape = Shape.of(layout.layers)
        self._buffers: tuple[ByteRange, ...] = tuple(buffers)
        self._value: FixedWidthBlock | VariableWidthBlock | None = None
        self._is_stored = False
        if version is FileVersion.V2_1:
            self._open_2_1()
        else:
            self._open()

    def _open(self) -> None:
        """Tell the six forms apart (specification: 2.2, section 3)."""
        layout, num_levels = self._layout, len(self._buffers)
        if layout.inline_value is not None:
            self._value = _inline_block(layout.inline_value)
        elif num_levels in (1, 3):
            self._is_stored = True
            num_levels -= 1
        elif layout.layers != NO_LEVELS:
            need(self._buffers, 2, "nested all-null")
        if num_levels not in (0, 2):
            raise CorruptFileError(
                f"a constant page of {len(self._buffers)} buffers does not exist"
            )
        if self._shape.max_rep and num_levels == 0:
            raise CorruptFileError("a page of lists without repetition levels")

    def _open_2_1(self) -> None:
        """Without a value and with plain levels; buffers that no level needs are ignored."""
        layout = self._layout
        compressed = layout.rep_compression is not None or layout.def_compression is not None
        if layout.inline_value is not None or compressed:
            raise CorruptFileError("file version 2.1 has no constant pages with values")
        if layout.layers == NO_LEVELS:
            self._buffers = ()
        else:
            need(self._buffers, 2, "nested all-null")
            self._buffers = self._buffers[:2]

    @property
    def search_bytes(self) -> int:
        """Bytes of the value, once it has been fetched."""
        if isinstance(self._value, VariableWidthBlock):
            return len(self._value.data)
        return 0 if self._value is None else self._value.data.nbytes

    def plan(self, rows: RowRanges) -> Step:
        """Fetch value and levels, if the page has any; they are not indexed, so all of them."""
        buffers = self._buffers
        brings_value = self._is_stored and self._value is None
        if self._is_stored and not brings_value:
            buffers = buffers[1:]
        if not buffers:
            return Decode(rows.num_rows, lambda: self._decode(rows, ()))

        def then(found: Sequence[memoryview]) -> Step:
            if brings_value:
                value, *found = found
                self._value = _stored_block(as_bytes(value))
            levels = tuple(found)
            return Decode(rows.num_rows, lambda: self._decode(rows, levels))

        return Fetch(buffers, then)

    def _decode(self, rows: RowRanges, found: Sequence[memoryview]) -> PageRows:
        layout, shape = self._layout, self._shape
        if not found:
            return self._plain(rows)
        rep = self._levels(as_bytes(found[0]), layout.rep_compression, layout.num_rep_values)
        def_ = self._levels(as_bytes(found[1]), layout.def_compression, layout.num_def_values)
        if (rep is None) != (shape.max_rep == 0):
            raise CorruptFileError("a constant page lacks the levels that its layers need")
        if rep is None and def_ is None:
            if self._value is None:
                raise CorruptFileError("an all-null page lacks the levels that its layers need")
            return self._plain(rows)
        if rep is not None and def_ is not None and len(rep) != len(def_):
            raise CorruptFileError(f"{len(rep)} repetition but {len(def_)} definition levels")
        num_items = len(rep) if rep is not None else 0 if def_ is None else len(def_)
        items = self._items(rows, rep, num_items)
        visible = num_items if def_ is None else int(np.count_nonzero(def_ <= shape.max_visible))
        return cut_items(shape, Levels(rep, def_), self._block(visible), items, rows.num_rows)

    def _plain(self, rows: RowRanges) -> PageRows:
        """Rows without levels. Of nulls the block tells; empty structs never are."""
        block = self._block(rows.num_rows)
        return PageRows(rows.num_rows, self._shape.layers, Levels(None, None), block)

    def _block(self, num_values: int) -> DataBlock:
        if self._value is None:
            return NullBlock(num_values)
        return ConstantBlock(num_values, self._value)

    def _levels(self, data: Bytes, spec: Spec | None, count: int) -> npt.NDArray[np.uint16] | None:
        """One stream of levels: plain, or a block of `count` levels."""
        if spec is None or (count == 0 and len(data) == 0):
            return raw_levels(data)
        # Few bytes may claim to be any number of levels; check before memory is taken for them.
        if count > LEVELS_PER_BYTE_MAX * len(data) + LEVELS_FREE:
            raise CorruptFileError(f"{count} levels in {len(data)} bytes")
        size = np.array([[len(data)]], np.int64)
        block = Chunks(data, np.zeros_like(size), size, np.array([count], np.int64))
        return decode_levels(spec, block, self._registry)

    def _items(
        self, rows: RowRanges, rep: npt.NDArray[np.uint16] | None, num_items: int
    ) -> RowRanges:
        """Items of rows; counts the rows that the levels describe."""
        if rep is None:
            if num_items != self.num_rows:
                raise CorruptFileError(f"levels of {num_items} rows in a page of {self.num_rows}")
            return rows
        bounds = np.append(np.flatnonzero(rep == self._shape.max_rep), len(rep))
        if len(bounds) != self.num_rows + 1 or bounds[0] != 0:
            raise CorruptFileError(f"levels of {len(bounds) - 1} rows in a page of {self.num_rows}")
        return RowRanges(bounds[rows.starts], bounds[rows.stops])


def _inline_block(value: bytes) -> FixedWidthBlock:
    """Value of the page's message: bytes of one element, a boolean too."""
    if len(value) > INLINE_BYTES_MAX:
        raise CorruptFileError(
            f"a constant of {len(value)} bytes; inline ones have at most {INLINE_BYTES_MAX}"
        )
    return FixedWidthBlock(8 * len(value), 1, as_bytes(value))


def _stored_block(data: Bytes) -> FixedWidthBlock | VariableWidthBlock:
    """Value of a buffer: u32 count, a u32 length for each of as many Arrow buffers, then those.

    (Specification: 2.2, section 3.)
    """
    header = np.frombuffer(data[: min(len(data), 12) // 4 * 4].tobytes(), "<u4").tolist()
    if not header or header[0] not in (1, 2) or len(header) <= header[0]:
        raise CorruptFileError(f"a constant's buffer of {len(data)} bytes has no header")
    lengths = header[1 : 1 + header[0]]
    start = 4 + 4 * len(lengths)
    if start + sum(lengths) != len(data):
        raise CorruptFileError(f"a constant's buffer of {len(data)} bytes is not what it says")
    # Copies: the value stays when the bytes that were fetched with it have gone.
    first, rest = data[start : start + lengths[0]].copy(), data[start + lengths[0] :].copy()
    if len(lengths) == 1:
        if len(first) == 0:
            raise CorruptFileError("a constant of no bytes")
        return FixedWidthBlock(8 * len(first), 1, first)
    if len(first) not in (8, 16):
        raise CorruptFileError(f"a constant with offsets of {len(first)} bytes; expected 8 or 16")
    offsets = first.view("<i4" if len(first) == 8 else "<i8")
    if offsets[0] != 0 or offsets[1] != len(rest):
        raise CorruptFileError("the offsets of a constant leave its bytes")
    return VariableWidthBlock(offsets, rest)
