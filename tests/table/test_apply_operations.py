"""What each operation refuses, and what the histories of the reference do not show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from alance.errors import CorruptFileError, InvalidInputError
from alance.file.schema import Field, Schema
from alance.proto import table_pb2 as tables
from alance.table.apply import apply
from alance.table.features import Feature
from alance.table.indices import (
    FRAGMENT_REUSE,
    IndexFile,
    IndexMetadata,
    build_fragment_bitmap,
)
from alance.table.manifest import BasePath, DataFile, Fragment, Manifest
from alance.table.operations import (
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateBases,
    UpdateConfig,
)
from alance.table.row_ids import RowIds
from alance.table.row_versions import RowVersions
from alance.table.transaction import Transaction
from alance.table.wire import FRAGMENT_ID_MAX
from alance.table.wire_indices import build_indices, parse_indices
from alance.table.wire_rows import build_row_ids, build_row_versions, parse_row_versions
from alance.types import FileVersion
from tests.table.samples import fragment, manifest, schema

STABLE = int(Feature.STABLE_ROW_IDS)
UUIDS = [f"0000000{i}-0000-4000-8000-000000000000" for i in range(5)]


def index(number: int, name: str, covered: list[int] | None, field_id: int = 0) -> IndexMetadata:
    bitmap = None if covered is None else build_fragment_bitmap(covered)
    return IndexMetadata(UUIDS[number], (field_id,), name, number, bitmap)


def reuse(old: list[int], new: list[int], *, external: bool = False) -> IndexMetadata:
    """The system index of a compaction that left the others as they were."""
    details = tables.FragmentReuseIndexDetails(external=b"" if external else None)
    if not external:
        group = details.inline.versions.add(dataset_version=1).groups.add()
        for i in old:
            group.old_fragments.add(id=i)
        for i in new:
            group.new_fragments.add(id=i)
    value = tables.IndexMetadata()
    value.index_details.type_url = "/lance.table.FragmentReuseIndexDetails"
    value.index_details.value = details.SerializeToString()
    packed = value.index_details.SerializeToString()
    bitmap = build_fragment_bitmap(new)
    return IndexMetadata(UUIDS[4], (), FRAGMENT_REUSE, 1, bitmap, index_details=packed)


def table(
    *fragments: Fragment, indices: tuple[IndexMetadata, ...] = (), **rest: object
) -> Manifest:
    members = fragments or (fragment("x", id=0), fragment("y", id=1))
    return manifest(4, *members, **{"index_section": build_indices(indices), **rest})


def stable_table() -> Manifest:
    """Two fragments of ten rows, created and updated at version 1 and 2."""
    fragments = [
        replace(
            fragment(f"f{i}", id=i),
            row_ids=build_row_ids(RowIds.from_range(10 * i, 10 * i + 10)),
            created_at=build_row_versions(RowVersions.uniform(10, i + 1)),
            last_updated_at=build_row_versions(RowVersions.uniform(10, i + 1)),
        )
        for i in range(2)
    ]
    return table(*fragments, next_row_id=20, reader_flags=STABLE, writer_flags=STABLE)


def made(
    base: Manifest | None, operation: Operation, *, source: Manifest | None = None
) -> Manifest:
    change = Transaction(0 if base is None else base.version, "u", operation)
    return apply(base, change, timestamp_ns=1, source=source)


def covered(made: Manifest) -> dict[str, list[int]]:
    """Fragments that each segment covers."""
    indices = parse_indices(made.index_section, path="t")
    return {each.uuid: list(each.fragments or ()) for each in indices}


FILE = DataFile("new.lance", (1,), (0,), FileVersion.V2_1)
OTHER_FILE = DataFile("new.lance", (0,), (0,), FileVersion.V2_1)

REFUSED: list[tuple[Operation, str]] = [
    (Delete((fragment("z", id=7),)), "fragment 7 is not in version 4"),
    (Delete((), (1, 8)), "fragment 8 is not in version 4"),
    (Delete((fragment("x", id=1),), (1,)), "changed twice"),
    (Update((3,)), "fragment 3 is not in version 4"),
    (Merge((fragment("x", id=0),), schema()), "leaves out fragment 1"),
    (
        Merge((fragment("x", id=0), fragment("y", id=1), fragment("z", id=1)), schema()),
        "two fragments with the same id",
    ),
    (ReserveFragments(FRAGMENT_ID_MAX), "cannot be reserved"),
    (
        Rewrite((RewriteGroup((fragment("z", id=5),), ()),)),
        "fragment 5 is not in version 4",
    ),
    (
        Rewrite((RewriteGroup((fragment("x", id=0),), (fragment("z", id=0),)),)),
        "id 0 of a rewrite was not reserved",
    ),
    (
        Rewrite((RewriteGroup((fragment("x", id=0),), (fragment("z", id=9),)),)),
        "id 9 of a rewrite was not reserved",
    ),
    (
        Rewrite((), (RewrittenIndex(UUIDS[0], UUIDS[1]), RewrittenIndex(UUIDS[0], UUIDS[2]))),
        "rewritten twice",
    ),
    (DataReplacement((Replacement(6, FILE),)), "fragment 6 is not in the dataset"),
    (DataReplacement((Replacement(0, FILE), Replacement(0, FILE))), "two data files"),
    (DataReplacement((Replacement(0, FILE), Replacement(1, OTHER_FILE))), "the same fields"),
    (DataReplacement((Replacement(0, FILE),)), "replaces none of fragment 0"),
    (UpdateBases((BasePath(3, "/a", True), BasePath(3, "/b", True))), "has the id of /a"),
    (UpdateBases((BasePath(0, "/a", True), BasePath(0, "/a", True))), "has the path of /a"),
    (
        UpdateBases((BasePath(0, "/a", True, "n"), BasePath(0, "/b", True, "n"))),
        "has the name of /a",
    ),
    (UpdateBases((BasePath(1 << 32, "/a", True),)), "ids of base paths are used up"),
    (UpdateConfig(field_metadata={9: MapUpdate({})}), "no field with id 9"),
    (Restore(2), "to restore version 2 takes its manifest"),
    (Clone(True, None, 1, "/x"), "does not commit Clone"),
]


@pytest.mark.parametrize(("operation", "complaint"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_does_not_fit_the_table(operation: Operation, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        made(table(max_fragment_id=8), operation)


def test_rows_without_ids_where_they_have_lasting_ones() -> None:
    base = stable_table()
    bare = [replace(each, row_ids=None) for each in base.fragments]
    group = RewriteGroup(base.fragments, (fragment("z", id=5),))
    with pytest.raises(InvalidInputError, match="must carry the stable row ids"):
        made(replace(base, max_fragment_id=5), Rewrite((group,)))
    with pytest.raises(InvalidInputError, match="fragment 0 has no row ids"):
        made(base, Delete((bare[0],)))


def test_a_table_created_on_base_paths() -> None:
    operation = Overwrite(
        (), schema(), initial_bases=(BasePath(0, "/a", True),), file_version=FileVersion.V2_1
    )
    first = made(None, operation)
    assert first.base_paths == (BasePath(1, "/a", True),)
    assert first.writer_flags == int(Feature.BASE_PATHS)


def test_a_table_is_not_created_without_a_file_version() -> None:
    with pytest.raises(InvalidInputError, match="needs a file version"):
        made(None, Overwrite((), schema()))


def test_what_is_set_for_good_outlives_a_restore() -> None:
    mixed = int(Feature.MIXED_FILE_VERSIONS)
    base = table(fragment("z", id=6), next_row_id=9, reader_flags=mixed, writer_flags=mixed)
    again = made(base, Restore(1), source=manifest(1, fragment("x"), next_row_id=3))
    assert (again.version, again.max_fragment_id, again.next_row_id) == (5, 6, 9)
    assert (again.reader_flags, again.writer_flags) == (mixed, mixed)


def test_a_restore_takes_the_version_that_it_names() -> None:
    with pytest.raises(InvalidInputError, match="to restore version 2"):
        made(table(), Restore(2), source=manifest(1))


def test_ids_are_reserved_behind_the_highest() -> None:
    assert made(table(max_fragment_id=7), ReserveFragments(3)).max_fragment_id == 10
    empty = manifest(4, max_fragment_id=None)
    assert made(empty, ReserveFragments(0)).max_fragment_id is None
    assert made(empty, ReserveFragments(2)).max_fragment_id == 1


def test_moved_rows_on_a_later_version_than_they_were_read_at() -> None:
    """Rows of the first fragment move; another version has come between."""
    base = replace(stable_table(), version=7)
    moved = replace(fragment("m", rows=3), row_ids=build_row_ids(RowIds.from_ids(_u64([12, 3]))))
    result = made(base, Update(updated_fragments=base.fragments, new_fragments=(moved,)))
    new = result.fragments[2]
    assert new.row_ids == build_row_ids(
        RowIds.concat([RowIds.from_ids(_u64([12, 3])), RowIds.from_range(20, 21)])
    )
    assert _versions(new.created_at, 3) == [2, 1, 8]
    assert _versions(new.last_updated_at, 3) == [8, 8, 8]
    assert result.next_row_id == 21


def test_rows_updated_in_place_count_from_the_version_they_are_in() -> None:
    base = replace(stable_table(), version=7)
    bitmaps = {1: build_fragment_bitmap([0, 9])}
    change = Update(updated_fragments=base.fragments, updated_fragment_offset_bitmaps=bitmaps)
    first, second = made(base, change).fragments
    assert first == base.fragments[0]
    assert _versions(second.last_updated_at, 10) == [8, *[2] * 8, 8]
    beyond = replace(change, updated_fragment_offset_bitmaps={1: build_fragment_bitmap([10])})
    with pytest.raises(InvalidInputError, match="row 10 is not updated"):
        made(base, beyond)


def test_files_of_dropped_columns_go() -> None:
    files = (OTHER_FILE, FILE, replace(FILE, path="old.lance", fields=(-2,)))
    lineage = replace(FILE, path="ids.lance", fields=(-3,))
    base = table(replace(fragment("x"), files=(*files, lineage)))
    kept = made(base, Project(schema("a"))).fragments[0].files
    assert kept == (OTHER_FILE, lineage)


def test_a_projection_keeps_the_metadata_of_the_table() -> None:
    base = table(schema=Schema(schema().fields, {"k": b"v"}))
    assert made(base, Project(schema("a"))).schema.metadata == {"k": b"v"}


def _u64(values: list[int]) -> npt.NDArray[np.uint64]:
    return np.array(values, np.uint64)


def _versions(data: bytes | None, num_rows: int) -> list[int]:
    return [int(version) for version in parse_row_versions(data, num_rows, path="t").versions()]


def test_segments_are_replaced_by_uuid_and_system_indices_by_name() -> None:
    base = table(indices=(index(0, "i", [0]), index(1, "i", [1]), reuse([8], [0])))
    newer = replace(reuse([8], [0]), uuid=UUIDS[3])
    result = made(base, CreateIndex((index(2, "i", [1]), newer), (index(1, "i", [1]),)))
    assert covered(result) == {UUIDS[0]: [0], UUIDS[2]: [1], UUIDS[3]: [0]}
    assert made(base, CreateIndex()).index_section == base.index_section


def test_what_else_an_index_section_holds_is_kept() -> None:
    section = build_indices((index(0, "i", [0]),)) or b""
    base = table(index_section=section + b"\x7a\x01z")
    gone = made(base, CreateIndex((), (index(0, "i", [0]),)))
    assert gone.index_section == b"\x7a\x01z"
    assert made(base, Delete()).index_section == base.index_section


def test_an_index_goes_with_its_column() -> None:
    base = table(indices=(index(0, "a", [0]), index(1, "b", [0], field_id=1), reuse([], [])))
    assert covered(made(base, Project(schema("a")))).keys() == {UUIDS[0], UUIDS[4]}


def test_an_index_that_does_not_say_what_it_covers_is_kept() -> None:
    base = table(indices=(index(0, "a", None), index(1, "a", [9])))
    assert covered(made(base, Delete())).keys() == {UUIDS[0]}


def test_a_group_is_in_an_index_as_a_whole_or_not_at_all() -> None:
    base = replace(table(indices=(index(0, "a", [0]),)), max_fragment_id=5)
    group = RewriteGroup(base.fragments, (fragment("z", id=5),))
    with pytest.raises(InvalidInputError, match="covers only"):
        made(base, Rewrite((group,), (RewrittenIndex(UUIDS[0], UUIDS[1]),)))
    assert covered(made(base, Rewrite((group,)))) == {UUIDS[0]: [0]}


def test_a_rewritten_segment_lies_in_this_dataset() -> None:
    far = replace(index(0, "a", [0, 1]), base_id=3, index_details=b"\n\x01/", index_version=2)
    base = replace(table(indices=(far,)), max_fragment_id=5, base_paths=(BasePath(3, "/x", True),))
    group = RewriteGroup(base.fragments, (fragment("z", id=5),))
    files = (IndexFile("page.lance", 3),)
    change = RewrittenIndex(UUIDS[0], UUIDS[1], new_index_files=files)
    (found,) = parse_indices(made(base, Rewrite((group,), (change,))).index_section, path="t")
    expected = index(0, "a", [5])
    assert found == replace(
        expected, uuid=UUIDS[1], index_details=b"\n\x01/", index_version=2, files=files
    )


def test_a_struct_is_indexed_through_its_members() -> None:
    fields = (Field("st", 0, -1, "struct"), Field("a", 1, 0, "int64"))
    base = table(schema=Schema(fields), indices=(index(0, "st", [0, 1]),))
    change = Update(updated_fragments=base.fragments[:1], fields_modified=(1,))
    assert covered(made(base, change)) == {UUIDS[0]: [1]}


def test_indices_follow_fragments_that_a_compaction_moved() -> None:
    base = table(indices=(index(0, "a", [7, 8]), index(1, "b", [7]), reuse([7, 8], [0])))
    moved = made(base, ReserveFragments(1))
    assert covered(moved) == {UUIDS[0]: [0], UUIDS[1]: [7], UUIDS[4]: [0]}
    change = Update(updated_fragments=base.fragments[:1], fields_modified=(0,))
    assert covered(made(base, change))[UUIDS[0]] == []


def test_where_moves_are_not_at_hand_no_index_is_trusted_or_dropped_for_them() -> None:
    far = reuse([], [], external=True)
    base = table(indices=(index(0, "a", [7]), index(1, "a", [8]), far))
    assert covered(made(base, Delete())).keys() == {UUIDS[0], UUIDS[1], UUIDS[4]}
    change = Update(updated_fragments=base.fragments[:1], fields_modified=(0,))
    assert covered(made(base, change)).keys() == {UUIDS[4]}


def test_a_compaction_that_leaves_indices_replaces_the_map_of_the_last() -> None:
    base = replace(table(indices=(index(0, "a", [0, 1]), reuse([], []))), max_fragment_id=5)
    group = RewriteGroup(base.fragments, (fragment("z", id=5),))
    newer = replace(reuse([0, 1], [5]), uuid=UUIDS[3])
    result = made(base, Rewrite((group,), fragment_reuse_index=newer))
    assert covered(result) == {UUIDS[0]: [0, 1], UUIDS[3]: [5]}


def test_damaged_moves() -> None:
    beyond = reuse([1 << 32], [0])
    cut = replace(beyond, index_details=b"\x12\x02\x0a\x05")
    for damaged, complaint in ((beyond, "is no fragment id"), (cut, "not a valid")):
        with pytest.raises(CorruptFileError, match=complaint):
            made(table(indices=(damaged,)), ReserveFragments(1))


def test_a_damaged_index_section_stops_a_change() -> None:
    with pytest.raises(CorruptFileError, match="index section of version"):
        made(table(index_section=b"\x0a\x05"), Delete())


def config(**updates: str | None) -> UpdateConfig:
    names = {"primary": "primary-key", "place": "primary-key:position"}
    entries = {f"lance-schema:unenforced-{names[k]}": v for k, v in updates.items()}
    return UpdateConfig(field_metadata={0: MapUpdate(entries)})


def test_keys_are_set_once_on_required_fields() -> None:
    base = table(schema=schema("a", nullable=False))
    keyed = made(base, config(primary="true"))
    assert keyed.schema.fields[0].unenforced_primary_key
    for change in (config(primary=None), config(place="2")):
        with pytest.raises(InvalidInputError, match="cannot be changed once it is set"):
            made(keyed, change)
    same = made(keyed, UpdateConfig(field_metadata={0: MapUpdate({"k": "v"})}))
    assert same.schema.fields[0].metadata["k"] == b"v"
    with pytest.raises(InvalidInputError, match="is nullable"):
        made(table(), config(place="1"))
    fields = (Field("st", 5, -1, "struct"), Field("a", 0, 5, "int64", nullable=False))
    with pytest.raises(InvalidInputError, match="one above it, is nullable"):
        made(table(schema=Schema(fields)), config(primary="true"))
