"""Byte stream split in plain NumPy: the oracle of the compiled kernel."""

from __future__ import annotations

import numpy as np

from tests.kernels.arrays import Bytes, Int64s


def _check(width: int) -> None:
    if width not in (4, 8):
        raise ValueError("width")


def encode(values: Bytes, num_values: Int64s, width: int) -> Bytes:
    _check(width)
    counts = num_values.tolist()
    if min(counts, default=0) < 0 or sum(counts) * width > len(values):
        raise ValueError("num_values")
    parts, start = [np.empty(0, np.uint8)], 0
    for count in counts:
        chunk = values[start : start + count * width]
        parts.append(chunk.reshape(count, width).T.reshape(-1))
        start += count * width
    return np.concatenate(parts)


def decode(data: Bytes, offsets: Int64s, num_values: Int64s, width: int) -> tuple[Bytes, int]:
    _check(width)
    if len(offsets) != len(num_values):
        raise ValueError("offsets")
    pairs = list(zip(offsets.tolist(), num_values.tolist(), strict=True))
    for i, (start, count) in enumerate(pairs):
        if start < 0 or count < 0 or start + count * width > len(data):
            return np.empty(0, np.uint8), i + 1
    chunks = [
        data[start : start + count * width].reshape(width, count).T.reshape(-1)
        for start, count in pairs
    ]
    return np.concatenate([np.empty(0, np.uint8), *chunks]), 0
