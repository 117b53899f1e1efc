from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import repdef as compiled
from tests.kernels import reference_repdef as reference
from tests.kernels.arrays import Bytes, i64, same, u8, u16


@pytest.fixture(params=[reference, compiled], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


def max_visible_of(layers: Bytes) -> int:
    visible = 0
    for number in layers.tolist():
        if number not in (1, 3):
            break
        visible += number == 3
    return visible


# ---- the worked examples of the format ---------------------------------------------------------

INT = pa.int32()
INNER = pa.struct([("inner", INT)])
ITEM = pa.struct([("a", INT), ("c", pa.list_(pa.string()))])
ITEMS: list[Any] = [
    [{"a": 1, "c": ["x", "y"]}, None, {"a": None, "c": []}, {"a": 3, "c": None}],
    None,
    [],
    [{"a": 9, "c": [None, "zz"]}],
]

EXAMPLES: dict[str, tuple[Any, ...]] = {
    "A": (
        pa.array([[[[0, 1], [], [2]], [[3]], []], [], [[[4]]]], pa.list_(pa.list_(pa.list_(INT)))),
        (),
        (1, 5, 5, 5),
        (3, 0, 1, 1, 2, 2, 3, 3),
        (0, 0, 1, 0, 0, 2, 3, 0),
    ),
    "B": (
        pa.array(
            [{"middle": {"inner": 1}}, None, {"middle": None}, {"middle": {"inner": None}}],
            pa.struct([("middle", INNER)]),
        ),
        (0, 0),
        (3, 3, 3),
        None,
        (0, 3, 2, 1),
    ),
    "C.a": (
        pa.array(ITEMS, pa.list_(ITEM)),
        (0,),
        (3, 3, 6),
        (1, 0, 0, 0, 1, 1, 1),
        (0, 2, 1, 0, 3, 4, 0),
    ),
    "C.c": (
        pa.array(ITEMS, pa.list_(ITEM)),
        (1,),
        (3, 6, 3, 6),
        (2, 0, 1, 1, 1, 2, 2, 2, 0),
        (0, 0, 4, 3, 2, 5, 6, 1, 0),
    ),
    "mini-block": (
        pa.array([[1, 2], None, [], [4, None, 6], [None]], pa.list_(INT)),
        (),
        (3, 6),
        (1, 0, 1, 1, 1, 0, 0, 1),
        (0, 0, 2, 3, 0, 1, 0, 1),
    ),
    "all-null": (pa.array([None, []], pa.list_(INT)), (), (1, 6), (1, 1), (1, 2)),
    "flat": (pa.array([1, 2, 3, None]), (), (3,), None, (0, 0, 0, 1)),
    "no nulls": (pa.array([1, 2, 3]), (), (1,), None, None),
    "full lists": (pa.array([[1], [2, 3]]), (), (1, 2), (1, 1, 0), None),
}


def kinds_of(array: pa.Array, path: tuple[int, ...]) -> list[reference.LayerSource]:
    """The layers on the way to one leaf, outer-most first, with a slice's offsets kept."""
    kinds: list[reference.LayerSource] = []
    steps = iter(path)
    while True:
        validity = None
        if array.null_count:
            bits = np.array(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
            validity = np.packbits(bits, bitorder="little")
        if pa.types.is_list(array.type):
            offsets = array.offsets.to_numpy().astype(np.int64)
            kinds.append((True, len(array), offsets, validity))
            array = array.values
        else:
            kinds.append((False, len(array), None, validity))
            if not pa.types.is_struct(array.type):
                return kinds
            array = array.field(next(steps))


@pytest.mark.parametrize("name", EXAMPLES)
def test_shred_examples(impl: Any, name: str) -> None:
    array, path, layers, rep, def_ = EXAMPLES[name]
    found = impl.shred(kinds_of(array, path))
    same(found[0], u8(*layers))
    same(found[1], None if rep is None else u16(*rep))
    same(found[2], None if def_ is None else u16(*def_))
    assert found[3] is None


# (offsets, validity, length, null_count), inner-most first; validity as a number, bit 0 first
SLOTS: dict[str, list[tuple[tuple[int, ...] | None, int | None, int, int]]] = {
    "A": [
        (None, None, 5, 0),
        ((0, 2, 2, 3, 4, 5), None, 5, 0),
        ((0, 3, 4, 4, 5), None, 4, 0),
        ((0, 3, 3, 4), None, 3, 0),
    ],
    "B": [(None, 0b0001, 4, 3), (None, 0b1001, 4, 2), (None, 0b1101, 4, 1)],
    "C.a": [(None, 0b11001, 5, 2), (None, 0b11101, 5, 1), ((0, 4, 4, 4, 5), 0b1101, 4, 1)],
    "C.c": [
        (None, 0b1011, 4, 1),
        ((0, 2, 2, 2, 2, 4), 0b10101, 5, 2),
        (None, 0b11101, 5, 1),
        ((0, 4, 4, 4, 5), 0b1101, 4, 1),
    ],
    "mini-block": [(None, 0b010111, 6, 2), ((0, 2, 2, 2, 5, 6), 0b11101, 5, 1)],
    "all-null": [(None, None, 0, 0), ((0, 0, 0), 0b10, 2, 1)],
    "flat": [(None, 0b0111, 4, 1)],
    "no nulls": [(None, None, 3, 0)],
    "full lists": [(None, None, 3, 0), ((0, 1, 3), None, 2, 0)],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_unravel_examples(impl: Any, name: str) -> None:
    array, _, layers, rep, def_ = EXAMPLES[name]
    reps = None if rep is None else u16(*rep)
    defs = None if def_ is None else u16(*def_)
    num_items = next((len(stream) for stream in (reps, defs) if stream is not None), len(array))
    expected = [
        (
            None if offsets is None else i64(*offsets),
            None if validity is None else u8(validity),
            length,
            nulls,
        )
        for offsets, validity, length, nulls in SLOTS[name]
    ]
    same(impl.unravel(reps, defs, u8(*layers), num_items), (expected, 0))


def test_repetition_index_examples(impl: Any) -> None:
    rep = u16(1, 0, 1, 1, 1, 0, 0, 1)
    same(impl.build_repetition_index(rep, 1, i64(0, 8)), np.array([[5, 0]], np.uint64))
    rep = np.ones(5119, np.uint16)
    rep[1:5000] = 0
    rep[5001:5120:2] = 0
    index = impl.build_repetition_index(rep, 1, i64(0, 1024, 2048, 3072, 4096, 5119))
    assert index[:4].tolist() == [[0, 1024]] * 4
    assert index[4].tolist() == [61, 0]
    index = impl.build_repetition_index(rep, 1, i64(0, 4096, 5001, 5001, 5119))
    assert index.tolist() == [[0, 4096], [1, 1], [0, 0], [60, 0]]


def test_chunk_levels_example(impl: Any) -> None:
    # slots of the mini-block example: items 0, 1, 4, 5, 6, 7
    def_ = u16(0, 0, 2, 3, 0, 1, 0, 1)
    same(impl.chunk_levels(def_, 8, 1, i64(0, 2, 4, 6)), i64(0, 2, 6, 8))
    # what follows the last value of a chunk goes to the next one, or stays in the last
    same(impl.chunk_levels(def_[:4], 4, 1, i64(0, 1, 2)), i64(0, 1, 4))
    same(impl.chunk_levels(None, 8, 0, i64(0, 4, 8)), i64(0, 4, 8))
    same(impl.chunk_levels(u16(2, 2), 2, 1, i64(0, 0)), i64(0, 2))


# ---- round trips -------------------------------------------------------------------------------


@st.composite
def types(draw: st.DrawFn) -> tuple[pa.DataType, tuple[int, ...]]:
    """A type of up to five layers, and the way to its leaf."""
    kind, path = pa.int8(), []
    for is_list in draw(st.lists(st.booleans(), max_size=4)):
        kind = pa.list_(kind) if is_list else pa.struct([("x", kind)])
        path += [] if is_list else [0]
    return kind, tuple(path)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        full: st.SearchStrategy[Any] = st.lists(values_of(kind.value_type), max_size=4)
    elif pa.types.is_struct(kind):
        full = st.fixed_dictionaries({"x": values_of(kind.field(0).type)})
    else:
        full = st.integers(0, 99)
    return st.one_of(full, full, full, st.none())


@st.composite
def arrays(draw: st.DrawFn) -> tuple[pa.Array, tuple[int, ...]]:
    kind, path = draw(types())
    array = pa.array(draw(st.lists(values_of(kind), max_size=12)), kind)
    start = draw(st.integers(0, len(array)))
    return array.slice(start, draw(st.integers(0, len(array) - start))), path


def assemble(slots: list[compiled.LayerSlots], leaf: pa.Array, kind: pa.DataType) -> pa.Array:
    """Wrap leaf values into what `unravel` said of each layer."""
    kinds = [kind]
    while not pa.types.is_integer(kinds[-1]):
        kinds.append(kinds[-1].field(0).type)
    array = leaf
    for (offsets, validity, length, nulls), layer in zip(slots, reversed(kinds), strict=True):
        bitmap = None if validity is None else pa.py_buffer(validity)
        if layer == leaf.type:
            array = pa.Array.from_buffers(layer, length, [bitmap, leaf.buffers()[1]], nulls)
        elif offsets is None:
            array = pa.Array.from_buffers(layer, length, [bitmap], nulls, children=[array])
        else:
            places = pa.py_buffer(offsets.astype(np.int32))
            array = pa.Array.from_buffers(layer, length, [bitmap, places], nulls, children=[array])
    array.validate(full=True)
    return array


@given(arrays())
def test_arrow_round_trip(drawn: tuple[pa.Array, tuple[int, ...]]) -> None:
    array, path = drawn
    kinds = kinds_of(array, path)
    layers, rep, def_, positions = compiled.shred(kinds)
    same((layers, rep, def_, positions), reference.shred(kinds))
    stream = rep if rep is not None else def_
    num_items = len(array) if stream is None else len(stream)
    slots, status = compiled.unravel(rep, def_, layers, num_items)
    assert status == 0
    same((slots, 0), reference.unravel(rep, def_, layers, num_items))
    leaf = array
    for _ in kinds[:-1]:
        leaf = leaf.values if pa.types.is_list(leaf.type) else leaf.field(0)
    slot_values = leaf.fill_null(0) if leaf.null_count else leaf
    num_visible = compiled.count_visible(def_, max_visible_of(layers), i64(num_items))[0]
    taken = positions if positions is not None else np.arange(num_visible)
    again = assemble(slots, pa.concat_arrays([slot_values.take(pa.array(taken))]), array.type)
    assert again.to_pylist() == array.to_pylist()


@given(st.data())
def test_unravel_on_any_levels(draw: st.DataObject) -> None:
    """Levels that nest decode as the format says, all others give a status."""
    inside = draw.draw(st.lists(st.integers(1, 6), max_size=3))
    layers = u8(draw.draw(st.sampled_from([1, 3])), *inside)
    max_rep = sum(number not in (1, 3) for number in layers)
    num_items = draw.draw(st.integers(0, 6))
    level = st.lists(st.integers(0, max_rep), min_size=num_items, max_size=num_items)
    rep = u16(*draw.draw(level)) if max_rep else None
    if rep is not None and draw.draw(st.booleans()):
        rep[:1] = max_rep
    level = st.lists(st.integers(0, 5), min_size=num_items, max_size=num_items)
    def_ = u16(*draw.draw(level)) if draw.draw(st.booleans()) else None
    found, status = compiled.unravel(rep, def_, layers, num_items)
    expected, expected_status = reference.unravel(rep, def_, layers, num_items)
    assert (status > 0) == (expected_status > 0)
    assert status <= num_items
    same(found, expected)


@given(st.data())
def test_rows_and_chunks(draw: st.DataObject) -> None:
    num_items = draw.draw(st.integers(1, 40))
    level = st.lists(st.integers(0, 2), min_size=num_items, max_size=num_items)
    rep, def_ = u16(*draw.draw(level)), u16(*draw.draw(level))
    rep[0] = 2
    cuts = sorted(draw.draw(st.lists(st.integers(0, num_items), max_size=4)))
    bounds = i64(0, *cuts, num_items)
    same(compiled.row_starts(rep, 2), reference.row_starts(rep, 2))
    same(
        compiled.build_repetition_index(rep, 2, bounds),
        reference.build_repetition_index(rep, 2, bounds),
    )
    counts = compiled.count_visible(def_, 1, bounds)
    same(counts, reference.count_visible(def_, 1, bounds))
    same(compiled.count_visible(None, 1, bounds), bounds)
    found = compiled.chunk_levels(def_, num_items, 1, counts)
    same(found, reference.chunk_levels(def_, num_items, 1, counts))


@pytest.mark.parametrize("num_items", [4095, 4096, 4097, 32768, 70001])
def test_blocks_of_many_items(num_items: int) -> None:
    """Counters and flag blocks are cut where they should be."""
    rng = np.random.default_rng(num_items)
    rep = (rng.random(num_items) < 0.3).astype(np.uint16)
    rep[0] = 1
    lone = (rep == 1) & (np.append(rep[1:], 1) == 1)
    def_ = np.where(lone, rng.integers(0, 4, num_items), rng.integers(0, 2, num_items))
    def_ = def_.astype(np.uint16)
    layers = u8(3, 6)
    found, status = compiled.unravel(rep, def_, layers, num_items)
    assert status == 0
    same((found, 0), reference.unravel(rep, def_, layers, num_items))
    same(compiled.row_starts(rep, 1), reference.row_starts(rep, 1))
    flat, status = compiled.unravel(None, def_, u8(3, 3, 3), num_items)
    assert status == 0
    same((flat, 0), reference.unravel(None, def_, u8(3, 3, 3), num_items))


# ---- slots that no row reaches -----------------------------------------------------------------


def test_shred_ignores_what_null_lists_hide(impl: Any) -> None:
    """Garbage under a null list and around the lists is neither an item nor checked."""
    offsets = i64(1, 3, 99, 4)  # list 1 is null, and what its offsets say is nonsense
    kinds = [(True, 3, offsets, u8(0b001)), (False, 5, None, u8(0b00100))]
    layers, rep, def_, positions = impl.shred(kinds)
    same(layers, u8(3, 4))
    same(rep, u16(1, 0, 1, 1))
    same(def_, u16(1, 0, 2, 2))
    same(positions, i64(1, 2))


def test_shred_gives_members_of_null_structs_a_null_level(impl: Any) -> None:
    """The reference implementation reads them as valid otherwise where it reads them alone."""
    for validity in (u8(0b101), None):
        kinds = [(False, 3, None, u8(0b101)), (False, 3, None, None), (False, 3, None, validity)]
        layers, rep, def_, positions = impl.shred(kinds)
        same(layers, u8(3, 3, 3))
        assert rep is None
        same(def_, u16(0, 3, 0))
        assert positions is None


def test_shred_takes_no_level_for_bitmaps_that_hide_nothing(impl: Any) -> None:
    layers, _, def_, _ = impl.shred([(True, 1, i64(0, 2), u8(1)), (False, 2, None, u8(0b11))])
    same(layers, u8(1, 2))
    assert def_ is None


def test_shred_gives_structs_of_lists_a_null_level(impl: Any) -> None:
    """And the lists too: the reference implementation cannot join pages otherwise."""
    kinds = [
        (False, 2, None, u8(0b01)),
        (False, 2, None, None),
        (True, 2, i64(0, 2, 2), None),
        (False, 2, None, None),
        (True, 2, i64(0, 1, 1), None),
        (False, 1, None, None),
    ]
    layers, rep, def_, _ = impl.shred(kinds)
    same(layers, u8(1, 6, 3, 4, 3, 3))
    same(rep, u16(2, 1, 2))
    same(def_, u16(0, 2, 6))
    plain = [(False, 1, None, None), (True, 1, i64(0, 2), None), (False, 2, None, None)]
    layers, rep, def_, _ = impl.shred(plain)
    same(layers, u8(1, 4, 3))
    same(rep, u16(1, 0))
    same(def_, u16(0, 0))


def test_hidden_slots_are_valid_without_a_null_level(impl: Any) -> None:
    """Under a null struct a layer without a null level stays valid: its field may be required."""
    found, status = impl.unravel(u16(1, 1), u16(1, 0), u8(1, 2, 3), 2)
    assert status == 0
    same(found, [(None, None, 1, 0), (i64(0, 0, 1), None, 2, 0), (None, u8(0b10), 2, 1)])


def test_no_items(impl: Any) -> None:
    same(impl.unravel(None, None, u8(3), 0), ([(None, None, 0, 0)], 0))
    empty = u16()
    same(impl.unravel(empty, empty, u8(3, 6), 0), ([(None, None, 0, 0), (i64(0), None, 0, 0)], 0))
    same(impl.unravel(None, empty, u8(1, 6), 0), ([(None, None, 0, 0), (i64(0), None, 0, 0)], 0))
    kinds = [(True, 0, i64(0), None), (False, 0, None, None)]
    same(impl.shred(kinds), (u8(1, 2), u16(), None, None))
    assert impl.row_starts(empty, 1).size == 0
    assert impl.build_repetition_index(empty, 1, i64(0)).shape == (0, 2)


# ---- hostile levels and wrong calls ------------------------------------------------------------


@pytest.mark.parametrize(
    ("rep", "def_", "layers", "status"),
    [
        ((1, 2), (0, 0), (3, 6), 2),  # rep above max_rep
        ((1, 0), (0, 4), (3, 6), 2),  # def that no layer takes
        ((0, 1), (0, 0), (3, 6), 1),  # the first item starts no row
        ((1, 0), (0, 2), (3, 6), 2),  # a null list inside of a list
        ((1, 0), (3, 0), (3, 6), 2),  # an empty list that goes on
        ((1, 1, 0), (0, 2, 1), (3, 6), 3),  # a null list that goes on
        ((2, 1), (3, 0), (1, 5, 3, 5), 2),  # an outer empty list that goes on
        ((2, 1), (0, 3), (1, 5, 3, 5), 2),  # an outer empty list inside of a list
        ((0, 65535), (0, 0), (1,), 2),  # rep without a list
        ((0, 0), (0, 65535), (3,), 2),
        ((1, 0), (0, 1), (1, 2), 2),  # def without a level
    ],
)
def test_unravel_refuses_levels(impl: Any, rep: Any, def_: Any, layers: Any, status: int) -> None:
    found = impl.unravel(u16(*rep), u16(*def_), u8(*layers), len(rep))
    assert found == ([], status)


@pytest.mark.parametrize("layers", [(), (0,), (7,), (1, 9), (2,), (6, 1), (1,) * 257])
def test_unravel_refuses_layers(impl: Any, layers: tuple[int, ...]) -> None:
    assert impl.unravel(u16(0), u16(0), u8(*layers), 1) == ([], -2)


def test_unravel_needs_rep_for_lists(impl: Any) -> None:
    assert impl.unravel(None, u16(0), u8(1, 2), 1) == ([], -2)
    assert impl.unravel(None, None, u8(1, 2), 1) == ([], -2)


def test_unravel_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="2 rep levels for 1 items"):
        compiled.unravel(u16(0, 0), None, u8(1), 1)
    with pytest.raises(ValueError, match="2 def levels for 3 items"):
        compiled.unravel(None, u16(0, 0), u8(1), 3)
    with pytest.raises(ValueError, match="not be negative"):
        compiled.unravel(None, None, u8(1), -1)


LEAF: reference.LayerSource = (False, 2, None, None)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([], "0 layers"),
        ([LEAF] * 257, "257 layers"),
        ([(False, 3, None, None), LEAF], "has 2 slots, the struct around it 3"),
        ([(True, 1, i64(0, 2), None)], "expected the leaf"),
        ([(True, 1, None, None), LEAF], "offsets if it is a list"),
        ([(False, 2, i64(0, 1, 2), None)], "offsets if it is a list"),
        ([(False, -1, None, None)], "length of at least 0"),
        ([(True, 1, i64(0), None), LEAF], "1 offsets for 1 lists"),
        ([(False, 9, None, u8(255))], "1 bytes for 9 slots"),
        ([(True, 1, i64(0, 3), None), LEAF], "leave the next layer"),
        ([(True, 1, i64(-1, 1), None), LEAF], "leave the next layer"),
        ([(True, 2, i64(0, 2, 1), None), LEAF], "decrease"),
        ([(True, 1, i64(0, 1), None), (True, 1, i64(0, 3), None), LEAF], "leave the next"),
    ],
)
def test_shred_refuses_arrays(kinds: list[reference.LayerSource], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compiled.shred(kinds)


@pytest.mark.parametrize("bounds", [(), (0,), (0, 2), (1, 3), (0, 2, 1, 3), (0, 4), (-1, 3)])
def test_boundaries_must_cover(bounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="boundar"):
        compiled.build_repetition_index(u16(1, 1, 1), 1, i64(*bounds))
    with pytest.raises(ValueError, match="boundar"):
        compiled.chunk_levels(u16(0, 0, 0, 2), 4, 1, i64(*bounds))


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="boundary 1 is 3"):
        compiled.count_visible(u16(0, 0), 0, i64(0, 3))
    with pytest.raises(ValueError, match="boundary 0 is -1"):
        compiled.count_visible(None, 0, i64(-1))
    with pytest.raises(ValueError, match="2 def levels for 3 items"):
        compiled.chunk_levels(u16(0, 0), 3, 0, i64(0, 2))
    with pytest.raises(ValueError, match="max_rep"):
        compiled.row_starts(u16(0), 65536)
