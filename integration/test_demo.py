"""The demo as users run it: a process of its own, all flights, both kinds of store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def _run_demo(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "demo", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "336,776 rows" in done.stdout
    assert "Spark's totals equal those of the CSV." in done.stdout
    return done.stdout


def test_on_s3() -> None:
    assert "wrote versions 1 and 2 of s3://" in _run_demo()


def test_on_local_disk_and_once_more(tmp_path: Path) -> None:
    first, second = (_run_demo("--store", str(tmp_path)) for _ in range(2))
    assert f"wrote versions 1 and 2 of {tmp_path}" in first
    assert f"wrote versions 3 and 4 of {tmp_path}" in second
