"""LZ4 blocks, each behind the size of what it becomes in four bytes; the GIL is released."""

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

def decode(data: Bytes, offsets: Positions, sizes: Positions) -> tuple[Bytes, Positions, int]:
    """Decompress many buffers into one array.

    Parameters
    ----------
    data
        From storage.
    offsets, sizes
        Where each buffer lies; from storage: checked. An empty one becomes nothing.

    Returns
    -------
    tuple
        The plain bytes back to back, the size of each buffer in them, and a status: 0, or 1 + the
        first buffer that lies outside of `data`, says a size that its bytes cannot become, or is
        damaged. Memory is taken for at most 255 times the bytes of `data`.
    """

def encode(data: Bytes, offsets: Positions, sizes: Positions) -> tuple[Bytes, Positions]:
    """Compress many buffers, each alone.

    Returns
    -------
    tuple
        The compressed buffers back to back, and their sizes.

    Raises
    ------
    ValueError
        A buffer lies outside of `data`, or has more than 2,113,929,216 bytes.
    """
