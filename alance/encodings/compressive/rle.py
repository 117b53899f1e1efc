"""Run lengths: values beside the number of times that each is repeated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, DataBlock, FixedWidthBlock
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Flat, Rle
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels

__all__ = ["RleEncoding"]

WIDTHS = (8, 16, 32, 64)
LENGTHS = Flat(bits_per_value=8)


class RleEncoding(Compressive):
    """8, 16, 32 or 64-bit values; a run longer than 255 is written as several of equal value."""

    name = "rle"
    spec_type = Rle
    transparent = False

    def num_buffers(self, spec: Rle, registry: EncodingRegistry) -> int:
        """Values, then lengths."""
        return 2

    def decode_chunks(self, spec: Rle, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Repeat the values of all chunks into one buffer."""
        values = spec.values
        if not isinstance(values, Flat) or spec.run_lengths != LENGTHS:
            raise UnsupportedFeatureError(
                "run lengths around other than flat values and flat 8-bit lengths are not known "
                "to this library; a newer one may read the file",
                feature="rle of encoded runs",
            )
        bits = values.bits_per_value
        if bits not in WIDTHS:
            raise CorruptFileError(f"run lengths of {bits}-bit values do not exist")
        num_runs = chunks.sizes[1]
        if bool((chunks.sizes[0] != num_runs * (bits // 8)).any()):
            raise CorruptFileError("a chunk has not as many run values as run lengths")
        lengths = _clip_runs(_gather(chunks, 1), num_runs, chunks.num_values)
        found = _gather(chunks, 0).view(f"<u{bits // 8}")
        return FixedWidthBlock(bits, chunks.total_values, np.repeat(found, lengths).view(np.uint8))


def _gather(chunks: Chunks, buffer: int) -> Bytes:
    """One buffer of all chunks, back to back."""
    sizes = chunks.sizes[buffer]
    out = np.empty(int(sizes.sum()), np.uint8)
    status = byte_kernels.gather(chunks.data, chunks.offsets[buffer], sizes, out)
    if status != 0:
        raise CorruptFileError(f"run buffer {status - 1} does not fit its page")
    return out


def _clip_runs(
    lengths: Bytes, num_runs: npt.NDArray[np.int64], num_values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Lengths that give each chunk its number of values; writers may cut a chunk within a run."""
    stops = np.cumsum(num_runs)
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    before = ends[stops - num_runs]
    if bool((ends[stops] - before < num_values).any()):
        raise CorruptFileError("the runs of a chunk are shorter than its number of values")
    chunk = np.repeat(np.arange(len(num_runs)), num_runs)
    limits = (before + num_values)[chunk]
    clipped: npt.NDArray[np.int64] = np.minimum(ends[1:], limits) - np.minimum(ends[:-1], limits)
    return clipped
