"""FSST: strings as one-byte codes of symbols of 1 to 8 bytes, every value on its own.

A symbol table is 2312 bytes: a header word (number of symbols, switch, magic), the symbols, zero
padded to 8 bytes each, directly after them their lengths, then zeros. Code 255 escapes one literal
byte. Where the switch is off, values are stored as they are.

Value i is `data[offsets[i]:offsets[i + 1]]`; offsets are int32 or int64, n + 1 of them, and need
not start at 0. The GIL is released.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

SYMBOL_TABLE_BYTES: Final[int]
CORRUPT_TABLE: Final[int]
CORRUPT_OFFSETS: Final[int]
CORRUPT_CODES: Final[int]
OUTPUT_TOO_LARGE: Final[int]

def decode(
    symbol_table: bytes, offsets: Offsets, data: npt.NDArray[np.uint8]
) -> tuple[Offsets, npt.NDArray[np.uint8], int]:
    """Expand every value.

    Parameters
    ----------
    symbol_table
        From storage: everything a decoder relies on is checked.
    offsets
        Where the codes of each value lie in `data`; from storage: checked.
    data
        The codes; from storage: checked.

    Returns
    -------
    tuple
        Offsets of the same type that start at 0, the bytes, and a status: 0, or one of the
        constants above, and then both arrays are empty. `CORRUPT_TABLE` > 0: wrong size, magic or
        lengths. `CORRUPT_OFFSETS` > 0: they fall, or leave `data`. `CORRUPT_CODES` > 0: a code
        without symbol, or a value that ends in an escape. `OUTPUT_TOO_LARGE` < 0: int32 offsets
        cannot express the result.

    Raises
    ------
    ValueError
        `offsets` is empty: there is one entry more than values.

    Notes
    -----
    Memory: the exact size of the result and 8 bytes, allocated once everything has been checked.
    Where the switch is off the returned bytes are a view of `data`.
    """

def train(
    offsets: Offsets,
    data: npt.NDArray[np.uint8],
    *,
    sample_bytes: int = 16384,
    seed: int = 0,
) -> bytes:
    """Build a symbol table for values like these.

    Parameters
    ----------
    offsets
        Of the values.
    data
        Their bytes.
    sample_bytes
        About how many bytes to learn from, in pieces spread evenly over `data`; 1 to 2**24.
    seed
        Moves the pieces. The same arguments give the same table on every machine.

    Returns
    -------
    bytes
        A table of at most 255 symbols, switched on.

    Raises
    ------
    ValueError
        The offsets are empty, fall or leave `data`, or `sample_bytes` is out of range.
    """

def encode(
    symbol_table: bytes, offsets: Offsets, data: npt.NDArray[np.uint8]
) -> tuple[Offsets, npt.NDArray[np.uint8]]:
    """Code every value, at each position with the longest symbol that matches.

    Parameters
    ----------
    symbol_table
        Any valid table, such as one from `train`.
    offsets
        Of the values.
    data
        Their bytes.

    Returns
    -------
    tuple
        Offsets of the same type that start at 0, and the codes: at most 2 bytes per byte. Where
        the switch is off, the returned bytes are a view of `data`.

    Raises
    ------
    ValueError
        The table is not valid, or the offsets are empty, fall or leave `data`.
    OverflowError
        The offsets are int32 and the values have 1 GiB or more: the codes could take 2 GiB.

    Notes
    -----
    Memory: 2 bytes per byte of the values for the time of the call.
    """
