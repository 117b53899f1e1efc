"""Deletions of different rows of one fragment, committed by both libraries in either order."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

from alance.errors import RetryableCommitError
from alance.io.opening import open_store
from alance.io.uri import parse_uri
from alance.table.commit import commit
from alance.table.deletion import read_deletion_vector, write_deletion_file
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.operations import Delete
from alance.table.transaction import Transaction
from alance.table.versions import read_manifest
from tests.table.samples import at

pytestmark = pytest.mark.anyio

ROWS = 10


def create(path: Path) -> TableLocation:
    lance.write_dataset(pa.table({"i": range(ROWS)}), path, data_storage_version="2.1")
    return at(open_store(parse_uri("/")[0]), path.as_posix().strip("/"))


def deletion_files(path: Path) -> set[str]:
    return {file.name for file in (path / "_deletions").iterdir()}


async def delete(table: TableLocation, base: Manifest, uuid: str, *rows: int) -> Manifest:
    """Delete rows of the only fragment, of which none was deleted in `base`."""
    (fragment,) = base.fragments
    offsets = BitMap(rows)
    file = await write_deletion_file(
        table.store, table.root, fragment.id, offsets, read_version=base.version
    )
    return await commit(
        table,
        Transaction(base.version, uuid, Delete((replace(fragment, deletion_file=file),))),
        base=base,
        rng=random.Random(1),
        affected_rows={fragment.id: offsets},
    )


async def test_our_deletion_follows_others_that_it_has_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = create(path)
    base = await read_manifest(table)
    lance.dataset(path).delete("i = 7")
    theirs = deletion_files(path)
    second = await delete(table, base, "mine", 1, 2)
    third = await delete(table, base, "also mine", 3)

    assert (second.version, third.version) == (3, 4)
    (fragment,) = third.fragments
    found = await read_deletion_vector(table.store, table.root, fragment)
    assert found.tolist() == [1, 2, 3, 7]
    dataset = lance.dataset(path)
    assert dataset.to_table()["i"].to_pylist() == [0, 4, 5, 6, 8, 9]
    assert dataset.count_rows() == 6
    assert dataset.checkout_version(3).count_rows() == 7
    kept = {entry.fragments[0].deletion_file for entry in (second, third)}
    names = {file.name(0) for file in kept if file is not None}
    assert deletion_files(path) == theirs | names, "what was superseded has been removed"
    recorded = [each.read_version for each in dataset.get_transactions(2)]
    assert recorded == [3, 2], "the record names the version it was last checked against"


async def test_their_deletion_follows_ours_that_it_has_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = create(path)
    stale = lance.dataset(path)
    await delete(table, await read_manifest(table), "mine", 1, 2)
    stale.delete("i = 7", conflict_retries=0)
    (fragment,) = (await read_manifest(table)).fragments
    found = await read_deletion_vector(table.store, table.root, fragment)
    assert found.tolist() == [1, 2, 7]


async def test_the_last_rows_take_their_fragment_with_them(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = create(path)
    base = await read_manifest(table)
    lance.dataset(path).delete("i >= 4")
    assert (await delete(table, base, "mine", 0, 1, 2, 3)).fragments == ()
    assert lance.dataset(path).count_rows() == 0


async def test_the_same_row_is_deleted_once(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = create(path)
    base = await read_manifest(table)
    lance.dataset(path).delete("i = 1")
    with pytest.raises(RetryableCommitError, match="same rows"):
        await delete(table, base, "mine", 1, 2)
    assert lance.dataset(path).version == 2
    assert lance.dataset(path).count_rows() == ROWS - 1
