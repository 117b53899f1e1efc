"""Run lengths: values beside the number of times that each is repeated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, DataBlock, FixedWidthBlock
from alance.encodings.compressive.flat import chunk_counts
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import Flat, Rle
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import rle

__all__ = [
    "RleEncoding",
    "encode_rle",
    "encode_rle_blocks",
    "rle_blocks_bytes",
    "rle_bytes",
    "rle_bytes_range",
]

Positions = npt.NDArray[np.int64]

WIDTHS = (8, 16, 32, 64)
LENGTHS = Flat(bits_per_value=8)
CHUNK_BYTES_MAX = 12 * 1024
CHUNK_VALUES_MAX = 4096
CHUNK_VALUES_MIN = 1024
"""So many runs of any width are not too long for a chunk."""
LENGTH_MAX = 255
HEADER_BYTES = 8
"""Of the block form: the size of the values."""


class RleEncoding(Compressive):
    """8, 16, 32 or 64-bit values; a run longer than 255 is written as several of equal value."""

    name = "rle"
    spec_type = Rle
    transparent = False

    def num_buffers(self, spec: Rle, registry: EncodingRegistry) -> int:
        """Values, then lengths."""
        return 2

    def decode_chunks(self, spec: Rle, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Repeat the values of all chunks into one buffer."""
        num_runs = chunks.sizes[1]
        if bool((chunks.sizes[0] != num_runs * (_bits(spec) // 8)).any()):
            raise CorruptFileError("a chunk has not as many run values as run lengths")
        return _repeat(spec, chunks, chunks.offsets[0], chunks.offsets[1], num_runs)

    def decode_blocks(self, spec: Rle, blocks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Block form: the size of the values, the values, the lengths (specification: 2.2, 4)."""
        width = _bits(spec) // 8
        starts, sizes = blocks.offsets[0], blocks.sizes[0]
        if bool((sizes < HEADER_BYTES).any()):
            raise CorruptFileError("a block of run lengths is shorter than its header")
        headers = blocks.data[starts[:, np.newaxis] + np.arange(HEADER_BYTES)]
        said = np.ascontiguousarray(headers).view("<u8").reshape(-1)
        left = sizes - HEADER_BYTES
        num_runs = left // (width + 1)
        if bool((num_runs * (width + 1) != left).any() or (said != num_runs * width).any()):
            raise CorruptFileError("a block has not as many run values as run lengths")
        values = starts + HEADER_BYTES
        return _repeat(spec, blocks, values, values + num_runs * width, num_runs)


def _bits(spec: Rle) -> int:
    """Width of the values."""
    if not isinstance(spec.values, Flat) or spec.run_lengths != LENGTHS:
        raise UnsupportedFeatureError(
            "run lengths around other than flat values and flat 8-bit lengths are not known "
            "to this library; a newer one may read the file",
            feature="rle of encoded runs",
        )
    bits = spec.values.bits_per_value
    if bits not in WIDTHS:
        raise CorruptFileError(f"run lengths of {bits}-bit values do not exist")
    return bits


def _repeat(
    spec: Rle, chunks: Chunks, values: Positions, lengths: Positions, num_runs: Positions
) -> FixedWidthBlock:
    """Values of all chunks; those of a chunk may end within a run."""
    bits = _bits(spec)
    data, status = rle.decode(chunks.data, values, lengths, num_runs, chunks.num_values, bits // 8)
    if status != 0:
        raise CorruptFileError(
            f"the runs of chunk {status - 1} are shorter than its number of values, or not there"
        )
    return FixedWidthBlock(bits, chunks.total_values, data)


def rle_bytes_range(block: FixedWidthBlock) -> tuple[int, int]:
    """Size that run lengths of these values have at least, and at most; quick to find."""
    width, num_values = block.bits_per_value // 8, block.num_values
    runs = rle.count_changes(block.data, num_values, width) + 1
    # Long runs are cut, and so are those that meet the end of a chunk.
    least = max(runs, -(-num_values // LENGTH_MAX))
    most = runs + num_values // LENGTH_MAX + -(-num_values // CHUNK_VALUES_MIN)
    return least * (width + 1), most * (width + 1)


def rle_bytes(block: FixedWidthBlock) -> int:
    """Size of the runs of these values as `encode_rle` cuts them."""
    width = block.bits_per_value // 8
    per_chunk = CHUNK_VALUES_MAX
    while True:
        num_runs = rle.count_runs(block.data, _boundaries(block, per_chunk), width)
        if _fit(num_runs, width):
            return int(num_runs.sum()) * (width + 1)
        per_chunk //= 2


def encode_rle(block: FixedWidthBlock) -> EncodedChunks:
    """Cut into chunks of a power of two of values, none too long, and these into runs."""
    width = block.bits_per_value // 8
    per_chunk = CHUNK_VALUES_MAX
    while True:
        boundaries = _boundaries(block, per_chunk)
        values, lengths, num_runs = rle.encode(block.data, boundaries, width)
        if _fit(num_runs, width):
            break
        per_chunk //= 2
    streams = (Stream.contiguous(values, num_runs * width), Stream.contiguous(lengths, num_runs))
    return EncodedChunks(_describe(block.bits_per_value), streams, np.diff(boundaries))


def _boundaries(block: FixedWidthBlock, per_chunk: int) -> Positions:
    counts = chunk_counts(block.num_values, per_chunk)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _fit(num_runs: Positions, width: int) -> bool:
    """Whether no chunk is too long."""
    return int(num_runs.max(initial=0)) * (width + 1) <= CHUNK_BYTES_MAX


def encode_rle_blocks(values: Bytes, boundaries: Positions, bits: int) -> tuple[Rle, Stream]:
    """Cut blocks of values, which lie one after the other, into runs in block form."""
    width = bits // 8
    run_values, lengths, num_runs = rle.encode(values, boundaries, width)
    sizes = HEADER_BYTES + num_runs * (width + 1)
    stops = np.cumsum(num_runs)
    parts: list[Bytes] = []
    for stop, count in zip(stops.tolist(), num_runs.tolist(), strict=True):
        start = stop - count
        header = np.frombuffer((count * width).to_bytes(HEADER_BYTES, "little"), np.uint8)
        parts += (header, run_values[start * width : stop * width], lengths[start:stop])
    return _describe(bits), Stream.contiguous(np.concatenate(parts), sizes)


def rle_blocks_bytes(values: Bytes, boundaries: Positions, bits: int) -> int:
    """Size of what `encode_rle_blocks` gives."""
    num_runs = rle.count_runs(values, boundaries, bits // 8)
    return int((HEADER_BYTES + num_runs * (bits // 8 + 1)).sum())


def _describe(bits: int) -> Rle:
    return Rle(values=Flat(bits), run_lengths=LENGTHS)
