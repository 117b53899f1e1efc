"""Bytes of a manifest file: sections with a length before each, and a trailer that finds the last.

::

    u32 length | index section          both optional, in any order: the manifest has
    u32 length | transaction            their positions
    u32 length | manifest               at position P
    i64 P | u16 0 | u16 2 | "LANC"
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from alance.errors import CorruptFileError

__all__ = ["TRAILER_BYTES", "build_trailer", "frame", "manifest_section", "read_section"]

_LENGTH = struct.Struct("<I")
_TRAILER = struct.Struct("<qHH4s")
TRAILER_BYTES = _TRAILER.size
_MAGIC = b"LANC"
_VERSION = (0, 2)


def manifest_section(data: memoryview, path: str) -> memoryview:
    """Find the manifest message in a whole file.

    Raises
    ------
    CorruptFileError
        Truncated, not a manifest, or its position or length contradicts the file's size.
    """
    end = len(data) - TRAILER_BYTES
    if end < _LENGTH.size:
        raise CorruptFileError(
            f"{path}: {len(data)} bytes are too few for a manifest; the object is truncated",
            path=path,
            offset=0,
        )
    position, _, _, magic = _TRAILER.unpack_from(data, end)
    if magic != _MAGIC:
        raise CorruptFileError(
            f"{path}: a manifest ends with {_MAGIC!r}, found {magic!r}", path=path, offset=end + 12
        )
    section = read_section(data, position, path, "manifest")
    if position + _LENGTH.size + len(section) != end:
        raise CorruptFileError(
            f"{path}: manifest length does not match: {len(section)} bytes at {position} do not "
            f"reach the trailer at {end}",
            path=path,
            offset=position,
        )
    return section


def read_section(data: memoryview, position: int, path: str, what: str) -> memoryview:
    """Cut one section out of a whole file.

    Raises
    ------
    CorruptFileError
        The position or the length found there points outside the file.
    """
    end = len(data) - TRAILER_BYTES
    if not 0 <= position <= end - _LENGTH.size:
        raise CorruptFileError(
            f"{path}: {what} section at {position} is outside the file's {len(data)} bytes",
            path=path,
            offset=position,
        )
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + _LENGTH.size
    if length > end - start:
        raise CorruptFileError(
            f"{path}: {what} section at {position} claims {length} bytes, {end - start} follow",
            path=path,
            offset=position,
        )
    return data[start : start + length]


def frame(sections: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """Put a length before each section; the pieces to write, and the position of each section."""
    pieces: list[bytes] = []
    positions: list[int] = []
    position = 0
    for section in sections:
        positions.append(position)
        pieces += [_LENGTH.pack(len(section)), section]
        position += _LENGTH.size + len(section)
    return pieces, positions


def build_trailer(position: int) -> bytes:
    """Trailer of a file whose manifest section is at `position`."""
    return _TRAILER.pack(position, *_VERSION, _MAGIC)
