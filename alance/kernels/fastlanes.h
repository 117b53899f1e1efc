/* FastLanes transposed bit packing of one group: 1024 values of T bits <-> 1024 values of W bits.
 *
 * Whatever T is, one row of lanes is 128 bytes, packed or not. So one kernel serves all T: it works
 * on rows of 16 words of 64 bits, shifts whole words and masks away what crossed from one lane into
 * its neighbour. The loops over a row have constant length and no dependencies: compilers turn them
 * into vector instructions. Loads and stores go through memcpy: no pointer need be aligned.
 */
#ifndef ALANCE_FASTLANES_H
#define ALANCE_FASTLANES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Lance files are little-endian and so are these kernels"
#endif

#define FL_GROUP 1024    /* values of a group */
#define FL_ROW_BYTES 128 /* one row of lanes */
#define FL_ROW_WORDS 16  /* the same in words of 64 bits */

#if defined(__GNUC__) || defined(__clang__)
#define FL_INLINE static inline __attribute__((always_inline))
#else
#define FL_INLINE static inline
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define FL_HAS_AVX2 1
#endif

FL_INLINE uint64_t fl_load(const uint8_t *row, int k)
{
    uint64_t word;
    memcpy(&word, row + 8 * k, 8);
    return word;
}

FL_INLINE void fl_store(uint8_t *row, int k, uint64_t word)
{
    memcpy(row + 8 * k, &word, 8);
}

/* The lowest n bits, 0 <= n <= 64. */
FL_INLINE uint64_t fl_low_bits(int n)
{
    return n == 0 ? 0 : UINT64_MAX >> (64 - n);
}

/* A word whose lanes of T bits are all 1: a factor that repeats a lane over the word. */
FL_INLINE uint64_t fl_ones(int bits)
{
    return UINT64_MAX / fl_low_bits(bits);
}

/* Byte position of a row of values in the unpacked group. */
FL_INLINE int fl_row_start(int row, int bits)
{
    static const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    return (order[row / 8] * 16 + (row % 8) * 128) * (bits / 8);
}

/* Read 128 * width bytes, write 128 * bits; 1 <= width <= bits. */
FL_INLINE void fl_unpack_rows(const uint8_t *restrict packed, uint8_t *restrict values, int bits,
                              int width)
{
    const uint64_t ones = fl_ones(bits);
    const uint64_t all = ones * fl_low_bits(width);
    int shift = 0;
    for (int row = 0; row < bits; row++) {
        uint8_t *out = values + fl_row_start(row, bits);
        if (shift + width <= bits) {
            for (int k = 0; k < FL_ROW_WORDS; k++)
                fl_store(out, k, (fl_load(packed, k) >> shift) & all);
        } else {
            const int back = bits - shift;
            const uint64_t low = ones * fl_low_bits(back);
            const uint64_t high = all ^ low;
            const uint8_t *next = packed + FL_ROW_BYTES;
            for (int k = 0; k < FL_ROW_WORDS; k++)
                fl_store(out, k,
                         ((fl_load(packed, k) >> shift) & low) |
                             ((fl_load(next, k) << back) & high));
        }
        shift += width;
        if (shift >= bits) {
            shift -= bits;
            packed += FL_ROW_BYTES;
        }
    }
}

/* Read 128 * bits bytes, write 128 * width; 1 <= width <= bits. Higher bits are dropped. */
FL_INLINE void fl_pack_rows(const uint8_t *restrict values, uint8_t *restrict packed, int bits,
                            int width)
{
    const uint64_t ones = fl_ones(bits);
    const uint64_t all = ones * fl_low_bits(width);
    int shift = 0;
    for (int row = 0; row < bits; row++) {
        const uint8_t *in = values + fl_row_start(row, bits);
        if (shift == 0) { /* the first to touch this packed row */
            for (int k = 0; k < FL_ROW_WORDS; k++)
                fl_store(packed, k, fl_load(in, k) & all);
        } else if (shift + width <= bits) {
            for (int k = 0; k < FL_ROW_WORDS; k++)
                fl_store(packed, k, fl_load(packed, k) | ((fl_load(in, k) & all) << shift));
        } else {
            const int back = bits - shift;
            const uint64_t low = ones * fl_low_bits(back);
            const uint64_t high = ones * fl_low_bits(width - back);
            uint8_t *next = packed + FL_ROW_BYTES;
            for (int k = 0; k < FL_ROW_WORDS; k++) {
                const uint64_t word = fl_load(in, k);
                fl_store(packed, k, fl_load(packed, k) | ((word & low) << shift));
                fl_store(next, k, (word >> back) & high);
            }
        }
        shift += width;
        if (shift >= bits) {
            shift -= bits;
            packed += FL_ROW_BYTES;
        }
    }
}

/* Both ways for any T: as constants, T and the row positions fold into the code. */
FL_INLINE void fl_unpack_any(const uint8_t *packed, uint8_t *values, int bits, int width)
{
    switch (bits) {
    case 8: fl_unpack_rows(packed, values, 8, width); break;
    case 16: fl_unpack_rows(packed, values, 16, width); break;
    case 32: fl_unpack_rows(packed, values, 32, width); break;
    default: fl_unpack_rows(packed, values, 64, width); break;
    }
}

FL_INLINE void fl_pack_any(const uint8_t *values, uint8_t *packed, int bits, int width)
{
    switch (bits) {
    case 8: fl_pack_rows(values, packed, 8, width); break;
    case 16: fl_pack_rows(values, packed, 16, width); break;
    case 32: fl_pack_rows(values, packed, 32, width); break;
    default: fl_pack_rows(values, packed, 64, width); break;
    }
}

#ifdef FL_HAS_AVX2
/* The same with registers twice as wide: wheels are built for any x86-64, so ask at run time. */
__attribute__((target("avx2"))) static void fl_unpack_avx2(const uint8_t *packed, uint8_t *values,
                                                           int bits, int width)
{
    fl_unpack_any(packed, values, bits, width);
}

__attribute__((target("avx2"))) static void fl_pack_avx2(const uint8_t *values, uint8_t *packed,
                                                         int bits, int width)
{
    fl_pack_any(values, packed, bits, width);
}
#endif

static void fl_unpack(const uint8_t *packed, uint8_t *values, int bits, int width)
{
    if (width == 0) {
        memset(values, 0, (size_t)FL_ROW_BYTES * bits);
        return;
    }
#ifdef FL_HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        fl_unpack_avx2(packed, values, bits, width);
        return;
    }
#endif
    fl_unpack_any(packed, values, bits, width);
}

static void fl_pack(const uint8_t *values, uint8_t *packed, int bits, int width)
{
    if (width == 0)
        return;
#ifdef FL_HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        fl_pack_avx2(values, packed, bits, width);
        return;
    }
#endif
    fl_pack_any(values, packed, bits, width);
}

/* Bits that the largest value of a group needs. */
static int fl_width(const uint8_t *values, int bits)
{
    uint64_t seen[FL_ROW_WORDS] = {0};
    for (int row = 0; row < bits; row++)
        for (int k = 0; k < FL_ROW_WORDS; k++)
            seen[k] |= fl_load(values + FL_ROW_BYTES * row, k);
    uint64_t word = 0;
    for (int k = 0; k < FL_ROW_WORDS; k++)
        word |= seen[k];
    for (int half = 32; half >= bits; half /= 2)
        word |= word >> half;
    word &= fl_low_bits(bits);
    int width = 0;
    for (; word; word >>= 1)
        width++;
    return width;
}

#endif
