"""Constant: one value, or null, for every slot; the items of fixed-size lists that are all null."""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import (
    Chunks,
    ConstantBlock,
    DataBlock,
    FixedWidthBlock,
    NullBlock,
    as_bytes,
)
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Constant
from alance.errors import CorruptFileError

__all__ = ["ConstantEncoding"]

VALUE_BYTES_MAX = 1 << 16
BLOCK_VALUES_MAX = (1 << 16) - 1
"""No bytes bound the number of values."""


class ConstantEncoding(Compressive):
    """Stores the value in its description and no bytes at all."""

    name = "constant"
    spec_type = Constant
    transparent = True

    def decode_blocks(
        self, spec: Constant, blocks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Block form: the items of a dictionary, for which nothing else has to be told apart."""
        if blocks.num_chunks != 1:
            raise CorruptFileError("constant levels do not exist")
        if blocks.total_values > BLOCK_VALUES_MAX:
            raise CorruptFileError(f"{blocks.total_values} constant values cannot be real")
        value = _value(spec)
        if value is None:
            return NullBlock(blocks.total_values)
        data = np.tile(value.data, blocks.total_values)
        return FixedWidthBlock(value.bits_per_value, blocks.total_values, data)

    def decode_values(
        self, spec: Constant, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Per value: as many as the page has slots, which have no bytes of their own."""
        value = _value(spec)
        if value is None:
            return NullBlock(block.num_values)
        if not isinstance(block, FixedWidthBlock) or block.bits_per_value:
            raise CorruptFileError("values that are all one value have bytes of their own")
        return ConstantBlock(block.num_values, value)


def _value(spec: Constant) -> FixedWidthBlock | None:
    """Check the value: raw little-endian bytes of a scalar."""
    if spec.value is None:
        return None
    if not 1 <= len(spec.value) <= VALUE_BYTES_MAX:
        raise CorruptFileError(f"a constant of {len(spec.value)} bytes")
    return FixedWidthBlock(8 * len(spec.value), 1, as_bytes(spec.value))
