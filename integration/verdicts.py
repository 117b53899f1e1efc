"""The page of the documentation that shows which changes may follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from alance.table.conflicts import Verdict

__all__ = ["Cell", "render"]

_MARKS: Mapping[Verdict, str] = MappingProxyType({
    Verdict.COMPATIBLE: "ok",
    Verdict.REBASE: "merge",
    Verdict.RETRY: "retry",
    Verdict.INCOMPATIBLE: "no",
})

_TOP = """\
<!-- Written by integration/test_verdicts.py when ALANCE_WRITE_DOCS=1 is set. -->

# Which changes may follow each other

A change is made on the version that its writer has read. When it is committed, other changes may
have become versions first. For each of them the commit decides, from the records of the two:

- **ok**: the change goes on top as it is.
- **merge**: it goes on top once it is brought up to date. The rows that each deleted of a fragment
  are united, as long as none is the same; a new index no longer covers fragments of which indexed
  values were replaced; a projection takes over newer metadata of fields.
- **retry**: the whole operation must be run again on the newest version (`RetryableCommitError`).
- **no**: the other change makes this one meaningless (`CommitConflictError`).

An operation that is not listed, such as one of a later version of the format, is never built upon.

The rules are in `alance/table/conflicts.py`, one row for each operation. What follows was found by
making every pair of changes with pylance 14, each from a handle that had not seen the other:
{num_cells} pairs, on {num_different} of which the two libraries differ; see the end.
"""

_BOTTOM = """
Not among the pairs, as this library makes no such change itself:

- `DataOverlay` and `UpdateMemWalState` are not looked into. After an overlay every update, rewrite
  and merge is run again, whichever rows it covers; after a change of write-ahead logs an update
  that merged logs is run again, and an index of them is refused.
- Two changes that both extend the fragment reuse index, which deferred compactions leave: the
  second is run again, while the reference merges the two histories.
- Where `Clone` would be the change to be committed: it begins a table, so it follows nothing.

Where a change goes ahead, both libraries make the same table of it, as
`integration/test_outcomes.py` shows. There is one exception: a projection (a column dropped,
renamed, or required) carries the whole schema as its writer read it. Where metadata of the schema
or of a field was changed meanwhile, pylance puts back what was before; here it stays as it was
changed.
"""


@dataclass(frozen=True)
class Cell:
    """Two changes, and what becomes of the first after the second.

    Parameters
    ----------
    mine, theirs
        Names of the changes.
    operation, other
        Kinds of their operations.
    reference
        What pylance decided; it does not tell `REBASE` from `COMPATIBLE`. None when it failed in
        another way.
    own
        What this library decides.
    """

    mine: str
    theirs: str
    operation: str
    other: str
    reference: Verdict | None
    own: Verdict


def render(cells: Sequence[Cell], *differences: Mapping[tuple[str, str], str]) -> str:
    """Page with all verdicts, and the reasons of those that are not pylance's.

    The first of `differences` are those among `cells`; others were found apart.
    """
    top = _TOP.format(num_cells=len(cells), num_different=len(differences[0]))
    parts = [top, *_by_operation(cells), *_by_change(cells), *_different(differences)]
    return "\n".join(parts) + "\n" + _BOTTOM


def _by_operation(cells: Sequence[Cell]) -> Iterator[str]:
    yield "## By operation\n"
    yield (
        "Rows are the change to be committed, columns the one that was there first. Where there "
        "are several marks, it depends on what the two change.\n"
    )
    kinds = list(dict.fromkeys(cell.operation for cell in cells))
    yield _row("", *kinds)
    yield _row(*["---"] * (len(kinds) + 1))
    for mine in kinds:
        row = [cell for cell in cells if cell.operation == mine]
        marks = [_marks(cell.own for cell in row if cell.other == other) for other in kinds]
        yield _row(f"**{mine}**", *marks)


def _by_change(cells: Sequence[Cell]) -> Iterator[str]:
    yield "\n## By change\n"
    yield "After all changes that are not named, the change goes on top as it is.\n"
    yield _row("change", "operation", "merge", "retry", "no")
    yield _row(*["---"] * 5)
    for mine in dict.fromkeys(cell.mine for cell in cells):
        row = [cell for cell in cells if cell.mine == mine]
        verdicts = (Verdict.REBASE, Verdict.RETRY, Verdict.INCOMPATIBLE)
        yield _row(mine, row[0].operation, *(_named(row, verdict) for verdict in verdicts))


def _named(row: Sequence[Cell], verdict: Verdict) -> str:
    """Changes with a verdict; of an operation of which all have it, the operation."""
    names: list[str] = []
    for other in dict.fromkeys(cell.other for cell in row):
        same = [cell for cell in row if cell.other == other]
        found = [cell.theirs for cell in same if cell.own is verdict]
        names += [f"every {other}"] if len(found) == len(same) > 1 else found
    return ", ".join(names)


def _different(differences: Sequence[Mapping[tuple[str, str], str]]) -> Iterator[str]:
    yield "\n## Where this library differs from pylance\n"
    reasons: dict[str, list[str]] = {}
    for pairs in differences:
        for (mine, theirs), reason in pairs.items():
            reasons.setdefault(reason, []).append(f"*{mine}* after *{theirs}*")
    for reason, found in reasons.items():
        yield f"- {', '.join(found)}: {reason}"


def _marks(verdicts: Iterator[Verdict]) -> str:
    found = set(verdicts)
    return " ".join(mark for verdict, mark in _MARKS.items() if verdict in found)


def _row(*columns: str) -> str:
    return f"| {' | '.join(columns)} |"
