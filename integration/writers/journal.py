"""What a writer writes down before and after each change, so that its death loses nothing of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Journal", "Promises", "read_journals"]


class Journal:
    """An append-only file of one writer process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def note(self, change: str, ids: Iterable[int], state: str) -> None:
        """Write down that a change of these rows is meant, acknowledged or refused."""
        json.dump({"change": change, "ids": list(ids), "state": state}, self._file)
        self._file.write("\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass(frozen=True, slots=True)
class Promises:
    """What the journals of all writers say together, as sets of row ids."""

    added: set[int] = field(default_factory=set)
    """Appends that were acknowledged."""
    perhaps_added: set[int] = field(default_factory=set)
    """Appends of which nobody was told how they ended."""
    never_added: set[int] = field(default_factory=set)
    """Appends that were reported to have failed."""
    removed: set[int] = field(default_factory=set)
    """Deletes that were acknowledged."""
    perhaps_removed: set[int] = field(default_factory=set)
    """Deletes of which nobody was told how they ended."""


def read_journals(folder: Path) -> Promises:
    """Read the journals of all writers; a last line that death cut short was not written."""
    promises = Promises()
    for path in folder.glob("*.journal"):
        lines = path.read_text().split("\n")
        for entry in map(json.loads, lines[:-1]):
            ids = set(entry["ids"])
            open_, done = (
                (promises.perhaps_added, promises.added)
                if entry["change"] == "append"
                else (promises.perhaps_removed, promises.removed)
            )
            if entry["state"] == "meant":
                open_ |= ids
                continue
            if entry["state"] != "unknown":
                open_ -= ids
            if entry["state"] == "done":
                done |= ids
            elif entry["state"] == "failed" and entry["change"] == "append":
                promises.never_added.update(ids)
    return promises
