"""The table at the end of a run: what was covered, and which encodings occurred on each side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from integration.conformance.axes import VERSIONS
from integration.conformance.matrix import Case

__all__ = ["HERE", "LABELS", "THERE", "properties", "summarize"]

HERE, THERE, LABELS = "alance", "pylance", "labels"
"""Names under which a test records what each side wrote, and what the case is."""


def properties(case: Case) -> list[tuple[str, object]]:
    """What identifies a case in a report, in forms that travel between processes."""
    return [("version", case.version), (LABELS, [list(label) for label in case.labels])]


def summarize(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table: numbers of cases by version, and by who wrote the file.

    Parameters
    ----------
    tests
        Recorded properties of the tests that passed.
    """
    cases = [test for test in tests if LABELS in test]
    if not cases:
        return
    yield ""
    yield from _covered(cases)
    yield ""
    yield from _occurred(cases)


def _covered(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How often each label of each axis was seen."""
    seen = Counter((axis, label, case["version"]) for case in cases for axis, label in case[LABELS])
    total = Counter(case["version"] for case in cases)
    yield _row("covered (cases)", VERSIONS)
    yield _row("all", [str(total[version]) for version in VERSIONS])
    labels = {(axis, label) for axis, label, _ in seen}
    for axis, label in sorted(labels, key=lambda each: (each[0], len(each[1]), each[1])):
        counts = [str(seen[axis, label, version] or "") for version in VERSIONS]
        yield _row(f"{axis}: {label}", counts)


def _occurred(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """In how many files of each writer a layout or encoding was found."""
    sides = [(version, side) for version in VERSIONS for side in (HERE, THERE)]
    found = Counter(
        (name, case["version"], side)
        for case in cases
        for _, side in sides[:2]
        for name in case.get(side, ())
    )
    yield _row("written (files)", [f"{side} {version}" for version, side in sides])
    for name in sorted({name for name, _, _ in found}):
        yield _row(name, [str(found[name, version, side] or "") for version, side in sides])


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:70}" + "".join(f"{cell:>14}" for cell in cells)
