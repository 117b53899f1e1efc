"""The choice of symbols for an FSST table in plain Python; `fsst_train.h` does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alance.kernels.symbol_table import SYMBOL_BYTES_MAX, SYMBOLS_MAX

PREFIX_BYTES = 3
ALIKE_MAX = 2
CANDIDATES = 2 * SYMBOLS_MAX
"""Pairs that are looked at."""
PAIR_COUNT_MIN = 3


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
