"""Run lengths: values of 1, 2, 4 or 8 bytes beside the number of times that each is repeated.

Lengths are one byte each; a run longer than 255 is several of equal value. The GIL is released.
"""

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

def decode(
    data: Bytes,
    value_offsets: Positions,
    length_offsets: Positions,
    num_runs: Positions,
    num_values: Positions,
    width: int,
) -> tuple[Bytes, int]:
    """Repeat the values of many chunks into one array.

    Parameters
    ----------
    data
        From storage.
    value_offsets, length_offsets, num_runs
        Where the values and lengths of each chunk lie, and how many; from storage: checked.
    num_values
        How many values each chunk has; its runs may give more, which are left out.
    width
        Bytes of a value.

    Returns
    -------
    tuple
        The values and a status: 0, or 1 + the first chunk whose runs lie outside of `data` or are
        too short. Memory is taken only for what so many runs can give.
    """

def count_changes(values: Bytes, num_values: int, width: int) -> int:
    """Count the values that differ from the one before; runs are at least one more."""

def count_runs(values: Bytes, boundaries: Positions, width: int) -> Positions:
    """Count the runs of every chunk as `encode` cuts them.

    Parameters
    ----------
    values
        Of all chunks.
    boundaries
        Chunk c has values `[boundaries[c], boundaries[c + 1])`.
    width
        Bytes of a value.

    Raises
    ------
    ValueError
        The boundaries fall, or leave the values.
    """

def encode(values: Bytes, boundaries: Positions, width: int) -> tuple[Bytes, Bytes, Positions]:
    """Cut the values of every chunk into runs.

    Returns
    -------
    tuple
        Values and lengths of all runs, one after the other, and the number of runs of each chunk.

    Raises
    ------
    ValueError
        As from `count_runs`.
    """
