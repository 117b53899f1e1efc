"""The doors without `await`: opening, writing, and the two halves of a write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from alance.dataset import entry
from alance.dataset.source import Data
from alance.dataset.writing import WriteProgress
from alance.io.uri import StorageOptions
from alance.session import Session
from alance.sync.dataset import Dataset
from alance.sync.run import run
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


def open_dataset(
    uri: str | os.PathLike[str],
    *,
    version: Reference | None = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    manifest_store: ExternalManifestStore | None = None,
) -> Dataset:
    """Open a version of a dataset; see `alance.open_dataset`."""
    return Dataset(
        run(
            lambda: entry.open_dataset(
                uri,
                version=version,
                storage_options=storage_options,
                session=session,
                manifest_store=manifest_store,
            )
        )
    )


def write_dataset(
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
    """Write data as a new version of a dataset; see `alance.write_dataset`."""
    return Dataset(
        run(
            lambda: entry.write_dataset(
                data,
                uri,
                mode=mode,
                schema=schema,
                max_rows_per_file=max_rows_per_file,
                max_bytes_per_file=max_bytes_per_file,
                data_storage_version=data_storage_version,
                enable_stable_row_ids=enable_stable_row_ids,
                storage_options=storage_options,
                session=session,
                manifest_store=manifest_store,
                transaction_properties=transaction_properties,
                progress=progress,
            )
        )
    )


def write_fragments(
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
    """Upload data files without committing them; see `alance.write_fragments`."""
    return run(
        lambda: entry.write_fragments(
            data,
            uri,
            mode=mode,
            schema=schema,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            data_storage_version=data_storage_version,
            read_version=read_version,
            storage_options=storage_options,
            session=session,
            manifest_store=manifest_store,
        )
    )


def commit_fragments(
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
    """Commit what `write_fragments` uploaded as one version; see `alance.commit_fragments`."""
    return Dataset(
        run(
            lambda: entry.commit_fragments(
                uri,
                fragments,
                mode=mode,
                schema=schema,
                data_storage_version=data_storage_version,
                read_version=read_version,
                transaction_properties=transaction_properties,
                storage_options=storage_options,
                session=session,
                manifest_store=manifest_store,
            )
        )
    )


def discard_fragments(
    uri: str | os.PathLike[str],
    fragments: Sequence[Fragment],
    *,
    storage_options: StorageOptions = None,
    session: Session | None = None,
) -> None:
    """Remove the files of fragments that will not be committed."""
    run(
        lambda: entry.discard_fragments(
            uri, fragments, storage_options=storage_options, session=session
        )
    )
