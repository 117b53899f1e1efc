"""One writer process: `python -m integration.writers.worker alance|pylance URI ...`."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from integration.writers.journal import Journal

__all__: list[str] = []

ROWS = 3


class Library(Protocol):
    """The two changes, in either library; the answer says how it ended."""

    def append(self, data: pa.Table) -> str:
        """Add rows: "done", "failed" (and did not happen) or "unknown"."""
        ...

    def delete(self, predicate: str) -> str:
        """Remove rows: as above."""
        ...


class Alance:
    """By this library; anything but an unknown outcome is a promise."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        import alance

        self._alance, self._uri, self._options = alance, uri, options

    def append(self, data: pa.Table) -> str:
        return asyncio.run(self._append(data))

    def delete(self, predicate: str) -> str:
        return asyncio.run(self._delete(predicate))

    async def _append(self, data: pa.Table) -> str:
        write, errors = self._alance.write_dataset, self._alance
        try:
            await write(data, self._uri, mode="append", storage_options=self._options)
        except errors.CommitStateUnknownError:
            return "unknown"
        except errors.AlanceError:
            return "failed"
        return "done"

    async def _delete(self, predicate: str) -> str:
        errors = self._alance
        try:
            ds = await self._alance.open_dataset(self._uri, storage_options=self._options)
            await ds.delete(predicate)
        except errors.CommitStateUnknownError:
            return "unknown"
        except errors.AlanceError:
            return "failed"
        return "done"


class Pylance:
    """By the reference; its errors do not say whether the change happened."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        import lance

        self._lance, self._uri, self._options = lance, uri, options

    def append(self, data: pa.Table) -> str:
        try:
            self._lance.write_dataset(data, self._uri, mode="append", storage_options=self._options)
        except Exception:
            return "unknown"
        return "done"

    def delete(self, predicate: str) -> str:
        try:
            self._lance.dataset(self._uri, storage_options=self._options).delete(predicate)
        except Exception:
            return "unknown"
        return "done"


def work(library: Library, journal: Journal, first_id: int, changes: int, seed: int) -> None:
    """Make so many changes, a third of them deletes of rows that this process has added."""
    rng = random.Random(seed)
    mine: list[int] = []
    for i in range(changes):
        if mine and rng.random() < 0.33:
            ids: Sequence[int] = [mine.pop(rng.randrange(len(mine)))]
            journal.note("delete", ids, "meant")
            state = library.delete(f"id in ({', '.join(map(str, ids))})")
            journal.note("delete", ids, state)
            continue
        ids = range(first_id + i * ROWS, first_id + (i + 1) * ROWS)
        journal.note("append", ids, "meant")
        state = library.append(pa.table({"id": pa.array(ids, pa.int64())}))
        journal.note("append", ids, state)
        if state == "done":
            mine.extend(ids)


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["alance", "pylance"])
    parser.add_argument("uri")
    parser.add_argument("--options", type=json.loads, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--first-id", type=int, required=True)
    parser.add_argument("--changes", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    library: Library = (Alance if asked.library == "alance" else Pylance)(asked.uri, asked.options)
    work(library, Journal(asked.journal), asked.first_id, asked.changes, asked.seed)


if __name__ == "__main__":
    main()
