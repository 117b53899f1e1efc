"""Finding rows by id: an index from stable row ids to addresses, made of what the manifest says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import numpy as np
import numpy.typing as npt

from alance._aio import run_all
from alance.dataset.fragment import read_deleted
from alance.dataset.places import Places
from alance.dataset.row_columns import check_row_ids, decode_row_ids
from alance.table.manifest import Fragment
from alance.table.row_ids import RowIdIndex, RowIds

__all__ = ["RowFinder"]

INLINE_BYTES = 64 * 1024
"""Row ids of fewer bytes are decoded at once: the way to a thread costs more."""

Offsets = npt.NDArray[np.int64]


class RowFinder:
    """Finds rows of one version by their stable ids.

    The index is made when it is first asked for, and again when the session's caches had to let it
    go.

    Parameters
    ----------
    places, fragments
        The version.
    """

    def __init__(self, places: Places, fragments: Sequence[Fragment]) -> None:
        self._places = places
        self._fragments = fragments
        self._key = (object(),)
        """Of the index among those of the session: nobody else's, whatever becomes of the URI."""
        self._turn = anyio.Lock(fast_acquire=True)

    async def find(self, row_ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Address of each row; `NO_ROW`, or that of a deleted row, where no live row has the id.

        Raises
        ------
        CorruptFileError
            Row ids or deletion files are damaged, or two live rows have the same id.

        Notes
        -----
        Requests: where the index is made, in one round, the deletion files that the session does
        not know of fragments that may have ids in common: those that rows were moved out of, and
        to.
        """
        kept = self._places.session.row_indices
        async with self._turn:
            index = kept.get(self._key)
            if index is None:
                index = kept.put(self._key, await _build_index(self._places, self._fragments))
        return index.lookup(row_ids)


async def _build_index(places: Places, fragments: Sequence[Fragment]) -> RowIdIndex:
    """Index all live rows, and those deleted ones whose id no other row can have."""
    check_row_ids(fragments)

    def decode() -> tuple[list[RowIds], list[bool]]:
        found = [decode_row_ids(fragment) for fragment in fragments]
        return found, _may_share(found)

    num_bytes = sum(len(fragment.row_ids or b"") for fragment in fragments)
    is_small = num_bytes < INLINE_BYTES
    row_ids, shared = decode() if is_small else await places.session.run_in_thread(decode)
    deleted: dict[int, Offsets] = {}

    async def read(fragment: Fragment) -> None:
        deleted[fragment.id] = await read_deleted(places, fragment)

    hiding = [
        fragment
        for fragment, is_shared in zip(fragments, shared, strict=True)
        if is_shared and fragment.deletion_file is not None
    ]
    await run_all([partial(read, fragment) for fragment in hiding])

    def build() -> RowIdIndex:
        return RowIdIndex.build(
            (fragment.id, ids, deleted.get(fragment.id))
            for fragment, ids in zip(fragments, row_ids, strict=True)
        )

    return build() if is_small else await places.session.run_in_thread(build)


def _may_share(row_ids: Sequence[RowIds]) -> list[bool]:
    """Whether the range of each fragment's ids meets that of another."""
    filled = [i for i, ids in enumerate(row_ids) if len(ids)]
    shared = np.zeros(len(row_ids), np.bool_)
    if not filled:
        return shared.tolist()
    lows = np.array([ids.starts.min() for ids in row_ids if len(ids)])
    lasts = [(ids.starts + (ids.runs - 1).astype(np.uint64)).max() for ids in row_ids if len(ids)]
    order = np.argsort(lows)
    lows, highs = lows[order], np.array(lasts)[order]
    meets = np.zeros(len(filled), np.bool_)
    meets[1:] |= lows[1:] <= np.maximum.accumulate(highs)[:-1]
    meets[:-1] |= lows[1:] <= highs[:-1]
    shared[np.array(filled)[order]] = meets
    return shared.tolist()
