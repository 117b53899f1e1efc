"""Out-of-line bitpacking: one bit width for a page, named in its description."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, DataBlock, FixedWidthBlock
from alance.encodings.registry import Compressive, EncodingRegistry, Stream
from alance.encodings.spec import Flat, OutOfLineBitpacking
from alance.errors import CorruptFileError
from alance.kernels import bitpack
from alance.kernels.memory import empty

__all__ = ["OutOfLineBitpackingEncoding", "encode_blocks"]

WIDTHS = (8, 16, 32, 64)
NO_BITS_VALUES_MAX = (1 << 16) - 1
"""As many as a chunk may have levels."""


class OutOfLineBitpackingEncoding(Compressive):
    """Block form only: repetition and definition levels."""

    name = "out_of_line_bitpacking"
    spec_type = OutOfLineBitpacking
    transparent = False

    def decode_blocks(
        self, spec: OutOfLineBitpacking, blocks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Unpack all blocks straight into one buffer."""
        bits = spec.uncompressed_bits_per_value
        packed = spec.values.bits_per_value if isinstance(spec.values, Flat) else -1
        if bits not in WIDTHS or not 0 <= packed <= bits:
            raise CorruptFileError(f"bitpacking of {bits}-bit values into {packed} does not exist")
        total = blocks.total_values
        stored = int(blocks.sizes[0].sum()) * 8
        if packed and total * packed > stored + 1024 * packed * blocks.num_chunks:
            raise CorruptFileError(f"{total} bitpacked values do not fit {stored // 8} bytes")
        # A width of 0 stores nothing: the bytes at hand do not bound the number of values.
        if packed == 0 and int(blocks.num_values.max(initial=0)) > NO_BITS_VALUES_MAX:
            raise CorruptFileError(f"{total} bitpacked values of 0 bits cannot be real")
        out = empty(total * bits // 8, np.uint8)
        status = bitpack.unpack_blocks(
            blocks.data, blocks.offsets[0], blocks.sizes[0], blocks.num_values, bits, packed, out
        )
        if status != 0:
            raise CorruptFileError(f"bitpacked block {status - 1} does not fit its buffer")
        return FixedWidthBlock(bits, total, out)


def encode_blocks(
    values: Bytes, num_values: npt.NDArray[np.int64], bits: int, packed_bits: int
) -> tuple[OutOfLineBitpacking, Stream]:
    """Pack blocks of values, which lie one after the other, in one width."""
    data, sizes = bitpack.pack_blocks(values, num_values, bits, packed_bits)
    return OutOfLineBitpacking(bits, Flat(packed_bits)), Stream.contiguous(data, sizes)
