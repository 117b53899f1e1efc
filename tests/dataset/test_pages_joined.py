"""Pages of one column may differ in which nulls they have; the reference reads them as one."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.file import gathering
from alance.testing.asserts import assert_same_table

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Place = tuple[str, ...]
"""Steps from a row to a value, and what is there: nothing, or no item."""

LEAVES = {"narrow": (pa.int32(), 7), "wide": (pa.binary(), b"x" * 300)}
NESTS = {
    "struct<leaf>": lambda leaf: struct(leaf),
    "list<leaf>": lambda leaf: pa.list_(leaf),
    "struct<list>": lambda leaf: struct(pa.list_(leaf)),
    "struct<struct<list>>": lambda leaf: struct(struct(pa.list_(leaf))),
    "struct<list<struct>>": lambda leaf: struct(pa.list_(struct(leaf))),
    "list<struct<list>>": lambda leaf: pa.list_(struct(pa.list_(leaf))),
}


def struct(member: pa.DataType) -> pa.DataType:
    return pa.struct([("m", member)])


def places(kind: pa.DataType) -> list[Place]:
    """Everything that can be missing in a value."""
    if pa.types.is_struct(kind):
        inner = [("m", *place) for place in places(kind.field(0).type)]
    elif pa.types.is_list(kind):
        inner = [("empty",), *(("item", *place) for place in places(kind.value_type))]
    else:
        inner = []
    return [("null",), *inner]


def value(kind: pa.DataType, leaf: object, missing: Place = ()) -> object:
    """A value, complete but for what is missing."""
    if missing == ("null",):
        return None
    if missing == ("empty",):
        return []
    if pa.types.is_struct(kind):
        return {"m": value(kind.field(0).type, leaf, missing[1:])}
    if pa.types.is_list(kind):
        return [value(kind.value_type, leaf, rest) for rest in (missing[1:], ())]
    return leaf


def page(kind: pa.DataType, leaf: object, missing: Place) -> pa.Array:
    """Rows of which one lacks something; all rows are null where nothing else is given."""
    if missing == ("all",):
        return pa.array([None, None], kind)
    return pa.array([value(kind, leaf), value(kind, leaf, missing), value(kind, leaf)], kind)


@pytest.mark.parametrize("width", LEAVES)
@pytest.mark.parametrize("nest", NESTS)
async def test_pages_with_different_nulls(
    nest: str, width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PAGE_BYTES", 1)  # a page for every batch
    inner, leaf = LEAVES[width]
    kind = NESTS[nest](inner)
    kinds_of_page = [(), ("all",), *places(kind)]
    for i, (first, second) in enumerate(product(kinds_of_page, repeat=2)):
        chunks = [page(kind, leaf, first), page(kind, leaf, second)]
        table = pa.table({"c": pa.chunked_array(chunks)})
        ours = await alance.write_dataset(table, tmp_path / str(i))
        assert_same_table(await ours.to_table(), table)
        assert_same_table(lance.dataset(tmp_path / str(i)).to_table(), table)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.string(), "one", "two"),
        (pa.string(), "one", "ones"),
        (pa.int64(), 7, 8),
        (pa.bool_(), True, False),
        (pa.binary(50), b"1" * 50, b"2" * 50),
        (pa.large_binary(), b"1" * 40_000, b"2" * 40_000),
    ],
)
async def test_pages_of_one_value_become_one(
    kind: pa.DataType, one: object, other: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [pa.array([each] * 3, kind) for each in (one, one, other, None, None, one, one, one)]
    tables = {name: pa.table({"c": pa.chunked_array(chunks[5:])}) for name in ("apart", "once")}
    tables["mixed"] = pa.table({"c": pa.chunked_array(chunks)})
    sizes = {}
    for name, table in tables.items():
        monkeypatch.setattr(gathering, "PAGE_BYTES", 1 << 23 if name == "once" else 1)
        path = tmp_path / name
        ours = await alance.write_dataset(table, path, data_storage_version="2.2")
        rows = [len(table) - 1, 0, len(table) // 2, 0]
        assert_same_table(await ours.to_table(), table)
        assert_same_table(await ours.take(rows), table.take(rows))
        assert_same_table(lance.dataset(path).to_table(), table)
        assert_same_table(lance.dataset(path).take(rows), table.take(rows))
        sizes[name] = sum(file.stat().st_size for file in (path / "data").iterdir())
    is_search = len(str(one)) < 1000
    assert (sizes["apart"] == sizes["once"]) is is_search
