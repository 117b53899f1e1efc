"""Variable: offsets and bytes of strings and binaries."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, DataBlock, VariableWidthBlock
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import Flat, Variable
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels

__all__ = ["VariableEncoding", "encode_variable", "encode_variable_block"]

CHUNK_BYTES_TARGET = 4096
CHUNK_BYTES_MAX = 16384
CHUNK_VALUES_MAX = 4096


class VariableEncoding(Compressive):
    """32-bit offsets for string and binary, 64-bit ones for their large forms."""

    name = "variable"
    spec_type = Variable
    transparent = True

    def decode_chunks(
        self, spec: Variable, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Validate all offsets and copy the bytes of all chunks into one buffer."""
        width = offset_bits(spec)
        offsets, data, status = byte_kernels.decode_variable(
            chunks.data, chunks.offsets[0], chunks.sizes[0], chunks.num_values, width
        )
        if status < 0:
            raise UnsupportedFeatureError(
                "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
                feature="32-bit offsets",
            )
        if status > 0:
            raise CorruptFileError(f"offsets of chunk {status - 1} do not fit its bytes")
        return VariableWidthBlock(offsets, data)

    def decode_blocks(
        self, spec: Variable, blocks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Block form, as dictionaries use it: a two-word header, offsets from 0, bytes."""
        if blocks.num_chunks != 1:
            raise CorruptFileError("variable-width levels do not exist")
        start, size = int(blocks.offsets[0, 0]), int(blocks.sizes[0, 0])
        data = blocks.data[start : start + size]
        return _decode_block(data, int(blocks.num_values[0]), offset_bits(spec))

    def decode_values(
        self, spec: Variable, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Per value: the bytes themselves."""
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("variable-width values in a page of fixed-width values")
        return block


def offset_bits(spec: Variable) -> Literal[32, 64]:
    """Width of the offsets, 32 or 64."""
    inner = spec.offsets
    if not isinstance(inner, Flat):
        raise UnsupportedFeatureError(
            f"offsets encoded as {type(inner).__name__}", feature="encoded offsets"
        )
    if inner.bits_per_value == 32:
        return 32
    if inner.bits_per_value == 64:
        return 64
    raise CorruptFileError(f"offsets of {inner.bits_per_value} bits do not exist")


def _decode_block(data: Bytes, num_values: int, width: int) -> VariableWidthBlock:
    dtype = np.dtype(f"<i{width // 8}")
    header = _legacy_header(data)
    if header is None:
        table_at = 2 * dtype.itemsize
        bytes_at = table_at + (num_values + 1) * dtype.itemsize
        if len(data) < bytes_at:
            raise CorruptFileError(f"a dictionary block of {num_values} values is too short")
        bits, bytes_at_said = (int(word) for word in data[:table_at].view(dtype))
        if bits != width or bytes_at_said != bytes_at:
            raise CorruptFileError(
                f"a dictionary block says offsets of {bits} bits and bytes at {bytes_at_said}; "
                f"{width} bits and {bytes_at} fit its {num_values} values"
            )
    else:
        table_at, bytes_at = header
        if len(data) < bytes_at or bytes_at != table_at + (num_values + 1) * dtype.itemsize:
            raise CorruptFileError(f"a dictionary block of {num_values} values is too short")
    offsets = data[table_at:bytes_at].copy().view(dtype)
    values = data[bytes_at:]
    falling = offsets[1:] < offsets[:-1]  # not by difference, which wraps around
    if int(offsets[0]) != 0 or bool(falling.any()) or offsets[-1] > len(values):
        raise CorruptFileError("offsets of a dictionary block do not fit its bytes")
    return VariableWidthBlock(offsets, values)


def _legacy_header(data: Bytes) -> tuple[int, int] | None:
    """(table, bytes) positions of the one-byte header that very old files have, else None."""
    if len(data) < 9 or not data[1:4].any():
        return None
    if data[0] == 32:
        return 9, int(data[5:9].copy().view("<u4")[0])
    if data[0] == 64 and len(data) >= 17:
        return 17, int(data[9:17].copy().view("<u8")[0])
    raise CorruptFileError("a dictionary block has neither of the known headers")


def encode_variable(block: VariableWidthBlock, chunk_bytes: int | None = None) -> EncodedChunks:
    """Cut into chunks of a power of two of values, about `chunk_bytes` (4 KiB) each."""
    target = CHUNK_BYTES_TARGET if chunk_bytes is None else min(chunk_bytes, CHUNK_BYTES_MAX)
    boundaries = _chunk_boundaries(block.offsets, target)
    data, sizes = byte_kernels.encode_variable(block.offsets, block.data, boundaries)
    spec = Variable(Flat(block.bits_per_offset))
    return EncodedChunks(spec, (Stream.contiguous(data, sizes),), np.diff(boundaries))


def _chunk_boundaries(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64], target: int
) -> npt.NDArray[np.int64]:
    """Positions where chunks start: one power of two for all, halved where values are long."""
    num_values, width = len(offsets) - 1, offsets.dtype.itemsize
    total = int(offsets[-1]) - int(offsets[0]) + num_values * width
    per_chunk = CHUNK_VALUES_MAX
    while per_chunk > 2 and per_chunk * total > target * num_values:
        per_chunk //= 2
    boundaries = np.append(np.arange(0, num_values, per_chunk, dtype=np.int64), num_values)
    while True:
        counts = np.diff(boundaries)
        num_bytes = np.diff(offsets[boundaries].astype(np.int64)) + (counts + 1) * width
        long = np.flatnonzero((num_bytes > CHUNK_BYTES_MAX) & (counts > 2))
        if len(long) == 0:
            return boundaries
        # The last chunk may hold any number; its first part must be a power of two below it.
        halves = 1 << (np.ceil(np.log2(counts[long])).astype(np.int64) - 1)
        boundaries = np.insert(boundaries, long + 1, boundaries[long] + halves)


def encode_variable_block(block: VariableWidthBlock) -> Bytes:
    """Block form: header, offsets from 0, bytes."""
    dtype = block.offsets.dtype
    first = block.offsets[0]
    offsets = block.offsets - first
    header = np.array([dtype.itemsize * 8, (2 + len(offsets)) * dtype.itemsize], dtype)
    values = block.data[int(first) : int(block.offsets[-1])]
    return np.concatenate((header.view(np.uint8), offsets.view(np.uint8), values))
