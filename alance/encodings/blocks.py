"""Data blocks: the input and output of compressive encodings, and the rows of a page decoded.

Buffers are one-dimensional contiguous `uint8` arrays: NumPy, so that kernels take them as they are
and Arrow wraps them without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alance.encodings.spec import Layer

__all__ = [
    "Bytes",
    "Chunks",
    "ConstantBlock",
    "DataBlock",
    "DictionaryBlock",
    "FixedSizeListBlock",
    "FixedWidthBlock",
    "Levels",
    "NullBlock",
    "PackedStructBlock",
    "PageRows",
    "VariableWidthBlock",
    "as_bytes",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def as_bytes(buffer: memoryview | bytes) -> Bytes:
    """View a buffer as a uint8 array without a copy."""
    return np.frombuffer(buffer, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class FixedWidthBlock:
    """`num_values` values of `bits_per_value` each; one-bit values lie LSB first."""

    bits_per_value: int
    num_values: int
    data: Bytes


@dataclass(frozen=True, slots=True)
class VariableWidthBlock:
    """Value i is `data[offsets[i]:offsets[i + 1]]`; `offsets` has `num_values + 1` entries.

    Offsets need not start at 0: a slice of a larger block is a block.
    """

    offsets: Offsets
    data: Bytes

    @property
    def num_values(self) -> int:
        """Number of values."""
        return len(self.offsets) - 1

    @property
    def bits_per_offset(self) -> int:
        """32 or 64."""
        return self.offsets.dtype.itemsize * 8


@dataclass(frozen=True, slots=True)
class FixedSizeListBlock:
    """`num_values` lists of `dimension` items; `validity` speaks of the items, bit 1 = valid."""

    dimension: int
    num_values: int
    validity: Bytes | None
    items: DataBlock


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """Indices into `items`."""

    indices: FixedWidthBlock
    items: DataBlock

    @property
    def num_values(self) -> int:
        """Number of indices."""
        return self.indices.num_values


@dataclass(frozen=True, slots=True)
class NullBlock:
    """Values that are all null."""

    num_values: int


@dataclass(frozen=True, slots=True)
class PackedStructBlock:
    """`num_values` structs whose members, each with as many values, are never null themselves."""

    num_values: int
    members: tuple[DataBlock, ...]


@dataclass(frozen=True, slots=True)
class ConstantBlock:
    """The one value of `value`, `num_values` times; takes the memory of one."""

    num_values: int
    value: FixedWidthBlock | VariableWidthBlock


DataBlock: TypeAlias = (
    FixedWidthBlock
    | VariableWidthBlock
    | FixedSizeListBlock
    | DictionaryBlock
    | NullBlock
    | ConstantBlock
    | PackedStructBlock
)


@dataclass(frozen=True, slots=True)
class Chunks:
    """The value buffers of many mini-block chunks, side by side.

    Buffer b of chunk c is `data[offsets[b, c]:offsets[b, c] + sizes[b, c]]` and holds, together
    with the chunk's other buffers, `num_values[c]` values. Every range is known to lie in `data`.
    """

    data: Bytes
    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    num_values: npt.NDArray[np.int64]

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self.num_values)

    @property
    def total_values(self) -> int:
        """Values over all chunks."""
        return int(self.num_values.sum())


@dataclass(frozen=True, slots=True)
class Levels:
    """Repetition and definition levels of a run of items, u16 each; None where a page has none."""

    rep: npt.NDArray[np.uint16] | None
    def_: npt.NDArray[np.uint16] | None


@dataclass(frozen=True, slots=True)
class PageRows:
    """Some rows of a page, decoded: leaf values, one for every visible item, and their levels."""

    num_rows: int
    layers: tuple[Layer, ...]
    levels: Levels
    values: DataBlock
