"""Decoded pages to Arrow: levels become validity and offsets, leaves are zipped into structs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.blocks import (
    Bytes,
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PackedStructBlock,
    PageRows,
    VariableWidthBlock,
)
from alance.encodings.levels import Shape
from alance.encodings.spec import Layer
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import repdef
from alance.kernels.memory import empty

__all__ = ["LeafCounts", "items_per_row", "joining", "leaf_to_arrow", "zip_leaves"]

INT32_MAX = (1 << 31) - 1
ALIGNMENT = 8
EMPTY_STRUCTS = (Layer.NULLABLE_ITEM,)
"""Layers of a page of empty structs, however many structs are around them: none is ever null."""


def leaf_to_arrow(rows: PageRows, chain: Sequence[pa.DataType]) -> pa.Array:
    """Build the Arrow array of one leaf, with the structs and lists around it.

    Parameters
    ----------
    rows
        Decoded rows. Below fixed-size lists of structs each counts `items_per_row` times.
    chain
        Arrow types from the top-level field to the leaf; a struct type on the way has one child,
        and a map is the list of its entries.

    Returns
    -------
    pyarrow.Array
        Values of type `chain[0]`; offset 0.

    Raises
    ------
    CorruptFileError
        Levels, values and types contradict one another.

    Notes
    -----
    That strings are valid UTF-8 is not checked: it would halve the speed of reading text beyond
    ASCII. `pyarrow.Array.validate(full=True)` does it, for files from writers one does not trust.
    """
    layers = rows.layers
    if layers == EMPTY_STRUCTS and _is_empty_struct(chain[-1]):
        layers = (Layer.ALL_VALID_ITEM,) * len(chain)
    if len(layers) != len(chain):
        raise CorruptFileError(
            f"a page has {len(layers)} nesting layers where its column has {len(chain)}"
        )
    for layer, kind in zip(layers, reversed(chain), strict=True):
        if layer.is_list != is_list(kind):
            raise CorruptFileError(f"a page says {layer.name} where its column has {kind}")
        if layer.is_list and rows.levels.rep is None:
            raise CorruptFileError("a page of lists without repetition levels")
    levels = rows.levels
    if levels.rep is None and levels.def_ is None:
        slots: list[Any] = [(None, None, rows.num_rows, 0)] * len(chain)
    else:
        some = levels.def_ if levels.rep is None else levels.rep
        assert some is not None
        numbers = Shape.of(layers).layer_numbers
        slots, status = repdef.unravel(levels.rep, levels.def_, numbers, len(some))
        if status != 0:
            raise CorruptFileError("repetition and definition levels contradict their layers")
    _, validity, length, null_count = slots[0]
    if length != rows.values.num_values:
        raise CorruptFileError(f"{length} leaf slots for {rows.values.num_values} values")
    array = block_to_arrow(rows.values, chain[-1], validity, null_count)
    stride = 1
    for (offsets, validity, length, null_count), kind in zip(
        slots[1:], reversed(chain[:-1]), strict=True
    ):
        stride *= kind.list_size if is_struct_list(kind) else 1
        if stride > 1:
            if offsets is not None or length % stride:
                raise CorruptFileError(f"{length} slots for lists of {stride} structs")
            length, validity, null_count = _every(validity, length, stride)
        array = _wrap(array, kind, offsets, validity, length, null_count)
    if len(array) * stride != rows.num_rows:
        raise CorruptFileError(f"levels describe {len(array)} rows, the page {rows.num_rows}")
    return array


def items_per_row(chain: Sequence[pa.DataType]) -> int:
    """How often a page counts each row: once for every item of fixed-size lists of structs.

    (Specification: 2.2, section 5.)
    """
    return math.prod(kind.list_size for kind in chain if is_struct_list(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a type takes a list layer."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def is_struct_list(kind: pa.DataType) -> bool:
    """Whether a type is a fixed-size list with a layer of its own; of other items, it is a leaf."""
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))


def _every(validity: Bytes | None, length: int, stride: int) -> tuple[int, Bytes | None, int]:
    """Length, validity and nulls of slots that are each repeated `stride` times."""
    if validity is None:
        return length // stride, None, 0
    bits = np.unpackbits(validity, count=length, bitorder="little")[::stride]
    nulls = len(bits) - int(np.count_nonzero(bits))
    return len(bits), np.packbits(bits, bitorder="little") if nulls else None, nulls


def _wrap(
    child: pa.Array,
    kind: pa.DataType,
    offsets: npt.NDArray[np.int64] | None,
    validity: Bytes | None,
    length: int,
    null_count: int,
) -> pa.Array:
    bitmap = None if validity is None else pa.py_buffer(validity)
    if offsets is None:
        return pa.Array.from_buffers(kind, length, [bitmap], null_count, children=[child])
    if pa.types.is_large_list(kind):
        places = pa.py_buffer(offsets)
    else:
        if len(offsets) and offsets[-1] > INT32_MAX:
            raise UnsupportedFeatureError(
                "more than 2^31 list items in one read; ask for fewer rows at once",
                feature="32-bit list offsets",
            )
        places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(kind, length, [bitmap, places], null_count, children=[child])


def block_to_arrow(
    block: DataBlock, kind: pa.DataType, validity: Bytes | None, null_count: int
) -> pa.Array:
    """Wrap a data block as an Arrow array of a leaf type, without a copy where it is aligned."""
    length = block.num_values
    bitmap = None if validity is None else pa.py_buffer(validity)
    match block:
        case NullBlock():
            return _nulls(kind, length, bitmap, null_count)
        case FixedWidthBlock(bits, _, data):
            if bits == 8 and pa.types.is_boolean(kind):
                # Full-zip knows whole bytes only.
                bits, data = 1, np.packbits(data != 0, bitorder="little")
            if not _is_fixed(kind) or kind.bit_width != bits:
                raise CorruptFileError(f"values of {bits} bits in a column of {kind}")
            values = pa.py_buffer(_aligned(data))
            return pa.Array.from_buffers(kind, length, [bitmap, values], null_count)
        case VariableWidthBlock(offsets, data):
            if variable_bits(kind) != block.bits_per_offset:
                raise CorruptFileError(
                    f"values with {block.bits_per_offset}-bit offsets in a column of {kind}"
                )
            buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
            return pa.Array.from_buffers(kind, length, buffers, null_count)
        case FixedSizeListBlock(dimension, _, item_validity, items):
            if not pa.types.is_fixed_size_list(kind) or kind.list_size != dimension:
                raise CorruptFileError(f"lists of {dimension} items in a column of {kind}")
            child = block_to_arrow(items, kind.value_type, item_validity, -1)
            return pa.Array.from_buffers(kind, length, [bitmap], null_count, children=[child])
        case DictionaryBlock(indices, items):
            return _dictionary(indices, items, kind, bitmap, null_count)
        case ConstantBlock(_, value):
            return block_to_arrow(_repeat(value, length, validity), kind, validity, null_count)
        case PackedStructBlock(_, members):
            if not pa.types.is_struct(kind) or kind.num_fields != len(members):
                raise CorruptFileError(f"structs of {len(members)} members in a column of {kind}")
            children = [
                block_to_arrow(member, kind.field(i).type, None, 0)
                for i, member in enumerate(members)
            ]
            return pa.Array.from_buffers(kind, length, [bitmap], null_count, children=children)


def _repeat(
    value: FixedWidthBlock | VariableWidthBlock, length: int, validity: Bytes | None
) -> FixedWidthBlock | VariableWidthBlock:
    """Copy one value into every slot, or every valid one where it takes more than fixed bytes."""
    if isinstance(value, FixedWidthBlock):
        return FixedWidthBlock(value.bits_per_value, length, _copies(value.data, length))
    num_valid, lengths = length, np.ones(length, np.int64)
    if validity is not None:
        lengths = np.unpackbits(validity, count=length, bitorder="little").astype(np.int64)
        num_valid = int(np.count_nonzero(lengths))
    if len(value.data) * num_valid > INT32_MAX and value.bits_per_offset == 32:
        raise UnsupportedFeatureError(
            "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
            feature="32-bit offsets",
        )
    offsets = np.zeros(length + 1, value.offsets.dtype)
    np.cumsum(lengths * len(value.data), out=offsets[1:])
    return VariableWidthBlock(offsets, _copies(value.data, num_valid))


def _copies(value: Bytes, count: int) -> Bytes:
    """Bytes of a value, `count` times."""
    width = len(value)
    out: Bytes = empty(width * count, np.uint8)
    if len(out):
        kind = f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}"
        out.view(kind)[:] = value.view(kind)[0]
    return out


def _dictionary(
    indices: FixedWidthBlock,
    items: DataBlock,
    kind: pa.DataType,
    bitmap: pa.Buffer | None,
    null_count: int,
) -> pa.Array:
    encoded = pa.types.is_dictionary(kind)
    values = block_to_arrow(items, kind.value_type if encoded else kind, None, 0)
    index_kind = kind.index_type if encoded else _index_type(indices.bits_per_value)
    if index_kind.bit_width != indices.bits_per_value:
        raise CorruptFileError(f"indices of {indices.bits_per_value} bits in a column of {kind}")
    if encoded and _signed_max(index_kind) < len(values) and indices.num_values:
        largest = int(indices.data.view(f"<u{indices.bits_per_value // 8}").max())
        if largest > _signed_max(index_kind):
            raise CorruptFileError(f"dictionary index {largest} in a column of {kind}")
    codes = pa.Array.from_buffers(
        index_kind,
        indices.num_values,
        [bitmap, pa.py_buffer(_aligned(indices.data))],
        null_count,
    )
    if encoded:
        return pa.DictionaryArray.from_arrays(codes, values, safe=False)
    _check_taken_bytes(indices, items)
    return values.take(codes)


def _signed_max(kind: pa.DataType) -> int:
    """Largest index of an index type."""
    sign = 1 if pa.types.is_signed_integer(kind) else 0
    return (1 << (int(kind.bit_width) - sign)) - 1


def _check_taken_bytes(indices: FixedWidthBlock, items: DataBlock) -> None:
    """Refuse what would not fit: few indices to one long item may stand for any number of bytes."""
    if not isinstance(items, VariableWidthBlock) or items.num_values == 0:
        return
    lengths = np.diff(items.offsets)
    if int(lengths.max()) * indices.num_values <= INT32_MAX:
        return
    codes = indices.data.view(f"<u{indices.bits_per_value // 8}")
    if int(lengths[codes].sum(dtype=np.int64)) > INT32_MAX:
        raise UnsupportedFeatureError(
            "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
            feature="32-bit offsets",
        )


def _index_type(bits: int) -> pa.DataType:
    return {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[bits]


def _nulls(kind: pa.DataType, length: int, bitmap: pa.Buffer | None, null_count: int) -> pa.Array:
    """Values without bytes: nulls, or empty structs."""
    if _is_empty_struct(kind):
        return pa.Array.from_buffers(kind, length, [bitmap], null_count)
    return pa.nulls(length, kind)


def _is_empty_struct(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and kind.num_fields == 0


def _is_fixed(kind: pa.DataType) -> bool:
    nested = pa.types.is_nested(kind) or pa.types.is_dictionary(kind)
    return not nested and variable_bits(kind) == 0 and not pa.types.is_null(kind)


def variable_bits(kind: pa.DataType) -> int:
    """Offset width of a string or binary type; 0 for all others."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 32
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return 64
    return 0


def _aligned(data: Bytes) -> Bytes:
    """Arrow asks for aligned buffers; bytes cut out of a file may lie anywhere."""
    return data if data.ctypes.data % ALIGNMENT == 0 else data.copy()


@contextmanager
def joining() -> Iterator[None]:
    """Around what makes one array of several: say so when their type cannot hold it all.

    Raises
    ------
    UnsupportedFeatureError
        Strings of 2 GiB or more; dictionaries of more items than their indices can tell apart.
    """
    try:
        yield
    except pa.ArrowInvalid as exc:
        raise UnsupportedFeatureError(
            f"the rows read do not fit one Arrow array ({exc}); ask for fewer rows at once",
            feature="large arrays",
        ) from exc


def zip_leaves(
    kind: pa.DataType, arrays: Sequence[pa.Array | None], leaf_counts: LeafCounts, num_rows: int
) -> pa.Array:
    """Join arrays that each hold one leaf of a type into one array of the whole type.

    Parameters
    ----------
    kind
        The whole type.
    arrays
        One for each leaf, in order, offset 0; all describe the same rows. None for a leaf that no
        file holds: it reads as null.
    leaf_counts
        How many leaves each struct child has; see `LeafCounts`.
    num_rows
        Length of the result.

    Raises
    ------
    CorruptFileError
        Two leaves disagree about the structs or lists around them.
    """
    first, *others = [array for array in arrays if array is not None] or [None]
    if first is None:
        return pa.nulls(num_rows, kind)
    if len(arrays) == 1:
        return first
    if any(len(array) != num_rows for array in (first, *others)):
        raise CorruptFileError("the leaves of a struct have different numbers of values")
    if any(not _same_nulls(array, first) for array in others):
        raise CorruptFileError("the leaves of a struct disagree about its nulls")
    bitmap = first.buffers()[0]
    if pa.types.is_struct(kind):
        children, at = [], 0
        for i, count in enumerate(leaf_counts.children):
            part = [a if a is None else a.field(0) for a in arrays[at : at + count.total]]
            children.append(zip_leaves(kind.field(i).type, part, count, num_rows))
            at += count.total
        return pa.Array.from_buffers(kind, num_rows, [bitmap], first.null_count, children=children)
    if is_struct_list(kind):
        items = [array if array is None else array.values for array in arrays]
        counts, length = leaf_counts.children[0], num_rows * kind.list_size
        child = zip_leaves(kind.value_type, items, counts, length)
        return pa.Array.from_buffers(kind, num_rows, [bitmap], first.null_count, children=[child])
    offsets = first.buffers()[1]
    if any(not other.buffers()[1].equals(offsets) for other in others):
        raise CorruptFileError("the leaves of a list disagree about its lengths")
    items = [array if array is None else array.values for array in arrays]
    child = zip_leaves(_item_type(kind), items, leaf_counts.children[0], len(first.values))
    if pa.types.is_map(kind) and (child.null_count or child.field(0).null_count):
        # Arrow ends the process over such a map.
        raise CorruptFileError("a map with entries or keys that are null")
    buffers = [bitmap, offsets]
    return pa.Array.from_buffers(kind, num_rows, buffers, first.null_count, children=[child])


def _item_type(kind: pa.DataType) -> pa.DataType:
    """Type of the items of a list, or of the entries of a map."""
    return kind.field(0).type if pa.types.is_map(kind) else kind.value_type


def _same_nulls(one: pa.Array, other: pa.Array) -> bool:
    if one.null_count != other.null_count:
        return False
    return one.null_count == 0 or bool(one.is_valid().equals(other.is_valid()))


def _is_packed(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    return b"lance-encoding:packed" in metadata or metadata.get(b"packed") == b"true"


class LeafCounts:
    """How many leaf columns a type has, for it and for each of its children."""

    __slots__ = ("children", "total")

    def __init__(self, kind: pa.DataType, *, is_packed: bool = False) -> None:
        fields: list[pa.Field] = []
        if pa.types.is_struct(kind) and not is_packed:
            fields = [kind.field(i) for i in range(kind.num_fields)]
        elif is_list(kind) or is_struct_list(kind):
            fields = [pa.field("item", _item_type(kind))]
        self.children: tuple[LeafCounts, ...] = tuple(
            LeafCounts(field.type, is_packed=_is_packed(field)) for field in fields
        )
        self.total: int = sum(child.total for child in self.children) or 1
