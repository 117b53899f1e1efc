"""Random walks of the reference through the changes of its API, some made on old versions."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import lance
import pyarrow as pa

from tests.table.histories import table

Handle: TypeAlias = lance.LanceDataset
Step: TypeAlias = Callable[[Handle, random.Random], object]

HANDLES_MAX = 4
"""Datasets kept open, so that changes are made on versions that are not the newest any more."""


def _append(opened: Handle, rng: random.Random) -> object:
    rows = table(rng.randrange(1, 25), rng.randrange(90))
    known = [name for name in opened.schema.names if name in rows.column_names]
    return lance.write_dataset(rows.select(known), opened, mode="append")


def _delete(opened: Handle, rng: random.Random) -> object:
    start = rng.randrange(90)
    return opened.delete(f"i >= {start} and i < {start + rng.randrange(1, 25)}")


def _update(opened: Handle, rng: random.Random) -> object:
    return opened.update({"s": "'u'"}, where=f"i % {rng.randrange(2, 9)} = 1")


def _merge_rows(opened: Handle, rng: random.Random) -> object:
    builder = opened.merge_insert("i").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(opened.to_table().slice(rng.randrange(10), 5))


def _merge_columns(opened: Handle, rng: random.Random) -> object:
    builder = opened.merge_insert("i").when_matched_update_all().write_mode("rewrite_columns")
    return builder.execute(opened.to_table(columns=["i", "s"]).slice(rng.randrange(10), 4))


def _merge_away(opened: Handle, rng: random.Random) -> object:
    source = opened.to_table(columns=["i"]).slice(rng.randrange(30), 7)
    return opened.merge_insert("i").when_matched_delete().execute(source)


def _index(opened: Handle, rng: random.Random) -> object:
    name, kind = rng.choice([("i", "BTREE"), ("s", "BITMAP")])
    return opened.create_scalar_index(name, kind, replace=rng.random() < 0.5)


def _optimize(opened: Handle, rng: random.Random) -> object:
    return opened.optimize.optimize_indices(num_indices_to_merge=rng.choice([0, 1, 3]))


def _compact(opened: Handle, rng: random.Random) -> object:
    return opened.optimize.compact_files(target_rows_per_fragment=rng.choice([30, 100]))


def _add(opened: Handle, rng: random.Random) -> object:
    return opened.add_columns({f"c{rng.randrange(3)}": "i + 1"})


def _drop(opened: Handle, _: random.Random) -> object:
    return opened.drop_columns([opened.schema.names[-1]])


def _cast(opened: Handle, rng: random.Random) -> object:
    data_type = rng.choice([pa.float32(), pa.float64(), pa.int64()])
    return opened.alter_columns({"path": opened.schema.names[-1], "data_type": data_type})


def _restore(opened: Handle, rng: random.Random) -> object:
    version = rng.randrange(1, opened.latest_version + 1)
    return lance.dataset(opened.uri, version=version).restore()


def _configure(opened: Handle, rng: random.Random) -> object:
    return opened.update_config({"a": str(rng.random())})


STEPS: tuple[Step, ...] = (
    _append,
    _delete,
    _update,
    _merge_rows,
    _merge_columns,
    _merge_away,
    _index,
    _optimize,
    _compact,
    _add,
    _drop,
    _cast,
    _restore,
    _configure,
)


def walk(path: Path, seed: int, *, num_steps: int = 14) -> None:
    """Make a table and change it at random; changes that the reference refuses are passed over."""
    rng = random.Random(seed)
    lance.write_dataset(
        table(60),
        path,
        data_storage_version=rng.choice(["2.1", "2.2"]),
        max_rows_per_file=20,
        enable_stable_row_ids=rng.random() < 0.5,
    )
    handles = [lance.dataset(path)]
    for _ in range(num_steps):
        handles = [*handles[1 - HANDLES_MAX :], lance.dataset(path)]
        opened = handles[-1] if rng.random() < 0.7 else rng.choice(handles)
        try:
            rng.choice(STEPS)(opened, rng)
        except (LookupError, OSError, RuntimeError, ValueError):
            continue
