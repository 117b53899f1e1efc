"""What a field's metadata asks of the writer: the `lance-encoding:*` keys, checked.

Readers never look at them: a file says itself how it was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from alance.errors import InvalidInputError

__all__ = ["ColumnOptions", "Compression", "column_options", "parse_options"]

PREFIX = "lance-encoding:"
SIZE_MAX = (1 << 63) - 1
LEVEL_MAX = 22
"""Of zstd; lz4 has levels to 12."""
LZ4_LEVEL_MAX = 12

Compression: TypeAlias = Literal["none", "lz4", "zstd", "fsst"]


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Wishes for one column; None and False leave the choice to the writer.

    Parameters
    ----------
    compression
        `none` stores values as they are, `fsst` codes strings, others wrap chunks or values.
    compression_level
        Of `compression`.
    rle_threshold
        Run lengths only where there are fewer runs than this share of the values.
    bss
        Byte stream split before general compression of 32 and 64-bit values.
    dict_divisor
        A dictionary has at most one item for so many values.
    dict_size_ratio
        A dictionary page has at most this share of the plain bytes.
    dict_values_compression, dict_values_compression_level
        Of the items of a dictionary; files of version 2.2.
    structural_encoding
        Layout, whatever the width of the values.
    minichunk_size
        Bytes that a chunk of variable-width values aims at.
    packed
        A struct is one column, stored row by row.
    blob
        Values lie apart from the column.
    blob_inline_size_threshold, blob_dedicated_size_threshold, blob_pack_file_size_threshold
        Which blobs share a file, and how long such files get.
    """

    compression: Compression | None = None
    compression_level: int | None = None
    rle_threshold: float | None = None
    bss: Literal["off", "on", "auto"] | None = None
    dict_divisor: int | None = None
    dict_size_ratio: float | None = None
    dict_values_compression: Literal["none", "lz4", "zstd"] | None = None
    dict_values_compression_level: int | None = None
    structural_encoding: Literal["miniblock", "fullzip"] | None = None
    minichunk_size: int | None = None
    packed: bool = False
    blob: bool = False
    blob_inline_size_threshold: int | None = None
    blob_dedicated_size_threshold: int | None = None
    blob_pack_file_size_threshold: int | None = None


def parse_options(metadata: Mapping[str, bytes], column: str) -> ColumnOptions:
    """Read the `lance-encoding` keys of one field; others are not looked at.

    Parameters
    ----------
    metadata
        Of the field.
    column
        What an error calls the field.

    Raises
    ------
    InvalidInputError
        An unknown key or a value that it cannot have; names field and key.
    """
    found: dict[str, Any] = {}
    for key, raw in metadata.items():
        if not key.startswith(PREFIX):
            continue
        known = _KEYS.get(key.removeprefix(PREFIX))
        if known is None:
            names = ", ".join(f"{PREFIX}{name}" for name in sorted(_KEYS))
            raise InvalidInputError(
                f"field {column!r} has metadata {key!r}, which means nothing; known are {names}"
            )
        parse, expected = known
        text = raw.decode("utf-8", "replace")
        value = parse(text)
        if value is None:
            raise _bad_value(column, key, text, expected)
        found[key.removeprefix(PREFIX).replace("-", "_")] = value
    options = ColumnOptions(**found)
    _check_level(options.compression, options.compression_level, column, "compression")
    _check_level(
        options.dict_values_compression,
        options.dict_values_compression_level,
        column,
        "dict-values-compression",
    )
    return options


def column_options(fields: Sequence[tuple[str, Mapping[str, bytes]]]) -> ColumnOptions:
    """Options of a leaf.

    Parameters
    ----------
    fields
        Name and metadata of every field on the way from the top-level one to the leaf. The layout
        may be asked for at the top too; everything else counts at the leaf and is checked above.

    Raises
    ------
    InvalidInputError
        As from `parse_options`.
    """
    parsed = [parse_options(metadata, name) for name, metadata in fields]
    if parsed[-1].structural_encoding is not None:
        return parsed[-1]
    return replace(parsed[-1], structural_encoding=parsed[0].structural_encoding)


def _bad_value(column: str, key: str, value: str, expected: str) -> InvalidInputError:
    return InvalidInputError(
        f"field {column!r} has metadata {key!r} = {value!r}; expected {expected}"
    )


def _check_level(scheme: str | None, level: int | None, column: str, key: str) -> None:
    """Levels of one scheme mean nothing to another."""
    if scheme == "lz4" and level is not None and level > LZ4_LEVEL_MAX:
        expected = f"a level of lz4, from 0 to {LZ4_LEVEL_MAX}"
        raise _bad_value(column, f"{PREFIX}{key}-level", str(level), expected)


_Parser: TypeAlias = tuple[Callable[[str], Any], str]
"""Gives the value, or None for a text that has none; and what was expected instead."""


def _one_of(*names: str, ignores_case: bool = True) -> _Parser:
    def parse(text: str) -> str | None:
        name = text.lower() if ignores_case else text
        return name if name in names else None

    return parse, "one of " + ", ".join(names)


def _integer(first: int, last: int) -> _Parser:
    def parse(text: str) -> int | None:
        digits = text.isascii() and text.isdigit() and len(text) < 20
        return int(text) if digits and first <= int(text) <= last else None

    upper = "" if last == SIZE_MAX else f" to {last}"
    return parse, f"an integer from {first}{upper}"


def _share() -> _Parser:
    def parse(text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            return None
        return value if math.isfinite(value) and 0 <= value <= 1 else None

    return parse, "a number from 0 to 1"


def _ratio() -> _Parser:
    parse_share, _ = _share()
    return lambda text: parse_share(text) or None, "a number above 0, up to 1"


def _flag() -> _Parser:
    def parse(text: str) -> bool | None:
        return True if text.lower() == "true" else None

    # Whatever its value, other readers take the key for a yes.
    return parse, "true"


_KEYS: Mapping[str, _Parser] = {
    "blob": _flag(),
    "blob-dedicated-size-threshold": _integer(1, SIZE_MAX),
    "blob-inline-size-threshold": _integer(0, SIZE_MAX),
    "blob-pack-file-size-threshold": _integer(1, SIZE_MAX),
    "bss": _one_of("off", "on", "auto"),
    "compression": _one_of("none", "lz4", "zstd", "fsst", ignores_case=False),
    "compression-level": _integer(0, LEVEL_MAX),
    "dict-divisor": _integer(1, SIZE_MAX),
    "dict-size-ratio": _ratio(),
    "dict-values-compression": _one_of("none", "lz4", "zstd"),
    "dict-values-compression-level": _integer(0, LEVEL_MAX),
    "minichunk-size": _integer(1, SIZE_MAX),
    "packed": _flag(),
    "rle-threshold": _share(),
    "structural-encoding": _one_of("miniblock", "fullzip"),
}
