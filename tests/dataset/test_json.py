"""JSON columns, written here and read by the reference implementation, and the other way round."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import alance

pytestmark = pytest.mark.anyio

TEXTS = ['{"b": 1, "a": [1, 2.50]}', None, "null", "1e300", '"é"', "18446744073709551615", "[]"]
UUIDS = pa.array([bytes(16), bytes(range(16))], pa.binary(16))


def json_array(texts: list[str | None], storage: pa.DataType | None = None) -> pa.Array:
    strings = pa.array(texts, storage or pa.string())
    return pa.ExtensionArray.from_storage(pa.json_(strings.type), strings)


def struct_array(hidden: str = "{}") -> pa.Array:
    """Structs with JSON, null where the last is hidden."""
    members = [json_array([*TEXTS[:6], hidden]), pa.array(range(7))]
    mask = pa.array([False] * 5 + [False, True])
    return pa.StructArray.from_arrays(members, names=["j", "n"], mask=mask)


def list_array(kind: type[pa.Array], offset_type: pa.DataType, hidden: str = "{}") -> pa.Array:
    """Lists of JSON, the first of which begins after something hidden."""
    items = json_array([hidden, *TEXTS])
    offsets = pa.array([1, 3, None, 3, 6, 8], offset_type)
    return kind.from_arrays(offsets, items)


ARRAYS = {
    "plain": json_array(TEXTS),
    "large": json_array(TEXTS, pa.large_string()),
    "slice": json_array(["1", *TEXTS, "2"]).slice(1, len(TEXTS)),
    "empty": json_array([]),
    "all null": json_array([None, None]),
    "struct": struct_array(),
    "list": list_array(pa.ListArray, pa.int32()),
    "large list": list_array(pa.LargeListArray, pa.int64()),
    "struct with others": pa.StructArray.from_arrays(
        [json_array(["1", None]), pa.ExtensionArray.from_storage(pa.uuid(), UUIDS)],
        fields=[pa.field("j", pa.json_()), pa.field("u", pa.uuid(), nullable=False)],
    ),
    "list of structs": pa.ListArray.from_arrays([0, 3, 3, 7], struct_array()),
}
ARRAYS_2_2 = {
    "map": pa.MapArray.from_arrays([0, 2, 3], pa.array(["a", "b", "c"]), json_array(TEXTS[:3])),
    "map keys": pa.MapArray.from_arrays([0, 1, 2], json_array(["1", "[2, 3]"]), pa.array([1, 2])),
    "fixed-size list of structs": pa.FixedSizeListArray.from_arrays(struct_array()[:6], 2),
}
CASES = [
    *((name, "2.1") for name in ARRAYS),
    *((name, "2.2") for name in ARRAYS | ARRAYS_2_2),
]


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[pa.Table, str]:
    """Table with one JSON column, and the file version to write."""
    name, version = request.param
    return pa.table({"j": (ARRAYS | ARRAYS_2_2)[name]}), version


def raw(place: Path) -> pa.Array:
    """The column as it lies in the only file of a dataset."""
    (file,) = (place / "data").iterdir()
    return LanceFileReader(str(file)).read_all().to_table().column(0)


class TestInterchange:
    async def test_written_here(self, case: tuple[pa.Table, str], tmp_path: Path) -> None:
        table, version = case
        here, there = tmp_path / "here", tmp_path / "there"
        await alance.write_dataset(table, here, data_storage_version=version)
        theirs = lance.write_dataset(table, there, data_storage_version=version)
        assert lance.dataset(here).to_table() == theirs.to_table()
        if len(table):
            assert raw(here) == raw(there)

    async def test_read_here(self, case: tuple[pa.Table, str], tmp_path: Path) -> None:
        table, version = case
        theirs = lance.write_dataset(table, tmp_path / "set", data_storage_version=version)
        dataset = await alance.open_dataset(tmp_path / "set")
        expected = theirs.to_table()
        found = await dataset.to_table()
        found.validate(full=True)
        assert dataset.schema.equals(theirs.schema, check_metadata=True)
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist()
        if len(table) > 1:
            some = await dataset.take([1, 0])
            assert some.to_pylist() == [expected.to_pylist()[i] for i in (1, 0)]


class TestColumns:
    @pytest.fixture
    async def dataset(self, tmp_path: Path) -> alance.Dataset:
        table = pa.table({"j": json_array(TEXTS), "s": struct_array(), "n": range(7)})
        await alance.write_dataset(table, tmp_path / "set")
        return await alance.open_dataset(tmp_path / "set")

    async def test_null_is_not_json_null(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(columns=["n"], filter="j is null")
        assert found["n"].to_pylist() == [1]
        found = await dataset.to_table(columns=["j"], filter="j is not null and n < 3")
        assert found["j"].to_pylist() == ['{"a":[1,2.5],"b":1}', "null"]

    async def test_members(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(columns=["s.j"])
        assert found.schema.field(0).type == pa.json_()
        assert found["s.j"].to_pylist()[3:] == ["1e+300", '"é"', "18446744073709551615", None]

    async def test_renamed(self, dataset: alance.Dataset) -> None:
        found = await dataset.to_table(columns={"x": "j"}, filter="n = 4")
        assert found["x"].to_pylist() == ['"é"']

    @pytest.mark.parametrize("filter", ["j = '1'", "j < 1", "j in ('1')", "j like '1%'"])
    async def test_comparison(self, filter: str, dataset: alance.Dataset) -> None:
        with pytest.raises(alance.InvalidInputError, match="json"):
            await dataset.to_table(filter=filter)

    async def test_append(self, dataset: alance.Dataset, tmp_path: Path) -> None:
        place = tmp_path / "other"
        await alance.write_dataset(pa.table({"j": json_array(["1"])}), place)
        await alance.write_dataset(pa.table({"j": json_array(["2.0"])}), place, mode="append")
        assert lance.dataset(place).to_table()["j"].to_pylist() == ["1", "2.0"]
        with pytest.raises(alance.SchemaMismatchError):
            await alance.write_dataset(pa.table({"j": ["3"]}), place, mode="append")

    async def test_hidden_values_need_be_no_json(self, tmp_path: Path) -> None:
        lists = list_array(pa.ListArray, pa.int32(), "none")
        table = pa.table({"s": struct_array("none")[2:], "l": lists})
        await alance.write_dataset(table, tmp_path / "set")
        assert lance.dataset(tmp_path / "set").to_table()["s"].to_pylist()[-1] is None

    @pytest.mark.parametrize("metadata", [None, {"lance-encoding:packed": "true"}], ids=str)
    async def test_not_null_in_struct(
        self, metadata: dict[str, str] | None, tmp_path: Path
    ) -> None:
        members = [pa.field("j", pa.json_(), nullable=False), pa.field("n", pa.int8())]
        schema = pa.schema([pa.field("s", pa.struct(members), metadata=metadata)])
        array = pa.StructArray.from_arrays(
            [json_array(["1", "[2, 3]"]), pa.array([1, 2], pa.int8())], fields=members
        )
        here, there = tmp_path / "here", tmp_path / "there"
        table = pa.table([array], schema=schema)
        await alance.write_dataset(table, here, data_storage_version="2.2")
        lance.write_dataset(table, there, data_storage_version="2.2")
        for place in (here, there):
            dataset = await alance.open_dataset(place)
            assert dataset.schema.equals(schema, check_metadata=True)
            assert (await dataset.to_table())["s"].to_pylist()[1] == {"j": "[2,3]", "n": 2}
            assert lance.dataset(place).to_table() == await dataset.to_table()

    async def test_text_marked_as_json(self, tmp_path: Path) -> None:
        marked = pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
        table = pa.table([pa.array(["[ 1 ]"])], schema=pa.schema([marked]))
        await alance.write_dataset(table, tmp_path / "set")
        assert lance.dataset(tmp_path / "set").to_table()["j"].to_pylist() == ["[1]"]


class TestRefused:
    async def test_no_json(self, tmp_path: Path) -> None:
        table = pa.table({"s": pa.StructArray.from_arrays([json_array(["1", "{"])], names=["j"])})
        with pytest.raises(alance.InvalidInputError, match=r"column 's': JSON value 1 .*no JSON"):
            await alance.write_dataset(table, tmp_path / "set")

    async def test_no_text(self, tmp_path: Path) -> None:
        offsets = pa.py_buffer(bytes([0, 0, 0, 0, 3, 0, 0, 0]))
        text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b'"\xff"')])
        table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), text)})
        with pytest.raises(alance.InvalidInputError, match=r"column 'j': JSON value 0 .*utf-8"):
            await alance.write_dataset(table, tmp_path / "set")

    async def test_fixed_size_list(self, tmp_path: Path) -> None:
        table = pa.table({"j": pa.FixedSizeListArray.from_arrays(json_array(["1", "2"]), 2)})
        with pytest.raises(alance.InvalidInputError, match="'j'"):
            await alance.write_dataset(table, tmp_path / "set", data_storage_version="2.2")

    async def test_damaged(self, tmp_path: Path) -> None:
        marked = pa.field("j", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
        table = pa.table([pa.array([b"junk"], pa.large_binary())], schema=pa.schema([marked]))
        lance.write_dataset(table, tmp_path / "set")
        dataset = await alance.open_dataset(tmp_path / "set")
        with pytest.raises(alance.CorruptFileError, match="a JSON value is damaged") as caught:
            await dataset.to_table()
        assert "in column 'j'" in caught.value.__notes__
