"""Whether two changes may follow each other: what pylance decides, and what this library does.

Each change is made with pylance, from a handle that has not seen the other one. The verdicts are
shown in docs/conflicts.md, which is written anew with ALANCE_WRITE_DOCS=1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from alance.table.conflicts import Verdict
from integration.verdicts import Cell, render
from tests.table.changes import CHANGES, create
from tests.table.verdicts import agree, judge, make, reference_verdict

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DOCUMENT = Path(__file__).parent.parent / "docs" / "conflicts.md"

OF_ROWS = ("append", "delete row", "update row", "merge_ins", "rewrite")
WITH_KEYS = tuple(name for name in CHANGES if name.startswith(OF_ROWS))
WITH_ROW_IDS = (*WITH_KEYS, "compact 0 and 1", "index a", "cast a", "restore", "overwrite")

# Where the two differ, and why; everywhere else they must agree.
DIFFERENCES: Mapping[tuple[str, str], str] = MappingProxyType({
    ("append", "cast a"): "A cast gives the column a new field id. The appended file stores the old"
    " one, so pylance's append succeeds and its values read as null from then on; here the append"
    " is run again.",
    ("metadata of b", "drop b"): "The field is gone. Pylance notices while it builds the manifest"
    " and calls it invalid input; here it is a conflict.",
})

KEYED_DIFFERENCES: Mapping[tuple[str, str], str] = MappingProxyType({
    (f"merge_insert row{mine}", f"merge_insert row{theirs}"): "Both changes carry a filter of the"
    " keys they inserted. Pylance compares the filters; here they are not looked into, so the"
    " change is run again."
    for mine, theirs in [
        (" 50", " 60"),
        (" 60", " 50"),
        (" 60", "s 1 and 50"),
        ("s 1 and 50", " 60"),
    ]
})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def compare(folder: Path, names: Sequence[str], **options: bool) -> list[Cell]:
    """Every pair of the changes, judged by both."""
    base = folder / "base"
    version = create(base, **options)
    ours = [await make(name, base, version, folder / f"our {name}") for name in names]
    others = [await make(name, base, version, folder / f"their {name}") for name in names]
    cells: list[Cell] = []
    for mine in ours:
        for theirs in others:
            told = reference_verdict(mine, theirs, folder / "scratch")
            kinds = mine.made[-1][1].operation.name, theirs.made[-1][1].operation.name
            cells.append(Cell(mine.name, theirs.name, *kinds, told, await judge(mine, theirs)))
    return cells


def check(cells: Sequence[Cell], differences: Mapping[tuple[str, str], str]) -> None:
    found = {
        (cell.mine, cell.theirs): (cell.reference, cell.own)
        for cell in cells
        if not agree(cell.reference, cell.own)
    }
    assert found.keys() == differences.keys(), found


@pytest.fixture(scope="module")
async def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    return await compare(tmp_path_factory.mktemp("plain"), tuple(CHANGES))


async def test_verdicts(plain: list[Cell]) -> None:
    check(plain, DIFFERENCES)
    for verdict in Verdict:
        assert any(cell.own is verdict for cell in plain)


async def test_verdicts_with_stable_row_ids(tmp_path: Path) -> None:
    cells = await compare(tmp_path, WITH_ROW_IDS, stable_row_ids=True)
    check(cells, {pair: why for pair, why in DIFFERENCES.items() if {*pair} <= {*WITH_ROW_IDS}})


async def test_verdicts_with_a_primary_key(tmp_path: Path) -> None:
    check(await compare(tmp_path, WITH_KEYS, keyed=True), KEYED_DIFFERENCES)


async def test_the_documentation_shows_the_verdicts(plain: list[Cell]) -> None:
    text = render(plain, DIFFERENCES, KEYED_DIFFERENCES)
    if os.environ.get("ALANCE_WRITE_DOCS"):
        DOCUMENT.write_text(text, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == text, "run this test with ALANCE_WRITE_DOCS=1"
