"""Flat: values back to back, uncompressed."""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, FixedWidthBlock
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import Flat
from alance.errors import CorruptFileError
from alance.kernels import bytes as byte_kernels
from alance.kernels.memory import empty

__all__ = ["FlatEncoding", "encode_flat"]

CHUNK_BYTES_MAX = 8186
CHUNK_VALUES_MAX = 4096
BITS_MAX = 8 * (2**31 - 1)
"""Width of one value; Arrow cannot hold a wider one."""


class FlatEncoding(Compressive):
    """Any width; one-bit values are booleans, LSB first, each chunk starting at bit 0."""

    name = "flat"
    spec_type = Flat
    transparent = True

    def decode_chunks(self, spec: Flat, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Copy all chunks into one buffer; a single chunk stays a view."""
        bits = spec.bits_per_value
        check_width(bits)
        offsets, num_values = chunks.offsets[0], chunks.num_values
        # In Python's numbers, which do not wrap around; the products below are smaller.
        fits = chunks.total_values * bits <= int(chunks.sizes[0].sum()) * 8
        num_bytes = (num_values * (bits if fits else 1) + 7) // 8
        if not fits or bool((chunks.sizes[0] < num_bytes).any()):
            raise CorruptFileError(
                f"a flat buffer of {bits}-bit values is shorter than its number of values needs"
            )
        total = chunks.total_values
        if chunks.num_chunks == 1:
            start = int(offsets[0])
            data = chunks.data[start : start + int(num_bytes[0])]
            return FixedWidthBlock(bits, total, data)
        out = empty((total * bits + 7) // 8, np.uint8)
        if bits == 1:
            status = byte_kernels.gather_bits(chunks.data, offsets, num_values, out)
        else:
            status = byte_kernels.gather(chunks.data, offsets, num_bytes, out)
        if status != 0:
            raise CorruptFileError(f"flat buffer {status - 1} does not fit its page")
        return FixedWidthBlock(bits, total, out)

    def decode_blocks(self, spec: Flat, blocks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Block form: the same bytes."""
        return self.decode_chunks(spec, blocks, registry)

    def decode_values(self, spec: Flat, block: DataBlock, registry: EncodingRegistry) -> DataBlock:
        """Per value: nothing to do but agree on the width."""
        check_width(spec.bits_per_value)
        if not isinstance(block, FixedWidthBlock):
            raise CorruptFileError("flat values in a page of variable-width values")
        if spec.bits_per_value == 1 and block.bits_per_value == 8:
            bits = np.packbits(block.data != 0, bitorder="little")
            return FixedWidthBlock(1, block.num_values, bits)
        if spec.bits_per_value != block.bits_per_value:
            raise CorruptFileError(
                f"page says {block.bits_per_value} bits a value, its encoding {spec.bits_per_value}"
            )
        return block


def check_width(bits: int) -> None:
    """Refuse widths that no type has."""
    if bits < 1 or bits > BITS_MAX or (bits != 1 and bits % 8 != 0):
        raise CorruptFileError(f"flat values of {bits} bits do not exist")


def encode_flat(block: FixedWidthBlock) -> EncodedChunks:
    """Cut into chunks of a power of two of values, at most 8186 bytes and 4096 values each."""
    bits, num_values = block.bits_per_value, block.num_values
    per_chunk = CHUNK_VALUES_MAX
    while per_chunk > 2 and per_chunk * bits > CHUNK_BYTES_MAX * 8:
        per_chunk //= 2
    counts = chunk_counts(num_values, per_chunk)
    sizes = (counts * bits + 7) // 8
    return EncodedChunks(Flat(bits), (Stream.contiguous(block.data, sizes),), counts)


def chunk_counts(num_values: int, per_chunk: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Values of every chunk when all but the last hold `per_chunk`."""
    num_chunks = -(-num_values // per_chunk)
    counts = np.full(num_chunks, per_chunk, np.int64)
    if num_chunks:
        counts[-1] = num_values - per_chunk * (num_chunks - 1)
    return counts
