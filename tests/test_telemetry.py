"""OpenTelemetry where it is loaded: stand-ins for its API record what they are told."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import alance
from tests.dataset.helpers import ROOT, numbers

pytestmark = pytest.mark.anyio


@dataclass
class Span:
    """A span that records, with what a tracer's context manager notes of errors."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.attributes.update(attributes)


class Telemetry:
    """Tracer and meter in one."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.units: dict[str, str] = {}

    @contextmanager
    def start_as_current_span(self, name: str) -> Generator[Span, None, None]:
        span = Span(name)
        self.spans.append(span)
        try:
            yield span
        except BaseException as exc:
            span.error = exc
            raise

    def create_counter(self, name: str, unit: str) -> Any:
        self.units[name] = unit

        def add(amount: float, attributes: dict[str, str]) -> None:
            self.counts[name, attributes["alance.call"]] += int(amount)

        return SimpleNamespace(add=add)


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    found = Telemetry()
    api = SimpleNamespace(get_tracer=lambda name: found, get_meter=lambda name: found)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", api)
    return found


async def test_a_span_for_each_call_with_what_it_cost(telemetry: Telemetry, tmp_path: Path) -> None:
    with alance.receipt() as spent:
        ds = await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
    await ds.take([5, 99])
    await ds.head(3)
    assert [span.name for span in telemetry.spans] == [
        "alance.write_dataset",
        "alance.take",
        "alance.head",
    ], "calls inside of calls are no spans of their own"
    attributes = telemetry.spans[0].attributes
    assert attributes["alance.requests"] == spent.num_requests
    assert attributes["alance.rounds"] == spent.rounds
    assert attributes["alance.bytes_written"] == spent.bytes_written
    assert attributes["alance.retries"] == 0
    assert attributes["alance.wait_s"] >= 0


async def test_an_iteration_is_a_call(telemetry: Telemetry, tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
    async for _ in ds.scan(["a"]):
        pass
    assert [span.name for span in telemetry.spans][1:] == ["alance.scan"]
    assert telemetry.spans[1].attributes["alance.requests"] == 1


async def test_errors_are_noted(telemetry: Telemetry, tmp_path: Path) -> None:
    with pytest.raises(alance.DatasetNotFoundError) as caught:
        await alance.open_dataset(tmp_path / ROOT)
    assert telemetry.spans[0].error is caught.value
    assert telemetry.spans[0].attributes["alance.requests"] == 1


async def test_counters(telemetry: Telemetry, tmp_path: Path) -> None:
    with alance.receipt() as spent:
        ds = await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
        await ds.take([5])
    counts = telemetry.counts
    requests = counts["alance.requests", "write_dataset"] + counts["alance.requests", "take"]
    assert requests == spent.num_requests
    assert counts["alance.bytes_written", "write_dataset"] == spent.bytes_written
    assert telemetry.units["alance.bytes_written"] == "By"


async def test_metrics_alone(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    await alance.write_dataset(numbers(0, 100), tmp_path / ROOT)
    assert telemetry.spans == []
    assert telemetry.counts["alance.requests", "write_dataset"] > 0
