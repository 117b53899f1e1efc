"""Building constant pages: values that are all the same, or that are all null."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, DataBlock, FixedWidthBlock, VariableWidthBlock
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.levels import Shape, encode_levels
from alance.encodings.rows import select, take
from alance.encodings.shred import Shredded
from alance.encodings.spec import ConstantLayout, Layer, Spec
from alance.kernels import bytes as byte_kernels
from alance.types import FileVersion

__all__ = ["build_constant", "build_nulls", "find_constant", "join_constants"]

INLINE_BYTES_MAX = 32
SAMPLE_ITEMS = 1024
SEARCH_BYTES_MAX = 32 * 1024
"""A longer value stays with the data: the tail must stay short."""
ITEM = (Layer.NULLABLE_ITEM,)


def find_constant(shredded: Shredded) -> FixedWidthBlock | VariableWidthBlock | None:
    """Find the one value that all valid leaf slots hold, bit by bit; None where there are two.

    Most pages are told from a look at their first items.
    """
    values = shredded.values
    if not isinstance(values, FixedWidthBlock | VariableWidthBlock):
        return None
    for num_items in (SAMPLE_ITEMS, shredded.num_items):
        valid = _valid_slots(shredded, num_items)
        if len(valid) and not _all_same(_at(values, valid)):
            return None
    found = _at(values, valid[:1])
    assert isinstance(found, FixedWidthBlock | VariableWidthBlock)
    return found


def _valid_slots(shredded: Shredded, num_items: int) -> npt.NDArray[np.int64]:
    """Positions of the leaf slots of the first items that hold a value."""
    def_ = shredded.levels.def_
    if def_ is None:
        return np.arange(min(num_items, shredded.values.num_values))
    first = def_[:num_items]
    return np.flatnonzero(first[first <= Shape.of(shredded.layers).max_visible] == 0)


def _at(values: DataBlock, positions: npt.NDArray[np.int64]) -> DataBlock:
    """Values at ascending positions; a view where there is no gap."""
    start, stop = int(positions[0]), int(positions[-1]) + 1
    if stop - start == len(positions):
        return select(values, np.array([start], np.int64), np.array([stop], np.int64))
    return take(values, positions)


def _all_same(values: DataBlock) -> bool:
    if isinstance(values, VariableWidthBlock):
        offsets = values.offsets
        first, last, length = int(offsets[0]), int(offsets[-1]), int(offsets[1] - offsets[0])
        if last - first != length * values.num_values:
            return False
        if not byte_kernels.repeats(values.data[first:last], max(length, 1)):
            return False
        return not bool((np.diff(offsets) != length).any())
    assert isinstance(values, FixedWidthBlock)
    if values.bits_per_value == 1:
        bits = np.unpackbits(values.data, count=values.num_values, bitorder="little")
        return bool((bits == bits[0]).all())
    width = values.bits_per_value // 8
    return width == 0 or byte_kernels.repeats(values.data[: values.num_values * width], width)


def build_constant(shredded: Shredded, value: FixedWidthBlock | VariableWidthBlock) -> EncodedPage:
    """Build a page whose valid leaf slots all hold `value` (specification: 2.2, section 3)."""
    inline: bytes | None = None
    buffers = []
    if isinstance(value, VariableWidthBlock):
        start, stop = int(value.offsets[0]), int(value.offsets[1])
        places = np.array([0, stop - start], value.offsets.dtype).view(np.uint8)
        buffers.append(_value_buffer(places, value.data[start:stop]))
    elif value.bits_per_value == 1:
        inline = bytes([int(value.data[0]) & 1])
    elif len(value.data) <= INLINE_BYTES_MAX:
        inline = value.data.tobytes()
    else:
        buffers.append(_value_buffer(value.data))
    if shredded.needs_levels:
        buffers.extend(_plain_levels(shredded))
    return EncodedPage(ConstantLayout(shredded.layers, inline), tuple(buffers), shredded.num_rows)


def _value_buffer(*parts: Bytes) -> PageBuffer:
    """Arrow buffers of one value behind their number and lengths."""
    header = np.array([len(parts), *map(len, parts)], "<u4").view(np.uint8)
    small = sum(map(len, parts)) <= SEARCH_BYTES_MAX
    return PageBuffer([header, *parts], is_search=small)


def _plain_levels(shredded: Shredded) -> list[PageBuffer]:
    """Both streams as they are; one that the page has not is empty."""
    levels = (shredded.levels.rep, shredded.levels.def_)
    parts = [[] if stream is None else [stream.view(np.uint8)] for stream in levels]
    return [PageBuffer(part, is_search=False) for part in parts]


def build_nulls(shredded: Shredded, version: FileVersion) -> EncodedPage:
    """Build a page without a leaf value: levels at most, compressed since file version 2.2."""
    levels = (shredded.levels.rep, shredded.levels.def_)
    if shredded.layers == ITEM or all(stream is None for stream in levels):
        # Without levels there are only empty structs: valid, yet the format has no other page for
        # them.
        return EncodedPage(ConstantLayout(ITEM), (), shredded.num_rows)
    if version is FileVersion.V2_1:
        layout = ConstantLayout(shredded.layers)
        return EncodedPage(layout, tuple(_plain_levels(shredded)), shredded.num_rows)
    specs: list[Spec | None] = []
    counts: list[int] = []
    buffers: list[PageBuffer] = []
    for stream in levels:
        if stream is None:
            specs.append(None)
            counts.append(0)
            buffers.append(PageBuffer([], is_search=False))
            continue
        spec, encoded = encode_levels(stream, np.array([0, len(stream)], np.int64), version)
        specs.append(spec)
        counts.append(len(stream))
        start, size = int(encoded.offsets[0]), int(encoded.sizes[0])
        buffers.append(PageBuffer([encoded.data[start : start + size]], is_search=False))
    layout = ConstantLayout(shredded.layers, None, specs[0], specs[1], counts[0], counts[1])
    return EncodedPage(layout, tuple(buffers), shredded.num_rows)


def join_constants(one: EncodedPage, other: EncodedPage) -> EncodedPage | None:
    """Make one page of two that follow each other, if they are the same value without levels."""
    if not isinstance(one.layout, ConstantLayout) or one.layout != other.layout:
        return None
    if not all(buffer.is_search for buffer in (*one.buffers, *other.buffers)):
        return None  # levels, or a long value, which is written already
    values = ([np.concatenate(each.parts) for each in page.buffers] for page in (one, other))
    is_same = all(map(np.array_equal, *values)) and len(one.buffers) == len(other.buffers)
    return replace(one, num_rows=one.num_rows + other.num_rows) if is_same else None
