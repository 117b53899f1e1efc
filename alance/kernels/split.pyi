"""Byte stream split: byte j of all values of a chunk together, for values of 4 or 8 bytes.

The GIL is released.
"""

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

def encode(values: Bytes, num_values: Positions, width: int) -> Bytes:
    """Split chunks of values, which lie one after the other.

    Raises
    ------
    ValueError
        The chunks have more values than there are.
    """

def decode(data: Bytes, offsets: Positions, num_values: Positions, width: int) -> tuple[Bytes, int]:
    """Join the values of many chunks.

    Parameters
    ----------
    data
        From storage.
    offsets, num_values
        Where each chunk starts and how many values it has; from storage: checked.
    width
        Bytes of a value.

    Returns
    -------
    tuple
        The values and a status: 0, or 1 + the first chunk that does not lie in `data`. All chunks
        are checked before memory is taken.
    """
