"""A case for every pair of operations that this library commits with every one that exists."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from alance.table.conflicts import Verdict, verdict
from alance.table.operations import (
    Append,
    MapUpdate,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    UpdateConfig,
)
from tests.table.samples import fragment, schema

OK, RETRY, NO = Verdict.COMPATIBLE, Verdict.RETRY, Verdict.INCOMPATIBLE


@dataclass(frozen=True)
class Unnamed:
    """An operation of a later version of the format."""

    name: str = "Teleport"


APPEND = Append((fragment("x"),))
OVERWRITE = Overwrite((fragment("x"),), schema())
CONFIGURING = Overwrite((), schema(), config={"k": "1"})

APPEND_ROW: list[tuple[Operation, Verdict]] = [
    (Append(()), OK),
    (Other("Delete"), OK),
    (Other("Update"), OK),
    (Overwrite((), schema()), NO),
    (Other("CreateIndex"), OK),
    (Other("Rewrite"), OK),
    (Merge((), schema(), preserves_nullability=True), OK),
    (Project(schema(), preserves_nullability=True), OK),
    (Other("Restore"), NO),
    (Other("ReserveFragments"), OK),
    (UpdateConfig(), OK),
    (Other("DataReplacement"), OK),
    (Other("Clone"), OK),
    (Other("UpdateBases"), OK),
    (Other("UpdateMemWalState"), NO),
    (Other("DataOverlay"), OK),
    (Other("Unknown"), NO),
]

OVERWRITE_ROW: list[tuple[Operation, Verdict]] = [
    (Append(()), OK),
    (Other("Delete"), OK),
    (Other("Update"), OK),
    (Overwrite((), schema()), RETRY),
    (Other("CreateIndex"), OK),
    (Other("Rewrite"), OK),
    (Merge((), schema()), OK),
    (Project(schema()), OK),
    (Other("Restore"), OK),
    (Other("ReserveFragments"), OK),
    (UpdateConfig(), OK),
    (Other("DataReplacement"), OK),
    (Other("Clone"), OK),
    (Other("UpdateBases"), OK),
    (Other("UpdateMemWalState"), NO),
    (Other("DataOverlay"), OK),
    (Other("Unknown"), NO),
]


def name_of(value: object) -> str | None:
    return getattr(value, "name", None)


@pytest.mark.parametrize(("theirs", "expected"), APPEND_ROW, ids=name_of)
def test_append(theirs: Operation, expected: Verdict) -> None:
    assert verdict(APPEND, theirs) is expected


@pytest.mark.parametrize(("theirs", "expected"), OVERWRITE_ROW, ids=name_of)
def test_overwrite(theirs: Operation, expected: Verdict) -> None:
    assert verdict(OVERWRITE, theirs) is expected


@pytest.mark.parametrize("mine", [APPEND, OVERWRITE], ids=name_of)
def test_what_the_table_does_not_list_is_incompatible(mine: Operation) -> None:
    assert verdict(mine, Unnamed()) is NO  # type: ignore[arg-type]
    assert verdict(Other("Delete"), mine) is NO


def test_append_after_a_column_may_no_longer_be_null() -> None:
    assert verdict(APPEND, Project(schema("a", nullable=False))) is RETRY
    assert verdict(APPEND, Merge((), schema())) is RETRY


def test_append_after_columns_were_dropped() -> None:
    assert verdict(APPEND, Project(schema("a"), preserves_nullability=True)) is OK


def test_append_after_a_column_was_cast_would_lose_its_values() -> None:
    cast = Merge((), schema("a"), preserves_nullability=True)  # field 1 is there no more
    assert verdict(APPEND, cast) is RETRY
    without = Append((fragment("x", fields=(0,)),))
    assert verdict(without, cast) is OK


def test_append_disregards_dead_slots() -> None:
    tombstone = Append((fragment("x", fields=(0, -2)),))
    assert verdict(tombstone, Merge((), schema("a"), preserves_nullability=True)) is OK


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (Overwrite((), schema(), config={"k": "2"}), NO),
        (Overwrite((), schema(), config={"other": "2"}), RETRY),
        (UpdateConfig(config=MapUpdate({"k": "2"})), NO),
        (UpdateConfig(config=MapUpdate({"k": None})), NO),
        (UpdateConfig(config=MapUpdate({"other": "2"})), OK),
        (UpdateConfig(config=MapUpdate({}, replace=True)), NO),
        (UpdateConfig(table_metadata=MapUpdate({"k": "2"})), OK),
        (UpdateConfig(schema_metadata=MapUpdate({"k": "2"}, replace=True)), OK),
        (UpdateConfig(field_metadata={0: MapUpdate({"k": "2"})}), OK),
    ],
)
def test_settings_of_an_overwrite_collide_by_key(theirs: Operation, expected: Verdict) -> None:
    assert verdict(CONFIGURING, theirs) is expected


def test_an_overwrite_without_settings_collides_with_none() -> None:
    assert verdict(OVERWRITE, UpdateConfig(config=MapUpdate({}, replace=True))) is OK
