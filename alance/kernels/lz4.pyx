# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""LZ4 blocks behind their size, many per call."""

from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

import numpy as np

from alance.kernels.memory import empty

cdef extern from "lz4.h" nogil:
    const int LZ4_SPARE
    const int LZ4_HASHES
    bint lz4_decode(const uint8_t *data, int64_t num_in, uint8_t *out, int64_t num_out)
    int64_t lz4_encode(
        const uint8_t *data, int64_t size, uint8_t *out, uint32_t *table, uint32_t base
    )
    int64_t lz4_bound(int64_t size)

cdef enum:
    PREFIX_BYTES = 4
    GROWTH_MAX = 255  # one more byte cannot make a match longer by more
    PLAIN_BYTES_MAX = 0x7E000000  # what other libraries take


cdef inline bint inside(int64_t offset, int64_t size, int64_t limit) noexcept nogil:
    return 0 <= offset <= limit and 0 <= size <= limit - offset


cdef int same_length(const int64_t[::1] offsets, const int64_t[::1] sizes) except -1:
    if offsets.shape[0] != sizes.shape[0]:
        raise ValueError(f"{offsets.shape[0]} offsets for {sizes.shape[0]} sizes")
    return 0


cdef int64_t measure(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    int64_t[::1] plain,
    int64_t *total,
) noexcept nogil:
    """Read the sizes that the buffers say they will have; a status."""
    cdef int64_t i
    cdef uint32_t size
    for i in range(offsets.shape[0]):
        plain[i] = 0
        if sizes[i] == 0:
            continue
        if not inside(offsets[i], sizes[i], data.shape[0]) or sizes[i] < PREFIX_BYTES:
            return i + 1
        memcpy(&size, &data[0] + offsets[i], PREFIX_BYTES)
        if size > (sizes[i] - PREFIX_BYTES) * GROWTH_MAX:
            return i + 1
        plain[i] = size
        total[0] += size
    return 0


def decode(const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] sizes):
    same_length(offsets, sizes)
    cdef int64_t i, status, total = 0
    plain = np.empty(offsets.shape[0], np.int64)
    cdef int64_t[::1] plain_sizes = plain
    cdef const uint8_t *block
    with nogil:
        status = measure(data, offsets, sizes, plain_sizes, &total)
    if status:
        return np.empty(0, np.uint8), plain, status
    out = empty(total + LZ4_SPARE, np.uint8)
    cdef uint8_t[::1] view = out
    cdef uint8_t *target = &view[0]
    with nogil:
        for i in range(offsets.shape[0]):
            if sizes[i] == 0:
                continue
            block = &data[0] + offsets[i] + PREFIX_BYTES
            if not lz4_decode(block, sizes[i] - PREFIX_BYTES, target, plain_sizes[i]):
                status = i + 1
                break
            target += plain_sizes[i]
    return out[:total], plain, status


def encode(const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] sizes):
    same_length(offsets, sizes)
    cdef int64_t i, room = LZ4_SPARE
    for i in range(offsets.shape[0]):
        if not inside(offsets[i], sizes[i], data.shape[0]):
            raise ValueError(f"buffer {i} does not lie in data, which has {data.shape[0]} bytes")
        if sizes[i] > PLAIN_BYTES_MAX:
            raise ValueError(f"buffer {i} of {sizes[i]} bytes is longer than an LZ4 block can be")
        room += PREFIX_BYTES + lz4_bound(sizes[i])
    framed = np.empty(offsets.shape[0], np.int64)
    out = empty(room, np.uint8)
    places = np.zeros(LZ4_HASHES, np.uint32)
    cdef int64_t[::1] framed_sizes = framed
    cdef uint8_t[::1] view = out
    cdef uint32_t[::1] table = places
    cdef uint8_t *target = &view[0]
    cdef uint32_t size, base = 1
    with nogil:
        for i in range(offsets.shape[0]):
            size = <uint32_t>sizes[i]
            if size > UINT32_MAX - base:
                memset(&table[0], 0, LZ4_HASHES * sizeof(uint32_t))
                base = 1
            memcpy(target, &size, PREFIX_BYTES)
            target += PREFIX_BYTES
            framed_sizes[i] = PREFIX_BYTES + lz4_encode(
                &data[0] + offsets[i], size, target, &table[0], base
            )
            target += framed_sizes[i] - PREFIX_BYTES
            base += size
    return out[: target - &view[0]].copy(), framed
