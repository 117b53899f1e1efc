"""A slice of the conformance suite: every type, nesting, length and setting at least once."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.conformance.check import check_case
from integration.conformance.matrix import Case, generate, thin
from integration.conformance.settings import generate_settings

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


CASES = thin([*generate(), *generate_settings()])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_both_libraries_agree(case: Case, tmp_path: Path) -> None:
    await check_case(case, tmp_path)
