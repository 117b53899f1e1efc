"""FSST: strings as codes of a page-wide table of up to 255 symbols."""

from __future__ import annotations

from alance.encodings.blocks import Chunks, DataBlock, VariableWidthBlock
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Fsst
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import fsst

__all__ = ["FsstEncoding", "encode_fsst", "train_fsst"]


class FsstEncoding(Compressive):
    """Every value is coded on its own, so it works per value too."""

    name = "fsst"
    spec_type = Fsst
    transparent = True

    def num_buffers(self, spec: Fsst, registry: EncodingRegistry) -> int:
        """As many as the encoding of the codes has."""
        return registry.num_buffers(spec.values)

    def decode_chunks(self, spec: Fsst, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Decode the codes of all chunks, then expand them in one go."""
        return _expand(spec, registry.decode_chunks(spec.values, chunks))

    def decode_values(self, spec: Fsst, block: DataBlock, registry: EncodingRegistry) -> DataBlock:
        """Expand every value."""
        return _expand(spec, registry.decode_values(spec.values, block))


def _expand(spec: Fsst, codes: DataBlock) -> VariableWidthBlock:
    if not isinstance(codes, VariableWidthBlock):
        raise CorruptFileError("FSST codes are not variable-width values")
    offsets, data, status = fsst.decode(spec.symbol_table, codes.offsets, codes.data)
    if status < 0:
        raise UnsupportedFeatureError(
            "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
            feature="32-bit offsets",
        )
    if status > 0:
        raise CorruptFileError("FSST codes or their symbol table are damaged")
    return VariableWidthBlock(offsets, data)


def train_fsst(block: VariableWidthBlock) -> bytes:
    """Build a symbol table from a sample of the values."""
    return fsst.train(block.offsets, block.data)


def encode_fsst(table: bytes, block: VariableWidthBlock) -> VariableWidthBlock:
    """Code all values with a symbol table."""
    offsets, data = fsst.encode(table, block.offsets, block.data)
    return VariableWidthBlock(offsets, data)
