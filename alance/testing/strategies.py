"""Hypothesis strategies: Arrow types that Lance stores, and arrays and tables of them.

What is drawn is small: a type, sizes, a seed. Values come from the seed, so that an array of
thousands of nested values costs hypothesis no more than one of three, and shrinks as well.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from alance.testing.arrays import Content, random_array

__all__ = [
    "arrays",
    "contents",
    "data_types",
    "leaf_types",
    "lengths",
    "row_lists",
    "struct_lists",
    "tables",
]

FIXED = (
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
)
TEXT = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
EDGES = (0, 1, 2, 7, 8, 100, 1023, 1024, 1025)


def fixed_types() -> st.SearchStrategy[pa.DataType]:
    """Types of one value of fixed width."""
    units = st.sampled_from(("s", "ms", "us", "ns"))
    zones = st.sampled_from((None, "UTC", "+05:30", "Europe/Paris"))
    return st.one_of(
        st.sampled_from(FIXED),
        st.builds(pa.timestamp, units, zones),
        st.builds(pa.decimal128, st.integers(1, 38), st.integers(-3, 9)),
        st.builds(pa.decimal256, st.integers(1, 76), st.integers(-3, 9)),
        st.builds(pa.binary, st.sampled_from((1, 2, 7, 16, 255, 256))),
    )


@st.composite
def leaf_types(draw: st.DrawFn) -> pa.DataType:
    """Types that take one column: scalars, dictionaries, fixed-size lists, the null type."""
    lists = st.builds(pa.list_, fixed_types(), st.integers(1, 12))
    lists_of_lists = st.builds(pa.list_, lists, st.integers(1, 12))
    dictionaries = st.builds(
        pa.dictionary,
        st.sampled_from((pa.int8(), pa.uint16(), pa.int32(), pa.int64())),
        st.sampled_from((*TEXT, pa.int64(), pa.float32())),
    )
    kinds = (fixed_types(), st.sampled_from(TEXT), lists, lists_of_lists, dictionaries)
    return draw(st.one_of(*kinds, st.just(pa.null())))


def data_types(max_leaves: int = 4, *, maps: bool = False) -> st.SearchStrategy[pa.DataType]:
    """Any type, with lists and structs around up to `max_leaves` leaves; 2.2 also has maps."""

    def extend(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        members = st.lists(inner, min_size=1, max_size=3)
        structs = members.map(lambda kinds: pa.struct([(f"m{i}", k) for i, k in enumerate(kinds)]))
        lists = (st.builds(pa.list_, inner), st.builds(pa.large_list, inner))
        if maps:
            keys = st.sampled_from((pa.string(), pa.int16(), pa.float64(), pa.bool_()))
            return st.one_of(*lists, structs, st.builds(pa.map_, keys, inner))
        return st.one_of(*lists, structs)

    return st.recursive(leaf_types(), extend, max_leaves=max_leaves)


@st.composite
def struct_lists(draw: st.DrawFn) -> pa.DataType:
    """Fixed-size lists of structs, which 2.2 stores, also of one another and in structs."""
    members = draw(st.lists(data_types(2, maps=True), min_size=1, max_size=2))
    kind = pa.struct([(f"m{i}", member) for i, member in enumerate(members)])
    for _ in range(draw(st.integers(1, 2))):
        kind = pa.struct([("l", pa.list_(kind, draw(st.integers(1, 3))))])
    return draw(st.sampled_from((kind, kind.field(0).type)))


def contents() -> st.SearchStrategy[Content]:
    """Shares of nulls, list lengths, kinds of strings."""
    return st.builds(
        Content,
        nulls=st.sampled_from((0.0, 0.02, 0.5, 1.0)),
        list_items=st.sampled_from((0.0, 1.0, 5.0)),
        text=st.sampled_from(("words", "few", "long", "skewed")),
        narrow=st.booleans(),
    )


def lengths(max_length: int = 1025) -> st.SearchStrategy[int]:
    """Numbers of rows: the edges of chunks, or any."""
    edges = [edge for edge in EDGES if edge <= max_length]
    return st.one_of(st.sampled_from(edges), st.integers(0, min(max_length, 50)))


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType, length: int, *, sliced: bool = True) -> pa.Array:
    """Arrays of a type and length; with `sliced`, some are cut out of longer ones."""
    content, seed = draw(contents()), draw(st.integers(0, 2**32 - 1))
    before, after = draw(st.tuples(*[st.sampled_from((0, 1, 9))] * 2)) if sliced else (0, 0)
    rng = np.random.default_rng(seed)
    return random_array(kind, before + length + after, rng, content).slice(before, length)


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    max_columns: int = 2,
    max_length: int = 1025,
    sliced: bool = True,
    maps: bool = False,
) -> pa.Table:
    """Tables of one to three chunks; with `sliced`, chunks may be cut out of longer ones."""
    kinds = draw(st.lists(data_types(maps=maps), min_size=1, max_size=max_columns))
    sizes = draw(st.lists(lengths(max_length), min_size=1, max_size=3 if sliced else 1))
    schema = pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)])
    columns = [[draw(arrays(kind, size, sliced=sliced)) for size in sizes] for kind in kinds]
    chunked = [pa.chunked_array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(chunked, schema=schema)


def row_lists(num_rows: int) -> st.SearchStrategy[list[int]]:
    """Positions to take from a table: any order, with duplicates; empty for an empty table."""
    if num_rows == 0:
        return st.just([])
    return st.lists(st.integers(0, num_rows - 1), max_size=20)
