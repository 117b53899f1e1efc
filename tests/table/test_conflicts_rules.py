"""The conditions of the cells of the table of conflicts, where the content decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alance.errors import CorruptFileError
from alance.table.conflicts import Verdict, verdict
from alance.table.indices import FRAGMENT_REUSE, MEM_WAL, IndexMetadata, build_fragment_bitmap
from alance.table.manifest import BasePath, Fragment
from alance.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    Replacement,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMode,
)
from tests.table.samples import fragment, schema

OK, MERGE = Verdict.COMPATIBLE, Verdict.REBASE
RETRY, NO = Verdict.RETRY, Verdict.INCOMPATIBLE

F0, F1 = fragment("f", id=0), fragment("g", id=1)
REWRITTEN = fragment("other", id=0)


def judge(mine: Operation, theirs: Operation) -> Verdict:
    return verdict(mine, theirs, has_affected_rows=True)


def index(name: str, *fragments: int, field: int = 0) -> IndexMetadata:
    return IndexMetadata(name, (field,), name, 3, build_fragment_bitmap(fragments))


def rewrite(*old: int, deferred: bool = False) -> Rewrite:
    group = RewriteGroup(tuple((F0, F1)[i] for i in old), (fragment("new", id=9),))
    return Rewrite((group,), fragment_reuse_index=index(FRAGMENT_REUSE, 9) if deferred else None)


def replacement(fragment_id: int, *fields: int) -> DataReplacement:
    return DataReplacement((Replacement(fragment_id, fragment("new", fields=fields).files[0]),))


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (Delete((F0,)), Delete((F0,)), MERGE),
        (Delete((F0, F1)), Update(updated_fragments=(F1,)), MERGE),
        (Delete((F0,), (1,)), Delete((F0,)), MERGE),
        (Delete((F0,)), Delete((), (0,)), RETRY),
        (Delete((F1,), (0,)), Delete((F0,)), RETRY),
        (Delete((), (0,)), Delete((), (0,)), RETRY),
        (Update(removed_fragment_ids=(0,)), Delete((F0,)), RETRY),
        (Delete((F0,)), Update(removed_fragment_ids=(0,)), RETRY),
        (Delete((F0,)), Update(updated_fragments=(REWRITTEN,)), RETRY),
        (Update(updated_fragments=(REWRITTEN,)), Delete((F0,)), RETRY),
        (Delete(), Delete((F0,)), OK),
        (Delete((F0,)), Delete(), OK),
    ],
)
def test_rows(mine: Operation, theirs: Operation, expected: Verdict) -> None:
    assert judge(mine, theirs) is expected


def test_rows_of_one_fragment_are_not_merged_when_they_are_not_known() -> None:
    mine = theirs = Delete((F0,))
    assert verdict(mine, theirs) is RETRY
    assert verdict(mine, Delete((F1,))) is OK


def test_only_the_change_with_a_filter_of_keys_fears_inserted_rows() -> None:
    filtered, plain = Update(inserted_rows=b"keys"), Update()
    assert judge(filtered, plain) is RETRY
    assert judge(plain, filtered) is OK
    assert judge(filtered, Append(())) is RETRY
    assert judge(Append(()), filtered) is OK


KEPT = Project(schema(), preserves_nullability=True)
WITHOUT_B = Project(schema("a"), preserves_nullability=True)
REQUIRED = Project(schema("a", nullable=False))
WRITES = [Append((F0,)), Update(new_fragments=(F0,)), replacement(0, 0)]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_values_may_be_null_where_that_is_forbidden_now(write: Operation) -> None:
    assert judge(write, REQUIRED) is judge(REQUIRED, write) is RETRY
    assert judge(write, KEPT) is judge(KEPT, write) is OK


@pytest.mark.parametrize("change", [Delete((F0,)), rewrite(0), CreateIndex((index("i", 0),))])
def test_what_writes_no_values_is_never_null(change: Operation) -> None:
    assert judge(change, REQUIRED) is judge(REQUIRED, change) is OK


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        (Append((fragment("x", fields=(0, 1)),)), OK),
        (Update(fields_modified=(0,)), OK),
        (Update(fields_modified=(0, 1)), RETRY),
        (replacement(0, 0, -2), OK),
        (replacement(0, 1), NO),
        (UpdateConfig(field_metadata={0: MapUpdate({"k": "1"})}), OK),
        (UpdateConfig(field_metadata={1: MapUpdate({"k": "1"})}), NO),
        (UpdateConfig(field_metadata={1: MapUpdate()}), OK),
    ],
)
def test_after_a_column_was_dropped(mine: Operation, expected: Verdict) -> None:
    assert judge(mine, WITHOUT_B) is expected


@pytest.mark.parametrize(
    ("fields", "preserves", "expected"),
    [
        ((0,), True, OK),
        ((0, -2), True, OK),
        ((0, 1), True, RETRY),
        ((0,), False, RETRY),
    ],
)
def test_append_after_a_cast(fields: tuple[int, ...], preserves: bool, expected: Verdict) -> None:
    """Field 1 is there no more: its values would be lost."""
    theirs = Merge((), schema("a"), preserves_nullability=preserves)
    assert judge(Append((fragment("x", fields=fields),)), theirs) is expected


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (Delete((F0,)), OK),
        (Delete((), (1,)), OK),
        (Delete((), (0,)), NO),
        (Update(removed_fragment_ids=(0,)), NO),
        (Update(updated_fragments=(F0,)), OK),
        (Update(updated_fragments=(F0,), new_fragments=(F1,)), RETRY),
        (Update(updated_fragments=(F1,), new_fragments=(F1,)), OK),
        (Update(updated_fragments=(F0,), fields_modified=(0,)), RETRY),
        (Update(updated_fragments=(F0,), fields_modified=(1,)), OK),
        (Update(updated_fragments=(F1,), fields_modified=(0,)), OK),
        (
            Update(
                updated_fragments=(F0,),
                new_fragments=(F1,),
                fields_modified=(1,),
                update_mode=UpdateMode.REWRITE_COLUMNS,
            ),
            OK,
        ),
        (replacement(0, 0, 1), RETRY),
        (replacement(0, 1), OK),
        (replacement(1, 0), OK),
        (CreateIndex((index("i", field=0),)), RETRY),
        (CreateIndex((index("i", field=1),)), OK),
        (CreateIndex((), (index("i", field=0),)), OK),
    ],
)
def test_replacing_data(theirs: Operation, expected: Verdict) -> None:
    assert judge(replacement(0, 0), theirs) is expected


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (CreateIndex((index("i"),)), CreateIndex((index("j"),)), OK),
        (CreateIndex((index("i"),)), CreateIndex((index("i"),)), RETRY),
        (CreateIndex((index("i"),)), CreateIndex((), (index("i"),)), RETRY),
        (CreateIndex((), (index("i"),)), CreateIndex((index("i"),)), RETRY),
        (CreateIndex((), (index("i"),)), CreateIndex((), (index("i"),)), OK),
        (CreateIndex((index(MEM_WAL),)), CreateIndex((index(MEM_WAL),)), RETRY),
        (CreateIndex((index(MEM_WAL),)), Merge((), schema(), preserves_nullability=True), RETRY),
        (Merge((), schema(), preserves_nullability=True), CreateIndex((index(MEM_WAL),)), RETRY),
        (CreateIndex((index("i", 0),)), Update(updated_fragments=(F0,)), OK),
        (CreateIndex((index("i", 0),)), Update(fields_modified=(1,)), MERGE),
        (CreateIndex((), (index("i", 0),)), Update(fields_modified=(1,)), OK),
    ],
)
def test_indices(mine: Operation, theirs: Operation, expected: Verdict) -> None:
    assert judge(mine, theirs) is expected


UNSAID = replace(index("i"), fragment_bitmap=None)


@pytest.mark.parametrize(
    ("entry", "deferred", "before", "after"),
    [
        (index("i", 2), False, OK, OK),
        (index("i", 0), False, RETRY, RETRY),
        (UNSAID, False, RETRY, RETRY),
        (index("i", 2), True, OK, OK),
        (index("i", 0, 1, 2), True, OK, OK),
        (index("i", 0), True, OK, RETRY),
        (UNSAID, True, OK, RETRY),
        (index(FRAGMENT_REUSE, 2), False, OK, OK),
        (index(FRAGMENT_REUSE, 2), True, RETRY, RETRY),
    ],
)
def test_an_index_and_a_rewrite(
    entry: IndexMetadata, deferred: bool, before: Verdict, after: Verdict
) -> None:
    index, rewritten = CreateIndex((entry,)), rewrite(0, 1, deferred=deferred)
    assert judge(index, rewritten) is before
    assert judge(rewritten, index) is after


def test_dropping_an_index_goes_with_any_rewrite() -> None:
    dropped = CreateIndex((), (index("i", 0),))
    for rewritten in (rewrite(0), rewrite(0, deferred=True)):
        assert judge(dropped, rewritten) is judge(rewritten, dropped) is OK


def test_of_two_deferred_rewrites_each_lacks_the_map_of_the_other() -> None:
    assert judge(rewrite(0, deferred=True), rewrite(1, deferred=True)) is RETRY
    assert judge(rewrite(0, deferred=True), rewrite(1)) is OK
    assert judge(rewrite(0), rewrite(1, deferred=True)) is OK


def test_a_damaged_bitmap_of_fragments_is_told() -> None:
    damaged = CreateIndex((replace(index("i"), fragment_bitmap=b"no bitmap"),))
    for pair in ((damaged, rewrite(0)), (rewrite(0, deferred=True), damaged)):
        with pytest.raises(CorruptFileError, match="bitmap"):
            judge(*pair)


def test_a_bitmap_that_claims_every_fragment_is_not_counted_out() -> None:
    every = replace(index("i"), fragment_bitmap=build_fragment_bitmap(range(1 << 16)))
    assert judge(rewrite(0, deferred=True), CreateIndex((every,))) is OK


SET, OTHER = MapUpdate({"k": "1"}), MapUpdate({"l": "1"})
REMOVED, CLEARED = MapUpdate({"k": None}), MapUpdate({}, replace=True)


@pytest.mark.parametrize(
    ("mine", "theirs", "config", "metadata"),
    [
        (SET, OTHER, OK, OK),
        (SET, SET, NO, NO),
        (SET, REMOVED, NO, NO),
        (REMOVED, SET, NO, NO),
        (REMOVED, REMOVED, OK, NO),
        (SET, CLEARED, OK, NO),
        (CLEARED, SET, OK, NO),
        (CLEARED, MapUpdate(), OK, OK),
        (MapUpdate({"k": "1"}, replace=True), MapUpdate({"k": "2"}, replace=True), NO, NO),
    ],
)
def test_keys_of_the_table(
    mine: MapUpdate, theirs: MapUpdate, config: Verdict, metadata: Verdict
) -> None:
    assert judge(UpdateConfig(config=mine), UpdateConfig(config=theirs)) is config
    pair = UpdateConfig(table_metadata=mine), UpdateConfig(table_metadata=theirs)
    assert judge(*pair) is metadata
    assert judge(UpdateConfig(config=mine), UpdateConfig(table_metadata=theirs)) is OK


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (UpdateConfig(schema_metadata=SET), UpdateConfig(schema_metadata=OTHER), NO),
        (UpdateConfig(schema_metadata=SET), UpdateConfig(schema_metadata=MapUpdate()), OK),
        (UpdateConfig(field_metadata={0: SET}), UpdateConfig(field_metadata={0: OTHER}), NO),
        (UpdateConfig(field_metadata={0: SET}), UpdateConfig(field_metadata={1: SET}), OK),
        (UpdateConfig(schema_metadata=SET), UpdateConfig(field_metadata={0: SET}), OK),
        (UpdateConfig(schema_metadata=SET), Overwrite((), schema()), NO),
        (UpdateConfig(field_metadata={0: SET}), Overwrite((), schema()), NO),
        (UpdateConfig(config=SET), Overwrite((), schema()), OK),
        (UpdateConfig(config=SET), Overwrite((), schema(), config={"k": "2"}), NO),
        (UpdateConfig(config=SET), Overwrite((), schema(), config={"l": "2"}), OK),
        (Overwrite((), schema(), config={"k": "2"}), UpdateConfig(config=REMOVED), NO),
        (Overwrite((), schema(), config={"k": "2"}), UpdateConfig(config=OTHER), OK),
        (Overwrite((), schema(), config={"k": "2"}), UpdateConfig(config=CLEARED), OK),
        (Overwrite((), schema(), config={"k": "2"}), UpdateConfig(table_metadata=SET), OK),
        (Overwrite((), schema()), UpdateConfig(schema_metadata=CLEARED), OK),
        (Overwrite((), schema(), config={"k": "1"}), Overwrite((), schema()), RETRY),
        (
            Overwrite((), schema(), config={"k": "1"}),
            Overwrite((), schema(), config={"k": "1"}),
            NO,
        ),
    ],
)
def test_settings_and_metadata(mine: Operation, theirs: Operation, expected: Verdict) -> None:
    assert judge(mine, theirs) is expected


@pytest.mark.parametrize(
    "described", [UpdateConfig(schema_metadata=SET), UpdateConfig(field_metadata={0: SET})]
)
def test_metadata_of_the_schema_and_changes_of_the_whole(described: UpdateConfig) -> None:
    merge = Merge((), schema(), preserves_nullability=True)
    assert judge(described, merge) is judge(merge, described) is RETRY
    assert judge(described, Restore(1)) is judge(Restore(1), described) is NO
    settings = UpdateConfig(config=SET, table_metadata=SET)
    for whole in (merge, Restore(1)):
        assert judge(settings, whole) is judge(whole, settings) is OK


def test_a_projection_is_merged_with_newer_metadata_of_fields() -> None:
    assert judge(KEPT, UpdateConfig(field_metadata={0: SET})) is MERGE
    assert judge(KEPT, UpdateConfig(schema_metadata=SET)) is OK


def base(id: int, name: str | None, path: str) -> UpdateBases:
    return UpdateBases((BasePath(id, path, is_dataset_root=True, name=name),))


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (base(0, None, "/x"), base(0, None, "/y"), OK),
        (base(1, "x", "/x"), base(2, "y", "/y"), OK),
        (base(1, "x", "/x"), base(1, "y", "/y"), NO),
        (base(1, "x", "/x"), base(2, "x", "/y"), NO),
        (base(1, "x", "/x"), base(2, "y", "/x"), NO),
    ],
)
def test_base_paths(mine: Operation, theirs: Operation, expected: Verdict) -> None:
    assert judge(mine, theirs) is expected


def test_a_change_of_nothing_is_not_held_against_it() -> None:
    nothing: tuple[Fragment, ...] = ()
    for empty in (Append(nothing), Delete(), Update()):
        assert judge(empty, rewrite(0)) is OK
        assert judge(rewrite(0), empty) is OK
