"""Every case written here and read by the reference implementation, and the other way round."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from integration.conformance.cases import all_cases
from integration.conformance.check import check_case
from integration.conformance.matrix import Case, axes_of
from integration.conformance.report import HERE, THERE, properties

pytestmark = pytest.mark.anyio

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_both_libraries_agree(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here, there = await check_case(case, tmp_path)
    request.node.user_properties += [
        *properties(case),
        (HERE, sorted(here)),
        (THERE, sorted(there)),
    ]


def test_the_matrix_is_what_it_claims_to_be() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 300
    for version in {case.version for case in CASES}:
        labels = [dict(case.labels) for case in CASES if case.version == version]
        axes = axes_of(version)
        plain = [found for found in labels if axes.keys() == found.keys()]
        for one, two in combinations(axes, 2):
            pairs = {(found[one], found[two]) for found in plain}
            assert len(pairs) == len(axes[one]) * len(axes[two]), (version, one, two)
