"""Structs of which a page has no slot: the reference must read it, alone and joined with others."""

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

KIND = pa.list_(pa.struct([("a", pa.list_(pa.list_(pa.int32())))]))
VALUES: tuple[object, ...] = (
    None,
    [],
    [None],
    [{"a": None}],
    [{"a": []}],
    [{"a": [None, []]}],
    [{"a": [[None, 7]]}],
    [None, {"a": [[7]]}],
)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("around", ["nothing", "struct", "list"])
async def test_pages_alone_and_joined(
    around: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PAGE_BYTES", 1)  # a page for every chunk
    kind = {"nothing": KIND, "struct": pa.struct([("m", KIND)]), "list": pa.list_(KIND)}[around]
    rows: list[object] = [
        {"nothing": value, "struct": {"m": value}, "list": [value]}[around] for value in VALUES
    ]
    pages = [pa.array([row, row], kind) for row in rows]
    pages.append(pa.array([None], kind))
    for i, chunks in enumerate([*([page] for page in pages), *map(list, product(pages, repeat=2))]):
        table = pa.table({"c": pa.chunked_array(chunks)})
        path = tmp_path / str(i)
        ours = await alance.write_dataset(table, path, data_storage_version=version)
        assert_same_table(await ours.to_table(), table)
        assert_same_table(lance.dataset(str(path)).to_table(), table)
