"""Building pages: rows of one leaf become a page of the layout that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.choose import EncodedValues, choose_chunks, choose_dictionary, compress_wide
from alance.encodings.compressive.fixed_size_list import describe, zip_validity
from alance.encodings.compressive.variable_packed_struct import zip_members
from alance.encodings.constant import build_constant, build_nulls, find_constant
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.levels import Shape, encode_levels
from alance.encodings.options import ColumnOptions
from alance.encodings.registry import Stream
from alance.encodings.shred import Shredded, shred
from alance.encodings.spec import FixedSizeList, Flat, FullZipLayout, MiniBlockLayout, Spec
from alance.errors import UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels
from alance.kernels import repdef
from alance.types import FileVersion

__all__ = ["build_full_zip", "build_mini_block", "build_pages"]

MINI_BLOCK_VALUE_BYTES_MAX = 256
CHUNK_LEVELS_MAX = 65535
SEARCH_BYTES_MAX = 32 * 1024
"""A repetition index or dictionary above this stays with the data: the tail must stay short."""


def build_pages(
    array: pa.Array, path: Sequence[int], options: ColumnOptions, version: FileVersion
) -> list[EncodedPage]:
    """Encode rows of one leaf as a page, or several where the levels of one would be too many.

    Parameters
    ----------
    array
        Rows of the top-level field, at least one.
    path
        Which child to follow at every struct on the way to the leaf.
    options
        What the metadata of the field and the leaf ask for.
    version
        Of the file that the pages go to.
    """
    shredded = shred(array, path)
    if not shredded.has_values:
        return [build_nulls(shredded, version)]
    constant = None if version is FileVersion.V2_1 else find_constant(shredded)
    if constant is None:
        return _value_pages(array, path, shredded, options, version)
    page = build_constant(shredded, constant)
    if not shredded.needs_levels or _has_no_bytes(constant):
        return [page]
    # Levels beside a constant are stored plain and read whole: many take more than all else.
    pages = _value_pages(array, path, shredded, options, version)
    return [page] if page.num_bytes <= sum(each.num_bytes for each in pages) else pages


def _value_pages(
    array: pa.Array,
    path: Sequence[int],
    shredded: Shredded,
    options: ColumnOptions,
    version: FileVersion,
) -> list[EncodedPage]:
    """Encode rows that hold values as mini-block pages, or as one full-zip page."""
    values = _chunk_values(shredded.values, options, version)
    if values is not None and not _lies_better_whole(shredded, values, options):
        page = build_mini_block(shredded, values, version)
        if page is not None:
            return [page]
        if len(array) > 1:
            half = len(array) // 2
            parts = (array.slice(0, half), array.slice(half))
            return [page for part in parts for page in build_pages(part, path, options, version)]
    return [build_full_zip(shredded, options, version)]


def _chunk_values(
    block: DataBlock, options: ColumnOptions, version: FileVersion
) -> EncodedValues | None:
    """Encode values as mini-block chunks; None where full-zip is asked for, or fits better."""
    if isinstance(block, PackedStructBlock):
        # The members decide: each of the two forms has one layout.
        return None if _is_variable(block) else choose_chunks(block, options, version)
    if isinstance(block, FixedSizeListBlock) and _item_bits(block) == 0:
        return None  # mini-block has no form for lists of nulls
    width = _value_bytes(block)
    wanted = options.structural_encoding
    if wanted == "fullzip" and _can_full_zip(block):
        return None
    limit = MINI_BLOCK_VALUE_BYTES_MAX if wanted is None else _ChunkLimits.of(version).value_bytes
    if width < limit:
        return choose_chunks(block, options, version)
    return choose_dictionary(block, options, version)


def _lies_better_whole(shredded: Shredded, values: EncodedValues, options: ColumnOptions) -> bool:
    """Whether full-zip would be the plain values back to back, which chunks only interrupt.

    Then a scan need not copy them, and a take reads values instead of chunks of 4 KiB.
    """
    spec = values.chunks.spec
    while isinstance(spec, FixedSizeList) and not spec.has_validity:
        spec = spec.values
    is_plain = isinstance(spec, Flat) and spec.bits_per_value >= 8 and values.dictionary is None
    has_levels = shredded.levels.rep is not None or shredded.levels.def_ is not None
    return is_plain and not has_levels and options.structural_encoding is None


def _has_no_bytes(block: DataBlock) -> bool:
    """Whether values have a width of nothing, for which there is no layout but the constant."""
    return isinstance(block, FixedWidthBlock) and block.bits_per_value == 0


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


def _is_variable(block: PackedStructBlock) -> bool:
    """Whether structs have a member that is no plain value of fixed width."""
    return not all(isinstance(member, FixedWidthBlock) for member in block.members)


def _can_full_zip(block: DataBlock) -> bool:
    """Whether full-zip has a form for these values."""
    if isinstance(block, FixedSizeListBlock):
        return _item_bits(block) > 1
    return isinstance(block, FixedWidthBlock | VariableWidthBlock)


@dataclass(frozen=True, slots=True)
class _ChunkLimits:
    """What the fields of a chunk can say (specification: 2.1, section 4; 2.2, section 2)."""

    chunk_bytes: int
    level_bytes: int
    value_bytes: int
    """Longest value for which mini-block may be asked: any two, coded badly, fit a chunk."""
    size_bytes: Literal[2, 4]

    @classmethod
    def of(cls, version: FileVersion) -> _ChunkLimits:
        """Limits of a file version."""
        if version is FileVersion.V2_1:
            return cls(32 * 1024, 32 * 1024, 4 * 1024, 2)
        return cls((1 << 28) * 8, 65535, 1 << 20, 4)


@dataclass(frozen=True, slots=True)
class _ChunkLevels:
    """The level streams of a mini-block page, and how its items fall to chunks."""

    rep: Spec | None
    def_: Spec | None
    streams: list[Stream]
    boundaries: npt.NDArray[np.int64]


def _chunk_levels(
    shredded: Shredded, values: EncodedValues, version: FileVersion
) -> _ChunkLevels | None:
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
            specs[i], encoded = encode_levels(stream, boundaries, version)
            streams.append(encoded)
    return _ChunkLevels(specs[0], specs[1], streams, boundaries)


def build_mini_block(
    shredded: Shredded, values: EncodedValues, version: FileVersion
) -> EncodedPage | None:
    """Build a mini-block page; None when a chunk would pass the format's limits."""
    limits = _ChunkLimits.of(version)
    levels = _chunk_levels(shredded, values, version)
    if levels is None:
        return None
    streams = [*levels.streams, *values.chunks.streams]
    num_levels = np.diff(levels.boundaries)
    if not levels.streams:
        num_levels = np.zeros_like(num_levels)
    if any(int(stream.sizes.max(initial=0)) > limits.level_bytes for stream in levels.streams):
        return None
    if any(int(stream.sizes.max(initial=0)) > limits.chunk_bytes for stream in streams):
        return None
    raw = [(stream.data, stream.offsets, stream.sizes) for stream in streams]
    data, sizes = byte_kernels.build_chunks(num_levels, raw, len(levels.streams), limits.size_bytes)
    if int(sizes.max()) > limits.chunk_bytes:
        return None
    counts = values.chunks.num_values
    logs = np.round(np.log2(np.maximum(counts, 1))).astype(np.int64)
    logs[-1] = 0  # the last chunk holds what is left, which need not be a power of two
    words = ((sizes // 8 - 1) << 4 | logs).astype(f"<u{limits.size_bytes}")
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
        has_large_chunk=version is not FileVersion.V2_1,
    )
    return EncodedPage(layout, tuple(buffers), shredded.num_rows)


def build_full_zip(shredded: Shredded, options: ColumnOptions, version: FileVersion) -> EncodedPage:
    """Build a full-zip page."""
    levels, shape = shredded.levels, Shape.of(shredded.layers)
    bits_rep = 0 if levels.rep is None else int(levels.rep.max()).bit_length()
    bits_def = 0 if levels.def_ is None else max(int(levels.def_.max()).bit_length(), 1)
    values = shredded.values
    per_value: int | None = None
    per_offset: int | None = None
    spec: Spec
    control = (levels.rep, levels.def_, bits_rep, bits_def, shape.max_rep, shape.max_visible)
    if isinstance(values, VariableWidthBlock | PackedStructBlock):
        if isinstance(values, PackedStructBlock):
            spec, values = _pack(values, options, version)
            per_offset = values.bits_per_offset
        else:
            per_offset = values.bits_per_offset
            spec, values = compress_wide(values, options, version)
        data, starts = byte_kernels.zip_variable(
            *control, values.offsets, values.data, 4 if per_offset == 32 else 8
        )
    else:
        spec, zipped = _zipped(values)
        per_value = zipped.bits_per_value
        if levels.rep is None and levels.def_ is None:
            data, starts = zipped.data, np.empty(0, np.int64)
        else:
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


def _pack(
    block: PackedStructBlock, options: ColumnOptions, version: FileVersion
) -> tuple[Spec, VariableWidthBlock]:
    """Structs as rows of members, each compressed on its own."""
    members: list[tuple[Spec, DataBlock]] = [
        compress_wide(member, options, version)
        if isinstance(member, VariableWidthBlock)
        else _zipped(member)
        for member in block.members
    ]
    return zip_members(members, block.num_values)


def _zipped(values: DataBlock) -> tuple[Spec, FixedWidthBlock]:
    """Fixed-width values as whole bytes, and what describes them."""
    if isinstance(values, FixedSizeListBlock) and _item_bits(values) != 1:
        return describe(values), zip_validity(values)
    if not isinstance(values, FixedWidthBlock):
        raise UnsupportedFeatureError(
            "a row is too large for a mini-block chunk (65535 levels, in file version 2.1 32 KiB), "
            "and there is no other layout for dictionary values and fixed-size lists of booleans; "
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
