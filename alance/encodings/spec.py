"""What the format says about stored bytes, as frozen values: layouts and compressive encodings.

Names and members follow `encodings21.proto`; `wire.py` turns them into protobuf and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

__all__ = [
    "BlobLayout",
    "ByteStreamSplit",
    "Constant",
    "ConstantLayout",
    "Dictionary",
    "FixedSizeList",
    "Flat",
    "Fsst",
    "FullZipLayout",
    "General",
    "InlineBitpacking",
    "Layer",
    "Layout",
    "MiniBlockLayout",
    "OutOfLineBitpacking",
    "PackedField",
    "PackedStruct",
    "Rle",
    "Spec",
    "Variable",
    "VariablePackedStruct",
]


class Layer(IntEnum):
    """One nesting layer of a leaf, inner-most first in `layers`."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """Whether the layer repeats."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def num_levels(self) -> int:
        """Definition levels that the layer takes."""
        return {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2}[self.value]


@dataclass(frozen=True, slots=True)
class Flat:
    """Values back to back."""

    bits_per_value: int


@dataclass(frozen=True, slots=True)
class Variable:
    """Offsets and bytes."""

    offsets: Spec


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for all; None stands for null."""

    value: bytes | None


@dataclass(frozen=True, slots=True)
class InlineBitpacking:
    """Groups of 1024 values, each with its own bit width."""

    uncompressed_bits_per_value: int


@dataclass(frozen=True, slots=True)
class OutOfLineBitpacking:
    """One bit width, named by `values`, for the whole page."""

    uncompressed_bits_per_value: int
    values: Spec


@dataclass(frozen=True, slots=True)
class Fsst:
    """Symbol codes over variable-width bytes."""

    symbol_table: bytes
    values: Spec


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Indices into items (inside a value encoding; pages use `MiniBlockLayout.dictionary`)."""

    indices: Spec
    items: Spec
    num_dictionary_items: int


@dataclass(frozen=True, slots=True)
class Rle:
    """Run values and run lengths."""

    values: Spec
    run_lengths: Spec


@dataclass(frozen=True, slots=True)
class ByteStreamSplit:
    """Byte j of every value together."""

    values: Spec


@dataclass(frozen=True, slots=True)
class General:
    """A general codec around the first buffer of `values`."""

    scheme: str
    level: int | None
    values: Spec


@dataclass(frozen=True, slots=True)
class FixedSizeList:
    """`items_per_value` items for every value."""

    items_per_value: int
    has_validity: bool
    values: Spec


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Members row by row."""

    bits_per_value: tuple[int, ...]
    values: Spec


@dataclass(frozen=True, slots=True)
class PackedField:
    """One member of a variable packed struct: of fixed width, or behind its length."""

    value: Spec
    bits_per_value: int | None = None
    bits_per_length: int | None = None


@dataclass(frozen=True, slots=True)
class VariablePackedStruct:
    """Members row by row, some of variable width; file version 2.2."""

    fields: tuple[PackedField, ...]


Spec: TypeAlias = (
    Flat
    | Variable
    | Constant
    | InlineBitpacking
    | OutOfLineBitpacking
    | Fsst
    | Dictionary
    | Rle
    | ByteStreamSplit
    | General
    | FixedSizeList
    | PackedStruct
    | VariablePackedStruct
)


@dataclass(frozen=True, slots=True)
class MiniBlockLayout:
    """Chunks of a few KiB, each read whole."""

    rep_compression: Spec | None
    def_compression: Spec | None
    value_compression: Spec
    dictionary: Spec | None
    num_dictionary_items: int
    layers: tuple[Layer, ...]
    num_buffers: int
    repetition_index_depth: int
    num_items: int
    has_large_chunk: bool = False


@dataclass(frozen=True, slots=True)
class FullZipLayout:
    """Wide values, each with its control word."""

    bits_rep: int
    bits_def: int
    bits_per_value: int | None
    bits_per_offset: int | None
    num_items: int
    num_visible_items: int
    value_compression: Spec
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class ConstantLayout:
    """At most one distinct leaf value in the page; none at all in file version 2.1.

    Whether the value lies in a buffer, and levels in others, is told by the number of buffers.
    """

    layers: tuple[Layer, ...]
    inline_value: bytes | None = None
    rep_compression: Spec | None = None
    def_compression: Spec | None = None
    num_rep_values: int = 0
    num_def_values: int = 0


@dataclass(frozen=True, slots=True)
class BlobLayout:
    """Values that lie anywhere in the file; `inner_layout` is of the page of their places."""

    inner_layout: MiniBlockLayout | FullZipLayout | ConstantLayout
    layers: tuple[Layer, ...]


Layout: TypeAlias = MiniBlockLayout | FullZipLayout | ConstantLayout | BlobLayout
