"""Kernels between repetition and definition levels and Arrow validity and offsets.

`layers` are the numbers of `alance.encodings.spec.Layer` as a uint8 array, inner-most first. Levels
are contiguous uint16 arrays, offsets and positions contiguous int64, bitmaps uint8, LSB first from
bit 0, bit 1 = valid, bits after the last zero. An item is *visible* when it owns a leaf slot: its
definition level is at most `max_visible`, the number of levels that the layers before the first
list take. The GIL is released while the loops run.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int64s: TypeAlias = npt.NDArray[np.int64]
LevelValues: TypeAlias = npt.NDArray[np.uint16]

LayerSlots: TypeAlias = tuple[Int64s | None, Bytes | None, int, int]
"""(offsets, validity, length, null_count): offsets of length + 1 for a list, None for an item."""

LayerSource: TypeAlias = tuple[bool, int, Int64s | None, Bytes | None]
"""(is_list, length, offsets, validity) of an Arrow array."""

def unravel(
    rep: LevelValues | None, def_: LevelValues | None, layers: Bytes, num_items: int
) -> tuple[list[LayerSlots], int]:
    """Turn levels into the validity and offsets of each layer.

    Parameters
    ----------
    rep, def_
        Levels of `num_items` items. `rep` is None where there is no list; `def_` None says that
        every item is valid.
    layers
        Nesting layers, inner-most first.
    num_items
        Number of items.

    Returns
    -------
    layers
        One (offsets, validity, length, null_count) for each layer, inner-most first, ready for
        Arrow: a struct and its children, a list and the structs around it have the same length; the
        offsets of a list start at 0 and end at the length of the layer inside it. The length of
        layer 0 is the number of visible items, that of the last layer the number of rows.
        `validity` is None when `null_count` is 0. A layer without a null level of its own has none:
        what a null layer above hides is valid there, and an empty list.
    status
        0; k > 0 when item k - 1 cannot stand where it does (a level that no layer takes, a first
        item that does not start a row, a null or empty list in the middle of a list or followed by
        more of its items); -2 when `layers` is no nesting (no layer, an unknown number, a list
        inner-most, more than 256 layers) or lists come without `rep`.

    Raises
    ------
    ValueError
        A level array does not have `num_items` elements.
    """

def shred(
    kinds: Sequence[LayerSource],
) -> tuple[Bytes, LevelValues | None, LevelValues | None, Int64s | None]:
    """Turn the validity and offsets of nested Arrow arrays into levels.

    Parameters
    ----------
    kinds
        (is_list, length, offsets, validity) of each layer, *outer-most first*, the leaf last.
        Length counts the slots of the layer's array. `offsets` (length + 1) index the slots of the
        next layer; they need not start at 0, nor cover the next layer, and what they say of a null
        list is ignored. `validity` is a bitmap or None.

    Returns
    -------
    layers
        Layers, *inner-most first*, chosen from the data: a layer takes a null level only when a
        null occurs that no layer above explains, and an empty level only when a list is empty.
    rep, def
        Levels of each item; `rep` is None without a list, `def` None when no layer takes a level.
    positions
        Leaf slot of each visible item, in order; None when they are exactly 0, 1, 2, ... (as many
        as there are visible items, which may be fewer than the leaf has slots).

    Raises
    ------
    ValueError
        The arrays do not nest: unequal lengths without a list between, offsets that decrease or
        leave the next layer, a bitmap that is too short, a leaf that is a list.
    """

def row_starts(rep: LevelValues, max_rep: int) -> Int64s:
    """Positions of the items that start a row, ascending."""

def build_repetition_index(
    rep: LevelValues, max_rep: int, level_boundaries: Int64s
) -> npt.NDArray[np.uint64]:
    """Build the repetition index of mini-block chunks.

    Parameters
    ----------
    rep
        Repetition levels of the page.
    max_rep
        Number of list layers.
    level_boundaries
        Chunk c holds the items ``[level_boundaries[c], level_boundaries[c + 1])``; they cover
        `rep`.

    Returns
    -------
    numpy.ndarray
        For each chunk the number of rows that end in it, and the number of its items that belong to
        a row that goes on in the next chunk. Shape (c, 2).

    Raises
    ------
    ValueError
        The boundaries decrease, or do not go from 0 to ``len(rep)``.
    """

def chunk_levels(
    def_: LevelValues | None, num_levels: int, max_visible: int, value_boundaries: Int64s
) -> Int64s:
    """Find which items belong to which chunk: a chunk ends right after its last visible item.

    Parameters
    ----------
    def_
        Definition levels of the page; None when every item is visible.
    num_levels
        Number of items.
    max_visible
        Largest definition level of a visible item.
    value_boundaries
        Chunk c holds the visible values ``[value_boundaries[c], value_boundaries[c + 1])``; they go
        from 0 to the number of visible items.

    Returns
    -------
    numpy.ndarray
        Chunk c holds the items ``[result[c], result[c + 1])``; the last chunk takes everything
        left. Length c + 1.

    Raises
    ------
    ValueError
        The boundaries decrease, or do not go from 0 to the number of visible items.
    """

def count_visible(def_: LevelValues | None, max_visible: int, boundaries: Int64s) -> Int64s:
    """Count the visible items before each item position of `boundaries`, which ascend.

    Raises
    ------
    ValueError
        The boundaries decrease, or leave `def_`.
    """
