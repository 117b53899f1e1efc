"""The data of the remote benchmarks, written by each library into a folder that is then served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import alance
from alance.testing.endpoint import EndpointProcess
from benchmarks.kinds import make_columns

__all__ = ["BUCKET", "Place", "make_table", "write_both", "write_noise"]

BUCKET = "bench"
FRAGMENTS = 4
KINDS = (
    "int64 sorted",
    "int64 small",
    "int64 random",
    "int32 nulls",
    "double",
    "bool",
    "timestamp",
    "string few",
    "string ids",
    "string text",
    "list<int64>",
    "struct",
    "vector f32[16]",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A dataset behind the endpoint."""

    endpoint: EndpointProcess
    name: str

    @property
    def uri(self) -> str:
        """As both libraries take it."""
        return f"s3://{BUCKET}/{self.name}"

    @property
    def storage_options(self) -> dict[str, str]:
        """As both libraries take them."""
        return self.endpoint.storage_options

    async def open_alance(self) -> alance.Dataset:
        """Open with a session of its own: nothing is cached, not even a connection."""
        options, session = self.storage_options, alance.Session()
        return await alance.open_dataset(self.uri, storage_options=options, session=session)

    def open_pylance(self) -> lance.LanceDataset:
        """Open with caches of its own."""
        return lance.dataset(self.uri, storage_options=self.storage_options)


def make_table(num_rows: int) -> pa.Table:
    """One column of each kind."""
    makers = make_columns(num_rows)
    names = [name.replace(" ", "_").replace("<", "_").rstrip(">") for name in KINDS]
    names = [name.replace("[", "_").rstrip("]") for name in names]
    return pa.table({name: makers[kind]() for name, kind in zip(names, KINDS, strict=True)})


async def write_both(table: pa.Table, root: Path) -> tuple[str, str]:
    """Write a table with each library in four fragments; the names of the datasets."""
    (root / BUCKET).mkdir(exist_ok=True)
    names = ("alance.lance", "pylance.lance")
    rows = -(-len(table) // FRAGMENTS)
    await alance.write_dataset(
        table, root / BUCKET / names[0], max_rows_per_file=rows, data_storage_version="2.1"
    )
    lance.write_dataset(
        table, root / BUCKET / names[1], max_rows_per_file=rows, data_storage_version="2.1"
    )
    return names


async def write_noise(num_bytes: int, root: Path) -> str:
    """Write numbers that nothing compresses, in eight columns; the name of the dataset."""
    name = "noise.lance"
    rng = np.random.default_rng(3)
    rows = num_bytes // 64
    table = pa.table({f"c{i}": rng.integers(0, 2**63 - 1, rows) for i in range(8)})
    await alance.write_dataset(table, root / BUCKET / name, data_storage_version="2.1")
    return name
