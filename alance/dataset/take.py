"""Taking rows by position: one round for the chunks that hold them, in any order asked for."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance._aio import run_all
from alance.dataset.fragment import DecodeRows, FragmentReader, Places, open_fragment
from alance.dataset.projection import Projection
from alance.dataset.stream import INLINE_BYTES
from alance.encodings.assemble import joining
from alance.encodings.rows import RowRanges
from alance.errors import InvalidInputError
from alance.table.manifest import Fragment

__all__ = ["take_positions"]

Positions = npt.NDArray[np.int64]


async def take_positions(
    places: Places,
    fragments: tuple[Fragment, ...],
    indices: Iterable[int],
    projection: Projection,
    *,
    what: str = "dataset",
) -> pa.Table:
    """Read rows by position; see `Dataset.take`. Errors say `what` has no such rows."""
    ends = np.cumsum([fragment.num_rows for fragment in fragments], dtype=np.int64)
    wanted = _positions(indices, int(ends[-1]) if len(ends) else 0, what)
    distinct, order = np.unique(wanted, return_inverse=True)
    homes = np.searchsorted(ends, distinct, side="right")
    parts: dict[int, tuple[FragmentReader, RowRanges, DecodeRows, int]] = {}

    async def fetch(home: int, positions: Positions) -> None:
        reader = await open_fragment(places, fragments[home], projection)
        rows = RowRanges.of_rows(reader.offsets(positions))
        decode, num_bytes = await reader.fetch(projection, rows)
        parts[home] = (reader, rows, decode, num_bytes)

    jobs = []
    for home in np.unique(homes).tolist():
        start = ends[home] - fragments[home].num_rows
        jobs.append(partial(fetch, home, distinct[homes == home] - start))
    await run_all(jobs)

    def work() -> pa.Table:
        batches = []
        for home in sorted(parts):
            reader, rows, decode, _ = parts[home]
            addresses = reader.addresses(rows) if projection.needs_addresses else None
            batches.append(projection.finish(decode(), rows.num_rows, addresses))
        if not projection.schema.names:
            return pa.Table.from_batches([projection.bare(len(order))])
        table = pa.Table.from_batches(batches, schema=projection.schema)
        if len(order) == len(distinct) and bool((np.diff(order) > 0).all()):
            return table
        # One chunk a column: take from many chunks looks each row up.
        with joining():
            return table.combine_chunks().take(pa.array(order))

    if sum(num_bytes for *_, num_bytes in parts.values()) < INLINE_BYTES:
        return work()
    return await places.session.run_in_thread(work)


def _positions(indices: Iterable[int], num_rows: int, what: str) -> Positions:
    """Check positions and make them an array."""
    try:
        found = np.asarray(indices if hasattr(indices, "__array__") else list(indices))
    except (TypeError, ValueError, OverflowError) as exc:
        raise _no_integers(indices) from exc
    if found.size == 0 and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
        raise _no_integers(indices)
    wrong = (found < 0) | (found >= num_rows)
    if bool(wrong.any()):
        rows = f"{num_rows} rows, 0 to {num_rows - 1}" if num_rows else "no rows"
        raise InvalidInputError(f"index {found[wrong][0]} is out of range: the {what} has {rows}")
    return found.astype(np.int64)


def _no_integers(indices: object) -> InvalidInputError:
    return InvalidInputError(
        f"indices must be a flat sequence of integers, such as [0, 17], not {reprlib.repr(indices)}"
    )
