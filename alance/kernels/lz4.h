/* LZ4 blocks: sequences of literals and of matches, which repeat bytes written before.
 *
 * A sequence is a token (4 bits number of literals, 4 bits length of match less 4; 15 goes on in
 * bytes of which all but the last are 255), the literals, the distance of the match in two bytes.
 * The last sequence has literals only. A match starts at least 12 bytes before the end of a block
 * and ends at least 5 before it: decoders of others rely on that.
 */
#ifndef ALANCE_LZ4_H
#define ALANCE_LZ4_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Lance files are little-endian and so are these kernels"
#endif

#define LZ4_SPARE 32 /* bytes that may be written, and mean nothing, behind the output */
#define LZ4_HASH_BITS 14
#define LZ4_HASHES (1 << LZ4_HASH_BITS)
#define LZ4_MATCH_MIN 4
#define LZ4_DISTANCE_MAX 65535
#define LZ4_LAST_START 12
#define LZ4_LAST_LITERALS 5
#define LZ4_PATIENCE 6 /* steps grow by one after 2 to this many places without a match */

static inline void lz4_copy16(uint8_t *out, const uint8_t *from)
{
    uint8_t block[16];
    memcpy(block, from, 16);
    memcpy(out, block, 16);
}

static inline void lz4_copy8(uint8_t *out, const uint8_t *from)
{
    uint64_t word;
    memcpy(&word, from, 8);
    memcpy(out, &word, 8);
}

/* ---- decoding ---- */

/* Add the bytes that continue a length of 15; -1 when the input ends first. */
static inline int64_t lz4_long_length(const uint8_t **at, const uint8_t *stop)
{
    int64_t length = 15;
    uint8_t byte;
    do {
        if (*at == stop) {
            return -1;
        }
        byte = *(*at)++;
        length += byte;
    } while (byte == 255);
    return length;
}

/* Repeat `length` bytes from `distance` back; up to LZ4_SPARE bytes more are written. */
static inline void lz4_repeat(uint8_t *out, int64_t distance, int64_t length)
{
    const uint8_t *from = out - distance;
    uint8_t *stop = out + length;
    if (distance >= 16) {
        do {
            lz4_copy16(out, from);
            out += 16;
            from += 16;
        } while (out < stop);
        return;
    }
    if (distance < 8) {
        /* Bytes one by one, until a period that is as long as a copy stands there. */
        for (int i = 0; i < 8; i++) {
            out[i] = from[i];
        }
        out += 8;
        from = out - (8 + distance - 1) / distance * distance;
    }
    while (out < stop) {
        lz4_copy8(out, from);
        out += 8;
        from += 8;
    }
}

/* Decode a block that should become `num_out` bytes; false when it does not. */
static inline int lz4_decode(const uint8_t *at, int64_t num_in, uint8_t *out, int64_t num_out)
{
    const uint8_t *stop = at + num_in;
    uint8_t *start = out;
    uint8_t *out_stop = out + num_out;
    while (at < stop) {
        int token = *at++;
        int64_t literals = token >> 4;
        int64_t length = token & 15;
        int64_t distance;
        if (literals < 15 && stop - at >= 16 && out_stop - out >= literals) {
            lz4_copy16(out, at);
        } else {
            if (literals == 15) {
                literals = lz4_long_length(&at, stop);
            }
            if (literals < 0 || literals > stop - at || literals > out_stop - out) {
                return 0;
            }
            memcpy(out, at, literals);
        }
        at += literals;
        out += literals;
        if (at == stop) {
            return length == 0 && out == out_stop;
        }
        if (stop - at < 2) {
            return 0;
        }
        distance = at[0] | at[1] << 8;
        at += 2;
        if (length == 15) {
            length = lz4_long_length(&at, stop);
            if (length < 0) {
                return 0;
            }
        }
        length += LZ4_MATCH_MIN;
        if (distance == 0 || distance > out - start || length > out_stop - out) {
            return 0;
        }
        lz4_repeat(out, distance, length);
        out += length;
    }
    return 0;
}

/* ---- encoding ---- */

/* Bytes that a block of n bytes takes at most. */
static inline int64_t lz4_bound(int64_t n)
{
    return n + n / 255 + 16;
}

static inline uint32_t lz4_load4(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

/* Hash of five bytes of eight: one more than a match must have makes longer matches. */
static inline uint32_t lz4_hash(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return (uint32_t)((word << 24) * 889523592379u >> (64 - LZ4_HASH_BITS));
}

/* How many bytes from `at` are those from `from`, up to `stop`. */
static inline int64_t lz4_same(const uint8_t *at, const uint8_t *from, const uint8_t *stop)
{
    const uint8_t *start = at;
    while (stop - at >= 8) {
        uint64_t a, b;
        memcpy(&a, at, 8);
        memcpy(&b, from, 8);
        if (a != b) {
#if defined(__GNUC__) || defined(__clang__)
            return at - start + (__builtin_ctzll(a ^ b) >> 3);
#else
            break;
#endif
        }
        at += 8;
        from += 8;
    }
    while (at < stop && *at == *from) {
        at++;
        from++;
    }
    return at - start;
}

/* Write the part of a length that a token cannot say. */
static inline uint8_t *lz4_put_length(uint8_t *out, int64_t length)
{
    for (; length >= 255; length -= 255) {
        *out++ = 255;
    }
    *out++ = (uint8_t)length;
    return out;
}

/* Write a token and literals; the token is to be completed with the length of the match. */
static inline uint8_t *lz4_put_literals(
    uint8_t *out, const uint8_t *from, int64_t literals, const uint8_t *stop)
{
    if (literals < 15) {
        *out++ = (uint8_t)(literals << 4);
    } else {
        *out++ = 15 << 4;
        out = lz4_put_length(out, literals - 15);
    }
    if (stop - from < literals + 16) {
        memcpy(out, from, literals);
    } else {
        for (int64_t i = 0; i < literals; i += 16) {
            lz4_copy16(out + i, from + i);
        }
    }
    return out + literals;
}

/* Find the next place from `at` whose four bytes stood before; NULL when there is none.
 *
 * `table` has the last place of each hash, counted from `base`: places below it are of blocks that
 * were encoded before, so that nobody has to clear the table between two blocks.
 */
static inline const uint8_t *lz4_search(
    const uint8_t *at,
    const uint8_t *start,
    const uint8_t *stop,
    uint32_t *table,
    uint32_t base,
    const uint8_t **match)
{
    uint32_t tries = 1 << LZ4_PATIENCE;
    const uint8_t *last = stop - LZ4_LAST_START;
    uint32_t hash = lz4_hash(at);
    while (at <= last) {
        const uint8_t *next = at + (tries++ >> LZ4_PATIENCE);
        uint32_t here = base + (uint32_t)(at - start);
        uint32_t found = table[hash];
        /* One branch, seldom taken: whether a place was of this block is as good as random. */
        int known = (found >= base) & (here - found <= LZ4_DISTANCE_MAX);
        const uint8_t *from = start + (known ? found - base : 0);
        table[hash] = here;
        hash = lz4_hash(next <= last ? next : at);
        if (known & (lz4_load4(from) == lz4_load4(at))) {
            *match = from;
            return at;
        }
        at = next;
    }
    return NULL;
}

/* Encode n bytes; `out` has room for lz4_bound(n) + LZ4_SPARE. Returns the size. */
static inline int64_t lz4_encode(
    const uint8_t *start, int64_t n, uint8_t *out, uint32_t *table, uint32_t base)
{
    const uint8_t *stop = start + n;
    const uint8_t *done = start;
    const uint8_t *match;
    uint8_t *first = out;
    while (stop - done > LZ4_LAST_START) {
        const uint8_t *at = lz4_search(done, start, stop, table, base, &match);
        uint8_t *token = out;
        int64_t length;
        if (at == NULL) {
            break;
        }
        while (at > done && match > start && at[-1] == match[-1]) {
            at--;
            match--;
        }
        out = lz4_put_literals(out, done, at - done, stop);
        *out++ = (uint8_t)((at - match) & 255);
        *out++ = (uint8_t)((at - match) >> 8);
        length = lz4_same(
            at + LZ4_MATCH_MIN, match + LZ4_MATCH_MIN, stop - LZ4_LAST_LITERALS);
        done = at + LZ4_MATCH_MIN + length;
        if (length < 15) {
            *token |= (uint8_t)length;
        } else {
            *token |= 15;
            out = lz4_put_length(out, length - 15);
        }
        if (stop - done > LZ4_LAST_START) {
            /* What a match covers is seldom looked for, but for its end. */
            table[lz4_hash(done - 2)] = base + (uint32_t)(done - 2 - start);
        }
    }
    return lz4_put_literals(out, done, stop - done, stop) - first;
}

#endif
