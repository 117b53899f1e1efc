"""The doors: opening, writing, and the two halves of a write that several processes share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from alance.dataset.dataset import Dataset
from alance.dataset.handle import Handle
from alance.dataset.source import Data, open_source
from alance.dataset.writing import WriteLimits, WriteProgress
from alance.io.uri import StorageOptions
from alance.receipts import one_call
from alance.session import Session, current_session
from alance.table.external import ExternalManifestStore
from alance.table.manifest import Fragment
from alance.table.refs import Reference

__all__ = [
    "commit_fragments",
    "discard_fragments",
    "open_dataset",
    "write_dataset",
    "write_fragments",
]


@one_call
async def open_dataset(
    uri: str | os.PathLike[str],
    *,
    version: Reference | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    manifest_store: ExternalManifestStore | None = None,
) -> Dataset:
    """Open a version of a dataset.

    Parameters
    ----------
    uri
        ``s3://bucket/path``, ``gs://``, ``az://``, ``file://``, ``memory://`` or a local path; or
        ``s3+ddb://bucket/path?ddbTableName=table``, which commits through DynamoDB as pylance does.
    version
        Version number, tag, branch and number, or time, as for `Dataset.checkout`; None opens the
        newest.
    storage_options
        Options by the names of pylance and object_store, such as ``aws_region``; or an obstore
        store or credential provider.
    session
        Limits and caches; None uses those of the running event loop.
    manifest_store
        Says which versions exist where the object store cannot be trusted to, as it ignores the
        condition of conditional puts. All who write to the dataset must pass the same.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError
        There is no dataset, or it has no such version.
    InvalidInputError
        A URI or option that makes no sense.
    UnsupportedFeatureError
        The dataset uses a feature that this library does not know; says which.
    CorruptFileError, StoreError
        The manifest is damaged; a request failed after retries.

    Notes
    -----
    Requests: 2 in 2 rounds (a short listing, then the manifest, unless the session has read just
    these bytes before); with `version` 1. A manifest above 64 KiB takes one more.
    """
    handle = Handle.of(uri, storage_options, session or current_session(), manifest_store)
    return Dataset(*await handle.find(version))


@one_call
async def write_dataset(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: str = "create",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1_048_576,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    manifest_store: ExternalManifestStore | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    progress: Callable[[WriteProgress], object] | None = None,
) -> Dataset:
    """Write data as a new version of a dataset, and open it.

    Parameters
    ----------
    data
        A `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`, anything with
        ``__arrow_c_stream__``, or a sync or async iterable of `RecordBatch` (then with `schema`).
    uri, storage_options, session, manifest_store
        As for `open_dataset`.
    mode
        "create": an error if a dataset exists. "append": behind the existing rows; creates where
        there is no dataset. "overwrite": a version with only these rows; older versions stay.
    schema
        Of the data, where it does not say so itself.
    max_rows_per_file, max_bytes_per_file
        Another file, and fragment, begins at either. None: 90 GiB.
    data_storage_version
        "2.1", which is also "stable", the default; or "2.2", also "next", which has maps and
        fixed-size lists of structs. An append keeps the dataset's own.
    enable_stable_row_ids
        Give rows of a new dataset ids that outlast compaction.
    transaction_properties
        Text by key, kept with the transaction in the history.
    progress
        Called with a `WriteProgress` after every batch and file.

    Returns
    -------
    Dataset
        At the version just committed.

    Raises
    ------
    DatasetAlreadyExistsError
        Mode "create" and a dataset exists.
    SchemaMismatchError
        Mode "append" and the data does not fit; says every difference.
    InvalidInputError
        An argument or type that cannot be; names it. All three before anything is written.
    CommitError
        Rows were uploaded but not, or not known to be, committed; see `alance.errors`.

    Notes
    -----
    Memory: the pages being encoded and uploaded, whatever the length of `data`. Requests: a look at
    the newest version, the data files (parts of 8 MiB, four files at once), then transaction file
    and manifest in one round; a new dataset's transaction file goes out beside its data. A failed
    or cancelled write leaves the dataset as it was and removes what it uploaded.
    """
    limits = WriteLimits(max_rows_per_file, max_bytes_per_file)
    handle = Handle.of(uri, storage_options, session or current_session(), manifest_store)
    await handle.session.load("alance.dataset.write")
    from alance.dataset.write import write

    manifest = await write(
        handle.places,
        data,
        mode=mode,
        schema=schema,
        limits=limits,
        data_storage_version=data_storage_version,
        stable_row_ids=enable_stable_row_ids,
        properties=transaction_properties,
        progress=progress,
    )
    return await Dataset(handle, manifest)._committed(manifest)


@one_call
async def write_fragments(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: str = "append",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1_048_576,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    read_version: int | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    manifest_store: ExternalManifestStore | None = None,
) -> list[Fragment]:
    """Upload data files without committing them: one worker's half of a write by many.

    Parameters are those of `write_dataset`, and must be the same for `commit_fragments`.

    Parameters
    ----------
    read_version
        Version that the write builds upon, whatever has been committed since; None: the newest.
        An append by many workers needs one for all of them, as it gives columns their field ids.

    Returns
    -------
    list of Fragment
        For `commit_fragments`, in the order of the rows; empty when there were none.
    """
    limits = WriteLimits(max_rows_per_file, max_bytes_per_file)
    handle = Handle.of(uri, storage_options, session or current_session(), manifest_store)
    await handle.session.load("alance.dataset.write")
    from alance.dataset.write import find_target, upload_fragments

    source = open_source(data, schema, handle.session)
    target = await find_target(
        handle.places,
        mode=mode,
        schema=source.schema,
        data_storage_version=data_storage_version,
        base=None if read_version is None else await handle.read(read_version),
    )
    return await upload_fragments(target, source, limits)


@one_call
async def commit_fragments(
    uri: str | os.PathLike[str],
    fragments: Sequence[Fragment],
    *,
    mode: str = "append",
    schema: pa.Schema,
    data_storage_version: str | None = None,
    read_version: int | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    manifest_store: ExternalManifestStore | None = None,
) -> Dataset:
    """Commit what `write_fragments` uploaded, by any number of workers, as one version.

    Parameters
    ----------
    fragments
        In the order that their rows shall have.
    schema
        Of the data that was written.
    read_version
        As for `write_fragments`. Changes since then that the write cannot follow are conflicts.

    Raises
    ------
    DatasetAlreadyExistsError, SchemaMismatchError, CommitError
        As for `write_dataset`; the files stay, see `discard_fragments`.
    """
    handle = Handle.of(uri, storage_options, session or current_session(), manifest_store)
    await handle.session.load("alance.dataset.write")
    from alance.dataset.write import commit_version, find_target

    target = await find_target(
        handle.places,
        mode=mode,
        schema=schema,
        data_storage_version=data_storage_version,
        base=None if read_version is None else await handle.read(read_version),
    )
    manifest = await commit_version(target, fragments, properties=transaction_properties)
    return await Dataset(handle, manifest)._committed(manifest)


@one_call
async def discard_fragments(
    uri: str | os.PathLike[str],
    fragments: Sequence[Fragment],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> None:
    """Remove the files of fragments that will not be committed; failures are passed over."""
    handle = Handle.of(uri, storage_options, session or current_session())
    await handle.session.load("alance.dataset.upload")
    from alance.dataset.upload import discard

    await discard(handle.places.client, handle.places.root, fragments)
