"""Taking rows by position or address, in any order: one round for the chunks that hold them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance._aio import run_all
from alance.dataset.fragment import DecodeRows, FragmentReader, open_fragment
from alance.dataset.late import CHUNK_BYTES
from alance.dataset.places import Places
from alance.dataset.projection import Projection
from alance.dataset.reading import INLINE_BYTES
from alance.encodings.assemble import joining
from alance.encodings.rows import RowRanges
from alance.errors import InvalidInputError
from alance.table.manifest import Fragment

__all__ = ["row_numbers", "take_addresses", "take_positions"]

Numbers = npt.NDArray[np.int64]

_OFFSET_BITS = 32


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Distinct rows of one fragment, by position among the live ones or by offset; ascending."""

    fragment: Fragment
    rows: Numbers
    are_offsets: bool

    def locate(self, reader: FragmentReader) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Offsets of the rows that are there, and which of `rows` these are."""
        if not self.are_offsets:
            return reader.live_rows.offsets(self.rows), np.ones(len(self.rows), np.bool_)
        live = reader.live_rows.contain(self.rows)
        return self.rows[live], live


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one fragment, fetched."""

    reader: FragmentReader
    rows: RowRanges
    found: npt.NDArray[np.bool_]
    decode: DecodeRows
    num_bytes: int


async def take_positions(
    places: Places,
    fragments: Sequence[Fragment],
    indices: Iterable[int],
    projection: Projection,
    *,
    what: str = "dataset",
) -> pa.Table:
    """Read rows by position; see `Dataset.take`. Errors say `what` has no such rows."""
    ends = np.cumsum([fragment.num_rows for fragment in fragments], dtype=np.int64)
    num_rows = int(ends[-1]) if len(ends) else 0
    asked = _integers("indices", indices)
    wrong = (asked < 0) | (asked >= num_rows)
    if bool(wrong.any()):
        rows = f"{num_rows} rows, 0 to {num_rows - 1}" if num_rows else "no rows"
        raise InvalidInputError(f"index {asked[wrong][0]} is out of range: the {what} has {rows}")
    distinct, order = np.unique(asked.astype(np.int64), return_inverse=True)
    homes = np.searchsorted(ends, distinct, side="right")
    wanted = []
    for home in np.unique(homes).tolist():
        start = ends[home] - fragments[home].num_rows
        positions = distinct[homes == home] - start
        wanted.append(_Wanted(fragments[home], positions, are_offsets=False))
    return await _take(places, wanted, order, projection)


async def take_addresses(
    places: Places,
    fragments: Sequence[Fragment],
    addresses: npt.NDArray[np.uint64],
    projection: Projection,
) -> pa.Table:
    """Read rows by address, in the order given; those that are not there are left out."""
    homes = {fragment.id: fragment for fragment in fragments}
    known = np.fromiter(homes, np.uint64, len(homes))
    there = np.isin(addresses >> np.uint64(_OFFSET_BITS), known)
    distinct, order = np.unique(addresses[there], return_inverse=True)
    ids = distinct >> np.uint64(_OFFSET_BITS)
    wanted = []
    for home in np.unique(ids).tolist():
        offsets = (distinct[ids == home] - np.uint64(home << _OFFSET_BITS)).astype(np.int64)
        wanted.append(_Wanted(homes[home], offsets, are_offsets=True))
    return await _take(places, wanted, order, projection)


async def _take(
    places: Places, wanted: Sequence[_Wanted], order: npt.NDArray[np.intp], projection: Projection
) -> pa.Table:
    """Read rows of some fragments.

    Parameters
    ----------
    wanted
        At most one for each fragment.
    order
        Which of the rows of all `wanted`, one after the other, is where in the result. Rows that
        are not there are left out of it.
    """
    parts: dict[int, _Part] = {}
    # A share for each fragment: what was fetched waits for the others, and must not hold them up.
    shares = [places.session.budget.share() for _ in wanted]

    async def fetch(number: int) -> None:
        reader = await open_fragment(places, wanted[number].fragment, projection)
        offsets, found = wanted[number].locate(reader)
        rows = RowRanges.of_rows(offsets)
        charge = _charge(reader, projection, rows)
        await shares[number].acquire(charge)
        decode, num_bytes = await reader.fetch(projection.roots, rows)
        num_bytes += reader.pseudo_bytes(projection.pseudo, rows.num_rows)
        shares[number].settle(charge, num_bytes)
        parts[number] = _Part(reader, rows, found, decode, num_bytes)

    try:
        await run_all([partial(fetch, number) for number in range(len(wanted))])
        in_order = [parts[number] for number in range(len(wanted))]
        if sum(part.num_bytes for part in in_order) < INLINE_BYTES:
            return _assemble(in_order, order, projection)
        work = partial(_assemble, in_order, order, projection)
        return await places.session.run_in_thread(work)
    finally:
        for share in shares:
            share.close()


def _charge(reader: FragmentReader, projection: Projection, rows: RowRanges) -> int:
    """Bytes that single rows are likely to take: a chunk of each column for each run of rows."""
    chunks = len(rows.starts) * len(projection.leaves) * CHUNK_BYTES
    row_bytes = reader.row_bytes(projection.roots)
    whole = row_bytes * reader.fragment.physical_rows
    return int(min(rows.num_rows * row_bytes + chunks, whole))


def _assemble(
    parts: Sequence[_Part], order: npt.NDArray[np.intp], projection: Projection
) -> pa.Table:
    """Decode and put rows where they were asked for."""
    batches = []
    for part in parts:
        arrays = [*part.decode(), *part.reader.pseudo_columns(projection.pseudo, part.rows)]
        batches.append(projection.finish(arrays, part.rows.num_rows))
    found = np.concatenate([part.found for part in parts]) if parts else np.empty(0, np.bool_)
    if not found.all():
        order = (np.cumsum(found) - 1)[order[found[order]]]
    num_distinct = int(found.sum())
    if not projection.schema.names:
        return pa.Table.from_batches([projection.bare(len(order))])
    table = pa.Table.from_batches(batches, schema=projection.schema)
    if len(order) == num_distinct and bool((np.diff(order) > 0).all()):
        return table
    # One chunk a column: take from many chunks looks each row up.
    with joining():
        return table.combine_chunks().take(pa.array(order))


def row_numbers(name: str, given: Iterable[int]) -> npt.NDArray[np.uint64]:
    """Make row ids or addresses an array.

    Raises
    ------
    InvalidInputError
        What was given is something else; `name` says what it was given as.
    """
    found = _integers(name, given)
    if bool((found < 0).any()):
        raise InvalidInputError(f"{name} must be from 0, not {found.min()}")
    return found.astype(np.uint64)


def _integers(name: str, given: Iterable[int]) -> npt.NDArray[np.integer[Any]]:
    """Make what was given an array of whole numbers, of whatever width they have."""
    try:
        items = given if hasattr(given, "__array__") else list(given)
        found = np.asarray(items)
        if found.dtype == np.float64 and all(type(item) is int for item in items):
            found = np.asarray(items, np.uint64)  # below and above 2**63
    except (TypeError, ValueError, OverflowError) as exc:
        raise _no_integers(name, given) from exc
    if found.size == 0 and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
        raise _no_integers(name, given)
    return found


def _no_integers(name: str, given: object) -> InvalidInputError:
    return InvalidInputError(
        f"{name} must be a flat sequence of integers, such as [0, 17], not {reprlib.repr(given)}"
    )
