"""All cases in order."""

from __future__ import annotations

from integration.conformance.matrix import Case, generate, generate_large
from integration.conformance.scatter import generate_scattered
from integration.conformance.settings import generate_settings

__all__ = ["all_cases"]


def all_cases() -> list[Case]:
    """Every case, the same in each run."""
    return [*generate(), *generate_settings(), *generate_large(), *generate_scattered()]
