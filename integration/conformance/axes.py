"""What the matrix varies: types, nesting, null densities, kinds of values, numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from alance.testing.arrays import Content

__all__ = ["LENGTHS", "NESTS", "NULLS", "PAGES", "TYPES", "VALUES", "VERSIONS", "Nest"]

VERSIONS = ("2.1", "2.2")

_TYPES = (
    pa.null(),
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("ms", "+05:30"), pa.timestamp("us", "Europe/Paris")),
    pa.timestamp("ns", "UTC"),
    *(pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")),
    *(pa.decimal128(5, 2), pa.decimal128(38, -3), pa.decimal256(50, 10)),
    *(pa.string(), pa.binary(), pa.large_string(), pa.large_binary()),
    *(pa.binary(1), pa.binary(8), pa.binary(16), pa.binary(255), pa.binary(256)),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint8(), pa.large_string()),
    pa.dictionary(pa.int32(), pa.binary()),
    pa.dictionary(pa.uint16(), pa.int64()),
    pa.dictionary(pa.int64(), pa.float32()),
    *(pa.list_(pa.float32(), 4), pa.list_(pa.bool_(), 3), pa.list_(pa.binary(3), 5)),
    *(pa.list_(pa.float64(), 31), pa.list_(pa.float64(), 32)),  # 32: 256 bytes, full-zip
    *(pa.list_(pa.list_(pa.int16(), 3), 5), pa.list_(pa.null(), 9)),
    *(pa.uuid(), pa.bool8(), pa.fixed_shape_tensor(pa.float32(), (2, 3))),
)
TYPES: Mapping[str, pa.DataType] = MappingProxyType({
    kind.extension_name if isinstance(kind, pa.BaseExtensionType) else str(kind): kind
    for kind in _TYPES
})


@dataclass(frozen=True, slots=True)
class Nest:
    """Where a leaf sits."""

    around: Callable[[pa.DataType], pa.DataType]
    versions: tuple[str, ...] = VERSIONS
    stands_alone: bool = False
    """The reference reads such a column only where the file has no other."""


def _struct(leaf: pa.DataType) -> pa.DataType:
    return pa.struct([("a", leaf), ("b", pa.int32())])


def _entries(leaf: pa.DataType) -> pa.DataType:
    return pa.struct([("x", leaf), ("y", pa.list_(pa.int16()))])


NESTS: Mapping[str, Nest] = MappingProxyType({
    "plain": Nest(lambda leaf: leaf),
    "list": Nest(pa.list_),
    "large_list": Nest(pa.large_list),
    "struct": Nest(_struct),
    "struct<struct<struct>>": Nest(
        lambda leaf: pa.struct([("p", pa.struct([("q", _struct(leaf)), ("r", pa.string())]))])
    ),
    "list<struct<list>>": Nest(
        lambda leaf: pa.list_(pa.struct([("a", leaf), ("c", pa.large_list(pa.string()))]))
    ),
    "struct<list<struct>>": Nest(
        lambda leaf: pa.struct([("l", pa.list_(pa.struct([("x", leaf)])))])
    ),
    "list<list<list>>": Nest(lambda leaf: pa.list_(pa.large_list(pa.list_(leaf)))),
    "map": Nest(lambda leaf: pa.map_(pa.string(), leaf), ("2.2",)),
    "map<map>": Nest(
        lambda leaf: pa.map_(pa.int32(), pa.map_(pa.string(), pa.list_(leaf))), ("2.2",)
    ),
    "fixed_size_list<struct>": Nest(lambda leaf: pa.list_(_struct(leaf), 3), ("2.2",), True),
    "struct<fixed_size_list<struct>>": Nest(
        lambda leaf: pa.struct([("f", pa.list_(_struct(leaf), 2))]), ("2.2",), True
    ),
})

NULLS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "0%": {"nulls": 0.0},
    "2%": {"nulls": 0.02},
    "50%": {"nulls": 0.5},
    "100%": {"nulls": 1.0},
    "30% outside": {"nulls": 0.3, "nulls_inside": False},
})

VALUES: Mapping[str, Content] = MappingProxyType({
    "random": Content(),
    "narrow": Content(narrow=True, list_items=1.0),
    "few": Content(repeats="few"),
    "runs": Content(repeats="runs", list_items=5.0),
    "same": Content(repeats="same"),
    "long": Content(text="long", list_items=4.0),
    "skewed": Content(text="skewed", list_items=0.0),
})

PAGES = "pages"
LENGTHS: Mapping[str, int] = MappingProxyType({
    **{str(n): n for n in (0, 1, 1023, 1024, 1025, 4095, 4096, 4097)},
    PAGES: 12_000,
})
"""Numbers of rows; the last is cut into several pages."""
