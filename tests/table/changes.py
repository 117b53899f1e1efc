"""Changes that pylance makes to a small dataset, each from a handle that may be stale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.file import LanceFileWriter

__all__ = ["CHANGES", "Change", "create"]

Change: TypeAlias = Callable[[Any], None]
"""Commits one change through a `lance.LanceDataset`, without running it again on a conflict."""

ROWS = 10


def create(uri: Path, *, stable_row_ids: bool = False, keyed: bool = False) -> int:
    """Make a dataset that every change fits; its version.

    Four fragments of ten rows. Column `c` is in files of its own, `s` has an index, and `id` may be
    the primary key.
    """
    metadata = {"lance-schema:unenforced-primary-key": "true"} if keyed else None
    fields = [pa.field("id", pa.int64(), nullable=not keyed, metadata=metadata)]
    fields += [pa.field(name, pa.int64()) for name in ("a", "b")]
    fields.append(pa.field("s", pa.string()))
    numbers = pa.array(range(4 * ROWS), pa.int64())
    texts = pa.array([f"s{i % 7}" for i in range(4 * ROWS)])
    dataset = lance.write_dataset(
        pa.table([numbers, numbers, numbers, texts], pa.schema(fields)),
        uri,
        max_rows_per_file=ROWS,
        data_storage_version="2.1",
        enable_stable_row_ids=stable_row_ids,
    )
    dataset.add_columns({"c": "id * 2"})
    dataset.create_scalar_index("s", "BTREE")
    dataset.update_config({"k": "0"})
    return int(dataset.version)


def _rows(dataset: Any, ids: Sequence[int]) -> pa.Table:
    """New rows of all columns."""
    number = pa.array(ids, pa.int64())
    columns = {field.name: number for field in dataset.schema} | {"s": ["x"] * len(ids)}
    return pa.table(columns, schema=dataset.schema)


def _append(dataset: Any) -> None:
    lance.write_dataset(_rows(dataset, [100]), dataset, mode="append")


def _overwrite(dataset: Any) -> None:
    lance.write_dataset(pa.table({"z": [1]}), dataset, mode="overwrite")


def _delete(where: str, dataset: Any) -> None:
    dataset.delete(where, conflict_retries=0)


def _update(where: str, dataset: Any) -> None:
    dataset.update({"a": "a + 1"}, where=where, conflict_retries=0)


def _merge_insert(ids: tuple[int, ...], dataset: Any) -> None:
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.conflict_retries(0).execute(_rows(dataset, ids))


def _rewrite_columns(ids: tuple[int, ...], dataset: Any) -> None:
    """Values of `b`, replaced in place."""
    merge = dataset.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    columns = {name: pa.array(ids, pa.int64()) for name in ("id", "b")}
    merge.conflict_retries(0).execute(pa.table(columns))


def _commit(operation: Callable[[Any], Any], dataset: Any) -> None:
    lance.LanceDataset.commit(dataset, operation(dataset), read_version=dataset.version)


def _delete_raw(dataset: Any) -> Any:
    """Without a word of which rows are concerned."""
    kept = dataset.get_fragment(0).delete("id = 1")
    return LanceOperation.Delete([kept], [], "id = 1")


def _delete_fragment_raw(dataset: Any) -> Any:
    return LanceOperation.Delete([], [0], "id < 10")


def _project(dataset: Any) -> Any:
    return LanceOperation.Project(dataset.lance_schema, preserves_nullability=False)


def _merge(preserves: bool, dataset: Any) -> Any:
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    return LanceOperation.Merge(fragments, dataset.lance_schema, preserves_nullability=preserves)


def _restore(dataset: Any) -> Any:
    return LanceOperation.Restore(1)


def _replace_data(fragment_id: int, dataset: Any) -> Any:
    """New values of `c`."""
    old = dataset.get_fragment(fragment_id).metadata.files[-1]
    name = f"replaced-{fragment_id}-{dataset.version}.lance"
    path = Path(dataset.uri.removeprefix("file://")) / "data" / name
    column = pa.table({"c": pa.array(range(ROWS), pa.int64())})
    with LanceFileWriter(str(path), column.schema, version="2.1") as writer:
        writer.write_batch(column)
    new = lance.fragment.DataFile(name, old.fields, old.column_indices, 2, 1, path.stat().st_size)
    group = LanceOperation.DataReplacementGroup(fragment_id, new)
    return LanceOperation.DataReplacement([group])


def _index(column: str, name: str | None, dataset: Any) -> None:
    dataset.create_scalar_index(column, "BTREE", name=name)


def _index_fragments(dataset: Any) -> None:
    """Of the first fragment only."""
    made = dataset.create_index_uncommitted("a", "BTREE", fragment_ids=[0])
    operation = LanceOperation.CreateIndex([made], [])
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _compact(excluded: list[int], deferred: bool, dataset: Any) -> None:
    dataset.optimize.compact_files(
        target_rows_per_fragment=2 * ROWS,
        excluded_fragment_ids=excluded,
        defer_index_remap=deferred,
    )


def _add_base(path: str, dataset: Any) -> None:
    dataset.add_bases([lance.DatasetBasePath(path, name=path.rpartition("/")[2])])


CHANGES: Mapping[str, Change] = MappingProxyType({
    "append": _append,
    "delete row 1": partial(_delete, "id = 1"),
    "delete row 2": partial(_delete, "id = 2"),
    "delete row 11": partial(_delete, "id = 11"),
    "delete rows 1 and 11": partial(_delete, "id in (1, 11)"),
    "delete fragment 0": partial(_delete, "id < 10"),
    "delete fragment 0 and row 11": partial(_delete, "id < 10 or id = 11"),
    "delete nothing": partial(_delete, "id < 0"),
    "delete row 1 (rows unknown)": partial(_commit, _delete_raw),
    "delete fragment 0 (rows unknown)": partial(_commit, _delete_fragment_raw),
    "update row 1": partial(_update, "id = 1"),
    "update row 2": partial(_update, "id = 2"),
    "update fragment 0": partial(_update, "id < 10"),
    "merge_insert rows 1 and 50": partial(_merge_insert, (1, 50)),
    "merge_insert row 50": partial(_merge_insert, (50,)),
    "merge_insert row 60": partial(_merge_insert, (60,)),
    "rewrite b in fragment 0": partial(_rewrite_columns, (1,)),
    "overwrite": _overwrite,
    "index a": partial(_index, "a", None),
    "index b as a_idx": partial(_index, "b", "a_idx"),
    "index c": partial(_index, "c", None),
    "index a of fragment 0": _index_fragments,
    "index s again": partial(_index, "s", None),
    "drop s_idx": lambda dataset: dataset.drop_index("s_idx"),
    "compact 0 and 1": partial(_compact, [2, 3], False),
    "compact 2 and 3": partial(_compact, [0, 1], False),
    "compact 0 and 1 (deferred)": partial(_compact, [2, 3], True),
    "compact 2 and 3 (deferred)": partial(_compact, [0, 1], True),
    "add column": lambda dataset: dataset.add_columns({"d": "id + 1"}),
    "add null column": lambda dataset: dataset.add_columns(pa.field("d", pa.int64())),
    "cast a": lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}),
    "merge": partial(_commit, partial(_merge, True)),
    "merge (nullability)": partial(_commit, partial(_merge, False)),
    "drop b": lambda dataset: dataset.drop_columns(["b"]),
    "drop c": lambda dataset: dataset.drop_columns(["c"]),
    "rename b": lambda dataset: dataset.alter_columns({"path": "b", "name": "bb"}),
    "require b": lambda dataset: dataset.alter_columns({"path": "b", "nullable": False}),
    "project (nullability)": partial(_commit, _project),
    "restore": partial(_commit, _restore),
    "config k": lambda dataset: dataset.update_config({"k": "1"}),
    "config k removed": lambda dataset: dataset.update_config({"k": None}),
    "config l": lambda dataset: dataset.update_config({"l": "1"}),
    "config replaced": lambda dataset: dataset.update_config({"m": "1"}, replace=True),
    "table metadata k": lambda dataset: dataset.update_metadata({"k": "1"}),
    "table metadata l": lambda dataset: dataset.update_metadata({"l": "1"}),
    "schema metadata k": lambda dataset: dataset.update_schema_metadata({"k": "1"}),
    "schema metadata l": lambda dataset: dataset.update_schema_metadata({"l": "1"}),
    "metadata of a": lambda dataset: dataset.update_field_metadata({"a": {"k": "1"}}),
    "metadata of b": lambda dataset: dataset.update_field_metadata({"b": {"k": "1"}}),
    "replace c in fragment 0": partial(_commit, partial(_replace_data, 0)),
    "replace c in fragment 1": partial(_commit, partial(_replace_data, 1)),
    "base x": partial(_add_base, "/elsewhere/x"),
    "base y": partial(_add_base, "/elsewhere/y"),
})
