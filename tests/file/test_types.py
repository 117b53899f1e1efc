import contextlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, FormatError, InvalidInputError, UnsupportedFeatureError
from alance.file.schema import Schema
from alance.file.types import parse_logical_type
from tests.file.reference import stored_schema

LEAVES = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "timestamp:s:-": pa.timestamp("s"),
    "timestamp:ms:UTC": pa.timestamp("ms", "UTC"),
    "timestamp:us:+05:30": pa.timestamp("us", "+05:30"),
    "timestamp:ns:Europe/Berlin": pa.timestamp("ns", "Europe/Berlin"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
    "decimal:128:5:2": pa.decimal128(5, 2),
    "decimal:128:38:-3": pa.decimal128(38, -3),
    "decimal:256:76:10": pa.decimal256(76, 10),
    "fixed_size_binary:0": pa.binary(0),
    "fixed_size_binary:16": pa.binary(16),
    "fixed_size_list:float:128": pa.list_(pa.float32(), 128),
    "fixed_size_list:bool:3": pa.list_(pa.bool_(), 3),
    "fixed_size_list:null:2": pa.list_(pa.null(), 2),
    "fixed_size_list:decimal:128:5:1:2": pa.list_(pa.decimal128(5, 1), 2),
    "fixed_size_list:fixed_size_binary:3:2": pa.list_(pa.binary(3), 2),
    "fixed_size_list:fixed_size_list:uint8:2:3": pa.list_(pa.list_(pa.uint8(), 2), 3),
    "fixed_size_list:timestamp:us:+05:30:4": pa.list_(pa.timestamp("us", "+05:30"), 4),
    "dict:string:int32:false": pa.dictionary(pa.int32(), pa.string()),
    "dict:large_string:uint8:false": pa.dictionary(pa.uint8(), pa.large_string()),
    "dict:int64:int16:false": pa.dictionary(pa.int16(), pa.int64()),
    "dict:bool:uint64:false": pa.dictionary(pa.uint64(), pa.bool_()),
}

NESTED = {
    "list": pa.list_(pa.int32()),
    "named item": pa.list_(pa.field("element", pa.int8(), nullable=False)),
    "large_list": pa.large_list(pa.string()),
    "list.struct": pa.list_(pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])),
    "large_list.struct": pa.large_list(pa.struct([("a", pa.int8())])),
    "struct": pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.struct([]))]),
    "uuid": pa.uuid(),
    "bool8": pa.bool8(),
    "tensor": pa.fixed_shape_tensor(pa.float32(), (2, 3)),
    "opaque": pa.opaque(pa.int32(), "a", "b"),
    "string view": pa.string_view(),
    "binary view": pa.binary_view(),
    "list of views": pa.list_(pa.string_view()),
}
NESTED_SINCE_2_2 = {
    "map": pa.map_(pa.string(), pa.int32()),
    "map of structs": pa.map_(pa.int8(), pa.struct([("a", pa.int8())])),
    "fixed_size_list.struct": pa.list_(pa.struct([("a", pa.int8())]), 3),
}
REFUSED = {
    "interval": pa.month_day_nano_interval(),
    "list view": pa.list_view(pa.int8()),
    "large list view": pa.large_list_view(pa.int8()),
    "run-end": pa.run_end_encoded(pa.int32(), pa.int8()),
    "union": pa.dense_union([pa.field("a", pa.int8())]),
    "sorted map": pa.map_(pa.string(), pa.int32(), keys_sorted=True),
    "fsl<list>": pa.list_(pa.list_(pa.int8()), 2),
    "fsl<string>": pa.list_(pa.string(), 2),
    "fsl<dict>": pa.list_(pa.dictionary(pa.int8(), pa.string()), 2),
    "fsl<fsl<struct>>": pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2), 2),
    "fsl of none": pa.list_(pa.int8(), 0),
    "struct fsl of none": pa.list_(pa.struct([("a", pa.int8())]), 0),
    "dict<timestamp>": pa.dictionary(pa.int8(), pa.timestamp("us", "UTC")),
    "dict<null>": pa.dictionary(pa.int8(), pa.null()),
    "dict<struct>": pa.dictionary(pa.int8(), pa.struct([("a", pa.int8())])),
    "decimal32": pa.decimal32(5, 1),
    "decimal64": pa.decimal64(5, 1),
    "same names": pa.struct([("a", pa.int8()), ("a", pa.int8())]),
}


class TestLogicalTypes:
    @pytest.mark.parametrize(("text", "data_type"), LEAVES.items(), ids=str)
    def test_both_ways(self, text: str, data_type: pa.DataType) -> None:
        schema = Schema.from_arrow(pa.schema([("x", data_type)]))
        assert [entry.logical_type for entry in schema.fields] == [text]
        assert parse_logical_type(text) == data_type
        assert schema.to_arrow() == pa.schema([("x", data_type)])

    @pytest.mark.parametrize(("text", "data_type"), LEAVES.items(), ids=str)
    def test_same_as_reference(self, text: str, data_type: pa.DataType, tmp_path: Path) -> None:
        nullable = pa.types.is_null(data_type)
        fields = [pa.field("x", data_type), pa.field("y", data_type, nullable=nullable)]
        arrow = pa.schema(fields)
        assert stored_schema(tmp_path / "f", arrow, "2.1") == Schema.from_arrow(arrow)

    @pytest.mark.parametrize(("name", "data_type"), (NESTED | NESTED_SINCE_2_2).items(), ids=str)
    def test_nested_same_as_reference(
        self, name: str, data_type: pa.DataType, tmp_path: Path
    ) -> None:
        arrow = pa.schema([pa.field("x", data_type)], metadata={"k": "v"})
        version = "2.2" if name in NESTED_SINCE_2_2 else "2.1"
        stored = stored_schema(tmp_path / "f", arrow, version)
        assert stored == Schema.from_arrow(arrow)
        if "view" not in name:
            assert stored.to_arrow().equals(arrow, check_metadata=True)

    @pytest.mark.parametrize(("name", "data_type"), REFUSED.items(), ids=str)
    def test_types_without_a_place(self, name: str, data_type: pa.DataType) -> None:
        arrow = pa.schema([("ok", pa.int8()), ("s", pa.struct([("bad", data_type)]))])
        with pytest.raises(InvalidInputError, match=r"s\.bad"):
            Schema.from_arrow(arrow)

    @pytest.mark.parametrize(
        "text",
        [
            "timestamp:us",
            "timestamp:min:-",
            "timestamp:us:U\0TC",
            "decimal:128:0:1",
            "decimal:128:39:1",
            "decimal:64:5:1",
            "decimal:128:5",
            "decimal:128:5:1000",
            "decimal:128:+5:1",
            "fixed_size_binary:-1",
            "fixed_size_binary:2147483648",
            "fixed_size_binary:",
            "fixed_size_binary:٣",
            "fixed_size_binary:1_0",
            "fixed_size_list:int8:0",
            "fixed_size_list:int8:99999999999999999999",
            "fixed_size_list:2",
            "fixed_size_list:int64:2147483647",
            "fixed_size_list:" * 20 + "int8" + ":2" * 20,
            "fixed_size_list:" * 10 + "int8" + ":2000" * 10,
            "dict:string:float:false",
            "dict:string:int8:maybe",
            "dict:int8:false",
            "dict:dict:string:int8:false:int8:false",
            "fixed_size_list:" * 1000,
        ],
        ids=lambda text: text[:40],
    )
    def test_senseless_parameters(self, text: str) -> None:
        with pytest.raises(CorruptFileError):
            parse_logical_type(text)

    @pytest.mark.parametrize("text", ["", "int128", "Int8", "list:3", "fixed_size_list:string:2"])
    def test_unknown(self, text: str) -> None:
        with pytest.raises(UnsupportedFeatureError):
            parse_logical_type(text)

    def test_dictionary_of_types_with_colons_is_read(self) -> None:
        text = "dict:timestamp:us:+01:30:int8:true"
        expected = pa.dictionary(pa.int8(), pa.timestamp("us", "+01:30"), ordered=True)
        assert parse_logical_type(text) == expected

    def test_bfloat16_list(self) -> None:
        data_type = parse_logical_type("fixed_size_list:lance.bfloat16:4")
        assert data_type == pa.list_(pa.binary(2), 4)
        schema = Schema.from_arrow(pa.schema([("x", data_type)]))
        assert schema.fields[0].logical_type == "fixed_size_list:lance.bfloat16:4"

    @given(st.text(max_size=40) | st.lists(st.sampled_from([*LEAVES, "8", "-1"])).map(":".join))
    def test_any_text(self, text: str) -> None:
        with contextlib.suppress(FormatError):
            assert isinstance(parse_logical_type(text), pa.DataType)
