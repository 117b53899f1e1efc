"""What cannot be: each kind of bad input, what the error says, and that nothing was written."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.testing.s3 import S3Server
from tests.dataset.helpers import ROOT, files, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 100)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=50)
    return await alance.open_dataset(tmp_path / ROOT, session=alance.Session())


@asynccontextmanager
async def refused(
    place: Path, kind: type[alance.AlanceError], *says: str
) -> AsyncGenerator[None, None]:
    """Check that the block raises, says what is wrong and what to do, and writes nothing."""
    before = files(place)
    with pytest.raises(kind) as caught:
        yield
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    for text in says:
        assert text in message
    assert files(place) == before


class TestPlaces:
    async def test_no_dataset(self, tmp_path: Path) -> None:
        place = tmp_path / "nothing.lance"
        async with refused(
            tmp_path, alance.DatasetNotFoundError, str(place), "check the address", "write_dataset"
        ):
            await alance.open_dataset(place)

    async def test_no_dataset_in_a_bucket(self, s3_server: S3Server, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.DatasetNotFoundError, "s3://bucket/nothing.lance"):
            await alance.open_dataset(
                "s3://bucket/nothing.lance", storage_options=s3_server.storage_options
            )

    async def test_a_folder_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("1,2")
        async with refused(tmp_path, alance.DatasetNotFoundError, "no manifest"):
            await alance.open_dataset(tmp_path)
        async with refused(tmp_path, alance.DatasetNotFoundError, "no manifest"):
            await alance.open_dataset(tmp_path / "a.csv")

    @pytest.mark.parametrize("version", [2, 99, 1 << 63, 1 << 70])
    async def test_no_such_version(
        self, dataset: alance.Dataset, tmp_path: Path, version: int
    ) -> None:
        async with refused(
            tmp_path, alance.VersionNotFoundError, f"no version {version}", "the newest is 1"
        ):
            await alance.open_dataset(dataset.uri, version=version)
        async with refused(tmp_path, alance.VersionNotFoundError, f"no version {version}"):
            await dataset.checkout(version)

    @pytest.mark.parametrize("version", [0, -1, 1.5, True, b"1"])
    async def test_no_version_number(
        self, dataset: alance.Dataset, tmp_path: Path, version: Any
    ) -> None:
        async with refused(
            tmp_path, alance.InvalidInputError, f"a whole number from 1, not {version!r}"
        ):
            await alance.open_dataset(dataset.uri, version=version)

    async def test_a_tag(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.VersionNotFoundError, "has no tag 'prod'"):
            await alance.open_dataset(dataset.uri, version="prod")

    @pytest.mark.parametrize(
        ("uri", "says"),
        [
            ("ftp://host/x.lance", "'ftp' is unknown; one of s3, gs, az, s3+ddb, file, memory"),
            ("s3://", "no bucket"),
            ("", "no path"),
            ("s3://bucket/a/../b", "'..'"),
            ("s3://bucket/\ud800", "must be text"),
            (None, "a place, which is a URI or a path, must be text, not None"),
            (b"x.lance", "must be text, not b'x.lance'"),
        ],
    )
    async def test_no_place(self, tmp_path: Path, uri: Any, says: str) -> None:
        async with refused(tmp_path, alance.InvalidInputError, says):
            await alance.open_dataset(uri)
        async with refused(tmp_path, alance.InvalidInputError, says):
            await alance.write_dataset(TABLE, uri)

    async def test_an_external_manifest_store(self, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.InvalidInputError, "?ddbTableName=table"):
            await alance.open_dataset("s3+ddb://bucket/x.lance?table=t")


class TestWrites:
    @pytest.mark.parametrize("text", ["\ud800", 1, None])
    async def test_properties_that_are_no_text(
        self, dataset: alance.Dataset, tmp_path: Path, text: Any
    ) -> None:
        for properties in ({"a": text}, {text: "a"}):
            for change in (
                partial(dataset.append, TABLE),
                partial(dataset.delete, "a < 3"),
                dataset.restore,
            ):
                async with refused(tmp_path, alance.InvalidInputError, "must map text to text"):
                    await change(transaction_properties=properties)

    async def test_creating_what_exists(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        async with refused(
            tmp_path,
            alance.DatasetAlreadyExistsError,
            "a dataset exists",
            "(version 1)",
            'mode="append" or mode="overwrite"',
        ):
            await alance.write_dataset(TABLE, dataset.uri)

    @pytest.mark.parametrize(
        ("data", "says"),
        [
            (pa.table({"b": [1]}), ["b: the dataset has no such column"]),
            (pa.table({"a": ["x"]}), ["a: the dataset has type int64, the data string"]),
            (pa.table({"a": pa.array([1], pa.int32())}), ["int64, the data int32"]),
            (
                pa.table({"a": ["x"], "b": [1]}),
                ["a: the dataset has type", "b: the dataset has no"],
            ),
            (pa.table({"p": [{"x": 1}]}), ["p: the dataset has"]),
        ],
    )
    async def test_appending_another_schema(
        self, dataset: alance.Dataset, tmp_path: Path, data: pa.Table, says: list[str]
    ) -> None:
        async with refused(tmp_path, alance.SchemaMismatchError, *says):
            await dataset.append(data)
        async with refused(tmp_path, alance.SchemaMismatchError, *says):
            await alance.write_dataset(data, dataset.uri, mode="append")

    async def test_leaving_out_what_must_not_be_null(self, tmp_path: Path) -> None:
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
        table = pa.table({"k": [1], "v": [2]}, schema=schema)
        ds = await alance.write_dataset(table, tmp_path / ROOT)
        async with refused(tmp_path, alance.SchemaMismatchError, "k: the data lacks this column"):
            await ds.append(pa.table({"v": [1]}))
        async with refused(tmp_path, alance.SchemaMismatchError, "k: the dataset allows no null"):
            await ds.append(pa.table({"k": [1], "v": [2]}))

    async def test_nulls_that_are_not_allowed(self, tmp_path: Path) -> None:
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
        table = pa.table({"k": [1, None, None]}, schema=schema)
        async with refused(
            tmp_path, alance.InvalidInputError, "'k' is declared not null but holds 2", "fill them"
        ):
            await alance.write_dataset(table, tmp_path / ROOT)

    @pytest.mark.parametrize(
        ("kind", "value", "path"),
        [
            (pa.struct([pa.field("x", pa.int64(), nullable=False)]), [{"x": None}, None], "k.x"),
            (pa.list_(pa.field("item", pa.int64(), nullable=False)), [[1, None]], "k.item"),
            (
                pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
                [[("a", 1)], None, [("b", None)]],
                "k.entries.value",
            ),
        ],
    )
    async def test_nulls_inside(
        self, tmp_path: Path, kind: pa.DataType, value: list[Any], path: str
    ) -> None:
        plain = pa.array([None], kind) if not value else _unchecked(kind, value)
        async with refused(
            tmp_path, alance.InvalidInputError, f"{path!r} is declared not null but holds 1"
        ):
            await alance.write_dataset(
                pa.table({"k": plain}), tmp_path / ROOT, data_storage_version="2.2"
            )

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({"mode": "replace"}, "mode 'replace' is unknown; one of create, append, overwrite"),
            ({"mode": None}, "mode None is unknown"),
            ({"data_storage_version": "3.0"}, "'3.0' is unknown; one of 0.1, 2.0, 2.1, 2.2"),
            ({"data_storage_version": 2.1}, "data_storage_version 2.1 is unknown"),
            ({"data_storage_version": "2.0"}, "use '2.1'"),
            ({"data_storage_version": "legacy"}, "use '2.1'"),
            ({"max_rows_per_file": 0}, "max_rows_per_file must be a whole number from 1, not 0"),
            ({"max_rows_per_file": None}, "max_rows_per_file"),
            ({"max_bytes_per_file": 0}, "max_bytes_per_file must be a whole number from 1"),
            ({"max_bytes_per_file": "1 GB"}, "max_bytes_per_file"),
            ({"transaction_properties": {"n": 5}}, "must map text to text, not 'n' to 5"),
            ({"storage_options": 5}, "storage_options must be a mapping"),
        ],
        ids=repr,
    )
    async def test_arguments(self, tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
        async with refused(tmp_path, alance.InvalidInputError, says):
            await alance.write_dataset(TABLE, tmp_path / ROOT, **arguments)

    async def test_another_version_of_files(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.InvalidInputError, "2.1; an append cannot change it"):
            await alance.write_dataset(
                TABLE, dataset.uri, mode="append", data_storage_version="2.2"
            )

    @pytest.mark.parametrize("version", ["2.0", "legacy"])
    async def test_appending_to_what_only_others_write(self, tmp_path: Path, version: str) -> None:
        lance.write_dataset(TABLE, str(tmp_path / ROOT), data_storage_version=version)
        async with refused(tmp_path, alance.InvalidInputError, "cannot be written"):
            await alance.write_dataset(TABLE, tmp_path / ROOT, mode="append")


class TestData:
    @pytest.mark.parametrize("data", [5, None, "text", b"bytes", {"a": [1]}, pa.int8()])
    async def test_what_is_no_data(self, tmp_path: Path, data: Any) -> None:
        async with refused(
            tmp_path,
            alance.InvalidInputError,
            type(data).__name__,
            "give a pyarrow Table",
        ):
            await alance.write_dataset(data, tmp_path / ROOT)

    async def test_an_iterable_without_schema(self, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.InvalidInputError, "needs schema="):
            await alance.write_dataset(TABLE.to_batches(), tmp_path / ROOT)

    async def test_a_schema_that_is_none(self, tmp_path: Path) -> None:
        async with refused(
            tmp_path, alance.InvalidInputError, "schema must be a pyarrow Schema, not dict"
        ):
            await alance.write_dataset(TABLE.to_batches(), tmp_path / ROOT, schema={"a": "int"})

    async def test_an_iterable_of_something_else(self, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.InvalidInputError, "yields dict, not RecordBatch"):
            await alance.write_dataset([{"a": 1}], tmp_path / ROOT, schema=TABLE.schema)

    async def test_a_batch_with_another_schema(self, tmp_path: Path) -> None:
        def source() -> Iterator[pa.RecordBatch]:
            yield from TABLE.to_batches()
            yield from TABLE.select(["a"]).to_batches()

        async with refused(tmp_path, alance.SchemaMismatchError, "was announced as"):
            await alance.write_dataset(source(), tmp_path / ROOT, schema=TABLE.schema)

    async def test_a_schema_beside_data_of_another(self, tmp_path: Path) -> None:
        async with refused(tmp_path, alance.SchemaMismatchError, "schema= says", "the data has"):
            await alance.write_dataset(TABLE, tmp_path / ROOT, schema=pa.schema([("a", "int32")]))

    @pytest.mark.parametrize(
        "kind",
        [
            pa.map_(pa.string(), pa.int64()),
            pa.month_day_nano_interval(),
            pa.dense_union([pa.field("x", pa.int64())]),
            pa.run_end_encoded(pa.int32(), pa.int64()),
        ],
        ids=str,
    )
    async def test_types_that_cannot_be_stored(self, tmp_path: Path, kind: pa.DataType) -> None:
        schema = pa.schema([("fine", pa.int64()), ("odd", kind)])
        with pytest.raises(alance.AlanceError, match="odd") as caught:
            await alance.write_dataset([], tmp_path / ROOT, schema=schema)
        assert isinstance(caught.value, alance.InvalidInputError | alance.UnsupportedFeatureError)
        assert files(tmp_path) == {}

    @pytest.mark.parametrize(
        ("metadata", "kind", "says"),
        [
            ({"lance-encoding:blob": "true"}, pa.string(), "as a blob"),
            (
                {"lance-encoding:packed": "true"},
                pa.struct([("y", pa.bool_())]),
                "in a packed struct",
            ),
        ],
    )
    async def test_fields_to_be_stored_apart(
        self, tmp_path: Path, metadata: dict[str, str], kind: pa.DataType, says: str
    ) -> None:
        schema = pa.schema([pa.field("x", kind, metadata=metadata)])
        async with refused(
            tmp_path, alance.InvalidInputError, "'x", f"cannot be stored {says}", "remove"
        ):
            await alance.write_dataset([], tmp_path / ROOT, schema=schema)

    async def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
        async with refused(tmp_path, alance.InvalidInputError, "'a'"):
            await alance.write_dataset(table, tmp_path / ROOT)


class TestStoredBytes:
    def data_file(self, dataset: alance.Dataset, tmp_path: Path) -> Path:
        return tmp_path / ROOT / "data" / dataset.fragments[1].files[0].path

    @pytest.mark.parametrize("keep", [0, 1, 39, 40, 500, -1, -40])
    async def test_a_truncated_data_file(
        self, dataset: alance.Dataset, tmp_path: Path, keep: int
    ) -> None:
        path = self.data_file(dataset, tmp_path)
        path.write_bytes(path.read_bytes()[:keep])
        says = (path.name, f"has {path.stat().st_size} bytes where the manifest records")
        async with refused(tmp_path, alance.CorruptFileError, *says):
            await dataset.to_table()
        async with refused(tmp_path, alance.CorruptFileError, *says):
            await dataset.take([70])
        assert (await dataset.take([0])).equals(TABLE.slice(0, 1)), "other files are fine"

    @pytest.mark.parametrize("filler", [b"\x00", b"\xff", b"garbage!"])
    async def test_a_data_file_of_garbage(
        self, dataset: alance.Dataset, tmp_path: Path, filler: bytes
    ) -> None:
        path = self.data_file(dataset, tmp_path)
        size = path.stat().st_size
        path.write_bytes((filler * size)[:size])
        async with refused(tmp_path, alance.CorruptFileError, path.name, "LANC"):
            await dataset.to_table()

    async def test_a_data_file_that_is_gone(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        path = self.data_file(dataset, tmp_path)
        path.unlink()
        async with refused(tmp_path, alance.ObjectNotFoundError, path.name):
            await dataset.to_table()

    async def test_another_datasets_data_file(
        self, dataset: alance.Dataset, tmp_path: Path
    ) -> None:
        other = await alance.write_dataset(pa.table({"x": range(7)}), tmp_path / "other.lance")
        path = self.data_file(dataset, tmp_path)
        stranger = tmp_path / "other.lance" / "data" / other.fragments[0].files[0].path
        path.write_bytes(stranger.read_bytes().rjust(path.stat().st_size, b"\0"))
        async with refused(tmp_path, alance.AlanceError, path.name):
            await dataset.to_table()

    def manifest(self, tmp_path: Path) -> Path:
        (path,) = (tmp_path / ROOT / "_versions").glob("*.manifest")
        return path

    @pytest.mark.parametrize("cut", [0, 10, 100, -1])
    async def test_a_truncated_manifest(
        self, dataset: alance.Dataset, tmp_path: Path, cut: int
    ) -> None:
        path = self.manifest(tmp_path)
        path.write_bytes(path.read_bytes()[:cut])
        async with refused(tmp_path, alance.CorruptFileError, path.name):
            await alance.open_dataset(dataset.uri)

    async def test_an_unknown_reader_feature(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        path = self.manifest(tmp_path)
        raw = path.read_bytes()
        (start,) = struct.unpack("<Q", raw[-16:-8])
        (length,) = struct.unpack("<I", raw[start : start + 4])
        message = (
            raw[start + 4 : start + 4 + length] + b"\x48\x80\x80\x80\x80\x04"
        )  # field 9: 1 << 30
        path.write_bytes(
            raw[:start] + struct.pack("<I", len(message)) + message + raw[start + 4 + length :]
        )
        async with refused(tmp_path, alance.UnsupportedFeatureError, "0x40000000"):
            await alance.open_dataset(dataset.uri)


def _unchecked(kind: pa.DataType, value: list[Any]) -> pa.Array:
    """Values of a type that forbids some of them, which Arrow does not check."""
    if pa.types.is_struct(kind):
        child = pa.array([row and row["x"] for row in value], kind.field(0).type)
        mask = pa.array([row is None for row in value])
        return pa.StructArray.from_arrays([child], fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        free = pa.array(value, pa.map_(kind.key_type, kind.item_type))
        entries = pa.StructArray.from_arrays(
            [free.keys, free.items], fields=list(kind.field(0).type)
        )
        return pa.Array.from_buffers(kind, len(free), free.buffers()[:2], children=[entries])
    child = pa.array([item for row in value for item in row], kind.value_type)
    return pa.ListArray.from_arrays(pa.array([0, len(child)], pa.int32()), child, type=kind)
