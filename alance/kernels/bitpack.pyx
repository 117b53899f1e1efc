# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""FastLanes bit packing of groups of 1024 values, many groups per call."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

from alance.kernels.memory import empty

cdef extern from "fastlanes.h" nogil:
    const int FL_GROUP
    const int FL_ROW_BYTES
    void fl_unpack(const uint8_t *packed, uint8_t *values, int bits, int width)
    void fl_pack(const uint8_t *values, uint8_t *packed, int bits, int width)
    int fl_width(const uint8_t *values, int bits)

cdef enum:
    GROUP_BYTES_MAX = 8192  # 1024 values of 64 bits


cdef struct Source:
    const uint8_t *data
    int64_t data_bytes
    const int64_t *offsets
    const int64_t *sizes
    const int64_t *num_values
    int64_t num_chunks


cdef int check_bits(bits) except -1:
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"bits must be 8, 16, 32 or 64, not {bits}")
    return bits


cdef int check_values(const uint8_t[::1] values, int64_t num_values, int bits) except -1:
    if num_values < 0 or num_values > values.shape[0] // (bits // 8):
        raise ValueError(
            f"values has {values.shape[0]} bytes, which are not {num_values} values of {bits} bits"
        )
    return 0


cdef Source open_source(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] num_values,
) except *:
    """Pointers to arrays whose lengths agree; the caller keeps the arrays alive."""
    cdef Source source
    source.num_chunks = num_values.shape[0]
    if offsets.shape[0] != source.num_chunks or sizes.shape[0] != source.num_chunks:
        raise ValueError(
            f"offsets, sizes and num_values must have one entry per chunk, not "
            f"{offsets.shape[0]}, {sizes.shape[0]} and {num_values.shape[0]}"
        )
    source.data_bytes = data.shape[0]
    source.data = &data[0] if data.shape[0] else NULL
    source.offsets = &offsets[0] if source.num_chunks else NULL
    source.sizes = &sizes[0] if source.num_chunks else NULL
    source.num_values = &num_values[0] if source.num_chunks else NULL
    return source


cdef inline bint lies_inside(const Source *source, int64_t i) noexcept nogil:
    """Whether chunk i is a range of the data."""
    cdef int64_t offset = source.offsets[i]
    cdef int64_t size = source.sizes[i]
    return 0 <= offset <= source.data_bytes and 0 <= size <= source.data_bytes - offset


cdef inline void unpack_short(
    const uint8_t *packed, uint8_t *out, int64_t num_bytes, int bits, int width
) noexcept nogil:
    """Unpack a whole group and keep its first `num_bytes`."""
    cdef uint8_t group[GROUP_BYTES_MAX]
    fl_unpack(packed, group, bits, width)
    memcpy(out, group, num_bytes)


cdef int64_t inline_chunks(
    const Source *source, int bits, uint8_t *out, int64_t out_bytes
) noexcept nogil:
    cdef int word_bytes = bits // 8
    cdef int64_t i, num_values, num_bytes
    cdef int width, k
    cdef const uint8_t *chunk
    for i in range(source.num_chunks):
        num_values = source.num_values[i]
        if num_values < 0 or num_values > FL_GROUP:
            return i + 1
        num_bytes = num_values * word_bytes
        if not lies_inside(source, i) or source.sizes[i] < word_bytes or num_bytes > out_bytes:
            return i + 1
        chunk = source.data + source.offsets[i]
        width = chunk[0]
        for k in range(1, word_bytes):
            if chunk[k] != 0:
                return i + 1
        if width > bits or source.sizes[i] != word_bytes + FL_ROW_BYTES * width:
            return i + 1
        if num_values == FL_GROUP:
            fl_unpack(chunk + word_bytes, out, bits, width)
        elif num_values > 0:
            unpack_short(chunk + word_bytes, out, num_bytes, bits, width)
        out += num_bytes
        out_bytes -= num_bytes
    return 0


cdef int64_t whole_blocks(
    const Source *source, int bits, int width, uint8_t *out, int64_t out_bytes
) noexcept nogil:
    cdef int word_bytes = bits // 8
    cdef int64_t packed_bytes = FL_ROW_BYTES * width
    cdef int64_t i, num_groups, tail_bytes, left
    cdef const uint8_t *block
    for i in range(source.num_chunks):
        if not lies_inside(source, i):
            return i + 1
        # against the room in `out` first: the products below are then too small to overflow
        if source.num_values[i] < 0 or source.num_values[i] > out_bytes // word_bytes:
            return i + 1
        num_groups = source.num_values[i] // FL_GROUP
        tail_bytes = source.num_values[i] % FL_GROUP * word_bytes
        left = source.sizes[i] - num_groups * packed_bytes
        if left != tail_bytes and (tail_bytes == 0 or left != packed_bytes):
            return i + 1
        block = source.data + source.offsets[i]
        for _ in range(num_groups):
            fl_unpack(block, out, bits, width)
            block += packed_bytes
            out += FL_GROUP * word_bytes
        if tail_bytes > 0 and left == tail_bytes:
            memcpy(out, block, tail_bytes)
        elif tail_bytes > 0:
            unpack_short(block, out, tail_bytes, bits, width)
        out += tail_bytes
        out_bytes -= source.num_values[i] * word_bytes
    return 0


cdef inline int64_t groups_of(int64_t num_values) noexcept nogil:
    return (num_values + FL_GROUP - 1) // FL_GROUP


cdef inline const uint8_t *padded_group(
    const uint8_t *values, int64_t num_values, int bits, uint8_t *scratch
) noexcept nogil:
    """The group itself, or a copy padded with zeros where it is short."""
    cdef int64_t num_bytes = num_values * (bits // 8)
    if num_values >= FL_GROUP:
        return values
    memcpy(scratch, values, num_bytes)
    memset(scratch + num_bytes, 0, FL_ROW_BYTES * bits - num_bytes)
    return scratch


cdef void measure_groups(
    const uint8_t *values, int64_t num_values, int bits, uint8_t *widths
) noexcept nogil:
    cdef uint8_t scratch[GROUP_BYTES_MAX]
    cdef int64_t g
    for g in range(groups_of(num_values)):
        widths[g] = fl_width(padded_group(values, num_values - g * FL_GROUP, bits, scratch), bits)
        values += FL_ROW_BYTES * bits


cdef void pack_groups(
    const uint8_t *values, int64_t num_values, int bits, const uint8_t *widths, uint8_t *out
) noexcept nogil:
    """Write the chunks of `inline_bitpacking`: header word, packed rows."""
    cdef uint8_t scratch[GROUP_BYTES_MAX]
    cdef int64_t g
    cdef int width
    for g in range(groups_of(num_values)):
        width = widths[g]
        memset(out, 0, bits // 8)
        out[0] = width
        out += bits // 8
        fl_pack(padded_group(values, num_values - g * FL_GROUP, bits, scratch), out, bits, width)
        values += FL_ROW_BYTES * bits
        out += FL_ROW_BYTES * width


cdef inline int64_t block_bytes(int64_t num_values, int bits, int width) noexcept nogil:
    cdef int64_t tail = num_values % FL_GROUP
    cdef int64_t groups = num_values // FL_GROUP * FL_ROW_BYTES * width
    if tail * bits > FL_GROUP * width:
        return groups + FL_ROW_BYTES * width
    return groups + tail * (bits // 8)


cdef void pack_block(
    const uint8_t *values, int64_t num_values, int bits, int width, uint8_t *out
) noexcept nogil:
    cdef uint8_t scratch[GROUP_BYTES_MAX]
    cdef int64_t g, left
    for g in range(groups_of(num_values)):
        left = num_values - g * FL_GROUP
        if left < FL_GROUP and left * bits <= FL_GROUP * width:
            memcpy(out, values, left * (bits // 8))
            return
        fl_pack(padded_group(values, left, bits, scratch), out, bits, width)
        values += FL_ROW_BYTES * bits
        out += FL_ROW_BYTES * width


def unpack_inline(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] num_values,
    bits,
    uint8_t[::1] out,
):
    cdef int word_bits = check_bits(bits)
    cdef Source source = open_source(data, offsets, sizes, num_values)
    cdef int64_t out_bytes = out.shape[0]
    cdef uint8_t *target = &out[0] if out_bytes else NULL
    cdef int64_t status
    with nogil:
        status = inline_chunks(&source, word_bits, target, out_bytes)
    return status


def unpack_blocks(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] num_values,
    bits,
    packed_bits,
    uint8_t[::1] out,
):
    cdef int word_bits = check_bits(bits)
    cdef Source source = open_source(data, offsets, sizes, num_values)
    cdef int64_t out_bytes = out.shape[0]
    cdef uint8_t *target = &out[0] if out_bytes else NULL
    cdef int64_t status
    cdef int width
    if not 0 <= packed_bits <= bits:
        return 1 if source.num_chunks else 0
    width = packed_bits
    with nogil:
        status = whole_blocks(&source, word_bits, width, target, out_bytes)
    return status


def group_widths(const uint8_t[::1] values, int64_t num_values, bits):
    cdef int word_bits = check_bits(bits)
    check_values(values, num_values, word_bits)
    widths = np.empty(groups_of(num_values), dtype=np.uint8)
    cdef uint8_t[::1] target = widths
    if num_values > 0:
        with nogil:
            measure_groups(&values[0], num_values, word_bits, &target[0])
    return widths


def pack_inline(const uint8_t[::1] values, int64_t num_values, bits):
    cdef int word_bits = check_bits(bits)
    widths = group_widths(values, num_values, bits)
    sizes = word_bits // 8 + FL_ROW_BYTES * widths.astype(np.int64)
    data = empty(int(sizes.sum()), np.uint8)
    cdef const uint8_t[::1] group = widths
    cdef uint8_t[::1] target = data
    if num_values > 0:
        with nogil:
            pack_groups(&values[0], num_values, word_bits, &group[0], &target[0])
    return data, sizes


def pack_blocks(const uint8_t[::1] values, const int64_t[::1] num_values, bits, packed_bits):
    cdef int word_bits = check_bits(bits)
    if not 0 <= packed_bits <= bits:
        raise ValueError(f"packed_bits must be in [0, {bits}], not {packed_bits}")
    cdef int width = packed_bits
    cdef int64_t i, done = 0
    sizes = np.empty(num_values.shape[0], dtype=np.int64)
    cdef int64_t[::1] size = sizes
    for i in range(num_values.shape[0]):
        check_values(values[done * (word_bits // 8) :], num_values[i], word_bits)
        done += num_values[i]
        size[i] = block_bytes(num_values[i], word_bits, width)
    data = empty(int(sizes.sum()), np.uint8)
    cdef uint8_t[::1] target = data
    cdef const uint8_t *source = &values[0] if values.shape[0] else NULL
    cdef uint8_t *out = &target[0] if target.shape[0] else NULL
    with nogil:
        for i in range(num_values.shape[0]):
            pack_block(source, num_values[i], word_bits, width, out)
            source += num_values[i] * (word_bits // 8)
            out += size[i]
    return data, sizes
