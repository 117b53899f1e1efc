"""Part of fsst.pyx: coding with a symbol table."""


cdef extern from "fsst.h" nogil:
    const int FSST_HASHES
    const int FSST_CURSORS
    const int FSST_LITERAL

    ctypedef struct fsst_match:
        uint64_t symbol
        uint64_t mask
        uint32_t found
        uint32_t next

    ctypedef struct fsst_encoder:
        uint32_t shorts[65536 + 256]
        uint8_t first[4096]
        fsst_match matches[256]
        int has_zeros

    ctypedef struct fsst_cursor:
        const uint8_t *at
        const uint8_t *stop
        uint8_t *out
        int64_t value
        int64_t last
        uint8_t *start

    uint32_t fsst_hash(uint64_t word)
    uint32_t fsst_longest(
        const fsst_encoder *encoder,
        const uint8_t *at,
        int64_t left,
        int64_t readable,
        int zeros,
    )
    void fsst_encode(
        const fsst_encoder *encoder,
        const uint8_t *data,
        int64_t data_bytes,
        const void *offsets,
        void *ends,
        int width,
        fsst_cursor *cursors,
    )


# --- encoding


cdef void build_encoder(
    fsst_encoder *encoder, const uint64_t *symbols, const uint8_t *lengths, int num_symbols
) noexcept nogil:
    """Put short symbols into a table, longer ones into chains, longest first."""
    cdef int byte, code, length, k, slot = 1
    cdef uint64_t word
    cdef fsst_match *match
    for byte in range(256):
        encoder.shorts[65536 + byte] = (FSST_LITERAL + byte) | 1 << 16
    encoder.has_zeros = False
    for code in range(num_symbols):
        if lengths[code] == 1:
            encoder.shorts[65536 + symbols[code]] = code | 1 << 16
        for k in range(lengths[code]):
            encoder.has_zeros |= (symbols[code] >> (8 * k) & 0xFF) == 0
    for byte in range(256):
        memcpy(&encoder.shorts[byte * 256], &encoder.shorts[65536], 256 * sizeof(uint32_t))
    memset(encoder.first, 0, FSST_HASHES)
    memset(encoder.matches, 0, sizeof(encoder.matches))
    encoder.matches[0].symbol = 1  # which no word is behind a mask of 0
    for length in range(2, SYMBOL_BYTES + 1):  # each goes before the shorter ones
        for code in range(num_symbols):
            word = symbols[code]
            if lengths[code] != length:
                continue
            if length == 2:
                encoder.shorts[word] = code | 2 << 16
                continue
            match = &encoder.matches[slot]
            match.symbol = word
            match.mask = <uint64_t>0xFFFFFFFFFFFFFFFF >> (64 - 8 * length)
            match.found = code | length << 16
            match.next = encoder.first[fsst_hash(word)]
            encoder.first[fsst_hash(word)] = slot
            slot += 1


def encode(bytes symbol_table, const offset_t[::1] offsets, const uint8_t[::1] data):
    check_input(offsets, data)
    cdef Table table
    if not load_table(symbol_table, &table):
        raise ValueError("the symbol table has another size or magic, or lengths not from 1 to 8")
    if not table.switched_on:
        return uncoded(offsets, data)
    cdef int64_t size = 2 * (<int64_t>offsets[offsets.shape[0] - 1] - offsets[0])
    if offset_t is int32_t and size > INT32_MAX:
        raise OverflowError(f"32-bit offsets cannot express {size} bytes of codes")
    out = empty(size + FSST_CURSORS, np.uint8)
    out_offsets = empty_offsets(offsets, offsets.shape[0])
    cdef uint8_t[::1] target = out
    cdef offset_t[::1] ends = out_offsets
    cdef uint8_t[::1] room = np.empty(sizeof(fsst_encoder), dtype=np.uint8)
    cdef fsst_encoder *encoder = <fsst_encoder *>&room[0]
    cdef fsst_cursor cursors[4]
    cdef int64_t[5] bounds = share(np.asarray(offsets))
    place_cursors(cursors, bounds, offsets, &data[0], &target[0])
    ends[0] = 0
    with nogil:
        build_encoder(encoder, table.symbols, table.lengths, table.num_symbols)
        fsst_encode(
            encoder, &data[0], data.shape[0], &offsets[0], &ends[1], sizeof(offset_t), cursors
        )
        size = join_codes(cursors, bounds, &target[0], ends)
    return out_offsets, out[:size].copy()


cdef share(offsets):
    """Cut values into runs of about as many bytes for every cursor."""
    first, last = int(offsets[0]), int(offsets[len(offsets) - 1])
    goals = [first + (last - first) * k // FSST_CURSORS for k in range(1, FSST_CURSORS)]
    inner = np.searchsorted(offsets, np.array(goals, offsets.dtype)).tolist()
    return [0, *inner, len(offsets) - 1]


cdef void place_cursors(
    fsst_cursor *cursors,
    const int64_t *bounds,
    const offset_t[::1] offsets,
    const uint8_t *data,
    uint8_t *out,
) noexcept nogil:
    """Start every cursor at its first value, with room for all its codes."""
    cdef int k
    cdef int64_t first
    for k in range(FSST_CURSORS):
        first = bounds[k]
        cursors[k].at = data + offsets[first]
        cursors[k].stop = cursors[k].at
        if first < bounds[k + 1]:
            cursors[k].stop = data + offsets[first + 1]
        cursors[k].start = out + 2 * (<int64_t>offsets[first] - offsets[0]) + k
        cursors[k].out = cursors[k].start
        cursors[k].value = first
        cursors[k].last = bounds[k + 1]


cdef int64_t join_codes(
    const fsst_cursor *cursors, const int64_t *bounds, uint8_t *out, offset_t[::1] ends
) noexcept nogil:
    """Move the codes of all cursors together and count their ends from the first; the size."""
    cdef int64_t size = 0, num_codes, i
    cdef int k
    for k in range(FSST_CURSORS):
        num_codes = cursors[k].out - cursors[k].start
        memmove(out + size, cursors[k].start, num_codes)
        for i in range(bounds[k] + 1, bounds[k + 1] + 1):
            ends[i] += <offset_t>size
        size += num_codes
    return size
