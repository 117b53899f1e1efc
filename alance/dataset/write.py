"""Writing: data becomes fragments, fragments become a version."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import anyio
import pyarrow as pa

from alance._aio import first_error, run_to_end
from alance.dataset.places import Places
from alance.dataset.row_columns import check_names
from alance.dataset.source import BatchSource, Data, open_source
from alance.dataset.upload import Uploads, discard
from alance.dataset.writing import (
    DEFAULT_VERSION,
    WriteLimits,
    WriteProgress,
    check_file_schema,
    check_texts,
)
from alance.errors import (
    AlanceError,
    CommitStateUnknownError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    RetryableCommitError,
)
from alance.file.blob_schema import as_blobs
from alance.file.given_blobs import base_finder
from alance.file.schema import Schema, match_append
from alance.receipts import waited_for
from alance.table.commit import commit
from alance.table.features import check_writable
from alance.table.group import PreparedAppend
from alance.table.location import TableLocation
from alance.table.manifest import Fragment, Manifest
from alance.table.naming import transaction_path
from alance.table.objects import discard as discard_objects
from alance.table.prepare import RECENT_S, Prepared, prepare
from alance.table.probe import made_ready
from alance.table.transaction import Transaction, build_append, build_overwrite
from alance.table.versions import read_manifest
from alance.types import FileVersion

__all__ = [
    "Mode",
    "Target",
    "commit_version",
    "find_target",
    "upload_fragments",
    "write",
]

Mode = Literal["create", "append", "overwrite"]
MODES = ("create", "append", "overwrite")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes and what it starts from; checked before anything is written."""

    places: Places
    mode: Mode
    """Never "append" without a `base`: appending to nothing creates."""
    base: Manifest | None
    schema: Schema
    """Of the data, with the field ids that its files shall have."""
    file_version: FileVersion
    found_s: float | None
    """When `base` was looked up for this write; None when it comes from an open dataset."""

    @property
    def is_recent(self) -> bool:
        """Whether `base` is the newest version as of now; an old one has to be looked at again."""
        return self.found_s is not None and anyio.current_time() - self.found_s < RECENT_S


async def find_target(
    places: Places,
    *,
    mode: str,
    schema: pa.Schema,
    data_storage_version: str | None,
    base: Manifest | None = None,
) -> Target:
    """Check a write against what is there.

    Parameters
    ----------
    base
        The version to write on, from an open dataset; None looks for the newest.

    Raises
    ------
    DatasetAlreadyExistsError
        Mode "create" and there is a dataset.
    SchemaMismatchError
        Mode "append" and the data does not fit.
    InvalidInputError, UnsupportedFeatureError
        A bad argument; a type that cannot be stored; a table this library must not write to.

    Notes
    -----
    Requests: those of opening the newest version, none with `base`.
    """
    if mode not in MODES:
        raise InvalidInputError(f"mode {mode!r} is unknown; one of {', '.join(MODES)}")
    found_s = anyio.current_time() if base is None else None
    asked = None if data_storage_version is None else FileVersion.parse(data_storage_version)
    if base is None:
        base = await _find(places.table)
    if base is not None:
        if mode == "create":
            where = places.table.url
            raise DatasetAlreadyExistsError(
                f"a dataset exists at {where} (version {base.version}); "
                'use mode="append" or mode="overwrite"',
                path=where,
            )
        check_writable(base, places.root)
    if mode == "append" and base is not None:
        stored, version = match_append(base.schema, schema), base.file_version
        if asked is not None and asked is not version:
            raise InvalidInputError(
                f"the dataset has data_storage_version {version.value}; an append cannot change it"
            )
    else:
        default = FileVersion.parse(DEFAULT_VERSION) if base is None else base.file_version
        version = default if asked is None else asked
        check_names(schema.names)
        stored = Schema.from_arrow(as_blobs(schema) if version is FileVersion.V2_2 else schema)
    check_file_schema(stored, version)
    kept: Mode = "create" if base is None else "append" if mode == "append" else "overwrite"
    return Target(places, kept, base, stored, version, found_s)


async def _find(table: TableLocation) -> Manifest | None:
    try:
        return await read_manifest(table)
    except DatasetNotFoundError:
        return None


@asynccontextmanager
async def uploading(
    target: Target,
    source: BatchSource,
    limits: WriteLimits,
    progress: Callable[[WriteProgress], object] | None = None,
) -> AsyncGenerator[list[Fragment], None]:
    """Write data files and describe them as fragments; all are there at the end of the block.

    Inside the block what is small may still be on its way. A failure or cancellation, in the block
    too, removes the files that were already complete, and aborts the rest.
    """
    places = target.places
    uploads = Uploads(
        places.session,
        places.client,
        places.root,
        target.schema,
        target.file_version,
        limits=limits,
        progress=progress,
        find_base=base_finder(_bases_of_blobs(target)),
    )
    try:
        with first_error():
            async with anyio.create_task_group() as tg:
                async with aclosing(source.batches()) as batches:  # type: ignore[type-var]
                    async for batch in batches:
                        await uploads.write(batch, tg)
                await uploads.seal(tg)
                yield uploads.fragments
    except BaseException:
        await uploads.abort()
        raise
    waited_for(uploads.place - 1)


def _bases_of_blobs(target: Target) -> list[tuple[int, str]]:
    """Base paths that an append may refer to: they stay."""
    if target.mode != "append" or target.base is None:
        return []
    return [(base.id, base.path) for base in target.base.base_paths if not base.is_dataset_root]


async def upload_fragments(
    target: Target, source: BatchSource, limits: WriteLimits
) -> list[Fragment]:
    """Write data files and describe them as fragments; commits nothing.

    A failure or cancellation removes the files.
    """
    async with uploading(target, source, limits) as fragments:
        pass
    return fragments


def _build_transaction(
    target: Target,
    fragments: Sequence[Fragment],
    *,
    properties: Mapping[str, str] | None,
    stable_row_ids: bool = False,
) -> Transaction:
    """Record what the fragments change."""
    if target.mode == "append":
        assert target.base is not None
        return build_append(target.base, fragments, properties=properties)
    return build_overwrite(
        target.base,
        target.schema,
        fragments,
        file_version=target.file_version,
        stable_row_ids=stable_row_ids,
        properties=properties,
    )


async def commit_version(
    target: Target,
    fragments: Sequence[Fragment],
    *,
    properties: Mapping[str, str] | None,
    stable_row_ids: bool = False,
    undo: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Manifest:
    """Make fragments the next version of the dataset.

    Parameters
    ----------
    undo
        See `alance.table.commit.commit`.

    Raises
    ------
    CommitError
        See `alance.errors`; after `CommitStateUnknownError` the files must stay.
    """
    transaction = _build_transaction(
        target, fragments, properties=properties, stable_row_ids=stable_row_ids
    )
    return await _commit(target, transaction, undo=undo)


async def _commit(
    target: Target,
    transaction: Transaction,
    *,
    prepared: Prepared | None = None,
    undo: Callable[[], Coroutine[Any, Any, None]] | None,
) -> Manifest:
    return await commit(
        target.places.table,
        transaction,
        base=target.base,
        rng=random.Random(transaction.uuid),
        policy=target.places.session.commit_policy,
        # An old base may be followed by a number that a cleanup has freed: look what is newest.
        look=not target.is_recent,
        prepared=prepared,
        undo=undo,
    )


async def write(
    places: Places,
    data: Data,
    *,
    mode: str,
    schema: pa.Schema | None = None,
    limits: WriteLimits | None = None,
    data_storage_version: str | None = None,
    stable_row_ids: bool = False,
    properties: Mapping[str, str] | None = None,
    progress: Callable[[WriteProgress], object] | None = None,
    base: Manifest | None = None,
) -> Manifest:
    """Write data as one new version; see `alance.write_dataset`."""
    limits = limits or WriteLimits()
    check_texts("transaction_properties", properties)
    source = open_source(data, schema, places.session)
    find = partial(
        find_target,
        places,
        mode=mode,
        schema=source.schema,
        data_storage_version=data_storage_version,
    )
    target = await find(base=base)
    if target.mode == "append":
        return await _append(target, source, limits, properties, progress)
    transaction: Transaction | None = None
    prepared: Prepared | None = None
    exists: DatasetAlreadyExistsError | None = None
    try:
        async with (
            made_ready(places.table),
            uploading(target, source, limits, progress) as fragments,
        ):
            transaction = _build_transaction(
                target, fragments, properties=properties, stable_row_ids=stable_row_ids
            )
            try:
                prepared = await _prepare(target, transaction)
            except DatasetAlreadyExistsError as exc:
                if mode == "create":
                    raise
                exists = exc
    except BaseException:
        await _forget(places, transaction)
        raise
    undo = partial(_undo, places, fragments, transaction)
    try:
        try:
            if exists is None:
                return await _commit(target, transaction, prepared=prepared, undo=undo)
        except DatasetAlreadyExistsError:
            if mode == "create":
                raise
        await _forget(places, transaction)
        found = await _overtaken(target, find, undo)
        return await commit_version(found, fragments, properties=properties, undo=undo)
    except CommitStateUnknownError:
        raise  # the version may be there: its files must stay
    except AlanceError:
        await undo()
        raise


async def _append(
    target: Target,
    source: BatchSource,
    limits: WriteLimits,
    properties: Mapping[str, str] | None,
    progress: Callable[[WriteProgress], object] | None,
) -> Manifest:
    """Append in two rounds: data, transaction file and a look at the newest version; the manifest.

    With others that append through the session at the same time: data; one manifest for all.
    """
    places, base = target.places, target.base
    assert base is not None
    transaction: Transaction | None = None
    alone: PreparedAppend | None = None
    with places.session.appends.enter((places.client.store, places.root), places.table) as queue:
        try:
            async with (
                made_ready(places.table),
                uploading(target, source, limits, progress) as fragments,
            ):
                if not target.is_recent and not queue.is_shared:
                    transaction = build_append(base, fragments, properties=properties)
                    prepared = await prepare(places.table, base, transaction)
                    alone = PreparedAppend(transaction, prepared)
        except BaseException:
            await _forget(places, transaction)
            raise
        undo = partial(_undo, places, fragments, transaction)
        try:
            return await queue.commit(
                base,
                fragments,
                properties=properties,
                is_recent=target.is_recent,
                undo=undo,
                alone=alone,
            )
        except CommitStateUnknownError:
            raise  # the version may be there: its files must stay
        except AlanceError:
            await undo()
            raise


async def _prepare(target: Target, transaction: Transaction) -> Prepared | None:
    """Look and write ahead of a commit while data is on its way; not where it saves no round."""
    if target.base is not None and target.is_recent:
        return None
    looked_s = target.found_s if target.is_recent else None
    return await prepare(target.places.table, target.base, transaction, looked_s=looked_s)


async def _undo(
    places: Places, fragments: Sequence[Fragment], transaction: Transaction | None
) -> None:
    """Remove what a write that became no version has left."""
    await discard(places.client, places.root, fragments)
    await _forget(places, transaction)


async def _forget(places: Places, transaction: Transaction | None) -> None:
    """Remove the file of a transaction that is not committed."""
    if transaction is not None:
        path = transaction_path(places.root, transaction.file_name)
        await run_to_end(discard_objects(places.client, (path,)))


async def _overtaken(
    target: Target,
    find: Callable[[], Coroutine[Any, Any, Target]],
    undo: Callable[[], Coroutine[Any, Any, None]],
) -> Target:
    """Look again after another writer has created the dataset that this write was to create."""
    try:
        found = await find()
    except asyncio.CancelledError:
        await undo()
        raise
    if _column_ids(found) != _column_ids(target):
        raise RetryableCommitError(
            f"another writer created the dataset at {target.places.table.url} meanwhile, "
            "with other field ids or another file version; run the write again",
            read_version=0,
            version=1,
        )
    return found


def _column_ids(target: Target) -> tuple[FileVersion, list[int]]:
    """What data files must agree with."""
    version = target.file_version
    return version, [leaf.field_id for leaf in target.schema.leaves(version)]
