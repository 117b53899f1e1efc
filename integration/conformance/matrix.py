"""The matrix: every type in every nesting, and every pair of any two other properties."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa

from alance.testing.arrays import Content, random_table
from integration.conformance.axes import LENGTHS, NESTS, NULLS, PAGES, TYPES, VALUES, VERSIONS

__all__ = ["Case", "axes_of", "deal", "generate", "generate_large", "thin"]

PIECE_ROWS = 1000
"""Rows that arrive together where a column gets several pages."""

LARGE_LENGTH = "over 8 MiB"
LARGE: Mapping[pa.DataType, int] = MappingProxyType({
    pa.int64(): 1_500_000,
    pa.string(): 900_000,
    pa.list_(pa.int32()): 900_000,
    pa.list_(pa.float64(), 32): 40_000,
})

Pair: TypeAlias = frozenset[tuple[str, str]]
"""Axis and label, twice; or once, to count single labels."""


@dataclass(frozen=True, slots=True)
class Case:
    """One table: a column `c` of interest, and unless it stands alone a plain one beside it."""

    version: str
    labels: tuple[tuple[str, str], ...]
    """What it is, axis by axis; unique among all cases."""
    field: pa.Field
    num_rows: int
    content: Content
    in_pages: bool = False
    stands_alone: bool = False

    @property
    def name(self) -> str:
        """Short text for reports."""
        return " ".join((self.version, *(label for _, label in self.labels)))

    @property
    def is_blob(self) -> bool:
        """Whether the values of `c` lie apart from the column."""
        return b"lance-encoding:blob" in (self.field.metadata or {})

    def table(self) -> pa.Table:
        """Its rows, the same each time."""
        schema = pa.schema([self.field])
        if not self.stands_alone:
            schema = schema.append(pa.field("id", pa.uint16(), nullable=False))
        seed = zlib.crc32(self.name.encode())
        pieces = [PIECE_ROWS] * (self.num_rows // PIECE_ROWS) if self.in_pages else [self.num_rows]
        tables = [
            random_table(schema, rows, seed + i, self.content) for i, rows in enumerate(pieces)
        ]
        return pa.concat_tables(tables)


def axes_of(version: str) -> dict[str, Sequence[str]]:
    """Labels of each axis in this file version."""
    return {
        "type": tuple(TYPES),
        "nesting": tuple(name for name, nest in NESTS.items() if version in nest.versions),
        "nulls": tuple(NULLS),
        "length": tuple(LENGTHS),
        "values": tuple(VALUES),
    }


def generate() -> Iterator[Case]:
    """All cases of the matrix, the same in each run.

    Types and nestings are multiplied out; the other axes are dealt out so that with any two axes,
    every pair of their labels occurs.
    """
    for version in VERSIONS:
        for labels in deal(axes_of(version)):
            nest, kind = NESTS[labels["nesting"]], TYPES[labels["type"]]
            yield Case(
                version,
                tuple(labels.items()),
                pa.field("c", nest.around(kind)),
                LENGTHS[labels["length"]],
                replace(VALUES[labels["values"]], **NULLS[labels["nulls"]]),
                labels["length"] == PAGES,
                nest.stands_alone,
            )


def generate_large() -> Iterator[Case]:
    """Columns of more than the 8 MiB that a page gathers where nothing else is asked for."""
    for version in VERSIONS:
        for kind, num_rows in LARGE.items():
            yield Case(
                version,
                (("type", str(kind)), ("length", LARGE_LENGTH)),
                pa.field("c", kind),
                num_rows,
                Content(nulls=0.1),
            )


def deal(axes: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Combinations: all of the first two axes, then what is missing of pairs of other axes."""
    first, second, *_ = axes
    seen: Counter[Pair] = Counter()

    def complete(row: dict[str, str]) -> dict[str, str]:
        """Fill in each axis with the label that brings the most new pairs, or is the rarest."""
        for axis in [axis for axis in axes if axis not in row]:
            had = list(row.items())
            row[axis] = max(axes[axis], key=lambda label: _worth((axis, label), had, seen))
        seen.update(map(frozenset, combinations(row.items(), 2)))
        seen.update(frozenset({item}) for item in row.items())
        return {axis: row[axis] for axis in axes}

    for one, two in product(axes[first], axes[second]):
        yield complete({first: one, second: two})
    for one, two in combinations(axes, 2):
        for pair in product(axes[one], axes[two]):
            wanted = dict(zip((one, two), pair, strict=True))
            if not seen[frozenset(wanted.items())]:
                yield complete(wanted)


def _worth(
    item: tuple[str, str], had: Sequence[tuple[str, str]], seen: Mapping[Pair, int]
) -> tuple[int, int]:
    new = sum(not seen[frozenset({item, other})] for other in had)
    return new, -seen[frozenset({item})]


def thin(cases: Sequence[Case]) -> list[Case]:
    """Few of the cases that together have every label of every axis in each version."""
    missing = {(case.version, *label) for case in cases for label in case.labels}
    kept = []
    for case in sorted(cases, key=lambda case: zlib.crc32(case.name.encode())):
        brings = {(case.version, *label) for label in case.labels}
        if brings & missing:
            kept.append(case)
            missing -= brings
    return kept
