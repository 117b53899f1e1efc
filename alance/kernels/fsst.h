/* Coding with an FSST symbol table: at each place the longest symbol is taken.
 *
 * A step has to wait for the length of the one before: several values are coded in turns.
 */
#ifndef ALANCE_FSST_H
#define ALANCE_FSST_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Lance files are little-endian and so are these kernels"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define FSST_INLINE static inline __attribute__((always_inline))
#else
#define FSST_INLINE static inline
#endif

#define FSST_HASHES 4096
#define FSST_CURSORS 4

/* What is found: a code, or 256 + a byte that has none, and the length in the upper 16 bits. */
#define FSST_LITERAL 256

typedef struct { /* a symbol of 3 bytes or more */
    uint64_t symbol;
    uint64_t mask;
    uint32_t found;
    uint32_t next; /* where the next shorter one with the same hash is; 0: nowhere */
} fsst_match;

typedef struct {
    uint32_t shorts[65536 + 256]; /* longest symbol of at most 2 bytes, or the literal: by the next
                                     two bytes, and behind them by the last byte of a value */
    uint8_t first[FSST_HASHES];   /* where the longest symbol is whose first 3 bytes hash to this */
    fsst_match matches[256];      /* 0 never matches */
    int has_zeros;                /* whether a symbol has a byte of 0 */
} fsst_encoder;

typedef struct { /* a run of values being coded */
    const uint8_t *at;
    const uint8_t *stop; /* of the value */
    uint8_t *out;
    int64_t value;
    int64_t last;
    uint8_t *start;
} fsst_cursor;

/* Hash of the first three bytes. */
FSST_INLINE uint32_t fsst_hash(uint64_t word)
{
    return (uint32_t)((word & 0xFFFFFF) * 0x9E3779B1u >> 15) & (FSST_HASHES - 1);
}

/* Where a value ends a symbol must. Behind its end the word has zeros: that is enough to know
 * unless symbols have zeros too. */
FSST_INLINE uint64_t fsst_matches(const fsst_match *match, uint64_t word, int64_t left, int zeros)
{
    uint64_t same = (word & match->mask) == match->symbol;
    return zeros ? same & ((match->found >> 16) <= left) : same;
}

/* Find the longest symbol that begins at `at`, `left` > 0 bytes before the end of its value. */
FSST_INLINE uint32_t fsst_longest(
    const fsst_encoder *encoder, const uint8_t *at, int64_t left, int64_t readable, int zeros)
{
    const fsst_match *match, *shorter;
    uint64_t word = 0;
    uint32_t hit, also;
    if (readable >= 8) {
        memcpy(&word, at, 8);
    } else {
        memcpy(&word, at, readable);
    }
    word &= UINT64_MAX >> (left >= 8 ? 0 : 64 - 8 * left);
    match = &encoder->matches[encoder->first[fsst_hash(word)]];
    shorter = &encoder->matches[match->next];
    hit = (uint32_t)fsst_matches(match, word, left, zeros);
    also = (uint32_t)fsst_matches(shorter, word, left, zeros);
    /* Values tend to one side here: those with long symbols and those without. Which of two long
     * ones it is is as good as random. */
    if (hit | also) {
        return (match->found & -hit) | (shorter->found & (hit - 1));
    }
    /* Trained tables have no more candidates, unless hashes collide. */
    while (shorter->next) {
        shorter = &encoder->matches[shorter->next];
        if (fsst_matches(shorter, word, left, zeros)) {
            return shorter->found;
        }
    }
    return encoder->shorts[zeros && left == 1 ? 65536 + (word & 0xFF) : word & 0xFFFF];
}

/* Code the next symbol; 0 at the end of the run. Ends of values, counted from `start`, go to
 * `ends`, whose items have `width` bytes. */
FSST_INLINE int fsst_step(
    const fsst_encoder *encoder,
    const uint8_t *data,
    const uint8_t *data_stop,
    const uint8_t *offsets,
    uint8_t *ends,
    int width,
    int zeros,
    fsst_cursor *cursor)
{
    const uint8_t *at = cursor->at;
    uint8_t *out = cursor->out;
    uint32_t found;
    int escaped;
    while (at == cursor->stop) {
        int64_t stop = 0, size = out - cursor->start;
        if (cursor->value < cursor->last) {
            memcpy(ends + cursor->value * width, &size, width);
            cursor->value++;
        }
        if (cursor->value == cursor->last) {
            return 0;
        }
        memcpy(&stop, offsets + (cursor->value + 1) * width, width);
        cursor->stop = data + stop;
    }
    found = fsst_longest(encoder, at, cursor->stop - at, data_stop - at, zeros);
    escaped = (found >> 8) & 1;
    /* The second byte is overwritten by the next code unless it is a literal. */
    out[1] = at[0];
    out[0] = (uint8_t)(found | -escaped);
    cursor->at = at + (found >> 16);
    cursor->out = out + 1 + escaped;
    return 1;
}

/* Code the values of all cursors in turns; each has room for 2 bytes per byte, and 1. */
FSST_INLINE void fsst_encode_all(
    const fsst_encoder *encoder,
    const uint8_t *data,
    int64_t data_bytes,
    const uint8_t *offsets,
    uint8_t *ends,
    int width,
    int zeros,
    fsst_cursor *cursors)
{
    const uint8_t *data_stop = data + data_bytes;
    /* Of their own, so that a byte written cannot change them. */
    fsst_cursor a = cursors[0], b = cursors[1], c = cursors[2], d = cursors[3];
#define FSST_STEP(cursor) \
    fsst_step(encoder, data, data_stop, offsets, ends, width, zeros, &cursor)
    while (FSST_STEP(a) & FSST_STEP(b) & FSST_STEP(c) & FSST_STEP(d)) {
    }
    while (FSST_STEP(a)) {
    }
    while (FSST_STEP(b)) {
    }
    while (FSST_STEP(c)) {
    }
    while (FSST_STEP(d)) {
    }
#undef FSST_STEP
    cursors[0] = a;
    cursors[1] = b;
    cursors[2] = c;
    cursors[3] = d;
}

static inline void fsst_encode(
    const fsst_encoder *encoder,
    const uint8_t *data,
    int64_t data_bytes,
    const void *offsets,
    void *ends,
    int width,
    fsst_cursor *cursors)
{
    const uint8_t *from = (const uint8_t *)offsets;
    uint8_t *to = (uint8_t *)ends;
    if (encoder->has_zeros) {
        fsst_encode_all(encoder, data, data_bytes, from, to, width, 1, cursors);
    } else if (width == 4) {
        fsst_encode_all(encoder, data, data_bytes, from, to, 4, 0, cursors);
    } else {
        fsst_encode_all(encoder, data, data_bytes, from, to, 8, 0, cursors);
    }
}

#endif
