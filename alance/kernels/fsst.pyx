# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""FSST (Boncz, Neumann, Leis: Fast Random Access String Compression, VLDB 2020)."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

import numpy as np

from alance.kernels.memory import empty
from alance.kernels.symbol_table import (
    HEADER_MAGIC,
    HEADER_SWITCH,
    SAMPLE_BYTES_MAX,
    SYMBOL_TABLE_BYTES,
    build_table,
    take_sample,
)

CORRUPT_TABLE = 1
CORRUPT_OFFSETS = 2
CORRUPT_CODES = 3
OUTPUT_TOO_LARGE = -1

cdef enum:
    TRAINING_ROUNDS = 7
    IDLE_ROUNDS = 2  # in a row, which bring less than 1 %, are enough

cdef enum:
    ESCAPE = 255  # a code, and the largest number of symbols
    LITERAL = 256  # + byte: stands for an escaped byte while encoding and counting
    SYMBOL_BYTES = 8
    NO_SYMBOL = 0x80  # in place of a length
    BLOCK_CODES = 4096

cdef enum:
    NOWHERE = 0xFFFFFFFF  # in place of a place: the literal after an escape is no code

ctypedef fused offset_t:
    int32_t
    int64_t


cdef struct Table:  # a stored symbol table, checked
    bint switched_on
    int num_symbols
    uint64_t symbols[256]
    uint8_t lengths[256]


cdef bint load_table(bytes table, Table *loaded) except -1:
    """Whether the table is sound; if so, the symbols, and all other codes marked."""
    cdef const uint8_t[::1] view = table
    cdef const uint8_t *symbols
    cdef const uint8_t *lengths
    cdef uint64_t header
    cdef int code
    if view.shape[0] != SYMBOL_TABLE_BYTES:
        return False
    memcpy(&header, &view[0], 8)
    if header >> 32 != HEADER_MAGIC:
        return False
    loaded.num_symbols = header & 0xFF
    loaded.switched_on = (header & HEADER_SWITCH) != 0
    symbols = &view[8]
    lengths = symbols + SYMBOL_BYTES * loaded.num_symbols
    for code in range(256):
        loaded.symbols[code] = 0
        loaded.lengths[code] = NO_SYMBOL
    for code in range(loaded.num_symbols):
        if lengths[code] < 1 or lengths[code] > SYMBOL_BYTES:
            return False
        memcpy(&loaded.symbols[code], symbols + SYMBOL_BYTES * code, lengths[code])
        loaded.lengths[code] = lengths[code]
    loaded.lengths[ESCAPE] = 1
    return True


cdef inline bint offsets_hold(const offset_t[::1] offsets, int64_t data_bytes) noexcept nogil:
    """Whether the offsets never fall and stay inside of the data."""
    cdef int64_t i
    cdef bint falls = False
    for i in range(offsets.shape[0] - 1):
        falls |= offsets[i + 1] < offsets[i]
    return not falls and offsets[0] >= 0 and offsets[offsets.shape[0] - 1] <= data_bytes


cdef check_input(const offset_t[::1] offsets, const uint8_t[::1] data):
    if offsets.shape[0] == 0:
        raise ValueError("offsets must have one entry more than there are values, not none")
    if not offsets_hold(offsets, data.shape[0]):
        raise ValueError(f"offsets fall or leave data, which has {data.shape[0]} bytes")


cdef empty_offsets(const offset_t[::1] like, int64_t length):
    """An array of the same type."""
    return empty(length, np.int32 if offset_t is int32_t else np.int64)


cdef uncoded(const offset_t[::1] offsets, const uint8_t[::1] data):
    """Values as they are: offsets from 0, and a view."""
    cdef int64_t first = offsets[0]
    cdef int64_t last = offsets[offsets.shape[0] - 1]
    return np.asarray(offsets) - offsets[0], np.asarray(data)[first:last]


# --- decoding


cdef inline bint has_escape(uint64_t word) noexcept nogil:
    """Whether one of 8 codes is 255: the test for a zero byte, on the complement."""
    return ((~word - <uint64_t>0x0101010101010101) & word & <uint64_t>0x8080808080808080) != 0


cdef int64_t place_codes(
    const Table *table, const uint8_t *codes, int64_t num_codes, uint32_t *places, uint8_t *seen
) noexcept nogil:
    """Note where each of the next codes will be written, relative to the first.

    Stops after about `BLOCK_CODES`; returns how many bytes of codes that were, one more than there
    are if an escape has nothing to escape. The entry after the last code is the size of all.
    """
    cdef int64_t at = 0
    cdef uint64_t word = 0
    cdef uint32_t place = 0
    cdef uint8_t length
    cdef int k
    num_codes = min(num_codes, BLOCK_CODES)
    while at < num_codes:
        if num_codes - at >= 8:
            memcpy(&word, codes + at, 8)
            if not has_escape(word):
                for k in range(8):
                    places[at + k] = place
                    length = table.lengths[(word >> (8 * k)) & 0xFF]
                    seen[0] |= length
                    place += length
                at += 8
                continue
        places[at] = place
        length = table.lengths[codes[at]]
        seen[0] |= length
        place += length
        if codes[at] == ESCAPE:
            places[at + 1] = NOWHERE
            at += 1
        at += 1
    places[at] = place
    return at


cdef int64_t place_values(
    const Table *table,
    const uint8_t *codes,
    const offset_t[::1] offsets,
    offset_t[::1] out_offsets,
) noexcept nogil:
    """Check every code and find where each value will lie; return the size of all, -1 if corrupt.

    The codes of all values are walked as one: a loop per value would be mispredicted once for
    every short value. The size may be more than int32 offsets can express.
    """
    cdef uint32_t places[BLOCK_CODES + 2]
    cdef int64_t at = offsets[0], stop = offsets[offsets.shape[0] - 1]
    cdef int64_t i = 0, size = 0, num_codes
    cdef uint32_t place
    cdef uint8_t seen = 0
    cdef bint cut = False
    while at < stop:
        num_codes = place_codes(table, codes + at, stop - at, places, &seen)
        while offsets[i] < at + num_codes and offsets[i] < stop:
            place = places[offsets[i] - at]
            cut |= place == NOWHERE
            out_offsets[i] = <offset_t>(size + place)
            i += 1
        at += num_codes
        size += places[num_codes]
    for i in range(i, offsets.shape[0]):
        out_offsets[i] = <offset_t>size
    return -1 if cut or at > stop or seen & NO_SYMBOL else size


cdef void expand(
    const Table *table, const uint8_t *at, const uint8_t *stop, uint8_t *out
) noexcept nogil:
    """Expand codes that have been checked, all values at once.

    Whatever its length, 8 bytes of a symbol are written, so `out` has 8 bytes to spare.
    """
    cdef const uint8_t *eight
    cdef uint64_t word = 0, symbol
    cdef bint escaped
    cdef int k, code
    while at < stop:
        if stop - at >= 8:
            memcpy(&word, at, 8)
            if not has_escape(word):
                for k in range(8):
                    code = (word >> (8 * k)) & 0xFF
                    memcpy(out, &table.symbols[code], SYMBOL_BYTES)
                    out += table.lengths[code]
                at += 8
                continue
        eight = min(at + 8, stop)
        while at < eight:
            escaped = at[0] == ESCAPE
            symbol = at[1] if escaped else table.symbols[at[0]]
            memcpy(out, &symbol, SYMBOL_BYTES)
            out += table.lengths[at[0]]
            at += 1 + escaped


def decode(bytes symbol_table, const offset_t[::1] offsets, const uint8_t[::1] data):
    cdef Table table
    cdef int64_t size
    cdef const uint8_t *codes = &data[0] if data.shape[0] else NULL
    if offsets.shape[0] == 0:
        raise ValueError("offsets must have one entry more than there are values, not none")
    out_offsets = empty_offsets(offsets, 0)
    out = np.empty(0, dtype=np.uint8)
    if not load_table(symbol_table, &table):
        return out_offsets, out, CORRUPT_TABLE
    if not offsets_hold(offsets, data.shape[0]):
        return out_offsets, out, CORRUPT_OFFSETS
    if not table.switched_on:
        return *uncoded(offsets, data), 0
    placed = empty_offsets(offsets, offsets.shape[0])
    cdef offset_t[::1] places = placed
    with nogil:
        size = place_values(&table, codes, offsets, places)
    if size < 0:
        return out_offsets, out, CORRUPT_CODES
    if offset_t is int32_t and size > INT32_MAX:
        return out_offsets, out, OUTPUT_TOO_LARGE
    out = empty(size + SYMBOL_BYTES, np.uint8)
    cdef uint8_t[::1] target = out
    with nogil:
        expand(&table, codes + offsets[0], codes + offsets[offsets.shape[0] - 1], &target[0])
    return placed, out[:size], 0


include "fsst_encode.pxi"
include "fsst_train.pxi"
