"""Byte stream split: byte j of all values of a chunk together, which general codecs like."""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, FixedWidthBlock
from alance.encodings.compressive.flat import chunk_counts
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import ByteStreamSplit, Flat
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import split

__all__ = ["SPLIT_WIDTHS", "ByteStreamSplitEncoding", "encode_split"]

SPLIT_WIDTHS = (32, 64)
CHUNK_BYTES = 4096


class ByteStreamSplitEncoding(Compressive):
    """32 or 64-bit raw values."""

    name = "byte_stream_split"
    spec_type = ByteStreamSplit
    transparent = False

    def decode_chunks(
        self, spec: ByteStreamSplit, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Join the bytes of all values into one buffer."""
        if not isinstance(spec.values, Flat):
            raise UnsupportedFeatureError(
                "split bytes that are encoded once more are not known to this library; a newer "
                "one may read the file",
                feature="byte stream split of encoded values",
            )
        bits = spec.values.bits_per_value
        if bits not in SPLIT_WIDTHS:
            raise CorruptFileError(f"byte stream split of {bits}-bit values does not exist")
        counts = chunks.num_values
        if bool((chunks.sizes[0] // (bits // 8) < counts).any()):
            raise CorruptFileError("a chunk of split bytes is shorter than its values need")
        data, status = split.decode(chunks.data, chunks.offsets[0], counts, bits // 8)
        if status != 0:
            raise CorruptFileError(f"split chunk {status - 1} does not fit its page")
        return FixedWidthBlock(bits, chunks.total_values, data)


def encode_split(block: FixedWidthBlock) -> EncodedChunks:
    """Cut into chunks of 4 KiB and split their bytes."""
    bits = block.bits_per_value
    counts = chunk_counts(block.num_values, CHUNK_BYTES * 8 // bits)
    data = split.encode(block.data, counts, bits // 8)
    stream = Stream.contiguous(data, counts * np.int64(bits // 8))
    return EncodedChunks(ByteStreamSplit(Flat(bits)), (stream,), counts)
