"""Arrow arrays of any type from a seeded generator: nulls, nesting, and the oddities Arrow allows.

Null slots hold garbage, null lists may own items, offsets need not start at 0, members of null
structs may be valid: all of it must be without effect on what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Content", "random_array", "random_table"]

Text = Literal["words", "few", "long", "skewed"]
Repeats = Literal["none", "few", "runs", "same"]

SYLLABLES = ("ka", "lo", "mi", "nü", "pre", "tion", "Š", "zz", " ", "7", "€", "-a-")
DAY_MS = 86_400_000
DAY = {"s": 86_400, "ms": DAY_MS, "us": DAY_MS * 1000, "ns": DAY_MS * 1_000_000}
DICTIONARY_ITEMS = 7
FEW_ITEMS = 5
RUN_LENGTH = 40
LONG_BYTES = 2_000
LONG_BYTES_TOTAL = 400_000
SKEWED_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class Content:
    """What the values look like."""

    nulls: float = 0.2
    """Share of nulls at every level; 0 leaves validity bitmaps out, 1 leaves no value."""
    nulls_inside: bool = True
    """Whether members, items and entries have nulls of their own too."""
    list_items: float = 2.0
    """Items of a list, on average; about a third of the lists are empty."""
    text: Text = "words"
    """Strings of a few syllables; five distinct ones; up to 2000 bytes each, less where there are
    many; or short ones and one of 40,000 bytes."""
    narrow: bool = False
    """Whether integers lie near 0, so that they can be bitpacked."""
    repeats: Repeats = "none"
    """How leaves repeat, whatever their type: at random from five values, in runs of about 40, or
    one value throughout."""


def random_table(
    schema: pa.Schema, num_rows: int, seed: int, content: Content | None = None
) -> pa.Table:
    """Make a table of one chunk; the same arguments give the same table."""
    rng = np.random.default_rng(seed)
    columns = []
    for field in schema:
        wanted = content or Content()
        if not field.nullable:
            wanted = replace(wanted, nulls=0.0)
        columns.append(random_array(field.type, num_rows, rng, wanted))
    return pa.Table.from_arrays(columns, schema=schema)


def random_array(
    kind: pa.DataType, length: int, rng: np.random.Generator, content: Content | None = None
) -> pa.Array:
    """Make an array of offset 0.

    Parameters
    ----------
    kind
        Any type that Lance 2.2 stores, or a string or binary view.
    length
        Number of values.
    rng
        Where values and nulls are drawn from.
    content
        What they look like.
    """
    content = content or Content()
    if pa.types.is_null(kind):
        return pa.nulls(length)
    if isinstance(kind, pa.BaseExtensionType):
        storage = random_array(kind.storage_type, length, rng, content)
        return pa.ExtensionArray.from_storage(kind, storage)
    if content.repeats != "none" and _is_leaf(kind):
        return _repeated(kind, length, rng, content)
    bitmap = _bitmap(length, rng, content.nulls)
    if pa.types.is_struct(kind):
        members = [_child(kind.field(i), length, rng, content) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, length, [bitmap], children=members)
    if pa.types.is_fixed_size_list(kind):
        items = _child(kind.value_field, length * kind.list_size, rng, content)
        return pa.Array.from_buffers(kind, length, [bitmap], children=[items])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _list(kind, length, rng, content, bitmap)
    if pa.types.is_dictionary(kind):
        return _dictionary(kind, length, rng, content, bitmap)
    if _is_text(kind):
        return _text(kind, length, rng, content, bitmap)
    return pa.Array.from_buffers(kind, length, [bitmap, _fixed(kind, length, rng, content)])


def _child(field: pa.Field, length: int, rng: np.random.Generator, content: Content) -> pa.Array:
    """Members, items or entries; without nulls where there shall be none."""
    has_nulls = field.nullable and content.nulls_inside
    wanted = content if has_nulls else replace(content, nulls=0.0)
    return random_array(field.type, length, rng, wanted)


def _is_leaf(kind: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(kind):
        return _is_leaf(kind.value_type)
    return not pa.types.is_nested(kind)


def _repeated(
    kind: pa.DataType, length: int, rng: np.random.Generator, content: Content
) -> pa.Array:
    """Values drawn from fewer; only whole values are null."""
    num_items = {"few": FEW_ITEMS, "runs": length // RUN_LENGTH + 1}.get(content.repeats, 1)
    items = random_array(kind, num_items, rng, replace(content, nulls=0.0, repeats="none"))
    picks = rng.integers(0, num_items, length)
    if content.repeats == "runs":
        picks.sort()
    return items.take(pa.array(picks, mask=rng.random(length) < content.nulls))


def _bitmap(length: int, rng: np.random.Generator, nulls: float) -> pa.Buffer | None:
    if nulls == 0:
        return None
    return pa.py_buffer(np.packbits(rng.random(length) >= nulls, bitorder="little"))


def _list(
    kind: pa.DataType,
    length: int,
    rng: np.random.Generator,
    content: Content,
    bitmap: pa.Buffer | None,
) -> pa.Array:
    lengths = rng.integers(0, int(2 * content.list_items) + 1, length)
    lengths[rng.random(length) < 0.2] = 0
    dtype = np.int64 if pa.types.is_large_list(kind) else np.int32
    offsets = np.concatenate(([2], 2 + np.cumsum(lengths))).astype(dtype)
    num_items = int(offsets[-1]) + 3
    if pa.types.is_map(kind):
        entries = [
            _child(field, num_items, rng, content) for field in (kind.key_field, kind.item_field)
        ]
        items = pa.StructArray.from_arrays(entries, fields=[kind.key_field, kind.item_field])
    else:
        items = _child(kind.value_field, num_items, rng, content)
    buffers = [bitmap, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, length, buffers, children=[items])


def _dictionary(
    kind: pa.DataType,
    length: int,
    rng: np.random.Generator,
    content: Content,
    bitmap: pa.Buffer | None,
) -> pa.Array:
    items = random_array(kind.value_type, DICTIONARY_ITEMS, rng, content)
    codes = rng.integers(0, DICTIONARY_ITEMS, length).astype(kind.index_type.to_pandas_dtype())
    indices = pa.Array.from_buffers(kind.index_type, length, [bitmap, pa.py_buffer(codes)])
    return pa.DictionaryArray.from_arrays(indices, items)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or kind in (pa.string_view(), pa.binary_view())
    )


def _text(
    kind: pa.DataType,
    length: int,
    rng: np.random.Generator,
    content: Content,
    bitmap: pa.Buffer | None,
) -> pa.Array:
    counts = rng.integers(0, 6, length)
    if content.text == "long":
        bytes_max = min(LONG_BYTES, LONG_BYTES_TOTAL // max(length, 1))
        counts = rng.integers(0, bytes_max // 2 + 1, length)
    elif content.text == "skewed" and length:
        counts[rng.integers(0, length)] = SKEWED_BYTES // 2
    syllables = np.array(SYLLABLES)[rng.integers(0, len(SYLLABLES), int(counts.sum()))].tolist()
    ends = np.cumsum(counts).tolist()
    values = [
        "".join(syllables[end - count : end]).encode()
        for end, count in zip(ends, counts.tolist(), strict=True)
    ]
    if content.text == "few":
        values = [values[i] for i in rng.integers(0, min(length, 5), length)] if length else []
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    sizes = np.array([len(value) for value in values], np.int64)
    offsets = np.concatenate(([3], 3 + np.cumsum(sizes))).astype(np.int64 if large else np.int32)
    data = pa.py_buffer(b"\x01\x02\x03" + b"".join(values))
    if kind in (pa.string_view(), pa.binary_view()):
        plain = pa.string() if kind == pa.string_view() else pa.binary()
        buffers = [bitmap, pa.py_buffer(offsets), data]
        return pa.Array.from_buffers(plain, length, buffers).cast(kind)
    return pa.Array.from_buffers(kind, length, [bitmap, pa.py_buffer(offsets), data])


def _fixed(kind: pa.DataType, length: int, rng: np.random.Generator, content: Content) -> pa.Buffer:
    if pa.types.is_boolean(kind):
        return pa.py_buffer(rng.bytes((length + 7) // 8))
    if pa.types.is_decimal(kind):
        return pa.py_buffer(_decimals(kind, length, rng))
    range_max = _range_max(kind)
    if range_max is not None:
        step = DAY_MS if pa.types.is_date64(kind) else 1
        values = rng.integers(0, range_max, length) * step
        return pa.py_buffer(values.astype(f"<i{kind.bit_width // 8}"))
    if content.narrow and pa.types.is_integer(kind):
        return pa.py_buffer(rng.integers(0, 50, length).astype(kind.to_pandas_dtype()))
    return pa.py_buffer(rng.bytes(length * kind.bit_width // 8))


def _range_max(kind: pa.DataType) -> int | None:
    """Bound of the values that make sense; None where every bit pattern does."""
    if pa.types.is_time(kind):
        return DAY[kind.unit]
    if pa.types.is_date(kind):
        return 30_000
    if pa.types.is_timestamp(kind):
        return DAY[kind.unit] * 30_000
    return None


def _decimals(kind: pa.DataType, length: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Two's complement in little-endian words; the lowest holds the value, the others its sign."""
    bound = 10 ** min(kind.precision, 18)
    low = rng.integers(1 - bound, bound, length)
    num_words = kind.bit_width // 64
    return np.stack([low] + [low >> 63] * (num_words - 1), axis=1).reshape(-1)
