"""Kernels over plain bytes: mini-block chunks, ranges, bitmaps, variable-width values, full-zip.

Byte buffers are contiguous uint8 arrays, positions and sizes contiguous int64, levels contiguous
uint16; read-only arrays are fine as input. Results never share memory with their input. The GIL is
released while the loops run.

Whatever may come from storage is checked before it is used. The answer is a `status`: 0 for
success, k > 0 when element k - 1 (chunk, range or item, as each function says) contradicts the
format, -1 when the result does not fit 32-bit offsets. With a status other than 0 the other results
are empty or unspecified. `ValueError` is kept for calls that are wrong whatever the bytes: arrays
of unequal length, a width that the format does not have.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int64s: TypeAlias = npt.NDArray[np.int64]
LevelValues: TypeAlias = npt.NDArray[np.uint16]
Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

def parse_chunk_headers(
    data: Bytes,
    offsets: Int64s,
    sizes: Int64s,
    level_streams: int,
    value_streams: int,
    size_bytes: Literal[2, 4],
) -> tuple[Int64s, Int64s, Int64s, int]:
    """Locate the streams of mini-block chunks.

    Parameters
    ----------
    data
        Bytes that hold the chunks.
    offsets, sizes
        Where each of the c chunks lies in `data`, in bytes, header and padding included.
    level_streams
        How many of repetition and definition levels the page stores: 0, 1 or 2.
    value_streams
        Value buffers per chunk, at most 64.
    size_bytes
        Width of the size of a value buffer: 2, or 4 with large chunks. Levels always use 2.

    Returns
    -------
    num_levels
        Items in each chunk. Length c.
    stream_offsets, stream_sizes
        Byte position in `data` and size in bytes of each stream, padding excluded; levels first.
        Shape (level_streams + value_streams, c), C order.
    status
        0, or 1 + the first chunk that lies outside `data` or does not hold its header and streams.
    """

def build_chunks(
    num_levels: Int64s,
    streams: Sequence[tuple[Bytes, Int64s, Int64s]],
    level_streams: int,
    size_bytes: Literal[2, 4],
) -> tuple[Bytes, Int64s]:
    """Lay out mini-block chunks back to back; the inverse of `parse_chunk_headers`.

    Parameters
    ----------
    num_levels
        Items in each of the c chunks, at most 65535.
    streams
        (data, offsets, sizes) of each stream, levels first: stream bytes of chunk i are
        ``data[offsets[i]:offsets[i] + sizes[i]]``.
    level_streams
        How many of `streams` are levels, whose sizes take 2 bytes.
    size_bytes
        Width of the size of a value buffer.

    Returns
    -------
    data
        The chunks; padding is zero.
    chunk_sizes
        Size of each chunk in bytes, a multiple of 8. Length c.

    Raises
    ------
    ValueError
        A size or count does not fit its field, or a range lies outside its stream.
    """

def gather(data: Bytes, offsets: Int64s, sizes: Int64s, out: Bytes) -> int:
    """Copy byte ranges of `data` one after another into `out`, which they must fill.

    Returns
    -------
    int
        Status: 1 + the first range that lies outside `data` or ends beyond `out`;
        ``len(offsets) + 1`` when the ranges end before `out` does.
    """

def put_fixed(data: Bytes, width: int, places: Int64s, out: Bytes) -> int:
    """Copy value i, of `width` bytes, to ``out[places[i]:]`` and move `places` behind it.

    Returns
    -------
    int
        Status: 0, or 1 + the first value that would leave `out`.

    Raises
    ------
    ValueError
        `data` has not one value for every place.
    """

def put_variable(
    data: Bytes, offsets: Int64s, length_bytes: int, places: Int64s, out: Bytes
) -> int:
    """Copy the length of value i, in 4 or 8 bytes, and the value to ``out[places[i]:]``.

    `places` move behind it.

    Returns
    -------
    int
        Status: 0, or 1 + the first value that lies outside `data` or would leave `out`.

    Raises
    ------
    ValueError
        There is not one value for every place, or a length has neither 4 nor 8 bytes.
    """

def gather_bits(data: Bytes, offsets: Int64s, num_values: Int64s, out: Bytes) -> int:
    """Join the bits of many chunks into one bitmap.

    Chunk i has `num_values[i]` bits, LSB first, from bit 0 of byte `offsets[i]` of `data`. `out`
    has exactly the bytes that the sum of `num_values` needs; bits after the last are zero.

    Returns
    -------
    int
        Status: 1 + the first chunk that lies outside `data` or ends beyond `out`;
        ``len(offsets) + 1`` when the chunks leave a byte of `out` unused.
    """

def slice_bits(data: Bytes, bit_offset: int, num_bits: int) -> Bytes:
    """Copy `num_bits` bits of a bitmap, LSB first, so that they start at bit 0.

    The result has ``ceil(num_bits / 8)`` bytes; bits after the last are zero.

    Raises
    ------
    ValueError
        The bits lie outside `data`.
    """

def take_fixed(data: Bytes, positions: Int64s, value_bytes: int, out: Bytes) -> int:
    """Copy values of `value_bytes` each, in the order of `positions`.

    `out` has ``len(positions) * value_bytes`` bytes.

    Returns
    -------
    int
        Status: 1 + the first position outside `data`.
    """

def take_bits(data: Bytes, positions: Int64s, out: Bytes) -> int:
    """Copy single bits, LSB first, in the order of `positions`.

    `out` has ``ceil(len(positions) / 8)`` bytes; bits after the last are zero.

    Returns
    -------
    int
        Status: 1 + the first position outside `data`.
    """

def decode_variable(
    data: Bytes,
    offsets: Int64s,
    sizes: Int64s,
    num_values: Int64s,
    width: Literal[32, 64],
) -> tuple[Offsets, Bytes, int]:
    """Join the variable-width values of many mini-block chunks.

    Parameters
    ----------
    data
        Bytes that hold the value buffers.
    offsets, sizes
        Where the value buffer of each of the c chunks lies in `data`, in bytes.
    num_values
        Values in each chunk.
    width
        Bits per offset, both stored and returned.

    Returns
    -------
    offsets
        int32 or int64, from 0; value i is ``bytes[offsets[i]:offsets[i + 1]]``. Length total + 1.
    bytes
        The values back to back.
    status
        1 + a chunk whose offsets decrease or leave its buffer; -1 when `width` is 32 and the values
        of all chunks together pass 2 GiB.
    """

def repeats(data: Bytes, period: int) -> bool:
    """Whether every byte is the one `period` before it.

    Raises
    ------
    ValueError
        The period is not positive.
    """

def encode_variable(offsets: Offsets, data: Bytes, boundaries: Int64s) -> tuple[Bytes, Int64s]:
    """Cut variable-width values into the value buffers of mini-block chunks.

    Parameters
    ----------
    offsets
        Value i is ``data[offsets[i]:offsets[i + 1]]``; need not start at 0. The dtype is also the
        width that is stored.
    data
        Bytes of the values.
    boundaries
        Chunk c holds the values ``[boundaries[c], boundaries[c + 1])``.

    Returns
    -------
    data
        The buffers back to back, each padded with zeros to a multiple of the offset width.
    sizes
        Size of each buffer in bytes, padding included, as the format records it.

    Raises
    ------
    ValueError
        Boundaries or offsets decrease or leave their array, or a buffer passes 32-bit offsets.
    """

def take_variable(offsets: Offsets, data: Bytes, positions: Int64s) -> tuple[Offsets, Bytes, int]:
    """Copy variable-width values in the order of `positions`.

    Returns
    -------
    offsets
        From 0, of the dtype of the argument. Length ``len(positions) + 1``.
    bytes
        The values back to back.
    status
        1 + the first element of `positions` outside the values, or whose offsets decrease or leave
        `data`; -1 when the result passes 32-bit offsets.
    """

def unzip_fixed(
    data: Bytes,
    starts: Int64s,
    stops: Int64s,
    bits_rep: int,
    bits_def: int,
    max_visible: int,
    value_bytes: int,
) -> tuple[Int64s, LevelValues | None, LevelValues | None, Bytes, int]:
    """Take full-zip items of fixed width apart.

    Parameters
    ----------
    data
        Bytes that hold the zipped items.
    starts, stops
        k half-open byte ranges of `data`, each of whole items.
    bits_rep, bits_def
        Width of each level in the control word, 0 to 16; 0 says that the level is not stored.
    max_visible
        Items whose definition level is at most this own a value, be it null.
    value_bytes
        Bytes of each value.

    Returns
    -------
    num_items
        Items of each range. Length k.
    rep, def
        Levels of all items; None where `bits_rep` or `bits_def` is 0.
    values
        Values of the visible items, back to back.
    status
        1 + the first range that lies outside `data` or does not end with an item.

    Raises
    ------
    ValueError
        Also when items take no bytes at all, since then nothing says how many there are.
    """

def unzip_variable(
    data: Bytes,
    starts: Int64s,
    stops: Int64s,
    bits_rep: int,
    bits_def: int,
    max_visible: int,
    length_bytes: Literal[4, 8],
    width: Literal[32, 64],
) -> tuple[Int64s, LevelValues | None, LevelValues | None, Offsets, Bytes, int]:
    """Take full-zip items of variable width apart.

    Parameters
    ----------
    data, starts, stops, bits_rep, bits_def, max_visible
        As in `unzip_fixed`.
    length_bytes
        Bytes of the stored length of a value.
    width
        Bits of the offsets that are returned.

    Returns
    -------
    num_items
        Items of each range. Length k.
    rep, def
        Levels of all items; None where `bits_rep` or `bits_def` is 0.
    offsets
        int32 or int64, from 0; one value for each visible item, empty where it is null.
    bytes
        The values back to back.
    status
        1 + the first range that lies outside `data` or does not end with an item; -1 when `width`
        is 32 and the values pass 2 GiB.
    """

def zip_fixed(
    rep: LevelValues | None,
    def_: LevelValues | None,
    bits_rep: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    values: Bytes,
    value_bytes: int,
) -> tuple[Bytes, Int64s]:
    """Lay out full-zip items of fixed width.

    Parameters
    ----------
    rep, def_
        Levels of the items; None where the page has none.
    bits_rep, bits_def
        Width of each level in the control word.
    max_rep
        An item with this repetition level starts a row; without `rep` every item does.
    max_visible
        Items whose definition level is at most this own a value.
    values
        Values of the visible items, back to back, `value_bytes` each.

    Returns
    -------
    data
        The zipped items.
    row_starts
        Byte offset in `data` of the first item of each row, then the size of `data`. Length rows +
        1.

    Raises
    ------
    ValueError
        A level does not fit its bits, the first item does not start a row, or the values are not
        those of the visible items.
    """

def zip_variable(
    rep: LevelValues | None,
    def_: LevelValues | None,
    bits_rep: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    offsets: Offsets,
    data: Bytes,
    length_bytes: Literal[4, 8],
) -> tuple[Bytes, Int64s]:
    """Lay out full-zip items of variable width.

    Parameters
    ----------
    rep, def_, bits_rep, bits_def, max_rep, max_visible
        As in `zip_fixed`.
    offsets, data
        Values of the visible items: value i is ``data[offsets[i]:offsets[i + 1]]``. The bytes of
        null values are not stored.
    length_bytes
        Bytes of the stored length of a value.

    Returns
    -------
    data
        The zipped items.
    row_starts
        Byte offset in `data` of the first item of each row, then the size of `data`. Length rows +
        1.

    Raises
    ------
    ValueError
        As in `zip_fixed`; also when a length does not fit `length_bytes`.
    """
