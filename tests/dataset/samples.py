"""Types to store, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa

UNITS = ("s", "ms", "us", "ns")

SCALARS = (
    pa.null(),
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "+05:30")),
    pa.timestamp("us", "Europe/Paris"),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.decimal128(5, 2), pa.decimal128(38, -3), pa.decimal256(50, 10)),
    *(pa.string(), pa.binary(), pa.large_string(), pa.large_binary()),
    *(pa.binary(1), pa.binary(7), pa.binary(255), pa.binary(256)),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
    pa.dictionary(pa.uint16(), pa.int64()),
    pa.dictionary(pa.int64(), pa.binary()),
)
FIXED_SIZE_LISTS = (
    pa.list_(pa.float32(), 4),
    pa.list_(pa.bool_(), 3),
    pa.list_(pa.binary(3), 5),
    pa.list_(pa.decimal128(9, 1), 2),
    pa.list_(pa.timestamp("us", "UTC"), 2),
    pa.list_(pa.list_(pa.int16(), 3), 5),
    pa.list_(pa.float64(), 31),
    pa.list_(pa.float64(), 32),  # 256 bytes: full-zip
    pa.list_(pa.list_(pa.int32(), 10), 10),
)
INNER = (
    pa.bool_(),
    pa.uint16(),
    pa.string(),
    pa.large_binary(),
    pa.null(),
    pa.binary(300),
    pa.list_(pa.int16(), 3),
    pa.list_(pa.float32(), 70),
    pa.dictionary(pa.int16(), pa.string()),
)
NESTS = MappingProxyType({
    "list": pa.list_,
    "large_list": pa.large_list,
    "struct": lambda leaf: pa.struct([("a", leaf), ("b", pa.int32())]),
    "structs": lambda leaf: pa.struct([
        ("p", pa.struct([("q", leaf), ("r", pa.struct([("s", pa.string())]))]))
    ]),
    "list<struct<list>>": lambda leaf: pa.list_(
        pa.struct([("a", leaf), ("c", pa.large_list(pa.string()))])
    ),
    "struct<list<struct>>": lambda leaf: pa.struct([("l", pa.list_(pa.struct([("x", leaf)])))]),
    "lists": lambda leaf: pa.list_(pa.list_(pa.large_list(leaf))),
})


def schema_of(kinds: tuple[pa.DataType, ...]) -> pa.Schema:
    """A schema with one column for each type."""
    return pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)])


SCHEMAS = MappingProxyType({
    "scalars": schema_of(SCALARS),
    "fixed-size lists": schema_of(FIXED_SIZE_LISTS),
    **{name: schema_of(tuple(nest(leaf) for leaf in INNER)) for name, nest in NESTS.items()},
})

NESTS_2_2: Mapping[str, Callable[[pa.DataType], pa.DataType]] = MappingProxyType({
    "map": lambda leaf: pa.map_(pa.string(), leaf),
    "map of maps": lambda leaf: pa.map_(pa.int32(), pa.map_(pa.large_binary(), leaf)),
    "list<map>": lambda leaf: pa.list_(pa.map_(pa.float64(), leaf)),
    "struct<map<struct<list>>>": lambda leaf: pa.struct([
        ("m", pa.map_(pa.string(), pa.struct([("l", pa.list_(leaf)), ("k", pa.int8())])))
    ]),
})
SCHEMAS_2_2 = MappingProxyType({
    name: schema_of(tuple(nest(leaf) for leaf in INNER)) for name, nest in NESTS_2_2.items()
})

PAIR = pa.struct([("a", pa.int32()), ("s", pa.string())])
STRUCT_LISTS = (
    pa.list_(PAIR, 1),
    pa.list_(PAIR, 3),
    pa.struct([("f", pa.list_(PAIR, 2))]),
    pa.list_(pa.struct([("f", pa.list_(PAIR, 2)), ("w", pa.binary(300))]), 3),
    pa.list_(pa.struct([("d", pa.dictionary(pa.int8(), pa.string())), ("z", pa.null())]), 2),
)

FEW = pa.schema([
    pa.field("number", pa.int64()),
    pa.field("required", pa.int32(), nullable=False),
    pa.field("flag", pa.bool_()),
    pa.field("text", pa.string()),
    pa.field("vector", pa.list_(pa.float32(), 5)),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("texts", pa.struct([("words", pa.list_(pa.string())), ("n", pa.int8())])),
])
