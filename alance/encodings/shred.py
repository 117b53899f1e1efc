"""Arrow to what pages hold: one leaf's values as a data block, its nesting as levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.assemble import is_list, is_struct_list, variable_bits
from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    Levels,
    NullBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.rows import select, take
from alance.encodings.spec import Layer
from alance.errors import InvalidInputError, UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels
from alance.kernels import repdef

__all__ = ["Shredded", "leaf_bytes", "prune", "shred"]


@dataclass(frozen=True, slots=True)
class Shredded:
    """Rows of one leaf: its layers inner-most first, levels, and a value for each visible item.

    Below fixed-size lists of structs every item of these counts as a row.
    Definition levels may be all zero: structs with lists below always have a null level.
    """

    num_rows: int
    layers: tuple[Layer, ...]
    levels: Levels
    values: DataBlock

    @property
    def num_items(self) -> int:
        """Items, visible or not."""
        for stream in (self.levels.rep, self.levels.def_):
            if stream is not None:
                return len(stream)
        return self.num_rows

    @property
    def has_values(self) -> bool:
        """Whether any leaf slot holds a value that is not null."""
        if isinstance(self.values, NullBlock):
            return False
        if self.levels.def_ is None:
            return self.values.num_values > 0
        return bool((self.levels.def_ == 0).any())

    @property
    def needs_levels(self) -> bool:
        """Whether any item is null, or part of a list."""
        return any(
            stream is not None and stream.any() for stream in (self.levels.rep, self.levels.def_)
        )


def shred(array: pa.Array, path: Sequence[int]) -> Shredded:
    """Take one leaf out of an array of any nesting.

    Parameters
    ----------
    array
        Rows of a top-level field; may be a slice.
    path
        Which child to follow at every struct on the way to the leaf. A struct where it ends is
        packed: a leaf of its own.

    Returns
    -------
    Shredded
        Values are views of `array` where it has no lists.
    """
    kinds: list[repdef.LayerSource] = []
    children = list(path)
    node = array
    while True:
        if isinstance(node, pa.ExtensionArray):
            node = node.storage
        validity = _validity(node)
        if is_list(node.type):
            offsets = np.asarray(node.offsets).astype(np.int64)
            kinds.append((True, len(node), offsets, validity))
            node = node.values
        elif is_struct_list(node.type):
            size = node.type.list_size
            kinds.append((False, len(node), None, validity))
            kinds = [_repeated(kind, size) for kind in kinds]
            node = node.values.slice(node.offset * size, len(node) * size)
        elif pa.types.is_struct(node.type) and children:
            kinds.append((False, len(node), None, validity))
            node = node.field(children.pop(0))
        else:
            break
    if pa.types.is_dictionary(node.type):
        node = _without_null_items(node)
        validity = _validity(node)
    if pa.types.is_null(node.type):
        validity = np.zeros((len(node) + 7) // 8, np.uint8)
    kinds.append((False, len(node), None, validity))
    numbers, rep, def_, positions = repdef.shred(kinds)
    is_empty = pa.types.is_struct(node.type) and not node.type.num_fields
    if is_empty and (rep is not None or def_ is not None):
        raise InvalidInputError(
            "structs without members can be stored only where neither they nor the structs around "
            "them are null, and outside of lists; drop the column or give them a member"
        )
    num_rows = kinds[0][1]
    values = arrow_to_block(node)
    if positions is not None:
        values = take(values, positions)
    else:
        visible = _num_visible(numbers, rep, def_, num_rows)
        if visible != values.num_values:
            values = select(values, np.zeros(1, np.int64), np.array([visible], np.int64))
    layers = tuple(Layer(number) for number in numbers.tolist())
    return Shredded(num_rows, layers, Levels(rep, def_), values)


def _repeated(kind: repdef.LayerSource, size: int) -> repdef.LayerSource:
    """Layer with each slot `size` times: the format has no level for fixed-size lists of structs.

    (Specification: 2.2, section 5.)
    """
    is_list, length, _, validity = kind
    if is_list:
        raise InvalidInputError(
            "lists of fixed-size lists of structs cannot be stored; cast the inner ones to lists"
        )
    if validity is not None:
        bits = np.unpackbits(validity, count=length, bitorder="little")
        validity = np.packbits(np.repeat(bits, size), bitorder="little")
    return False, length * size, None, validity


def _num_visible(
    numbers: Bytes,
    rep: npt.NDArray[np.uint16] | None,
    def_: npt.NDArray[np.uint16] | None,
    num_rows: int,
) -> int:
    if def_ is None:
        return num_rows if rep is None else len(rep)
    if rep is None:
        return len(def_)  # without lists nothing is hidden
    max_visible = 0
    for number in numbers.tolist():
        if Layer(number).is_list:
            break
        max_visible += Layer(number).num_levels
    return int(repdef.count_visible(def_, max_visible, np.array([len(def_)], np.int64))[0])


def _validity(array: pa.Array) -> Bytes | None:
    """Validity bitmap from bit 0, or None when all is valid."""
    if array.null_count == 0 or pa.types.is_null(array.type):
        return None
    buffer = array.buffers()[0]
    if buffer is None:
        return None
    return byte_kernels.slice_bits(np.frombuffer(buffer, np.uint8), array.offset, len(array))


def _without_null_items(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Move nulls of the dictionary's items into the indices."""
    items = array.dictionary
    if items.null_count == 0:
        return array
    valid = items.is_valid().to_numpy(zero_copy_only=False)
    mapped = pa.array(np.cumsum(valid) - 1, pa.int64(), mask=~valid)
    indices = mapped.take(array.indices).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, items.drop_null())


def arrow_to_block(array: pa.Array) -> DataBlock:
    """View the values of a leaf array as a data block; null slots hold what they hold."""
    kind, length = array.type, len(array)
    if isinstance(array, pa.ExtensionArray):
        return arrow_to_block(array.storage)
    if pa.types.is_struct(kind) and kind.num_fields:
        return _packed(array)
    if pa.types.is_null(kind) or pa.types.is_struct(kind):
        return NullBlock(length)
    if pa.types.is_dictionary(kind):
        indices = array.indices
        if indices.null_count:
            indices = indices.fill_null(0)
        codes = arrow_to_block(indices)
        assert isinstance(codes, FixedWidthBlock)
        return DictionaryBlock(codes, arrow_to_block(array.dictionary))
    if pa.types.is_fixed_size_list(kind):
        items = array.values.slice(array.offset * kind.list_size, length * kind.list_size)
        validity = _validity(items)
        if pa.types.is_null(kind.value_type):
            validity = np.zeros((len(items) + 7) // 8, np.uint8)
        return FixedSizeListBlock(kind.list_size, length, validity, arrow_to_block(items))
    width = variable_bits(kind)
    if width:
        return _variable(array, width)
    if pa.types.is_boolean(kind):
        if length == 0:
            return FixedWidthBlock(1, 0, np.empty(0, np.uint8))
        data = np.frombuffer(array.buffers()[1], np.uint8)
        return FixedWidthBlock(1, length, byte_kernels.slice_bits(data, array.offset, length))
    try:
        bits = kind.bit_width
    except ValueError as exc:
        message = f"values of type {kind} cannot be stored"
        raise UnsupportedFeatureError(message, feature=str(kind)) from exc
    if length == 0 or bits == 0:
        return FixedWidthBlock(bits, length, np.empty(0, np.uint8))
    start, stop = array.offset * bits // 8, (array.offset + length) * bits // 8
    return FixedWidthBlock(bits, length, np.frombuffer(array.buffers()[1], np.uint8)[start:stop])


def _packed(array: pa.StructArray) -> PackedStructBlock:
    """View the members of structs that are stored row by row, which has no place for nulls."""
    members = []
    for i, item in enumerate(array.type):
        member = array.field(i)
        if member.null_count and array.filter(member.is_null()).null_count < member.null_count:
            raise InvalidInputError(
                f"member {item.name!r} of a packed struct holds nulls, for which packed structs "
                "have no place; fill them, or remove 'lance-encoding:packed' from the metadata"
            )
        members.append(arrow_to_block(member))
    return PackedStructBlock(len(array), tuple(members))


def _variable(array: pa.Array, width: int) -> VariableWidthBlock:
    dtype = np.dtype(f"<i{width // 8}")
    if len(array) == 0:
        return VariableWidthBlock(np.zeros(1, dtype), np.empty(0, np.uint8))
    if array.null_count:
        array = _empty_nulls(array)
    _, places, data = array.buffers()
    offsets = np.frombuffer(places, dtype)[array.offset : array.offset + len(array) + 1]
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return VariableWidthBlock(offsets, values)


def _empty_nulls(array: pa.Array) -> pa.Array:
    """The format wants null slots of zero length; Arrow allows garbage there."""
    dtype = np.int32 if variable_bits(array.type) == 32 else np.int64
    offsets = np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array) + 1]
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    if not np.diff(offsets)[is_null].any():
        return array
    return array.fill_null(pa.scalar(b"").cast(array.type))


def prune(
    array: pa.Array, path: Sequence[int], change: Callable[[pa.Array], pa.Array] | None = None
) -> pa.Array:
    """Drop all struct members that do not lead to one leaf; values are not copied.

    The same leaf is then found by following child 0 at every struct. A map becomes the list of its
    entries, which are structs.

    Parameters
    ----------
    array, path
        As for `shred`.
    change
        Makes of the leaf what shall stand in its place, of the same length.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_struct(kind) and path:
        first, *rest = path
        child = prune(array.field(first), rest, change)
        member = kind.field(first).with_type(child.type)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([child], fields=[member], mask=mask)
    if is_struct_list(kind):
        items = prune(array.values, path, change)
        pruned = pa.list_(kind.value_field.with_type(items.type), kind.list_size)
        return pa.Array.from_buffers(
            pruned, len(array), array.buffers()[:1], array.null_count, array.offset, [items]
        )
    if is_list(kind):
        items = prune(array.values, path, change)
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        pruned = make(kind.field(0).with_type(items.type))
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(
            pruned, len(array), buffers, array.null_count, array.offset, [items]
        )
    return array if change is None else change(array)


def leaf_bytes(array: pa.Array, path: Sequence[int]) -> int:
    """Bytes that one leaf of an array has in memory, with the validity and offsets around it."""
    children, node, total = list(path), array, 0
    while True:
        if isinstance(node, pa.ExtensionArray):
            node = node.storage
        if is_list(node.type):
            offsets = node.offsets
            total += int(offsets.nbytes) + len(node) // 8
            if len(offsets) == 0:
                return total
            start, stop = offsets[0].as_py(), offsets[-1].as_py()
            node = node.values.slice(start, stop - start)
        elif is_struct_list(node.type):
            size = node.type.list_size
            total += len(node) // 8
            node = node.values.slice(node.offset * size, len(node) * size)
        elif pa.types.is_struct(node.type) and children:
            total += len(node) // 8
            node = node.field(children.pop(0))
        else:
            return total + int(node.nbytes)
