"""One file for each arm of `CompressiveEncoding`."""

from __future__ import annotations

from alance.encodings.compressive.byte_stream_split import ByteStreamSplitEncoding
from alance.encodings.compressive.constant import ConstantEncoding
from alance.encodings.compressive.dictionary import DictionaryEncoding
from alance.encodings.compressive.fixed_size_list import FixedSizeListEncoding
from alance.encodings.compressive.flat import FlatEncoding
from alance.encodings.compressive.fsst import FsstEncoding
from alance.encodings.compressive.general import GeneralEncoding
from alance.encodings.compressive.inline_bitpacking import InlineBitpackingEncoding
from alance.encodings.compressive.out_of_line_bitpacking import OutOfLineBitpackingEncoding
from alance.encodings.compressive.packed_struct import PackedStructEncoding
from alance.encodings.compressive.rle import RleEncoding
from alance.encodings.compressive.variable import VariableEncoding
from alance.encodings.compressive.variable_packed_struct import VariablePackedStructEncoding
from alance.encodings.registry import EncodingRegistry

__all__ = ["default_registry"]


def default_registry() -> EncodingRegistry:
    """Return a registry of all encodings of this library."""
    return EncodingRegistry.of((
        ByteStreamSplitEncoding(),
        ConstantEncoding(),
        DictionaryEncoding(),
        FixedSizeListEncoding(),
        FlatEncoding(),
        FsstEncoding(),
        GeneralEncoding(),
        InlineBitpackingEncoding(),
        OutOfLineBitpackingEncoding(),
        PackedStructEncoding(),
        RleEncoding(),
        VariableEncoding(),
        VariablePackedStructEncoding(),
    ))
