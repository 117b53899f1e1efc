"""Packed struct: fixed-width members side by side, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alance.encodings.blocks import Chunks, DataBlock, FixedWidthBlock, PackedStructBlock
from alance.encodings.compressive.flat import encode_flat
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry
from alance.encodings.spec import PackedStruct
from alance.errors import CorruptFileError

__all__ = ["PackedStructEncoding", "encode_packed_struct", "row_type"]


class PackedStructEncoding(Compressive):
    """The rows are values of one width, whatever encoding holds them; members are whole bytes."""

    name = "packed_struct"
    spec_type = PackedStruct
    transparent = True

    def num_buffers(self, spec: PackedStruct, registry: EncodingRegistry) -> int:
        """As many as the encoding of the rows has."""
        return registry.num_buffers(spec.values)

    def decode_chunks(
        self, spec: PackedStruct, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        """Decode the rows of all chunks, then take them apart."""
        return _unpack(spec, registry.decode_chunks(spec.values, chunks))

    def decode_values(
        self, spec: PackedStruct, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Take the rows apart."""
        return _unpack(spec, registry.decode_values(spec.values, block))


def row_type(widths: Sequence[int]) -> np.dtype[np.void]:
    """Type of a row whose members have these bytes, one after the other."""
    # Integers are copied as such, several times as fast as bytes without a type.
    kinds = [f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}" for width in widths]
    return np.dtype([(f"f{i}", kind) for i, kind in enumerate(kinds)])


def _unpack(spec: PackedStruct, rows: DataBlock) -> PackedStructBlock:
    widths = [bits // 8 for bits in spec.bits_per_value]
    if not widths or any(bits < 8 or bits % 8 for bits in spec.bits_per_value):
        raise CorruptFileError(
            f"members of {list(spec.bits_per_value)} bits cannot be packed: they take whole bytes"
        )
    if not isinstance(rows, FixedWidthBlock) or rows.bits_per_value != 8 * sum(widths):
        raise CorruptFileError("the rows of a packed struct are not as wide as its members")
    table = rows.data[: rows.num_values * sum(widths)].view(row_type(widths))
    members = tuple(
        FixedWidthBlock(
            8 * width, rows.num_values, np.ascontiguousarray(table[name]).view(np.uint8)
        )
        for name, width in zip(table.dtype.names or (), widths, strict=True)
    )
    return PackedStructBlock(rows.num_values, members)


def encode_packed_struct(block: PackedStructBlock) -> EncodedChunks:
    """Put members of whole bytes side by side, uncompressed."""
    members = [member for member in block.members if isinstance(member, FixedWidthBlock)]
    assert len(members) == len(block.members), "only fixed-width members are packed"
    bits = tuple(member.bits_per_value for member in members)
    kind = row_type([each // 8 for each in bits])
    table = np.empty(block.num_values, kind)
    for name, member in zip(kind.names or (), members, strict=True):
        table[name] = member.data[: block.num_values * member.bits_per_value // 8].view(kind[name])
    rows = FixedWidthBlock(sum(bits), block.num_values, table.view(np.uint8))
    chunks = encode_flat(rows)
    return EncodedChunks(PackedStruct(bits, chunks.spec), chunks.streams, chunks.num_values)
