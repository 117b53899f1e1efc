from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.encodings import bench_encodings, make_kinds
from benchmarks.local import HEADINGS, bench_local
from benchmarks.remote.measure import SIDES
from benchmarks.remote.run import RemoteOptions, bench_remote
from benchmarks.stalls import bench_stalls

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "rows"),
    [("take 10, 3, cold", 1), ("filter half", 1), ("append, 8", 1), ("memory", 0)],
)
async def test_the_remote_section_counts_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], only: str, rows: int
) -> None:
    chart = tmp_path / "pictures" / "chart.html"
    options = RemoteOptions(latencies_ms=[1], bandwidth_mb=0, budget_mib=1, chart=chart)
    found = await bench_remote(2_000, 1, only, options)
    printed = capsys.readouterr().out
    assert len(found) == rows
    for row in found:
        assert row.name in printed
        assert row.name.startswith(only)
        ours, theirs = row.costs[SIDES[0]], row.costs[SIDES[2]]
        assert 0 < ours.rounds <= ours.requests
        assert ours.requests < theirs.requests
        assert all(ratio is None or ratio > 0 for ratio in map(row.ratio, SIDES))
    assert ("peak memory" in printed) == (rows == 0)
    page = chart.read_text()
    assert page.count("<svg") == rows
    for svg in page.split("<svg")[1:]:
        bars = ET.fromstring("<svg" + svg.split("</svg>")[0] + "</svg>").findall("rect")
        assert len(bars) == sum(side in found[0].costs for side in SIDES[:2])


@pytest.mark.slow
async def test_stalls_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = await bench_stalls(2_000, 1, "")
    assert list(found) == ["write", "scan", "filter", "take 1000"]
    assert all(0 < stall.held <= stall.took for stall in found.values())
    assert "2,000 rows of 81 columns" in capsys.readouterr().out
