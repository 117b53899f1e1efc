"""Writing: modes, kinds of data, files and their limits, progress, and what a failure leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import lance
import pandas
import pyarrow as pa
import pytest

import alance
from alance.table.transactions import read_transaction
from tests.dataset.helpers import ROOT, column_a, data_files, files, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 100)


class Stream:
    """Anything with an Arrow stream, as data frames are."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def batches(table: pa.Table = TABLE) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=30)


async def batches_later(table: pa.Table = TABLE) -> AsyncIterator[pa.RecordBatch]:
    for batch in batches(table):
        await anyio.lowlevel.checkpoint()
        yield batch


class TestModes:
    async def test_create(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT)
        assert ds.version == 1
        assert (await ds.to_table()).equals(TABLE)

    async def test_append(self, tmp_path: Path) -> None:
        await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
        ds = await alance.write_dataset(numbers(3, 5), tmp_path / ROOT, mode="append")
        assert ds.version == 2
        assert (await ds.to_table()).equals(numbers(0, 5))

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    async def test_nothing_there_is_created(self, tmp_path: Path, mode: str) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT, mode=mode)
        assert ds.version == 1
        assert (await ds.to_table()).equals(TABLE)

    async def test_overwrite_with_another_schema(self, tmp_path: Path) -> None:
        first = await alance.write_dataset(TABLE, tmp_path / ROOT)
        other = pa.table({"x": ["new"], "a": [1.5]})
        ds = await alance.write_dataset(other, tmp_path / ROOT, mode="overwrite")
        assert ds.version == 2
        assert (await ds.to_table()).equals(other)
        assert (await first.to_table()).equals(TABLE), "old versions stay"
        more = await ds.overwrite(TABLE)
        assert (await more.to_table()).equals(TABLE)

    async def test_the_reference_reads_each_version(self, tmp_path: Path) -> None:
        uri = str(tmp_path / ROOT)
        ds = await alance.write_dataset(numbers(0, 7), uri, max_rows_per_file=3)
        ds = await ds.append(numbers(7, 9))
        await ds.overwrite(numbers(50, 60))
        for version, table in enumerate((numbers(0, 7), numbers(0, 9), numbers(50, 60)), 1):
            assert lance.dataset(uri, version=version).to_table().equals(table)


class TestData:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: TABLE,
            lambda: pa.concat_tables([TABLE.slice(0, 50), TABLE.slice(50)]),
            lambda: TABLE.combine_chunks().to_batches()[0],
            lambda: TABLE.to_reader(max_chunksize=7),
            lambda: Stream(TABLE),
        ],
        ids=["table", "chunked table", "batch", "reader", "stream"],
    )
    async def test_with_its_own_schema(self, tmp_path: Path, make: Any) -> None:
        ds = await alance.write_dataset(make(), tmp_path / ROOT)
        assert (await ds.to_table()).equals(TABLE)
        assert (
            await alance.write_dataset(make(), tmp_path / "two.lance", schema=TABLE.schema)
        ).schema == TABLE.schema

    @pytest.mark.parametrize(
        "make",
        [batches, lambda: list(batches()), lambda: tuple(batches()), batches_later],
        ids=["generator", "list", "tuple", "async generator"],
    )
    async def test_iterables_with_a_schema(self, tmp_path: Path, make: Any) -> None:
        ds = await alance.write_dataset(make(), tmp_path / ROOT, schema=TABLE.schema)
        assert (await ds.to_table()).equals(TABLE)
        ds = await ds.append(make(), schema=TABLE.schema)
        assert await ds.count_rows() == 200

    async def test_a_pandas_frame(self, tmp_path: Path) -> None:
        frame = pandas.DataFrame({"a": [1, 2, 3], "s": ["x", None, "z"]})
        ds = await alance.write_dataset(frame, tmp_path / ROOT)
        assert (await ds.to_table()).to_pydict() == {"a": [1, 2, 3], "s": ["x", None, "z"]}

    async def test_a_slice(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(TABLE.slice(13, 50), tmp_path / ROOT)
        assert (await ds.to_table()).equals(TABLE.slice(13, 50))

    async def test_views_are_stored_plain(self, tmp_path: Path) -> None:
        views = pa.table({
            "s": pa.array(["a", None, "long enough to be out of line"]).cast("string_view")
        })
        ds = await alance.write_dataset(views, tmp_path / ROOT, max_rows_per_file=2)
        assert (await ds.to_table())["s"].to_pylist() == views["s"].to_pylist()

    @pytest.mark.parametrize(
        "make", [lambda: TABLE.slice(0, 0), lambda: TABLE.schema.empty_table(), list]
    )
    async def test_no_rows(self, tmp_path: Path, make: Any) -> None:
        ds = await alance.write_dataset(make(), tmp_path / ROOT, schema=TABLE.schema)
        assert (len(ds.fragments), await ds.count_rows(), ds.schema) == (0, 0, TABLE.schema)
        assert data_files(tmp_path / ROOT) == set()
        same = await ds.append(make(), schema=TABLE.schema)
        assert (same.version, await same.count_rows()) == (2, 0)
        full = await same.append(TABLE)
        assert (await full.to_table()).equals(TABLE)
        assert lance.dataset(ds.uri, version=1).count_rows() == 0

    async def test_batches_without_rows(self, tmp_path: Path) -> None:
        empty = TABLE.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], TABLE.schema)]
        data = [*empty, *batches(), *empty]
        ds = await alance.write_dataset(data, tmp_path / ROOT, schema=TABLE.schema)
        assert (await ds.to_table()).equals(TABLE)


class TestFiles:
    @pytest.mark.parametrize(
        ("most", "expected"),
        [(100, [100]), (99, [99, 1]), (30, [30, 30, 30, 10]), (1, [1] * 100), (10**9, [100])],
    )
    async def test_rows_per_file(self, tmp_path: Path, most: int, expected: list[int]) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=most)
        assert [fragment.physical_rows for fragment in ds.fragments] == expected
        assert (await ds.to_table()).equals(TABLE)

    async def test_batches_run_on_across_files(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(
            batches(), tmp_path / ROOT, schema=TABLE.schema, max_rows_per_file=40
        )
        assert [fragment.physical_rows for fragment in ds.fragments] == [40, 40, 20]

    @pytest.mark.parametrize("chunks", [1, 100])
    async def test_bytes_per_file(self, tmp_path: Path, chunks: int) -> None:
        table = pa.table({"a": range(100_000)})
        data = table.to_batches(max_chunksize=100_000 // chunks)
        ds = await alance.write_dataset(
            data, tmp_path / ROOT, schema=table.schema, max_bytes_per_file=100_000
        )
        assert len(ds.fragments) in (8, 9)
        assert {f.physical_rows for f in ds.fragments[:-1]} <= set(range(12_000, 14_001))
        assert (await ds.to_table()).equals(table)

    async def test_every_file_is_in_the_manifest_with_its_size(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=30)
        named = {
            f"data/{file.path}": file.file_size_bytes for f in ds.fragments for file in f.files
        }
        found = {name: size for name, size in files(tmp_path / ROOT).items() if "data" in name}
        assert named == found

    async def test_long_data_in_bounded_memory(self, tmp_path: Path) -> None:
        """Rows pulled from the source are at most a few pages ahead of what was written."""
        batch = pa.record_batch({"a": pa.array(range(100_000), pa.int64())})
        pulled, written = 0, 0
        ahead: list[int] = []

        def source() -> Iterator[pa.RecordBatch]:
            nonlocal pulled
            for _ in range(30):
                pulled += batch.num_rows
                ahead.append(pulled - written)
                yield batch

        def note(progress: alance.WriteProgress) -> None:
            nonlocal written
            written = progress.num_rows

        before = pa.total_allocated_bytes()
        ds = await alance.write_dataset(
            source(), tmp_path / ROOT, schema=batch.schema, progress=note
        )
        assert max(ahead) == batch.num_rows, "one batch at a time"
        assert await ds.count_rows() == 3_000_000
        assert pa.total_allocated_bytes() - before < 8 << 20


class TestOptions:
    async def test_progress(self, tmp_path: Path) -> None:
        seen: list[alance.WriteProgress] = []
        ds = await alance.write_dataset(
            batches(),
            tmp_path / ROOT,
            schema=TABLE.schema,
            max_rows_per_file=60,
            progress=seen.append,
        )
        assert [(one.num_rows, one.num_files) for one in seen] == [
            (30, 0), (60, 1), (60, 1), (90, 1), (100, 1), (100, 2),
        ]  # fmt: skip
        assert [one.num_bytes for one in seen] == sorted(one.num_bytes for one in seen)
        sizes = [file.file_size_bytes for f in ds.fragments for file in f.files]
        assert seen[-1].num_bytes == sum(sizes)

    async def test_transaction_properties(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT, transaction_properties={"job": "7"})
        transaction = await read_transaction(ds._places.table, ds._manifest)
        assert transaction is not None
        assert transaction.properties == {"job": "7"}
        ds = await ds.append(TABLE, transaction_properties={"job": "8", "by": "x"})
        transaction = await read_transaction(ds._places.table, ds._manifest)
        assert transaction is not None
        assert transaction.properties == {"job": "8", "by": "x"}

    @pytest.mark.parametrize("version", [None, "2.1", "stable"])
    async def test_data_storage_version(self, tmp_path: Path, version: str | None) -> None:
        ds = await alance.write_dataset(TABLE, tmp_path / ROOT, data_storage_version=version)
        assert ds.data_storage_version == "2.1"
        assert lance.dataset(ds.uri).data_storage_version == "2.1"

    async def test_stable_row_ids(self, tmp_path: Path) -> None:
        ds = await alance.write_dataset(
            numbers(0, 5), tmp_path / ROOT, enable_stable_row_ids=True, max_rows_per_file=3
        )
        ds = await ds.append(numbers(5, 8))
        found = lance.dataset(ds.uri).to_table(columns=["a"], with_row_id=True)
        assert found.to_pydict() == {"a": list(range(8)), "_rowid": list(range(8))}
        assert (await ds.to_table()).equals(numbers(0, 8))
        assert (await ds.to_table(["a"], with_row_id=True)).equals(found)


class TestParts:
    """Writes by several workers: uploads first, then one commit."""

    async def test_uploads_become_visible_together(self, tmp_path: Path) -> None:
        uri = tmp_path / ROOT
        parts = [
            await alance.write_fragments(numbers(i * 10, i * 10 + 10), uri, max_rows_per_file=6)
            for i in range(3)
        ]
        with pytest.raises(alance.DatasetNotFoundError):
            await alance.open_dataset(uri)
        fragments = [fragment for part in parts for fragment in part]
        ds = await alance.commit_fragments(uri, fragments, schema=TABLE.schema)
        assert column_a(await ds.to_table()) == list(range(30))
        assert [fragment.id for fragment in ds.fragments] == list(range(6))

    async def test_discarded_uploads_are_gone(self, tmp_path: Path) -> None:
        fragments = await alance.write_fragments(TABLE, tmp_path / ROOT, max_rows_per_file=9)
        assert len(data_files(tmp_path / ROOT)) == len(fragments) == 12
        await alance.discard_fragments(tmp_path / ROOT, fragments)
        assert files(tmp_path / ROOT) == {}
