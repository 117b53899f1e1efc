"""Part of fsst.pyx: training of symbol tables, and coding with them."""


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


cdef void build_encoder(fsst_encoder *encoder, list symbols):
    """Put short symbols into a table, longer ones into chains, longest first."""
    cdef int byte, slot = 1
    cdef uint64_t word
    cdef fsst_match *match
    codes = {symbol: code for code, symbol in enumerate(symbols)}
    for byte in range(256):
        encoder.shorts[65536 + byte] = codes.get(bytes((byte,)), FSST_LITERAL + byte) | 1 << 16
    for byte in range(256):
        memcpy(&encoder.shorts[byte * 256], &encoder.shorts[65536], 256 * sizeof(uint32_t))
    memset(encoder.first, 0, FSST_HASHES)
    memset(encoder.matches, 0, sizeof(encoder.matches))
    encoder.matches[0].symbol = 1  # which no word is behind a mask of 0
    encoder.has_zeros = any(0 in symbol for symbol in symbols)
    for symbol in sorted(codes, key=len):  # each goes before the shorter ones
        length, code = len(symbol), codes[symbol]
        word = int.from_bytes(symbol, "little")
        if length == 2:
            encoder.shorts[word] = code | 2 << 16
        elif length > 2:
            match = &encoder.matches[slot]
            match.symbol = word
            match.mask = <uint64_t>0xFFFFFFFFFFFFFFFF >> (64 - 8 * <int>length)
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
    symbols = [
        int(table.symbols[code]).to_bytes(table.lengths[code], "little")
        for code in range(table.num_symbols)
    ]
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
    build_encoder(encoder, symbols)
    place_cursors(cursors, bounds, offsets, &data[0], &target[0])
    ends[0] = 0
    with nogil:
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


# --- training


cdef int64_t count_codes(
    const fsst_encoder *encoder,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int64_t[::1] singles,
    int32_t[:, ::1] pairs,
) noexcept nogil:
    """Code the sample and count codes and pairs of neighbours; the size of the codes.

    The first byte of a longer symbol counts as well, as if it had been coded alone: otherwise a
    byte that a symbol has swallowed could never come back.
    """
    cdef const uint8_t *at
    cdef const uint8_t *stop
    cdef const uint8_t *data_stop = &data[0] + data.shape[0]
    cdef uint32_t found
    cdef int before, code
    cdef int64_t i, size = 0
    for i in range(starts.shape[0]):
        at = &data[0] + starts[i]
        stop = &data[0] + stops[i]
        before = -1
        while at < stop:
            found = fsst_longest(encoder, at, stop - at, data_stop - at, encoder.has_zeros)
            code = found & 0xFFFF
            size += 1 + (code >= LITERAL)
            singles[code] += 1
            if before >= 0:
                pairs[before, code] += 1
            if found >> 16 > 1:
                singles[LITERAL + at[0]] += 1
                if before >= 0:
                    pairs[before, LITERAL + at[0]] += 1
            before = code
            at += found >> 16
    return size


def train(const offset_t[::1] offsets, const uint8_t[::1] data, *, sample_bytes=16384, seed=0):
    check_input(offsets, data)
    if not 1 <= sample_bytes <= SAMPLE_BYTES_MAX:
        raise ValueError(f"sample_bytes must be in [1, {SAMPLE_BYTES_MAX}], not {sample_bytes}")
    cdef int64_t num_bytes = <int64_t>offsets[offsets.shape[0] - 1] - offsets[0]
    if num_bytes == 0:
        return build_table([])
    starts, stops = take_sample(np.asarray(offsets), sample_bytes, seed)
    singles = np.empty(CODES, dtype=np.int64)
    pairs = np.empty((CODES, CODES), dtype=np.int32)
    cdef const int64_t[::1] sample_starts = starts
    cdef const int64_t[::1] sample_stops = stops
    cdef int64_t[::1] singles_target = singles
    cdef int32_t[:, ::1] pairs_target = pairs
    cdef uint8_t[::1] room = np.empty(sizeof(fsst_encoder), dtype=np.uint8)
    cdef fsst_encoder *encoder = <fsst_encoder *>&room[0]
    literals = [bytes((byte,)) for byte in range(256)]
    cdef int64_t size, smallest = 2 * num_bytes + 1
    cdef int idle = 0
    symbols = best = []
    for _ in range(TRAINING_ROUNDS):
        build_encoder(encoder, symbols)
        singles.fill(0)
        pairs.fill(0)
        with nogil:
            size = count_codes(
                encoder, data, sample_starts, sample_stops, singles_target, pairs_target
            )
        idle = idle + 1 if size * 100 > smallest * 99 else 0
        if size < smallest:  # symbols may get worse from one round to the next
            smallest, best = size, symbols
        if idle == IDLE_ROUNDS:
            break
        alphabet = [*symbols, *[b""] * (LITERAL - len(symbols)), *literals]
        symbols = best_symbols(alphabet, singles, pairs)
    return build_table(best)
