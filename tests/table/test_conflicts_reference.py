"""Some of the verdicts of pylance; integration/test_verdicts.py has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from alance.table.operations import Rewrite
from tests.table.changes import create
from tests.table.verdicts import agree, judge, make, reference_verdict

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOME = (
    "append",
    "delete row 1",
    "update row 2",
    "rewrite b in fragment 0",
    "index a",
    "compact 0 and 1",
    "merge",
    "drop b",
    "require b",
    "config k",
    "replace c in fragment 0",
)


async def test_verdicts_are_those_of_the_reference(tmp_path: Path) -> None:
    base = tmp_path / "base"
    version = create(base)
    ours = [await make(name, base, version, tmp_path / f"our {name}") for name in SOME]
    others = [await make(name, base, version, tmp_path / f"their {name}") for name in SOME]
    for mine in ours:
        for theirs in others:
            told = reference_verdict(mine, theirs, tmp_path / "scratch")
            own = await judge(mine, theirs)
            assert agree(told, own), f"{mine.name} after {theirs.name}: {told}, here {own}"


@pytest.mark.parametrize(
    ("name", "deferred"), [("compact 0 and 1", False), ("compact 0 and 1 (deferred)", True)]
)
async def test_a_deferred_compaction_is_known_by_its_version(
    tmp_path: Path, name: str, deferred: bool
) -> None:
    """Its record does not tell."""
    base = tmp_path / "base"
    compacted = await make(name, base, create(base), tmp_path / "made")
    (operation,) = [t.operation for _, t in compacted.made if isinstance(t.operation, Rewrite)]
    assert (operation.fragment_reuse_index is not None) is deferred
