"""The level kernels in plain Python: the oracle, a recursive step for each rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]
LayerSlots = tuple[Int64s | None, Bytes | None, int, int]
LayerSource = tuple[bool, int, Int64s | None, Bytes | None]
Item = tuple[int, int, int]  # position, rep, def


class Corrupt(Exception):
    """The item at `args[0]` cannot stand where it does."""


@dataclass
class Slots:
    """One layer: its levels (0: none), list number, and the slots found so far."""

    null: int
    empty: int
    list_number: int
    validity: list[bool] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, valid: bool, length: int = 0) -> None:
        self.validity.append(valid or self.null == 0)
        self.lengths.append(length)

    def to_arrow(self) -> LayerSlots:
        nulls = self.validity.count(False)
        bitmap = np.packbits(np.array(self.validity, np.bool_), bitorder="little")
        offsets = np.cumsum([0, *self.lengths]).astype(np.int64) if self.list_number else None
        return offsets, bitmap if nulls else None, len(self.validity), nulls


def _read_layers(numbers: Sequence[int]) -> list[Slots]:
    layers, level, list_number = [], 0, 0
    for number in numbers:
        null = empty = 0
        if number in (3, 4, 6):
            null = level = level + 1
        if number in (5, 6):
            empty = level = level + 1
        list_number += number not in (1, 3)
        layers.append(Slots(null, empty, 0 if number in (1, 3) else list_number))
    return layers


def _hide(layers: list[Slots], k: int) -> None:
    """A null struct is null in every layer below it that shares its slots."""
    for layer in reversed(layers[:k]):
        layer.add(False)
        if layer.list_number:
            return


def _decode(layers: list[Slots], k: int, items: list[Item]) -> None:
    layer, (position, _, first) = layers[k], items[0]
    ends_here = first != 0 and first in (layer.null, layer.empty)
    if ends_here and len(items) > 1:
        raise Corrupt(items[1][0])
    if ends_here:
        layer.add(first != layer.null)
        if not layer.list_number:
            _hide(layers, k)
        return
    if k == 0:
        if first != 0 or len(items) > 1:
            raise Corrupt(position)
        layer.add(True)
        return
    if not layer.list_number:
        layer.add(True)
        _decode(layers, k - 1, items)
        return
    elements: list[list[Item]] = []
    for item in items:
        if not elements or item[1] >= layer.list_number - 1:
            elements.append([])
        elements[-1].append(item)
    layer.add(True, len(elements))
    for element in elements:
        _decode(layers, k - 1, element)


def unravel(
    rep: Levels | None, def_: Levels | None, layers: Bytes, num_items: int
) -> tuple[list[LayerSlots], int]:
    numbers = layers.tolist()
    known = all(1 <= number <= 6 for number in numbers)
    if not known or not numbers or len(numbers) > 256 or numbers[0] not in (1, 3):
        return [], -2
    slots = _read_layers(numbers)
    max_rep = max(layer.list_number for layer in slots)
    if max_rep and rep is None and num_items:
        return [], -2
    reps = [0] * num_items if rep is None else rep.tolist()
    defs = [0] * num_items if def_ is None else def_.tolist()
    rows: list[list[Item]] = []
    try:
        for item in zip(range(num_items), reps, defs, strict=True):
            if item[1] > max_rep or (not rows and item[1] < max_rep):
                raise Corrupt(item[0])
            if item[1] == max_rep:
                rows.append([])
            rows[-1].append(item)
        for row in rows:
            _decode(slots, len(slots) - 1, row)
    except Corrupt as corrupt:
        return [], corrupt.args[0] + 1
    return [layer.to_arrow() for layer in slots], 0


def _bit(validity: Bytes | None, slot: int) -> bool:
    return validity is None or bool(validity[slot // 8] >> (slot % 8) & 1)


Cause = tuple[int, int]  # layer counted from the leaf, 1 for null or 2 for empty; (-1, 0) for none


def _walk(
    kinds: Sequence[LayerSource], k: int, slot: int, rep: int, lists_inside: int
) -> list[tuple[int, Cause, int]]:
    """(rep, cause, leaf slot or -1) of each item in one slot of layer `k`, outer-most first."""
    is_list, _, offsets, validity = kinds[k]
    layer = len(kinds) - 1 - k
    if not _bit(validity, slot):
        visible = not any(kind[0] for kind in kinds[k:])
        return [(rep, (layer, 1), slot if visible else -1)]
    if k == len(kinds) - 1:
        return [(rep, (-1, 0), slot)]
    if not is_list:
        return _walk(kinds, k + 1, slot, rep, lists_inside)
    assert offsets is not None
    start, stop = offsets[slot : slot + 2].tolist()
    if start == stop:
        return [(rep, (layer, 2), -1)]
    items = []
    for child in range(start, stop):
        child_rep = rep if child == start else lists_inside - 1
        items += _walk(kinds, k + 1, child, child_rep, lists_inside - 1)
    return items


def _hidden_nulls(kinds: Sequence[LayerSource], occurring: set[Cause]) -> set[Cause]:
    """A null level for what lies below a struct with one, and for structs in use around a list."""
    found: set[Cause] = set()
    for k, (is_list, *_) in enumerate(kinds):
        below = k > 0 and not kinds[k - 1][0] and (len(kinds) - k, 1) in occurring | found
        layer = len(kinds) - 1 - k
        has_list = any(kind[0] for kind in kinds[k:])
        has_slots = any(cause[0] <= layer for cause in occurring)
        if below or (has_list and not is_list and has_slots):
            found.add((layer, 1))
    return found


def shred(
    kinds: Sequence[LayerSource],
) -> tuple[Bytes, Levels | None, Levels | None, Int64s | None]:
    max_rep = sum(kind[0] for kind in kinds)
    items = [item for row in range(kinds[0][1]) for item in _walk(kinds, 0, row, max_rep, max_rep)]
    occurring = {cause for _, cause, _ in items}
    causes = sorted((occurring | _hidden_nulls(kinds, occurring)) - {(-1, 0)})
    numbers = []
    for layer, (is_list, *_) in enumerate(reversed(kinds)):
        null, empty = (layer, 1) in causes, (layer, 2) in causes
        of_list = {(0, 0): 2, (1, 0): 4, (0, 1): 5, (1, 1): 6}[null, empty]
        numbers.append(of_list if is_list else 3 if null else 1)
    level = {(-1, 0): 0, **{cause: i + 1 for i, cause in enumerate(causes)}}
    rep = np.array([item[0] for item in items], np.uint16) if max_rep else None
    def_ = np.array([level[item[1]] for item in items], np.uint16) if causes else None
    slots = [item[2] for item in items if item[2] >= 0]
    positions = None if slots == list(range(len(slots))) else np.array(slots, np.int64)
    return np.array(numbers, np.uint8), rep, def_, positions


def row_starts(rep: Levels, max_rep: int) -> Int64s:
    return np.flatnonzero(rep == max_rep).astype(np.int64)


def build_repetition_index(
    rep: Levels, max_rep: int, level_boundaries: Int64s
) -> npt.NDArray[np.uint64]:
    row_stops = [i for i in range(1, len(rep) + 1) if i == len(rep) or rep[i] == max_rep]
    index = []
    bounds = level_boundaries.tolist()
    for start, stop in itertools.pairwise(bounds):
        ends = [row_stop for row_stop in row_stops if start < row_stop <= stop]
        index.append((len(ends), stop - (ends[-1] if ends else start)))
    return np.array(index, np.uint64).reshape(-1, 2)


def chunk_levels(
    def_: Levels | None, num_levels: int, max_visible: int, value_boundaries: Int64s
) -> Int64s:
    levels = np.zeros(num_levels, np.uint16) if def_ is None else def_
    visible = np.flatnonzero(levels <= max_visible).tolist()
    boundaries = [visible[value - 1] + 1 if value else 0 for value in value_boundaries.tolist()]
    return np.array([*boundaries[:-1], num_levels], np.int64)


def count_visible(def_: Levels | None, max_visible: int, boundaries: Int64s) -> Int64s:
    if def_ is None:
        return boundaries.copy()
    return np.array([(def_[:stop] <= max_visible).sum() for stop in boundaries], np.int64)
