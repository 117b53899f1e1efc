"""Stable row ids: the ids of a fragment's rows, and the way from ids back to row addresses.

Ids mostly count up, so a sequence is kept as runs of consecutive ids and never spelled out as a
whole. It also remembers the segments it was made of: each is stored in the form that suits it, so a
long range and scattered ids do not spoil each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alance.errors import CorruptFileError

__all__ = ["NO_ROW", "ROW_ID_MAX", "RowIdIndex", "RowIds"]

ROW_ID_MAX = (1 << 64) - 2
"""All ones means no row."""

NO_ROW = (1 << 64) - 1
"""Address of an id that no live row has."""

_OFFSET_BITS = 32


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """Stable ids of the rows of a fragment, deleted ones included.

    Parameters
    ----------
    starts
        First id of each run of consecutive ids; uint64.
    positions
        Row offset at which each run begins, and the number of rows at the end; int64, ascending.
    segments
        Run at which each segment begins, and the number of runs at the end; int64, ascending.
    """

    starts: npt.NDArray[np.uint64]
    positions: npt.NDArray[np.int64]
    segments: npt.NDArray[np.int64]

    @classmethod
    def from_range(cls, start: int, stop: int) -> RowIds:
        """The ids start, ..., stop - 1, as one segment."""
        if start == stop:
            return cls.concat(())
        starts = np.array([start], np.uint64)
        return cls(starts, np.array([0, stop - start]), np.array([0, 1]))

    @classmethod
    def from_ids(cls, ids: npt.NDArray[np.uint64]) -> RowIds:
        """Any ids in any order, as one segment."""
        return cls._from_ids(ids, np.zeros(0, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[RowIds]) -> RowIds:
        """Ids of several sequences one after the other; ranges that meet become one."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls(np.zeros(0, np.uint64), np.zeros(1, np.int64), np.zeros(1, np.int64))
        rows = np.cumsum([0, *(len(part) for part in parts)])
        runs = np.cumsum([0, *(len(part.starts) for part in parts)])
        starts = np.concatenate([part.starts for part in parts])
        positions = np.concatenate(
            [part.positions[:-1] + row for part, row in zip(parts, rows, strict=False)]
            + [rows[-1:]]
        )
        segments = np.concatenate(
            [part.segments[:-1] + run for part, run in zip(parts, runs, strict=False)] + [runs[-1:]]
        )
        return cls(starts, positions, segments)._merge_ranges()

    def __len__(self) -> int:
        return int(self.positions[-1])

    @property
    def runs(self) -> npt.NDArray[np.int64]:
        """Length of each run."""
        return np.diff(self.positions)

    def ids(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.uint64]:
        """Ids of the rows at offsets start, ..., stop - 1; None reads to the end."""
        return self.ids_at(np.arange(start, len(self) if stop is None else stop))

    def ids_at(self, offsets: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
        """Ids of the rows at some offsets, which must be below `len(self)`, in any order."""
        run = np.searchsorted(self.positions, offsets, side="right") - 1
        ids: npt.NDArray[np.uint64] = self.starts[run]
        ids += (offsets - self.positions[run]).astype(np.uint64)
        return ids

    def select(self, offsets: npt.NDArray[np.integer]) -> RowIds:
        """Ids of some rows, their offsets ascending: the survivors of a compaction."""
        edges = self.positions[self.segments[1:-1]]
        return self._from_ids(self.ids_at(offsets), np.searchsorted(offsets, edges))

    @classmethod
    def _from_ids(cls, ids: npt.NDArray[np.uint64], edges: npt.NDArray[np.int64]) -> RowIds:
        """Runs of ids, with a new segment at each of `edges`."""
        if not len(ids):
            return cls.concat(())
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = ids[1:] != ids[:-1] + np.uint64(1)
        edges = np.unique(edges[(edges > 0) & (edges < len(ids))])
        begins[edges] = True
        positions = np.flatnonzero(begins)
        segments = np.concatenate([[0], np.searchsorted(positions, edges), [len(positions)]])
        return cls(ids[positions], np.append(positions, len(ids)), segments)

    def _merge_ranges(self) -> RowIds:
        """Segments that are single runs and continue the one before become one with it."""
        single = np.diff(self.segments) == 1
        first = self.segments[:-1]
        stops = self.starts + self.runs.astype(np.uint64)
        meets = np.zeros(len(first), np.bool_)
        meets[1:] = single[1:] & single[:-1] & (self.starts[first[1:]] == stops[first[1:] - 1])
        if not meets.any():
            return self
        gone = first[meets]
        kept_segments = np.append(first[~meets], self.segments[-1])
        segments = kept_segments - np.searchsorted(gone, kept_segments)
        return RowIds(np.delete(self.starts, gone), np.delete(self.positions, gone), segments)


@dataclass(frozen=True, slots=True, eq=False)
class RowIdIndex:
    """The addresses of all live rows of a version, by stable row id.

    Parameters
    ----------
    starts, stops
        Runs of consecutive ids, half-open, ascending and apart; uint64.
    addresses
        Row address of the first id of each run; uint64.
    """

    starts: npt.NDArray[np.uint64]
    stops: npt.NDArray[np.uint64]
    addresses: npt.NDArray[np.uint64]

    @property
    def cached_bytes(self) -> int:
        """Bytes held."""
        return self.starts.nbytes + self.stops.nbytes + self.addresses.nbytes

    @classmethod
    def build(
        cls, fragments: Iterable[tuple[int, RowIds, npt.NDArray[np.integer] | None]]
    ) -> RowIdIndex:
        """Index fragments: id, row ids, and the ascending offsets of its deleted rows (or None).

        Raises
        ------
        CorruptFileError
            Two live rows have the same id.
        """
        pieces = [_live_runs(*fragment) for fragment in fragments]
        if not pieces:
            none = np.zeros(0, np.uint64)
            return cls(none, none, none)
        starts, stops, addresses = (np.concatenate(column) for column in zip(*pieces, strict=True))
        order = np.argsort(starts)
        starts, stops, addresses = starts[order], stops[order], addresses[order]
        if len(twice := np.flatnonzero(starts[1:] < stops[:-1])):
            raise CorruptFileError(f"two live rows have the stable id {int(starts[twice[0] + 1])}")
        return cls(starts, stops, addresses)

    def lookup(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Row address of each id; `NO_ROW` where no live row has it."""
        if not len(self.starts):
            return np.full(len(ids), NO_ROW, np.uint64)
        run = np.maximum(np.searchsorted(self.starts, ids, side="right") - 1, 0)
        found = (ids >= self.starts[run]) & (ids < self.stops[run])
        addresses = self.addresses[run] + (ids - self.starts[run])
        return np.where(found, addresses, np.uint64(NO_ROW))


def _live_runs(
    fragment_id: int, row_ids: RowIds, deleted: npt.NDArray[np.integer] | None
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Runs of a fragment, cut where rows are deleted: first ids, stops, first addresses."""
    positions = row_ids.positions
    if deleted is not None and len(deleted):
        gone = deleted.astype(np.int64)
        edges = np.sort(np.concatenate([positions, gone, gone + 1]))
        edges = edges[np.append(True, edges[1:] != edges[:-1])]
        live = np.ones(len(edges) - 1, np.bool_)
        live[np.searchsorted(edges, gone)] = False
        firsts, lengths = edges[:-1][live], np.diff(edges)[live]
    else:
        firsts, lengths = positions[:-1], row_ids.runs
    starts = row_ids.ids_at(firsts)
    addresses = np.uint64(fragment_id << _OFFSET_BITS) + firsts.astype(np.uint64)
    return starts, starts + lengths.astype(np.uint64), addresses
