"""Part of fsst.pyx: training of symbol tables."""


cdef extern from "fsst_train.h" nogil:
    ctypedef struct fsst_alphabet:
        uint64_t symbols[512]
        uint8_t lengths[512]
        int num_symbols

    ctypedef struct fsst_counts:
        int64_t singles[512]

    ctypedef struct fsst_workspace:
        pass

    void fsst_count(fsst_counts *counts, int before, int code)
    void fsst_clear_alphabet(fsst_alphabet *alphabet)
    void fsst_choose_symbols(
        fsst_alphabet *alphabet, const fsst_counts *counts, fsst_workspace *room
    )


cdef int64_t count_codes(
    const fsst_encoder *encoder,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    fsst_counts *counts,
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
    memset(counts.singles, 0, sizeof(counts.singles))
    for i in range(starts.shape[0]):
        at = &data[0] + starts[i]
        stop = &data[0] + stops[i]
        before = -1
        while at < stop:
            found = fsst_longest(encoder, at, stop - at, data_stop - at, encoder.has_zeros)
            code = found & 0xFFFF
            size += 1 + (code >= LITERAL)
            fsst_count(counts, before, code)
            if found >> 16 > 1:
                fsst_count(counts, before, LITERAL + at[0])
            before = code
            at += found >> 16
    return size


cdef fsst_alphabet find_symbols(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int64_t num_bytes,
    fsst_encoder *encoder,
    fsst_counts *counts,
    fsst_workspace *room,
) noexcept nogil:
    """The symbols of the best round; they may get worse from one round to the next."""
    cdef fsst_alphabet alphabet, best
    cdef int64_t size, smallest = 2 * num_bytes + 1
    cdef int idle = 0
    fsst_clear_alphabet(&alphabet)
    best = alphabet
    for _ in range(TRAINING_ROUNDS):
        build_encoder(encoder, alphabet.symbols, alphabet.lengths, alphabet.num_symbols)
        size = count_codes(encoder, data, starts, stops, counts)
        idle = idle + 1 if size * 100 > smallest * 99 else 0
        if size < smallest:
            smallest = size
            best = alphabet
        if idle == IDLE_ROUNDS:
            break
        fsst_choose_symbols(&alphabet, counts, room)
    return best


def train(const offset_t[::1] offsets, const uint8_t[::1] data, *, sample_bytes=16384, seed=0):
    check_input(offsets, data)
    if not 1 <= sample_bytes <= SAMPLE_BYTES_MAX:
        raise ValueError(f"sample_bytes must be in [1, {SAMPLE_BYTES_MAX}], not {sample_bytes}")
    cdef int64_t num_bytes = <int64_t>offsets[offsets.shape[0] - 1] - offsets[0]
    if num_bytes == 0:
        return build_table([])
    cdef const int64_t[::1] starts
    cdef const int64_t[::1] stops
    starts, stops = take_sample(np.asarray(offsets), sample_bytes, seed)
    cdef fsst_alphabet found
    cdef uint8_t[::1] encoder = np.empty(sizeof(fsst_encoder), np.uint8)
    cdef uint8_t[::1] counts = empty(sizeof(fsst_counts), np.uint8)
    cdef uint8_t[::1] room = empty(sizeof(fsst_workspace), np.uint8)
    with nogil:
        found = find_symbols(
            data,
            starts,
            stops,
            num_bytes,
            <fsst_encoder *>&encoder[0],
            <fsst_counts *>&counts[0],
            <fsst_workspace *>&room[0],
        )
    return build_table([
        int(found.symbols[code]).to_bytes(found.lengths[code], "little")
        for code in range(found.num_symbols)
    ])
