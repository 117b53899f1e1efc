"""The dataset: one immutable version, and doors to the modules that read and write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from alance.dataset.changes import Changes
from alance.dataset.handle import Handle
from alance.dataset.lookups import Lookups
from alance.dataset.pickling import SentDataset
from alance.dataset.projection import Columns, Projection, name_list
from alance.dataset.row_columns import ROW_ID, check_row_ids
from alance.dataset.row_ids import RowFinder
from alance.dataset.run import ScanOptions
from alance.dataset.scan import Scan
from alance.dataset.take import VersionRows, row_numbers
from alance.errors import InvalidInputError, check_count
from alance.receipts import one_call
from alance.session import Session
from alance.table.features import Feature
from alance.table.manifest import Fragment, Manifest

__all__ = ["Dataset"]

PROJECTIONS_MAX = 64
"""Planned projections that a dataset keeps: services ask for the same few again and again."""


class Dataset(Changes):
    """One version of a dataset. Immutable: every change returns a new `Dataset`.

    Made by `alance.open_dataset` and `alance.write_dataset`. May be shared freely by tasks of one
    event loop. Attributes come from the manifest and cost no I/O.
    """

    def __init__(self, handle: Handle, manifest: Manifest) -> None:
        super().__init__(handle, manifest)
        self._places = handle.places
        self._projections: dict[tuple[object, ...], Projection] = {}
        self._ids = RowFinder(handle.places, manifest.fragments)
        self._rows = VersionRows(handle.places, manifest.fragments)
        self._lookups = Lookups(self._rows)

    def __reduce__(self) -> tuple[Callable[[SentDataset], Dataset], tuple[SentDataset]]:
        """Pickle as address, options and manifest.

        Unpickled, it has the session of the running event loop, or outside of one a session of its
        own, and has read nothing.
        """
        return _restore, (SentDataset.of(self._handle, self._manifest),)

    def __repr__(self) -> str:
        return f"<alance.Dataset {self.uri} version {self.version}: {self._manifest.num_rows} rows>"

    @property
    def uri(self) -> str:
        """Where the dataset is, as it was opened."""
        return self._handle.uri

    @property
    def version(self) -> int:
        """Number of this version, from 1."""
        return self._manifest.version

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._manifest.schema.to_arrow()

    @property
    def data_storage_version(self) -> str:
        """File version that new data files get, such as "2.1"."""
        return self._manifest.file_version.value

    @property
    def config(self) -> dict[str, str]:
        """Settings of the table; a copy."""
        return dict(self._manifest.config)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that users keep with the table; a copy."""
        return dict(self._manifest.table_metadata)

    @property
    def session(self) -> Session:
        """Limits and caches that this dataset uses."""
        return self._handle.session

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Fragments in dataset order."""
        return self._manifest.fragments

    @one_call
    async def count_rows(self, filter: str | None = None) -> int:
        """Count live rows, or those that pass a filter.

        Parameters
        ----------
        filter
            SQL predicate; see `scan`.

        Notes
        -----
        Requests: none without a filter; with one, those of a scan of the columns it names.
        """
        if filter is None:
            return self._manifest.num_rows
        total = 0
        async with self.scan([], filter=filter) as batches:
            async for batch in batches:
                total += batch.num_rows
        return total

    def scan(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Iterable[Fragment | int] | None = None,
        ordered: bool = True,
    ) -> Scan:
        """Plan a read of rows, to be iterated in record batches; sends nothing yet.

        Parameters
        ----------
        columns
            Names, dotted for members of structs (``"origin.name"`` gives a column of that name), or
            a dict of output name to SQL expression. None reads all columns, [] none.
            What no file stores may be named too, here and in SQL: `_rowid`, `_rowaddr`, and the
            versions that made a row and last changed it, `_row_created_at_version` and
            `_row_last_updated_at_version`, both 1 where row ids are not stable.
        filter
            SQL predicate over the dataset's columns, read or not, such as ``"delay > 60 and origin
            in ('JFK', 'LGA')"``. Rows for which it is not true are left out.
        limit, offset
            Rows to give back at most, and to skip before them; both after the filter.
        batch_size
            Rows of every batch but the last. None gives batches as they are read, at most 256 Ki.
        with_row_id, with_row_address
            Add columns `_rowid`, `_rowaddr`, uint64. Without stable row ids they are the same.
        fragments
            Only these, by value or id, in the order given; None reads all in dataset order.
        ordered
            Whether batches come in dataset order; False delivers each as soon as it is ready.

        Raises
        ------
        InvalidInputError
            An unknown column or fragment, an expression or filter that does not parse or does not
            fit the schema, a negative number.

        Notes
        -----
        Requests, as the iteration goes on: one per data file for its tail, then the wanted columns
        in runs of rows of about 8 MiB, neighbouring ranges merged. With a filter its columns come
        first, and the others of rows that pass a round later, in fragments where that costs less.
        Memory: the session's byte budget at most. Cancellation: safe at any await; leaving the
        iteration stops its requests.

        Blob columns come as their values, large_binary with ``lance-encoding:blob`` in the field's
        metadata, where pylance gives places unless asked with ``blob_handling="all_binary"``. They
        take one round more, and are fetched only for the rows that are read; those at URIs with the
        storage options of the dataset. In version 2.2 some sizes are looked up before a scan of a
        fragment, and stand for all of them in the budget.
        """
        for name, value, least in (
            ("limit", limit, 0),
            ("offset", offset, 0),
            ("batch_size", batch_size, 1),
        ):
            if value is not None:
                check_count(name, value, least=least)
        projection = self._project(
            columns,
            filter=filter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        )
        chosen = self._manifest.fragments if fragments is None else self._choose(fragments)
        options = ScanOptions(projection, chosen, limit, offset or 0, batch_size, ordered)
        return Scan(self._places, options)

    @one_call
    async def to_table(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Read rows into a table, in dataset order.

        Parameters, errors and requests are those of `scan`.

        Returns
        -------
        pyarrow.Table
            Columns in the order asked for; may be chunked.
        """
        scan = self.scan(
            columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        )
        return await scan.to_table()

    @one_call
    async def take(self, indices: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by position.

        Parameters
        ----------
        indices
            Positions in dataset order, 0-based, deleted rows not counted; any order, duplicates
            allowed. Length n.
        columns
            As in `scan`.

        Returns
        -------
        pyarrow.Table
            n rows in the order of `indices`.

        Raises
        ------
        InvalidInputError
            An index outside [0, rows), or an unknown column.
        CorruptFileError, StoreError
            A file is damaged; a request failed after the store's retries.

        Notes
        -----
        Requests: one per data file not opened before in the session, all in one round; then one for
        each run of chunks that hold the rows, neighbours merged, in one round more (two where a
        file was written without its search cache beside the footer). Takes of the same columns that
        are asked for at the same time send those of one take of all their rows. Memory: the touched
        chunks; what was read together with others' rows stays as long as one of the results.
        """
        projection = self._project(columns)
        return await self._lookups.take(self._rows.positions(indices), projection)

    @one_call
    async def take_rows(self, row_ids: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by row id, as `_rowid` gives it: an address where ids are not stable.

        Parameters
        ----------
        row_ids
            In any order, duplicates allowed.
        columns
            As in `scan`.

        Returns
        -------
        pyarrow.Table
            Rows in the order of `row_ids`, without those that no live row has.

        Raises
        ------
        InvalidInputError
            What is no row id, or an unknown column.
        CorruptFileError, StoreError
            A file is damaged; a request failed after the store's retries.

        Notes
        -----
        Requests: those of `take`. The first use of stable ids of this object reads, one round
        before, deletion files of fragments that updates have moved rows from.
        """
        wanted = row_numbers("row_ids", row_ids)
        projection = self._project(columns)
        if self._has_stable_row_ids:
            wanted = await self._ids.find(wanted)
        return await self._lookups.take(wanted, projection)

    @one_call
    async def sample(self, n: int, seed: int | None = None, columns: Columns = None) -> pa.Table:
        """Read n rows at random, each at most once, or all where there are fewer.

        Parameters
        ----------
        n
            From 0.
        seed
            Chooses the same rows, in the same order, of the same version again; None chooses anew.
        columns
            As in `scan`.

        Notes
        -----
        Requests: those of `take`.
        """
        check_count("n", n, least=0)
        if seed is not None:
            check_count("seed", seed, least=0)
        num_rows = self._manifest.num_rows
        rows = np.random.default_rng(seed).choice(num_rows, min(n, num_rows), replace=False)
        return await self.take(rows, columns)

    @one_call
    async def head(self, n: int) -> pa.Table:
        """Read the first n rows, or all where there are fewer."""
        return await self.to_table(limit=n)

    def to_reader(
        self,
        columns: Columns = None,
        *,
        filter: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return a synchronous reader of a scan, for DuckDB, Polars, pandas or DataFusion.

        It reads with a session of its own, on the event loop of a background thread, so it may be
        used (and blocks) anywhere, also on the thread of an event loop. Parameters are those of
        `scan`.
        """
        # Few programs do both, and it brings the other way of running a loop along.
        from alance.dataset.bridge import iterate_in_thread

        planned = self.scan(
            columns, filter=filter, limit=limit, offset=offset, batch_size=batch_size
        )
        session = self.session.sibling()
        batches = iterate_in_thread(lambda: planned.on(session))
        return pa.RecordBatchReader.from_batches(planned.schema, batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows over the Arrow C stream interface; see `to_reader`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def _has_stable_row_ids(self) -> bool:
        return bool(self._manifest.reader_flags & Feature.STABLE_ROW_IDS)

    def _project(
        self,
        columns: Columns,
        *,
        filter: str | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> Projection:
        key = None
        if not isinstance(columns, Mapping):
            columns = name_list(columns)
            key = (columns, repr(filter), with_row_id, with_row_address)
        found = self._projections.get(key) if key else None
        if found is None:
            found = Projection.of(
                self._manifest.schema,
                columns,
                filter=filter,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                has_pseudo=True,
            )
            if ROW_ID in found.pseudo and self._has_stable_row_ids:
                check_row_ids(self.fragments)
            if key and len(self._projections) < PROJECTIONS_MAX:
                self._projections[key] = found
        return found

    def _choose(self, fragments: Iterable[Fragment | int]) -> tuple[Fragment, ...]:
        known = {fragment.id: fragment for fragment in self._manifest.fragments}
        chosen = []
        if not isinstance(fragments, Iterable):
            raise InvalidInputError(f"fragments must be a list of them, not {fragments!r}")
        for wanted in fragments:
            found = known.get(wanted.id if isinstance(wanted, Fragment) else wanted)
            if found is None:
                raise InvalidInputError(
                    f"version {self.version} has no fragment {wanted!r}; it has {sorted(known)}"
                )
            chosen.append(found)
        return tuple(chosen)


def _restore(sent: SentDataset) -> Dataset:
    """Make a pickled dataset again."""
    return Dataset(*sent.open())
