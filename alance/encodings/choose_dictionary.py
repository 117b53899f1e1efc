"""Whether a page gets a dictionary, and how its items are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.assemble import block_to_arrow
from alance.encodings.blocks import Bytes, DataBlock, FixedWidthBlock, VariableWidthBlock
from alance.encodings.choose_fixed import encode_fixed, fixed_bytes
from alance.encodings.compressive.general import Codec, compress_block
from alance.encodings.compressive.inline_bitpacking import WIDTHS, encode_inline
from alance.encodings.compressive.out_of_line_bitpacking import encode_blocks
from alance.encodings.compressive.variable import encode_variable_block
from alance.encodings.options import ColumnOptions
from alance.encodings.registry import EncodedChunks
from alance.encodings.rows import take
from alance.encodings.spec import Flat, Spec, Variable
from alance.types import FileVersion

__all__ = ["EncodedDictionary", "EncodedValues", "choose_dictionary", "encode_items"]

VALUES_MIN = 100
ITEMS_MAX = 100_000
DIVISOR = 2
SIZE_RATIO = 0.8
WORTHWHILE = 0.9
"""Where values of fixed width have another encoding, a dictionary must bring its size below."""
INDEX_BITS = 32
SAMPLE_VALUES = 4096
SAMPLE_VALUES_MIN = 512
SAMPLE_BYTES = 512 * 1024
GROUP_VALUES = 1024


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


def choose_dictionary(
    block: DataBlock, options: ColumnOptions, version: FileVersion
) -> EncodedValues | None:
    """Indices and items when values repeat often enough; None when not."""
    if block.num_values < VALUES_MIN or not _has_form(block, version):
        return None
    assert isinstance(block, FixedWidthBlock | VariableWidthBlock)
    items_max = min(block.num_values // (options.dict_divisor or DIVISOR), ITEMS_MAX)
    guess = _guess_items(block)
    if guess > items_max:
        return None
    bytes_max = _bytes_max(block, options)
    if _guess_bytes(block, guess) > bytes_max:
        return None
    encoded = _as_arrow(block).dictionary_encode()
    if len(encoded.dictionary) > items_max:
        return None
    items = _from_arrow(encoded.dictionary, block)
    dictionary = encode_items(items, options, version)
    codes = np.frombuffer(encoded.indices.buffers()[1], np.uint8)
    indices = FixedWidthBlock(INDEX_BITS, block.num_values, codes[: block.num_values * 4])
    chunks = encode_fixed(indices, options)
    # Indices that were asked to stay plain count as if they were packed: so is the dictionary.
    index_bytes = min(chunks.num_bytes, _index_bytes(block.num_values, items.num_values))
    if index_bytes + len(dictionary.data) > bytes_max:
        return None
    return EncodedValues(chunks, dictionary)


def _has_form(block: DataBlock, version: FileVersion) -> bool:
    """Whether the format has dictionaries of such values (specification: 2.1, 13; 2.2, 4)."""
    if isinstance(block, FixedWidthBlock):
        return block.bits_per_value in ((128,) if version is FileVersion.V2_1 else (64, 128))
    return isinstance(block, VariableWidthBlock)


def _bytes_max(block: FixedWidthBlock | VariableWidthBlock, options: ColumnOptions) -> float:
    """Size that a dictionary and its indices must not exceed."""
    ratio = SIZE_RATIO if options.dict_size_ratio is None else options.dict_size_ratio
    if isinstance(block, VariableWidthBlock):
        raw_bytes = int(block.offsets[-1]) - int(block.offsets[0])
        return ratio * (raw_bytes + block.num_values * block.offsets.itemsize)
    plain_bytes = ratio * (block.num_values * block.bits_per_value // 8)
    return min(plain_bytes, WORTHWHILE * fixed_bytes(block, options))


def _index_bytes(num_values: int, num_items: int) -> int:
    """Size of bitpacked indices."""
    return num_values * (num_items - 1).bit_length() // 8


def _guess_bytes(block: FixedWidthBlock | VariableWidthBlock, num_items: int) -> int:
    """Size of so many items of average length, and of indices into them."""
    if isinstance(block, FixedWidthBlock):
        item_bytes = block.bits_per_value // 8
    else:
        raw_bytes = int(block.offsets[-1]) - int(block.offsets[0])
        item_bytes = raw_bytes // block.num_values + block.offsets.itemsize
    return num_items * item_bytes + _index_bytes(block.num_values, num_items)


def _guess_items(block: FixedWidthBlock | VariableWidthBlock) -> int:
    """At least about how many different values there are (Chao's estimate from a sample)."""
    if block.num_values <= 2 * SAMPLE_VALUES:
        return len(_as_arrow(block).unique())
    found = take(block, _spread(block))
    assert isinstance(found, FixedWidthBlock | VariableWidthBlock)
    counts = _as_arrow(found).value_counts().field("counts").to_numpy(zero_copy_only=False)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return len(counts) + once * (once - 1) // (2 * (twice + 1))


def _spread(block: FixedWidthBlock | VariableWidthBlock) -> npt.NDArray[np.int64]:
    """Positions one by one all over the block: neighbours are too often alike."""
    if isinstance(block, FixedWidthBlock):
        num_bytes = block.num_values * block.bits_per_value // 8
    else:
        num_bytes = int(block.offsets[-1]) - int(block.offsets[0])
    affordable = SAMPLE_BYTES * block.num_values // max(num_bytes, 1)
    num_samples = min(max(affordable, SAMPLE_VALUES_MIN), SAMPLE_VALUES)
    step = block.num_values // num_samples
    index = np.arange(num_samples, dtype=np.uint64)
    jump = index * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)
    return (index * np.uint64(step) + jump % np.uint64(step)).astype(np.int64)


def _arrow_type(block: FixedWidthBlock | VariableWidthBlock) -> pa.DataType:
    if isinstance(block, VariableWidthBlock):
        return pa.binary() if block.bits_per_offset == 32 else pa.large_binary()
    return pa.uint64() if block.bits_per_value == 64 else pa.binary(block.bits_per_value // 8)


def _as_arrow(block: FixedWidthBlock | VariableWidthBlock) -> pa.Array:
    return block_to_arrow(block, _arrow_type(block), None, 0)


def _from_arrow(
    array: pa.Array, like: FixedWidthBlock | VariableWidthBlock
) -> FixedWidthBlock | VariableWidthBlock:
    """Items of a dictionary as a block of the same kind as the values."""
    buffers = array.cast(_arrow_type(like)).buffers()
    data = np.empty(0, np.uint8) if buffers[-1] is None else np.frombuffer(buffers[-1], np.uint8)
    assert array.offset == 0
    if isinstance(like, FixedWidthBlock):
        num_bytes = len(array) * like.bits_per_value // 8
        return FixedWidthBlock(like.bits_per_value, len(array), data[:num_bytes])
    dtype = "<i4" if like.bits_per_offset == 32 else "<i8"
    return VariableWidthBlock(np.frombuffer(buffers[1], dtype)[: len(array) + 1], data)


def encode_items(
    items: DataBlock, options: ColumnOptions, version: FileVersion
) -> EncodedDictionary:
    """Items in block form: plain or bitpacked, in 2.2 compressed, whichever is smallest."""
    spec: Spec
    if isinstance(items, VariableWidthBlock):
        spec, data = Variable(Flat(items.bits_per_offset)), encode_variable_block(items)
    else:
        assert isinstance(items, FixedWidthBlock)
        spec, data = Flat(items.bits_per_value), items.data
    scheme = options.dict_values_compression
    candidates: list[tuple[Spec, Bytes]] = [(spec, data)]
    if items.num_values and scheme != "none":
        if isinstance(items, FixedWidthBlock) and items.bits_per_value in WIDTHS:
            candidates.append(_bitpacked(items))
        if version is not FileVersion.V2_1:
            codec = Codec(scheme or "lz4", options.dict_values_compression_level)
            candidates.append((codec.describe(spec), compress_block(codec, data)))
    spec, data = min(candidates, key=lambda candidate: len(candidate[1]))
    return EncodedDictionary(spec, data, items.num_values)


def _bitpacked(items: FixedWidthBlock) -> tuple[Spec, Bytes]:
    """Items in as many bits as the largest needs."""
    if items.num_values <= GROUP_VALUES:
        chunks = encode_inline(items)
        return chunks.spec, chunks.streams[0].data
    bits = items.bits_per_value
    width = max(int(items.data.view(f"<u{bits // 8}").max()).bit_length(), 1)
    spec, stream = encode_blocks(items.data, np.array([items.num_values], np.int64), bits, width)
    return spec, stream.data
