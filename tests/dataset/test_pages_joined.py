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
