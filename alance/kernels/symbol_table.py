"""The parts of FSST that are not hot: the stored table, and which values it is trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = [
    "HEADER_MAGIC",
    "HEADER_SWITCH",
    "SAMPLE_BYTES_MAX",
    "SYMBOLS_MAX",
    "SYMBOL_BYTES_MAX",
    "SYMBOL_TABLE_BYTES",
    "build_table",
    "take_sample",
]

SYMBOL_TABLE_BYTES = 2312
SYMBOLS_MAX = 255
SYMBOL_BYTES_MAX = 8
SAMPLE_BYTES_MAX = 1 << 24

HEADER_MAGIC = 0x46535354
"""Bits 32 to 63 of the first word."""
HEADER_SWITCH = 1 << 24
"""Bit of the first word that says that values are coded."""

_PIECE_BYTES = 256


def build_table(symbols: Sequence[bytes]) -> bytes:
    """Put at most 255 symbols of 1 to 8 bytes into a table that is switched on.

    The header's terminator and suffix limit, which decoders do not use, are 0.
    """
    assert len(symbols) <= SYMBOLS_MAX
    header = HEADER_MAGIC << 32 | HEADER_SWITCH | len(symbols)
    padded = b"".join(symbol.ljust(SYMBOL_BYTES_MAX, b"\0") for symbol in symbols)
    lengths = bytes(len(symbol) for symbol in symbols)
    table = header.to_bytes(8, "little") + padded + lengths
    return table.ljust(SYMBOL_TABLE_BYTES, b"\0")


def take_sample(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64], sample_bytes: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Choose pieces spread evenly over the values' bytes, cut where values meet.

    Returns
    -------
    tuple
        Starts and stops of runs of bytes, none of which crosses from one value into the next:
        all values if they have at most `sample_bytes` bytes, otherwise about that many bytes.
    """
    first = int(offsets[0])
    num_bytes = int(offsets[-1]) - first
    num_pieces = max(1, sample_bytes // _PIECE_BYTES)
    piece_bytes = min(sample_bytes, _PIECE_BYTES)
    if num_bytes <= sample_bytes:
        num_pieces, piece_bytes = 1, num_bytes
    stratum = num_bytes // num_pieces
    # a Weyl sequence: as good as random here, and the same in every version of NumPy
    jumps = [(i + seed + 1) * 0x9E3779B97F4A7C15 >> 20 for i in range(num_pieces)]
    room = stratum - piece_bytes + 1
    begins = [first + i * stratum + jump % room for i, jump in enumerate(jumps)]
    starts = np.array(begins, np.int64)
    stops = starts + piece_bytes
    # Searched for as what they are searched in, or NumPy would convert all offsets.
    after = np.searchsorted(offsets, starts.astype(offsets.dtype), side="right").tolist()
    before = np.searchsorted(offsets, stops.astype(offsets.dtype), side="left").tolist()
    inner = [offsets[start:stop] for start, stop in zip(after, before, strict=True)]
    # Pieces lie one after the other: the n-th start belongs to the n-th stop.
    starts = np.sort(np.concatenate((starts, *inner), dtype=np.int64))
    return starts, np.sort(np.concatenate((*inner, stops), dtype=np.int64))
