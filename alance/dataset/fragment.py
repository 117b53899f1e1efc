"""Reading one fragment: its data files and deletion vector, opened once, then any of its rows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance._aio import run_all
from alance.dataset.projection import Projection, RootPlan
from alance.dataset.row_columns import RowColumns
from alance.encodings.assemble import joining, leaf_to_arrow, zip_leaves
from alance.encodings.rows import RowRanges, expand_ranges
from alance.encodings.step import Decode
from alance.errors import CorruptFileError, FormatError
from alance.file.blobs import count_blob_bytes, read_blobs
from alance.file.columns import ColumnReader, run_steps
from alance.file.located import located
from alance.file.reader import FileReader
from alance.io.client import StoreClient
from alance.session import DeletedOffsets, Session
from alance.table.deletion import read_deletion_vector
from alance.table.location import CommitHandler, TableLocation
from alance.table.manifest import DataFile, Fragment
from alance.table.naming import join

__all__ = [
    "DecodeRows",
    "FragmentReader",
    "Places",
    "open_columns",
    "open_fragment",
    "read_deleted",
]

DecodeRows: TypeAlias = Callable[[], list[pa.Array]]
"""Decodes fetched rows; CPU only, for a thread."""

Offsets = npt.NDArray[np.int64]
SAMPLE_RUNS = 4
SAMPLE_RUN_ROWS = 8
"""Blobs whose sizes stand for those of all: neighbours, in a few places."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a dataset's files lie: its own root and its base paths, each with a client."""

    session: Session
    client: StoreClient
    root: str
    handler: CommitHandler
    """Of the dataset's own versions."""
    bases: dict[int, tuple[StoreClient, str, bool]]
    """Base id -> client, path, whether it is a dataset root."""
    opened: FileReader | None = None
    """The one file there is, where it is read alone: such files may be replaced under their name,
    so that the session does not keep them."""

    @property
    def table(self) -> TableLocation:
        """Where the dataset's versions are."""
        return TableLocation(self.client, self.root, self.handler)

    def on(self, session: Session) -> Places:
        """Return the same places, reached through another session."""
        bases = {
            number: (session.clients.wrap(client.store), path, is_root)
            for number, (client, path, is_root) in self.bases.items()
        }
        client = session.clients.wrap(self.client.store)
        return Places(session, client, self.root, self.handler, bases)

    def data_file(self, file: DataFile) -> tuple[StoreClient, str]:
        """Client and path of a data file."""
        if file.base_id is None:
            return self.client, join(self.root, "data", file.path)
        client, path, is_root = self._base(file.base_id)
        return client, join(path, "data", file.path) if is_root else join(path, file.path)

    def deletion_root(self, fragment: Fragment) -> tuple[StoreClient, str]:
        """Client and dataset root of a fragment's deletion file."""
        assert fragment.deletion_file is not None
        if fragment.deletion_file.base_id is None:
            return self.client, self.root
        client, path, _ = self._base(fragment.deletion_file.base_id)
        return client, path

    def _base(self, base_id: int) -> tuple[StoreClient, str, bool]:
        found = self.bases.get(base_id)
        if found is None:
            raise CorruptFileError(f"a file lies below base path {base_id}, which is not recorded")
        return found


@dataclass(frozen=True, slots=True)
class _Column:
    """A column with the file it is in."""

    file: FileReader
    reader: ColumnReader
    blob_row_bytes: float = 0.0
    """Bytes that descriptors of a row lead to, on average, once they have been measured."""

    @property
    def num_bytes(self) -> float:
        """Stored bytes, those of blobs as far as they are known."""
        return self.reader.num_bytes + self.blob_row_bytes * self.reader.num_rows


class FragmentReader:
    """An opened fragment: readers of the wanted columns, and which rows are deleted."""

    def __init__(
        self, fragment: Fragment, columns: dict[int, _Column], deleted: Offsets | None
    ) -> None:
        self.fragment = fragment
        self._columns = columns
        self._deleted = deleted
        self._row_columns = RowColumns(fragment)

    @property
    def row_bytes(self) -> float:
        """Stored bytes of a row in the wanted columns, on average."""
        stored = sum(column.num_bytes for column in self._columns.values())
        return stored / max(self.fragment.physical_rows, 1)

    async def measure_blobs(self, projection: Projection) -> None:
        """Look at some descriptors of blobs, so that windows are cut to what these lead to.

        Notes
        -----
        Requests: none without blobs of version 2.2; else a few in two rounds, of some 100 bytes.
        """
        num_rows = self.fragment.physical_rows
        wanted = projection.blob_ids.intersection(self._columns)
        if not wanted or not num_rows:
            return
        starts = np.linspace(0, max(num_rows - SAMPLE_RUN_ROWS, 0), SAMPLE_RUNS).astype(np.int64)
        rows = np.minimum(expand_ranges(starts, starts + SAMPLE_RUN_ROWS), num_rows - 1)
        sample = RowRanges.of_rows(np.unique(rows))

        async def measure(field_id: int) -> None:
            column = self._columns[field_id]
            with located(column.file.path):
                found, _ = await run_steps(column.reader.plan(sample), column.file)
                num_bytes = sum(count_blob_bytes(page) for page in found)
            row_bytes = num_bytes / sample.num_rows
            self._columns[field_id] = replace(column, blob_row_bytes=row_bytes)

        await run_all([partial(measure, field_id) for field_id in wanted])

    def page_bounds(self) -> Sequence[int]:
        """Rows where the pages of the widest column start; none where deleted rows shift them."""
        if self._deleted is not None or not self._columns:
            return ()
        widest = max(self._columns.values(), key=lambda column: column.num_bytes)
        return widest.reader.page_bounds()

    def live(self, start: int, stop: int) -> RowRanges:
        """Offsets of the live rows [start, stop), counted without deleted ones."""
        if self._deleted is None:
            return RowRanges.one(start, stop)
        if start >= stop:
            return RowRanges.one(0, 0)
        bounds = self.offsets(np.array([start, stop - 1], np.int64))
        first, last = int(bounds[0]), int(bounds[1]) + 1
        inside = self._deleted[np.searchsorted(self._deleted, first) :]
        inside = inside[: np.searchsorted(inside, last)]
        starts = np.concatenate(([first], inside + 1))
        stops = np.concatenate((inside, [last]))
        kept = starts < stops
        return RowRanges(starts[kept], stops[kept])

    def offsets(self, positions: Offsets) -> Offsets:
        """Offsets of rows by their position among the live rows."""
        if self._deleted is None:
            return positions
        # Before the k-th deleted row lie deleted[k] - k live ones.
        live_before = self._deleted - np.arange(len(self._deleted))
        return positions + np.searchsorted(live_before, positions, side="right")

    def is_live(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Which offsets are of rows that are there and not deleted."""
        live = offsets < self.fragment.physical_rows
        if self._deleted is not None:
            live &= ~np.isin(offsets, self._deleted, assume_unique=True)
        return live

    def pseudo_columns(self, names: Sequence[str], rows: RowRanges) -> list[pa.Array]:
        """Pseudo columns of rows by offset; see `alance.dataset.row_columns`."""
        return self._row_columns.arrays(names, rows)

    async def fetch(
        self, projection: Projection, rows: RowRanges, *, priority: int = 0
    ) -> tuple[DecodeRows, int]:
        """Fetch what rows of the wanted columns need.

        Parameters
        ----------
        projection
            The one that the fragment was opened with.
        rows
            Offsets in the fragment, deleted rows counted.
        priority
            Lower goes first when requests must wait.

        Returns
        -------
        decode, num_bytes
            Makes one array for each of `projection.roots`; and the bytes it works on.

        Notes
        -----
        Rounds: one where chunk tables and indices are in the tail or known from before, else two;
        one more for the bytes of blobs.
        """
        decodes: dict[int, list[Decode]] = {}
        files: dict[FileReader, list[int]] = {}
        for field_id in projection.field_ids:
            if field_id in self._columns:
                files.setdefault(self._columns[field_id].file, []).append(field_id)
        num_bytes = self._row_columns.num_bytes(projection.pseudo, rows.num_rows)

        async def fetch_file(field_ids: Sequence[int]) -> None:
            nonlocal num_bytes
            file = self._columns[field_ids[0]].file
            steps, counts = [], []
            for field_id in field_ids:
                planned = self._columns[field_id].reader.plan(rows)
                steps.extend(planned)
                counts.append(len(planned))
            found, fetched = await run_steps(steps, file, priority=priority)
            num_bytes += fetched
            done = iter(found)
            for field_id, count in zip(field_ids, counts, strict=True):
                decodes[field_id] = list(islice(done, count))
            described = projection.blob_ids.intersection(field_ids)
            await run_all([partial(fetch_blobs, file, field_id) for field_id in described])

        async def fetch_blobs(file: FileReader, field_id: int) -> None:
            nonlocal num_bytes
            with located(file.path):
                found, fetched = await read_blobs(decodes[field_id], file, priority=priority)
            decodes[field_id] = found
            num_bytes += fetched

        await run_all([partial(fetch_file, field_ids) for field_ids in files.values()])
        num_rows = rows.num_rows

        def decode() -> list[pa.Array]:
            return [self._build(root, decodes, num_rows) for root in projection.roots]

        return decode, num_bytes

    def _build(
        self, root: RootPlan, decodes: Mapping[int, Sequence[Decode]], num_rows: int
    ) -> pa.Array:
        """Decode a column, saying in errors which one it was."""
        try:
            return _build(root, decodes, num_rows)
        except FormatError as exc:
            paths = sorted({column.file.path for column in self._columns.values()})
            exc.add_note(
                f"in column {root.name!r} of fragment {self.fragment.id}, files {', '.join(paths)}"
            )
            raise


def _build(root: RootPlan, decodes: Mapping[int, Sequence[Decode]], num_rows: int) -> pa.Array:
    """Decode the pages of a top-level field and join its leaves."""
    if num_rows == 0:
        return pa.nulls(0, root.kind)
    arrays: list[pa.Array | None] = []
    for leaf in root.leaves:
        pages = decodes.get(leaf.field_id)
        if pages is None:
            arrays.append(None)
            continue
        parts = [leaf_to_arrow(page.run(), leaf.chain) for page in pages]
        with joining():
            array = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if len(array) != num_rows:
            raise CorruptFileError(f"column {root.name!r} has {len(array)} of {num_rows} rows")
        arrays.append(array)
    return zip_leaves(root.kind, arrays, root.counts, num_rows)


async def open_fragment(
    places: Places, fragment: Fragment, projection: Projection
) -> FragmentReader:
    """Open the files of a fragment that hold wanted columns, and its deletion vector, at once.

    Notes
    -----
    Requests: one for each file not opened before in the session, one for a deletion file not read
    before; all in the same round.
    """
    columns: dict[int, _Column] = {}
    loads: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def load_file(file: DataFile, slots: Sequence[tuple[int, int]]) -> None:
        reader = await _open_file(places, file, len(slots))
        found = await open_columns(reader, projection, slots)
        for field_id, column in found.items():
            if column.num_rows != fragment.physical_rows:
                raise CorruptFileError(
                    f"column {column.index} of {reader.path} has {column.num_rows} rows; fragment "
                    f"{fragment.id} has {fragment.physical_rows}",
                    path=reader.path,
                )
            columns[field_id] = _Column(reader, column)

    for file in fragment.files:
        slots = [
            (field_id, index)
            for field_id, index in zip(file.fields, file.column_indices, strict=True)
            if field_id in projection.leaves and index >= 0
        ]
        if slots:
            loads.append(partial(load_file, file, slots))
    deleted: list[Offsets] = []
    if fragment.deletion_file is not None:

        async def load_deleted() -> None:
            deleted.append(await read_deleted(places, fragment))

        loads.append(load_deleted)
    await run_all(loads)
    return FragmentReader(fragment, columns, deleted[0] if deleted else None)


async def open_columns(
    file: FileReader, projection: Projection, slots: Sequence[tuple[int, int]]
) -> dict[int, ColumnReader]:
    """Open the columns of a file at once; given and returned by their field ids.

    Notes
    -----
    Requests: as `FileReader.columns`.
    """
    counts = {index: projection.items_per_row(field_id) for field_id, index in slots}
    found = await file.columns([index for _, index in slots], counts)
    return {field_id: column for (field_id, _), column in zip(slots, found, strict=True)}


async def _open_file(places: Places, file: DataFile, num_wanted: int) -> FileReader:
    if places.opened is not None:
        return places.opened
    client, path = places.data_file(file)
    files = places.session.files
    key = (client.store, path, file.file_size_bytes)
    reader = files.get(key)
    if reader is None:
        size = file.file_size_bytes or None
        opened = await FileReader.open(
            client, path, size, places.session.registry, num_wanted=num_wanted
        )
        reader = files.put(key, opened)
    return reader


async def read_deleted(places: Places, fragment: Fragment) -> Offsets:
    """Which rows of a fragment that has a deletion file are deleted, ascending.

    Notes
    -----
    Requests: one unless the session knows the file, two above 64 KiB.
    """
    assert fragment.deletion_file is not None
    client, root = places.deletion_root(fragment)
    vectors = places.session.deletions
    key = (client.store, root, fragment.deletion_file.name(fragment.id))
    vector = vectors.get(key)
    if vector is None:
        found = await read_deletion_vector(client, root, fragment)
        vector = vectors.put(key, DeletedOffsets(found.astype(np.int64)))
    return vector.offsets
