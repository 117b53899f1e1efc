"""Column kinds of the benchmarks: one million rows each, the same for every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

TEXT = """
the quick brown fox jumps over a lazy dog while seven wizards brew potions near an old harbour and
count passing ships until night falls on quiet streets of copper and glass
"""
WORDS = TEXT.split()


def _strings(rng: np.random.Generator, num_rows: int, words: int) -> pa.Array:
    picks = rng.integers(0, len(WORDS), (num_rows, words))
    table = np.array(WORDS, dtype=object)
    return pa.array([" ".join(row) for row in table[picks]])


def _lists(rng: np.random.Generator, num_rows: int) -> pa.Array:
    lengths = rng.integers(0, 6, num_rows)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    items = pa.array(rng.integers(0, 1000, int(offsets[-1])))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def _with_nulls(values: np.ndarray, rng: np.random.Generator) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < 0.1)


def make_columns(num_rows: int = 1_000_000, seed: int = 7) -> dict[str, Callable[[], pa.Array]]:
    """Makers of one column of each kind, by name."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(seed)

    def vectors() -> pa.Array:
        items = pa.array(rng().random(num_rows * 16, dtype=np.float32))
        return pa.FixedSizeListArray.from_arrays(items, 16)

    def long_binary() -> pa.Array:
        random = rng()
        return pa.array([random.bytes(600) for _ in range(num_rows // 20)], pa.binary())

    def structs() -> pa.Array:
        random = rng()
        numbers = _with_nulls(random.integers(0, 5000, num_rows), random)
        return pa.StructArray.from_arrays(
            [numbers, pa.array(random.random(num_rows))], names=["code", "score"]
        )

    second = 1_000_000
    return {
        "int64 sorted": lambda: pa.array(np.arange(num_rows) + 10**12),
        "int64 small": lambda: pa.array(rng().integers(0, 1000, num_rows)),
        "int64 random": lambda: pa.array(rng().integers(-(2**62), 2**62, num_rows)),
        "int32 nulls": lambda: _with_nulls(rng().integers(0, 9999, num_rows, np.int32), rng()),
        "double": lambda: pa.array(rng().random(num_rows)),
        "bool": lambda: pa.array(rng().random(num_rows) < 0.3),
        "timestamp": lambda: pa.array(
            1_357_000_000 * second + rng().integers(0, 31_536_000, num_rows) * second
        ).cast(pa.timestamp("us", "UTC")),
        "decimal": lambda: pa.array(rng().integers(0, 10**9, num_rows)).cast(pa.decimal128(19, 0)),
        "string few": lambda: pa.array(np.array(WORDS)[rng().integers(0, len(WORDS), num_rows)]),
        "string ids": lambda: pa.array([f"{n:016x}" for n in rng().integers(0, 2**62, num_rows)]),
        "string text": lambda: _strings(rng(), num_rows, 8),
        "binary 600 B": long_binary,
        "list<int64>": lambda: _lists(rng(), num_rows),
        "struct": structs,
        "vector f32[16]": vectors,
    }
