"""Reading one fragment: its data files and deletion vector, opened once, then any of its rows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import anyio.lowlevel
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance._aio import run_all
from alance.dataset.live_rows import LiveRows
from alance.dataset.places import Places
from alance.dataset.projection import Projection, RootPlan, blob_ids
from alance.dataset.row_columns import RowColumns
from alance.encodings.assemble import joining, leaf_to_arrow, zip_leaves
from alance.encodings.rows import RowRanges, expand_ranges
from alance.encodings.step import Decode
from alance.errors import CorruptFileError, FormatError
from alance.file.blobs import measure_blobs, read_blobs
from alance.file.columns import ColumnReader, run_steps, run_steps_cached
from alance.file.located import located
from alance.file.reader import FileReader
from alance.io.client import CachedReads
from alance.session import DeletedOffsets
from alance.table.deletion import read_deletion_vector
from alance.table.manifest import DataFile, Fragment

__all__ = [
    "DecodeRows",
    "FragmentReader",
    "is_at_hand",
    "open_columns",
    "open_fragment",
    "read_deleted",
]

DecodeRows: TypeAlias = Callable[[], list[pa.Array]]
"""Decodes fetched rows; CPU only, for a thread."""

Offsets = npt.NDArray[np.int64]
PLANNED_AT_ONCE = 16
"""Columns that are planned before other tasks have their turn."""
SAMPLE_RUNS = 4
SAMPLE_RUN_ROWS = 8
"""Blobs whose sizes stand for those of all: neighbours, in a few places."""


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
    """An opened fragment: readers of the wanted columns, and which rows are live."""

    def __init__(
        self,
        places: Places,
        fragment: Fragment,
        columns: dict[int, _Column],
        deleted: Offsets | None,
    ) -> None:
        self.fragment = fragment
        self._places = places
        self.live_rows = LiveRows(fragment.physical_rows, deleted)
        self._columns = columns
        self._row_columns = RowColumns(fragment)

    def row_bytes(self, roots: Sequence[RootPlan]) -> float:
        """Stored bytes of a row in these fields, on average."""
        stored = sum(self._columns[field_id].num_bytes for field_id in self._stored(roots))
        return stored / max(self.fragment.physical_rows, 1)

    def _stored(self, roots: Sequence[RootPlan]) -> list[int]:
        """Field ids of the leaves that some file of the fragment has."""
        return [
            leaf.field_id
            for root in roots
            for leaf in root.leaves
            if leaf.field_id in self._columns
        ]

    async def measure_blobs(self, projection: Projection) -> None:
        """Look at some descriptors of blobs, so that windows are cut to what these lead to.

        Notes
        -----
        Requests: none without blobs of version 2.2; else a few in two rounds, of some 100 bytes;
        where blobs lie at URIs, up to 32 for the sizes of objects, in one round more.
        """
        num_rows = self.fragment.physical_rows
        wanted = blob_ids(projection.roots).intersection(self._columns)
        if not wanted or not num_rows:
            return
        starts = np.linspace(0, max(num_rows - SAMPLE_RUN_ROWS, 0), SAMPLE_RUNS).astype(np.int64)
        rows = np.minimum(expand_ranges(starts, starts + SAMPLE_RUN_ROWS), num_rows - 1)
        sample = RowRanges.of_rows(np.unique(rows))

        async def measure(field_id: int) -> None:
            column = self._columns[field_id]
            with located(column.file.path):
                found, _ = await run_steps(column.reader.plan(sample), column.file)
                num_bytes = await measure_blobs(found, self._places.external)
            row_bytes = num_bytes / sample.num_rows
            self._columns[field_id] = replace(column, blob_row_bytes=row_bytes)

        await run_all([partial(measure, field_id) for field_id in wanted])

    def page_bounds(self, roots: Sequence[RootPlan]) -> Sequence[int]:
        """Rows where the pages of the widest column start; none where deleted rows shift them."""
        columns = [self._columns[field_id] for field_id in self._stored(roots)]
        if self.live_rows.has_holes or not columns:
            return ()
        return max(columns, key=lambda column: column.num_bytes).reader.page_bounds()

    def pseudo_columns(self, names: Sequence[str], rows: RowRanges) -> list[pa.Array]:
        """Pseudo columns of rows by offset; see `alance.dataset.row_columns`."""
        return self._row_columns.arrays(names, rows)

    def pseudo_bytes(self, names: Sequence[str], num_rows: int) -> int:
        """Bytes that `pseudo_columns` works on."""
        return self._row_columns.num_bytes(names, num_rows)

    async def fetch(
        self, roots: Sequence[RootPlan], rows: RowRanges, *, priority: int = 0
    ) -> tuple[DecodeRows, int]:
        """Fetch what rows of the wanted columns need.

        Parameters
        ----------
        roots
            Fields of the projection that the fragment was opened with.
        rows
            Offsets in the fragment, deleted rows counted.
        priority
            Lower goes first when requests must wait.

        Returns
        -------
        decode, num_bytes
            Makes one array for each of `roots`; and the bytes it works on.

        Notes
        -----
        Rounds: one where chunk tables and indices are in the tail or known from before, else two;
        one more for the bytes of blobs.
        """
        decodes: dict[int, list[Decode]] = {}
        num_bytes = 0
        described = blob_ids(roots)

        async def fetch_file(field_ids: Sequence[int]) -> None:
            nonlocal num_bytes
            file = self._columns[field_ids[0]].file
            steps, counts = [], []
            for number, field_id in enumerate(field_ids):
                planned = self._columns[field_id].reader.plan(rows)
                steps.extend(planned)
                counts.append(len(planned))
                if number % PLANNED_AT_ONCE == PLANNED_AT_ONCE - 1:
                    await anyio.lowlevel.checkpoint()
            found, fetched = await run_steps(steps, file, priority=priority)
            num_bytes += fetched
            done = iter(found)
            for field_id, count in zip(field_ids, counts, strict=True):
                decodes[field_id] = list(islice(done, count))
            blobs = described.intersection(field_ids)
            await run_all([partial(fetch_blobs, file, field_id) for field_id in blobs])

        async def fetch_blobs(file: FileReader, field_id: int) -> None:
            nonlocal num_bytes
            with located(file.path):
                found, fetched = await read_blobs(
                    decodes[field_id], file, self._places.external, priority=priority
                )
            decodes[field_id] = found
            num_bytes += fetched

        files = self._files(roots)
        await run_all([partial(fetch_file, field_ids) for field_ids in files.values()])
        return partial(self._decode, roots, decodes, rows.num_rows), num_bytes

    def read_cached(
        self, roots: Sequence[RootPlan], rows: RowRanges, reads: CachedReads
    ) -> list[pa.Array] | None:
        """Fetch and decode in a thread, from local files that the kernel holds in memory.

        Returns
        -------
        list of pyarrow.Array, or None
            One for each of `roots`; None where something must be waited for, as blobs always are.
        """
        decodes: dict[int, list[Decode]] = {}
        if blob_ids(roots).intersection(self._columns):
            return None
        for file, field_ids in self._files(roots).items():
            source = file.cached(reads)
            for field_id in field_ids:
                steps = self._columns[field_id].reader.plan(rows)
                found = None if source is None else run_steps_cached(steps, source)
                if found is None:
                    return None
                decodes[field_id] = found
        return self._decode(roots, decodes, rows.num_rows)

    def _files(self, roots: Sequence[RootPlan]) -> dict[FileReader, list[int]]:
        """Files that hold these fields, with the ids of their leaves there."""
        files: dict[FileReader, list[int]] = {}
        for field_id in self._stored(roots):
            files.setdefault(self._columns[field_id].file, []).append(field_id)
        return files

    def _decode(
        self, roots: Sequence[RootPlan], decodes: Mapping[int, Sequence[Decode]], num_rows: int
    ) -> list[pa.Array]:
        return [self._build(root, decodes, num_rows) for root in roots]

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
    return FragmentReader(places, fragment, columns, deleted[0] if deleted else None)


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


def is_at_hand(places: Places, fragment: Fragment, projection: Projection) -> bool:
    """Whether opening a fragment sends nothing: the session has its files."""
    if places.opened is not None:
        return True
    if fragment.deletion_file is not None and _deletion_key(places, fragment) not in (
        places.session.deletions
    ):
        return False
    return all(
        _file_key(places, file) in places.session.files
        for file in fragment.files
        if not projection.leaves.keys().isdisjoint(file.fields)
    )


def _file_key(places: Places, file: DataFile) -> tuple[object, ...]:
    """What a session keeps a data file under: such names are never used again."""
    client, path = places.data_file(file)
    return client.store, path, file.file_size_bytes


def _deletion_key(places: Places, fragment: Fragment) -> tuple[object, ...]:
    assert fragment.deletion_file is not None
    client, root = places.deletion_root(fragment)
    return client.store, root, fragment.deletion_file.name(fragment.id)


async def _open_file(places: Places, file: DataFile, num_wanted: int) -> FileReader:
    if places.opened is not None:
        return places.opened
    client, path = places.data_file(file)
    files = places.session.files
    key = _file_key(places, file)
    reader = files.get(key)
    if reader is None:
        size = file.file_size_bytes or None
        session = places.session
        opened = await FileReader.open(
            client,
            path,
            size,
            session.registry,
            num_wanted=num_wanted,
            pages=session.pages_of(client),
        )
        reader = files.put(key, opened)
    return reader


async def read_deleted(places: Places, fragment: Fragment) -> Offsets:
    """Which rows of a fragment that has a deletion file are deleted, ascending.

    Notes
    -----
    Requests: one unless the session knows the file, two above 64 KiB.
    """
    client, root = places.deletion_root(fragment)
    vectors = places.session.deletions
    key = _deletion_key(places, fragment)
    vector = vectors.get(key)
    if vector is None:
        found = await read_deletion_vector(client, root, fragment)
        vector = vectors.put(key, DeletedOffsets(found.astype(np.int64)))
    return vector.offsets
