/* Training of FSST symbol tables: the symbols that would replace most bytes of a sample. */
#ifndef ALANCE_FSST_TRAIN_H
#define ALANCE_FSST_TRAIN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fsst.h"

#define FSST_CODES 512 /* symbols, and from FSST_LITERAL on literals */
#define FSST_SYMBOLS_MAX 255
#define FSST_SYMBOL_BYTES 8
#define FSST_PREFIX 0xFFFFFF /* the bytes that an encoder hashes */
#define FSST_ALIKE_MAX 2
#define FSST_PAIRS_MAX (2 * FSST_SYMBOLS_MAX) /* that are looked at, and those as good as the last */
#define FSST_PAIR_COUNT_MIN 3
#define FSST_CANDIDATES_MAX (FSST_CODES + FSST_CODES * FSST_CODES)

typedef struct {
    uint64_t symbols[FSST_CODES]; /* padded with zeros */
    uint8_t lengths[FSST_CODES];
    int num_symbols;
} fsst_alphabet;

typedef struct {
    uint64_t symbol;
    int64_t gain; /* bytes of the sample that it would replace */
    int32_t length;
} fsst_candidate;

typedef struct { /* how often codes were used, and followed by each other */
    int64_t singles[FSST_CODES];
    int32_t pairs[FSST_CODES][FSST_CODES]; /* a row is valid once its code was used */
} fsst_counts;

typedef struct { /* room for choosing */
    fsst_candidate candidates[FSST_CANDIDATES_MAX];
    int64_t gains[FSST_CODES * FSST_CODES];
} fsst_workspace;

static inline void fsst_count(fsst_counts *counts, int before, int code)
{
    if (counts->singles[code]++ == 0) {
        memset(counts->pairs[code], 0, sizeof(counts->pairs[code]));
    }
    if (before >= 0) {
        counts->pairs[before][code]++;
    }
}

/* No symbols, and all literals. */
static inline void fsst_clear_alphabet(fsst_alphabet *alphabet)
{
    int byte;
    memset(alphabet, 0, sizeof(*alphabet));
    for (byte = 0; byte < 256; byte++) {
        alphabet->symbols[FSST_LITERAL + byte] = (uint64_t)byte;
        alphabet->lengths[FSST_LITERAL + byte] = 1;
    }
}

/* Order of symbols of one length, by their first bytes first. */
static inline int fsst_compare_bytes(uint64_t one, uint64_t other)
{
    for (; one != other; one >>= 8, other >>= 8) {
        if ((one & 0xFF) != (other & 0xFF)) {
            return (one & 0xFF) < (other & 0xFF) ? -1 : 1;
        }
    }
    return 0;
}

static int fsst_by_symbol(const void *one, const void *other)
{
    const fsst_candidate *a = one, *b = other;
    if (a->symbol != b->symbol) {
        return a->symbol < b->symbol ? -1 : 1;
    }
    return a->length - b->length;
}

/* The best first; the longer and then the smaller of two that are as good. */
static int fsst_by_gain(const void *one, const void *other)
{
    const fsst_candidate *a = one, *b = other;
    if (a->gain != b->gain) {
        return a->gain > b->gain ? -1 : 1;
    }
    if (a->length != b->length) {
        return b->length - a->length;
    }
    return fsst_compare_bytes(a->symbol, b->symbol);
}

/* The k-th largest of numbers, from 1, which are put into another order. */
static inline int64_t fsst_largest(int64_t *numbers, int64_t count, int64_t k)
{
    int64_t first = 0, last = count - 1;
    while (first < last) {
        int64_t pivot = numbers[first + (last - first) / 2], i = first, j = last, number;
        while (i <= j) {
            while (numbers[i] > pivot) {
                i++;
            }
            while (numbers[j] < pivot) {
                j--;
            }
            if (i <= j) {
                number = numbers[i];
                numbers[i++] = numbers[j];
                numbers[j--] = number;
            }
        }
        if (k - 1 <= j) {
            last = j;
        } else if (k - 1 >= i) {
            first = i;
        } else {
            break;
        }
    }
    return numbers[k - 1];
}

/* Symbols that are used as they are: single bytes are favoured, as they save an escape, which slows
 * both ways down. */
static inline int64_t fsst_find_singles(
    const fsst_alphabet *alphabet, const fsst_counts *counts, fsst_candidate *found)
{
    int64_t num = 0;
    int code;
    for (code = 0; code < FSST_CODES; code++) {
        int length = alphabet->lengths[code];
        if (counts->singles[code]) {
            found[num].symbol = alphabet->symbols[code];
            found[num].length = length;
            found[num++].gain = (length == 1 ? FSST_SYMBOL_BYTES : length) * counts->singles[code];
        }
    }
    return num;
}

/* Pairs that may become a symbol; of very many the best. */
static inline int64_t fsst_find_pairs(
    const fsst_alphabet *alphabet,
    const fsst_counts *counts,
    fsst_candidate *found,
    int64_t *gains)
{
    int64_t num = 0, kept = 0, i, least;
    int before, code;
    for (before = 0; before < FSST_CODES; before++) {
        int start = alphabet->lengths[before];
        if (!counts->singles[before] || start == FSST_SYMBOL_BYTES) {
            continue;
        }
        for (code = 0; code < FSST_CODES; code++) {
            int32_t count = counts->pairs[before][code];
            if (count >= FSST_PAIR_COUNT_MIN) {
                int length = start + alphabet->lengths[code];
                length = length < FSST_SYMBOL_BYTES ? length : FSST_SYMBOL_BYTES;
                found[num].symbol =
                    alphabet->symbols[before] | alphabet->symbols[code] << (8 * start);
                found[num].length = length;
                found[num].gain = gains[num] = (int64_t)length * count;
                num++;
            }
        }
    }
    if (num <= FSST_PAIRS_MAX) {
        return num;
    }
    least = fsst_largest(gains, num, FSST_PAIRS_MAX);
    for (i = 0; i < num; i++) {
        if (found[i].gain >= least) {
            found[kept++] = found[i];
        }
    }
    return kept;
}

/* Add up the gains of candidates that are the same symbol; how many are left. */
static inline int64_t fsst_merge(fsst_candidate *found, int64_t num)
{
    int64_t kept = 0, i;
    qsort(found, (size_t)num, sizeof(*found), fsst_by_symbol);
    for (i = 0; i < num; i++) {
        if (kept && fsst_by_symbol(&found[kept - 1], &found[i]) == 0) {
            found[kept - 1].gain += found[i].gain;
        } else {
            found[kept++] = found[i];
        }
    }
    return kept;
}

/* Replace the symbols of an alphabet by those that would replace most bytes of the sample.
 *
 * Of those that begin alike only the best two are taken: an encoder then compares two candidates at
 * each place, whatever the values, and needs no loop. Which one wins a draw depends on the symbols
 * alone. */
static inline void fsst_choose_symbols(
    fsst_alphabet *alphabet, const fsst_counts *counts, fsst_workspace *room)
{
    fsst_candidate *found = room->candidates;
    int64_t num = fsst_find_singles(alphabet, counts, found), i;
    num += fsst_find_pairs(alphabet, counts, found + num, room->gains);
    num = fsst_merge(found, num);
    qsort(found, (size_t)num, sizeof(*found), fsst_by_gain);
    fsst_clear_alphabet(alphabet);
    for (i = 0; i < num && alphabet->num_symbols < FSST_SYMBOLS_MAX; i++) {
        int alike = 0, code, chosen = alphabet->num_symbols;
        for (code = 0; found[i].length >= 3 && code < chosen; code++) {
            uint64_t differing = (alphabet->symbols[code] ^ found[i].symbol) & FSST_PREFIX;
            alike += alphabet->lengths[code] >= 3 && !differing;
        }
        if (alike < FSST_ALIKE_MAX) {
            alphabet->symbols[chosen] = found[i].symbol;
            alphabet->lengths[chosen] = (uint8_t)found[i].length;
            alphabet->num_symbols++;
        }
    }
}

#endif
