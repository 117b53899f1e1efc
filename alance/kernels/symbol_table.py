"""The parts of FSST that are not hot: the stored table, the sample, the choice of symbols."""

from __future__ import annotations

from collections import Counter
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
    "best_symbols",
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

PREFIX_BYTES = 3
ALIKE_MAX = 2
CANDIDATES = 2 * SYMBOLS_MAX
"""Pairs that are looked at."""
PAIR_COUNT_MIN = 3

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
    starts: list[int] = []
    stops: list[int] = []
    for i in range(num_pieces):
        # a Weyl sequence: as good as random here, and the same in every version of NumPy
        jump = (i + seed + 1) * 0x9E3779B97F4A7C15 >> 20
        start = first + i * stratum + jump % (stratum - piece_bytes + 1)
        stop = start + piece_bytes
        begin = np.searchsorted(offsets, offsets.dtype.type(start), side="right")
        end = np.searchsorted(offsets, offsets.dtype.type(stop), side="left")
        inner = offsets[begin:end].tolist()
        starts += [start, *inner]
        stops += [*inner, stop]
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)


def best_symbols(
    alphabet: Sequence[bytes], singles: npt.NDArray[np.int64], pairs: npt.NDArray[np.int32]
) -> list[bytes]:
    """Choose 255 symbols that would replace most bytes of the sample.

    Of those that begin alike only the best two are taken: an encoder then compares two candidates
    at each place, whatever the values, and needs no loop.

    Parameters
    ----------
    alphabet
        The symbol of every code that was counted.
    singles
        How often each code was used. Shape (n,).
    pairs
        How often each code was followed by each other. Shape (n, n). A pair is a candidate when
        it was seen three times.

    Returns
    -------
    list of bytes
        The best first; which one wins a draw depends on the symbols alone.
    """
    gains: dict[bytes, int] = {}
    for code in np.flatnonzero(singles).tolist():
        symbol = alphabet[code]
        # single bytes are favoured: they save an escape, which slows both ways down
        weight = SYMBOL_BYTES_MAX if len(symbol) == 1 else len(symbol)
        gains[symbol] = gains.get(symbol, 0) + weight * int(singles[code])
    for before, code, gain in _best_pairs(alphabet, pairs):
        symbol = (alphabet[before] + alphabet[code])[:SYMBOL_BYTES_MAX]
        gains[symbol] = gains.get(symbol, 0) + gain
    chosen: list[bytes] = []
    alike: Counter[bytes] = Counter()
    ranked = sorted((-gain, -len(symbol), symbol) for symbol, gain in gains.items())
    for _, _, symbol in ranked:
        if len(symbol) >= PREFIX_BYTES:
            prefix = symbol[:PREFIX_BYTES]
            if alike[prefix] == ALIKE_MAX:
                continue
            alike[prefix] += 1
        chosen.append(symbol)
        if len(chosen) == SYMBOLS_MAX:
            break
    return chosen


def _best_pairs(
    alphabet: Sequence[bytes], pairs: npt.NDArray[np.int32]
) -> list[tuple[int, int, int]]:
    """Pairs that may become a symbol, and what it would replace; of very many the best."""
    lengths = np.array([len(symbol) for symbol in alphabet], np.int64)
    before, code = np.divmod(np.flatnonzero(pairs >= PAIR_COUNT_MIN), len(alphabet))
    grows = lengths[before] < SYMBOL_BYTES_MAX
    before, code = before[grows], code[grows]
    joined = np.minimum(lengths[before] + lengths[code], SYMBOL_BYTES_MAX)
    gains = joined * pairs[before, code]
    if len(gains) > CANDIDATES:
        best = gains >= np.partition(gains, -CANDIDATES)[-CANDIDATES]
        before, code, gains = before[best], code[best], gains[best]
    return list(zip(before.tolist(), code.tolist(), gains.tolist(), strict=True))
