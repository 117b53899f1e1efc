"""Changes that may follow each other lead to the same table, whichever library commits the second.

The first is committed by pylance, the second by both, each on a copy; pylance then reads the two.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pytest

from alance.io.opening import open_store
from alance.io.uri import parse_uri
from alance.table.commit import commit
from alance.table.conflicts import Verdict
from alance.table.location import TableLocation
from alance.table.operations import Project, Restore
from alance.table.versions import read_manifest
from tests.table.changes import CHANGES, create
from tests.table.samples import at
from tests.table.verdicts import Made, copy_dataset, judge, make

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NEW_FILES = ("data", "_deletions", "_indices")
METADATA = ("schema metadata k", "metadata of b")

WITH_ROW_IDS = (
    "append", "delete row 1", "delete row 2", "delete fragment 0", "update row 1", "update row 2",
    "update fragment 0", "merge_insert rows 1 and 50", "rewrite b in fragment 0", "overwrite",
    "index a", "compact 0 and 1", "add column", "add null column", "cast a", "drop b", "rename b",
    "restore", "config k",
)  # fmt: skip
WITHOUT = (
    *WITH_ROW_IDS, *METADATA, "delete fragment 0 and row 11", "merge_insert row 60", "index c",
    "index s again", "drop s_idx", "compact 2 and 3", "compact 0 and 1 (deferred)", "merge",
    "drop c", "require b", "config replaced", "table metadata k", "replace c in fragment 0",
    "base x",
)  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def state(folder: Path, *, stable: bool) -> dict[str, Any]:
    """All that pylance tells of a dataset."""
    dataset = lance.dataset(folder)
    schema = dataset.schema
    versions = ["_row_created_at_version", "_row_last_updated_at_version"] if stable else []
    fragments = dataset.get_fragments()
    indices = [
        (each.name, each.field_names, [segment.fragment_ids for segment in each.segments])
        for each in dataset.describe_indices()
    ]
    return {
        "rows": dataset.to_table(columns=[*schema.names, *versions], with_row_id=True).to_pylist(),
        "num_rows": dataset.count_rows(),
        "schema": schema.remove_metadata(),
        "metadata": (schema.metadata, {field.name: field.metadata for field in schema}),
        "fragments": [(each.fragment_id, each.physical_rows) for each in fragments],
        "indices": sorted(indices, key=lambda index: index[0]),
        "config": dataset.config(),
        "table metadata": dataset.metadata,
        "bases": sorted(base.path for base in dataset.base_paths().values()),
    }


def table_at(folder: Path) -> TableLocation:
    return at(open_store(parse_uri("/")[0]), folder.as_posix().strip("/"))


async def commit_here(mine: Made, folder: Path) -> None:
    """Commit a change that pylance made elsewhere, its files brought along."""
    for path in (path for name in NEW_FILES for path in (mine.folder / name).rglob("*")):
        copy = folder / path.relative_to(mine.folder)
        if path.is_file() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
    ((_, transaction),) = mine.made
    table = table_at(folder)
    restored = None
    if isinstance(transaction.operation, Restore):
        restored = await read_manifest(table, transaction.operation.version)
    await commit(
        table,
        transaction,
        base=mine.read,
        look=True,
        rng=random.Random(1),
        affected_rows=mine.affected_rows,
        source=restored,
    )


async def compare(tmp_path: Path, names: Sequence[str], *, stable: bool) -> int:
    """Commit each change on top of each that it may follow; how many pairs these were."""
    base, here, there = (tmp_path / name for name in ("base", "here", "there"))
    version = create(base, stable_row_ids=stable)
    ours = [await make(name, base, version, tmp_path / f"our {name}") for name in names]
    others = [await make(name, base, version, tmp_path / f"their {name}") for name in names]
    num_pairs = 0
    for mine in (mine for mine in ours if len(mine.made) == 1):
        for theirs in others:
            if await judge(mine, theirs) not in (Verdict.COMPATIBLE, Verdict.REBASE):
                continue
            num_pairs += 1
            copy_dataset(theirs.folder, here)
            copy_dataset(theirs.folder, there)
            await commit_here(mine, here)
            CHANGES[mine.name](lance.dataset(there, version=version))
            found, expected = (state(folder, stable=stable) for folder in (here, there))
            if isinstance(mine.made[0][1].operation, Project) and theirs.name in METADATA:
                del expected["metadata"]  # put back as the change knew it; here it stays
                kept = state(theirs.folder, stable=stable)["metadata"]
                _check_metadata(found.pop("metadata"), kept)
            assert found == expected, f"{mine.name} after {theirs.name}"
            shutil.rmtree(here)
            shutil.rmtree(there)
    return num_pairs


def _check_metadata(found: tuple[Any, dict[str, Any]], kept: tuple[Any, dict[str, Any]]) -> None:
    assert found[0] == kept[0]
    for name in found[1].keys() & kept[1].keys():
        assert found[1][name] == kept[1][name]


async def test_both_lead_to_the_same_table(tmp_path: Path) -> None:
    assert await compare(tmp_path, WITHOUT, stable=False) > 700


async def test_both_lead_to_the_same_table_with_stable_row_ids(tmp_path: Path) -> None:
    assert await compare(tmp_path, WITH_ROW_IDS, stable=True) > 150
