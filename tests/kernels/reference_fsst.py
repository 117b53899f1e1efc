"""`alance.kernels.fsst` in plain Python: one value at a time, as the definition reads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from alance.kernels.symbol_table import build_table, take_sample
from tests.kernels.reference_symbols import best_symbols

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[Any]

SYMBOL_TABLE_BYTES = 2312
CORRUPT_TABLE = 1
CORRUPT_OFFSETS = 2
CORRUPT_CODES = 3
OUTPUT_TOO_LARGE = -1


def _parse_table(table: bytes) -> tuple[list[bytes], bool] | None:
    if len(table) != SYMBOL_TABLE_BYTES or table[4:8] != b"TSSF":
        return None
    num_symbols = table[0]
    lengths = table[8 + 8 * num_symbols : 8 + 9 * num_symbols]
    if any(length not in range(1, 9) for length in lengths):
        return None
    symbols = [table[8 + 8 * i : 8 + 8 * i + length] for i, length in enumerate(lengths)]
    return symbols, table[3] & 1 == 1


def _values(offsets: Offsets, data: Bytes) -> list[bytes] | None:
    edges = offsets.tolist()
    if edges != sorted(edges) or edges[0] < 0 or edges[-1] > len(data):
        return None
    raw = data.tobytes()
    return [raw[start:stop] for start, stop in pairwise(edges)]


def _joined(values: list[bytes], offsets: Offsets) -> tuple[Offsets, Bytes]:
    edges = np.cumsum([0] + [len(value) for value in values])
    return edges.astype(offsets.dtype), np.frombuffer(b"".join(values), dtype=np.uint8)


def _decode_value(codes: bytes, symbols: list[bytes]) -> bytes | None:
    out = b""
    at = 0
    while at < len(codes):
        if codes[at] == 255:
            if at + 1 == len(codes):
                return None
            out += codes[at + 1 : at + 2]
            at += 2
        elif codes[at] < len(symbols):
            out += symbols[codes[at]]
            at += 1
        else:
            return None
    return out


def decode(symbol_table: bytes, offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes, int]:
    if len(offsets) == 0:
        raise ValueError("offsets")
    nothing = (offsets[:0], data[:0])
    parsed = _parse_table(symbol_table)
    if parsed is None:
        return *nothing, CORRUPT_TABLE
    values = _values(offsets, data)
    if values is None:
        return *nothing, CORRUPT_OFFSETS
    symbols, switched_on = parsed
    if not switched_on:
        return *_joined(values, offsets), 0
    expanded = []
    for value in values:
        text = _decode_value(value, symbols)
        if text is None:
            return *nothing, CORRUPT_CODES
        expanded.append(text)
    return *_joined(expanded, offsets), 0


def _split(value: bytes, codes: dict[bytes, int]) -> list[int]:
    """Codes of a value: of the longest symbols, 256 + byte where there is none."""
    split = []
    at = 0
    while at < len(value):
        for length in range(min(8, len(value) - at), 0, -1):
            code = codes.get(value[at : at + length])
            if code is not None:
                break
        split.append(256 + value[at] if code is None else code)
        at += 1 if code is None else length
    return split


def _check(offsets: Offsets, data: Bytes) -> list[bytes]:
    values = _values(offsets, data) if len(offsets) else None
    if values is None:
        raise ValueError("offsets")
    return values


def encode(symbol_table: bytes, offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes]:
    values = _check(offsets, data)
    parsed = _parse_table(symbol_table)
    if parsed is None:
        raise ValueError("symbol_table")
    symbols, switched_on = parsed
    if not switched_on:
        return _joined(values, offsets)
    codes = {symbol: code for code, symbol in enumerate(symbols)}
    coded = [
        b"".join(
            bytes((code,)) if code < 256 else bytes((255, code - 256))
            for code in _split(value, codes)
        )
        for value in values
    ]
    return _joined(coded, offsets)


def train(offsets: Offsets, data: Bytes, *, sample_bytes: int = 16384, seed: int = 0) -> bytes:
    _check(offsets, data)
    if not 1 <= sample_bytes <= 1 << 24:
        raise ValueError("sample_bytes")
    if offsets[0] == offsets[-1]:
        return build_table([])
    raw = data.tobytes()
    starts, stops = take_sample(offsets, sample_bytes, seed)
    runs = [raw[start:stop] for start, stop in zip(starts, stops, strict=True)]
    literals = [bytes((byte,)) for byte in range(256)]
    symbols: list[bytes] = []
    best, smallest, idle = symbols, 2 * (int(offsets[-1]) - int(offsets[0])) + 1, 0
    for _ in range(7):
        singles = np.zeros(512, dtype=np.int64)
        pairs = np.zeros((512, 512), dtype=np.int32)
        alphabet = symbols + [b""] * (256 - len(symbols)) + literals
        size = 0
        for run in runs:
            before = None
            for code in _split(run, {symbol: code for code, symbol in enumerate(symbols)}):
                size += 1 if code < 256 else 2
                seen = [code]
                if len(alphabet[code]) > 1:
                    seen.append(256 + alphabet[code][0])
                for each in seen:
                    singles[each] += 1
                    if before is not None:
                        pairs[before, each] += 1
                before = code
        idle = idle + 1 if size * 100 > smallest * 99 else 0
        if size < smallest:
            best, smallest = symbols, size
        if idle == 2:
            break
        symbols = best_symbols(alphabet, singles, pairs)
    return build_table(best)
