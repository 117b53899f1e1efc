"""Part of repdef.pyx: Arrow validity and offsets to levels.

A walk from the rows inwards first counts the items, then writes them. While writing, the
definition level of an item is a *code*, the same for every page: with layer i counted from the
leaf, 2 i + 1 for null and 2 i + 2 for empty. The codes that occur choose the layers, and become
levels by their rank.
"""


cdef struct Source:
    bint is_list
    int64_t length
    const int64_t *offsets
    const uint8_t *validity  # NULL: all valid
    uint16_t code


cdef struct Walk:
    int num_layers
    int max_rep
    int64_t num_items
    int64_t num_visible
    bint in_order  # the visible items are the leaf slots 0, 1, 2, ...
    bint writing
    uint16_t *rep
    uint16_t *def_  # NULL: no item has a code
    int64_t *positions
    int first_of_group[LAYERS_MAX + 1]  # the outer-most layer of each group
    Source layers[LAYERS_MAX]  # outer-most first


cdef inline bint is_null(const Source *layer, int64_t slot) noexcept nogil:
    return layer.validity != NULL and not (layer.validity[slot >> 3] >> (slot & 7)) & 1


cdef inline void add_hidden(Walk *walk, uint16_t rep, uint16_t code) noexcept nogil:
    """Add an item without a leaf slot."""
    if walk.writing:
        walk.rep[walk.num_items] = rep
        walk.def_[walk.num_items] = code
    walk.num_items += 1


cdef inline void mark_nulls(uint16_t *codes, uint8_t bits, int n, uint16_t code) noexcept nogil:
    """Write `code` where the bit is 0; without a branch, since nulls follow no pattern."""
    cdef int i
    for i in range(n):
        codes[i] ^= (codes[i] ^ code) & <uint16_t>(((bits >> i) & 1) - 1)


cdef void write_codes(
    const Walk *walk, int64_t start, int64_t stop, uint16_t *codes
) noexcept nogil:
    """Write the codes of leaf slots: the outer-most null layer of group 0, or 0."""
    cdef int i
    cdef int64_t slot
    cdef uint8_t bits
    cdef const Source *layer
    memset(codes, 0, (stop - start) * sizeof(uint16_t))
    for i in range(walk.num_layers - 1, walk.first_of_group[0] - 1, -1):
        layer = &walk.layers[i]
        if layer.validity == NULL:
            continue
        slot = start
        while slot < stop:
            bits = layer.validity[slot >> 3]
            if slot & 7 == 0 and slot + 8 <= stop:
                if bits != 0xFF:
                    mark_nulls(codes + (slot - start), bits, 8, layer.code)
                slot += 8
                continue
            mark_nulls(codes + (slot - start), bits >> (slot & 7), 1, layer.code)
            slot += 1


cdef void add_leaves(Walk *walk, int64_t start, int64_t stop, uint16_t rep) noexcept nogil:
    """Add the leaf slots of one inner-most list, or all of them where there is no list."""
    cdef int64_t i, n = stop - start
    walk.in_order &= start == walk.num_visible
    if walk.writing:
        if walk.rep != NULL:
            memset(walk.rep + walk.num_items, 0, n * sizeof(uint16_t))
            walk.rep[walk.num_items] = rep
        if walk.def_ != NULL:
            write_codes(walk, start, stop, walk.def_ + walk.num_items)
        if walk.positions != NULL:
            for i in range(n):
                walk.positions[walk.num_visible + i] = start + i
    walk.num_items += n
    walk.num_visible += n


cdef bint add_slot(Walk *walk, int group, int64_t slot, uint16_t rep) noexcept nogil:
    """Add the items of one slot of a group with a list; false when its offsets are wrong."""
    cdef int i = walk.first_of_group[group]
    cdef int64_t child, start, stop
    cdef const Source *layer
    while True:
        layer = &walk.layers[i]
        if is_null(layer, slot):
            add_hidden(walk, rep, layer.code)
            return True
        if layer.is_list:
            break
        i += 1
    start, stop = layer.offsets[slot], layer.offsets[slot + 1]
    if not 0 <= start <= stop <= walk.layers[i + 1].length:
        return False
    if start == stop:
        add_hidden(walk, rep, layer.code + 1)
        return True
    if group == 1:
        add_leaves(walk, start, stop, rep)
        return True
    for child in range(start, stop):
        if not add_slot(walk, group - 1, child, rep if child == start else group - 1):
            return False
    return True


cdef bint add_rows(Walk *walk) noexcept nogil:
    """Walk over all rows, counting or writing."""
    cdef int64_t row
    walk.num_items = walk.num_visible = 0
    if walk.max_rep == 0:
        add_leaves(walk, 0, walk.layers[0].length, 0)
        return True
    for row in range(walk.layers[0].length):
        if not add_slot(walk, walk.max_rep, row, walk.max_rep):
            return False
    return True


cdef int fill_source(Source *source, kind, int code) except -1:
    """Check one layer on its own; `kind` keeps the arrays alive."""
    cdef const int64_t[::1] offsets
    cdef const uint8_t[::1] validity
    source.is_list, source.length, offsets, validity = kind
    source.code = code
    source.offsets = NULL
    source.validity = NULL
    if source.length < 0 or source.is_list != (offsets is not None):
        raise ValueError("a layer has a length of at least 0, and offsets if it is a list")
    if offsets is not None:
        if offsets.shape[0] != source.length + 1:
            raise ValueError(f"{offsets.shape[0]} offsets for {source.length} lists")
        source.offsets = &offsets[0]
    if validity is not None:
        if validity.shape[0] < (source.length + 7) // 8:
            raise ValueError(f"validity has {validity.shape[0]} bytes for {source.length} slots")
        source.validity = &validity[0]
    return 0


cdef int fill_walk(Walk *walk, list kinds) except -1:
    """Check that the layers nest, and number their groups."""
    cdef int i, group
    walk.num_layers = len(kinds)
    if not 0 < walk.num_layers <= LAYERS_MAX:
        raise ValueError(f"{walk.num_layers} layers, expected 1 to {LAYERS_MAX}")
    for i in range(walk.num_layers):
        fill_source(&walk.layers[i], kinds[i], 2 * (walk.num_layers - 1 - i) + 1)
        if i and not walk.layers[i - 1].is_list:
            if walk.layers[i].length != walk.layers[i - 1].length:
                raise ValueError(
                    f"layer {i} has {walk.layers[i].length} slots, the struct around it "
                    f"{walk.layers[i - 1].length}"
                )
    if walk.layers[walk.num_layers - 1].is_list:
        raise ValueError("the last layer is a list, expected the leaf")
    group = 0
    walk.first_of_group[0] = 0
    for i in range(walk.num_layers - 1, -1, -1):
        group += walk.layers[i].is_list
        walk.first_of_group[group] = i
    walk.max_rep = group
    walk.in_order = True
    walk.writing = False
    walk.rep = walk.def_ = NULL
    walk.positions = NULL
    return 0


cdef bint may_have_codes(const Walk *walk) noexcept nogil:
    """Whether the counted items can hold a code at all."""
    cdef int i
    if walk.num_items > walk.num_visible:
        return True
    for i in range(walk.first_of_group[0], walk.num_layers):
        if walk.layers[i].validity != NULL:
            return True
    return False


cdef bytes find_codes(const uint16_t[::1] codes, int num_layers):
    """One byte per code: 1 when it occurs."""
    cdef uint8_t occurs[2 * LAYERS_MAX + 1]
    cdef int64_t i
    memset(occurs, 0, sizeof(occurs))
    if codes is not None:
        with nogil:
            for i in range(codes.shape[0]):
                occurs[codes[i]] = 1
    return (<char *>occurs)[: 2 * num_layers + 1]


cdef bytes with_hidden_nulls(const Walk *walk, bytes occurs):
    """Give a null level to what the reference wants one of (specification: 2.1, section 3.3).

    That is whatever lies below a struct with a null level, down to the nearest list: its reader
    drops the levels around a member that is read alone. And every struct with a list below: where
    it joins pages of which only some have these levels, it takes items for rows, and whether a
    later page has nulls is not known. Not so a struct of which the page has no slot, as all lists
    around it are null or empty: there it finds the nulls of a struct that it does not have.
    """
    cdef int i
    cdef bint hides = False
    cdef bint all_valid = walk.num_items > 0 and not any(occurs)
    marked = bytearray(occurs)
    for i in range(walk.num_layers):
        marked[walk.layers[i].code] |= hides
        if walk.layers[i].is_list:
            hides = False
        else:
            if i < walk.first_of_group[0]:
                marked[walk.layers[i].code] |= all_valid or any(occurs[: walk.layers[i].code + 1])
            hides = marked[walk.layers[i].code]
    return bytes(marked)


cdef int rank_codes(uint16_t[::1] codes, bytes occurs) except -1:
    """Turn codes into levels, in place."""
    cdef uint16_t level_of[2 * LAYERS_MAX + 1]
    cdef int code, level = 0
    cdef int64_t i
    cdef bint changed = False
    memset(level_of, 0, sizeof(level_of))
    for code in range(1, len(occurs)):
        if occurs[code]:
            level += 1
            level_of[code] = level
            changed |= level != code
    if changed:
        with nogil:
            for i in range(codes.shape[0]):
                codes[i] = level_of[codes[i]]
    return 0


cdef list choose_layers(const Walk *walk, bytes occurs):
    """Layers inner-most first, with the levels that are marked and no others."""
    cdef int i
    cdef list numbers = []
    for i in range(walk.num_layers):
        null, empty = occurs[2 * i + 1], occurs[2 * i + 2]
        if not walk.layers[walk.num_layers - 1 - i].is_list:
            numbers.append(NULLABLE_ITEM if null else ALL_VALID_ITEM)
        elif null:
            numbers.append(NULL_AND_EMPTY_LIST if empty else NULLABLE_LIST)
        else:
            numbers.append(EMPTYABLE_LIST if empty else ALL_VALID_LIST)
    return numbers


def shred(kinds):
    """Turn the validity and offsets of nested Arrow arrays into levels."""
    cdef Walk walk
    cdef bint nested
    cdef uint16_t[::1] rep_view, def_view
    cdef int64_t[::1] positions_view
    kinds = list(kinds)
    fill_walk(&walk, kinds)
    with nogil:
        nested = add_rows(&walk)
    if not nested:
        raise ValueError("offsets of a list decrease or leave the next layer")
    rep = def_ = positions = def_view = None
    if walk.max_rep:
        rep = rep_view = empty(walk.num_items, np.uint16)
        walk.rep = &rep_view[0]
    if may_have_codes(&walk):
        def_ = def_view = empty(walk.num_items, np.uint16)
        walk.def_ = &def_view[0]
    if not walk.in_order:
        positions = positions_view = empty(walk.num_visible, np.int64)
        walk.positions = &positions_view[0]
    walk.writing = True
    with nogil:
        add_rows(&walk)
    occurs = find_codes(def_view, walk.num_layers)
    marked = with_hidden_nulls(&walk, occurs)
    if any(occurs[1:]):
        rank_codes(def_view, marked)
    else:
        def_ = np.zeros(walk.num_items, np.uint16) if any(marked[1:]) else None
    return np.array(choose_layers(&walk, marked), np.uint8), rep, def_, positions
