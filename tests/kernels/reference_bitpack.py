"""`alance.kernels.bitpack` in plain NumPy: one bit at a time, as the definition reads."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int64s: TypeAlias = npt.NDArray[np.int64]

GROUP = 1024
ORDER = np.array([0, 4, 2, 6, 1, 5, 3, 7])


def _value_indices(bits: int) -> npt.NDArray[np.int64]:
    """Index in the group of the value at (row, lane)."""
    rows = np.arange(bits)[:, None]
    lanes = np.arange(GROUP // bits)[None, :]
    return ORDER[rows // 8] * 16 + (rows % 8) * 128 + lanes


def unpack_group(packed: Bytes, bits: int, width: int) -> Bytes:
    """1024 values from 128 * width bytes."""
    lanes = GROUP // bits
    words = np.unpackbits(packed, bitorder="little").reshape(width, lanes, bits)
    streams = words.transpose(1, 0, 2).reshape(lanes, bits, width)
    values = np.zeros((GROUP, bits), dtype=np.uint8)
    values[_value_indices(bits), :width] = streams.transpose(1, 0, 2)
    return np.packbits(values, axis=1, bitorder="little").reshape(-1)


def pack_group(values: Bytes, bits: int, width: int) -> Bytes:
    """128 * width bytes from at most 1024 values."""
    lanes = GROUP // bits
    group = np.zeros(GROUP * bits // 8, dtype=np.uint8)
    group[: len(values)] = values
    value_bits = np.unpackbits(group, bitorder="little").reshape(GROUP, bits)
    streams = value_bits[_value_indices(bits), :width].transpose(1, 0, 2)
    words = streams.reshape(lanes, width, bits).transpose(1, 0, 2)
    return np.packbits(words.reshape(-1), bitorder="little")


def _check_bits(bits: int) -> None:
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"bits: {bits}")


def _check_values(values: Bytes, num_values: int, bits: int) -> None:
    if not 0 <= num_values * bits <= len(values) * 8:
        raise ValueError(f"num_values: {num_values}")


def _chunk(data: Bytes, offset: int, size: int) -> Bytes | None:
    if offset < 0 or size < 0 or offset + size > len(data):
        return None
    return data[offset : offset + size]


def _unpack_chunk(chunk: Bytes, num_values: int, bits: int) -> Bytes | None:
    if not 0 <= num_values <= GROUP or len(chunk) < bits // 8:
        return None
    width = int.from_bytes(chunk[: bits // 8].tobytes(), "little")
    if width > bits or len(chunk) != bits // 8 + 128 * width:
        return None
    return unpack_group(chunk[bits // 8 :], bits, width)[: num_values * bits // 8]


def _unpack_block(block: Bytes, num_values: int, bits: int, packed_bits: int) -> Bytes | None:
    if num_values < 0 or not 0 <= packed_bits <= bits:
        return None
    groups, tail = divmod(num_values, GROUP)
    packed_bytes = 128 * packed_bits
    left = len(block) - groups * packed_bytes
    parts = []
    if left == tail * bits // 8:
        raw = block[groups * packed_bytes :]
    elif tail and left == packed_bytes:
        raw = unpack_group(block[groups * packed_bytes :], bits, packed_bits)[: tail * bits // 8]
    else:
        return None
    for g in range(groups):
        packed = block[g * packed_bytes : (g + 1) * packed_bytes]
        parts.append(unpack_group(packed, bits, packed_bits))
    return np.concatenate([*parts, raw])


def _unpack(
    data: Bytes,
    offsets: Int64s,
    sizes: Int64s,
    num_values: Int64s,
    bits: int,
    packed_bits: int | None,
    out: Bytes,
) -> int:
    _check_bits(bits)
    if not len(offsets) == len(sizes) == len(num_values):
        raise ValueError("index arrays differ in length")
    done = 0
    for i, (offset, size, count) in enumerate(zip(offsets, sizes, num_values, strict=True)):
        chunk = _chunk(data, int(offset), int(size))
        if chunk is None or not 0 <= int(count) * bits // 8 <= len(out) - done:
            return i + 1
        if packed_bits is None:
            values = _unpack_chunk(chunk, int(count), bits)
        else:
            values = _unpack_block(chunk, int(count), bits, packed_bits)
        if values is None:
            return i + 1
        out[done : done + len(values)] = values
        done += len(values)
    return 0


def unpack_inline(
    data: Bytes, offsets: Int64s, sizes: Int64s, num_values: Int64s, bits: int, out: Bytes
) -> int:
    return _unpack(data, offsets, sizes, num_values, bits, None, out)


def unpack_blocks(
    data: Bytes,
    offsets: Int64s,
    sizes: Int64s,
    num_values: Int64s,
    bits: int,
    packed_bits: int,
    out: Bytes,
) -> int:
    return _unpack(data, offsets, sizes, num_values, bits, packed_bits, out)


def group_widths(values: Bytes, num_values: int, bits: int) -> Bytes:
    _check_bits(bits)
    _check_values(values, num_values, bits)
    words = values[: num_values * bits // 8].view(f"<u{bits // 8}")
    widths = [
        max(int(word).bit_length() for word in words[start : start + GROUP])
        for start in range(0, num_values, GROUP)
    ]
    return np.array(widths, dtype=np.uint8)


def pack_inline(values: Bytes, num_values: int, bits: int) -> tuple[Bytes, Int64s]:
    word_bytes = bits // 8
    chunks = [np.empty(0, dtype=np.uint8)]
    for g, width in enumerate(group_widths(values, num_values, bits)):
        group = values[g * GROUP * word_bytes : min(num_values, (g + 1) * GROUP) * word_bytes]
        header = np.frombuffer(int(width).to_bytes(word_bytes, "little"), dtype=np.uint8)
        chunks.append(np.concatenate([header, pack_group(group, bits, int(width))]))
    sizes = np.array([len(chunk) for chunk in chunks[1:]], dtype=np.int64)
    return np.concatenate(chunks), sizes


def pack_blocks(
    values: Bytes, num_values: Int64s, bits: int, packed_bits: int
) -> tuple[Bytes, Int64s]:
    _check_bits(bits)
    if not 0 <= packed_bits <= bits:
        raise ValueError(f"packed_bits: {packed_bits}")
    blocks = [np.empty(0, dtype=np.uint8)]
    start = 0
    for count in num_values.tolist():
        _check_values(values[start:], count, bits)
        stop = start + count * bits // 8
        parts = [np.empty(0, dtype=np.uint8)]
        while start < stop:
            group = values[start : min(stop, start + GROUP * bits // 8)]
            packed = len(group) == GROUP * bits // 8 or len(group) > 128 * packed_bits
            parts.append(pack_group(group, bits, packed_bits) if packed else group)
            start += len(group)
        blocks.append(np.concatenate(parts))
    sizes = np.array([len(block) for block in blocks[1:]], dtype=np.int64)
    return np.concatenate(blocks), sizes
