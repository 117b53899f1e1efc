"""OpenTelemetry: a span and counters for each call, where the program has it loaded; else nothing.

A program that exports spans or metrics has imported the API, and then it is in `sys.modules`. So
alance never imports it, and without it pays for one look into a dict per call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

__all__ = ["is_loaded", "observed"]

TRACE, METRICS = "opentelemetry.trace", "opentelemetry.metrics"
LIBRARY = "alance"
UNITS: Mapping[str, str] = {
    "requests": "{request}",
    "retries": "{request}",
    "bytes_fetched": "By",
    "bytes_used": "By",
    "bytes_written": "By",
}
"""Figures that are counted, with their units in UCUM."""


def is_loaded() -> bool:
    """Whether the program uses OpenTelemetry."""
    return TRACE in sys.modules or METRICS in sys.modules


@contextmanager
def observed(
    name: str, figures: Callable[[], Mapping[str, int | float]]
) -> Generator[None, None, None]:
    """Let a call be a span, current while it runs, and count what it cost.

    Parameters
    ----------
    name
        Of the call, such as `take`.
    figures
        What it has cost, by name; asked at its end. All become attributes ``alance.<name>`` of the
        span; those of `UNITS` are added to counters of the same names, with the call's name as
        attribute ``alance.call``.
    """
    trace = sys.modules.get(TRACE)
    try:
        if trace is None:
            yield
            return
        with trace.get_tracer(LIBRARY).start_as_current_span(f"{LIBRARY}.{name}") as span:
            try:
                yield
            finally:
                if span.is_recording():
                    span.set_attributes({f"{LIBRARY}.{k}": v for k, v in figures().items()})
    finally:
        _count(name, figures())


def _count(name: str, figures: Mapping[str, int | float]) -> None:
    metrics = sys.modules.get(METRICS)
    if metrics is None:
        return
    meter = metrics.get_meter(LIBRARY)
    for figure, unit in UNITS.items():
        if figures[figure]:
            counter = meter.create_counter(f"{LIBRARY}.{figure}", unit=unit)
            counter.add(figures[figure], {f"{LIBRARY}.call": name})
