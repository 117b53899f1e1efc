"""What the format allows of a file beyond what writers make of it, and the cost of wide files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from lance.file import LanceFileReader

import alance
from alance.errors import CorruptFileError, FormatError, InvalidInputError, UnsupportedFeatureError
from alance.file import reader as reader_module
from alance.file.metadata import parse_column_metadata
from alance.io.simulated import SimulatedStore
from alance.proto import file_pb2
from alance.types import ByteRange
from tests.file.handmade import HandmadeFile, column_encoding
from tests.file.tables import PATH, open_reader, read_table, write_table

pytestmark = pytest.mark.anyio

RNG = np.random.default_rng(21)
NUM_ROWS = 3000
TABLE = pa.table({
    "id": pa.array(RNG.integers(0, 1 << 40, NUM_ROWS)),
    "name": [f"name {i}" if i % 7 else None for i in range(NUM_ROWS)],
    "tags": [None if i % 11 == 0 else list(range(i % 4)) for i in range(NUM_ROWS)],
})
FAR = 300_000
"""More bytes than a tail of a small file has."""


async def stored(table: pa.Table) -> bytes:
    store = SimulatedStore()
    await write_table(store, table, max_chunksize=1000)
    return store.objects[PATH]


async def handmade(table: pa.Table = TABLE) -> HandmadeFile:
    return HandmadeFile(await stored(table))


def store_of(data: bytes) -> SimulatedStore:
    store = SimulatedStore()
    store.preload(PATH, data)
    return store


async def check(data: bytes, table: pa.Table = TABLE) -> SimulatedStore:
    """Read it all, and some rows; returns the store with the requests of the former."""
    store = store_of(data)
    reader = await open_reader(store, len(data))
    assert (await read_table(reader, table.schema)).equals(table)
    requests = list(store.requests)
    rows = [1, 999, 1000, 2998]
    assert (await read_table(reader, table.schema, rows)).equals(table.take(rows))
    store.requests[:] = requests
    return store


class TestDeferredEncodings:
    @pytest.mark.parametrize("far", [0, FAR])
    async def test_of_pages(self, far: int) -> None:
        file = await handmade()
        for column in file.columns:
            for page in column.pages:
                file.defer(page.encoding)
        file.add(bytes(far))
        await check(file.build())

    @pytest.mark.parametrize("far", [0, FAR])
    async def test_of_columns_in_one_round(self, far: int) -> None:
        file = await handmade(TABLE.select(["id", "name"]))
        for column in file.columns:
            file.defer(column.encoding)
        file.add(bytes(far))
        store = store_of(file.build())
        reader = await open_reader(store, len(store.objects[PATH]))
        opened = await reader.columns([1, 0, 1])
        assert [column.index for column in opened] == [1, 0, 1]
        assert len(store.requests) == (2 if far else 1)

    async def test_shared_in_global_and_column_buffers(self) -> None:
        file = await handmade()
        shared = file.add(column_encoding())
        file.global_buffers.append(shared)
        for column in file.columns:
            column.encoding.indirect.buffer_location = shared.start
            column.encoding.indirect.buffer_length = shared.num_bytes
            place = file.defer(column.pages[0].encoding)
            column.buffer_offsets.append(place.start)
            column.buffer_sizes.append(place.num_bytes)
        await check(file.build())

    async def test_an_encoding_that_is_none_of_these_bytes(self) -> None:
        file = await handmade()
        place = file.add(b"\xff" * 50)
        for encoding in (file.columns[1].pages[0].encoding, file.columns[2].encoding):
            encoding.indirect.buffer_location = place.start
            encoding.indirect.buffer_length = place.num_bytes
        store = store_of(file.build())
        reader = await open_reader(store, None)
        with pytest.raises(CorruptFileError, match=PATH) as caught:
            await read_table(reader, TABLE.schema)
        assert caught.value.__notes__ == ["in page 0 of column 1"]
        with pytest.raises(CorruptFileError, match=PATH) as caught:
            await reader.column(2)
        assert caught.value.__notes__ == ["in the metadata of column 2"]

    @pytest.mark.parametrize("of", ["page", "column"])
    async def test_none(self, of: str) -> None:
        file = await handmade()
        column = file.columns[1]
        (column.pages[0] if of == "page" else column).encoding.none.SetInParent()
        reader = await open_reader(store_of(file.build()), None)
        with pytest.raises(UnsupportedFeatureError, match=f"a {of} says .*'none'") as caught:
            await reader.column(1)
        assert caught.value.__notes__ == ["in the metadata of column 1", f"in file {PATH}"]


class TestColumnEncodings:
    @pytest.mark.parametrize(
        "arms", [("blob",), ("zone_index",), ("zone_index", "blob")], ids="-".join
    )
    async def test_around_pages_that_say_all(self, arms: tuple[str, ...], tmp_path: Path) -> None:
        file = await handmade()
        for column in file.columns:
            column.encoding.direct.encoding = column_encoding(*arms)
        data = file.build()
        await check(data)
        (tmp_path / "f").write_bytes(data)
        assert LanceFileReader(str(tmp_path / "f")).read_all().to_table().equals(TABLE)

    async def test_deep(self) -> None:
        file = await handmade()
        file.columns[0].encoding.direct.encoding = column_encoding(*["blob"] * 60)
        reader = await open_reader(store_of(file.build()), None)
        with pytest.raises(CorruptFileError, match="column encoding"):
            await reader.column(0)


def add_unknown(message: Message) -> None:
    """Append a member that no version of the format has."""
    message.MergeFromString(b"\xfa\x3e\x03abc")


def every_message(file: HandmadeFile) -> None:
    add_unknown(file.descriptor)
    for field in file.descriptor.schema.fields:
        add_unknown(field)
    for column in file.columns:
        add_unknown(column)
        add_unknown(column.encoding)
        for page in column.pages:
            add_unknown(page)


def priorities(file: HandmadeFile) -> None:
    for column in file.columns:
        for page in column.pages:
            page.priority = (1 << 64) - 1 - page.priority


def field_ids(file: HandmadeFile) -> None:
    """Large ones with gaps, in descending order."""
    fields = file.descriptor.schema.fields
    new = {-1: -1} | {field.id: 9000 - 7 * field.id for field in fields}
    for field in fields:
        field.id, field.parent_id = new[field.id], new[field.parent_id]


def hints(file: HandmadeFile) -> None:
    for field in file.descriptor.schema.fields:
        field.type = file_pb2.Field.LEAF
        field.encoding = file_pb2.RLE
    file.descriptor.length = 12345


def empty_pages(file: HandmadeFile) -> None:
    """Pages without rows, and buffers without bytes or users."""
    place = file.add(b"")
    for column in file.columns:
        empty = file_pb2.ColumnMetadata.Page(encoding=column.pages[0].encoding)
        empty.buffer_offsets.extend([place.start] * 3)
        empty.buffer_sizes.extend([0] * 3)
        column.pages.insert(0, empty)
        column.pages.add().CopyFrom(empty)
        column.buffer_offsets.append(place.start)
        column.buffer_sizes.append(0)


def buffers(file: HandmadeFile) -> None:
    for size in (0, 5, 1000):
        file.global_buffers.append(file.add(bytes(size)))


def gaps(file: HandmadeFile) -> None:
    file.gap = 37


CHANGES = [every_message, priorities, field_ids, hints, empty_pages, buffers, gaps]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_what_readers_tolerate(
    change: Callable[[HandmadeFile], None], backwards: bool, tmp_path: Path
) -> None:
    file = await handmade()
    change(file)
    data = file.build(backwards=backwards)
    await check(data)
    (tmp_path / "f").write_bytes(data)
    opened = await alance.open_file(tmp_path / "f")
    assert opened.num_rows == NUM_ROWS, "pages decide"
    assert (await opened.read()).equals(TABLE)
    for index, place in enumerate(file.global_buffers):
        assert await opened.global_buffer(index + 1) == data[place.start : place.stop]


class TestColumnsOfDifferentLengths:
    async def path(self, folder: Path) -> Path:
        """A file whose column `name` has lost its last page, and `tags` all but one."""
        file = HandmadeFile(await stored(pa.concat_tables([TABLE] * 3)))
        pages = [list(column.pages) for column in file.columns]
        for column, kept in zip(file.columns, pages, strict=True):
            first = kept[0]
            copies = {0: 3, 1: 2, 2: 1}[file.columns.index(column)]
            del column.pages[:]
            for _ in range(copies):
                column.pages.add().CopyFrom(first)
        (folder / "f").write_bytes(file.build())
        return folder / "f"

    async def test_each_alone(self, tmp_path: Path) -> None:
        path = await self.path(tmp_path)
        file = await alance.open_file(path)
        whole = pa.concat_tables([TABLE] * 3)
        assert file.num_rows == 3 * 3 * NUM_ROWS
        for name, copies in [("id", 3), ("name", 2), ("tags", 1)]:
            expected = pa.concat_tables([whole.select([name])] * copies)
            assert (await file.read([name])).equals(expected)
            theirs = LanceFileReader(str(path), columns=[name]).read_all().to_table()
            assert theirs.equals(expected)
            batches = [batch async for batch in file.scan([name])]
            assert pa.Table.from_batches(batches).equals(expected)
            last = expected.num_rows - 1
            assert (await file.take([last], [name])).equals(expected.slice(last))
            with pytest.raises(InvalidInputError, match=f"the file has {last + 1} rows"):
                await file.take([last + 1], [name])

    async def test_together(self, tmp_path: Path) -> None:
        file = await alance.open_file(await self.path(tmp_path))
        message = r"'id' 27000, 'name' 18000, 'tags' 9000"
        with pytest.raises(InvalidInputError, match=message):
            await file.read()
        with pytest.raises(InvalidInputError, match=message):
            await file.take([0])
        with pytest.raises(InvalidInputError, match=message):
            await file.scan().to_table()

    async def test_leaves_of_one_field(self, tmp_path: Path) -> None:
        rows = [{"x": i, "y": i} for i in range(10)]
        file = await handmade(pa.table({"p": rows, "q": range(10)}))
        del file.columns[1].pages[:]
        (tmp_path / "f").write_bytes(file.build())
        with pytest.raises(CorruptFileError, match=r"column 'p' .* \[0, 10\]"):
            await alance.open_file(tmp_path / "f")


@pytest.mark.parametrize("num_rows", [(1 << 32) + 1, (1 << 64) - 1])
async def test_rows_beyond_reason(num_rows: int, tmp_path: Path) -> None:
    """Rows that cost no bytes, in a file without columns and in one of a constant page."""
    bare = await handmade(pa.table({}))
    bare.descriptor.length = num_rows
    null = await handmade(pa.table({"n": pa.nulls(3)}))
    null.columns[0].pages[0].length = min(num_rows, 1 << 61)
    for file in (bare, null):
        (tmp_path / "f").write_bytes(file.build())
        with pytest.raises(CorruptFileError, match="at most 4294967296 make sense"):
            await alance.open_file(tmp_path / "f")


async def test_a_damaged_page_concerns_its_readers_only(tmp_path: Path) -> None:
    file = await handmade()
    for column in file.columns:
        column.pages.add().CopyFrom(column.pages[0])
    file.columns[0].pages[0].encoding.direct.encoding = b"\xff"
    (tmp_path / "f").write_bytes(file.build())
    opened = await alance.open_file(tmp_path / "f")
    assert (await opened.read(start=NUM_ROWS)).equals(TABLE)
    with pytest.raises(CorruptFileError) as caught:
        await opened.take([0])
    assert caught.value.__notes__ == ["in page 0 of column 0"]


class TestWideFiles:
    """10,000 columns, three of which are wanted."""

    NUM_COLUMNS = 10_000
    NAMES = ("c17", "c4000", "c9999")

    async def data(self) -> bytes:
        file = await handmade(pa.table({"c": [1, 2, 3]}))
        (field,) = file.descriptor.schema.fields
        file.columns = file.columns * self.NUM_COLUMNS
        del file.descriptor.schema.fields[:]
        for i in range(self.NUM_COLUMNS):
            file.descriptor.schema.fields.add().CopyFrom(field)
            file.descriptor.schema.fields[i].id = i
            file.descriptor.schema.fields[i].name = f"c{i}"
        return file.build()

    async def test_only_wanted_columns_are_parsed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "f").write_bytes(await self.data())
        parsed = []

        def parse(data: memoryview, **options: object) -> object:
            parsed.append(len(data))
            return parse_column_metadata(data, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(reader_module, "parse_column_metadata", parse)
        with alance.receipt() as r:
            file = await alance.open_file(tmp_path / "f")
        assert r.rounds == 3, "the tail, the tables, then schema and first column together"
        found = await file.read(self.NAMES)
        assert found.to_pydict() == {name: [1, 2, 3] for name in self.NAMES}
        assert len(parsed) == 4, "the first, for the number of rows, and these"

    async def test_only_wanted_columns_are_fetched(self) -> None:
        data = await self.data()
        store = store_of(data)
        few = await open_reader(store, len(data))
        tables = [request.kind for request in store.requests]
        assert len(tables) == 2, "the tail, and the tables that it does not reach back to"
        for column in await few.columns([17, 4000, 9999]):
            assert column.num_rows == 3
        assert len(store.requests) <= 2 + 3
        assert few.cached_bytes < len(data) // 4

    async def test_all_columns_are_fetched_together(self) -> None:
        data = await self.data()
        store = store_of(data)
        reader = await open_reader(store, len(data), num_wanted=self.NUM_COLUMNS)
        assert len(store.requests) == 2
        found = await reader.columns(range(self.NUM_COLUMNS))
        assert sum(column.num_rows for column in found) == 3 * self.NUM_COLUMNS
        assert len(store.requests) == 2


class TestErrorsNameTheirPlace:
    async def damaged(self, buffer: int) -> SimulatedStore:
        """A file of which one buffer of the second page of `name` is overwritten."""
        file = await handmade()
        for column in file.columns:
            column.pages.add().CopyFrom(column.pages[0])
        page = file.columns[1].pages[1]
        bad = file.add(b"\xff" * page.buffer_sizes[buffer])
        page.buffer_offsets[buffer] = bad.start
        file.add(bytes(FAR))
        return store_of(file.build())

    @pytest.mark.parametrize("buffer", [0, 1], ids=["chunk table", "values"])
    async def test_in_whatever_step(self, buffer: int) -> None:
        store = await self.damaged(buffer)
        reader = await open_reader(store, len(store.objects[PATH]))
        schema = pa.schema([TABLE.schema.field("id"), TABLE.schema.field("name")])
        with pytest.raises(FormatError) as caught:
            await read_table(reader, schema)
        assert isinstance(caught.value, CorruptFileError)
        assert caught.value.path == PATH
        assert caught.value.__notes__ == ["in page 1 of column 1"]

    async def test_ranges_of_metadata_that_no_file_has(self) -> None:
        file = await handmade()
        data = bytearray(file.build())
        footer = len(data) - 40
        table = int.from_bytes(data[footer + 8 : footer + 16], "little")
        data[table + 16 : table + 32] = (0).to_bytes(8, "little") + (1 << 62).to_bytes(8, "little")
        with pytest.raises(CorruptFileError, match="metadata of column 1 lies at"):
            await open_reader(store_of(bytes(data)), None)

    async def test_bytes_after_the_end(self) -> None:
        reader = await open_reader(store_of(await stored(TABLE)), None)
        with pytest.raises(CorruptFileError, match="refers to more"):
            await reader.fetch([ByteRange(0, 1 << 40)])
