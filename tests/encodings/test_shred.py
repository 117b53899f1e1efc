"""Arrow arrays to layers, levels and values: the specification's examples and Arrow's oddities."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.encodings.assemble import leaf_to_arrow
from alance.encodings.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PageRows,
    VariableWidthBlock,
)
from alance.encodings.shred import Shredded, leaf_bytes, prune, shred
from alance.encodings.spec import Layer
from alance.errors import InvalidInputError, UnsupportedFeatureError
from alance.testing.asserts import assert_same_array
from alance.testing.pages import leaf_paths
from alance.testing.strategies import arrays, data_types, lengths, struct_lists

ITEM, LIST = Layer.ALL_VALID_ITEM, Layer.ALL_VALID_LIST
NULL_ITEM, NULL_LIST = Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST
EMPTY_LIST, BOTH_LIST = Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST


def levels(found: Shredded) -> tuple[list[int] | None, list[int] | None]:
    rep, def_ = found.levels.rep, found.levels.def_
    return None if rep is None else rep.tolist(), None if def_ is None else def_.tolist()


def integers(found: Shredded) -> list[int]:
    assert isinstance(found.values, FixedWidthBlock)
    return [int(i) for i in found.values.data.view(f"<i{found.values.bits_per_value // 8}")]


def test_lists_of_lists_of_lists() -> None:
    kind = pa.list_(pa.list_(pa.list_(pa.int32())))
    found = shred(pa.array([[[[0, 1], [], [2]], [[3]], []], [], [[[4]]]], kind), ())
    assert found.layers == (ITEM, EMPTY_LIST, EMPTY_LIST, EMPTY_LIST)
    assert levels(found) == ([3, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 0, 0, 2, 3, 0])
    assert integers(found) == [0, 1, 2, 3, 4]
    assert (found.num_rows, found.num_items) == (3, 8)


def test_structs_in_structs() -> None:
    kind = pa.struct([("middle", pa.struct([("inner", pa.int32())]))])
    rows: list[object] = [
        {"middle": {"inner": 1}},
        None,
        {"middle": None},
        {"middle": {"inner": None}},
    ]
    found = shred(pa.array(rows, kind), (0, 0))
    assert found.layers == (NULL_ITEM, NULL_ITEM, NULL_ITEM)
    assert levels(found) == (None, [0, 3, 2, 1])
    assert found.values.num_values == 4


def test_lists_of_structs_with_lists() -> None:
    kind = pa.list_(pa.struct([("a", pa.int32()), ("c", pa.list_(pa.string()))]))
    rows: list[object] = [
        [{"a": 1, "c": ["x", "y"]}, None, {"a": None, "c": []}, {"a": 3, "c": None}],
        None,
        [],
        [{"a": 9, "c": [None, "zz"]}],
    ]
    a = shred(pa.array(rows, kind), (0,))
    assert a.layers == (NULL_ITEM, NULL_ITEM, BOTH_LIST)
    assert levels(a) == ([1, 0, 0, 0, 1, 1, 1], [0, 2, 1, 0, 3, 4, 0])
    assert a.values.num_values == 5
    c = shred(pa.array(rows, kind), (1,))
    assert c.layers == (NULL_ITEM, BOTH_LIST, NULL_ITEM, BOTH_LIST)
    assert levels(c) == ([2, 0, 1, 1, 1, 2, 2, 2, 0], [0, 0, 4, 3, 2, 5, 6, 1, 0])
    assert isinstance(c.values, VariableWidthBlock)
    assert (c.values.num_values, c.values.data.tobytes()) == (4, b"xyzz")


def test_maps_are_lists_of_entries() -> None:
    """The example of the specification of 2.2, section 5."""
    rows: list[object] = [[("a", 1), ("b", None)], None, [], [("c", 3)]]
    array = pa.array(rows, pa.map_(pa.string(), pa.int32()))
    keys, values = shred(array, (0,)), shred(array, (1,))
    assert keys.layers == (ITEM, ITEM, BOTH_LIST)
    assert levels(keys) == ([1, 0, 1, 1, 1], [0, 0, 1, 2, 0])
    assert values.layers == (NULL_ITEM, ITEM, BOTH_LIST)
    assert levels(values) == ([1, 0, 1, 1, 1], [0, 1, 2, 3, 0])
    assert levels(shred(array.slice(1, 3), (1,))) == ([1, 1, 1], [1, 2, 0])


def test_fixed_size_lists_of_structs_repeat_their_levels() -> None:
    """The example of the specification of 2.2, section 5."""
    kind = pa.list_(pa.struct([("a", pa.int32())]), 2)
    array = pa.array([[{"a": 1}, {"a": 2}], None, [{"a": 3}, None]], kind)
    found = shred(array, (0,))
    assert found.layers == (NULL_ITEM, NULL_ITEM, NULL_ITEM)
    assert levels(found) == (None, [0, 0, 3, 3, 0, 2])
    assert found.num_rows == 6
    assert integers(found)[:2] == [1, 2]
    assert levels(shred(array.slice(2, 1), (0,)))[1] == [0, 2]


def test_lists_of_fixed_size_lists_of_structs_are_refused() -> None:
    kind = pa.list_(pa.list_(pa.struct([("a", pa.int32())]), 2))
    with pytest.raises(InvalidInputError, match="lists of fixed-size lists of structs"):
        shred(pa.array([[[{"a": 1}, None]]], kind), (0,))


def test_flat_values_are_views() -> None:
    array = pa.array([1, 2, 3], pa.int64())
    found = shred(array, ())
    assert found.layers == (ITEM,)
    assert levels(found) == (None, None)
    assert isinstance(found.values, FixedWidthBlock)
    assert found.values.data.ctypes.data == array.buffers()[1].address


def test_slices_store_what_they_show() -> None:
    array = pa.array([9, None, 1, 2, None, 9]).slice(1, 4)
    found = shred(array, ())
    assert levels(found) == (None, [1, 0, 0, 1])
    assert integers(found)[1:3] == [1, 2]
    lists = pa.array([[9], [1, 2], [], [3], [9]]).slice(1, 3)
    found = shred(lists, ())
    assert integers(found) == [1, 2, 3]
    assert levels(found) == ([1, 0, 1, 1], [0, 0, 1, 0])


def test_items_of_null_lists_are_dropped() -> None:
    bitmap = pa.py_buffer(b"\x05")
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    array = pa.Array.from_buffers(
        pa.list_(pa.int8()), 3, [bitmap, offsets], children=[pa.array([1, 8, 8, 2], pa.int8())]
    )
    assert array.to_pylist() == [[1], None, [2]]
    found = shred(array, ())
    assert integers(found) == [1, 2]
    assert levels(found) == ([1, 1, 1], [0, 1, 0])


def test_bytes_of_null_strings_are_dropped() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 7, 8], np.int32))
    data = pa.py_buffer(b"agarbageb"[:1] + b"garbag" + b"b")
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    found = shred(array, ())
    assert isinstance(found.values, VariableWidthBlock)
    assert np.diff(found.values.offsets).tolist() == [1, 0, 1]


def test_members_of_null_structs_count_as_null() -> None:
    array = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3])], ["a"], mask=pa.array([False, True, False])
    )
    found = shred(array, (0,))
    assert levels(found) == (None, [0, 2, 0])
    assert found.layers == (NULL_ITEM, NULL_ITEM)


def test_null_items_of_a_dictionary_move_to_the_indices() -> None:
    indices = pa.array([0, 1, 2, None, 1], pa.int8())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", None, "c"]))
    found = shred(array, ())
    assert levels(found) == (None, [0, 1, 0, 1, 1])
    assert isinstance(found.values, DictionaryBlock)
    assert found.values.items.num_values == 2
    assert found.values.indices.data.tolist()[::2] == [0, 1, 0]
    assert max(found.values.indices.data.tolist()) < 2


def test_values_without_bytes() -> None:
    nulls = shred(pa.nulls(3), ())
    assert (nulls.layers, nulls.values) == ((NULL_ITEM,), NullBlock(3))
    assert not nulls.has_values
    assert not shred(pa.nulls(3, pa.int8()), ()).has_values
    assert not shred(pa.array([[], None], pa.list_(pa.int8())), ()).has_values
    assert shred(pa.array([None, 1]), ()).has_values


def test_items_of_fixed_size_lists_keep_their_validity() -> None:
    array = pa.array([[1, None], None, [3, 4]], pa.list_(pa.int16(), 2))
    found = shred(array, ())
    assert levels(found) == (None, [0, 1, 0])
    assert isinstance(found.values, FixedSizeListBlock)
    assert found.values.validity is not None
    valid = np.unpackbits(found.values.validity, count=6, bitorder="little")
    assert valid[[0, 1, 4, 5]].tolist() == [1, 0, 1, 1]


def test_what_cannot_be_stored_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="string_view"):
        shred(pa.array(["a"], pa.string_view()), ())


@given(kind=st.one_of(data_types(maps=True), struct_lists()), data=st.data())
@settings(deadline=None, max_examples=100)
def test_levels_and_values_say_it_all(kind: pa.DataType, data: st.DataObject) -> None:
    array = data.draw(arrays(kind, data.draw(lengths(100))))
    for path in leaf_paths(kind):
        found = shred(array, path.steps)
        values = found.values if found.has_values else NullBlock(found.values.num_values)
        rows = PageRows(found.num_rows, found.layers, found.levels, values)
        again = leaf_to_arrow(rows, path.chain)
        again.validate(full=True)
        pruned = prune(array, path.steps)
        assert_same_array(again, pruned)
        alone = shred(pruned, (0,) * len(path.steps))
        assert (alone.layers, levels(alone)) == (found.layers, levels(found))


def test_pruning_copies_no_values() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])
    array = pa.array([{"a": 1, "b": [2, 3]}, None, {"a": None, "b": None}], kind)
    pruned = prune(array, (1,))
    assert pruned.to_pylist() == [{"b": [2, 3]}, None, {"b": None}]
    assert pruned.field(0).values.buffers()[1].address == array.field(1).values.buffers()[1].address


def test_bytes_of_a_leaf_are_those_of_its_own_rows() -> None:
    numbers = pa.array(range(10_000))
    assert leaf_bytes(numbers, ()) == 80_000
    assert leaf_bytes(numbers.slice(100, 10), ()) == 80
    lists = pa.ListArray.from_arrays(pa.array(range(0, 10_001, 10), pa.int32()), numbers)
    assert 800 <= leaf_bytes(lists.slice(5, 10), ()) <= 800 + 11 * 4 + 2
    structs = pa.StructArray.from_arrays([numbers, lists.values], ["a", "b"])
    assert leaf_bytes(structs.slice(0, 8), (1,)) == 64 + 1
    assert leaf_bytes(lists.slice(0, 0), ()) < 100
