"""At which version the rows of a fragment were created, or last updated: runs of equal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["RowVersions"]


@dataclass(frozen=True, slots=True, eq=False)
class RowVersions:
    """One version of the table for each row of a fragment, deleted ones included.

    Parameters
    ----------
    values
        Version of each run of rows; uint64.
    positions
        Row offset at which each run begins, and the number of rows at the end; int64, ascending.
    """

    values: npt.NDArray[np.uint64]
    positions: npt.NDArray[np.int64]

    @classmethod
    def uniform(cls, num_rows: int, version: int) -> RowVersions:
        """The same version for all rows."""
        if not num_rows:
            return cls.concat(())
        return cls(np.array([version], np.uint64), np.array([0, num_rows]))

    @classmethod
    def from_versions(cls, versions: npt.NDArray[np.uint64]) -> RowVersions:
        """A version for each row."""
        if not len(versions):
            return cls.concat(())
        firsts = np.flatnonzero(np.append(True, versions[1:] != versions[:-1]))
        return cls(versions[firsts], np.append(firsts, len(versions)))

    @classmethod
    def concat(cls, parts: Sequence[RowVersions]) -> RowVersions:
        """Versions of several sequences one after the other; equal neighbours become one run."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls(np.zeros(0, np.uint64), np.zeros(1, np.int64))
        rows = np.cumsum([0, *(len(part) for part in parts)])
        values = np.concatenate([part.values for part in parts])
        firsts = np.concatenate([
            part.positions[:-1] + row for part, row in zip(parts, rows, strict=False)
        ])
        new = np.append(True, values[1:] != values[:-1])
        return cls(values[new], np.append(firsts[new], rows[-1]))

    def __len__(self) -> int:
        return int(self.positions[-1])

    def versions(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.uint64]:
        """Versions of the rows at offsets start, ..., stop - 1; None reads to the end."""
        return self.versions_at(np.arange(start, len(self) if stop is None else stop))

    def versions_at(self, offsets: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
        """Versions of the rows at some offsets, which must be below `len(self)`, in any order."""
        return self.values[np.searchsorted(self.positions, offsets, side="right") - 1]

    def replace(self, offsets: npt.NDArray[np.integer], version: int) -> RowVersions:
        """Another version for the rows at some offsets."""
        versions = self.versions()
        versions[offsets] = version
        return self.from_versions(versions)

    def select(self, offsets: npt.NDArray[np.integer]) -> RowVersions:
        """Versions of some rows, in the order of the offsets."""
        return self.from_versions(self.versions_at(offsets))
