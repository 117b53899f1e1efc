"""Blob pages: values that lie anywhere in the file, and an inner page that says where."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedWidthBlock,
    Levels,
    PackedStructBlock,
    PageRows,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.layout.page import PageReader
from alance.encodings.levels import Shape
from alance.encodings.rows import RowRanges
from alance.encodings.spec import Layer
from alance.encodings.step import Decode, Fetch, Step
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.types import ByteRange

__all__ = ["ALIGNMENT", "BlobKind", "BlobReader", "describe_blobs", "join_blobs"]

ALIGNMENT = 64
FILE_BYTES_MAX = 1 << 62
Places = npt.NDArray[np.int64]


class BlobKind(IntEnum):
    """Where descriptors of file version 2.2 say that the bytes of a blob lie."""

    INLINE = 0
    """In the data file."""
    PACKED = 1
    """In a file beside it, with others."""
    DEDICATED = 2
    """In a file of their own beside it."""
    EXTERNAL = 3
    """At a URI."""


class BlobReader:
    """A page of (position, size) for each row; a value is fetched once its place is known.

    Parameters
    ----------
    layers
        Of the values. Their levels are part of the places.
    places
        The inner page.
    """

    __slots__ = ("_places", "_shape", "num_rows")

    def __init__(self, layers: tuple[Layer, ...], places: PageReader) -> None:
        self.num_rows = places.num_rows
        self._places = places
        self._shape = Shape.of(layers)
        if self._shape.max_rep:
            # Their writer drops the levels of null and empty lists: such pages cannot be read.
            raise UnsupportedFeatureError(
                "blobs inside lists are not supported; the reference implementation writes but "
                "cannot read them",
                feature="lists of blobs",
            )

    @property
    def search_bytes(self) -> int:
        """Bytes that the search cache of the inner page holds now."""
        return self._places.search_bytes

    def plan(self, rows: RowRanges) -> Step:
        """Fetch what the inner page needs, then the bytes of the wanted values."""
        return self._follow(self._places.plan(rows))

    def _follow(self, step: Step) -> Step:
        """Go on with the inner page until the places are known."""
        if isinstance(step, Fetch):
            return Fetch(step.ranges, lambda found: self._follow(step.then(found)))
        # 16 bytes a value, of few enough values that fetching them dwarfs this.
        positions, sizes = _parse_places(step.run())
        def_ = self._levels(positions, sizes)
        kept = sizes > 0
        starts, stops = positions[kept], positions[kept] + sizes[kept]
        # Values do not overlap: they are no longer, together, than the file up to the last one.
        if int(sizes.sum()) > int(stops.max(initial=0)):
            raise CorruptFileError("the blobs of a page overlap")
        ranges = tuple(map(ByteRange, starts.tolist(), stops.tolist()))
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        num_rows = len(sizes)

        def then(found: Sequence[memoryview]) -> Step:
            return Decode(num_rows, lambda: self._decode(def_, offsets, found))

        return Fetch(ranges, then) if ranges else then(())

    def _levels(self, positions: Places, sizes: Places) -> npt.NDArray[np.uint16] | None:
        """Definition levels: what is no value has its own where others have their position."""
        numbers = np.where(sizes == 0, positions, 0)
        largest = self._shape.max_def << 16
        if bool(((numbers & 0xFFFF) != 0).any() or (numbers > largest).any()):
            raise CorruptFileError("the place of a null blob holds levels that its page lacks")
        return (numbers >> 16).astype(np.uint16) if largest else None

    def _decode(
        self, def_: npt.NDArray[np.uint16] | None, offsets: Places, found: Sequence[memoryview]
    ) -> PageRows:
        pieces = [as_bytes(each) for each in found]
        data = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
        if len(data) != offsets[-1]:
            raise CorruptFileError(f"blobs of {offsets[-1]} bytes, of which {len(data)} are there")
        values = VariableWidthBlock(offsets, data)
        return PageRows(values.num_values, self._shape.layers, Levels(None, def_), values)


def _parse_places(rows: PageRows) -> tuple[Places, Places]:
    """Positions and sizes that an inner page holds."""
    values = rows.values
    members: tuple[DataBlock, ...] = ()
    if isinstance(values, PackedStructBlock):
        members = values.members
    numbers = [
        member.data.view("<u8")
        for member in members
        if isinstance(member, FixedWidthBlock) and member.bits_per_value == 64
    ]
    if len(numbers) != 2 or len(members) != 2:
        raise CorruptFileError("the places of blobs are no pairs of position and size")
    if any(int(each.max(initial=0)) > FILE_BYTES_MAX for each in numbers):
        raise CorruptFileError("a blob lies beyond the end of any file")
    positions, sizes = (each.astype(np.int64) for each in numbers)
    # No sum of these wraps around before it is compared.
    if len(sizes) and int(sizes.max()) > FILE_BYTES_MAX // len(sizes):
        raise CorruptFileError("the blobs of a page are larger than any file")
    return positions, sizes


def join_blobs(block: VariableWidthBlock) -> tuple[Bytes, Places]:
    """Lay values out for the data section, each at a multiple of 64.

    Returns
    -------
    data, starts
        The bytes, and where in them each value begins.
    """
    bounds = block.offsets.astype(np.int64)
    sizes = np.diff(bounds)
    taken = -(-sizes // ALIGNMENT) * ALIGNMENT
    stops = np.cumsum(taken)
    starts = stops - taken
    last = np.flatnonzero(sizes)[-1:]
    data = np.zeros(int((starts + sizes)[last].sum()), np.uint8)
    for start, first, size in zip(starts.tolist(), bounds.tolist(), sizes.tolist(), strict=False):
        data[start : start + size] = block.data[first : first + size]
    return data, starts


def describe_blobs(
    starts: Places, sizes: Places, def_: npt.NDArray[np.uint16] | None
) -> PackedStructBlock:
    """Places of values: (position, size), with levels for a position where there is no value.

    Parameters
    ----------
    starts
        Position of each value in the file.
    sizes
        Bytes of each value.
    def_
        Definition levels; a value that is not there has size 0.
    """
    positions = np.where(sizes > 0, starts, 0)
    if def_ is not None:
        positions = np.where(def_ > 0, def_.astype(np.int64) << 16, positions)
    members = tuple(
        FixedWidthBlock(64, len(sizes), each.astype("<u8").view(np.uint8))
        for each in (positions, sizes)
    )
    return PackedStructBlock(len(sizes), members)
