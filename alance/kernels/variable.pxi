"""Part of bytes.pyx: values of variable width, as offsets and bytes."""


cdef inline bint rebase_offsets(
    const uint8_t *stored, int64_t num_values, offset_t base, offset_t *out
) noexcept nogil:
    """Write the end of each value, counted from `base`; false when the offsets decrease."""
    cdef uint64_t first = load(stored, sizeof(offset_t))
    cdef uint64_t low, high
    cdef int decreasing = 0
    cdef int64_t i
    for i in range(num_values):
        low = load(stored + i * <int64_t>sizeof(offset_t), sizeof(offset_t))
        high = load(stored + (i + 1) * <int64_t>sizeof(offset_t), sizeof(offset_t))
        decreasing |= high < low
        out[i] = <offset_t>(<uint64_t>base + high - first)
    return not decreasing


cdef int64_t measure_chunks(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] num_values,
    int64_t width,
    int64_t *total_values,
    int64_t *total_bytes,
) noexcept nogil:
    """Check the first and last offset of each chunk and add up; a status."""
    cdef int64_t i, n
    cdef uint64_t first, last
    cdef const uint8_t *chunk
    for i in range(offsets.shape[0]):
        n = num_values[i]
        if not inside(offsets[i], sizes[i], data.shape[0]) or n < 0:
            return i + 1
        if n == 0:
            continue
        if n >= sizes[i] // width:
            return i + 1
        chunk = &data[0] + offsets[i]
        first = load(chunk, width)
        last = load(chunk + n * width, width)
        if first < <uint64_t>((n + 1) * width) or last < first or last > <uint64_t>sizes[i]:
            return i + 1
        total_values[0] += n
        total_bytes[0] += <int64_t>(last - first)
    return 0


cdef int64_t join_chunks(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] num_values,
    offset_t[::1] offsets_out,
    uint8_t *bytes_out,
) noexcept nogil:
    """Copy the values of measured chunks; a status."""
    cdef int64_t i, n
    cdef int64_t width = sizeof(offset_t)
    cdef offset_t *ends = &offsets_out[1]
    cdef offset_t base = 0
    cdef const uint8_t *chunk
    for i in range(num_values.shape[0]):
        n = num_values[i]
        if n == 0:
            continue
        chunk = &data[0] + offsets[i]
        if not rebase_offsets(chunk, n, base, ends):
            return i + 1
        memcpy(bytes_out + base, chunk + load(chunk, width), ends[n - 1] - base)
        base = ends[n - 1]
        ends += n
    return 0


def decode_variable(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] num_values,
    int width,
):
    """Join the variable-width values of many mini-block chunks."""
    cdef int64_t total_values = 0, total_bytes = 0, status
    one_of("width", width, 32, 64)
    same_length("sizes", sizes.shape[0], offsets.shape[0])
    same_length("num_values", num_values.shape[0], offsets.shape[0])
    with nogil:
        status = measure_chunks(
            data, offsets, sizes, num_values, width // 8, &total_values, &total_bytes
        )
    if status == 0 and width == 32 and total_bytes > INT32_MAX:
        status = OVERFLOW
    if status:
        total_values = total_bytes = 0
    offsets_out = empty(total_values + 1, np.int32 if width == 32 else np.int64)
    offsets_out[0] = 0
    bytes_out = empty(total_bytes, np.uint8)
    cdef uint8_t[::1] bytes_view = bytes_out
    cdef int32_t[::1] narrow
    cdef int64_t[::1] wide
    if status:
        return offsets_out, bytes_out, status
    if width == 32:
        narrow = offsets_out
        with nogil:
            status = join_chunks(data, offsets, num_values, narrow, &bytes_view[0])
    else:
        wide = offsets_out
        with nogil:
            status = join_chunks(data, offsets, num_values, wide, &bytes_view[0])
    return offsets_out, bytes_out, status


cdef int no_offsets(int64_t num_offsets) except -1:
    if num_offsets == 0:
        raise ValueError("offsets must have one entry more than there are values, found none")
    return 0


cdef inline bint write_offsets(
    const offset_t *offsets, int64_t num_values, uint8_t *out
) noexcept nogil:
    """Write the n + 1 offsets of a buffer, counted from its start; false when they decrease."""
    cdef int64_t width = sizeof(offset_t)
    cdef int64_t start = (num_values + 1) * width - offsets[0]
    cdef int decreasing = 0
    cdef int64_t i
    store(out, start + offsets[0], width)
    for i in range(num_values):
        decreasing |= offsets[i + 1] < offsets[i]
        store(out + (i + 1) * width, start + offsets[i + 1], width)
    return not decreasing


cdef int64_t measure_buffers(
    const offset_t[::1] offsets,
    int64_t data_bytes,
    const int64_t[::1] boundaries,
    int64_t[::1] sizes,
) except -1:
    """Set the size of each buffer and add up."""
    cdef int64_t width = sizeof(offset_t)
    cdef int64_t c, start, stop, size
    cdef int64_t total = 0
    for c in range(sizes.shape[0]):
        start, stop = boundaries[c], boundaries[c + 1]
        if not 0 <= start <= stop < offsets.shape[0]:
            raise ValueError(
                f"chunk {c} holds values [{start}, {stop}) of {offsets.shape[0] - 1} values"
            )
        if not 0 <= offsets[start] <= offsets[stop] <= data_bytes:
            raise ValueError(f"offsets of chunk {c} lie outside the {data_bytes} bytes of data")
        size = (stop - start + 1) * width + (<int64_t>offsets[stop] - <int64_t>offsets[start])
        sizes[c] = (size + width - 1) // width * width
        if offset_t is int32_t and sizes[c] > INT32_MAX:
            raise ValueError(f"chunk {c} has {sizes[c]} bytes, too many for 32-bit offsets")
        total += sizes[c]
    return total


cdef tuple cut_buffers(
    const offset_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] boundaries
):
    """Write the value buffer of each chunk."""
    cdef int64_t width = sizeof(offset_t)
    cdef int64_t c, start, n, header, num_bytes
    cdef int64_t failed = 0
    no_offsets(offsets.shape[0])
    no_offsets(boundaries.shape[0])
    sizes = np.empty(boundaries.shape[0] - 1, np.int64)
    cdef int64_t[::1] sizes_view = sizes
    out = empty(measure_buffers(offsets, data.shape[0], boundaries, sizes_view), np.uint8)
    cdef uint8_t[::1] out_view = out
    cdef uint8_t *target = &out_view[0]
    with nogil:
        for c in range(sizes_view.shape[0]):
            start = boundaries[c]
            n = boundaries[c + 1] - start
            header = (n + 1) * width
            num_bytes = offsets[start + n] - offsets[start]
            if not write_offsets(&offsets[start], n, target):
                failed = c + 1
                break
            memcpy(target + header, &data[0] + offsets[start], num_bytes)
            memset(target + header + num_bytes, 0, sizes_view[c] - header - num_bytes)
            target += sizes_view[c]
    if failed:
        raise ValueError(f"offsets decrease in chunk {failed - 1}")
    return out, sizes


def encode_variable(offsets, const uint8_t[::1] data, const int64_t[::1] boundaries):
    """Cut variable-width values into the value buffers of mini-block chunks."""
    if offsets.dtype == np.int32:
        return cut_buffers[int32_t](offsets, data, boundaries)
    return cut_buffers[int64_t](offsets, data, boundaries)


cdef int64_t measure_values(
    const offset_t[::1] offsets,
    int64_t data_bytes,
    const int64_t[::1] positions,
    offset_t *ends,
) noexcept nogil:
    """Write the end of each taken value; a status."""
    cdef int64_t i, position, low, high
    cdef int64_t total = 0
    cdef int64_t num_values = offsets.shape[0] - 1
    for i in range(positions.shape[0]):
        position = positions[i]
        if <uint64_t>position >= <uint64_t>num_values:
            return i + 1
        low = offsets[position]
        high = offsets[position + 1]
        if low < 0 or high < low or high > data_bytes:
            return i + 1
        total += high - low
        if offset_t is int32_t:
            if total > INT32_MAX:
                return OVERFLOW
        ends[i] = <offset_t>total
    return 0


cdef void copy_runs(
    const offset_t[::1] offsets,
    const uint8_t *data,
    const int64_t[::1] positions,
    uint8_t *out,
) noexcept nogil:
    """Copy measured values, neighbours in one piece."""
    cdef int64_t i = 0, first, size
    while i < positions.shape[0]:
        first = positions[i]
        i += 1
        while i < positions.shape[0] and positions[i] == positions[i - 1] + 1:
            i += 1
        size = offsets[positions[i - 1] + 1] - offsets[first]
        memcpy(out, data + offsets[first], size)
        out += size


cdef tuple take_values(
    const offset_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] positions
):
    """Copy values by position."""
    cdef int64_t status
    cdef int64_t num_taken = positions.shape[0]
    no_offsets(offsets.shape[0])
    taken = empty(num_taken + 1, np.int32 if offset_t is int32_t else np.int64)
    cdef offset_t[::1] taken_view = taken
    taken_view[0] = 0
    with nogil:
        status = measure_values(offsets, data.shape[0], positions, &taken_view[1])
    out = empty(0 if status else taken_view[num_taken], np.uint8)
    cdef uint8_t[::1] out_view = out
    if status == 0:
        with nogil:
            copy_runs(offsets, &data[0], positions, &out_view[0])
    return taken, out, status


def take_variable(offsets, const uint8_t[::1] data, const int64_t[::1] positions):
    """Copy variable-width values in the order of `positions`."""
    if offsets.dtype == np.int32:
        return take_values[int32_t](offsets, data, positions)
    return take_values[int64_t](offsets, data, positions)
