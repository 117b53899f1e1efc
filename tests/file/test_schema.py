import contextlib
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import (
    CorruptFileError,
    FormatError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from alance.file.metadata import build_schema, parse_schema
from alance.file.schema import Field, Nesting, Schema, match_append
from alance.file.storable import lies_in_lists
from alance.types import FileVersion
from tests.file.reference import stored_schema
from tests.file.test_types import LEAVES, NESTED_SINCE_2_2


def field(name: str, id_: int, parent_id: int, logical_type: str, **members: object) -> Field:
    return Field(name, id_, parent_id, logical_type, **members)  # type: ignore[arg-type]


leaf_types = st.sampled_from(list(LEAVES.values()))
names = st.text("abc_ é`", min_size=1, max_size=4)


def arrow_field(
    name: str, data_type: pa.DataType, nullable: bool, metadata: dict[bytes, bytes] | None
) -> pa.Field:
    """Arrow refuses null types that are not nullable."""
    return pa.field(name, data_type, nullable or pa.types.is_null(data_type), metadata)


def arrow_fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    metadata = st.none() | st.just({b"k": b"v", b"lance-encoding:compression": b"zstd"})
    return st.builds(arrow_field, names, types, st.booleans(), metadata)


def struct_types(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.lists(arrow_fields(types), max_size=3, unique_by=lambda item: item.name).map(
        pa.struct
    )


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return (
        arrow_fields(types).map(pa.list_)
        | arrow_fields(types).map(pa.large_list)
        | struct_types(types)
        | st.builds(pa.list_, struct_types(types), st.integers(1, 9))
        | st.builds(pa.map_, leaf_types.filter(lambda key: key != pa.null()), types)
    )


arrow_schemas = st.builds(
    pa.schema,
    st.lists(
        arrow_fields(st.recursive(leaf_types, nested, max_leaves=6)),
        max_size=4,
        unique_by=lambda item: item.name,
    ),
    metadata=st.none() | st.just({b"schema": b"key"}),
)


class TestTree:
    @given(arrow_schemas, st.integers(0, 1000))
    def test_round_trip(self, arrow: pa.Schema, first_id: int) -> None:
        schema = Schema.from_arrow(arrow, first_id=first_id)
        assert [entry.id for entry in schema.fields] == list(
            range(first_id, first_id + len(schema.fields))
        )
        assert schema.to_arrow().equals(arrow, check_metadata=True)
        assert parse_schema(build_schema(schema)) == schema
        assert pickle.loads(pickle.dumps(schema)) == schema

    @given(arrow_schemas)
    def test_leaves_cover_the_tree(self, arrow: pa.Schema) -> None:
        schema = Schema.from_arrow(arrow)
        leaves = schema.leaves(FileVersion.V2_2)
        assert [leaf.field_id for leaf in leaves] == sorted(leaf.field_id for leaf in leaves)
        for leaf in leaves:
            assert leaf.nodes[0] is schema.roots[leaf.top_level]
            assert leaf.path == tuple(node.field.name for node in leaf.nodes)
            assert [node.kind is Nesting.LEAF for node in leaf.nodes[:-1]] == [False] * (
                len(leaf.nodes) - 1
            )
            assert leaf.node.kind is Nesting.LEAF
            for above, below in zip(leaf.nodes, leaf.nodes[1:], strict=False):
                assert below in above.children
        owners = {node.field.id for root in schema.roots for node in root.walk()}
        inner = {node.field.id for leaf in leaves for node in leaf.nodes}
        assert owners == inner

    def test_leaves_of_the_format_page(self) -> None:
        arrow = pa.schema([
            ("i", pa.int32()),
            ("l", pa.list_(pa.int32())),
            ("s", pa.struct([("a", pa.int8()), ("c", pa.large_list(pa.string()))])),
            pa.field(
                "p", pa.struct([("a", pa.int8())]), metadata={"lance-encoding:packed": "true"}
            ),
            ("e", pa.struct([])),
        ])
        leaves = Schema.from_arrow(arrow).leaves(FileVersion.V2_1)
        assert [
            (leaf.field_id, ".".join(leaf.path), [node.kind for node in leaf.nodes])
            for leaf in leaves
        ] == [
            (0, "i", [Nesting.LEAF]),
            (2, "l.item", [Nesting.LIST, Nesting.LEAF]),
            (4, "s.a", [Nesting.STRUCT, Nesting.LEAF]),
            (6, "s.c.item", [Nesting.STRUCT, Nesting.LARGE_LIST, Nesting.LEAF]),
            (7, "p", [Nesting.LEAF]),
            (9, "e", [Nesting.LEAF]),
        ]
        assert leaves[4].node.data_type == pa.struct([("a", pa.int8())])

    @pytest.mark.parametrize("name", ["map", "fixed_size_list.struct"])
    def test_types_of_later_versions(self, name: str) -> None:
        schema = Schema.from_arrow(pa.schema([("x", NESTED_SINCE_2_2[name])]))
        schema.check_storable(FileVersion.V2_2)
        with pytest.raises(InvalidInputError, match=r"'x'.*data_storage_version='2\.2'"):
            schema.check_storable(FileVersion.V2_1)
        with pytest.raises(UnsupportedFeatureError, match="'x'"):
            schema.leaves(FileVersion.V2_1)

    def test_no_leaves_before_2_1(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match=r"2\.0"):
            Schema(()).leaves(FileVersion.V2_0)

    def test_fields_with_gaps_come_in_pre_order(self) -> None:
        stored = (
            field("b", 7, -1, "int8"),
            field("s", 3, -1, "struct"),
            field("t", 9, -1, "int8"),
            field("a", 5, 3, "int8"),
        )
        schema = Schema(stored)
        assert [entry.name for entry in schema.fields] == ["b", "s", "a", "t"]
        assert schema.max_field_id == 9
        assert schema.names == ("b", "s", "t")
        assert schema.to_arrow().field("s").type == pa.struct([("a", pa.int8())])

    @pytest.mark.parametrize("around", [pa.list_, lambda kind: pa.map_(pa.int8(), kind)])
    def test_lists_of_struct_lists_have_no_form(
        self, around: Callable[[pa.DataType], pa.DataType]
    ) -> None:
        pairs = pa.list_(pa.struct([("a", pa.int8())]), 2)
        schema = Schema.from_arrow(pa.schema([("x", pa.struct([("l", around(pairs))]))]))
        with pytest.raises(InvalidInputError, match=r"'x\.l\."):
            schema.check_storable(FileVersion.V2_2)
        assert lies_in_lists(schema.leaves(FileVersion.V2_2)[-1].nodes)

    def test_lists_in_struct_lists(self) -> None:
        kind = pa.list_(pa.struct([("a", pa.list_(pa.int8()))]), 2)
        schema = Schema.from_arrow(pa.schema([("x", kind)]))
        schema.check_storable(FileVersion.V2_2)
        (leaf,) = schema.leaves(FileVersion.V2_2)
        assert leaf.items_per_row == 2
        assert not lies_in_lists(leaf.nodes)

    @pytest.mark.parametrize(
        "fields",
        [
            pytest.param((field("a", 0, 5, "int8"),), id="no parent"),
            pytest.param(
                (field("a", 1, 0, "int8"), field("s", 0, -1, "struct")), id="parent later"
            ),
            pytest.param((field("s", 0, 0, "struct"),), id="own parent"),
            pytest.param((field("a", 0, -1, "int8"), field("b", 0, -1, "int8")), id="id twice"),
            pytest.param((field("a", -1, -1, "int8"),), id="no id"),
            pytest.param((field("l", 0, -1, "list"),), id="list of nothing"),
            pytest.param((field("a", 0, -1, "int8"), field("b", 1, 0, "int8")), id="leaf parent"),
            pytest.param((field("m", 0, -1, "map"), field("e", 1, 0, "int8")), id="map of int"),
            pytest.param((field("m", 0, -1, "map"), field("e", 1, 0, "struct")), id="no entries"),
            pytest.param(
                (
                    field("m", 0, -1, "map"),
                    field("e", 1, 0, "struct"),
                    field("k", 2, 1, "null"),
                    field("v", 3, 1, "int8"),
                ),
                id="map of null",
            ),
            pytest.param(
                (field("m", 0, -1, "fixed_size_list:struct:0"), field("e", 1, 0, "struct")),
                id="dimension",
            ),
            pytest.param(tuple(field("s", i, i - 1, "struct") for i in range(100)), id="too deep"),
        ],
    )
    def test_hostile_trees(self, fields: tuple[Field, ...]) -> None:
        with pytest.raises(CorruptFileError):
            Schema(fields)

    def test_blob_descriptor_has_members_without_ids(self) -> None:
        marks = {"lance-encoding:packed": b"true", "lance-encoding:blob": b"true"}
        schema = Schema((
            field("b", 4, -1, "struct", metadata=marks),
            field("kind", -1, -1, "uint8"),
            field("size", -1, -1, "uint64"),
            field("x", 5, -1, "int8"),
        ))
        assert schema.names == ("b", "x")
        assert [child.field.name for child in schema.roots[0].children] == ["kind", "size"]
        assert [leaf.field_id for leaf in schema.leaves(FileVersion.V2_2)] == [4, 5]

    @given(
        st.lists(
            st.builds(
                Field,
                st.sampled_from(["a", "b", ""]),
                st.integers(-1, 6),
                st.integers(-1, 6),
                st.sampled_from([
                    "struct",
                    "list",
                    "map",
                    "int8",
                    "null",
                    "fixed_size_list:struct:2",
                    "?",
                ]),
                st.booleans(),
            ),
            max_size=7,
        )
    )
    def test_any_fields(self, fields: list[Field]) -> None:
        with contextlib.suppress(FormatError):
            schema = Schema(tuple(fields))
            assert schema.to_arrow().names == list(schema.names)
            assert len(schema.fields) == len(fields)


class TestFromArrow:
    @pytest.mark.parametrize(
        ("arrow", "message"),
        [
            (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "two fields named 'a'"),
            (pa.schema([("a.b", pa.int8())]), "dot"),
            (pa.schema([pa.field("a", pa.int8(), metadata={b"k": b"\xff"})]), "'a'.*UTF-8"),
            (pa.schema([("a", pa.int8())], metadata={b"\xff": b"v"}), "schema.*UTF-8"),
        ],
        ids=["twice", "dot", "field metadata", "schema metadata"],
    )
    def test_refused(self, arrow: pa.Schema, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Schema.from_arrow(arrow)

    def test_nest_too_deep(self) -> None:
        data_type = pa.int8()
        for _ in range(100):
            data_type = pa.list_(data_type)
        with pytest.raises(InvalidInputError, match="deeper"):
            Schema.from_arrow(pa.schema([("a", data_type)]))

    @pytest.mark.parametrize(
        "metadata",
        [
            {"lance-schema:unenforced-primary-key": "true"},
            {"lance-schema:unenforced-primary-key": "1"},
            {"lance-schema:unenforced-primary-key:position": "3"},
            {
                "lance-schema:unenforced-primary-key": "true",
                "lance-schema:unenforced-primary-key:position": "2",
            },
        ],
        ids=str,
    )
    def test_primary_key_same_as_reference(self, metadata: dict[str, str], tmp_path: Path) -> None:
        arrow = pa.schema([pa.field("x", pa.int8(), nullable=False, metadata=metadata)])
        stored = stored_schema(tmp_path / "f", arrow, "2.1").fields[0]
        ours = Schema.from_arrow(arrow).fields[0]
        assert ours.unenforced_primary_key
        assert (ours.unenforced_primary_key, ours.unenforced_primary_key_position) == (
            stored.unenforced_primary_key,
            stored.unenforced_primary_key_position,
        )

    def test_json_of_the_reference(self) -> None:
        marks = {"ARROW:extension:name": "lance.json", "ARROW:extension:metadata": ""}
        arrow = pa.schema([pa.field("j", pa.large_binary(), metadata=marks)])
        (entry,) = Schema.from_arrow(arrow).fields
        assert (entry.logical_type, entry.extension_name) == ("json", "lance.json")


class TestExtensionTypes:
    def test_registered_ones_are_rebuilt_at_any_depth(self) -> None:
        arrow = pa.schema([("x", pa.list_(pa.struct([("id", pa.uuid())])))])
        schema = Schema.from_arrow(arrow)
        assert schema.to_arrow() == arrow
        plain = schema.to_arrow(extension_types=False)
        assert plain.field("x").type == pa.list_(pa.struct([("id", pa.binary(16))]))

    def test_unregistered_ones_keep_their_metadata(self) -> None:
        marks = {b"ARROW:extension:name": b"my.own", b"ARROW:extension:metadata": b"p"}
        arrow = pa.schema([pa.field("x", pa.int32(), metadata=marks)])
        assert Schema.from_arrow(arrow).to_arrow().equals(arrow, check_metadata=True)

    def test_name_alone_is_enough(self) -> None:
        schema = Schema((field("x", 0, -1, "fixed_size_binary:16", extension_name="arrow.uuid"),))
        assert schema.to_arrow().field("x").type == pa.uuid()
        value = pa.scalar(uuid.UUID(int=7).bytes, schema.to_arrow().field("x").type)
        assert value.as_py() == uuid.UUID(int=7)

    def test_parameters_that_make_no_sense_leave_the_storage_type(self) -> None:
        schema = Schema((field("x", 0, -1, "int8", extension_name="arrow.uuid"),))
        assert schema.to_arrow().field("x").type == pa.int8()


ARROW = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False),
        ("s", pa.struct([("x", pa.int8()), ("y", pa.list_(pa.struct([("u", pa.int8())])))])),
        ("m", pa.string()),
    ],
    metadata={"k": "v"},
)


class TestProject:
    @pytest.mark.parametrize(
        ("columns", "ids"),
        [
            (["m", "a"], [6, 0]),
            (["s"], [1, 2, 3, 4, 5]),
            (["s.x"], [1, 2]),
            (["s.y.item.u", "a"], [1, 3, 4, 5, 0]),
            (["s.y", "s.x"], [1, 2, 3, 4, 5]),
            (["s", "s.x"], [1, 2, 3, 4, 5]),
            (["`s`.`x`"], [1, 2]),
            ([], []),
        ],
        ids=str,
    )
    def test_ids_and_order(self, columns: list[str], ids: list[int]) -> None:
        projected = Schema.from_arrow(ARROW).project(columns)
        assert [entry.id for entry in projected.fields] == ids
        assert projected.metadata == {"k": b"v"}

    def test_names_that_hold_dots(self) -> None:
        inner = pa.struct([("p.q", pa.int8()), ("r", pa.int8())])
        schema = Schema.from_arrow(pa.schema([("s", inner)]))
        assert [entry.id for entry in schema.project(["s.`p.q`"]).fields] == [0, 1]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (["mm"], "'mm' is not in the schema; did you mean 'm'"),
            (["s.z"], "did you mean 's.x' or 's.y'|did you mean 's.y' or 's.x'"),
            (["qqqqqqqq"], r"columns: \['a', 's', 's.x'"),
            (["a", "a"], "'a' is asked for twice"),
            (["s..x"], "not in the schema"),
            (["s.x."], "not in the schema"),
            (["`s"], "not in the schema"),
            ([""], "not in the schema"),
            (["a.b"], "not in the schema"),
        ],
        ids=str,
    )
    def test_refused(self, columns: list[str], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Schema.from_arrow(ARROW).project(columns)

    def test_ambiguous(self) -> None:
        schema = Schema((field("a", 0, -1, "int8"), field("a", 1, -1, "int8")))
        with pytest.raises(InvalidInputError, match="ambiguous"):
            schema.project(["a"])

    def test_packed_structs_are_read_whole(self) -> None:
        marks = {"lance-encoding:packed": "true"}
        members = pa.struct([("a", pa.int8()), ("b", pa.int8())])
        schema = Schema.from_arrow(pa.schema([pa.field("p", members, metadata=marks)]))
        assert schema.project(["p.a"]) == schema
        with pytest.raises(InvalidInputError, match=r"p\.c"):
            schema.project(["p.c"])


class TestMatchAppend:
    def test_other_order_and_missing_nullable(self) -> None:
        schema = Schema.from_arrow(ARROW, first_id=10)
        data = pa.schema([("m", pa.string_view()), pa.field("a", pa.int32(), nullable=False)])
        assert [entry.id for entry in match_append(schema, data).fields] == [16, 10]

    def test_names_of_items_do_not_matter(self) -> None:
        schema = Schema.from_arrow(pa.schema([("l", pa.list_(pa.int8()))]))
        data = pa.schema([("l", pa.list_(pa.field("element", pa.int8())))])
        assert [entry.name for entry in match_append(schema, data).fields] == ["l", "item"]

    def test_all_differences_at_once(self) -> None:
        data = pa.schema([
            ("zz", pa.int8()),
            ("s", pa.struct([("x", pa.int16()), ("y", pa.list_(pa.int8()))])),
            ("m", pa.large_string()),
        ])
        with pytest.raises(SchemaMismatchError) as caught:
            match_append(Schema.from_arrow(ARROW), data)
        lines = [line.strip().split(":")[0] for line in str(caught.value).splitlines()[1:]]
        assert lines == ["a", "zz", "s.x", "s.y.item", "m"]

    @pytest.mark.parametrize(
        ("mine", "theirs", "message"),
        [
            (pa.field("x", pa.int8(), nullable=False), pa.field("x", pa.int8()), "no null"),
            (
                pa.field("x", pa.struct([("a", pa.int8()), ("b", pa.int8())])),
                pa.field("x", pa.struct([("b", pa.int8()), ("a", pa.int8())])),
                "members",
            ),
            (pa.field("x", pa.uuid()), pa.field("x", pa.opaque(pa.binary(16), "a", "b")), "uuid"),
            (
                pa.field("x", pa.list_(pa.field("item", pa.int8(), nullable=False))),
                pa.field("x", pa.list_(pa.int8())),
                r"x\.item.*no null",
            ),
        ],
        ids=["null", "members", "extension", "null item"],
    )
    def test_one_difference(self, mine: pa.Field, theirs: pa.Field, message: str) -> None:
        with pytest.raises(SchemaMismatchError, match=message):
            match_append(Schema.from_arrow(pa.schema([mine])), pa.schema([theirs]))

    def test_non_null_data_fits_nullable_columns(self) -> None:
        schema = Schema.from_arrow(pa.schema([("x", pa.int8())]))
        data = pa.schema([pa.field("x", pa.int8(), nullable=False)])
        assert match_append(schema, data) == schema

    def test_storage_fits_its_extension_type(self) -> None:
        schema = Schema.from_arrow(pa.schema([("x", pa.uuid())]))
        assert match_append(schema, pa.schema([("x", pa.binary(16))])) == schema

    @given(arrow_schemas)
    def test_own_schema_fits(self, arrow: pa.Schema) -> None:
        schema = Schema.from_arrow(arrow)
        assert match_append(schema, arrow) == schema
