"""Constant: one value, or null, for every slot; the items of a fixed-size list that is all null."""

from __future__ import annotations

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, FixedWidthBlock, NullBlock
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Constant
from alance.errors import CorruptFileError

__all__ = ["ConstantEncoding"]

VALUES_MAX = 1 << 32


class ConstantEncoding(Compressive):
    """Stores no bytes at all."""

    name = "constant"
    spec_type = Constant
    transparent = True

    def num_buffers(self, spec: Constant, registry: EncodingRegistry) -> int:
        """No buffer."""
        return 0

    def decode_chunks(
        self, spec: Constant, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Repeat the value."""
        return repeat(spec, chunks.total_values)

    def decode_blocks(
        self, spec: Constant, blocks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Repeat the value."""
        return repeat(spec, blocks.total_values)

    def decode_values(
        self, spec: Constant, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Repeat the value for as many slots as the page has."""
        return repeat(spec, block.num_values)


def repeat(spec: Constant, num_values: int) -> DataBlock:
    """A block of `num_values` times the value."""
    if num_values > VALUES_MAX:
        raise CorruptFileError(f"a constant of {num_values} values cannot be real")
    if spec.value is None:
        return NullBlock(num_values)
    if len(spec.value) == 0:
        raise CorruptFileError("a constant without bytes")
    data = np.tile(np.frombuffer(spec.value, np.uint8), num_values)
    return FixedWidthBlock(len(spec.value) * 8, num_values, data)
