from __future__ import annotations

import pytest

from benchmarks.encodings import bench_encodings, make_kinds
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


@pytest.mark.slow
async def test_every_encoding_is_benchmarked_as_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = await bench_encodings(5_000, 1)
    assert found.keys() == make_kinds().keys()
    lines = {line[:24].strip(): line for line in capsys.readouterr().out.splitlines()}
    for name in ("flat", "inline_bitpacking", "rle", "fsst", "variable", "fixed_size_list"):
        assert f"x  {name}" in lines[name]
    for name in ("byte_stream_split", "general", "dictionary", "packed_struct", "full_zip", "blob"):
        assert all(name in line.split("|")[0] for label, line in lines.items() if name in label)
