"""Inline bitpacking: groups of 1024 values, each headed by its own bit width."""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, FixedWidthBlock
from alance.encodings.compressive.flat import chunk_counts
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import InlineBitpacking
from alance.errors import CorruptFileError
from alance.kernels import bitpack
from alance.kernels.memory import empty

__all__ = ["GROUP_VALUES", "InlineBitpackingEncoding", "encode_inline", "inline_bytes"]

GROUP_VALUES = 1024
WIDTHS = (8, 16, 32, 64)


class InlineBitpackingEncoding(Compressive):
    """8, 16, 32 or 64-bit raw values; a chunk is one group."""

    name = "inline_bitpacking"
    spec_type = InlineBitpacking
    transparent = False

    def decode_chunks(
        self, spec: InlineBitpacking, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Unpack all groups straight into one buffer."""
        bits = spec.uncompressed_bits_per_value
        if bits not in WIDTHS:
            raise CorruptFileError(f"bitpacking of {bits}-bit values does not exist")
        if bool((chunks.num_values > GROUP_VALUES).any()):
            raise CorruptFileError(f"a bitpacked group holds more than {GROUP_VALUES} values")
        total = chunks.total_values
        out = empty(total * bits // 8, np.uint8)
        status = bitpack.unpack_inline(
            chunks.data, chunks.offsets[0], chunks.sizes[0], chunks.num_values, bits, out
        )
        if status != 0:
            raise CorruptFileError(f"bitpacked group {status - 1} does not fit its buffer")
        return FixedWidthBlock(bits, total, out)

    def decode_blocks(
        self, spec: InlineBitpacking, blocks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Block form: the same bytes."""
        return self.decode_chunks(spec, blocks, registry)


def inline_bytes(widths: np.ndarray[tuple[int], np.dtype[np.uint8]], bits: int) -> int:
    """Size of the groups of these widths."""
    return len(widths) * (bits // 8) + 128 * int(widths.sum(dtype=np.int64))


def encode_inline(block: FixedWidthBlock) -> EncodedChunks:
    """Pack every group in its own width."""
    bits = block.bits_per_value
    data, sizes = bitpack.pack_inline(block.data, block.num_values, bits)
    counts = chunk_counts(block.num_values, GROUP_VALUES)
    return EncodedChunks(InlineBitpacking(bits), (Stream.contiguous(data, sizes),), counts)
