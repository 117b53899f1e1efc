"""FastLanes bit packing of groups of 1024 values, many groups per call.

Values are little-endian words of `bits` = 8, 16, 32 or 64. All byte arrays are contiguous `uint8`.
A returned status is 0, or k > 0 when chunk (block) k - 1 is corrupt: its bytes lie outside of
`data`, its size is not the one its values need, its bit width is above `bits`, or its values do
not fit into the rest of `out`. Nothing is read or written outside of the arrays; after a status
above 0 the content of `out` is unspecified. `ValueError` is raised for calls that are wrong:
another `bits`, index arrays of different lengths, fewer values than announced. The GIL is released.
"""

import numpy as np
import numpy.typing as npt

def unpack_inline(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    num_values: npt.NDArray[np.int64],
    bits: int,
    out: npt.NDArray[np.uint8],
) -> int:
    """Unpack `inline_bitpacking` chunks, one group each, straight into `out`.

    Parameters
    ----------
    data
        Any number of bytes; chunks may lie anywhere in it, unaligned.
    offsets, sizes
        Chunk i is `data[offsets[i]:offsets[i] + sizes[i]]`: a word holding the bit width W, then
        128 * W bytes, and nothing more.
    num_values
        Values of each chunk, 0 to 1024.
    bits
        Width of an unpacked value.
    out
        Receives the values of all chunks one after another, `sum(num_values) * bits / 8` bytes.

    Returns
    -------
    int
        0, or 1 + the index of the first corrupt chunk.
    """

def unpack_blocks(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    num_values: npt.NDArray[np.int64],
    bits: int,
    packed_bits: int,
    out: npt.NDArray[np.uint8],
) -> int:
    """Unpack `out_of_line_bitpacking` blocks of any number of values, straight into `out`.

    Parameters
    ----------
    data
        Any number of bytes; blocks may lie anywhere in it, unaligned.
    offsets, sizes
        Block i is `data[offsets[i]:offsets[i] + sizes[i]]`: full groups of 128 * `packed_bits`
        bytes, then the tail, which is raw words or one packed group, whichever its length says.
    num_values
        Values of each block.
    bits
        Width of an unpacked value.
    packed_bits
        Width of a packed value, at most `bits`; when it is not, every block is corrupt.
    out
        Receives the values of all blocks one after another, `sum(num_values) * bits / 8` bytes.

    Returns
    -------
    int
        0, or 1 + the index of the first corrupt block.
    """

def group_widths(
    values: npt.NDArray[np.uint8], num_values: int, bits: int
) -> npt.NDArray[np.uint8]:
    """Measure the bits that the largest value of each group of 1024 needs, 0 to `bits`.

    The last group may be short. Returns `ceil(num_values / 1024)` widths.
    """

def pack_inline(
    values: npt.NDArray[np.uint8], num_values: int, bits: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Pack values as `inline_bitpacking` chunks, each as narrow as its own values allow.

    Parameters
    ----------
    values
        At least `num_values * bits / 8` bytes.
    num_values
        Number of values; the last group is padded with zeros to 1024.
    bits
        Width of a value.

    Returns
    -------
    tuple
        The chunks back to back, and the size of each in bytes: `ceil(num_values / 1024)` sizes.
    """

def pack_blocks(
    values: npt.NDArray[np.uint8],
    num_values: npt.NDArray[np.int64],
    bits: int,
    packed_bits: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Pack values as `out_of_line_bitpacking` blocks.

    The tail of a block, t values, is packed if t > 1024 * `packed_bits` / `bits`, else left raw.

    Parameters
    ----------
    values
        The values of all blocks one after another, none of more than `packed_bits` bits: higher
        bits of packed values are dropped.
    num_values
        Number of values of each block.
    bits
        Width of a value.
    packed_bits
        Width of a packed value, 0 to `bits`; use the maximum of `group_widths`.

    Returns
    -------
    tuple
        The blocks back to back, and the size of each in bytes.
    """
