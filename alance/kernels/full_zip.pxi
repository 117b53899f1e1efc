"""Part of bytes.pyx: full-zip items, a control word before each value."""


cdef struct Shape:
    int64_t control_bytes
    int bits_rep
    int bits_def
    int64_t max_visible
    int64_t length_bytes  # 0: every visible item has value_bytes
    int64_t value_bytes


cdef struct Item:
    uint32_t rep
    uint32_t def_
    bint visible
    const uint8_t *value
    int64_t value_bytes


cdef int fill_shape(
    Shape *shape,
    int bits_rep,
    int bits_def,
    int64_t max_visible,
    int64_t length_bytes,
    int64_t value_bytes,
) except -1:
    if not 0 <= bits_rep <= 16 or not 0 <= bits_def <= 16:
        raise ValueError(f"levels of {bits_rep} and {bits_def} bits, at most 16 are possible")
    if not 0 <= value_bytes <= INT32_MAX:
        raise ValueError(f"value_bytes must be in [0, {INT32_MAX}], not {value_bytes}")
    cdef int bits = bits_rep + bits_def
    shape.control_bytes = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    if shape.control_bytes + length_bytes + value_bytes == 0:
        raise ValueError("items without control word, length and value cannot be counted")
    shape.bits_rep = bits_rep
    shape.bits_def = bits_def
    shape.max_visible = max_visible
    shape.length_bytes = length_bytes
    shape.value_bytes = value_bytes
    return 0


cdef inline bint all_visible(const Shape *shape) noexcept nogil:
    return (1 << shape.bits_def) - 1 <= shape.max_visible


cdef inline const uint8_t *parse_item(
    const Shape *shape, const uint8_t *position, const uint8_t *end, Item *item
) noexcept nogil:
    """Read one item; its end, or NULL when it goes beyond `end` or its rep beyond its bits."""
    cdef uint32_t control = 0
    cdef uint64_t size = 0
    if end - position < shape.control_bytes:
        return NULL
    if shape.control_bytes == 1:
        control = position[0]
    elif shape.control_bytes:
        control = <uint32_t>load(position, shape.control_bytes)
    position += shape.control_bytes
    item.def_ = control & ((<uint32_t>1 << shape.bits_def) - 1)
    item.rep = control >> shape.bits_def
    if item.rep >> shape.bits_rep:
        return NULL
    item.visible = item.def_ <= shape.max_visible
    if item.visible and shape.length_bytes == 0:
        size = shape.value_bytes
    elif item.visible and item.def_ == 0:
        if end - position < shape.length_bytes:
            return NULL
        size = load(position, shape.length_bytes)
        position += shape.length_bytes
    if size > <uint64_t>(end - position):
        return NULL
    item.value = position
    item.value_bytes = <int64_t>size
    return position + size


cdef int64_t count_items(
    const Shape *shape,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int64_t[::1] num_items,
    int64_t *num_visible,
    int64_t *num_bytes,
) noexcept nogil:
    """Check and count the items of each range; a status."""
    cdef int64_t i, size
    cdef int64_t stride = shape.control_bytes + shape.value_bytes
    cdef bint constant = shape.bits_rep == 0 and shape.length_bytes == 0 and all_visible(shape)
    cdef const uint8_t *position
    cdef const uint8_t *end
    cdef Item item
    for i in range(starts.shape[0]):
        if starts[i] < 0 or stops[i] < 0:
            return i + 1
        if not inside(starts[i], stops[i] - starts[i], data.shape[0]):
            return i + 1
        num_items[i] = 0
        if constant and shape.bits_def % 8 == 0:  # no item can be wrong: no need to look at them
            size = stops[i] - starts[i]
            if size % stride:
                return i + 1
            num_items[i] = size // stride
            num_visible[0] += num_items[i]
            num_bytes[0] += num_items[i] * shape.value_bytes
            continue
        position = &data[0] + starts[i]
        end = &data[0] + stops[i]
        while position < end:
            position = parse_item(shape, position, end, &item)
            if position == NULL:
                return i + 1
            num_items[i] += 1
            num_visible[0] += item.visible
            num_bytes[0] += item.value_bytes
    return 0


cdef void split_items(
    const Shape *shape,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    uint16_t[::1] rep,
    uint16_t[::1] def_,
    offset_t[::1] offsets,
    uint8_t *values,
) noexcept nogil:
    """Write the levels and values of counted items; `offsets` only when widths vary."""
    cdef int64_t i, item_index = 0, value_index = 0, written = 0
    cdef const uint8_t *position
    cdef const uint8_t *end
    cdef Item item
    for i in range(starts.shape[0]):
        if shape.control_bytes + shape.length_bytes == 0:
            memcpy(values + written, &data[0] + starts[i], stops[i] - starts[i])
            written += stops[i] - starts[i]
            continue
        position = &data[0] + starts[i]
        end = &data[0] + stops[i]
        while position < end:
            position = parse_item(shape, position, end, &item)
            if position == NULL:
                return  # not the bytes that were counted: someone writes to them
            if shape.bits_rep:
                rep[item_index] = <uint16_t>item.rep
            if shape.bits_def:
                def_[item_index] = <uint16_t>item.def_
            item_index += 1
            if not item.visible:
                continue
            memcpy(values + written, item.value, item.value_bytes)
            written += item.value_bytes
            if shape.length_bytes:
                value_index += 1
                offsets[value_index] = <offset_t>written


cdef tuple unzip(
    Shape shape,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int width,
):
    """Count, allocate, split: (num_items, rep, def, offsets, values, status)."""
    cdef int64_t num_visible = 0, num_bytes = 0, total, status
    cdef uint16_t[::1] rep_view, def_view
    cdef uint8_t[::1] values_view
    cdef int32_t[::1] narrow
    cdef int64_t[::1] wide
    same_length("stops", stops.shape[0], starts.shape[0])
    num_items = np.zeros(starts.shape[0], np.int64)
    cdef int64_t[::1] counts = num_items
    with nogil:
        status = count_items(&shape, data, starts, stops, counts, &num_visible, &num_bytes)
    if status == 0 and shape.length_bytes and width == 32 and num_bytes > INT32_MAX:
        status = OVERFLOW
    if status:
        num_visible = num_bytes = total = 0
    else:
        total = num_items.sum()
    rep = rep_view = empty(total if shape.bits_rep else 0, np.uint16)
    def_ = def_view = empty(total if shape.bits_def else 0, np.uint16)
    values = values_view = empty(num_bytes, np.uint8)
    offsets = empty(
        num_visible + 1 if shape.length_bytes else 1, np.int32 if width == 32 else np.int64
    )
    offsets[0] = 0
    if status:
        pass
    elif width == 32:
        narrow = offsets
        with nogil:
            split_items(
                &shape, data, starts, stops, rep_view, def_view, narrow, &values_view[0]
            )
    else:
        wide = offsets
        with nogil:
            split_items(&shape, data, starts, stops, rep_view, def_view, wide, &values_view[0])
    rep = rep if shape.bits_rep else None
    def_ = def_ if shape.bits_def else None
    return num_items, rep, def_, offsets, values, status


def unzip_fixed(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int bits_rep,
    int bits_def,
    int64_t max_visible,
    int64_t value_bytes,
):
    """Take full-zip items of fixed width apart."""
    cdef Shape shape
    fill_shape(&shape, bits_rep, bits_def, max_visible, 0, value_bytes)
    num_items, rep, def_, _, values, status = unzip(shape, data, starts, stops, 64)
    return num_items, rep, def_, values, status


def unzip_variable(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int bits_rep,
    int bits_def,
    int64_t max_visible,
    int length_bytes,
    int width,
):
    """Take full-zip items of variable width apart."""
    cdef Shape shape
    one_of("length_bytes", length_bytes, 4, 8)
    one_of("width", width, 32, 64)
    fill_shape(&shape, bits_rep, bits_def, max_visible, length_bytes, 0)
    return unzip(shape, data, starts, stops, width)


cdef struct Levels:
    const uint16_t *rep  # NULL: the page has none
    const uint16_t *def_
    int64_t num_items
    int64_t max_rep


cdef int fill_levels(
    Levels *levels,
    const uint16_t[::1] rep,
    const uint16_t[::1] def_,
    int64_t max_rep,
    int64_t num_values,
) except -1:
    levels.rep = NULL
    levels.def_ = NULL
    levels.max_rep = max_rep
    levels.num_items = num_values
    if rep is not None:
        levels.rep = &rep[0]
        levels.num_items = rep.shape[0]
    if def_ is not None:
        levels.def_ = &def_[0]
        if rep is not None:
            same_length("def", def_.shape[0], rep.shape[0])
        levels.num_items = def_.shape[0]
    return 0


cdef int64_t measure_items(
    const Shape *shape,
    const Levels *levels,
    const offset_t[::1] offsets,
    int64_t num_values,
    int64_t data_bytes,
    int64_t *num_rows,
    int64_t *num_bytes,
) noexcept nogil:
    """Check the items and add up; 0, or 1 + the first item that cannot be zipped."""
    cdef int64_t i, size, num_visible = 0
    cdef uint32_t rep = 0, def_ = 0
    for i in range(levels.num_items):
        rep = levels.rep[i] if levels.rep != NULL else 0
        def_ = levels.def_[i] if levels.def_ != NULL else 0
        if rep >> shape.bits_rep or def_ >> shape.bits_def:
            return i + 1
        if levels.rep == NULL or rep == levels.max_rep:
            num_rows[0] += 1
        elif i == 0:
            return 1
        num_bytes[0] += shape.control_bytes
        if def_ > shape.max_visible:
            continue
        if num_visible == num_values:
            return i + 1
        if shape.length_bytes == 0:
            num_bytes[0] += shape.value_bytes
        elif def_ == 0:
            size = <int64_t>offsets[num_visible + 1] - <int64_t>offsets[num_visible]
            if not inside(offsets[num_visible], size, data_bytes):
                return i + 1
            if shape.length_bytes == 4 and size > UINT32_MAX:
                return i + 1
            num_bytes[0] += shape.length_bytes + size
        num_visible += 1
    return 0 if num_visible == num_values else levels.num_items + 1


cdef void write_items(
    const Shape *shape,
    const Levels *levels,
    const offset_t[::1] offsets,
    const uint8_t *values,
    int64_t[::1] row_starts,
    uint8_t *out,
) noexcept nogil:
    """Write measured items and where the rows start."""
    cdef int64_t i, size, row = 0, value_index = 0
    cdef uint32_t rep = 0, def_ = 0, control
    cdef uint8_t *position = out
    for i in range(levels.num_items):
        rep = levels.rep[i] if levels.rep != NULL else 0
        def_ = levels.def_[i] if levels.def_ != NULL else 0
        if levels.rep == NULL or rep == levels.max_rep:
            row_starts[row] = position - out
            row += 1
        control = (rep << shape.bits_def) | def_
        memcpy(position, &control, shape.control_bytes)  # little-endian: the low bytes
        position += shape.control_bytes
        if def_ > shape.max_visible:
            continue
        if shape.length_bytes == 0:
            memcpy(position, values + value_index * shape.value_bytes, shape.value_bytes)
            position += shape.value_bytes
        elif def_ == 0:
            size = offsets[value_index + 1] - offsets[value_index]
            store(position, size, shape.length_bytes)
            position += shape.length_bytes
            memcpy(position, values + offsets[value_index], size)
            position += size
        value_index += 1
    row_starts[row] = position - out


cdef tuple zip_items(
    Shape shape,
    const uint16_t[::1] rep,
    const uint16_t[::1] def_,
    int64_t max_rep,
    const offset_t[::1] offsets,
    int64_t num_values,
    const uint8_t[::1] values,
):
    """Measure, allocate, write: (data, row_starts)."""
    cdef Levels levels
    cdef int64_t failed, num_rows = 0, num_bytes = 0
    fill_levels(&levels, rep, def_, max_rep, num_values)
    with nogil:
        failed = measure_items(
            &shape, &levels, offsets, num_values, values.shape[0], &num_rows, &num_bytes
        )
    if failed:
        raise ValueError(
            f"item {failed - 1} of {levels.num_items} does not fit {shape.bits_rep} and "
            f"{shape.bits_def} level bits, max_rep {max_rep} or the {num_values} values"
        )
    row_starts = np.empty(num_rows + 1, np.int64)
    out = empty(num_bytes, np.uint8)
    cdef int64_t[::1] row_starts_view = row_starts
    cdef uint8_t[::1] out_view = out
    with nogil:
        write_items(&shape, &levels, offsets, &values[0], row_starts_view, &out_view[0])
    return out, row_starts


def zip_fixed(
    const uint16_t[::1] rep,
    const uint16_t[::1] def_,
    int bits_rep,
    int bits_def,
    int64_t max_rep,
    int64_t max_visible,
    const uint8_t[::1] values,
    int64_t value_bytes,
):
    """Lay out full-zip items of fixed width."""
    cdef Shape shape
    cdef const int64_t[::1] unused = np.zeros(1, np.int64)
    fill_shape(&shape, bits_rep, bits_def, max_visible, 0, value_bytes)
    if value_bytes == 0 or values.shape[0] % value_bytes:
        raise ValueError(f"{values.shape[0]} bytes are not values of {value_bytes} bytes")
    num_values = values.shape[0] // value_bytes
    return zip_items(shape, rep, def_, max_rep, unused, num_values, values)


def zip_variable(
    const uint16_t[::1] rep,
    const uint16_t[::1] def_,
    int bits_rep,
    int bits_def,
    int64_t max_rep,
    int64_t max_visible,
    offsets,
    const uint8_t[::1] data,
    int length_bytes,
):
    """Lay out full-zip items of variable width."""
    cdef Shape shape
    cdef const int32_t[::1] narrow
    cdef const int64_t[::1] wide
    one_of("length_bytes", length_bytes, 4, 8)
    fill_shape(&shape, bits_rep, bits_def, max_visible, length_bytes, 0)
    no_offsets(len(offsets))
    num_values = len(offsets) - 1
    if offsets.dtype == np.int32:
        narrow = offsets
        return zip_items(shape, rep, def_, max_rep, narrow, num_values, data)
    wide = offsets
    return zip_items(shape, rep, def_, max_rep, wide, num_values, data)
