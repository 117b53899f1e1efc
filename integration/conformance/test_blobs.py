"""Blobs of file version 2.2 given in all ways, in every nesting: bytes of all sizes, and URIs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.blob import Blob

import alance

pytestmark = pytest.mark.anyio

LENGTHS = (0, 1, 1023, 1025, 3000)
OBJECTS = 20
OBJECT_BYTES = 300
THRESHOLDS = {
    "inline_size_threshold": 20,
    "dedicated_size_threshold": 5000,
    "pack_file_size_threshold": 20_000,
}
"""Small values for every place: in the data file, with others, alone."""


class Given:
    """Blobs as they are given, with the bytes that they stand for.

    Parameters
    ----------
    folder
        Where objects lie that some of them refer to.
    seed
        Of the choice among the ways to give one.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._objects = []
        for number in range(OBJECTS):
            path = folder / f"object {number}"
            path.write_bytes(self._random.randbytes(OBJECT_BYTES))
            self._objects.append(path)

    def draw(self) -> tuple[Any, bytes | None]:
        """One of them."""
        path = self._random.choice(self._objects)
        data = path.read_bytes()
        match self._random.randrange(6):
            case 0:
                return None, None
            case 1:
                return path.as_uri(), data
            case 2:
                start = self._random.randrange(OBJECT_BYTES)
                size = self._random.randint(1, OBJECT_BYTES - start)
                return Blob.from_uri(path.as_uri(), start, size), data[start : start + size]
            case 3:
                return b"", b""
            case 4:
                return data[:15], data[:15]
            case _:
                data *= 1 if self._random.random() < 0.99 else 20
                return data, data

    def array(self, num_values: int) -> tuple[pa.Array, pa.Array]:
        """Many of them, and what they stand for."""
        pairs = [self.draw() for _ in range(num_values)]
        values = pa.array([value for _, value in pairs], pa.large_binary())
        return lance.blob_array([given for given, _ in pairs]), values


Wrap = Callable[[pa.Array, pa.Field], pa.Array]
"""Puts values into a nesting, with nulls at every level; takes as many values as it needs."""


def _offsets(num_rows: int) -> list[int | None]:
    """Lists of 0 to 2 items, some null."""
    starts = [2 * (row // 2) + (row % 2) for row in range(num_rows + 1)]
    return [None if row % 5 == 3 else start for row, start in enumerate(starts[:-1])] + starts[-1:]


def _list(values: pa.Array, field: pa.Field) -> pa.Array:
    offsets = pa.array(_offsets(len(values)), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(field))


def _struct(values: pa.Array, field: pa.Field) -> pa.Array:
    mask = pa.array([row % 7 == 2 for row in range(len(values))], pa.bool_())
    return pa.StructArray.from_arrays([values], fields=[field], mask=mask)


def _structs(values: pa.Array, field: pa.Field) -> pa.Array:
    structs = _struct(values, field)
    return _list(structs, pa.field("item", structs.type))


def _lists(values: pa.Array, field: pa.Field) -> pa.Array:
    inner = _list(values, field)
    return _list(inner, pa.field("item", inner.type))


NESTS: Mapping[str, Wrap] = MappingProxyType({
    "plain": lambda values, _: values,
    "list": _list,
    "struct": _struct,
    "list<struct>": _structs,
    "list<list>": _lists,
})


@pytest.mark.parametrize("num_rows", LENGTHS)
@pytest.mark.parametrize("nest", NESTS)
async def test_blobs_in_all_places(nest: str, num_rows: int, tmp_path: Path) -> None:
    array, values = Given(tmp_path, num_rows).array(num_rows)
    leaf, plain = lance.blob_field("item", **THRESHOLDS), pa.field("item", pa.large_binary())
    wrapped, expected = NESTS[nest](array, leaf), NESTS[nest](values, plain)
    field = leaf.with_name("c") if nest == "plain" else pa.field("c", wrapped.type)
    table = pa.table([wrapped], schema=pa.schema([field]))
    here, there = tmp_path / "here", tmp_path / "there"
    await alance.write_dataset(table, here, data_storage_version="2.2")
    lance.write_dataset(
        table, there, data_storage_version="2.2", allow_external_blob_outside_bases=True
    )
    kinds = [_kinds(lance.dataset(path).to_table()["c"]) for path in (here, there)]
    assert kinds[0] == kinds[1]
    rows = [num_rows - 1, num_rows // 3, num_rows // 3 + 1, 0] if num_rows > 2 else []
    for path in (here, there):
        found = lance.dataset(path).to_table(blob_handling="all_binary")["c"]
        assert found.to_pylist() == expected.to_pylist()
        dataset = await alance.open_dataset(path)
        assert (await dataset.to_table())["c"].to_pylist() == expected.to_pylist()
        taken = await dataset.take(rows)
        assert taken["c"].to_pylist() == expected.take(pa.array(rows, pa.int64())).to_pylist()
        window = await dataset.to_table(offset=num_rows // 3, limit=num_rows // 2)
        part = expected.slice(num_rows // 3, num_rows // 2)
        assert window["c"].to_pylist() == part.to_pylist()


def _kinds(column: pa.ChunkedArray) -> list[object]:
    """Where the values of all descriptors lie."""
    found: list[object] = []
    for chunk in column.chunks:
        while not (pa.types.is_struct(chunk.type) and chunk.type.num_fields > 1):
            chunk = chunk.flatten() if pa.types.is_list(chunk.type) else chunk.flatten()[0]
        found += [None if row is None else row["kind"] for row in chunk.to_pylist()]
    return found


@pytest.mark.parametrize("nest", ["map", "fixed_size_list<struct>"])
async def test_nestings_that_are_written_here_only(nest: str, tmp_path: Path) -> None:
    """The reference finds no blobs in them, and reads no more than their places."""
    array, values = Given(tmp_path, 1).array(600)

    def wrap(leaf: pa.Array) -> pa.Array:
        if nest == "map":
            keys = pa.array([str(row) for row in range(len(leaf))])
            return pa.MapArray.from_arrays(list(range(0, len(leaf) + 1, 3)), keys, leaf)
        structs = pa.StructArray.from_arrays([leaf], ["v"])
        return pa.FixedSizeListArray.from_arrays(structs, 3)

    table, expected = pa.table({"c": wrap(array)}), pa.table({"c": wrap(values)})
    with pytest.raises(OSError, match="Blob v2 encoder expected"):
        lance.write_dataset(
            table,
            tmp_path / "there",
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
        )
    dataset = await alance.write_dataset(table, tmp_path / "here", data_storage_version="2.2")
    assert (await dataset.to_table()).to_pydict() == expected.to_pydict()
    theirs = lance.dataset(tmp_path / "here")
    assert theirs.to_table().num_rows == 200
    with pytest.raises(pa.ArrowInvalid, match="column types must match schema types"):
        theirs.to_table(blob_handling="all_binary")
