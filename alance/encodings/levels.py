"""Repetition and definition levels: what a page's layers mean, and their streams per chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, FixedWidthBlock, Levels
from alance.encodings.compressive.out_of_line_bitpacking import encode_blocks
from alance.encodings.compressive.rle import encode_rle_blocks, rle_blocks_bytes
from alance.encodings.registry import EncodingRegistry, Stream
from alance.encodings.rows import expand_ranges
from alance.encodings.spec import Flat, Layer, Spec
from alance.errors import CorruptFileError
from alance.types import FileVersion

__all__ = ["Shape", "decode_levels", "encode_levels", "raw_levels", "select_levels"]

LEVEL_BITS = 16
LayerTuple = tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the layers of a page say about its levels (specification: 2.1, section 3.1)."""

    layers: LayerTuple
    max_rep: int
    """List layers; an item with this repetition level starts a row."""
    max_def: int
    """Definition levels assigned over all layers."""
    max_visible: int
    """Items above this definition level own no leaf slot."""

    @classmethod
    def of(cls, layers: LayerTuple) -> Shape:
        """Count levels from the leaf outwards."""
        max_rep = sum(layer.is_list for layer in layers)
        max_def = sum(layer.num_levels for layer in layers)
        first_list = next((i for i, layer in enumerate(layers) if layer.is_list), len(layers))
        max_visible = sum(layer.num_levels for layer in layers[:first_list])
        return cls(layers, max_rep, max_def, max_visible)

    @property
    def layer_numbers(self) -> npt.NDArray[np.uint8]:
        """Layers as kernels take them, inner-most first."""
        return np.array(self.layers, np.uint8)

    @property
    def hides_items(self) -> bool:
        """Whether some items may own no leaf slot."""
        return self.max_def > self.max_visible


def decode_levels(
    spec: Spec | None, chunks: Chunks, registry: EncodingRegistry
) -> npt.NDArray[np.uint16] | None:
    """Levels of many chunks, one after the other; None where the page has no such stream."""
    if spec is None:
        return None
    block = registry.decode_blocks(spec, chunks)
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != LEVEL_BITS:
        raise CorruptFileError("levels are not 16-bit values")
    return _as_levels(block.data)


def _as_levels(data: Bytes) -> npt.NDArray[np.uint16]:
    """View bytes as levels; bytes cut out of a file may lie at an odd address, levels must not."""
    return (data if data.ctypes.data % 2 == 0 else data.copy()).view("<u2")


def raw_levels(data: Bytes) -> npt.NDArray[np.uint16] | None:
    """Levels stored as plain u16 values; None for an empty buffer."""
    if len(data) == 0:
        return None
    if len(data) % 2:
        raise CorruptFileError(f"a level buffer of {len(data)} bytes holds half a level")
    return _as_levels(data)


def select_levels(
    levels: Levels, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> Levels:
    """Cut levels down to ranges of items."""
    if len(starts) == 1:
        cut: slice | npt.NDArray[np.int64] = slice(int(starts[0]), int(stops[0]))
    else:
        cut = expand_ranges(starts, stops)
    rep = None if levels.rep is None else levels.rep[cut]
    def_ = None if levels.def_ is None else levels.def_[cut]
    return Levels(rep, def_)


def encode_levels(
    levels: npt.NDArray[np.uint16], boundaries: npt.NDArray[np.int64], version: FileVersion
) -> tuple[Spec, Stream]:
    """Encode levels chunk by chunk: run lengths, bitpacked or plain, whichever is smallest."""
    counts = np.diff(boundaries)
    values = levels.view(np.uint8)
    width = max(int(levels.max(initial=0)).bit_length(), 1)  # there is no stream of zero bits
    spec, packed = encode_blocks(values, counts, LEVEL_BITS, width)
    smallest: tuple[Spec, Stream] = spec, packed
    if packed.num_bytes >= 2 * len(levels):
        smallest = Flat(LEVEL_BITS), Stream(values, boundaries[:-1] * 2, counts * 2)
    if version is FileVersion.V2_1:
        return smallest  # no run lengths (specification: 2.2, section 4)
    if rle_blocks_bytes(values, boundaries, LEVEL_BITS) < smallest[1].num_bytes:
        return encode_rle_blocks(values, boundaries, LEVEL_BITS)
    return smallest
