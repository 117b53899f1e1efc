# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Kernels between repetition and definition levels and Arrow validity and offsets.

Item layers between two lists, and the list inside them, have the same slots: they form a *group*.
Group 0 is the leaf and the structs right above it; group g > 0 starts with list number g. With
ceiling[g] the largest definition level of the layers up to group g, an item

* is a slot of group g when rep >= g and def <= ceiling[g];
* ends in group g > 0 (a null or empty list, or a null struct above it) when def > ceiling[g - 1]
  and g is the smallest such; nothing of it is left further in.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint64_t, UINT16_MAX
from libc.string cimport memcpy, memmove, memset

import numpy as np

from alance.kernels.memory import empty

cdef enum:
    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    LAYERS_MAX = 256
    BLOCK = 4096  # flags that are packed into bits together; a multiple of 8
    RUN = 32768  # items that a 16-bit counter can count

cdef int64_t NO_NESTING = -2


cdef struct Layer:
    bint is_list
    int group
    uint16_t null_level  # 0: none
    uint16_t empty_level  # 0: none


cdef struct Nesting:
    int num_layers
    int max_rep
    uint16_t max_def
    uint16_t ceiling[LAYERS_MAX + 1]
    int64_t num_slots[LAYERS_MAX + 1]
    Layer layers[LAYERS_MAX]


cdef bint read_layers(const uint8_t[::1] numbers, Nesting *nesting) noexcept nogil:
    """Assign levels and groups, from the leaf outwards; false when this is no nesting."""
    cdef int i
    cdef uint16_t level = 0
    cdef uint8_t number
    cdef Layer layer
    if not 0 < numbers.shape[0] <= LAYERS_MAX:
        return False
    nesting.num_layers = <int>numbers.shape[0]
    nesting.max_rep = 0
    for i in range(nesting.num_layers):
        number = numbers[i]
        if not ALL_VALID_ITEM <= number <= NULL_AND_EMPTY_LIST:
            return False
        layer.is_list = number != ALL_VALID_ITEM and number != NULLABLE_ITEM
        if layer.is_list:
            if i == 0:
                return False
            nesting.max_rep += 1
        layer.group = nesting.max_rep
        layer.null_level = layer.empty_level = 0
        if number in (NULLABLE_ITEM, NULLABLE_LIST, NULL_AND_EMPTY_LIST):
            level += 1
            layer.null_level = level
        if number in (EMPTYABLE_LIST, NULL_AND_EMPTY_LIST):
            level += 1
            layer.empty_level = level
        nesting.ceiling[layer.group] = level
        nesting.layers[i] = layer
    nesting.max_def = level
    return True


# ---- scans over levels -------------------------------------------------------------------------


cdef int64_t count_at_most(const uint16_t *levels, int64_t n, int64_t limit) noexcept nogil:
    cdef int64_t start = 0, i, total = 0
    cdef uint16_t bound, count
    if limit < 0:
        return 0
    if limit >= UINT16_MAX:
        return n
    bound = <uint16_t>limit
    while start < n:
        count = 0
        for i in range(start, min(start + RUN, n)):
            count += levels[i] <= bound
        total += count
        start += RUN
    return total


cdef int64_t first_above(const uint16_t *levels, int64_t n, int64_t limit) noexcept nogil:
    """Position of the first level above `limit`, or -1."""
    cdef int64_t i
    if count_at_most(levels, n, limit) == n:
        return -1
    for i in range(n):
        if levels[i] > limit:
            return i
    return -1


cdef inline bint is_slot(
    uint16_t rep, uint16_t def_, uint16_t group, uint16_t ceiling
) noexcept nogil:
    return (rep >= group) & (def_ <= ceiling)


cdef int64_t count_slots(
    const uint16_t *rep, const uint16_t *def_, int64_t n, uint16_t group, uint16_t ceiling
) noexcept nogil:
    cdef int64_t start = 0, i, total = 0
    cdef uint16_t count
    if def_ == NULL:
        return n - (count_at_most(rep, n, group - 1) if group else 0)
    while start < n:
        count = 0
        for i in range(start, min(start + RUN, n)):
            count += is_slot(rep[i], def_[i], group, ceiling)
        total += count
        start += RUN
    return total


cdef int64_t first_torn(
    const uint16_t *rep, const uint16_t *def_, int64_t n, uint16_t group, uint16_t floor
) noexcept nogil:
    """Position of the first item that ends in `group` inside of a list, or goes on after, or -1."""
    cdef int64_t i
    cdef uint16_t torn = 0
    for i in range(n - 1):
        torn |= (def_[i] > floor) & ((rep[i] < group) | (rep[i + 1] < group))
    if torn:
        for i in range(n - 1):
            if def_[i] > floor and (rep[i] < group or rep[i + 1] < group):
                return i if rep[i] < group else i + 1
    return n - 1 if n and def_[n - 1] > floor and rep[n - 1] < group else -1


cdef int64_t check_levels(
    const uint16_t *rep, const uint16_t *def_, int64_t n, const Nesting *nesting
) noexcept nogil:
    """Whether each item can stand where it does; a status."""
    cdef int64_t bad = -1, found
    cdef int group
    if rep != NULL:
        bad = first_above(rep, n, nesting.max_rep)
        if bad < 0 and n and rep[0] != nesting.max_rep:
            bad = 0
    if bad < 0 and def_ != NULL:
        bad = first_above(def_, n, nesting.max_def)
    if bad >= 0 or def_ == NULL:
        return bad + 1
    for group in range(1, nesting.max_rep + 1):
        found = first_torn(rep, def_, n, group, nesting.ceiling[group - 1])
        if found >= 0 and (bad < 0 or found < bad):
            bad = found
    return bad + 1


# ---- levels to Arrow ---------------------------------------------------------------------------


cdef inline void pack_flags(const uint8_t *flags, int64_t n, uint8_t *bitmap) noexcept nogil:
    """Turn n bytes of 0 or 1, a multiple of 8, into bits."""
    cdef int64_t i
    cdef uint64_t word
    for i in range(n >> 3):
        memcpy(&word, flags + i * 8, 8)
        bitmap[i] = <uint8_t>((word * <uint64_t>0x0102040810204080) >> 56)


cdef void fill_validity(
    const uint16_t *rep,
    const uint16_t *def_,
    int64_t n,
    const Nesting *nesting,
    Layer layer,
    uint8_t *bitmap,
) noexcept nogil:
    """Write the validity of the slots of one layer that has a null level."""
    cdef uint8_t flags[BLOCK + 8]
    cdef int64_t start = 0, stop, i, whole, filled = 0
    cdef uint16_t null_level = layer.null_level, empty_level = layer.empty_level
    cdef uint16_t group = layer.group, ceiling = nesting.ceiling[layer.group]
    cdef bint dense = nesting.num_slots[layer.group] == n
    while start < n:
        stop = min(start + BLOCK, n)
        if dense:
            for i in range(stop - start):
                flags[i] = (def_[start + i] < null_level) | (def_[start + i] == empty_level)
            filled = stop - start
        else:
            for i in range(start, stop):
                flags[filled] = (def_[i] < null_level) | (def_[i] == empty_level)
                filled += is_slot(rep[i], def_[i], group, ceiling)
        whole = filled & ~<int64_t>7
        pack_flags(flags, whole, bitmap)
        bitmap += whole >> 3
        filled -= whole
        memmove(flags, flags + whole, 8)
        start = stop
    if filled:
        memset(flags + filled, 0, 8 - filled)
        pack_flags(flags, 8, bitmap)


cdef inline void write_offsets(
    const uint16_t *rep,
    const uint16_t *def_,
    int64_t n,
    const Nesting *nesting,
    uint16_t group,
    bint has_def,
    int64_t *offsets,
) noexcept nogil:
    cdef int64_t i, slot = 0, child = 0
    cdef uint16_t level = 0
    cdef uint16_t ceiling = nesting.ceiling[group], floor = nesting.ceiling[group - 1]
    for i in range(n):
        offsets[slot] = child  # the next slot writes over it until this one is complete
        if has_def:
            level = def_[i]
        slot += is_slot(rep[i], level, group, ceiling)
        child += is_slot(rep[i], level, group - 1, floor)
    offsets[slot] = child


cdef void fill_offsets(
    const uint16_t *rep,
    const uint16_t *def_,
    int64_t n,
    const Nesting *nesting,
    int group,
    int64_t *offsets,
) noexcept nogil:
    """Write where each list of `group` starts among the slots of the group inside."""
    if def_ == NULL:
        write_offsets(rep, def_, n, nesting, group, False, offsets)
    else:
        write_offsets(rep, def_, n, nesting, group, True, offsets)


cdef int64_t count_bits(const uint8_t[::1] bitmap) noexcept nogil:
    cdef int64_t i, total = 0
    cdef uint64_t word
    for i in range(0, bitmap.shape[0], 8):
        word = 0
        memcpy(&word, &bitmap[i], min(bitmap.shape[0] - i, 8))
        word = word - ((word >> 1) & <uint64_t>0x5555555555555555)
        word = (word & <uint64_t>0x3333333333333333) + ((word >> 2) & <uint64_t>0x3333333333333333)
        word = (word + (word >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
        total += (word * <uint64_t>0x0101010101010101) >> 56
    return total


cdef tuple unravel_layer(
    const uint16_t *rep, const uint16_t *def_, int64_t n, const Nesting *nesting, Layer layer
):
    """(offsets, validity, length, null_count) of one layer."""
    cdef int64_t length = nesting.num_slots[layer.group]
    cdef int64_t null_count = 0
    cdef int64_t[::1] offsets_view
    cdef uint8_t[::1] validity_view
    offsets = validity = None
    if layer.is_list:
        offsets = offsets_view = empty(length + 1, np.int64)
        with nogil:
            fill_offsets(rep, def_, n, nesting, layer.group, &offsets_view[0])
    if layer.null_level and def_ != NULL:
        validity = validity_view = empty((length + 7) // 8, np.uint8)
        with nogil:
            fill_validity(rep, def_, n, nesting, layer, &validity_view[0])
            null_count = length - count_bits(validity_view)
    return offsets, validity if null_count else None, length, null_count


def unravel(
    const uint16_t[::1] rep, const uint16_t[::1] def_, const uint8_t[::1] layers, int64_t num_items
):
    """Turn levels into the validity and offsets of each layer."""
    cdef Nesting nesting
    cdef int64_t status
    cdef int group, i
    cdef const uint16_t *reps = NULL
    cdef const uint16_t *defs = NULL
    if rep is not None:
        reps = &rep[0]
    if def_ is not None:
        defs = &def_[0]
    for name, stream in (("rep", rep), ("def", def_)):
        if stream is not None and stream.shape[0] != num_items:
            raise ValueError(f"{stream.shape[0]} {name} levels for {num_items} items")
    if num_items < 0:
        raise ValueError(f"num_items must not be negative, not {num_items}")
    if not read_layers(layers, &nesting):
        return [], NO_NESTING
    if rep is None and nesting.max_rep:
        if num_items:
            return [], NO_NESTING
        defs = NULL  # no items: nothing to look at
    with nogil:
        status = check_levels(reps, defs, num_items, &nesting)
        for group in range(nesting.max_rep + 1):
            nesting.num_slots[group] = num_items
            if status == 0 and nesting.max_rep and num_items:
                nesting.num_slots[group] = count_slots(
                    reps, defs, num_items, group, nesting.ceiling[group]
                )
    if status:
        return [], status
    return [
        unravel_layer(reps, defs, num_items, &nesting, nesting.layers[i])
        for i in range(nesting.num_layers)
    ], 0


# ---- rows and chunks ---------------------------------------------------------------------------


def row_starts(const uint16_t[::1] rep, int64_t max_rep):
    """Positions of the items that start a row, ascending."""
    cdef int64_t i, row = 0, num_items = rep.shape[0]
    cdef const uint16_t *levels = &rep[0]
    if not 0 <= max_rep <= UINT16_MAX:
        raise ValueError(f"max_rep must be in [0, {UINT16_MAX}], not {max_rep}")
    cdef int64_t num_rows = count_at_most(levels, num_items, max_rep)
    num_rows -= count_at_most(levels, num_items, max_rep - 1)
    starts = empty(num_rows + 1, np.int64)  # one to spare: written before it is known
    cdef int64_t[::1] view = starts
    with nogil:
        for i in range(num_items):
            view[row] = i
            row += levels[i] == max_rep
    return starts[:num_rows]


cdef int check_boundaries(const int64_t[::1] boundaries, int64_t first, int64_t last) except -1:
    """Boundaries ascend within [first, last]."""
    cdef int64_t i, before = first
    for i in range(boundaries.shape[0]):
        if not before <= boundaries[i] <= last:
            raise ValueError(
                f"boundary {i} is {boundaries[i]}, expected one in [{before}, {last}]"
            )
        before = boundaries[i]
    return 0


cdef int check_cover(const int64_t[::1] boundaries, int64_t last) except -1:
    """Boundaries ascend from 0 to `last`."""
    check_boundaries(boundaries, 0, last)
    cdef int64_t n = boundaries.shape[0]
    if n == 0 or boundaries[0] != 0 or boundaries[n - 1] != last:
        raise ValueError(f"boundaries must go from 0 to {last}")
    return 0


def build_repetition_index(
    const uint16_t[::1] rep, int64_t max_rep, const int64_t[::1] level_boundaries
):
    """Build the repetition index of mini-block chunks."""
    cdef int64_t num_items = rep.shape[0]
    cdef int64_t c, i, start, stop, row_start
    check_cover(level_boundaries, num_items)
    index = np.zeros((level_boundaries.shape[0] - 1, 2), np.uint64)
    cdef uint64_t[:, ::1] view = index
    with nogil:
        for c in range(view.shape[0]):
            start, stop = level_boundaries[c], level_boundaries[c + 1]
            row_start = start
            for i in range(start, stop):
                if i + 1 == num_items or rep[i + 1] == max_rep:
                    view[c, 0] += 1
                    row_start = i + 1
            view[c, 1] = stop - row_start
    return index


def chunk_levels(
    const uint16_t[::1] def_,
    int64_t num_levels,
    int64_t max_visible,
    const int64_t[::1] value_boundaries,
):
    """Find which items belong to which chunk: a chunk ends right after its last visible item."""
    cdef int64_t c, i = 0, seen = 0, num_visible = num_levels
    if def_ is not None:
        if def_.shape[0] != num_levels:
            raise ValueError(f"{def_.shape[0]} def levels for {num_levels} items")
        num_visible = count_at_most(&def_[0], num_levels, max_visible)
    check_cover(value_boundaries, num_visible)
    boundaries = np.array(value_boundaries)
    cdef int64_t[::1] view = boundaries
    if def_ is not None:
        with nogil:
            for c in range(view.shape[0]):
                while seen < value_boundaries[c]:
                    seen += def_[i] <= max_visible
                    i += 1
                view[c] = i
    view[view.shape[0] - 1] = num_levels
    return boundaries


def count_visible(const uint16_t[::1] def_, int64_t max_visible, const int64_t[::1] boundaries):
    """Count the visible items before each item position of `boundaries`, which ascend."""
    cdef int64_t i, before = 0, seen = 0
    check_boundaries(boundaries, 0, INT64_MAX if def_ is None else def_.shape[0])
    counts = np.array(boundaries)
    cdef int64_t[::1] view = counts
    if def_ is not None:
        with nogil:
            for i in range(view.shape[0]):
                seen += count_at_most(&def_[before], view[i] - before, max_visible)
                before = view[i]
                view[i] = seen
    return counts


include "shred.pxi"
