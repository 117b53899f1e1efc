"""Which compressive encoding a page's values get: candidates with a declared size, smallest wins.

Statistics come from one pass or a sample; the same values always give the same choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alance.encodings.assemble import block_to_arrow
from alance.encodings.blocks import (
    Bytes,
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.compressive.fixed_size_list import encode_fixed_size_list
from alance.encodings.compressive.flat import encode_flat
from alance.encodings.compressive.fsst import encode_fsst, train_fsst
from alance.encodings.compressive.inline_bitpacking import WIDTHS, encode_inline, inline_bytes
from alance.encodings.compressive.packed_struct import encode_packed_struct
from alance.encodings.compressive.variable import encode_variable, encode_variable_block
from alance.encodings.options import ColumnOptions
from alance.encodings.registry import EncodedChunks
from alance.encodings.rows import expand_ranges, take
from alance.encodings.spec import Flat, Fsst, Spec, Variable
from alance.kernels import bitpack
from alance.types import FileVersion

__all__ = [
    "EncodedDictionary",
    "EncodedValues",
    "choose_chunks",
    "choose_dictionary",
    "compress_wide",
]

FSST_BYTES_MIN = 32 * 1024
FSST_BYTES_MAX = 1 << 30
"""Codes may take twice the bytes, which 32-bit offsets must still be able to express."""
FSST_LENGTH_MIN = 5
DICTIONARY_VALUES_MIN = 100
DICTIONARY_ITEMS_MAX = 100_000
SAMPLE_VALUES = 4096
WORTHWHILE = 0.9
"""An encoding that costs time must bring the bytes below this share."""


@dataclass(frozen=True, slots=True)
class EncodedDictionary:
    """Items that a page's indices point to, in block form."""

    spec: Spec
    data: Bytes
    num_items: int


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """Values as chunks, and their dictionary when the chunks hold indices."""

    chunks: EncodedChunks
    dictionary: EncodedDictionary | None = None


def choose_chunks(block: DataBlock, options: ColumnOptions, version: FileVersion) -> EncodedValues:
    """Encode the values of a mini-block page."""
    match block:
        case FixedWidthBlock():
            return EncodedValues(_fixed(block))
        case VariableWidthBlock():
            return _variable(block, options, version)
        case FixedSizeListBlock():
            return EncodedValues(encode_fixed_size_list(block))
        case DictionaryBlock(indices, items):
            return EncodedValues(_fixed(indices), _encode_items(items))
        case PackedStructBlock():
            return EncodedValues(encode_packed_struct(block))
        case NullBlock() | ConstantBlock():
            raise AssertionError("pages of one value or none use the constant layout")


def _fixed(block: FixedWidthBlock) -> EncodedChunks:
    """Bitpacking where it saves anything, else flat."""
    bits, num_values = block.bits_per_value, block.num_values
    if bits in WIDTHS:
        widths = bitpack.group_widths(block.data, num_values, bits)
        if inline_bytes(widths, bits) < WORTHWHILE * (num_values * bits // 8):
            return encode_inline(block)
    return encode_flat(block)


def _variable(
    block: VariableWidthBlock, options: ColumnOptions, version: FileVersion
) -> EncodedValues:
    """Dictionary for few distinct values, FSST for enough text, else as it is."""
    encoded = choose_dictionary(block, options, version)
    if encoded is not None:
        return encoded
    raw_bytes = _raw_bytes(block)
    codes = _fsst(block, raw_bytes)
    if codes is None:
        return EncodedValues(encode_variable(block))
    table, coded = codes
    chunks = encode_variable(coded)
    spec = Fsst(table, chunks.spec)
    return EncodedValues(EncodedChunks(spec, chunks.streams, chunks.num_values))


def _raw_bytes(block: VariableWidthBlock) -> int:
    """Bytes of the values, without offsets."""
    return int(block.offsets[-1]) - int(block.offsets[0])


def _fsst(block: VariableWidthBlock, raw_bytes: int) -> tuple[bytes, VariableWidthBlock] | None:
    """Symbol table and codes, when there is enough text and it compresses."""
    if not FSST_BYTES_MIN <= raw_bytes + block.offsets.nbytes < FSST_BYTES_MAX:
        return None
    if int(np.diff(block.offsets).max(initial=0)) < FSST_LENGTH_MIN:
        return None
    table = train_fsst(block)
    sample = _sample(block)
    # Coding a sample first costs little and spares incompressible pages the whole pass.
    if _raw_bytes(encode_fsst(table, sample)) > WORTHWHILE * _raw_bytes(sample):
        return None
    return table, encode_fsst(table, block)


def _sample(block: VariableWidthBlock) -> VariableWidthBlock:
    """Values spread evenly over the block; the block itself when it is small."""
    if block.num_values <= 2 * SAMPLE_VALUES:
        return block
    step = block.num_values // 16
    starts = np.arange(16, dtype=np.int64) * step
    found = take(block, expand_ranges(starts, starts + SAMPLE_VALUES // 16))
    assert isinstance(found, VariableWidthBlock)
    return found


def choose_dictionary(
    block: DataBlock, options: ColumnOptions, version: FileVersion
) -> EncodedValues | None:
    """Indices and items when variable-width values repeat often enough; None when not."""
    num_values = block.num_values
    if not isinstance(block, VariableWidthBlock) or num_values < DICTIONARY_VALUES_MIN:
        return None
    sample = _sample(block)
    if len(_as_arrow(sample).unique()) * 2 > sample.num_values:
        return None
    encoded = _as_arrow(block).dictionary_encode()
    num_items = len(encoded.dictionary)
    if num_items > DICTIONARY_ITEMS_MAX or num_items * 2 > num_values:
        return None
    items = encoded.dictionary.cast(_arrow_type(block))
    dictionary = _encode_items(_from_arrow(items))
    codes = np.frombuffer(encoded.indices.buffers()[1], np.uint8)[: num_values * 4]
    chunks = _fixed(FixedWidthBlock(32, num_values, codes))
    plain_bytes = _raw_bytes(block) + num_values * block.offsets.itemsize
    if chunks.num_bytes + len(dictionary.data) > 0.8 * plain_bytes:
        return None
    return EncodedValues(chunks, dictionary)


def _arrow_type(block: VariableWidthBlock) -> pa.DataType:
    return pa.binary() if block.bits_per_offset == 32 else pa.large_binary()


def _as_arrow(block: VariableWidthBlock) -> pa.Array:
    return block_to_arrow(block, _arrow_type(block), None, 0)


def _from_arrow(array: pa.Array) -> VariableWidthBlock:
    dtype = "<i4" if pa.types.is_binary(array.type) else "<i8"
    _, places, data = array.buffers()
    offsets = np.frombuffer(places, dtype)[array.offset : array.offset + len(array) + 1]
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return VariableWidthBlock(offsets, values)


def _encode_items(items: DataBlock) -> EncodedDictionary:
    """Items in block form."""
    if isinstance(items, VariableWidthBlock):
        spec = Variable(Flat(items.bits_per_offset))
        return EncodedDictionary(spec, encode_variable_block(items), items.num_values)
    assert isinstance(items, FixedWidthBlock)
    return EncodedDictionary(Flat(items.bits_per_value), items.data, items.num_values)


def compress_wide(
    block: VariableWidthBlock, options: ColumnOptions, version: FileVersion
) -> tuple[Spec, VariableWidthBlock]:
    """Compress variable-width values one by one, for full-zip."""
    inner = Variable(Flat(block.bits_per_offset))
    codes = _fsst(block, _raw_bytes(block))
    if codes is None:
        return inner, block
    table, coded = codes
    return Fsst(table, inner), coded
