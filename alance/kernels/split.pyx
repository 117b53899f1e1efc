# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Byte stream split of 32 and 64-bit values, many chunks per call."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from alance.kernels.memory import empty

ctypedef fused word_t:
    uint32_t
    uint64_t


cdef int check_width(int width) except -1:
    if width != 4 and width != 8:
        raise ValueError(f"width must be 4 or 8 bytes, not {width}")
    return width


cdef void take_apart(
    const uint8_t *values, int64_t num_values, uint8_t *out, word_t like
) noexcept nogil:
    """Write byte j of every value into stream j; `like` only says of what width."""
    cdef int64_t i
    cdef int j
    cdef word_t value
    for j in range(<int>sizeof(word_t)):
        for i in range(num_values):
            memcpy(&value, values + i * <int64_t>sizeof(word_t), sizeof(word_t))
            out[i] = <uint8_t>(value >> (8 * j))
        out += num_values


cdef void put_together(
    const uint8_t *streams, int64_t num_values, uint8_t *out, word_t like
) noexcept nogil:
    cdef int64_t i
    cdef int j
    cdef word_t value
    for i in range(num_values):
        value = 0
        for j in range(<int>sizeof(word_t)):
            value |= <word_t>streams[j * num_values + i] << (8 * j)
        memcpy(out + i * <int64_t>sizeof(word_t), &value, sizeof(word_t))


def encode(const uint8_t[::1] values, const int64_t[::1] num_values, int width):
    cdef int64_t i, done = 0
    check_width(width)
    for i in range(num_values.shape[0]):
        if num_values[i] < 0 or num_values[i] > values.shape[0] // width - done:
            raise ValueError(f"chunk {i} has {num_values[i]} values, which are not there")
        done += num_values[i]
    out = empty(done * width, np.uint8)
    cdef uint8_t[::1] view = out
    cdef uint8_t *target = &view[0]
    cdef const uint8_t *source = &values[0]
    with nogil:
        for i in range(num_values.shape[0]):
            if width == 4:
                take_apart[uint32_t](source, num_values[i], target, 0)
            else:
                take_apart[uint64_t](source, num_values[i], target, 0)
            source += num_values[i] * width
            target += num_values[i] * width
    return out


def decode(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] num_values,
    int width,
):
    cdef int64_t i, total = 0
    check_width(width)
    if offsets.shape[0] != num_values.shape[0]:
        raise ValueError(f"{offsets.shape[0]} offsets for {num_values.shape[0]} chunks")
    for i in range(num_values.shape[0]):
        if not 0 <= offsets[i] <= data.shape[0] or not (
            0 <= num_values[i] <= (data.shape[0] - offsets[i]) // width
        ):
            return np.empty(0, np.uint8), i + 1
        total += num_values[i]
    out = empty(total * width, np.uint8)
    cdef uint8_t[::1] view = out
    cdef uint8_t *target = &view[0]
    with nogil:
        for i in range(num_values.shape[0]):
            if width == 4:
                put_together[uint32_t](&data[0] + offsets[i], num_values[i], target, 0)
            else:
                put_together[uint64_t](&data[0] + offsets[i], num_values[i], target, 0)
            target += num_values[i] * width
    return out, 0
