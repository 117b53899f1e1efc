"""Dictionary: indices beside the items that they stand for, both in the same chunk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, DictionaryBlock, FixedWidthBlock
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Dictionary
from alance.errors import CorruptFileError

__all__ = ["DictionaryEncoding"]

WIDTHS = (8, 16, 32, 64)
ITEMS_MAX = 1 << 15
"""Of a chunk, which holds no more values."""


class DictionaryEncoding(Compressive):
    """Buffers of the indices, then those of the items, as the description lists them.

    Nobody writes it, since dictionaries of whole pages are part of their layout.
    """

    name = "dictionary"
    spec_type = Dictionary
    transparent = False

    def num_buffers(self, spec: Dictionary, registry: EncodingRegistry) -> int:
        """Those of the indices and those of the items."""
        return registry.num_buffers(spec.indices) + registry.num_buffers(spec.items)

    def decode_chunks(
        self, spec: Dictionary, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Decode the dictionaries of all chunks as one, and shift the indices to match."""
        num_items = spec.num_dictionary_items
        if not 1 <= num_items <= ITEMS_MAX:
            raise CorruptFileError(f"a chunk with a dictionary of {num_items} items cannot be real")
        first = registry.num_buffers(spec.indices)
        indices = registry.decode_chunks(
            spec.indices,
            replace(chunks, offsets=chunks.offsets[:first], sizes=chunks.sizes[:first]),
        )
        if not isinstance(indices, FixedWidthBlock) or indices.bits_per_value not in WIDTHS:
            raise CorruptFileError("dictionary indices are not integers")
        codes = indices.data.view(f"<u{indices.bits_per_value // 8}")
        if int(codes.max(initial=0)) >= num_items:
            raise CorruptFileError(
                f"dictionary index {codes.max()} in a dictionary of {num_items} items"
            )
        items = registry.decode_chunks(
            spec.items,
            Chunks(
                chunks.data,
                chunks.offsets[first:],
                chunks.sizes[first:],
                np.full(chunks.num_chunks, num_items, np.int64),
            ),
        )
        shifts = np.repeat(np.arange(chunks.num_chunks) * num_items, chunks.num_values)
        positions = codes.astype(np.int64) + shifts
        return DictionaryBlock(FixedWidthBlock(64, len(positions), positions.view(np.uint8)), items)
