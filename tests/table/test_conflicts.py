"""A case for every cell of the table of conflicts, typed from the format's documents.

Each pair of operations is judged twice: once about different things (fragments, fields, names,
keys), and once about the same. What lies between is in test_conflicts_rules.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

import pytest

from alance.table.conflicts import Verdict, verdict
from alance.table.indices import IndexMetadata, build_fragment_bitmap
from alance.table.manifest import BasePath
from alance.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
)
from tests.table.samples import fragment, schema

LETTERS = MappingProxyType({
    ".": Verdict.COMPATIBLE,
    "m": Verdict.REBASE,
    "r": Verdict.RETRY,
    "X": Verdict.INCOMPATIBLE,
})

COLUMNS = (
    "Append", "Delete", "Update", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Project",
    "Restore", "ReserveFragments", "UpdateConfig", "DataReplacement", "Clone", "UpdateBases",
    "UpdateMemWalState", "DataOverlay", "Unknown",
)  # fmt: skip

# A row for the change to be committed, a letter for each of COLUMNS.
APART = """
    Append            . . . X . . . . X . . . . . X . X
    Delete            . . . X . . r . X . . . . . X . X
    Update            . . . X . . r . X . . . . . . r X
    Overwrite         . . . r . . . . . . . . . . X . X
    CreateIndex       . . m X . . . . X . . . . . X . X
    Rewrite           . . . X . . r . X . . . . . . r X
    Merge             r r r X . r r X X . . r . . X r X
    Project           . . . X . . r r X . . . . . X . X
    Restore           . . . . . . . . . . . . . . X . X
    ReserveFragments  . . . X . . . . X . . . . . . . X
    UpdateConfig      . . . . . . . . . . . . . . . . X
    DataReplacement   . . . X . . r . X . . . . . X . X
    UpdateBases       . . . . . . . . . . . . . . . . X
    Clone             X X X X X X X X X X X X X X X X X
"""

TOGETHER = """
    Append            . . . X . . r r X . . . . . X . X
    Delete            . m m X . r r . X . . r . . X . X
    Update            r m r X . r r r X . . r . . r r X
    Overwrite         . . . X . . . . . . X . . . X . X
    CreateIndex       . . m X r r . . X . . r . . X . X
    Rewrite           . r r X r r r . X . . r . . . r X
    Merge             r r r X . r r X X . r r . . X r X
    Project           r . r X . . r r X . m r . . X . X
    Restore           . . . . . . . . . . X . . . X . X
    ReserveFragments  . . . X . . . . X . . . . . . . X
    UpdateConfig      . . . X . . r . X . X . . . . . X
    DataReplacement   . . r X r r r r X . . r . . X . X
    UpdateBases       . . . . . . . . . . . . . X . . X
    Clone             X X X X X X X X X X X X X X X X X
"""

FRAGMENTS = (fragment("f", id=0), fragment("g", id=1))


@dataclass(frozen=True)
class Unnamed:
    """An operation of a later version of the format."""

    name: str = "Teleport"


def index(name: str, field: int, *fragments: int) -> IndexMetadata:
    return IndexMetadata(name, (field,), name, 3, build_fragment_bitmap(fragments))


def operations(i: int, *, strict: bool) -> Mapping[str, Operation]:
    """One of each kind, about the i-th fragment, field, name and key.

    The strict ones say nothing in their favour, and all that may be held against them.
    """
    key, kept = f"k{i}", FRAGMENTS[i]
    changed = MapUpdate({key: "1"})
    bases = (BasePath(0, f"/{key}", is_dataset_root=True, name=key),)
    found: list[Operation] = [
        Append((fragment("new"),)),
        Delete((kept,)),
        Update(
            updated_fragments=(kept,),
            new_fragments=(fragment("moved"),),
            fields_modified=(i,),
            inserted_rows=b"keys" if strict else None,
            unknown=b"logs" if strict else b"",
        ),
        Overwrite((), schema(), config={key: "1"}),
        CreateIndex((index(key, i, i),)),
        Rewrite((RewriteGroup((kept,), (fragment("whole", id=9),)),)),
        Merge(FRAGMENTS, schema(), preserves_nullability=not strict),
        Project(schema(), preserves_nullability=not strict),
        Restore(1),
        ReserveFragments(2),
        UpdateConfig(
            config=changed,
            table_metadata=changed,
            schema_metadata=changed if strict else None,
            field_metadata={i: changed} if strict else {},
        ),
        DataReplacement((Replacement(i, fragment("file", fields=(i,)).files[0]),)),
        Clone(is_shallow=True, ref_name=None, ref_version=1, ref_path="/other"),
        UpdateBases(bases),
        Other("UpdateMemWalState"),
        Other("DataOverlay"),
        Other("Unknown"),
    ]
    return {operation.name: operation for operation in found}


def cells(grid: str) -> list[tuple[str, str, Verdict]]:
    rows = [line.split() for line in grid.strip().split("\n")]
    return [
        (mine, theirs, LETTERS[letter])
        for mine, *letters in rows
        for theirs, letter in zip(COLUMNS, letters, strict=True)
    ]


def judge(mine: Operation, theirs: Operation) -> Verdict:
    return verdict(mine, theirs, has_affected_rows=True)


@pytest.mark.parametrize(("mine", "theirs", "expected"), cells(APART))
def test_changes_of_different_things(mine: str, theirs: str, expected: Verdict) -> None:
    ours, others = operations(0, strict=False), operations(1, strict=False)
    assert judge(ours[mine], others[theirs]) is expected


@pytest.mark.parametrize(("mine", "theirs", "expected"), cells(TOGETHER))
def test_changes_of_the_same_thing(mine: str, theirs: str, expected: Verdict) -> None:
    both = operations(0, strict=True)
    assert judge(both[mine], both[theirs]) is expected


def test_the_tables_have_every_pair_of_operations() -> None:
    written = {kind.name for kind in get_args(Operation) if kind is not Other}
    assert {*COLUMNS} == written | {"UpdateMemWalState", "DataOverlay", "Unknown"}
    for grid in (APART, TOGETHER):
        pairs = [(mine, theirs) for mine, theirs, _ in cells(grid)]
        assert len(pairs) == len({*pairs}) == len(written) * len(COLUMNS)


@pytest.mark.parametrize("mine", operations(0, strict=False).values(), ids=lambda mine: mine.name)
def test_what_the_table_does_not_list_is_incompatible(mine: Operation) -> None:
    assert judge(mine, Unnamed()) is Verdict.INCOMPATIBLE  # type: ignore[arg-type]
    assert judge(Unnamed(), mine) is Verdict.INCOMPATIBLE  # type: ignore[arg-type]
