"""Which encoding a page's fixed-width values get: candidates with a size, the smallest wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alance.encodings.blocks import FixedWidthBlock
from alance.encodings.compressive.byte_stream_split import SPLIT_WIDTHS, encode_split
from alance.encodings.compressive.flat import encode_flat
from alance.encodings.compressive.general import Codec, compress_chunks
from alance.encodings.compressive.inline_bitpacking import (
    GROUP_VALUES,
    WIDTHS,
    encode_inline,
    inline_bytes,
)
from alance.encodings.compressive.rle import encode_rle, rle_bytes, rle_bytes_range
from alance.encodings.options import ColumnOptions
from alance.encodings.registry import EncodedChunks
from alance.kernels import bitpack, rle

__all__ = ["compress_if_smaller", "encode_fixed", "fixed_bytes", "requested_codec"]

WORTHWHILE = 0.995
"""Values that can be had without a copy stay so unless this share of the bytes is enough."""
CHUNK_OVERHEAD = 16
"""Header, padding and chunk word that every chunk costs, about."""
GENERAL_BYTES_MIN = 4096
"""A page with less is not worth a codec."""
RLE_CHUNK_VALUES = 4096
SAMPLE_LEVEL_MAX = 3
SAMPLE_PIECES = 3
SAMPLE_VALUES = 4096
"""Of one piece."""

Encode = Callable[[FixedWidthBlock], EncodedChunks]


@dataclass(frozen=True, slots=True)
class _Candidate:
    num_bytes: int
    encode: Encode


def encode_fixed(block: FixedWidthBlock, options: ColumnOptions) -> EncodedChunks:
    """Encode fixed-width values as chunks."""
    best = _best(block, options)
    codec = requested_codec(options)
    if codec is None or block.num_values * block.bits_per_value < GENERAL_BYTES_MIN * 8:
        return best.encode(block)
    inner = _inner_of_codec(block, best, codec, options)
    compressed = compress_chunks(codec, inner(block))
    if _with_overhead(compressed) < best.num_bytes:
        return compressed
    return best.encode(block)


def fixed_bytes(block: FixedWidthBlock, options: ColumnOptions) -> int:
    """About the size that the values would have as chunks, without a general codec."""
    return _best(block, options).num_bytes


def requested_codec(options: ColumnOptions) -> Codec | None:
    """Return the general codec that the column asks for."""
    if options.compression in ("lz4", "zstd"):
        return Codec(options.compression, options.compression_level)
    return None


def compress_if_smaller(codec: Codec, chunks: EncodedChunks) -> EncodedChunks:
    """Compress the first buffer of every chunk, unless that is too little or does not help."""
    if chunks.streams[0].num_bytes < GENERAL_BYTES_MIN:
        return chunks
    compressed = compress_chunks(codec, chunks)
    return compressed if compressed.num_bytes < chunks.num_bytes else chunks


def _with_overhead(chunks: EncodedChunks) -> int:
    return chunks.num_bytes + len(chunks.num_values) * CHUNK_OVERHEAD


def _best(block: FixedWidthBlock, options: ColumnOptions) -> _Candidate:
    """Return the smallest of flat, bitpacked and run lengths (specification: 2.1, section 13)."""
    bits, num_values = block.bits_per_value, block.num_values
    best = _Candidate(_flat_bytes(bits, num_values), encode_flat)
    if bits not in WIDTHS or options.compression == "none":
        return best
    limit = WORTHWHILE * best.num_bytes
    widths = bitpack.group_widths(block.data, num_values, bits)
    packed_bytes = inline_bytes(widths, bits) + len(widths) * CHUNK_OVERHEAD
    if packed_bytes < limit:
        best, limit = _Candidate(packed_bytes, encode_inline), packed_bytes
    if not _runs_allowed(block, options):
        return best
    overhead = -(-num_values // RLE_CHUNK_VALUES) * CHUNK_OVERHEAD
    least, most = rle_bytes_range(block)
    if least + overhead < limit:
        runs_bytes = (most if most + overhead < limit else rle_bytes(block)) + overhead
        if runs_bytes < limit:
            best = _Candidate(runs_bytes, encode_rle)
    return best


def _flat_bytes(bits: int, num_values: int) -> int:
    """Size of flat chunks: about 8 KiB or 4096 values each."""
    num_bytes = (num_values * bits + 7) // 8
    chunk_bytes = min(4096 * bits // 8, 4096 if bits >= 8 else 512)
    return num_bytes + -(-num_bytes // max(chunk_bytes, 1)) * CHUNK_OVERHEAD


def _runs_allowed(block: FixedWidthBlock, options: ColumnOptions) -> bool:
    """Whether there are few enough runs for a threshold that was asked for."""
    if options.rle_threshold is None:
        return True
    changes = rle.count_changes(block.data, block.num_values, block.bits_per_value // 8)
    return changes + 1 < options.rle_threshold * block.num_values


def _inner_of_codec(
    block: FixedWidthBlock, best: _Candidate, codec: Codec, options: ColumnOptions
) -> Encode:
    """What a general codec shall wrap: found by compressing a sample in every way."""
    splittable = block.bits_per_value in SPLIT_WIDTHS and options.bss != "off"
    if splittable and options.bss == "on":
        return encode_split
    candidates: list[Encode] = [encode_flat]
    if best.encode is not encode_flat:
        candidates.append(best.encode)
    if splittable:
        candidates.append(encode_split)
    if len(candidates) == 1:
        return encode_flat
    level = None if codec.level is None else min(codec.level, SAMPLE_LEVEL_MAX)
    trial, sample = Codec(codec.scheme, level), _sample(block)
    sizes = [_with_overhead(compress_chunks(trial, encode(sample))) for encode in candidates]
    return candidates[sizes.index(min(sizes))]


def _sample(block: FixedWidthBlock) -> FixedWidthBlock:
    """Pieces spread evenly over values of whole bytes; the block itself when it is small."""
    if block.num_values <= 2 * SAMPLE_PIECES * SAMPLE_VALUES:
        return block
    width = block.bits_per_value // 8
    step = (block.num_values - SAMPLE_VALUES) // (SAMPLE_PIECES - 1) // GROUP_VALUES * GROUP_VALUES
    pieces = [
        block.data[i * step * width : (i * step + SAMPLE_VALUES) * width]
        for i in range(SAMPLE_PIECES)
    ]
    return FixedWidthBlock(
        block.bits_per_value, SAMPLE_PIECES * SAMPLE_VALUES, np.concatenate(pieces)
    )
