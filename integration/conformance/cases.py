"""All cases in order."""

from __future__ import annotations

from integration.conformance.matrix import Case, generate
from integration.conformance.settings import generate_settings

__all__ = ["all_cases"]

WITHOUT = ("blob=", "packed=", "bss=", "compression=lz4", "compression=zstd", "compression=fsst")


def all_cases() -> list[Case]:
    """Every case, the same in each run."""
    found = [*generate(), *generate_settings()]
    return [
        case
        for case in found
        if case.version == "2.1" and not any(part in case.name for part in WITHOUT)
    ]
