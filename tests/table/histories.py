"""Histories that the reference makes through its API: every operation, in many states of a table.

Each makes a table at a path and changes it; whether rows have stable ids is a parameter.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter

from alance.table.manifest import Manifest
from alance.table.wire import parse_manifest


def table(num_rows: int = 100, start: int = 0) -> pa.Table:
    """Rows start, ..., start + num_rows - 1."""
    rows = range(start, start + num_rows)
    return pa.table({
        "i": pa.array(rows, pa.int32()),
        "s": pa.array([str(i) for i in rows], pa.string()),
        "v": pa.array(rows, pa.float64()),
    })


def create(path: Path, stable: bool, num_rows: int = 100) -> None:
    lance.write_dataset(
        table(num_rows),
        path,
        enable_stable_row_ids=stable,
        max_rows_per_file=50,
        data_storage_version="2.1",
    )


def append(path: Path, num_rows: int, start: int) -> None:
    lance.write_dataset(table(num_rows, start), path, mode="append")


def merge_insert(path: Path, source: pa.Table, *, insert: bool = True) -> None:
    builder = lance.dataset(path).merge_insert("i").when_matched_update_all()
    (builder.when_not_matched_insert_all() if insert else builder).execute(source)


def rows(path: Path, stable: bool) -> None:
    """Rows added, hidden, moved, restored, and all of them replaced."""
    create(path, stable)
    append(path, 20, 100)
    lance.dataset(path).delete("i in (3, 4, 70)")
    lance.dataset(path).update({"s": "'u'"}, where="i in (5, 60)")
    merge_insert(path, table(5, 118))
    lance.dataset(path).update({"s": "'w'"}, where="i in (5, 7, 119, 122)")
    lance.dataset(path).delete("i >= 100 and i < 118")
    lance.dataset(path).delete("i = 12345")
    lance.dataset(path).optimize.compact_files()
    lance.dataset(path, version=3).restore()
    lance.dataset(path).update({"v": "v + 1"})
    lance.dataset(path).delete("true")
    append(path, 10, 0)
    lance.write_dataset(table(10).select(["v", "i"]), path, mode="overwrite")


def columns(path: Path, stable: bool) -> None:
    """Columns added, cast, renamed and dropped, some of them in structs."""
    create(path, stable)
    lance.dataset(path).add_columns({"j": "i + 1"})
    lance.dataset(path).add_columns(pa.field("n", pa.int64()))
    lance.dataset(path).alter_columns({"path": "v", "data_type": pa.float32()})
    lance.dataset(path).alter_columns({"path": "v", "name": "w"})
    lance.dataset(path).delete("i = 1")
    lance.dataset(path).drop_columns(["j"])
    lance.dataset(path).update({"w": "0"}, where="i < 3")
    lance.dataset(path).optimize.compact_files()
    nested = pa.table({"i": [1, 2], "st": pa.array([{"a": 1, "b": 2}, {"a": 1, "b": None}])})
    lance.write_dataset(nested, path, mode="overwrite")
    lance.dataset(path).drop_columns(["st.a"])
    lance.dataset(path).alter_columns({"path": "st.b", "name": "c"})
    lance.dataset(path).alter_columns({"path": "i", "nullable": False})


def columns_in_place(path: Path, stable: bool) -> None:
    """Values of indexed columns replaced without moving rows."""
    create(path, stable)
    lance.dataset(path).create_scalar_index("v", "BTREE")
    lance.dataset(path).create_scalar_index("s", "BTREE")
    for ids in ([1, 2, 3], [1, 2, 60]):
        source = pa.table({"i": pa.array(ids, pa.int32()), "v": [10.0, 20.0, 30.0]})
        builder = lance.dataset(path).merge_insert("i").when_matched_update_all()
        builder.write_mode("rewrite_columns").execute(source)
    merge_insert(path, table(3), insert=False)
    builder = lance.dataset(path).merge_insert("i").when_matched_update_all()
    builder.when_not_matched_by_source_delete().execute(table(60))


def indices(path: Path, stable: bool) -> None:
    """Indices made, extended, replaced, dropped, and left without rows."""
    create(path, stable)
    lance.dataset(path).create_scalar_index("i", "BTREE")
    lance.dataset(path).create_scalar_index("s", "BITMAP")
    for start in (200, 300):
        append(path, 20, start)
        lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).update({"s": "'w'"}, where="i = 7")
    lance.dataset(path).delete("i % 5 = 0")
    lance.dataset(path).optimize.compact_files()
    lance.dataset(path).delete("i >= 200 and i < 300")
    lance.dataset(path).create_scalar_index("i", "BTREE", replace=True)
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=5)
    lance.dataset(path).drop_columns(["s"])
    lance.dataset(path).delete("true")
    append_i = pa.table({"i": pa.array([1, 2], pa.int32()), "v": [1.0, 2.0]})
    lance.write_dataset(append_i, path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    lance.dataset(path).drop_index("i_idx")


def vectors(path: Path, stable: bool) -> None:
    """An index over vectors, in two segments, of which no row is left at the end."""
    values = pa.array(np.arange(2400, dtype=np.float32))
    data = pa.table({"i": range(300), "vec": pa.FixedSizeListArray.from_arrays(values, 8)})
    lance.write_dataset(data, path, enable_stable_row_ids=stable)
    lance.dataset(path).create_index("vec", "IVF_FLAT", num_partitions=1, metric="l2")
    lance.write_dataset(data, path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).update({"i": "i + 1000"}, where="i = 200")
    lance.dataset(path).delete("i < 50")
    lance.dataset(path).optimize.compact_files()
    lance.dataset(path).delete("true")


def settings(path: Path, stable: bool) -> None:
    """Maps of settings and metadata, edited and replaced."""
    create(path, stable)
    opened = lance.dataset(path)
    opened.update_config({"a": "1", "b": "2"})
    opened.update_config({"a": None})
    opened.update_config({"c": "3"}, replace=True)
    opened.update_metadata({"m": "1", "n": "2"})
    opened.update_metadata({"m": None})
    opened.update_metadata({}, replace=True)
    opened.update_schema_metadata({"x": "1", "y": "\u00fc"})
    opened.update_schema_metadata({"y": None})
    opened.update_schema_metadata({"z": "2"}, replace=True)
    opened.update_field_metadata({"i": {"k": "v", "ARROW:extension:name": "some"}})
    opened.update_field_metadata({"v": {"lance-schema:unenforced-clustering-key:position": "1"}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        opened.replace_field_metadata("i", {"l": "w"})
    lance.dataset(path).add_columns({"j": "i + 1"})
    lance.dataset(path).drop_columns(["j"])
    lance.write_dataset(table(3), path, mode="overwrite", commit_message="again")
    lance.dataset(path, version=4).restore()


def keys(path: Path, stable: bool) -> None:
    """Inserts under a primary key."""
    lance.write_dataset(keyed(100), path, enable_stable_row_ids=stable)
    merge_insert(path, keyed(5, 95))
    merge_insert(path, keyed(10, 97))
    lance.dataset(path).update({"s": "'x'"}, where="i > 90")
    merge_insert(path, keyed(20, 80), insert=False)
    lance.dataset(path).merge_insert("i").when_not_matched_insert_all().execute(keyed(50, 80))
    lance.dataset(path).initialize_mem_wal()
    lance.dataset(path).delete("i = 5")


def keyed(num_rows: int, start: int = 0) -> pa.Table:
    fields = [*table(0).schema]
    fields[0] = pa.field(
        "i", pa.int32(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}
    )
    return table(num_rows, start).cast(pa.schema(fields))


def replaced_files(path: Path, stable: bool) -> None:
    """A data file in place of another, and one for a column that had none."""
    create(path, stable)
    lance.dataset(path).add_columns({"y": "i * 2"})
    lance.dataset(path).add_columns(pa.field("z", pa.int32()))
    lance.dataset(path).create_scalar_index("y", "BTREE")
    for name, field_id in (("y", 3), ("z", 4)):
        data = pa.table({name: pa.array(range(50), pa.int32())})
        file = path / "data" / f"new_{name}.lance"
        with LanceFileWriter(str(file), data.schema, version="2.1") as writer:
            writer.write_batch(data)
        new = lance.fragment.DataFile(file.name, [field_id], [0], 2, 1, file.stat().st_size)
        group = lance.LanceOperation.DataReplacementGroup(0, new)
        operation = lance.LanceOperation.DataReplacement([group])
        lance.LanceDataset.commit(path, operation, read_version=lance.dataset(path).version)
    append(path, 10, 100)
    opened = lance.dataset(path)
    known = [fragment.metadata for fragment in opened.get_fragments()]
    known[1].files[1] = known[0].files[1]
    operation = lance.LanceOperation.Merge(known, opened.lance_schema)
    lance.LanceDataset.commit(path, operation, read_version=opened.version)


def raw_operations(path: Path, stable: bool) -> None:
    """Operations given as such: fragments taken out, or said to have changed."""
    create(path, stable, 200)
    lance.dataset(path).create_scalar_index("i", "BTREE")
    known = [fragment.metadata for fragment in lance.dataset(path).get_fragments()]
    for operation in (
        lance.LanceOperation.Delete([known[0]], [1], "some"),
        lance.LanceOperation.Update(
            removed_fragment_ids=[2], updated_fragments=[known[3]], fields_modified=[0]
        ),
        lance.LanceOperation.Project(lance.dataset(path).lance_schema),
    ):
        lance.LanceDataset.commit(path, operation, read_version=lance.dataset(path).version)


def bases(path: Path, stable: bool) -> None:
    """Files in other places, and more such places."""
    for name in ("one", "two"):
        (path.parent / name).mkdir()
    one = lance.DatasetBasePath(str(path.parent / "one"), "one", False)
    lance.write_dataset(
        table(), path, enable_stable_row_ids=stable, initial_bases=[one], target_bases=["one"]
    )
    two = lance.DatasetBasePath(str(path.parent / "two"), "two", True)
    far = lance.DatasetBasePath(str(path.parent / "three"), None, True, id=7)
    lance.dataset(path).add_bases([two, far])
    lance.dataset(path).add_bases([lance.DatasetBasePath(str(path.parent / "four"), "four", True)])
    lance.write_dataset(table(5, 100), path, mode="append", target_bases=["two"])
    lance.dataset(path, version=2).restore()


def clone(path: Path, stable: bool) -> None:
    """A table that began as a clone, with an index, of another."""
    source = path.parent / "source.lance"
    create(source, stable)
    lance.dataset(source).delete("i = 3")
    lance.dataset(source).create_scalar_index("i", "BTREE")
    lance.dataset(source).shallow_clone(str(path), 3)
    append(path, 20, 300)
    lance.dataset(path).delete("i = 5 or i > 80")
    lance.dataset(path).update({"s": "'x'"}, where="i in (7, 8, 305)")
    lance.dataset(path).add_columns({"y": "i * 2"})
    lance.dataset(path).restore()
    lance.write_dataset(table(3), path, mode="overwrite")


def branch(path: Path, stable: bool) -> None:
    """A branch, which is a table of its own in the folder of another."""
    source = path.parent / "source.lance"
    create(source, stable)
    append(source, 20, 100)
    made = lance.dataset(source).create_branch("side", 1)
    lance.write_dataset(table(10, 200), made, mode="append")
    made = lance.dataset(source).checkout_version(("side", None))
    made.delete("i < 10")
    path.symlink_to(source / "tree" / "side", target_is_directory=True)


def deferred(path: Path, stable: bool) -> None:
    """A compaction that leaves indices as they were, to be followed from then on."""
    create(path, stable)
    lance.dataset(path).create_scalar_index("i", "BTREE")
    lance.dataset(path).delete("i in (4, 80)")
    # Which rows went where is no part of the record, nor of use where rows have stable ids.
    lance.dataset(path).optimize.compact_files(defer_index_remap=not stable)
    append(path, 20, 200)
    lance.dataset(path).update({"s": "'x'"}, where="i = 7")
    source = pa.table({"i": pa.array([9], pa.int32()), "v": [0.5]})
    builder = lance.dataset(path).merge_insert("i").when_matched_update_all()
    builder.write_mode("rewrite_columns").execute(source)
    lance.dataset(path).drop_columns(["s"])


def file_versions(path: Path, stable: bool) -> None:
    """Tables replaced by ones of other file versions, at last by one without rows."""
    create(path, stable)
    for version in ("2.0", "2.2", "2.1"):
        lance.write_dataset(table(), path, mode="overwrite", data_storage_version=version)
        lance.dataset(path).add_columns({"y": "i * 2"})
        lance.dataset(path).drop_columns(["s"])
        lance.dataset(path).delete("i = 4")
    lance.write_dataset(table(0), path, mode="overwrite")
    append(path, 10, 0)


def concurrent(path: Path, stable: bool) -> None:
    """Changes made on versions that were not the newest any more."""
    create(path, stable, 200)
    lance.dataset(path).create_scalar_index("s", "BTREE")
    handles = iter([lance.dataset(path) for _ in range(9)])
    lance.write_dataset(table(10, 200), next(handles), mode="append")
    lance.write_dataset(table(10, 300), next(handles), mode="append")
    next(handles).delete("i = 3 or i >= 150")
    next(handles).update({"s": "'u'"}, where="i in (4, 60)")
    source = pa.table({"i": pa.array([110, 120], pa.int32()), "s": ["x", "y"]})
    builder = next(handles).merge_insert("i").when_matched_update_all()
    builder.write_mode("rewrite_columns").execute(source)
    next(handles).create_scalar_index("i", "BTREE")
    next(handles).update_config({"a": "1"})
    next(handles).alter_columns({"path": "v", "name": "w"})
    next(handles).restore()
    older = lance.dataset(path)
    lance.dataset(path).delete("i in (5, 55)")
    append(path, 10, 300)
    older.delete("i in (6, 7, 56)")
    older = lance.dataset(path)
    append(path, 10, 400)
    older.optimize.compact_files()


ALL = (
    rows,
    columns,
    columns_in_place,
    indices,
    vectors,
    settings,
    keys,
    replaced_files,
    raw_operations,
    bases,
    clone,
    branch,
    deferred,
    concurrent,
    file_versions,
)


def manifests(path: Path) -> dict[int, Manifest]:
    """All versions of a table, oldest first."""
    read = [
        parse_manifest(memoryview(file.read_bytes()), path=file.name)
        for file in (path / "_versions").glob("*.manifest")
    ]
    return {manifest.version: manifest for manifest in sorted(read, key=lambda m: m.version)}


def copy(path: Path, name: str) -> Path:
    """The same table beside itself, under the same base paths."""
    return Path(shutil.copytree(path, path.parent / name))
