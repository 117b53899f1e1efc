"""Reading one data file that no dataset stands around."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from alance.dataset.fragment import open_columns
from alance.dataset.places import Places
from alance.dataset.projection import Columns, Projection
from alance.dataset.run import ScanOptions
from alance.dataset.scan import Scan
from alance.dataset.take import VersionRows
from alance.errors import CorruptFileError, InvalidInputError, check_count
from alance.file.metadata import FILE_ROWS_MAX, FileDescriptor
from alance.file.reader import FileReader as StoredFile
from alance.io.uri import StorageOptions
from alance.receipts import one_call
from alance.session import Session, current_session
from alance.table.handler import ConditionalPut
from alance.table.manifest import DataFile, Fragment

__all__ = ["FileReader", "open_file"]


class FileReader:
    """One data file, read by itself. Made by `alance.open_file`; tasks may share it.

    The file must not change while it is open: parts of it are read when they are asked for.
    """

    def __init__(self, uri: str, places: Places, descriptor: FileDescriptor) -> None:
        assert places.opened is not None, "a file is opened before it gets a reader"
        self._uri = uri
        self._places = places
        self._file: StoredFile = places.opened
        self._schema = descriptor.schema
        self._num_rows = descriptor.num_rows
        leaves = descriptor.schema.leaves(self._file.version)
        self._column_of = {leaf.field_id: index for index, leaf in enumerate(leaves)}

    def __repr__(self) -> str:
        return f"<alance.FileReader {self.uri} version {self.version}: {self.num_rows} rows>"

    @property
    def uri(self) -> str:
        """Where the file is, as it was opened."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._schema.to_arrow()

    @property
    def num_rows(self) -> int:
        """Rows of the first column; in a file without columns those that its writer counted.

        Files of a dataset have as many in every column; `read` and `take` go by the columns that
        they are asked for.
        """
        return self._num_rows

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the schema; a copy."""
        stored = self._schema.metadata.items()
        return {key: value.decode(errors="replace") for key, value in stored}

    @property
    def version(self) -> str:
        """Version of the file format, such as "2.1"."""
        return self._file.version.value

    @property
    def num_global_buffers(self) -> int:
        """Buffers of the file as a whole; number 0 holds the schema."""
        return self._file.num_global_buffers

    def scan(self, columns: Columns = None, *, batch_size: int | None = None) -> Scan:
        """Plan a read of all rows, to be iterated in record batches; sends nothing yet.

        Parameters
        ----------
        columns
            Names, dotted for members of structs, or a dict of output name to SQL expression. None
            reads all columns, [] none.
        batch_size
            Rows of every batch but the last. None gives batches as they are read.

        Raises
        ------
        InvalidInputError
            An unknown column, an expression that does not parse or fit, a batch size below 1; and,
            as the iteration begins, columns of different lengths.

        Notes
        -----
        Requests, as the iteration goes on: one for metadata of the columns if it lies outside the
        file's tail, then the columns in runs of rows of about 8 MiB. See `Dataset.scan`.
        """
        if batch_size is not None:
            check_count("batch_size", batch_size, least=1)
        return self._scan(columns, 0, None, batch_size)

    @one_call
    async def read(
        self, columns: Columns = None, start: int | None = None, stop: int | None = None
    ) -> pa.Table:
        """Read rows [start, stop) into a table.

        Parameters
        ----------
        columns
            As for `scan`.
        start, stop
            Positions, 0-based; None for the first and for the end. What lies beyond the end is left
            out, as in slices of a list.

        Raises
        ------
        InvalidInputError
            As for `scan`; a position that is no whole number from 0.
        CorruptFileError, UnsupportedFeatureError, StoreError
            The file is damaged or newer than this library; a request failed after retries.

        Notes
        -----
        Requests: as `scan`. Memory: the result, and what is being decoded.
        """
        for name, value in (("start", start), ("stop", stop)):
            if value is not None:
                check_count(name, value, least=0)
        first = start or 0
        limit = None if stop is None else max(stop - first, 0)
        return await self._scan(columns, first, limit, None).to_table()

    @one_call
    async def take(self, rows: Iterable[int], columns: Columns = None) -> pa.Table:
        """Read rows by position.

        Parameters
        ----------
        rows
            Positions, 0-based, in any order; duplicates allowed. Length n.
        columns
            As for `scan`.

        Returns
        -------
        pyarrow.Table
            n rows, in the order of `rows`.

        Raises
        ------
        InvalidInputError
            A position is outside the file; as for `scan`.
        CorruptFileError, UnsupportedFeatureError, StoreError
            As for `read`.

        Notes
        -----
        Requests: one round for the chunks or values that hold the rows, after coalescing; one more
        for each of metadata and search tables that lie outside the file's tail.
        """
        projection = Projection.of(self._schema, columns)
        fragments = await self._fragments(projection)
        there = VersionRows(self._places, fragments, what="file")
        return (await there.take([there.positions(rows)], projection))[0]

    @one_call
    async def global_buffer(self, index: int) -> bytes:
        """Read one of the buffers that belong to the file as a whole; at most one request.

        Raises
        ------
        InvalidInputError
            There is no such buffer.
        """
        check_count("index", index, least=0)
        return bytes(await self._file.global_buffer(index))

    def _scan(self, columns: Columns, offset: int, limit: int | None, batch: int | None) -> Scan:
        projection = Projection.of(self._schema, columns)
        find = partial(self._fragments, projection)
        known = (self._fragment(projection, self._num_rows),)
        options = ScanOptions(projection, known, limit, offset, batch, find_fragments=find)
        return Scan(self._places, options)

    async def _fragments(self, projection: Projection) -> tuple[Fragment]:
        """Present the file as a fragment with as many rows as the wanted columns have."""
        fragment = self._fragment(projection, self._num_rows)
        if projection.field_ids:
            num_rows = await self._measure(projection, fragment.files[0])
            fragment = self._fragment(projection, num_rows)
        return (fragment,)

    def _fragment(self, projection: Projection, num_rows: int) -> Fragment:
        columns = tuple(self._column_of[field_id] for field_id in projection.field_ids)
        file = DataFile(self._file.path, projection.field_ids, columns, self._file.version)
        return Fragment(0, (file,), num_rows)

    async def _measure(self, projection: Projection, data_file: DataFile) -> int:
        """Rows of the wanted columns, which must agree."""
        slots = list(zip(data_file.fields, data_file.column_indices, strict=True))
        columns = await open_columns(self._file, projection, slots)
        lengths: dict[str, int] = {}
        for root in projection.roots:
            found = {columns[leaf.field_id].num_rows for leaf in root.leaves}
            if len(found) > 1:
                raise CorruptFileError(
                    f"the leaves of column {root.name!r} in file {self._file.path} have different "
                    f"numbers of rows: {sorted(found)}",
                    path=self._file.path,
                )
            lengths[root.name] = found.pop()
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} {count}" for name, count in list(lengths.items())[:20])
            raise InvalidInputError(
                f"columns of file {self._file.path} have different numbers of rows: {shown}; read "
                "those of one length at a time"
            )
        return self._check_rows(next(iter(lengths.values())))

    def _check_rows(self, num_rows: int) -> int:
        """Refuse more rows than row addresses can tell apart; they may cost no bytes."""
        if num_rows > FILE_ROWS_MAX:
            raise CorruptFileError(
                f"file {self._file.path} says that it has {num_rows} rows; at most "
                f"{FILE_ROWS_MAX} make sense",
                path=self._file.path,
            )
        return num_rows

    async def _count(self) -> None:
        """Take the number of rows from the first column: what the writer said may be wrong."""
        if self._schema.names:
            first = Projection.of(self._schema, list(self._schema.names[:1]))
            (fragment,) = await self._fragments(first)
            self._num_rows = fragment.num_rows
        self._check_rows(self._num_rows)


@one_call
async def open_file(
    path: str | os.PathLike[str],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> FileReader:
    """Open one data file, of a dataset or by itself.

    Parameters
    ----------
    path
        URI or local path, as for `open_dataset`.
    storage_options, session
        As for `open_dataset`.

    Raises
    ------
    ObjectNotFoundError
        There is no such file.
    InvalidInputError
        A URI or option that makes no sense.
    CorruptFileError, UnsupportedFeatureError
        It is no data file, is damaged, or is newer than this library.
    StoreError
        A request failed after retries.

    Notes
    -----
    Requests: 1 where metadata fits the tail, of 64 KiB or more; else up to 2 more. Of many columns
    only the metadata of the first and of those that are read later is fetched and parsed.
    """
    session = session or current_session()
    client, key = session.clients.open(path, storage_options)
    stored = await StoredFile.open(client, key, None, session.registry)
    await stored.preload()
    descriptor = await stored.descriptor()
    places = Places(session, client, "", ConditionalPut(), {}, storage_options, stored)
    reader = FileReader(os.fspath(path), places, descriptor)
    await reader._count()
    return reader
