"""Fixed-size list of fixed-width items: the validity of the items, then the items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alance.encodings.blocks import (
    Bytes,
    Chunks,
    DataBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
)
from alance.encodings.compressive.flat import chunk_counts
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import Constant, FixedSizeList, Flat, Spec
from alance.errors import CorruptFileError
from alance.kernels import bytes as byte_kernels
from alance.kernels.memory import empty

__all__ = ["FixedSizeListEncoding", "describe", "encode_fixed_size_list", "zip_validity"]

CHUNK_BYTES_MAX = 8186
CHUNK_VALUES_MAX = 4096
ITEMS_MAX = 1 << 31


class FixedSizeListEncoding(Compressive):
    """Nests: the outermost description is the outermost list."""

    name = "fixed_size_list"
    spec_type = FixedSizeList
    transparent = True

    def num_buffers(self, spec: FixedSizeList, registry: EncodingRegistry) -> int:
        """One bitmap for each level that has validity, then those of the items."""
        return int(spec.has_validity) + registry.num_buffers(spec.values)

    def decode_chunks(
        self, spec: FixedSizeList, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Decode the items of all lists, then pair them with their validity."""
        _check_items(spec.items_per_value, chunks.total_values)
        num_items = chunks.num_values * spec.items_per_value
        validity, first = None, 0
        if spec.has_validity:
            if bool((chunks.sizes[0] < (num_items + 7) // 8).any()):
                raise CorruptFileError("an item validity bitmap is shorter than its items need")
            validity = empty((int(num_items.sum()) + 7) // 8, np.uint8)
            status = byte_kernels.gather_bits(chunks.data, chunks.offsets[0], num_items, validity)
            if status != 0:
                raise CorruptFileError(f"item validity bitmap {status - 1} does not fit its page")
            first = 1
        inner = replace(
            chunks,
            offsets=chunks.offsets[first:],
            sizes=chunks.sizes[first:],
            num_values=num_items,
        )
        items = registry.decode_chunks(spec.values, inner)
        return FixedSizeListBlock(spec.items_per_value, chunks.total_values, validity, items)

    def decode_values(
        self, spec: FixedSizeList, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Take zipped values apart: bitmaps outermost first, then the items."""
        if not isinstance(block, FixedWidthBlock):
            raise CorruptFileError("a fixed-size list in a page of variable-width values")
        _check_items(spec.items_per_value, block.num_values)
        rows = block.data.reshape(block.num_values, block.bits_per_value // 8)
        return _unzip(spec, rows, 1, registry)


def _check_items(dimension: int, num_values: int) -> None:
    if dimension < 1 or dimension * max(num_values, 1) > ITEMS_MAX * 8:
        raise CorruptFileError(f"{num_values} lists of {dimension} items cannot be real")


def _unzip(
    spec: FixedSizeList, rows: Bytes, lists_per_row: int, registry: EncodingRegistry
) -> DataBlock:
    num_lists = len(rows) * lists_per_row
    items_per_row = lists_per_row * spec.items_per_value
    _check_items(items_per_row, len(rows))
    validity = None
    if spec.has_validity:
        bitmap_bytes = (items_per_row + 7) // 8
        if bitmap_bytes > rows.shape[1]:
            raise CorruptFileError("an item validity bitmap is longer than its value")
        bits = np.unpackbits(
            np.ascontiguousarray(rows[:, :bitmap_bytes]),
            axis=1,
            count=items_per_row,
            bitorder="little",
        )
        validity = np.packbits(bits, bitorder="little")
        rows = rows[:, bitmap_bytes:]
    if isinstance(spec.values, FixedSizeList):
        items = _unzip(spec.values, rows, items_per_row, registry)
    else:
        if spec.values == Constant(None) and not spec.has_validity:
            raise CorruptFileError("items that are all null, without validity to say so")
        width = rows.shape[1] * 8 // items_per_row
        if width * items_per_row != rows.shape[1] * 8:
            raise CorruptFileError("zipped fixed-size lists do not divide into their items")
        num_items = len(rows) * items_per_row
        data = np.ascontiguousarray(rows).reshape(-1)
        items = registry.decode_values(spec.values, FixedWidthBlock(width, num_items, data))
    return FixedSizeListBlock(spec.items_per_value, num_lists, validity, items)


def describe(block: FixedSizeListBlock) -> FixedSizeList:
    """Return the description of a block: items are always flat."""
    inner: Spec
    match block.items:
        case FixedSizeListBlock():
            inner = describe(block.items)
        case FixedWidthBlock(bits, _, _):
            inner = Flat(bits)
        case NullBlock():
            inner = Constant(None)
        case _:
            raise AssertionError("fixed-size lists hold fixed-width items")
    return FixedSizeList(block.dimension, block.validity is not None, inner)


def _levels(block: FixedSizeListBlock) -> tuple[list[tuple[Bytes, int]], FixedWidthBlock, int]:
    """Bitmaps with their items per row, outermost first; then the items and items per row."""
    bitmaps, dimension = [], 1
    level: DataBlock = block
    while isinstance(level, FixedSizeListBlock):
        dimension *= level.dimension
        if level.validity is not None:
            bitmaps.append((level.validity, dimension))
        level = level.items
    if isinstance(level, NullBlock):
        level = FixedWidthBlock(0, level.num_values, np.empty(0, np.uint8))
    assert isinstance(level, FixedWidthBlock)
    return bitmaps, level, dimension


def encode_fixed_size_list(block: FixedSizeListBlock) -> EncodedChunks:
    """Cut into chunks of a power of two of rows; bitmaps start at bit 0 in each."""
    bitmaps, items, dimension = _levels(block)
    row_bits = dimension * items.bits_per_value + sum(per_row for _, per_row in bitmaps)
    per_chunk = CHUNK_VALUES_MAX
    while per_chunk > 2 and per_chunk * row_bits > CHUNK_BYTES_MAX * 8:
        per_chunk //= 2
    counts = chunk_counts(block.num_values, per_chunk)
    starts = np.cumsum(counts) - counts
    streams = [_cut_bits(bitmap, starts * per_row, counts * per_row) for bitmap, per_row in bitmaps]
    bits = dimension * items.bits_per_value
    if items.bits_per_value == 1:
        streams.append(_cut_bits(items.data, starts * bits, counts * bits))
    else:
        streams.append(Stream(items.data, starts * bits // 8, counts * bits // 8))
    return EncodedChunks(describe(block), tuple(streams), counts)


def _cut_bits(
    bitmap: Bytes,
    starts: np.ndarray[tuple[int], np.dtype[np.int64]],
    counts: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Stream:
    """Cut runs of bits so that every run starts at bit 0."""
    sizes = (counts + 7) // 8
    if not (starts % 8).any():
        return Stream(bitmap, starts // 8, sizes)
    cut = [
        byte_kernels.slice_bits(bitmap, int(start), int(count))
        for start, count in zip(starts, counts, strict=True)
    ]
    return Stream.contiguous(np.concatenate(cut), sizes)


def zip_validity(block: FixedSizeListBlock) -> FixedWidthBlock:
    """Per-value form: each row's bitmaps, whole bytes each, before its items of whole bytes."""
    bitmaps, items, dimension = _levels(block)
    num_rows = block.num_values
    row_bytes = dimension * items.bits_per_value // 8
    item_bytes = items.data[: num_rows * row_bytes].reshape(num_rows, row_bytes)
    parts = []
    for bitmap, per_row in bitmaps:
        bits = np.unpackbits(bitmap, count=num_rows * per_row, bitorder="little")
        parts.append(np.packbits(bits.reshape(num_rows, per_row), axis=1, bitorder="little"))
    rows = np.concatenate([*parts, item_bytes], axis=1)
    return FixedWidthBlock(rows.shape[1] * 8, num_rows, np.ascontiguousarray(rows).reshape(-1))
