"""Cases of random types, nested to any shape that the file version stores, from a seed each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from integration.conformance.axes import LENGTHS, NULLS, PAGES, TYPES, VALUES, VERSIONS
from integration.conformance.matrix import Case

__all__ = ["generate_scattered"]

NUM_CASES = 150
"""For each file version."""
DEPTH_MAX = 5

_SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "2.1": ("list", "large_list", "struct", "leaf"),
    "2.2": ("list", "large_list", "struct", "map", "leaf"),
})


def generate_scattered(num_cases: int = NUM_CASES) -> Iterator[Case]:
    """As many cases as wanted, the same in each run."""
    for version in VERSIONS:
        for seed in range(num_cases):
            rng = np.random.default_rng(seed)
            kind = _random_type(rng, version, 0)
            length = str(rng.choice([*LENGTHS]))
            nulls, values = str(rng.choice([*NULLS])), str(rng.choice([*VALUES]))
            yield Case(
                version,
                (
                    ("random", f"type {seed}"),
                    ("nulls", nulls),
                    ("length", length),
                    ("values", values),
                ),
                pa.field("c", kind),
                LENGTHS[length] if kind.num_fields < 2 else min(LENGTHS[length], 2000),
                replace(VALUES[values], **NULLS[nulls]),
                length == PAGES,
            )


def _random_type(rng: np.random.Generator, version: str, depth: int) -> pa.DataType:
    shape = "leaf" if depth == DEPTH_MAX else str(rng.choice(_SHAPES[version]))
    if shape == "leaf":
        return TYPES[str(rng.choice([*TYPES]))]
    if shape == "struct":
        names = [f"m{i}" for i in range(rng.integers(1, 4))]
        return pa.struct([_random_field(rng, version, depth, name) for name in names])
    if shape == "map":
        keys = TYPES[str(rng.choice(["string", "int32", "fixed_size_binary[8]", "timestamp[s]"]))]
        return pa.map_(keys, _random_type(rng, version, depth + 1))
    item = _random_field(rng, version, depth, "item")
    return pa.list_(item) if shape == "list" else pa.large_list(item)


def _random_field(rng: np.random.Generator, version: str, depth: int, name: str) -> pa.Field:
    """Often nullable; nulls always are."""
    kind = _random_type(rng, version, depth + 1)
    return pa.field(name, kind, nullable=pa.types.is_null(kind) or bool(rng.random() < 0.8))
