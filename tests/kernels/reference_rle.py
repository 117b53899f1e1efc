"""Run lengths in plain NumPy: the oracle of the compiled kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.kernels.arrays import Bytes, Int64s

LENGTH_MAX = 255


def decode(
    data: Bytes,
    value_offsets: Int64s,
    length_offsets: Int64s,
    num_runs: Int64s,
    num_values: Int64s,
    width: int,
) -> tuple[Bytes, int]:
    if width not in (1, 2, 4, 8):
        raise ValueError("width")
    if len({len(value_offsets), len(length_offsets), len(num_runs), len(num_values)}) > 1:
        raise ValueError("chunks")
    size, parts = len(data), [np.empty(0, np.uint8)]
    rows = list(
        zip(
            *(array.tolist() for array in (value_offsets, length_offsets, num_runs, num_values)),
            strict=True,
        )
    )
    for i, (values_at, lengths_at, runs, count) in enumerate(rows):
        outside = runs < 0 or values_at < 0 or lengths_at < 0
        outside = outside or values_at + runs * width > size or lengths_at + runs > size
        if outside or not 0 <= count <= runs * LENGTH_MAX:
            return np.empty(0, np.uint8), i + 1
    for i, (values_at, lengths_at, runs, count) in enumerate(rows):
        values = data[values_at : values_at + runs * width].reshape(runs, width)
        found = np.repeat(values, data[lengths_at : lengths_at + runs], axis=0)[:count]
        if len(found) < count:
            return np.empty(0, np.uint8), i + 1
        parts.append(found.reshape(-1))
    return np.concatenate(parts), 0


def _runs(values: Bytes, width: int) -> list[tuple[bytes, int]]:
    runs: list[tuple[bytes, int]] = []
    for at in range(0, len(values), width):
        value = values[at : at + width].tobytes()
        if runs and runs[-1][0] == value and runs[-1][1] < LENGTH_MAX:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return runs


def _chunks(values: Bytes, boundaries: Int64s, width: int) -> list[list[tuple[bytes, int]]]:
    bounds = boundaries.tolist()
    if width not in (1, 2, 4, 8):
        raise ValueError("width")
    if not bounds or bounds[0] < 0 or bounds != sorted(bounds) or bounds[-1] * width > len(values):
        raise ValueError("boundaries")
    return [_runs(values[start * width : stop * width], width) for start, stop in pairwise(bounds)]


def count_changes(values: Bytes, num_values: int, width: int) -> int:
    if num_values < 0 or num_values * width > len(values):
        raise ValueError("values")
    rows = values[: num_values * width].reshape(num_values, width)
    return int((rows[1:] != rows[:-1]).any(axis=1).sum())


def count_runs(values: Bytes, boundaries: Int64s, width: int) -> Int64s:
    return np.array([len(runs) for runs in _chunks(values, boundaries, width)], np.int64)


def encode(values: Bytes, boundaries: Int64s, width: int) -> tuple[Bytes, Bytes, Int64s]:
    chunks = _chunks(values, boundaries, width)
    run_values = b"".join(value for runs in chunks for value, _ in runs)
    lengths = [length for runs in chunks for _, length in runs]
    counts = np.array([len(runs) for runs in chunks], np.int64)
    return np.frombuffer(run_values, np.uint8), np.array(lengths, np.uint8), counts
