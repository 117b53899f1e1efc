"""Decoded pages to Arrow: levels become validity and offsets, leaves are zipped into structs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PageRows,
    VariableWidthBlock,
)
from alance.encodings.levels import Shape
from alance.encodings.spec import Layer
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import repdef

__all__ = ["joining", "leaf_to_arrow", "zip_leaves"]

INT32_MAX = (1 << 31) - 1
ALIGNMENT = 8
EMPTY_STRUCTS = (Layer.NULLABLE_ITEM,)
"""Layers of a page of empty structs, however many structs are around them: none is ever null."""


def leaf_to_arrow(rows: PageRows, chain: Sequence[pa.DataType]) -> pa.Array:
    """Build the Arrow array of one leaf, with the structs and lists around it.

    Parameters
    ----------
    rows
        Decoded rows.
    chain
        Arrow types from the top-level field to the leaf; a struct type on the way has one child.

    Returns
    -------
    pyarrow.Array
        `rows.num_rows` values of type `chain[0]`; offset 0.

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
    if layers == EMPTY_STRUCTS and pa.types.is_struct(chain[-1]):
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
    for (offsets, validity, length, null_count), kind in zip(
        slots[1:], reversed(chain[:-1]), strict=True
    ):
        array = _wrap(array, kind, offsets, validity, length, null_count)
    if len(array) != rows.num_rows:
        raise CorruptFileError(f"levels describe {len(array)} rows, the page {rows.num_rows}")
    return array


def is_list(kind: pa.DataType) -> bool:
    """Whether a type takes a list layer."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


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
    if pa.types.is_struct(kind):
        return pa.Array.from_buffers(kind, length, [bitmap], null_count)
    return pa.nulls(length, kind)


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
    offsets = first.buffers()[1]
    if any(not other.buffers()[1].equals(offsets) for other in others):
        raise CorruptFileError("the leaves of a list disagree about its lengths")
    items = [array if array is None else array.values for array in arrays]
    child = zip_leaves(kind.value_type, items, leaf_counts.children[0], len(first.values))
    buffers = [bitmap, offsets]
    return pa.Array.from_buffers(kind, num_rows, buffers, first.null_count, children=[child])


def _same_nulls(one: pa.Array, other: pa.Array) -> bool:
    if one.null_count != other.null_count:
        return False
    return one.null_count == 0 or bool(one.is_valid().equals(other.is_valid()))


class LeafCounts:
    """How many leaf columns a type has, for it and for each of its children."""

    __slots__ = ("children", "total")

    def __init__(self, kind: pa.DataType) -> None:
        fields: list[pa.Field] = []
        if pa.types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
        elif is_list(kind):
            fields = [kind.value_field]
        self.children: tuple[LeafCounts, ...] = tuple(LeafCounts(field.type) for field in fields)
        self.total: int = sum(child.total for child in self.children) or 1
