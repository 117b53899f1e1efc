# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Kernels over plain bytes: mini-block chunks, ranges, bitmaps, variable-width values, full-zip."""

from libc.stdint cimport (
    INT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, UINT16_MAX, UINT32_MAX
)
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from alance.kernels.memory import empty

cdef enum:
    ALIGNMENT = 8  # of the header and of each stream in a chunk
    VALUE_STREAMS_MAX = 64

cdef int64_t OVERFLOW = -1

ctypedef fused offset_t:
    int32_t
    int64_t


# ---- checks ------------------------------------------------------------------------------------


cdef inline bint inside(int64_t offset, int64_t size, int64_t limit) noexcept nogil:
    return offset >= 0 and size >= 0 and offset <= limit and size <= limit - offset


cdef inline int64_t padded(int64_t size) noexcept nogil:
    return (size + ALIGNMENT - 1) & ~<int64_t>(ALIGNMENT - 1)


cdef inline int64_t bitmap_bytes(int64_t num_bits) noexcept nogil:
    return (num_bits >> 3) + ((num_bits & 7) != 0)


cdef int same_length(str what, int64_t found, int64_t expected) except -1:
    if found != expected:
        raise ValueError(f"{what}: expected length {expected}, found {found}")
    return 0


cdef int one_of(str what, int64_t found, int64_t first, int64_t second) except -1:
    if found != first and found != second:
        raise ValueError(f"{what} must be {first} or {second}, not {found}")
    return 0


cdef inline uint64_t load(const uint8_t *source, int64_t num_bytes) noexcept nogil:
    """Read a little-endian integer of 2, 4 or 8 bytes from any address."""
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if num_bytes == 2:
        memcpy(&two, source, 2)
        return two
    if num_bytes == 4:
        memcpy(&four, source, 4)
        return four
    memcpy(&eight, source, 8)
    return eight


cdef inline void store(uint8_t *target, uint64_t value, int64_t num_bytes) noexcept nogil:
    """Write the low 2, 4 or 8 bytes of `value` at any address."""
    if num_bytes == 2:
        memcpy(target, &value, 2)
    elif num_bytes == 4:
        memcpy(target, &value, 4)
    else:
        memcpy(target, &value, 8)


def repeats(const uint8_t[::1] data, int64_t period):
    """Whether every byte is the one `period` before it."""
    cdef int64_t left = data.shape[0] - period
    cdef bint same
    if period < 1:
        raise ValueError(f"period must be at least 1, not {period}")
    if left <= 0:
        return True
    with nogil:
        same = memcmp(&data[0], &data[period], left) == 0
    return same


# ---- mini-block chunks -------------------------------------------------------------------------


def parse_chunk_headers(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    int level_streams,
    int value_streams,
    int size_bytes,
):
    """Locate the streams of mini-block chunks."""
    cdef int64_t num_chunks = offsets.shape[0]
    cdef int64_t i, s, position, size, field, width
    cdef int64_t outside = 0, torn = 0
    cdef const uint8_t *chunk
    same_length("sizes", sizes.shape[0], num_chunks)
    one_of("size_bytes", size_bytes, 2, 4)
    if not 0 <= level_streams <= 2 or not 0 <= value_streams <= VALUE_STREAMS_MAX:
        raise ValueError(f"{level_streams} level and {value_streams} value streams in a chunk")
    cdef int64_t num_streams = level_streams + value_streams
    cdef int64_t header = padded(2 + 2 * level_streams + size_bytes * value_streams)
    for i in range(num_chunks):
        if not inside(offsets[i], sizes[i], data.shape[0]) or sizes[i] < header:
            num_chunks, outside = i, i + 1  # before memory is taken for chunks that cannot be
            break
    num_levels = np.empty(num_chunks, np.int64)
    stream_offsets = np.empty((num_streams, num_chunks), np.int64)
    stream_sizes = np.empty((num_streams, num_chunks), np.int64)
    cdef int64_t[::1] levels_out = num_levels
    cdef int64_t[:, ::1] offsets_out = stream_offsets
    cdef int64_t[:, ::1] sizes_out = stream_sizes
    with nogil:
        for i in range(num_chunks):
            chunk = &data[0] + offsets[i]
            levels_out[i] = <int64_t>load(chunk, 2)
            field = 2
            position = header
            for s in range(num_streams):
                width = 2 if s < level_streams else size_bytes
                size = <int64_t>load(chunk + field, width)
                field += width
                if not inside(position, size, sizes[i]):
                    torn = i + 1
                    break
                offsets_out[s, i] = offsets[i] + position
                sizes_out[s, i] = size
                position = padded(position + size)
            if torn:
                break
    return num_levels, stream_offsets, stream_sizes, torn or outside


cdef int measure_stream(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    int64_t size_max,
    int64_t[::1] chunk_sizes,
) except -1:
    """Add one stream to the size of each chunk."""
    cdef int64_t i
    same_length("offsets of a stream", offsets.shape[0], chunk_sizes.shape[0])
    same_length("sizes of a stream", sizes.shape[0], chunk_sizes.shape[0])
    for i in range(chunk_sizes.shape[0]):
        if not inside(offsets[i], sizes[i], data.shape[0]):
            raise ValueError(f"stream of chunk {i} lies outside its {data.shape[0]} bytes")
        if sizes[i] > size_max:
            raise ValueError(f"stream of chunk {i} has {sizes[i]} bytes, at most {size_max} fit")
        chunk_sizes[i] += padded(sizes[i])
    return 0


cdef void place_stream(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    uint8_t[::1] out,
    const int64_t[::1] chunk_starts,
    int64_t[::1] cursors,
    int64_t field,
    int64_t width,
) noexcept nogil:
    """Write one stream and its size, at header position `field`, into each chunk."""
    cdef int64_t i
    for i in range(cursors.shape[0]):
        store(&out[0] + chunk_starts[i] + field, sizes[i], width)
        memcpy(&out[0] + cursors[i], &data[0] + offsets[i], sizes[i])
        cursors[i] += padded(sizes[i])


def build_chunks(const int64_t[::1] num_levels, streams, int level_streams, int size_bytes):
    """Lay out mini-block chunks back to back."""
    cdef int64_t num_chunks = num_levels.shape[0]
    cdef int64_t num_streams = len(streams)
    cdef int64_t i, s, field
    one_of("size_bytes", size_bytes, 2, 4)
    if not 0 <= level_streams <= min(num_streams, 2):
        raise ValueError(f"{level_streams} of {num_streams} streams cannot be levels")
    cdef int64_t num_values = num_streams - level_streams
    cdef int64_t header = padded(2 + 2 * level_streams + size_bytes * num_values)
    chunk_sizes = np.full(num_chunks, header, np.int64)
    for i in range(num_chunks):
        if not 0 <= num_levels[i] <= UINT16_MAX:
            raise ValueError(f"chunk {i} has {num_levels[i]} levels, at most {UINT16_MAX} fit")
    for s in range(num_streams):
        data, offsets, sizes = streams[s]
        wide = s >= level_streams and size_bytes == 4
        measure_stream(data, offsets, sizes, UINT32_MAX if wide else UINT16_MAX, chunk_sizes)
    ends = np.cumsum(chunk_sizes)
    starts = ends - chunk_sizes
    cursors = starts + header
    out = np.zeros(ends[num_chunks - 1] if num_chunks else 0, np.uint8)
    cdef uint8_t[::1] target = out
    cdef const int64_t[::1] chunk_starts = starts
    for i in range(num_chunks):
        store(&target[0] + chunk_starts[i], num_levels[i], 2)
    field = 2
    for s in range(num_streams):
        data, offsets, sizes = streams[s]
        width = 2 if s < level_streams else size_bytes
        place_stream(data, offsets, sizes, target, chunk_starts, cursors, field, width)
        field += width
    return out, chunk_sizes


# ---- ranges, values and bits -------------------------------------------------------------------


def gather(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    uint8_t[::1] out,
):
    """Copy byte ranges of `data` one after another into `out`."""
    cdef int64_t i, end = 0, status = 0
    same_length("sizes", sizes.shape[0], offsets.shape[0])
    with nogil:
        for i in range(offsets.shape[0]):
            if not inside(offsets[i], sizes[i], data.shape[0]) or sizes[i] > out.shape[0] - end:
                status = i + 1
                break
            memcpy(&out[0] + end, &data[0] + offsets[i], sizes[i])
            end += sizes[i]
    if status == 0 and end != out.shape[0]:
        status = offsets.shape[0] + 1
    return status


cdef inline void clear_tail(uint8_t *bitmap, int64_t num_bits) noexcept nogil:
    """Clear the bits after the last in the last byte."""
    if num_bits & 7:
        bitmap[num_bits >> 3] &= <uint8_t>((1 << (num_bits & 7)) - 1)


cdef void append_bits(
    uint8_t *target, int64_t target_bit, const uint8_t *source, int64_t num_bits
) noexcept nogil:
    """Copy bits that start at bit 0 of `source` to `target_bit`; the rest of that byte is free."""
    cdef uint8_t *byte = target + (target_bit >> 3)
    cdef int shift = target_bit & 7
    cdef uint64_t word, carry
    cdef int64_t left = num_bits
    if num_bits == 0:
        return
    if shift == 0:
        memcpy(byte, source, bitmap_bytes(num_bits))
        clear_tail(byte, num_bits)
        return
    carry = byte[0] & ((1 << shift) - 1)
    while left >= 64:
        word = load(source, 8)
        store(byte, carry | (word << shift), 8)
        carry = word >> (64 - shift)
        source += 8
        byte += 8
        left -= 64
    while left > 0:
        word = source[0]
        byte[0] = <uint8_t>(carry | (word << shift))
        carry = word >> (8 - shift)
        source += 1
        byte += 1
        left -= 8
    target_bit += num_bits
    if byte - target < bitmap_bytes(target_bit):
        byte[0] = <uint8_t>carry
    clear_tail(target, target_bit)


def gather_bits(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] num_values,
    uint8_t[::1] out,
):
    """Join the bits of many chunks into one bitmap."""
    cdef int64_t i, size, end = 0, status = 0
    cdef int64_t capacity = out.shape[0] * 8
    same_length("num_values", num_values.shape[0], offsets.shape[0])
    with nogil:
        for i in range(offsets.shape[0]):
            if num_values[i] < 0 or num_values[i] > capacity - end:
                status = i + 1
                break
            size = bitmap_bytes(num_values[i])
            if not inside(offsets[i], size, data.shape[0]):
                status = i + 1
                break
            append_bits(&out[0], end, &data[0] + offsets[i], num_values[i])
            end += num_values[i]
    if status == 0 and bitmap_bytes(end) != out.shape[0]:
        status = offsets.shape[0] + 1
    return status


def slice_bits(const uint8_t[::1] data, int64_t bit_offset, int64_t num_bits):
    """Copy bits of a bitmap so that they start at bit 0."""
    if not inside(bit_offset, num_bits, data.shape[0] * 8):
        raise ValueError(
            f"bits [{bit_offset}, {bit_offset} + {num_bits}) of a bitmap of {data.shape[0]} bytes"
        )
    cdef int64_t size = bitmap_bytes(num_bits)
    cdef int64_t i = 0
    cdef int shift = bit_offset & 7
    out = empty(size, np.uint8)
    cdef uint8_t[::1] view = out
    cdef uint8_t *target = &view[0]
    cdef const uint8_t *source = &data[0] + (bit_offset >> 3)
    cdef int64_t source_bytes = data.shape[0] - (bit_offset >> 3)
    cdef uint64_t high
    with nogil:
        if shift == 0:
            memcpy(target, source, size)
            i = size
        while i + 8 <= size and i + 8 < source_bytes:
            store(target + i, (load(source + i, 8) >> shift) | (
                <uint64_t>source[i + 8] << (64 - shift)), 8)
            i += 8
        while i < size:
            high = source[i + 1] if i + 1 < source_bytes else 0
            target[i] = <uint8_t>((source[i] >> shift) | (high << (8 - shift)))
            i += 1
        clear_tail(target, num_bits)
    return out


cdef inline int64_t copy_values(
    const uint8_t *data,
    int64_t num_values,
    const int64_t[::1] positions,
    int64_t value_bytes,
    uint8_t *out,
) noexcept nogil:
    """Copy values by position; inlined so that a constant `value_bytes` becomes one move."""
    cdef int64_t i
    for i in range(positions.shape[0]):
        if <uint64_t>positions[i] >= <uint64_t>num_values:
            return i + 1
        memcpy(out + i * value_bytes, data + positions[i] * value_bytes, value_bytes)
    return 0


def take_fixed(
    const uint8_t[::1] data, const int64_t[::1] positions, int64_t value_bytes, uint8_t[::1] out
):
    """Copy values of `value_bytes` each, in the order of `positions`."""
    cdef int64_t status, num_values
    cdef const uint8_t *source = &data[0]
    cdef uint8_t *target = &out[0]
    if not 0 < value_bytes <= INT32_MAX:
        raise ValueError(f"value_bytes must be in [1, {INT32_MAX}], not {value_bytes}")
    same_length("out", out.shape[0], positions.shape[0] * value_bytes)
    num_values = data.shape[0] // value_bytes
    with nogil:
        if value_bytes == 1:
            status = copy_values(source, num_values, positions, 1, target)
        elif value_bytes == 2:
            status = copy_values(source, num_values, positions, 2, target)
        elif value_bytes == 4:
            status = copy_values(source, num_values, positions, 4, target)
        elif value_bytes == 8:
            status = copy_values(source, num_values, positions, 8, target)
        elif value_bytes == 16:
            status = copy_values(source, num_values, positions, 16, target)
        else:
            status = copy_values(source, num_values, positions, value_bytes, target)
    return status


def take_bits(const uint8_t[::1] data, const int64_t[::1] positions, uint8_t[::1] out):
    """Copy single bits in the order of `positions`."""
    cdef int64_t i, position
    cdef int64_t status = 0
    cdef uint64_t num_bits = <uint64_t>data.shape[0] * 8
    same_length("out", out.shape[0], bitmap_bytes(positions.shape[0]))
    with nogil:
        memset(&out[0], 0, out.shape[0])
        for i in range(positions.shape[0]):
            position = positions[i]
            if <uint64_t>position >= num_bits:
                status = i + 1
                break
            out[i >> 3] |= ((data[position >> 3] >> (position & 7)) & 1) << (i & 7)
    return status


include "rows.pxi"
include "variable.pxi"
include "full_zip.pxi"
