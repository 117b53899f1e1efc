"""Columns stored apart, blobs and packed structs, written and read here and by the reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from tests.dataset.helpers import files

pytestmark = pytest.mark.anyio

BLOB = {"lance-encoding:blob": "true"}
PACKED = {"lance-encoding:packed": "true"}
NUM_ROWS = 300


def blobs(num_rows: int = NUM_ROWS, longest: int = 3000) -> list[bytes | None]:
    """Random bytes, some of them empty or null."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, longest, num_rows).tolist()
    return [
        None if i % 7 == 3 else b"" if i % 7 == 5 else rng.bytes(length)
        for i, length in enumerate(lengths)
    ]


def blob_table(num_rows: int = NUM_ROWS) -> pa.Table:
    """A blob column, one inside a struct and one of nulls only, beside a number."""
    values = blobs(num_rows)
    plain = pa.field("b", pa.large_binary(), metadata=BLOB)
    struct = pa.struct([plain.with_name("v"), pa.field("k", pa.int32())])
    schema = pa.schema([
        pa.field("i", pa.int64()),
        plain,
        pa.field("s", struct),
        plain.with_name("n"),
    ])
    rows: list[dict[str, Any]] = [
        {"i": i, "b": value, "s": None if i % 11 == 0 else {"v": value, "k": i}, "n": None}
        for i, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


async def both(table: pa.Table, tmp_path: Path) -> list[alance.Dataset]:
    """The same rows in version 2.1, written here and there."""
    ours = await alance.write_dataset(table, tmp_path / "ours", data_storage_version="2.1")
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version="2.1")
    return [ours, await alance.open_dataset(tmp_path / "theirs")]


class TestBlobs:
    async def test_values_come_back(self, tmp_path: Path) -> None:
        table = blob_table()
        for dataset in await both(table, tmp_path):
            assert (await dataset.to_table()).equals(table)
            rows = [5, 1, NUM_ROWS - 1, 1]
            assert (await dataset.take(rows)).equals(table.take(pa.array(rows)))
            some = await dataset.to_table(["b", "s.v"], filter=f"i >= {NUM_ROWS - 50}")
            assert some["b"].to_pylist() == table["b"].to_pylist()[-50:]

    async def test_the_reference_reads_ours(self, tmp_path: Path) -> None:
        table = blob_table()
        await both(table, tmp_path)
        theirs = lance.dataset(tmp_path / "ours")
        found = theirs.to_table(blob_handling="all_binary")
        assert found.cast(table.schema).equals(table)
        (file,) = theirs.take_blobs("b", indices=[1])
        assert file.read() == table["b"][1].as_py()

    async def test_a_take_fetches_the_wanted_values(self, tmp_path: Path) -> None:
        values = [bytes([i]) * 100_000 for i in range(40)]
        field = pa.field("b", pa.large_binary(), metadata=BLOB)
        table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
        await both(table, tmp_path)
        dataset = await alance.open_dataset(tmp_path / "ours")
        with alance.receipt() as receipt:
            found = await dataset.take([3, 20])
        assert found["b"].to_pylist() == [values[3], values[20]]
        assert receipt.bytes_fetched < 400_000

    async def test_a_scan_reads_few_values_at_once(self, tmp_path: Path) -> None:
        value = bytes(1 << 20)
        field = pa.field("b", pa.large_binary(), metadata=BLOB)
        schema = pa.schema([field])
        table = pa.table([pa.array([value] * 40, pa.large_binary())], schema=schema)
        for dataset in await both(table, tmp_path):
            sizes = [batch.num_rows async for batch in dataset.scan()]
            assert sum(sizes) == 40
            assert max(sizes) <= 16

    @pytest.mark.parametrize("version", ["2.1", "2.2"])
    async def test_files_alone(self, tmp_path: Path, version: str) -> None:
        table = blob_table(50)
        ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
        async with alance.create_file(ours, table.schema, data_storage_version=version) as writer:
            await writer.write(table.combine_chunks().to_batches()[0])
        with LanceFileWriter(str(theirs), table.schema, version=version) as reference:
            reference.write_batch(table)
        for path in (ours, theirs):
            assert (await (await alance.open_file(path)).read()).equals(table)
        found = LanceFileReader(str(ours)).read_all().to_table()
        assert found.to_pylist() == table.to_pylist()

    @pytest.mark.parametrize("version", ["2.1", "2.2"])
    async def test_the_mark_counts_whatever_its_value(self, tmp_path: Path, version: str) -> None:
        """So it does for the reference."""
        values = [b"some", None, b""]
        for mark in ("TRUE", "false"):
            field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": mark})
            table = pa.table([pa.array(values, field.type)], schema=pa.schema([field]))
            theirs = lance.write_dataset(table, tmp_path / mark, data_storage_version=version)
            assert theirs.to_table()["b"][0].as_py()["size"] == 4
            dataset = await alance.open_dataset(tmp_path / mark)
            assert (await dataset.to_table())["b"].to_pylist() == values
            where = tmp_path / f"our {mark}"
            if mark == "false":
                with pytest.raises(alance.InvalidInputError, match=r"'b'.*expected true"):
                    await alance.write_dataset(table, where, data_storage_version=version)
                continue
            await alance.write_dataset(table, where, data_storage_version=version)
            found = lance.dataset(where).to_table(blob_handling="all_binary")
            assert found["b"].to_pylist() == values

    async def test_append(self, tmp_path: Path) -> None:
        table = blob_table(20)
        ours, _ = await both(table, tmp_path)
        longer = await ours.append(table)
        assert (await longer.to_table()).equals(pa.concat_tables([table, table]))

    @pytest.mark.parametrize(
        ("field", "says"),
        [
            (pa.field("x", pa.string(), metadata=BLOB), "cast it to large_binary"),
            (
                pa.field("x", pa.list_(pa.field("item", pa.large_binary(), metadata=BLOB))),
                "lists of blobs",
            ),
            (
                pa.field(
                    "x",
                    pa.list_(pa.struct([pa.field("v", pa.large_binary(), metadata=BLOB)])),
                ),
                r"lists of blobs.*'x\.item\.v'",
            ),
        ],
    )
    async def test_what_no_blob_can_be(self, tmp_path: Path, field: pa.Field, says: str) -> None:
        with pytest.raises(alance.InvalidInputError, match=f"'x'.*{says}"):
            await alance.write_dataset([], tmp_path / "new", schema=pa.schema([field]))
        assert files(tmp_path) == {}


KIB = 1024


def placed_blobs() -> list[bytes | None]:
    """Values of all the places that blobs have by their size: in the file, shared, of their own."""
    rng = np.random.default_rng(3)
    sizes = [70 * KIB, 300, 64 * KIB, 64 * KIB + 1, 4 * KIB * KIB + 1, 70 * KIB]
    return [b"abc", None, b"", *map(rng.bytes, sizes)]


def nested_blobs() -> pa.Table:
    """Blobs in structs and lists, and a column of nulls only."""
    values = placed_blobs()
    field = pa.field("v", pa.large_binary(), metadata=BLOB)
    schema = pa.schema([
        pa.field("s", pa.struct([field, pa.field("k", pa.int32())])),
        pa.field("l", pa.list_(field.with_name("item"))),
        field.with_name("n"),
    ])
    rows: list[dict[str, Any]] = [
        {"s": {"v": value, "k": i}, "l": [value] * (i % 3), "n": None}
        for i, value in enumerate(values)
    ]
    rows[3:5] = [{"s": None, "l": None, "n": None}, {"s": {"v": None, "k": 4}, "l": [None]}]
    return pa.Table.from_pylist(rows, schema=schema)


class TestBlobsOfTheNextVersion:
    async def test_in_maps_and_lists_of_structs(self, tmp_path: Path) -> None:
        field = pa.field("v", pa.large_binary(), metadata=BLOB)
        kinds = {
            "structs": pa.list_(pa.struct([field])),
            "map": pa.map_(pa.string(), field),
            "fixed": pa.struct([pa.field("f", pa.list_(pa.struct([field]), 2))]),
        }
        items = [{"v": b"a"}, {"v": None}]
        rows = {
            "structs": [items, None, [{"v": b""}]],
            "map": [[("x", b"a"), ("y", None)], None, []],
            "fixed": [{"f": items}, None, {"f": [{"v": b""}, None]}],
        }
        for name, kind in kinds.items():
            table = pa.table({name: pa.array(rows[name], kind)})
            where = tmp_path / name
            dataset = await alance.write_dataset(table, where, data_storage_version="2.2")
            assert (await dataset.to_table()).equals(table)
            theirs = lance.dataset(where).to_table(blob_handling="all_binary")
            assert theirs.to_pydict() == table.to_pydict()

    async def test_lists_of_them_in_files_alone(self, tmp_path: Path) -> None:
        field = pa.field("item", pa.large_binary(), metadata=BLOB)
        schema = pa.schema([pa.field("x", pa.list_(field))])
        with pytest.raises(alance.InvalidInputError, match="'x' holds lists of blobs"):
            alance.create_file(tmp_path / "it", schema, data_storage_version="2.2")

    async def test_the_reference_writes(self, tmp_path: Path) -> None:
        values = placed_blobs()
        schema = pa.schema([lance.blob_field("b")])
        for mode, part in (("create", values), ("append", values[::-1])):
            table = pa.table([lance.blob_array(part)], schema=schema)
            lance.write_dataset(table, tmp_path / "it", mode=mode, data_storage_version="2.2")
        dataset = await alance.open_dataset(tmp_path / "it")
        assert dataset.schema == pa.schema([pa.field("b", pa.large_binary())])
        assert dataset.schema.field("b").metadata == {b"lance-encoding:blob": b"true"}
        everything = values + values[::-1]
        assert (await dataset.to_table())["b"].to_pylist() == everything
        rows = [8, 3, 1, 8, 12, 0]
        with alance.receipt() as receipt:
            found = await dataset.take(rows)
        assert found["b"].to_pylist() == [everything[row] for row in rows]
        assert receipt.bytes_fetched < 1024 * KIB

    async def test_nested(self, tmp_path: Path) -> None:
        table = nested_blobs()
        lance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
        dataset = await alance.open_dataset(tmp_path / "it")
        assert (await dataset.to_table()).equals(table)
        found = await dataset.to_table(["s.v"])
        assert found["s.v"].to_pylist() == [row and row["v"] for row in table["s"].to_pylist()]

    async def test_both_write(self, tmp_path: Path) -> None:
        values = placed_blobs()
        field = pa.field("b", pa.large_binary(), metadata=BLOB)
        table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
        where = tmp_path / "it"
        dataset = await alance.write_dataset(table, where, data_storage_version="2.2")
        assert (await dataset.to_table()).equals(table)
        await dataset.append(pa.table({"b": pa.array([b"plain"], pa.large_binary())}))
        more = pa.table([lance.blob_array([b"q", None])], schema=pa.schema([lance.blob_field("b")]))
        theirs = lance.write_dataset(more, where, mode="append")
        everything = [*values, b"plain", b"q", None]
        found = theirs.to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == everything
        assert theirs.take_blobs("b", indices=[7])[0].read() == values[7]
        theirs.optimize.compact_files()
        dataset = await alance.open_dataset(where)
        assert len(dataset.fragments) == 1
        assert (await dataset.to_table())["b"].to_pylist() == everything

    async def test_the_reference_reads_nested_ones(self, tmp_path: Path) -> None:
        table = nested_blobs()
        await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
        found = lance.dataset(tmp_path / "it").to_table(blob_handling="all_binary")
        assert found.to_pylist() == table.to_pylist()
        dataset = await alance.open_dataset(tmp_path / "it")
        assert (await dataset.to_table()).equals(table)

    async def test_where_values_go(self, tmp_path: Path) -> None:
        metadata = BLOB | {
            "lance-encoding:blob-inline-size-threshold": "50",
            "lance-encoding:blob-dedicated-size-threshold": "100",
            "lance-encoding:blob-pack-file-size-threshold": "250",
        }
        field = pa.field("b", pa.large_binary(), metadata=metadata)
        values = [bytes(size) for size in (50, 51, 100, 100, 101, 0, 100, 1000)]
        table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
        dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
        described = lance.dataset(tmp_path / "it").to_table()["b"].to_pylist()
        kinds = [row["kind"] for row in described]
        assert kinds == [0, 1, 1, 1, 2, 0, 1, 2]
        places = [(row["blob_id"], row["position"]) for row in described if row["kind"]]
        assert places == [(1, 0), (1, 51), (2, 0), (3, 0), (2, 100), (4, 0)]
        assert (await dataset.to_table())["b"].to_pylist() == values
        sizes = [size for name, size in files(tmp_path).items() if name.endswith(".blob")]
        assert sorted(sizes) == [101, 151, 200, 1000]

    async def test_scans_read_few_values_at_once(self, tmp_path: Path) -> None:
        field = pa.field("b", pa.large_binary(), metadata=BLOB)
        table = pa.table(
            [pa.array([bytes(1 << 20)] * 40, pa.large_binary())], schema=pa.schema([field])
        )
        dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
        sizes = [batch.num_rows async for batch in dataset.scan()]
        assert sum(sizes) == 40
        assert max(sizes) <= 16

    async def test_a_failed_write_leaves_nothing(self, tmp_path: Path) -> None:
        schema = pa.schema([pa.field("b", pa.large_binary(), metadata=BLOB)])

        def batches() -> Iterator[pa.RecordBatch]:
            for size in (5 << 20, 5 << 20, 70_000):
                yield pa.record_batch([pa.array([bytes(size)] * 2, pa.large_binary())], schema)
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            await alance.write_dataset(
                batches(), tmp_path / "it", schema=schema, data_storage_version="2.2"
            )
        assert files(tmp_path) == {}

    async def test_what_cannot_be_appended(self, tmp_path: Path) -> None:
        field = pa.field("b", pa.large_binary(), metadata=BLOB)
        schema = pa.schema([field])
        dataset = await alance.write_dataset(
            [], tmp_path / "it", schema=schema, data_storage_version="2.2"
        )
        with pytest.raises(alance.SchemaMismatchError, match="given as large_binary"):
            await dataset.append(pa.table({"b": ["text"]}))


def packed_table(num_rows: int) -> pa.Table:
    """A packed struct, null at times, alone, in a struct and in a list."""
    numbers = np.arange(num_rows)
    members = [
        pa.array(numbers, pa.int32()),
        pa.array(numbers / 3),
        pa.array([b"%03d" % (i % 1000) for i in range(num_rows)], pa.binary(3)),
    ]
    alone = pa.StructArray.from_arrays(
        members, ["x", "y", "z"], mask=pa.array(numbers % 7 == 0, pa.bool_())
    )
    inside = pa.struct([
        pa.field("p", alone.type, metadata=PACKED),
        pa.field("q", pa.string()),
    ])
    nested = pa.StructArray.from_arrays(
        [alone, pa.array([str(i) for i in range(num_rows)])], fields=list(inside)
    )
    offsets = pa.array([i // 3 * 3 for i in range(num_rows + 1)], pa.int32())
    item = pa.field("item", alone.type, metadata=PACKED)
    lists = pa.ListArray.from_arrays(offsets, alone, type=pa.list_(item))
    schema = pa.schema([
        pa.field("alone", alone.type, metadata=PACKED),
        pa.field("nested", inside),
        pa.field("lists", lists.type),
    ])
    return pa.table([alone, nested, lists], schema=schema)


def variable_table(num_rows: int) -> pa.Table:
    """A packed struct with members of all kinds, null at times."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(range(2 * num_rows), pa.int16()), 2)
    members = [
        pa.array(range(num_rows), pa.int64()),
        pa.array([f"some text {i}" * (i % 4) for i in range(num_rows)]),
        lists,
        pa.array([b"b" * (i % 9) for i in range(num_rows)], pa.large_binary()),
    ]
    mask = pa.array([i % 5 == 0 for i in range(num_rows)])
    packed = pa.StructArray.from_arrays(members, ["n", "s", "l", "b"], mask=mask)
    return pa.table([packed], schema=pa.schema([pa.field("p", packed.type, metadata=PACKED)]))


def damaged(data: bytes, seed: int) -> bytes:
    """The same with a few bytes changed."""
    rng = random.Random(seed)
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        out[rng.randrange(len(out))] = rng.choice([0, 1, 128, 255, rng.randrange(256)])
    return bytes(out)


def small_table(version: str) -> pa.Table:
    """Blobs in all places that a version has, and a packed struct of each kind."""
    metadata = BLOB | {"lance-encoding:blob-inline-size-threshold": "100"}
    values = [b"abc", None, b"", bytes(300), bytes(150)] * 4
    packed = packed_table(20) if version == "2.1" else variable_table(20)
    field = pa.field("b", pa.large_binary(), metadata=metadata)
    return packed.append_column(field, pa.array(values, pa.large_binary()))


EXPECTED = (alance.FormatError, alance.StoreError, alance.ObjectNotFoundError)
"""Descriptors may name sidecars that are not there, or are shorter."""


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_damaged_files(tmp_path: Path, version: str) -> None:
    table = small_table(version)
    dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version=version)
    path = anyio.Path(tmp_path / "it" / "data" / dataset.fragments[0].files[0].path)
    data = await path.read_bytes()
    for seed in range(200):
        await path.write_bytes(damaged(data, seed))
        reader = await alance.open_dataset(tmp_path / "it", session=alance.Session())
        with suppress(*EXPECTED):
            await reader.to_table()
        with suppress(*EXPECTED):
            await reader.take([19, 0, 4])


class TestPackedStructs:
    @pytest.mark.parametrize("num_rows", [1, 3000])
    async def test_both_ways(self, tmp_path: Path, num_rows: int) -> None:
        table = packed_table(num_rows)
        for dataset in await both(table, tmp_path):
            assert (await dataset.to_table()).equals(table)
            rows = [num_rows - 1, 0, num_rows // 2, 0]
            assert (await dataset.take(rows)).equals(table.take(pa.array(rows)))
        theirs = lance.dataset(tmp_path / "ours").to_table()
        assert theirs.to_pylist() == table.to_pylist()

    async def test_members_of_variable_width(self, tmp_path: Path) -> None:
        table = variable_table(3000)
        theirs = tmp_path / "theirs"
        lance.write_dataset(table, theirs, data_storage_version="2.2")
        ours = await alance.write_dataset(table, tmp_path / "ours", data_storage_version="2.2")
        for dataset in (ours, await alance.open_dataset(theirs)):
            assert (await dataset.to_table()).equals(table)
            rows = [2999, 0, 1500, 0]
            assert (await dataset.take(rows)).equals(table.take(pa.array(rows)))
            found = await dataset.to_table(["p.s"])
            assert found["p.s"].to_pylist() == [row and row["s"] for row in table["p"].to_pylist()]
        assert lance.dataset(tmp_path / "ours").to_table().to_pylist() == table.to_pylist()

    @pytest.mark.parametrize("kind", [pa.bool_(), pa.list_(pa.bool_(), 8), pa.list_(pa.int8())])
    async def test_members_that_fit_no_row(self, tmp_path: Path, kind: pa.DataType) -> None:
        field = pa.field("p", pa.struct([("a", pa.string()), ("b", kind)]), metadata=PACKED)
        schema = pa.schema([field])
        with pytest.raises(alance.InvalidInputError, match=r"'p\.b'.*packed struct"):
            await alance.write_dataset(
                [], tmp_path / "new", schema=schema, data_storage_version="2.2"
            )

    async def test_single_members(self, tmp_path: Path) -> None:
        table = packed_table(50)
        for dataset in await both(table, tmp_path):
            found = await dataset.to_table(["alone.y", "nested.p.x"], filter="alone.x > 20")
            alone = [row for row in table["alone"].to_pylist() if row and row["x"] > 20]
            assert found["alone.y"].to_pylist() == [row["y"] for row in alone]
            assert found["nested.p.x"].to_pylist() == [row["x"] for row in alone]

    @pytest.mark.parametrize(
        "kind", [pa.bool_(), pa.string(), pa.list_(pa.int8(), 2), pa.list_(pa.int8()), pa.null()]
    )
    async def test_members_that_do_not_fit(self, tmp_path: Path, kind: pa.DataType) -> None:
        field = pa.field("p", pa.struct([("a", pa.int8()), ("b", kind)]), metadata=PACKED)
        with pytest.raises(alance.InvalidInputError, match=r"'p\.b'.*packed struct"):
            await alance.write_dataset([], tmp_path / "new", schema=pa.schema([field]))

    async def test_null_members(self, tmp_path: Path) -> None:
        array = pa.array([{"a": 1, "b": None}], pa.struct([("a", pa.int8()), ("b", pa.int8())]))
        field = pa.field("p", array.type, metadata=PACKED)
        table = pa.table([array], schema=pa.schema([field]))
        with pytest.raises(alance.InvalidInputError, match="'b' of a packed struct holds nulls"):
            await alance.write_dataset(table, tmp_path / "new", data_storage_version="2.1")
