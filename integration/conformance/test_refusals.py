"""What cannot be stored, found by trying: who refuses it, where, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.testing.asserts import assert_same_table

pytestmark = pytest.mark.anyio

PREFIX = "lance-encoding:"
VERSIONS = ("2.1", "2.2")


@dataclass(frozen=True, slots=True)
class Refused:
    """A column, and the complaint of the reference implementation in some file versions."""

    kind: pa.DataType
    values: list[object]
    complaint: str
    versions: tuple[str, ...] = VERSIONS
    settings: tuple[str, ...] = ()

    def table(self) -> pa.Table:
        """Make the rows."""
        metadata = {PREFIX + key: value for key, value in (s.split("=") for s in self.settings)}
        field = pa.field("c", self.kind, metadata=metadata or None)
        return pa.Table.from_arrays([self.array()], schema=pa.schema([field]))

    def array(self) -> pa.Array:
        """Values; those of a dictionary are given as its items."""
        if pa.types.is_dictionary(self.kind):
            items = pa.array(self.values, self.kind.value_type)
            indices = pa.array(range(len(items)), self.kind.index_type)
            return pa.DictionaryArray.from_arrays(indices, items)
        return pa.array(self.values, self.kind)


def _struct(*kinds: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(f"m{i}", kind) for i, kind in enumerate(kinds)])


INTS = _struct(pa.int32())
ITEM = {"m0": 1}
PACKED = ("packed=true",)
UNSUPPORTED = "Unsupported data type"

NOBODY_WRITES = {
    "map": Refused(pa.map_(pa.string(), pa.int8()), [[("a", 1)]], "Map data type", ("2.1",)),
    "sorted map": Refused(
        pa.map_(pa.string(), pa.int8(), keys_sorted=True), [[("a", 1)]], "keys_sorted=true"
    ),
    "list of structs of one size": Refused(
        pa.list_(INTS, 2), [[ITEM] * 2], "FixedSizeList<Struct>", ("2.1",)
    ),
    "list<fixed_size_list<struct>>": Refused(
        pa.list_(pa.list_(INTS, 2)), [[[ITEM] * 2], None], "called `Option::unwrap", ("2.2",)
    ),
    "fixed_size_list<list>": Refused(pa.list_(pa.list_(pa.int8()), 2), [[[1], []]], UNSUPPORTED),
    "fixed_size_list<string>": Refused(pa.list_(pa.string(), 2), [["a", "b"]], "compute_stat"),
    "fixed_size_list of none": Refused(pa.list_(pa.int8(), 0), [[]], "dimension 0"),
    "null struct without members": Refused(pa.struct([]), [{}, None], "Empty structs"),
    "list<struct without members>": Refused(pa.list_(pa.struct([])), [[{}]], "Empty structs"),
    "dictionary of timestamps": Refused(
        pa.dictionary(pa.int8(), pa.timestamp("us")), [7], "Cannot encode dictionary type"
    ),
    "dictionary of decimals": Refused(
        pa.dictionary(pa.int8(), pa.decimal128(5, 2)), [7], "Cannot encode dictionary type"
    ),
    "list_view": Refused(pa.list_view(pa.int8()), [[1]], UNSUPPORTED),
    "interval": Refused(pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3])], UNSUPPORTED),
    "decimal32": Refused(pa.decimal32(5, 2), [7], UNSUPPORTED),
    "decimal64": Refused(pa.decimal64(5, 2), [7], UNSUPPORTED),
    "packed text": Refused(
        _struct(pa.string()), [{"m0": "a"}], "Variable packed struct", ("2.1",), PACKED
    ),
    "packed nulls": Refused(
        _struct(pa.int8(), pa.int8()),
        [{"m0": 1}, {"m0": 1, "m1": 2}],
        "Variable packed struct|block type Nullable",
        settings=PACKED,
    ),
    "packed struct": Refused(_struct(INTS), [{"m0": ITEM}], "acked struct", settings=PACKED),
    "packed list": Refused(
        _struct(pa.list_(pa.int8())), [{"m0": [1]}], "cannot be converted", settings=PACKED
    ),
    "text as blobs": Refused(pa.string(), ["a"], "Blob", settings=("blob=true",)),
    "unknown scheme": Refused(
        pa.string(), ["a"], "brotli", ("2.1",), settings=("compression=brotli",)
    ),
}

NOBODY_READS = {
    "packed booleans": Refused(
        _struct(pa.int8(), pa.bool_()),
        [{"m0": 1, "m1": True}] * 3,
        "positive byte widths",
        settings=PACKED,
    ),
    "fixed_size_binary[0]": Refused(pa.binary(0), [b""] * 2, "positive bit width", ("2.1",)),
}

WRITTEN_HERE = {
    "full-zip lists of bits": Refused(
        pa.list_(pa.bool_(), 3),
        [[True] * 3],
        "must be byte aligned",
        settings=("structural-encoding=fullzip",),
    ),
    "full-zip packed structs": Refused(
        INTS,
        [ITEM],
        "fixed-width-only structs",
        settings=("structural-encoding=fullzip", *PACKED),
    ),
    "mini-block vectors of 16 KiB": Refused(
        pa.list_(pa.float32(), 4096),
        [[0.5] * 4096] * 3,
        "too wide for miniblock",
        settings=("structural-encoding=miniblock",),
    ),
}


def _each(cases: dict[str, Refused]) -> Callable[..., pytest.MarkDecorator]:
    return pytest.mark.parametrize(
        ("case", "version"),
        [
            pytest.param(case, version, id=f"{version} {name}")
            for name, case in cases.items()
            for version in case.versions
        ],
    )


def _write_there(table: pa.Table, path: Path, version: str) -> lance.LanceDataset:
    return lance.write_dataset(table, path, data_storage_version=version)


@_each(NOBODY_WRITES)
async def test_neither_library_writes(case: Refused, version: str, tmp_path: Path) -> None:
    table = case.table()
    with pytest.raises(BaseException, match=case.complaint):
        _write_there(table, tmp_path / "there", version)
    with pytest.raises(alance.InvalidInputError):
        await alance.write_dataset(table, tmp_path / "here", data_storage_version=version)


@_each(NOBODY_READS)
async def test_the_reference_writes_what_it_cannot_read(
    case: Refused, version: str, tmp_path: Path
) -> None:
    table = case.table()
    theirs = _write_there(table, tmp_path / "there", version)
    with pytest.raises(BaseException, match=case.complaint):
        theirs.to_table()
    with pytest.raises(alance.CorruptFileError):
        await (await alance.open_dataset(tmp_path / "there")).to_table()
    with pytest.raises(alance.InvalidInputError):
        await alance.write_dataset(table, tmp_path / "here", data_storage_version=version)


@_each(WRITTEN_HERE)
async def test_the_reference_reads_what_it_does_not_write(
    case: Refused, version: str, tmp_path: Path
) -> None:
    table = case.table()
    with pytest.raises(BaseException, match=case.complaint):
        _write_there(table, tmp_path / "there", version)
    ours = await alance.write_dataset(table, tmp_path / "here", data_storage_version=version)
    assert_same_table(await ours.to_table(), table)
    assert_same_table(lance.dataset(tmp_path / "here").to_table(), table)


async def test_lists_of_structs_are_read_beside_other_columns_here_only(tmp_path: Path) -> None:
    """The reference takes their items for rows where it compares the lengths of columns."""
    lists = pa.array([[ITEM] * 2, None], pa.list_(INTS, 2))
    table = pa.table({"c": lists, "id": [1, 2]})
    ours = await alance.write_dataset(table, tmp_path / "here", data_storage_version="2.2")
    _write_there(table, tmp_path / "there", "2.2")
    for path in (tmp_path / "here", tmp_path / "there"):
        theirs = lance.dataset(path)
        with pytest.raises(pa.ArrowInvalid, match="columns of differing lengths"):
            theirs.to_table()
        assert_same_table(theirs.to_table(["c"]), table.select(["c"]))
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), table)


async def test_the_order_of_dictionaries_is_lost(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["a", "b"], ordered=True)
    table = pa.table({"c": array})
    ours = await alance.write_dataset(table, tmp_path / "here")
    theirs = _write_there(table, tmp_path / "there", "2.1")
    assert ours.schema.field("c").type == theirs.schema.field("c").type == kind


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.binary(0), [b"", None, b""]),
        (pa.list_(pa.binary(0)), [[b"", None], None, [b""]]),
        (_struct(pa.binary(0), pa.int8()), [{"m0": b"", "m1": 1}, None, {"m1": 2}]),
    ],
    ids=str,
)
async def test_values_of_no_bytes(kind: pa.DataType, values: list[object], tmp_path: Path) -> None:
    """In file version 2.1 there is no page for them."""
    table = pa.table({"c": pa.array(values, kind)})
    _write_there(table, tmp_path / "there", "2.2")
    await alance.write_dataset(table, tmp_path / "here", data_storage_version="2.2")
    for path in (tmp_path / "here", tmp_path / "there"):
        assert_same_table(lance.dataset(path).to_table(), table)
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), table)
        assert_same_table(await ours.take([1, 0, 1]), table, [1, 0, 1])


async def test_lists_in_lists_of_structs_are_read_here_only(tmp_path: Path) -> None:
    inner = _struct(pa.list_(pa.int32()), pa.map_(pa.string(), pa.list_(pa.int8())))
    rows: list[object] = [
        [{"m0": [1, 2], "m1": [("a", [3])]}, {"m0": None, "m1": []}],
        None,
        [{"m0": [], "m1": None}, None],
    ]
    table = pa.table({"c": pa.array(rows * 700, pa.list_(inner, 2))})
    await alance.write_dataset(table, tmp_path / "here", data_storage_version="2.2")
    _write_there(table, tmp_path / "there", "2.2")
    for path in (tmp_path / "here", tmp_path / "there"):
        with pytest.raises(BaseException, match="Not yet supported FSL"):
            lance.dataset(path).to_table()
        ours = await alance.open_dataset(path)
        assert_same_table(await ours.to_table(), table)
        picked = [2000, 1, 0, 2, 0]
        assert_same_table(await ours.take(picked), table, picked)


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_value_in_lists_of_lists_of_null_structs(version: str, tmp_path: Path) -> None:
    """The reference counts nulls of structs wrongly where a page has no list inside them."""
    inner = pa.list_(pa.list_(pa.int32()))
    rows = [[], None, [{"a": None}, None]]
    table = pa.table({"c": pa.array(rows, pa.list_(pa.struct([("a", inner)])))})
    theirs = _write_there(table, tmp_path / "there", version)
    with pytest.raises(pa.ArrowInvalid, match="Incorrect number of nulls"):
        theirs.to_table()
    ours = await alance.open_dataset(tmp_path / "there")
    assert_same_table(await ours.to_table(), table)
