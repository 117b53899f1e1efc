from __future__ import annotations

import pytest

from benchmarks.local import HEADINGS, bench_local

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_benchmarks_run_and_both_libraries_agree(capsys: pytest.CaptureFixture[str]) -> None:
    found = await bench_local(2_000, 1, "int64")
    assert set(found) == {
        "int64 sorted",
        "int64 small",
        "int64 random",
        "list<int64>",
    }
    for ratios in found.values():
        assert set(ratios) == set(HEADINGS)
        assert all(ratio > 0 for ratio in ratios.values())
    assert "int64 small" in capsys.readouterr().out
