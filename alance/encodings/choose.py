"""Which compressive encoding a page's values get: candidates with a declared size, smallest wins.

Statistics come from one pass or a sample; the same values always give the same choice.
"""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import (
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.choose_dictionary import (
    EncodedDictionary,
    EncodedValues,
    choose_dictionary,
    encode_items,
)
from alance.encodings.choose_fixed import compress_if_smaller, encode_fixed, requested_codec
from alance.encodings.compressive.fixed_size_list import encode_fixed_size_list
from alance.encodings.compressive.fsst import encode_fsst, train_fsst
from alance.encodings.compressive.general import Codec, compress_values
from alance.encodings.compressive.packed_struct import encode_packed_struct
from alance.encodings.compressive.variable import encode_variable
from alance.encodings.options import ColumnOptions
from alance.encodings.registry import EncodedChunks
from alance.encodings.rows import expand_ranges, take
from alance.encodings.spec import Flat, Fsst, Spec, Variable
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
FSST_PAIRS_MAX = 255 * 7
"""Different pairs of neighbours in the symbols of a table."""
PAIRS_SAMPLE_BYTES = 128 * 1024
SAMPLE_VALUES = 4096
SAMPLE_BYTES = 64 * 1024
SAMPLE_PIECES = 16
GENERAL_BYTES_MIN = 32 * 1024
"""Wide values are compressed one by one only where a page has this much."""
GENERAL_LENGTH_MIN = 32 * 1024
"""The longest value that is left to FSST, unless a codec is asked for."""
TRIAL_BYTES = 1 << 20
WORTHWHILE = 0.9
"""An encoding that costs time must bring the bytes below this share."""


def choose_chunks(block: DataBlock, options: ColumnOptions, version: FileVersion) -> EncodedValues:
    """Encode the values of a mini-block page."""
    match block:
        case FixedWidthBlock() | VariableWidthBlock():
            encoded = choose_dictionary(block, options, version)
            if encoded is not None:
                return encoded
            if isinstance(block, FixedWidthBlock):
                return EncodedValues(encode_fixed(block, options))
            return EncodedValues(_variable(block, options))
        case FixedSizeListBlock():
            return EncodedValues(encode_fixed_size_list(block))
        case DictionaryBlock(indices, items):
            return EncodedValues(
                encode_fixed(indices, options), encode_items(items, options, version)
            )
        case PackedStructBlock():
            return EncodedValues(encode_packed_struct(block))
        case NullBlock() | ConstantBlock():
            raise AssertionError("pages of one value or none use the constant layout")


def _variable(block: VariableWidthBlock, options: ColumnOptions) -> EncodedChunks:
    """Encode with the codec that was asked for, with FSST for enough text, or as it is."""
    codec = requested_codec(options)
    if codec is not None:
        return compress_if_smaller(codec, encode_variable(block, options.minichunk_size))
    codes = _fsst(block, options)
    if codes is None:
        return encode_variable(block, options.minichunk_size)
    table, coded = codes
    chunks = encode_variable(coded, options.minichunk_size)
    return EncodedChunks(Fsst(table, chunks.spec), chunks.streams, chunks.num_values)


def _raw_bytes(block: VariableWidthBlock) -> int:
    """Bytes of the values, without offsets."""
    return int(block.offsets[-1]) - int(block.offsets[0])


def _longest(block: VariableWidthBlock) -> int:
    return int(np.diff(block.offsets).max(initial=0))


def _fsst(
    block: VariableWidthBlock, options: ColumnOptions
) -> tuple[bytes, VariableWidthBlock] | None:
    """Symbol table and codes: when asked for, or there is enough text and it compresses."""
    raw_bytes = _raw_bytes(block)
    if options.compression == "none" or not 0 < raw_bytes < FSST_BYTES_MAX:
        return None
    if options.compression != "fsst":
        enough = raw_bytes + block.offsets.nbytes >= FSST_BYTES_MIN
        if not enough or _longest(block) < FSST_LENGTH_MIN or not _has_patterns(block):
            return None
    table = train_fsst(block)
    if options.compression != "fsst":
        sample = _sample(block)
        # Coding a sample first costs little and spares incompressible pages the whole pass.
        if _raw_bytes(encode_fsst(table, sample)) > WORTHWHILE * _raw_bytes(sample):
            return None
    return table, encode_fsst(table, block)


def _has_patterns(block: VariableWidthBlock) -> bool:
    """Whether any symbol table could be worth its time.

    A symbol saves a byte for each pair of neighbours in it, and a table has few different pairs:
    it saves at most the share of the commonest.
    """
    data = block.data[int(block.offsets[0]) : int(block.offsets[-1])]
    if len(data) <= PAIRS_SAMPLE_BYTES:
        return True
    piece = PAIRS_SAMPLE_BYTES // SAMPLE_PIECES
    starts = np.arange(SAMPLE_PIECES) * (len(data) // SAMPLE_PIECES)
    sample = np.concatenate([data[start : start + piece] for start in starts])
    counts = np.bincount(sample[:-1].astype(np.uint16) << 8 | sample[1:], minlength=1 << 16)
    common = np.partition(counts, -FSST_PAIRS_MAX)[-FSST_PAIRS_MAX:]
    return int(common.sum()) > (1 - WORTHWHILE) * len(sample)


def _sample(block: VariableWidthBlock) -> VariableWidthBlock:
    """Values spread evenly over the block, some 64 KiB; the block itself when it is small."""
    value_bytes = max(_raw_bytes(block) // block.num_values, 1)
    num_values = min(max(SAMPLE_BYTES // value_bytes, SAMPLE_PIECES), SAMPLE_VALUES)
    if block.num_values <= 2 * num_values:
        return block
    step = block.num_values // SAMPLE_PIECES
    starts = np.arange(SAMPLE_PIECES, dtype=np.int64) * step
    found = take(block, expand_ranges(starts, starts + num_values // SAMPLE_PIECES))
    assert isinstance(found, VariableWidthBlock)
    return found


def compress_wide(
    block: VariableWidthBlock, options: ColumnOptions, version: FileVersion
) -> tuple[Spec, VariableWidthBlock]:
    """Compress variable-width values one by one, for full-zip."""
    inner = Variable(Flat(block.bits_per_offset))
    codec = _wide_codec(block, options)
    if codec is not None:
        return codec.describe(inner), compress_values(codec, block)
    codes = _fsst(block, options)
    if codes is None:
        return inner, block
    table, coded = codes
    return Fsst(table, inner), coded


def _wide_codec(block: VariableWidthBlock, options: ColumnOptions) -> Codec | None:
    """Return the codec that was asked for; else zstd for very long values that it shortens."""
    if not GENERAL_BYTES_MIN <= _raw_bytes(block) < FSST_BYTES_MAX:
        return None
    codec = requested_codec(options)
    if codec is not None and codec.scheme == "lz4":
        # The reference writes zstd here whatever is asked for, and cannot take nulls among lz4.
        return Codec("zstd")
    if codec is not None or options.compression is not None:
        return codec
    if _longest(block) <= GENERAL_LENGTH_MIN:
        return None
    codec = Codec("zstd")
    stop = max(int(np.searchsorted(block.offsets, block.offsets[0] + TRIAL_BYTES)), 2)
    trial = VariableWidthBlock(block.offsets[:stop], block.data)
    shorter = _raw_bytes(compress_values(codec, trial)) <= WORTHWHILE * _raw_bytes(trial)
    return codec if shorter else None
