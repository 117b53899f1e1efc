"""The event loop of the suite, and what it prints at its end."""

from __future__ import annotations

import pytest

from integration.conformance.report import summarize


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    for line in summarize([dict(report.user_properties) for report in reports]):
        terminalreporter.write_line(line)
