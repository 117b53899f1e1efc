"""Rows that a change takes from their fragments: found by a scan, hidden by deletion files."""

from __future__ import annotations

import array
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

import anyio
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from alance._aio import run_all, run_to_end
from alance.dataset.fragment import read_deleted
from alance.dataset.places import Places
from alance.dataset.projection import Projection
from alance.dataset.row_columns import ADDRESS_BITS, ROW_ADDRESS
from alance.dataset.run import ScanOptions
from alance.dataset.stream import BatchStream
from alance.errors import InvalidInputError
from alance.table.deletion import deletion_path, write_deletion_file
from alance.table.manifest import Fragment, Manifest
from alance.table.objects import discard

__all__ = ["HiddenRows", "find_rows", "hide_rows", "plan_find"]

INLINE_ROWS = 10_000
"""Fewer rows are put into bitmaps at once: the way to a thread costs more."""
WRITES_AHEAD = 64
"""Deletion files being written, and held, at once."""


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """What fragments become without some of their rows; nothing is committed yet.

    Parameters
    ----------
    places
        Where they lie.
    updated
        Fragments with a new deletion file each.
    removed
        Ids of fragments of which no row is left.
    """

    places: Places
    updated: tuple[Fragment, ...]
    removed: tuple[int, ...]

    async def undo(self) -> None:
        """Remove the deletion files again, as far as the store lets us."""
        paths = [deletion_path(self.places.root, fragment) for fragment in self.updated]
        await run_to_end(discard(self.places.client, paths))


def plan_find(manifest: Manifest, predicate: str) -> Projection:
    """Plan the scan of `find_rows`, which reads the columns that the predicate names.

    Raises
    ------
    InvalidInputError
        The predicate is no text, does not parse, or does not fit the schema.
    """
    if not isinstance(predicate, str):
        raise InvalidInputError(f"predicate must be SQL text, not {predicate!r}")
    return Projection.of(manifest.schema, [ROW_ADDRESS], filter=predicate, has_pseudo=True)


async def find_rows(
    places: Places, manifest: Manifest, projection: Projection
) -> dict[int, BitMap]:
    """Offsets of the live rows that a planned scan gives back, by fragment id.

    Notes
    -----
    Requests: those of a scan. Memory: the session's byte budget at most, and the bitmaps.
    """
    options = ScanOptions(projection, manifest.fragments, ordered=False)
    found: dict[int, BitMap] = {}
    async with aclosing(BatchStream(places, options)) as batches:
        async for batch in batches:
            add = partial(_add, found, batch.column(0).to_numpy())
            if batch.num_rows < INLINE_ROWS:
                add()
            else:
                await places.session.run_in_thread(add)
    return found


def _add(found: dict[int, BitMap], addresses: npt.NDArray[np.uint64]) -> None:
    ids = addresses >> np.uint64(ADDRESS_BITS)
    for fragment_id in np.unique(ids).tolist():
        offsets = addresses[ids == fragment_id].astype(np.uint32)
        # Several times faster than from NumPy's own array.
        rows = BitMap(array.array("I", offsets.tobytes()))
        found.setdefault(fragment_id, BitMap()).update(rows)


async def hide_rows(places: Places, manifest: Manifest, rows: Mapping[int, BitMap]) -> HiddenRows:
    """Write the deletion files that fragments need so that rows are gone.

    Parameters
    ----------
    places, manifest
        The version that the rows were found in.
    rows
        Offsets of live rows by fragment id, none empty.

    Raises
    ------
    StoreError
        A file could not be written; what was, has been removed.

    Notes
    -----
    Requests: one for each fragment that keeps some of its rows, `WRITES_AHEAD` at a time; one more
    before for its present deletion file, unless the session knows it. A cancellation removes what
    was written.
    """
    touched = [fragment for fragment in manifest.fragments if fragment.id in rows]
    kept = [fragment for fragment in touched if len(rows[fragment.id]) < fragment.num_rows]
    removed = [fragment.id for fragment in touched if len(rows[fragment.id]) == fragment.num_rows]
    written: dict[int, Fragment] = {}
    slots = anyio.Semaphore(WRITES_AHEAD)

    async def hide(fragment: Fragment) -> None:
        async with slots:
            offsets = rows[fragment.id]
            if fragment.deletion_file is not None:
                offsets = offsets | BitMap((await read_deleted(places, fragment)).astype(np.uint32))
            file = await write_deletion_file(
                places.client, places.root, fragment.id, offsets, read_version=manifest.version
            )
            written[fragment.id] = replace(fragment, deletion_file=file)

    try:
        await run_all([partial(hide, fragment) for fragment in kept])
    except BaseException:
        await HiddenRows(places, tuple(written.values()), ()).undo()
        raise
    return HiddenRows(places, tuple(written[fragment.id] for fragment in kept), tuple(removed))
