"""Changes of a dataset: each makes a new version and leaves the one it is called on as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from alance.dataset.history import History
from alance.dataset.rerun import (
    CONFLICT_RETRIES,
    RETRY_TIMEOUT,
    Patience,
    RerunPolicy,
    run_again,
)
from alance.dataset.source import Data
from alance.dataset.writing import WriteLimits, WriteProgress
from alance.receipts import one_call

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Changes"]

T = TypeVar("T")


class Changes(History):
    """The part of `Dataset` that writes."""

    @one_call
    async def append(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = 1_048_576,
        max_bytes_per_file: int | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        progress: Callable[[WriteProgress], object] | None = None,
    ) -> Self:
        """Add rows behind the existing ones.

        Parameters are those of `write_dataset`.

        Returns
        -------
        Dataset
            At the version just committed, which also has what others committed meanwhile.

        Raises
        ------
        SchemaMismatchError
            The data does not fit; says every difference. Nothing was written.
        CommitError
            See `alance.errors`.

        Notes
        -----
        Requests: two rounds where the data takes up to 8 MiB: data file, transaction file and a
        look at the newest version; then the manifest. More data takes the rounds of its parts
        before these. A lost race costs one read and another put. Appends through one session that
        meet share a version: each is told that version, and what it cost counts for each.
        """
        limits = WriteLimits(max_rows_per_file, max_bytes_per_file)
        return await self._write(data, "append", schema, limits, transaction_properties, progress)

    @one_call
    async def overwrite(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = 1_048_576,
        max_bytes_per_file: int | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        progress: Callable[[WriteProgress], object] | None = None,
    ) -> Self:
        """Make a version that has only these rows, and their schema; old versions stay.

        Parameters, errors and requests are those of `append`.
        """
        limits = WriteLimits(max_rows_per_file, max_bytes_per_file)
        return await self._write(
            data, "overwrite", schema, limits, transaction_properties, progress
        )

    @one_call
    async def delete(
        self,
        predicate: str,
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Delete the rows for which a predicate is true; where it is null they stay.

        Rows of this version, that is: what others have appended since stays. But where others have
        changed the same rows or columns, all of it is run again, on the newest version.

        Parameters
        ----------
        predicate
            As `filter` of `scan`, such as ``"delay is null or origin = 'JFK'"``.
        conflict_retries, retry_timeout
            Runs after the first one at most, none of which begins later than this.
        transaction_properties
            Text by key, kept with the transaction in the history.

        Returns
        -------
        Dataset
            At the version just committed, also where no row was deleted.

        Raises
        ------
        InvalidInputError
            The predicate does not parse or does not fit the schema. Nothing was read.
        CommitConflictError
            Another writer has replaced all rows, or restored an earlier version.
        CommitContentionError
            Other writers were first each time; `RetryableCommitError` with no retries.
        CommitStateUnknownError
            The answer to the commit was lost.

        Notes
        -----
        Requests: those of a scan of the columns that the predicate names, and a look at the newest
        version beside it; a round for a deletion file for each fragment that keeps some of its
        rows; a round for the transaction file and the manifest. A failed or cancelled call leaves
        the dataset as it was and removes what it wrote. Memory: as for `scan`, and a bit for each
        row at most.
        """
        await self._load("alance.dataset.delete")
        from alance.dataset.delete import delete

        manifest = await delete(
            self._handle,
            self._manifest,
            predicate,
            policy=RerunPolicy(conflict_retries, retry_timeout),
            properties=transaction_properties,
        )
        return await self._committed(manifest)

    async def retrying(
        self,
        change: Callable[[Self], Awaitable[T]],
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> T:
        """Run a change of one's own, and again on the newest version when another was first.

        Parameters
        ----------
        change
            Called with this dataset, and with the newest version after each
            `RetryableCommitError`. It should commit once, as the last thing it does: what it has
            committed before an error stays.
        conflict_retries, retry_timeout
            Calls after the first one at most, none of which begins later than this.

        Returns
        -------
        object
            What `change` returned, such as the new `Dataset`.

        Raises
        ------
        CommitContentionError
            Other writers were first each time.

        Notes
        -----
        Changes that run themselves again must not do so inside: they would go on with a version
        that the rest of `change` has not seen. So give them ``conflict_retries=0``.

        Examples
        --------
        >>> async def archive(ds: alance.Dataset) -> alance.Dataset:
        ...     old = await ds.to_table(filter="day < '2024-01-01'")
        ...     await keep_elsewhere(old)
        ...     return await ds.delete("day < '2024-01-01'", conflict_retries=0)
        >>> ds = await ds.retrying(archive)
        """
        patience = Patience(RerunPolicy(conflict_retries, retry_timeout))
        return await run_again(change, self, type(self).latest, patience)

    async def _write(
        self,
        data: Data,
        mode: str,
        schema: pa.Schema | None,
        limits: WriteLimits,
        properties: Mapping[str, str] | None,
        progress: Callable[[WriteProgress], object] | None,
    ) -> Self:
        await self._load("alance.dataset.write")
        from alance.dataset.write import write

        manifest = await write(
            self._handle.places,
            data,
            mode=mode,
            schema=schema,
            limits=limits,
            properties=properties,
            progress=progress,
            base=self._manifest,
        )
        return await self._committed(manifest)
