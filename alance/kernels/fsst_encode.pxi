"""Part of fsst.pyx: training of symbol tables, and coding with them."""


cdef struct Match:  # a symbol of 3 bytes or more
    uint64_t symbol
    uint64_t mask
    uint32_t length
    uint32_t found  # code | length << 16
    uint32_t next  # where the next shorter one with the same hash is; 0: nowhere


cdef struct Encoder:
    # code | length << 16 of the longest symbol of at most 2 bytes, or the literal: by the next two
    # bytes, and behind them by one byte, for the last of a value
    uint32_t shorts[65536 + 256]
    # where the longest symbol starts whose first three bytes have this hash
    uint8_t first[HASHES]
    Match matches[256]  # 0 never matches


cdef struct Cursor:  # a run of values being coded
    const uint8_t *at
    const uint8_t *stop  # of the value
    uint8_t *start
    uint8_t *out
    int64_t value
    int64_t last


# --- encoding


cdef inline uint32_t hash_of(uint64_t word) noexcept nogil:
    """Hash of the first three bytes."""
    return <uint32_t>((word & 0xFFFFFF) * <uint64_t>0x9E3779B1 >> 15) & (HASHES - 1)


cdef void build_encoder(Encoder *encoder, list symbols):
    """Put short symbols into a table, longer ones into chains, longest first."""
    cdef int prefix, byte, slot = 1
    cdef uint64_t word
    cdef Match *match
    codes = {symbol: code for code, symbol in enumerate(symbols)}
    for byte in range(256):
        encoder.shorts[65536 + byte] = codes.get(bytes((byte,)), LITERAL + byte) | 1 << 16
    for prefix in range(65536):
        encoder.shorts[prefix] = encoder.shorts[65536 + (prefix & 0xFF)]
    memset(encoder.first, 0, HASHES)
    encoder.matches[0].length = SYMBOL_BYTES + 1
    encoder.matches[0].next = 0
    for symbol in sorted(codes, key=len):  # each goes before the shorter ones
        length, code = len(symbol), codes[symbol]
        word = int.from_bytes(symbol, "little")
        if length == 2:
            encoder.shorts[word] = code | 2 << 16
        elif length > 2:
            match = &encoder.matches[slot]
            match.symbol = word
            match.mask = <uint64_t>0xFFFFFFFFFFFFFFFF >> (64 - 8 * <int>length)
            match.length = length
            match.found = code | length << 16
            match.next = encoder.first[hash_of(word)]
            encoder.first[hash_of(word)] = slot
            slot += 1


cdef inline uint32_t longest_match(
    const Encoder *encoder, const uint8_t *at, const uint8_t *stop, const uint8_t *data_stop
) noexcept nogil:
    """Code | length << 16 of the longest symbol that ends before `stop`, or of the literal."""
    cdef uint64_t word = 0
    cdef uint32_t left = <uint32_t>min(stop - at, <int64_t>SYMBOL_BYTES)
    cdef uint32_t found, hit, also
    cdef const Match *match
    cdef const Match *shorter
    if data_stop - at >= 8:
        memcpy(&word, at, 8)
    else:
        memcpy(&word, at, data_stop - at)
    found = encoder.shorts[(word & 0xFFFF) if left > 1 else 65536 + (word & 0xFF)]
    match = &encoder.matches[encoder.first[hash_of(word)]]
    shorter = &encoder.matches[match.next]
    # no branches: which of two candidates matches, if any, is as good as random
    hit = (((word ^ match.symbol) & match.mask) == 0) & (match.length <= left)
    also = (((word ^ shorter.symbol) & shorter.mask) == 0) & (shorter.length <= left)
    found = (shorter.found & -also) | (found & (also - 1))
    found = (match.found & -hit) | (found & (hit - 1))
    # trained tables have no more candidates, unless hashes collide
    while shorter.next and not (hit | also):
        shorter = &encoder.matches[shorter.next]
        also = (((word ^ shorter.symbol) & shorter.mask) == 0) & (shorter.length <= left)
        found = (shorter.found & -also) | (found & (also - 1))
    return found


cdef inline bint code_symbol(
    const Encoder *encoder,
    const uint8_t *data,
    const uint8_t *data_stop,
    const offset_t *offsets,
    offset_t *ends,
    Cursor *cursor,
) noexcept nogil:
    """Code the next symbol; false at the end of the run."""
    cdef const uint8_t *at = cursor.at
    cdef uint8_t *out = cursor.out
    cdef uint32_t found
    cdef int escaped
    while at == cursor.stop:
        if cursor.value < cursor.last:
            ends[cursor.value] = <offset_t>(out - cursor.start)
            cursor.value += 1
        if cursor.value == cursor.last:
            return False
        cursor.stop = data + offsets[cursor.value + 1]
    found = longest_match(encoder, at, cursor.stop, data_stop)
    escaped = (found >> 8) & 1
    cursor.at = at + (found >> 16)
    cursor.out = out + 1 + escaped
    # no branch: the second byte is overwritten unless it is a literal
    out[1] = at[0]
    out[0] = <uint8_t>(found | -escaped)
    return True


cdef void encode_values(
    const Encoder *encoder,
    const uint8_t *data,
    int64_t data_bytes,
    const offset_t *offsets,
    offset_t *ends,
    Cursor *cursors,
) noexcept nogil:
    """Code the values of all cursors in turns; each has room for 2 bytes per byte, and 1."""
    cdef const uint8_t *data_stop = data + data_bytes
    cdef bint goes_on = True
    cdef int k
    while goes_on:
        for k in range(CURSORS):
            goes_on &= code_symbol(encoder, data, data_stop, offsets, ends, &cursors[k])
    for k in range(CURSORS):
        while cursors[k].value < cursors[k].last:
            code_symbol(encoder, data, data_stop, offsets, ends, &cursors[k])


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
    out = empty(size + CURSORS, np.uint8)
    out_offsets = empty_offsets(offsets, offsets.shape[0])
    cdef uint8_t[::1] target = out
    cdef offset_t[::1] ends = out_offsets
    cdef uint8_t[::1] room = np.empty(sizeof(Encoder), dtype=np.uint8)
    cdef Encoder *encoder = <Encoder *>&room[0]
    cdef Cursor cursors[CURSORS]
    cdef int64_t[CURSORS + 1] bounds = share(np.asarray(offsets))
    build_encoder(encoder, symbols)
    place_cursors(cursors, bounds, offsets, &data[0], &target[0])
    ends[0] = 0
    with nogil:
        encode_values(encoder, &data[0], data.shape[0], &offsets[0], &ends[1], cursors)
        size = join_codes(cursors, bounds, &target[0], ends)
    return out_offsets, out[:size].copy()


cdef share(offsets):
    """Cut values into runs of about as many bytes for every cursor."""
    first, last = int(offsets[0]), int(offsets[-1])
    goals = [first + (last - first) * k // CURSORS for k in range(1, CURSORS)]
    inner = np.searchsorted(offsets, np.array(goals, offsets.dtype)).tolist()
    return [0, *inner, len(offsets) - 1]


cdef void place_cursors(
    Cursor *cursors,
    const int64_t *bounds,
    const offset_t[::1] offsets,
    const uint8_t *data,
    uint8_t *out,
) noexcept nogil:
    """Start every cursor at its first value, with room for all its codes."""
    cdef int k
    cdef int64_t first
    for k in range(CURSORS):
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
    const Cursor *cursors, const int64_t *bounds, uint8_t *out, offset_t[::1] ends
) noexcept nogil:
    """Move the codes of all cursors together and count their ends from the first; the size."""
    cdef int64_t size = 0, num_codes, i
    cdef int k
    for k in range(CURSORS):
        num_codes = cursors[k].out - cursors[k].start
        memmove(out + size, cursors[k].start, num_codes)
        for i in range(bounds[k] + 1, bounds[k + 1] + 1):
            ends[i] += <offset_t>size
        size += num_codes
    return size


# --- training


cdef int64_t count_codes(
    const Encoder *encoder,
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
    cdef uint32_t found
    cdef int before, code
    cdef int64_t i, size = 0
    for i in range(starts.shape[0]):
        at = &data[0] + starts[i]
        stop = &data[0] + stops[i]
        before = -1
        while at < stop:
            found = longest_match(encoder, at, stop, &data[0] + data.shape[0])
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
    cdef uint8_t[::1] room = np.empty(sizeof(Encoder), dtype=np.uint8)
    cdef Encoder *encoder = <Encoder *>&room[0]
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
