# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Run lengths of fixed-width values, many chunks per call."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from alance.kernels.memory import empty

cdef enum:
    LENGTH_MAX = 255  # of one run; a longer one repeats its value
    BURST = 8  # values written at once, so that short runs need no loop

ctypedef fused word_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef struct Runs:
    const uint8_t *data
    int64_t data_bytes
    const int64_t *value_offsets
    const int64_t *length_offsets
    const int64_t *num_runs
    const int64_t *num_values
    int64_t num_chunks


cdef inline bint inside(int64_t offset, int64_t size, int64_t limit) noexcept nogil:
    return 0 <= offset <= limit and 0 <= size <= limit - offset


cdef int check_width(int width) except -1:
    if width not in (1, 2, 4, 8):
        raise ValueError(f"width must be 1, 2, 4 or 8 bytes, not {width}")
    return width


cdef int64_t check_runs(const Runs *runs, int64_t width, int64_t *total) noexcept nogil:
    """Whether every run lies in the data and enough of them could be there; a status."""
    cdef int64_t i
    for i in range(runs.num_chunks):
        if runs.num_runs[i] < 0 or runs.num_runs[i] > runs.data_bytes // width:
            return i + 1
        if not inside(runs.value_offsets[i], runs.num_runs[i] * width, runs.data_bytes):
            return i + 1
        if not inside(runs.length_offsets[i], runs.num_runs[i], runs.data_bytes):
            return i + 1
        if runs.num_values[i] < 0 or runs.num_values[i] > runs.num_runs[i] * LENGTH_MAX:
            return i + 1
        total[0] += runs.num_values[i]
    return 0


cdef inline void fill(word_t *out, word_t value, int64_t length) noexcept nogil:
    """Write a run; what `BURST` writes beyond it belongs to the next or is to spare."""
    cdef int64_t i = 0
    cdef int k
    while i < length:
        for k in range(BURST):
            out[i + k] = value
        i += BURST


cdef int64_t repeat(const Runs *runs, word_t *out) noexcept nogil:
    """Write the values of checked chunks; a status."""
    cdef int64_t i, r, left, length
    cdef const uint8_t *values
    cdef const uint8_t *lengths
    cdef word_t value
    for i in range(runs.num_chunks):
        values = runs.data + runs.value_offsets[i]
        lengths = runs.data + runs.length_offsets[i]
        left = runs.num_values[i]
        for r in range(runs.num_runs[i]):
            length = min(<int64_t>lengths[r], left)
            memcpy(&value, values + r * <int64_t>sizeof(word_t), sizeof(word_t))
            fill(out, value, length)
            out += length
            left -= length
        if left:
            return i + 1
    return 0


def decode(
    const uint8_t[::1] data,
    const int64_t[::1] value_offsets,
    const int64_t[::1] length_offsets,
    const int64_t[::1] num_runs,
    const int64_t[::1] num_values,
    int width,
):
    check_width(width)
    cdef Runs runs
    cdef int64_t status, total = 0
    runs.num_chunks = num_values.shape[0]
    if not value_offsets.shape[0] == length_offsets.shape[0] == num_runs.shape[0] == (
        num_values.shape[0]
    ):
        raise ValueError("offsets, runs and values must have one entry for every chunk")
    runs.data = &data[0]
    runs.data_bytes = data.shape[0]
    runs.value_offsets = &value_offsets[0]
    runs.length_offsets = &length_offsets[0]
    runs.num_runs = &num_runs[0]
    runs.num_values = &num_values[0]
    status = check_runs(&runs, width, &total)
    if status:
        return np.empty(0, np.uint8), status
    out = empty((total + BURST) * width, np.uint8)
    cdef uint8_t[::1] target = out
    with nogil:
        if width == 1:
            status = repeat[uint8_t](&runs, &target[0])
        elif width == 2:
            status = repeat[uint16_t](&runs, <uint16_t *>&target[0])
        elif width == 4:
            status = repeat[uint32_t](&runs, <uint32_t *>&target[0])
        else:
            status = repeat[uint64_t](&runs, <uint64_t *>&target[0])
    return out[: total * width], status


cdef inline word_t load(const uint8_t *values, int64_t i, word_t like) noexcept nogil:
    """Value i, from any address; `like` only says of what width."""
    cdef word_t value
    memcpy(&value, values + i * <int64_t>sizeof(word_t), sizeof(word_t))
    return value


cdef int64_t changes(const uint8_t *values, int64_t num_values, word_t like) noexcept nogil:
    cdef int64_t i, found = 0
    for i in range(1, num_values):
        found += load(values, i, like) != load(values, i - 1, like)
    return found


cdef int64_t measure(const uint8_t *values, int64_t num_values, word_t like) noexcept nogil:
    """Runs of one chunk, none longer than `LENGTH_MAX`."""
    cdef int64_t i, found = num_values > 0, length = 1
    cdef bint starts
    for i in range(1, num_values):
        starts = (load(values, i, like) != load(values, i - 1, like)) | (length == LENGTH_MAX)
        found += starts
        length = 1 if starts else length + 1
    return found


cdef int64_t cut(
    const uint8_t *values, int64_t num_values, uint8_t *run_values, uint8_t *lengths, word_t like
) noexcept nogil:
    """Write the runs of one chunk, which is not empty; how many. There is room for all values."""
    cdef int64_t i, run = 0, length = 1
    cdef bint starts
    cdef int64_t width = sizeof(word_t)
    memcpy(run_values, values, width)
    for i in range(1, num_values):
        starts = (load(values, i, like) != load(values, i - 1, like)) | (length == LENGTH_MAX)
        lengths[run] = <uint8_t>length  # until the run ends; then the next is begun
        run += starts
        length = 1 if starts else length + 1
        memcpy(run_values + run * width, values + i * width, width)
    lengths[run] = <uint8_t>length
    return run + 1


def count_changes(const uint8_t[::1] values, int64_t num_values, int width):
    check_width(width)
    check_values(values, num_values, width)
    cdef const uint8_t *source = &values[0]
    cdef int64_t found
    with nogil:
        if width == 1:
            found = changes[uint8_t](source, num_values, 0)
        elif width == 2:
            found = changes[uint16_t](source, num_values, 0)
        elif width == 4:
            found = changes[uint32_t](source, num_values, 0)
        else:
            found = changes[uint64_t](source, num_values, 0)
    return found


cdef int check_values(const uint8_t[::1] values, int64_t num_values, int width) except -1:
    if num_values < 0 or num_values > values.shape[0] // width:
        raise ValueError(
            f"values has {values.shape[0]} bytes, which are not {num_values} values of {width}"
        )
    return 0


cdef int check_boundaries(const int64_t[::1] boundaries) except -1:
    cdef int64_t i
    if boundaries.shape[0] == 0 or boundaries[0] < 0:
        raise ValueError("boundaries must start at 0 or above, and have one entry more than chunks")
    for i in range(boundaries.shape[0] - 1):
        if boundaries[i + 1] < boundaries[i]:
            raise ValueError(f"chunk {i} ends before it starts")
    return 0


def count_runs(const uint8_t[::1] values, const int64_t[::1] boundaries, int width):
    check_width(width)
    check_boundaries(boundaries)
    check_values(values, boundaries[boundaries.shape[0] - 1], width)
    counts = np.empty(boundaries.shape[0] - 1, np.int64)
    cdef int64_t[::1] out = counts
    cdef const uint8_t *source
    cdef int64_t i, n
    with nogil:
        for i in range(out.shape[0]):
            source = &values[0] + boundaries[i] * width
            n = boundaries[i + 1] - boundaries[i]
            if width == 1:
                out[i] = measure[uint8_t](source, n, 0)
            elif width == 2:
                out[i] = measure[uint16_t](source, n, 0)
            elif width == 4:
                out[i] = measure[uint32_t](source, n, 0)
            else:
                out[i] = measure[uint64_t](source, n, 0)
    return counts


def encode(const uint8_t[::1] values, const int64_t[::1] boundaries, int width):
    check_width(width)
    check_boundaries(boundaries)
    cdef int64_t total = boundaries[boundaries.shape[0] - 1]
    check_values(values, total, width)
    # At least as many as there are runs: nobody has to count them first.
    run_values = empty((total - boundaries[0]) * width, np.uint8)
    run_lengths = empty(total - boundaries[0], np.uint8)
    counts = np.zeros(boundaries.shape[0] - 1, np.int64)
    cdef int64_t[::1] num_runs = counts
    cdef uint8_t[::1] values_view = run_values
    cdef uint8_t[::1] lengths_view = run_lengths
    cdef uint8_t *values_out = &values_view[0]
    cdef uint8_t *lengths_out = &lengths_view[0]
    cdef const uint8_t *source
    cdef int64_t i, n
    with nogil:
        total = 0
        for i in range(num_runs.shape[0]):
            source = &values[0] + boundaries[i] * width
            n = boundaries[i + 1] - boundaries[i]
            if n == 0:
                continue
            if width == 1:
                num_runs[i] = cut[uint8_t](source, n, values_out, lengths_out, 0)
            elif width == 2:
                num_runs[i] = cut[uint16_t](source, n, values_out, lengths_out, 0)
            elif width == 4:
                num_runs[i] = cut[uint32_t](source, n, values_out, lengths_out, 0)
            else:
                num_runs[i] = cut[uint64_t](source, n, values_out, lengths_out, 0)
            values_out += num_runs[i] * width
            lengths_out += num_runs[i]
            total += num_runs[i]
    return run_values[: total * width], run_lengths[:total], counts
