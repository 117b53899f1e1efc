"""Part of bytes.pyx: members of structs laid out row by row, one member at a time."""


def put_fixed(const uint8_t[::1] data, int64_t width, int64_t[::1] places, uint8_t[::1] out):
    """Copy a value of one member to every row, and move the places behind them."""
    cdef int64_t i, status = 0
    if width < 0:
        raise ValueError(f"values of {width} bytes")
    same_length("data", data.shape[0], width * places.shape[0])
    if width == 0:
        return status
    with nogil:
        for i in range(places.shape[0]):
            if not inside(places[i], width, out.shape[0]):
                status = i + 1
                break
            if width == 8:
                memcpy(&out[places[i]], &data[8 * i], 8)
            elif width == 4:
                memcpy(&out[places[i]], &data[4 * i], 4)
            else:
                memcpy(&out[places[i]], &data[width * i], width)
            places[i] += width
    return status


def put_variable(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    int64_t length_bytes,
    int64_t[::1] places,
    uint8_t[::1] out,
):
    """Copy a value of one member, behind its length, to every row; move the places behind them."""
    cdef int64_t i, size, status = 0
    one_of("length_bytes", length_bytes, 4, 8)
    same_length("offsets", offsets.shape[0], places.shape[0] + 1)
    with nogil:
        for i in range(places.shape[0]):
            size = offsets[i + 1] - offsets[i]
            if (
                not inside(offsets[i], size, data.shape[0])
                or not inside(places[i], length_bytes, out.shape[0])
                or size > out.shape[0] - places[i] - length_bytes
            ):
                status = i + 1
                break
            store(&out[places[i]], size, length_bytes)
            places[i] += length_bytes
            if size:
                memcpy(&out[places[i]], &data[offsets[i]], size)
            places[i] += size
    return status
