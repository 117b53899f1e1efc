"""The history of a dataset: going from one version to another, and what led to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from alance.dataset.handle import Handle
from alance.receipts import one_call
from alance.table.manifest import Naming
from alance.table.versions import list_versions, refresh

if TYPE_CHECKING:
    from typing import Self

    from alance.dataset.branches import Branches
    from alance.dataset.cleanup import CleanupProgress, CleanupStats
    from alance.dataset.config import Values
    from alance.dataset.tags import Tags
    from alance.dataset.transactions import TransactionInfo
    from alance.io.uri import StorageOptions
    from alance.table.external import ExternalManifestStore
    from alance.table.manifest import Manifest
    from alance.table.operations import Operation
    from alance.table.refs import Reference

__all__ = ["History"]


class History:
    """The part of `Dataset` that looks at other versions than its own.

    Programs that only read, as most do, need nothing of what changes take. So each method imports
    that itself; in a thread first (`_load`), unless it is but a few milliseconds' work.

    Parameters
    ----------
    handle
        Leads to the dataset and the files of this version.
    manifest
        This version.
    """

    def __init__(self, handle: Handle, manifest: Manifest) -> None:
        self._handle = handle
        self._manifest = manifest

    @property
    def branch(self) -> str | None:
        """Branch that this version is on; None for the main line."""
        return self._manifest.branch

    @property
    def tags(self) -> Tags:
        """Names of versions; see `Tags`."""
        from alance.dataset.tags import Tags

        return Tags(self._handle, self._manifest.version)

    @property
    def branches(self) -> Branches[Self]:
        """Lines of versions beside the main one; see `Branches`."""
        from alance.dataset.branches import Branches

        return Branches(self._handle, self._manifest.version, type(self))

    def _at(self, manifest: Manifest) -> Self:
        """Another version of the same line."""
        return type(self)(self._handle.at(manifest), manifest)

    async def _load(self, module: str) -> None:
        """Import a module in a thread; the import that follows then takes no time."""
        await self._handle.session.load(module)

    async def _committed(self, manifest: Manifest) -> Self:
        """The version that a change has become; cleans up where the table's settings say so."""
        await self._load("alance.dataset.auto_cleanup")
        from alance.dataset.auto_cleanup import clean_up_if_due

        handle = self._handle.at(manifest)
        await clean_up_if_due(handle, manifest)
        return type(self)(handle, manifest)

    @one_call
    async def versions(self) -> list[dict[str, Any]]:
        """List all versions, oldest first, as dicts of version, timestamp and metadata.

        Notes
        -----
        Requests: a listing, then one per version.
        """
        found = await list_versions(self._handle.places.table)
        return [
            {"version": one.version, "timestamp": one.timestamp, "metadata": dict(one.metadata)}
            for one in found
        ]

    @one_call
    async def checkout(self, version: Reference) -> Self:
        """Open another version of this dataset.

        Parameters
        ----------
        version
            A version number, of the branch that this dataset is on; the name of a tag; a branch and
            a version number on it, such as ``("main", 3)`` or ``("feature", None)``, None being the
            main line or the newest version; or a `datetime` with a time zone, for the newest
            version of this line that was committed then or before.

        Raises
        ------
        VersionNotFoundError
            There is no such version, tag or branch, or it has been cleaned up.
        InvalidInputError
            None of these.

        Notes
        -----
        Requests: one for a number; two in turn for a tag, or for the newest version of a branch; a
        listing and a few rounds of up to four for a time.
        """
        return type(self)(*await self._handle.find(version))

    @one_call
    async def migrate_manifest_paths_v2(self) -> Self:
        """Give all manifests of this line V2 names, by which the newest version is found at once.

        Nobody may write to the dataset meanwhile, and readers are refused until it is done. What
        was cut off is completed by another call, on a dataset opened before.

        Returns
        -------
        Dataset
            This version, under its new name; itself when no manifest has a V1 name.

        Raises
        ------
        StoreError
            A request failed; call it again.

        Notes
        -----
        Requests: a full listing; a copy and a delete for each manifest, a few at a time.
        """
        from alance.table.migrate import migrate_to_v2

        if not await migrate_to_v2(self._handle.places.table):
            return self
        return self._at(replace(self._manifest, naming=Naming.V2))

    @one_call
    async def latest(self) -> Self:
        """Open the newest version; one round of requests where it is this one or the next."""
        manifest = await refresh(self._handle.places.table, self._manifest)
        return self if manifest is self._manifest else self._at(manifest)

    @one_call
    async def read_transaction(self, version: Reference | None = None) -> TransactionInfo | None:
        """Say what made a version, None being this one; None where the history does not tell.

        Parameters
        ----------
        version
            As for `checkout`.

        Notes
        -----
        Requests: none for this version, else those of `checkout`; one more where the transaction is
        in a file only.
        """
        await self._load("alance.table.transactions")
        from alance.dataset.transactions import TransactionInfo
        from alance.table.transactions import read_transaction

        handle, manifest = self._handle, self._manifest
        if version is not None:
            handle, manifest = await handle.find(version)
        found = await read_transaction(handle.places.table, manifest)
        return None if found is None else TransactionInfo.of(found)

    @one_call
    async def restore(self, *, transaction_properties: Mapping[str, str] | None = None) -> Self:
        """Make this version the newest again: a new version with the same rows and settings.

        Returns
        -------
        Dataset
            At the version just committed.

        Raises
        ------
        VersionNotFoundError
            This version has been cleaned up.
        CommitError
            See `alance.errors`.

        Notes
        -----
        Requests: the newest manifest and this one, in two rounds, then those of a commit. What
        others commit at the same time comes before it, and is undone as well.
        """
        await self._load("alance.dataset.restore")
        from alance.dataset.restore import restore

        manifest = await restore(
            self._handle, self._manifest.version, properties=transaction_properties
        )
        return await self._committed(manifest)

    @one_call
    async def update_config(self, values: Values, *, replace: bool = False) -> Self:
        """Change settings of the table, such as ``lance.auto_cleanup.interval``.

        Parameters
        ----------
        values
            New values by key; None removes the key.
        replace
            Whether all other keys go.

        Returns
        -------
        Dataset
            At the version just committed.

        Raises
        ------
        InvalidInputError
            A key or value is no text; nothing was written.
        CommitConflictError
            Others changed the same keys since this version.

        Notes
        -----
        Requests: those of a commit that writes no data.
        """
        from alance.dataset.config import plan_config

        return await self._commit(plan_config(values, replace=replace))

    @one_call
    async def update_metadata(self, values: Values, *, replace: bool = False) -> Self:
        """Change the metadata that users keep with the table; as `update_config`."""
        from alance.dataset.config import plan_metadata

        return await self._commit(plan_metadata(values, replace=replace))

    @one_call
    async def update_schema_metadata(self, values: Values, *, replace: bool = False) -> Self:
        """Change the metadata of the Arrow schema; as `update_config`."""
        from alance.dataset.config import plan_schema_metadata

        return await self._commit(plan_schema_metadata(values, replace=replace))

    @one_call
    async def update_field_metadata(
        self, field_updates: Mapping[str, Values], *, replace: bool = False
    ) -> Self:
        """Change the metadata of fields, given by dotted names; else as `update_config`."""
        from alance.dataset.config import plan_fields

        schema = self._manifest.schema
        return await self._commit(plan_fields(schema, field_updates, replace=replace))

    async def _commit(self, operation: Operation) -> Self:
        await self._load("alance.dataset.committing")
        from alance.dataset.committing import commit_change

        manifest = await commit_change(self._handle.places, self._manifest, operation)
        return await self._committed(manifest)

    @one_call
    async def shallow_clone(
        self,
        target_uri: str | os.PathLike[str],
        version: Reference | None = None,
        *,
        storage_options: StorageOptions = None,
        manifest_store: ExternalManifestStore | None = None,
    ) -> Self:
        """Make another dataset with the rows of a version, whose files stay where they are.

        Parameters
        ----------
        target_uri
            Where there is no dataset yet.
        version
            As for `checkout`; None is this version.
        storage_options
            For the target; None uses those of this dataset. The clone is opened with them, so they
            must lead to this dataset's files as well.
        manifest_store
            Of the target, as for `open_dataset`.

        Returns
        -------
        Dataset
            The clone, at its first version, which has the number of the one it was made from. What
            is written to it lies in its own folders. Cleaning up this dataset takes no heed of it:
            tag the version.

        Raises
        ------
        DatasetAlreadyExistsError
            There is a dataset at the target.
        VersionNotFoundError
            There is no such version.
        CommitStateUnknownError, StoreError
            The answer was lost and could not be found out; the store refused.

        Notes
        -----
        Requests: those of `checkout`, then three in turn at the target.
        """
        await self._load("alance.dataset.clone")
        from alance.dataset.clone import clone

        options = self._handle.storage_options if storage_options is None else storage_options
        target = Handle.of(target_uri, options, self._handle.session, manifest_store)
        # Also for this version: a clone of one that is cleaned up by now would lack its files.
        reference = self._manifest.version if version is None else version
        source, manifest = await self._handle.find(reference)
        made = await clone(source, manifest, target.places.table)
        return type(self)(target.at(made), made)

    @one_call
    async def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        *,
        retain_versions: int | None = None,
        dry_run: bool = False,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        progress: Callable[[CleanupProgress], object] | None = None,
    ) -> CleanupStats:
        """Remove old versions of this line, and files that no version needs.

        This version and newer ones stay, as do tagged versions and those that branches began with.
        Files that are reached through base paths are never touched.

        Parameters
        ----------
        older_than
            Only versions committed longer ago go. None sets no limit; without `retain_versions` it
            is 14 days.
        retain_versions
            So many of the newest versions stay, whatever their age.
        dry_run
            Remove nothing; say what would go.
        delete_unverified
            Also remove files that are younger than seven days and belong to no version: leftovers
            of failed writes, or of writes under way, which then fail. Only where nobody writes.
        error_if_tagged_old_versions
            Whether it is an error that tags protect versions which would go otherwise.
        progress
            Called with a `CleanupProgress` after each file.

        Returns
        -------
        CleanupStats
            What was, or would be, removed; and what could not be.

        Raises
        ------
        InvalidInputError
            A tag protects an old version; an argument that makes no sense. Nothing was removed.
        CorruptFileError, UnsupportedFeatureError
            A manifest or tag cannot be read, so that nobody knows what is needed. Likewise.
        StoreError
            A request failed; or the clock of this machine is ahead of the store's, so that the age
            of leftovers cannot be told.

        Notes
        -----
        Requests: five listings; one for each version of this line and of the branches that came
        from it, each tag and each branch; a second look at what is new; then one for each thousand
        files where the store has one for that, else for each file. Where leftovers go, three more
        ask for the store's time. A writer must take less than seven days from its first file to its
        commit, and reading a version that goes may fail. Where others write, `older_than` should be
        minutes at least: they may be about to take a number that is freed here. A version restored,
        or tagged, in the moment between the second look and the removal is lost. Clones elsewhere
        are not known here: tag what they began with. Cancellation: safe at any await; manifests go
        last, so the next cleanup goes on.
        """
        await self._load("alance.dataset.cleanup")
        from alance.dataset.cleanup import clean_up
        from alance.table.cleanup import CleanupPolicy

        policy = CleanupPolicy(
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions
        )
        return await clean_up(
            self._handle, self._manifest.version, policy, dry_run=dry_run, progress=progress
        )
