"""Running a coroutine to its end on the background event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from alance.io.loop import background

__all__ = ["run"]

T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Result of `work`, which is started on the loop of this process's background thread."""
    return background.thread().call(work)
