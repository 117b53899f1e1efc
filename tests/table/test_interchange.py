"""pylance reads and goes on from what we commit, and we from what it does."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance.io.opening import open_store
from alance.io.store import ObjectStore
from alance.io.uri import parse_uri
from alance.table.commit import commit
from alance.table.manifest import Fragment, Manifest
from alance.table.transaction import Transaction, build_append, build_overwrite
from alance.table.versions import list_versions, read_manifest
from alance.types import FileVersion
from tests.table.samples import at

pytestmark = pytest.mark.anyio

DATA = pa.table({"i": pa.array([1, 2, 3], pa.int32()), "s": ["x", None, "z"]})


@pytest.fixture
def store() -> ObjectStore:
    return open_store(parse_uri("/")[0])


def root_of(path: Path) -> str:
    return path.as_posix().strip("/")


async def put(
    store: ObjectStore, path: Path, transaction: Transaction, base: Manifest | None
) -> Manifest:
    return await commit(at(store, root_of(path)), transaction, base=base, rng=random.Random(1))


def copied(fragment: Fragment, source: Path, target: Path, name: str) -> Fragment:
    """A fragment with a copy of another's only file."""
    (file,) = fragment.files
    (target / "data").mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "data" / file.path, target / "data" / name)
    return replace(fragment, files=(replace(file, path=name),), row_ids=None)


async def sample(store: ObjectStore, tmp_path: Path) -> tuple[Path, Manifest]:
    """A dataset of the reference whose data file others can copy."""
    source = tmp_path / "source.lance"
    lance.write_dataset(DATA, source, data_storage_version="2.1")
    return source, await read_manifest(at(store, root_of(source)))


@pytest.mark.parametrize("stable_row_ids", [False, True])
async def test_the_reference_reads_and_extends_a_table_of_ours(
    store: ObjectStore, tmp_path: Path, stable_row_ids: bool
) -> None:
    source, model = await sample(store, tmp_path)
    path = tmp_path / "ours.lance"
    (original,) = model.fragments
    first = await put(
        store,
        path,
        build_overwrite(
            None,
            model.schema,
            [copied(original, source, path, "a.lance")],
            file_version=FileVersion.V2_1,
            stable_row_ids=stable_row_ids,
            properties={"__lance_commit_message": "made here"},
        ),
        None,
    )
    second = await put(
        store, path, build_append(first, [copied(original, source, path, "b.lance")]), first
    )
    theirs = lance.dataset(path)
    assert (theirs.version, theirs.count_rows()) == (2, 6)
    assert theirs.to_table() == pa.concat_tables([DATA, DATA]).combine_chunks()
    assert theirs.has_stable_row_ids is stable_row_ids
    messages = [
        transaction.transaction_properties.get("__lance_commit_message")
        for transaction in theirs.get_transactions()
        if transaction is not None
    ]
    assert messages == [None, "made here"]
    theirs.delete("i = 2")
    lance.write_dataset(DATA, path, mode="append")
    newest = await read_manifest(at(store, root_of(path)))
    assert (newest.version, newest.num_rows) == (4, 7)
    assert [f.id for f in newest.fragments] == [0, 1, 2]
    assert newest.fragments[0].files == second.fragments[0].files


async def test_we_extend_a_table_of_the_reference(store: ObjectStore, tmp_path: Path) -> None:
    path, base = await sample(store, tmp_path)
    lance.dataset(path).create_scalar_index("i", "BTREE")
    lance.dataset(path).delete("i = 3")
    (original,) = base.fragments
    indexed = await read_manifest(at(store, root_of(path)))
    mine = build_append(indexed, [copied(original, path, path, "more.lance")])
    lance.write_dataset(DATA, path, mode="append")  # comes first
    made = await put(store, path, mine, indexed)
    assert made.version == 5
    assert made.index_section == indexed.index_section is not None
    theirs = lance.dataset(path)
    assert theirs.count_rows() == 8
    assert [index.name for index in theirs.describe_indices()] == ["i_idx"]
    assert theirs.to_table(filter="i = 1")["s"].to_pylist() == ["x", "x", "x"]


async def test_the_reference_rebases_over_a_commit_of_ours(
    store: ObjectStore, tmp_path: Path
) -> None:
    path, base = await sample(store, tmp_path)
    stale = lance.dataset(path)
    (original,) = base.fragments
    await put(store, path, build_append(base, [copied(original, path, path, "b.lance")]), base)
    stale.delete("i = 1")
    assert stale.version == 3
    assert lance.dataset(path).to_table()["i"].to_pylist() == [2, 3, 1, 2, 3]


async def test_the_reference_reads_an_overwrite_of_ours(store: ObjectStore, tmp_path: Path) -> None:
    path, base = await sample(store, tmp_path)
    lance.dataset(path).update_config({"k": "v"})
    head = await read_manifest(at(store, root_of(path)))
    (original,) = base.fragments
    change = build_overwrite(
        head, base.schema, [copied(original, path, path, "b.lance")], config={"l": "w"}
    )
    made = await put(store, path, change, head)
    theirs = lance.dataset(path)
    assert (theirs.version, theirs.count_rows()) == (3, 3)
    assert theirs.config() == {"k": "v", "l": "w"}
    assert [f.fragment_id for f in theirs.get_fragments()] == [1]
    assert lance.dataset(path, version=1).count_rows() == 3
    told = [info.metadata for info in await list_versions(at(store, root_of(path)))]
    assert told == [entry["metadata"] for entry in theirs.versions()]
    assert made.config == {"k": "v", "l": "w"}
