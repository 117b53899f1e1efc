"""Decoded pages to Arrow: what contradicts the column's type or its sibling leaves is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.assemble import LeafCounts, items_per_row, leaf_to_arrow, zip_leaves
from alance.encodings.blocks import (
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    Levels,
    NullBlock,
    PageRows,
    VariableWidthBlock,
)
from alance.encodings.spec import Layer
from alance.errors import CorruptFileError

ITEM, NULL_ITEM = Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM
BOTH_LIST = Layer.NULL_AND_EMPTY_LIST


def words(count: int, bits: int = 32) -> FixedWidthBlock:
    return FixedWidthBlock(bits, count, np.arange(count, dtype=f"<u{bits // 8}").view(np.uint8))


def strings(*values: bytes, width: int = 32) -> VariableWidthBlock:
    ends = np.cumsum([0, *map(len, values)])
    offsets = ends.astype(np.int32) if width == 32 else ends
    return VariableWidthBlock(offsets, np.frombuffer(b"".join(values), np.uint8))


def rows(
    block: DataBlock,
    num_rows: int,
    *layers: Layer,
    rep: list[int] | None = None,
    def_: list[int] | None = None,
) -> PageRows:
    levels = Levels(
        None if rep is None else np.array(rep, np.uint16),
        None if def_ is None else np.array(def_, np.uint16),
    )
    return PageRows(num_rows, layers, levels, block)


def test_lists() -> None:
    page = rows(
        words(6),
        5,
        NULL_ITEM,
        BOTH_LIST,
        rep=[1, 0, 1, 1, 1, 0, 0, 1],
        def_=[0, 0, 2, 3, 0, 1, 0, 1],
    )
    found = leaf_to_arrow(page, [pa.list_(pa.int32()), pa.int32()])
    found.validate(full=True)
    assert found.to_pylist() == [[0, 1], None, [], [2, None, 4], [None]]
    large = leaf_to_arrow(page, [pa.large_list(pa.int32()), pa.int32()])
    assert large.cast(found.type).equals(found)


def test_aligned_values_are_not_copied() -> None:
    block = words(1000)
    found = leaf_to_arrow(rows(block, 1000, ITEM), [pa.int32()])
    assert found.buffers()[1].address == block.data.ctypes.data


def test_values_at_odd_addresses_are_copied() -> None:
    raw = np.zeros(4001, np.uint8)
    block = FixedWidthBlock(32, 1000, raw[1:])
    found = leaf_to_arrow(rows(block, 1000, ITEM), [pa.int32()])
    assert found.buffers()[1].address % 8 == 0


STRUCT = pa.struct([("a", pa.int32())])
PAIRS = pa.list_(STRUCT, 2)


@pytest.mark.parametrize(
    ("page", "chain"),
    [
        (rows(words(2), 2, ITEM, ITEM), [pa.int32()]),
        (rows(words(2), 2, ITEM), [STRUCT, pa.int32()]),
        (rows(words(2), 2, NULL_ITEM), [STRUCT, pa.int32()]),
        (rows(NullBlock(2), 2, NULL_ITEM), [pa.list_(pa.struct([])), pa.struct([])]),
        (rows(words(2), 2, ITEM, ITEM), [pa.list_(pa.int32()), pa.int32()]),
        (rows(words(2), 2, ITEM, BOTH_LIST, rep=[1, 1]), [STRUCT, pa.int32()]),
        (rows(words(3), 2, ITEM), [pa.int32()]),
        (rows(words(2), 2, NULL_ITEM, def_=[0, 2]), [pa.int32()]),
        (rows(words(2), 2, NULL_ITEM, def_=[0]), [pa.int32()]),
        (rows(words(2), 2, ITEM, BOTH_LIST, rep=[0, 1]), [pa.list_(pa.int32()), pa.int32()]),
        (rows(words(2), 2, ITEM, BOTH_LIST, rep=[1, 2]), [pa.list_(pa.int32()), pa.int32()]),
        (rows(words(2), 1, ITEM, BOTH_LIST, rep=[1, 1]), [pa.list_(pa.int32()), pa.int32()]),
        (rows(words(2), 2, ITEM, BOTH_LIST), [pa.list_(pa.int32()), pa.int32()]),
        (rows(words(2), 2, ITEM), [pa.int64()]),
        (rows(words(2), 2, ITEM), [pa.string()]),
        (rows(words(2), 2, ITEM), [pa.null()]),
        (rows(words(2), 2, ITEM), [pa.struct([])]),
        (rows(words(2), 2, ITEM), [pa.dictionary(pa.int32(), pa.string())]),
        (rows(words(2), 2, ITEM), [pa.list_(pa.int16(), 2)]),
        (rows(strings(b"a", b""), 2, ITEM), [pa.int32()]),
        (rows(strings(b"a", b""), 2, ITEM), [pa.large_string()]),
        (rows(strings(b"a", b"", width=64), 2, ITEM), [pa.string()]),
        (rows(FixedSizeListBlock(3, 2, None, words(6)), 2, ITEM), [pa.list_(pa.int32(), 2)]),
        (rows(FixedSizeListBlock(2, 2, None, words(4)), 2, ITEM), [pa.list_(pa.int32())]),
        (rows(FixedSizeListBlock(2, 2, None, words(4)), 2, ITEM), [pa.list_(pa.int8(), 2)]),
        (rows(DictionaryBlock(words(2), words(2, 64)), 2, ITEM), [pa.string()]),
        (
            rows(DictionaryBlock(words(2), strings(b"", b"")), 2, ITEM),
            [pa.dictionary(pa.int8(), pa.string())],
        ),
        (rows(words(3), 3, ITEM, ITEM, ITEM), [PAIRS, STRUCT, pa.int32()]),
        (rows(words(3), 3, NULL_ITEM, ITEM, ITEM, def_=[0, 1, 0]), [PAIRS, STRUCT, pa.int32()]),
        (rows(words(4), 2, ITEM, ITEM, ITEM), [PAIRS, STRUCT, pa.int32()]),
        (
            rows(words(2), 2, ITEM, ITEM, ITEM, BOTH_LIST, rep=[1, 0]),
            [pa.list_(PAIRS), PAIRS, STRUCT, pa.int32()],
        ),
        (rows(ConstantBlock(2, words(1, 64)), 2, ITEM), [pa.int32()]),
        (rows(ConstantBlock(2, words(1, 32)), 2, ITEM), [pa.list_(pa.int16(), 2)]),
        (rows(ConstantBlock(2, strings(b"a")), 2, ITEM), [pa.large_string()]),
    ],
)
def test_contradictions_are_refused(page: PageRows, chain: list[pa.DataType]) -> None:
    with pytest.raises(CorruptFileError):
        leaf_to_arrow(page, chain)


def test_invalid_utf_8_is_for_the_reader_to_find() -> None:
    found = leaf_to_arrow(rows(strings(b"ok", b"\xff\xfe"), 2, ITEM), [pa.string()])
    found.validate()
    assert found[0].as_py() == "ok"
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        found.validate(full=True)
    assert found.cast(pa.binary())[1].as_py() == b"\xff\xfe"


def one_leaf(kind: pa.DataType, values: list[object]) -> pa.Array:
    return pa.array(values, kind)


A, B = pa.struct([("a", pa.int32())]), pa.struct([("b", pa.string())])
BOTH = pa.struct([("a", pa.int32()), ("b", pa.string())])


def test_fixed_size_lists_of_structs_take_every_nth_slot() -> None:
    """The example of the specification of 2.2, section 5."""
    page = rows(words(6), 6, NULL_ITEM, NULL_ITEM, NULL_ITEM, def_=[0, 0, 3, 3, 0, 2])
    chain = [PAIRS, STRUCT, pa.int32()]
    assert items_per_row(chain) == 2
    found = leaf_to_arrow(page, chain)
    found.validate(full=True)
    assert found.to_pylist() == [[{"a": 0}, {"a": 1}], None, [{"a": 4}, None]]
    outer = pa.list_(pa.struct([("p", PAIRS)]), 3)
    assert items_per_row([outer, outer.value_type, *chain]) == 6
    page = rows(words(6), 6, *[NULL_ITEM] * 5, def_=[0, 0, 4, 4, 3, 3])
    found = leaf_to_arrow(page, [outer, outer.value_type, *chain])
    assert found.to_pylist() == [[{"p": [{"a": 0}, {"a": 1}]}, None, {"p": None}]]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (words(1, 8), pa.int8(), 0),
        (FixedWidthBlock(8, 1, np.ones(1, np.uint8)), pa.bool_(), True),
        (FixedWidthBlock(24, 1, np.arange(3, dtype=np.uint8)), pa.binary(3), b"\0\1\2"),
        (strings(b"ab"), pa.string(), "ab"),
        (strings(b"", width=64), pa.large_binary(), b""),
    ],
)
def test_constants_fill_every_slot(
    value: FixedWidthBlock | VariableWidthBlock, kind: pa.DataType, expected: object
) -> None:
    block = ConstantBlock(20, value)
    found = leaf_to_arrow(rows(block, 20, ITEM), [kind])
    found.validate(full=True)
    assert found.to_pylist() == [expected] * 20
    found = leaf_to_arrow(rows(block, 20, NULL_ITEM, def_=[0, 1] * 10), [kind])
    found.validate(full=True)
    assert found.to_pylist() == [expected, None] * 10
    assert len(leaf_to_arrow(rows(ConstantBlock(0, value), 0, ITEM), [kind])) == 0


def test_leaves_become_maps() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    entry = [pa.struct([pa.field("key", pa.string(), False)]), pa.struct([("value", pa.int32())])]
    keys = one_leaf(pa.list_(entry[0]), [[{"key": "a"}, {"key": "b"}], None, []])
    values = one_leaf(pa.list_(entry[1]), [[{"value": 1}, {"value": None}], None, []])
    found = zip_leaves(kind, [keys, values], LeafCounts(kind), 3)
    found.validate(full=True)
    assert found.to_pylist() == [[("a", 1), ("b", None)], None, []]


@pytest.mark.parametrize("bad", [[None, {"key": "b"}], [{"key": None}, {"key": "b"}]])
def test_maps_with_null_keys_or_entries_are_refused(bad: list[object]) -> None:
    """Arrow would end the process."""
    kind = pa.map_(pa.string(), pa.int32())
    keys = one_leaf(pa.list_(pa.struct([("key", pa.string())])), [bad])
    members: list[object] = [each and {"value": 1} for each in bad]
    values = one_leaf(pa.list_(pa.struct([("value", pa.int32())])), [members])
    with pytest.raises(CorruptFileError, match="null"):
        zip_leaves(kind, [keys, values], LeafCounts(kind), 1)


def test_leaves_become_a_struct() -> None:
    arrays = [
        one_leaf(A, [{"a": 1}, None, {"a": None}]),
        one_leaf(B, [{"b": "x"}, None, {"b": "z"}]),
    ]
    found = zip_leaves(BOTH, arrays, LeafCounts(BOTH), 3)
    found.validate(full=True)
    assert found.to_pylist() == [{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}]


def test_leaves_become_lists_of_structs() -> None:
    kind = pa.list_(BOTH)
    arrays = [
        one_leaf(pa.list_(A), [[{"a": 1}, None], None, []]),
        one_leaf(pa.list_(B), [[{"b": "x"}, None], None, []]),
    ]
    found = zip_leaves(kind, arrays, LeafCounts(kind), 3)
    found.validate(full=True)
    assert found.to_pylist() == [[{"a": 1, "b": "x"}, None], None, []]


def test_leaves_that_no_file_holds_are_null() -> None:
    array = one_leaf(A, [{"a": 1}, None])
    found = zip_leaves(BOTH, [array, None], LeafCounts(BOTH), 2)
    assert found.to_pylist() == [{"a": 1, "b": None}, None]
    assert zip_leaves(BOTH, [None, None], LeafCounts(BOTH), 2).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (BOTH, one_leaf(A, [{"a": 1}]), one_leaf(B, [{"b": "x"}, {"b": "y"}])),
        (BOTH, one_leaf(A, [{"a": 1}, None]), one_leaf(B, [{"b": "x"}, {"b": "y"}])),
        (BOTH, one_leaf(A, [{"a": 1}, None]), one_leaf(B, [None, {"b": "y"}])),
        (
            pa.list_(BOTH),
            one_leaf(pa.list_(A), [[{"a": 1}], []]),
            one_leaf(pa.list_(B), [[], [{"b": "y"}]]),
        ),
        (pa.list_(BOTH), one_leaf(pa.list_(A), [None, []]), one_leaf(pa.list_(B), [[], None])),
        (
            pa.list_(BOTH),
            one_leaf(pa.list_(A), [[None], []]),
            one_leaf(pa.list_(B), [[{"b": "y"}], []]),
        ),
    ],
)
def test_leaves_that_disagree_are_refused(
    kind: pa.DataType, first: pa.Array, second: pa.Array
) -> None:
    with pytest.raises(CorruptFileError, match="leaves of a"):
        zip_leaves(kind, [first, second], LeafCounts(kind), 2)


def test_leaf_counts() -> None:
    kind = pa.struct([("l", pa.list_(BOTH)), ("e", pa.struct([])), ("v", pa.list_(pa.int8(), 3))])
    counts = LeafCounts(kind)
    assert counts.total == 4
    assert [child.total for child in counts.children] == [2, 1, 1]
    assert LeafCounts(pa.int8()).total == 1
