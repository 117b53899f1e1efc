"""Taking rows by position or address, in any order: one round for the chunks that hold them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

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

__all__ = ["Rows", "VersionRows", "row_numbers"]

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
"""Rows that one take asks for: positions, or as unsigned numbers addresses."""

_Row = TypeVar("_Row", np.int64, np.uint64)

INLINE_TABLES = 16
"""So many results are made at once, more of them in a thread."""
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


@dataclass(frozen=True, slots=True)
class _Order:
    """Which of the distinct rows go where, for some takes one after the other."""

    places: npt.NDArray[np.intp]
    bounds: npt.NDArray[np.intp]
    """Where the places of each take begin, and the end of the last."""

    @classmethod
    def of(cls, asked: Sequence[Rows], places: npt.NDArray[np.intp]) -> _Order:
        """Order of rows that stand together in `places` as they were asked for."""
        bounds = np.zeros(len(asked) + 1, np.intp)
        np.cumsum([len(rows) for rows in asked], out=bounds[1:])
        return cls(places, bounds)

    def only(self, there: npt.NDArray[np.bool_]) -> _Order:
        """Leave out those of the distinct rows that are not `there`, as if they never were."""
        kept = there[self.places]
        before = np.zeros(len(kept) + 1, np.intp)
        np.cumsum(kept, out=before[1:])
        return _Order((np.cumsum(there) - 1)[self.places[kept]], before[self.bounds])

    def is_as_read(self, num_distinct: int) -> bool:
        """Whether one take gets all rows in the order in which they are read."""
        is_whole = len(self.bounds) == 2 and len(self.places) == num_distinct
        return is_whole and bool((np.diff(self.places) > 0).all())

    def apply(self, table: pa.Table) -> list[pa.Table]:
        """Rows of each take: a view where they are neighbours."""
        bounds, found = self.bounds.tolist(), []
        for start, stop in pairwise(bounds):
            places = self.places[start:stop]
            if stop - start < 2 or bool((np.diff(places) == 1).all()):
                first = int(places[0]) if stop > start else 0
                found.append(table.slice(first, stop - start))
            else:
                found.append(table.take(pa.array(places)))
        return found


class VersionRows:
    """The rows of a version, for takes: each reads those of one caller or of several together.

    Parameters
    ----------
    places, fragments
        The version.
    what
        Has the rows, as errors say.
    """

    def __init__(
        self, places: Places, fragments: Sequence[Fragment], *, what: str = "dataset"
    ) -> None:
        self.session = places.session
        self._places = places
        self._fragments = fragments
        self._what = what

    @cached_property
    def _ends(self) -> Numbers:
        """Position after the last row of each fragment."""
        return np.cumsum([fragment.num_rows for fragment in self._fragments], dtype=np.int64)

    @cached_property
    def _homes(self) -> tuple[npt.NDArray[np.uint64], dict[int, Fragment]]:
        """Fragments by id, and all ids."""
        homes = {fragment.id: fragment for fragment in self._fragments}
        return np.fromiter(homes, np.uint64, len(homes)), homes

    @cached_property
    def stored_bytes(self) -> int | None:
        """Bytes of all data files; None where not all are recorded."""
        sizes = [file.file_size_bytes for each in self._fragments for file in each.files]
        return sum(sizes) if all(sizes) else None

    @cached_property
    def physical_rows(self) -> int:
        """Rows, deleted ones included."""
        return sum(fragment.physical_rows for fragment in self._fragments)

    def positions(self, indices: Iterable[int]) -> Numbers:
        """Make what was asked for positions.

        Raises
        ------
        InvalidInputError
            It is no list of positions of these rows.
        """
        asked = _integers("indices", indices)
        num_rows = int(self._ends[-1]) if len(self._ends) else 0
        if len(asked) and not 0 <= int(asked.min()) <= int(asked.max()) < num_rows:
            wrong = asked[(asked < 0) | (asked >= num_rows)][0]
            rows = f"{num_rows} rows, 0 to {num_rows - 1}" if num_rows else "no rows"
            raise InvalidInputError(f"index {wrong} is out of range: the {self._what} has {rows}")
        return asked.astype(np.int64)

    async def take(self, asked: Sequence[Rows], projection: Projection) -> list[pa.Table]:
        """Read rows, those of all takes together.

        Parameters
        ----------
        asked
            By position or all by address, one array for each take, in any order.
        projection
            What to read of them.

        Returns
        -------
        list of pyarrow.Table
            The rows of each take, in its order. Addresses where no live row is are left out.

        Raises
        ------
        CorruptFileError, UnsupportedFeatureError, StoreError
            As `Dataset.take`.

        Notes
        -----
        Requests: one round for files not opened before, one for the chunks that hold the rows.
        """
        distinct, places = _distinct(np.concatenate(asked))
        order = _Order.of(asked, places)
        if distinct.dtype == np.uint64:
            addresses = distinct.astype(np.uint64, copy=False)
            there = np.isin(addresses >> np.uint64(_OFFSET_BITS), self._homes[0])
            order, wanted = order.only(there), self._at_addresses(addresses[there])
        else:
            wanted = self._at_positions(distinct.astype(np.int64, copy=False))
        return await _take(self._places, wanted, order, projection)

    def _at_positions(self, distinct: Numbers) -> list[_Wanted]:
        """Rows by fragment."""
        wanted = []
        homes = np.searchsorted(self._ends, distinct, side="right")
        for home, rows in _by_home(homes, distinct):
            fragment = self._fragments[home]
            start = self._ends[home] - fragment.num_rows
            wanted.append(_Wanted(fragment, rows - start, are_offsets=False))
        return wanted

    def _at_addresses(self, distinct: npt.NDArray[np.uint64]) -> list[_Wanted]:
        """Rows by fragment."""
        wanted = []
        for home, rows in _by_home(distinct >> np.uint64(_OFFSET_BITS), distinct):
            offsets = (rows - np.uint64(home << _OFFSET_BITS)).astype(np.int64)
            wanted.append(_Wanted(self._homes[1][home], offsets, are_offsets=True))
        return wanted


def _distinct(
    rows: npt.NDArray[np.integer[Any]],
) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.intp]]:
    """Distinct rows, ascending, and which of them each row is; rows often come so already."""
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, np.arange(len(rows))
    return np.unique(rows, return_inverse=True)


def _by_home(
    homes: npt.NDArray[np.integer[Any]], rows: npt.NDArray[_Row]
) -> Iterator[tuple[int, npt.NDArray[_Row]]]:
    """Rows in parts by what holds them; both ascending, and equally long."""
    if len(homes) and homes[0] == homes[-1]:
        yield int(homes[0]), rows
        return
    found = np.unique(homes)
    starts: list[int] = np.searchsorted(homes, found).tolist()
    bounds = pairwise([*starts, len(rows)])
    for home, (start, stop) in zip(found.tolist(), bounds, strict=True):
        yield home, rows[start:stop]


async def _take(
    places: Places, wanted: Sequence[_Wanted], order: _Order, projection: Projection
) -> list[pa.Table]:
    """Read rows of some fragments.

    Parameters
    ----------
    wanted
        At most one for each fragment.
    order
        Of the rows of all `wanted`, one after the other. Rows that are not there are left out of
        it.
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
        work = partial(_assemble, in_order, order, projection)
        num_bytes = sum(part.num_bytes for part in in_order)
        if num_bytes < INLINE_BYTES and len(order.bounds) - 1 <= INLINE_TABLES:
            return work()
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


def _assemble(parts: Sequence[_Part], order: _Order, projection: Projection) -> list[pa.Table]:
    """Decode and put rows where they were asked for."""
    batches = []
    for part in parts:
        arrays = [*part.decode(), *part.reader.pseudo_columns(projection.pseudo, part.rows)]
        batches.append(projection.finish(arrays, part.rows.num_rows))
    found = np.concatenate([part.found for part in parts]) if parts else np.empty(0, np.bool_)
    if not found.all():
        order = order.only(found)
    if not projection.schema.names:
        counts = np.diff(order.bounds).tolist()
        return [pa.Table.from_batches([projection.bare(count)]) for count in counts]
    table = pa.Table.from_batches(batches, schema=projection.schema)
    if order.is_as_read(int(found.sum())):
        return [table]
    # One chunk a column: take from many chunks looks each row up.
    with joining():
        return order.apply(table.combine_chunks())


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
