"""Building pages: rows of one leaf become a page of the layout that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    VariableWidthBlock,
)
from alance.encodings.choose import EncodedValues, choose_chunks, choose_dictionary, compress_wide
from alance.encodings.compressive.fixed_size_list import describe, zip_validity
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.levels import Shape, encode_levels
from alance.encodings.registry import Stream
from alance.encodings.shred import Shredded, shred
from alance.encodings.spec import AllNullLayout, Flat, FullZipLayout, Layer, MiniBlockLayout, Spec
from alance.errors import UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels
from alance.kernels import repdef

__all__ = ["build_pages"]

MINI_BLOCK_VALUE_BYTES_MAX = 256
CHUNK_BYTES_MAX = 32 * 1024
CHUNK_LEVELS_MAX = 65535
SEARCH_BYTES_MAX = 32 * 1024
"""A repetition index or dictionary above this stays with the data: the tail must stay short."""


def build_pages(array: pa.Array, path: Sequence[int]) -> list[EncodedPage]:
    """Encode rows of one leaf as a page, or several where the levels of one would be too many.

    Parameters
    ----------
    array
        Rows of the top-level field, at least one.
    path
        Which child to follow at every struct on the way to the leaf.
    """
    shredded = shred(array, path)
    if not shredded.has_values:
        return [_all_null(shredded)]
    narrow = _value_bytes(shredded.values) < MINI_BLOCK_VALUE_BYTES_MAX
    values = choose_chunks(shredded.values) if narrow else choose_dictionary(shredded.values)
    if values is not None:
        page = _mini_block(shredded, values)
        if page is not None:
            return [page]
        if len(array) > 1:
            half = len(array) // 2
            return build_pages(array.slice(0, half), path) + build_pages(array.slice(half), path)
    return [_full_zip(shredded)]


def _value_bytes(block: DataBlock) -> int:
    """Bytes of the longest value, which decides between mini-block and full-zip."""
    match block:
        case FixedWidthBlock(bits, _, _):
            return bits // 8  # 0 for booleans: only mini-block holds lists of bits
        case VariableWidthBlock(offsets, _):
            return int(np.diff(offsets).max(initial=0))
        case FixedSizeListBlock(dimension, _, _, items):
            return dimension * _value_bytes(items)
        case _:
            return 0  # indices are narrow, whatever they point to


def _all_null(shredded: Shredded) -> EncodedPage:
    """No leaf slot holds a value: levels at most."""
    layout = AllNullLayout(shredded.layers)
    if shredded.layers == (Layer.NULLABLE_ITEM,):
        return EncodedPage(layout, (), shredded.num_rows)
    levels = (shredded.levels.rep, shredded.levels.def_)
    if all(stream is None for stream in levels):
        # Empty structs: valid, yet without a value; the format has no other page for them.
        return EncodedPage(AllNullLayout((Layer.NULLABLE_ITEM,)), (), shredded.num_rows)
    parts = [[] if stream is None else [stream.view(np.uint8)] for stream in levels]
    buffers = tuple(PageBuffer(part, is_search=False) for part in parts)
    return EncodedPage(layout, buffers, shredded.num_rows)


@dataclass(frozen=True, slots=True)
class _ChunkLevels:
    """The level streams of a mini-block page, and how its items fall to chunks."""

    rep: Spec | None
    def_: Spec | None
    streams: list[Stream]
    boundaries: npt.NDArray[np.int64]


def _chunk_levels(shredded: Shredded, values: EncodedValues) -> _ChunkLevels | None:
    """Encode levels chunk by chunk; None when one chunk would hold too many."""
    counts = values.chunks.num_values
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    levels, shape = shredded.levels, Shape.of(shredded.layers)
    if levels.rep is None and levels.def_ is None:
        return _ChunkLevels(None, None, [], ends)
    boundaries = repdef.chunk_levels(levels.def_, shredded.num_items, shape.max_visible, ends)
    if int(np.diff(boundaries).max()) > CHUNK_LEVELS_MAX:
        return None
    specs: list[Spec | None] = [None, None]
    streams = []
    for i, stream in enumerate((levels.rep, levels.def_)):
        if stream is not None:
            specs[i], encoded = encode_levels(stream, boundaries)
            streams.append(encoded)
    return _ChunkLevels(specs[0], specs[1], streams, boundaries)


def _mini_block(shredded: Shredded, values: EncodedValues) -> EncodedPage | None:
    """Build a mini-block page; None when a chunk would pass the format's limits."""
    levels = _chunk_levels(shredded, values)
    if levels is None:
        return None
    streams = [*levels.streams, *values.chunks.streams]
    num_levels = np.diff(levels.boundaries)
    if not levels.streams:
        num_levels = np.zeros_like(num_levels)
    if any(int(stream.sizes.max(initial=0)) > CHUNK_BYTES_MAX for stream in streams):
        return None
    raw = [(stream.data, stream.offsets, stream.sizes) for stream in streams]
    data, sizes = byte_kernels.build_chunks(num_levels, raw, len(levels.streams), 2)
    if int(sizes.max()) > CHUNK_BYTES_MAX:
        return None
    counts = values.chunks.num_values
    logs = np.round(np.log2(np.maximum(counts, 1))).astype(np.int64)
    logs[-1] = 0  # the last chunk holds what is left, which need not be a power of two
    words = ((sizes // 8 - 1) << 4 | logs).astype("<u2")
    buffers = [PageBuffer([words.view(np.uint8)], True), PageBuffer([data], False)]
    dictionary = values.dictionary
    if dictionary is not None:
        small = len(dictionary.data) <= SEARCH_BYTES_MAX
        buffers.append(PageBuffer([dictionary.data], small))
    shape = Shape.of(shredded.layers)
    depth = 0
    if shredded.levels.rep is not None:
        depth = 1
        index = repdef.build_repetition_index(shredded.levels.rep, shape.max_rep, levels.boundaries)
        raw_index = np.ascontiguousarray(index).reshape(-1).view(np.uint8)
        buffers.append(PageBuffer([raw_index], len(raw_index) <= SEARCH_BYTES_MAX))
    layout = MiniBlockLayout(
        rep_compression=levels.rep,
        def_compression=levels.def_,
        value_compression=values.chunks.spec,
        dictionary=None if dictionary is None else dictionary.spec,
        num_dictionary_items=0 if dictionary is None else dictionary.num_items,
        layers=shredded.layers,
        num_buffers=len(values.chunks.streams),
        repetition_index_depth=depth,
        num_items=shredded.values.num_values,
    )
    return EncodedPage(layout, tuple(buffers), shredded.num_rows)


def _full_zip(shredded: Shredded) -> EncodedPage:
    """Build a full-zip page."""
    levels, shape = shredded.levels, Shape.of(shredded.layers)
    bits_rep = 0 if levels.rep is None else int(levels.rep.max()).bit_length()
    bits_def = 0 if levels.def_ is None else max(int(levels.def_.max()).bit_length(), 1)
    values = shredded.values
    per_value: int | None = None
    per_offset: int | None = None
    spec: Spec
    control = (levels.rep, levels.def_, bits_rep, bits_def, shape.max_rep, shape.max_visible)
    if isinstance(values, VariableWidthBlock):
        per_offset = values.bits_per_offset
        spec, values = compress_wide(values)
        data, starts = byte_kernels.zip_variable(
            *control, values.offsets, values.data, 4 if per_offset == 32 else 8
        )
    else:
        spec, zipped = _zipped(values)
        per_value = zipped.bits_per_value
        data, starts = byte_kernels.zip_fixed(*control, zipped.data, per_value // 8)
    buffers = [PageBuffer([data], False)]
    if per_offset is not None or levels.rep is not None:
        index = _index(starts, len(data))
        buffers.append(PageBuffer([index], len(index) <= SEARCH_BYTES_MAX))
    layout = FullZipLayout(
        bits_rep=bits_rep,
        bits_def=bits_def,
        bits_per_value=per_value,
        bits_per_offset=per_offset,
        num_items=shredded.num_items,
        num_visible_items=shredded.values.num_values,
        value_compression=spec,
        layers=shredded.layers,
    )
    return EncodedPage(layout, tuple(buffers), shredded.num_rows)


def _zipped(values: DataBlock) -> tuple[Spec, FixedWidthBlock]:
    """Fixed-width values as whole bytes, and what describes them."""
    if isinstance(values, FixedSizeListBlock) and _item_bits(values) > 1:
        return describe(values), zip_validity(values)
    if not isinstance(values, FixedWidthBlock):
        raise UnsupportedFeatureError(
            "a row is too large for a mini-block chunk (32 KiB, 65535 levels), and file version "
            "2.1 has no other layout for dictionary values and fixed-size lists of booleans; "
            "cast the column, or cut its longest rows",
            feature="full-zip dictionaries and bits",
        )
    if values.bits_per_value == 1:
        data = np.unpackbits(values.data, count=values.num_values, bitorder="little")
        return Flat(8), FixedWidthBlock(8, values.num_values, data)
    return Flat(values.bits_per_value), values


def _item_bits(block: DataBlock) -> int:
    """Bits of one item inside any number of fixed-size lists; 0 where items have no width."""
    while isinstance(block, FixedSizeListBlock):
        block = block.items
    return block.bits_per_value if isinstance(block, FixedWidthBlock) else 0


def _index(row_starts: npt.NDArray[np.int64], num_bytes: int) -> Bytes:
    """Repetition index in the narrowest width that holds every offset."""
    width = next(w for w in (1, 2, 4, 8) if num_bytes < 1 << (8 * w))
    return row_starts.astype(f"<u{width}").view(np.uint8)
