"""Removing versions that have served their time, and files that nothing refers to."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from alance.dataset.handle import Handle
from alance.dataset.refs import list_branches, list_tags
from alance.dataset.removal import remove_all
from alance.errors import ObjectNotFoundError, StoreError, UnsupportedFeatureError
from alance.io.store import ObjectInfo
from alance.table.cleanup import (
    FOLDERS,
    CleanupFile,
    CleanupPlan,
    CleanupPolicy,
    FileKind,
    VersionFiles,
    plan_cleanup,
    referenced,
)
from alance.table.features import check_writable
from alance.table.location import StoredVersion, TableLocation
from alance.table.manifest import Manifest
from alance.table.naming import join, transaction_path, versions_prefix
from alance.table.objects import MANIFEST_BYTES_MAX, discard, read_object
from alance.table.refs import Branch, Tag
from alance.table.versions import read_all, read_version
from alance.table.wire import parse_manifest
from alance.table.wire_indices import parse_indices

__all__ = ["CleanupProgress", "CleanupStats", "clean_up"]

CLOCK_SLACK = timedelta(hours=1)
"""A clock may be so far ahead of the store's: little beside the age of what is removed."""

_DETACHED = re.compile(r"d[0-9]+\.manifest")


@dataclass(frozen=True, slots=True)
class CleanupProgress:
    """How far a cleanup has come.

    Parameters
    ----------
    files_removed, bytes_removed
        So far.
    files_total, bytes_total
        Of all that is to go.
    """

    files_removed: int
    bytes_removed: int
    files_total: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """What a cleanup removed, or would remove.

    Parameters
    ----------
    versions
        Numbers of the versions that are gone, ascending.
    files
        Removed files, manifests included.
    failed
        Keys that could not be removed, and why. Versions stay listed as long as there are any, so
        that the next cleanup knows what to remove.
    """

    versions: tuple[int, ...]
    files: tuple[CleanupFile, ...] = field(repr=False)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes_removed(self) -> int:
        """Size of the files."""
        return sum(file.num_bytes for file in self.files)

    @property
    def old_versions(self) -> int:
        """Number of versions."""
        return len(self.versions)

    @property
    def data_files_removed(self) -> int:
        """Data files, and the blob files beside them."""
        return self._count(FileKind.DATA, FileKind.BLOB)

    @property
    def transaction_files_removed(self) -> int:
        """Transaction files."""
        return self._count(FileKind.TRANSACTION)

    @property
    def index_files_removed(self) -> int:
        """Files of indices."""
        return self._count(FileKind.INDEX)

    @property
    def deletion_files_removed(self) -> int:
        """Deletion files."""
        return self._count(FileKind.DELETION)

    @property
    def failed_deletes(self) -> int:
        """Files that could not be removed."""
        return len(self.failed)

    def _count(self, *kinds: FileKind) -> int:
        return sum(file.kind in kinds for file in self.files)


async def clean_up(
    handle: Handle,
    current: int,
    policy: CleanupPolicy,
    *,
    dry_run: bool = False,
    progress: Callable[[CleanupProgress], object] | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CleanupStats:
    """Remove what `plan_cleanup` says; see `Dataset.cleanup_old_versions`.

    Parameters
    ----------
    handle
        The line of versions to clean up.
    current
        This version and newer ones stay.
    policy
        Which versions have served their time.
    dry_run
        Only say what would go.
    progress
        Called after each file.
    now
        The clock.
    """
    survey = _Survey(handle)
    time = now()
    listing = await survey.list_files()
    plan = partial(plan_cleanup, policy=policy, now=time, current=current, line=handle.branch)
    planned = await survey.plan(listing, plan)
    if dry_run:
        return CleanupStats(planned.versions, (*planned.files, *planned.manifests))
    if not all(file.verified for file in planned.files):
        await _check_clock(handle.places.table, time)
    # Others may have restored, tagged or branched off what is about to go: look once more.
    return await _remove(handle, await survey.plan(listing, plan), progress)


async def _check_clock(table: TableLocation, time: datetime) -> None:
    """Refuse to tell the age of leftovers by a clock that is ahead of the one that dated them."""
    path = transaction_path(table.root, f"clock-{uuid.uuid4()}.txn")
    try:
        await table.store.put(path, b"")
        theirs = (await table.store.head(path)).last_modified
    finally:
        await discard(table.store, [path])
    if time - theirs > CLOCK_SLACK:
        raise StoreError(
            f"by the clock of this machine it is {time}, but {theirs} by that of "
            f"{table.store.url}: files of writers at work would look like old leftovers; set the "
            "clock",
            path=table.root,
        )


async def _remove(
    handle: Handle, plan: CleanupPlan, progress: Callable[[CleanupProgress], object] | None
) -> CleanupStats:
    """Remove files, then manifests: until then another cleanup knows the files."""
    own = handle.places
    everything = {join(own.root, one.path): one for one in (*plan.files, *plan.manifests)}
    removed: list[CleanupFile] = []
    num_bytes = 0

    def note(path: str) -> None:
        nonlocal num_bytes
        removed.append(everything[path])
        num_bytes += everything[path].num_bytes
        if progress is not None:
            progress(CleanupProgress(len(removed), num_bytes, len(everything), plan.num_bytes))

    failed = await remove_all(own.client, [join(own.root, one.path) for one in plan.files], note)
    versions = plan.versions
    if not failed:
        manifests = [join(own.root, one.path) for one in plan.manifests]
        failed = await remove_all(own.client, manifests, note)
        gone = zip(plan.versions, manifests, strict=True)
        versions = tuple(version for version, path in gone if path not in failed)
    else:
        versions = ()
    reasons = {path: str(error) for path, error in failed.items()}
    return CleanupStats(versions, tuple(removed), reasons)


class _Survey:
    """What is known of a line of versions and of those that refer to its files."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._table = handle.places.table
        self._versions: dict[int, VersionFiles] = {}
        self._others: dict[tuple[str, int], frozenset[str]] = {}
        self._detached: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        """One text for each name: versions share most of their files."""

    async def list_files(self) -> list[ObjectInfo]:
        """Files in the folders of the line, paths below its root."""
        root = self._table.root
        lists = [partial(self._table.store.list, join(root, folder)) for folder in FOLDERS]
        async with aclosing(read_all(lists)) as listings:
            infos = [info async for found in listings for info in found]
        return [replace(one, path=one.path[len(root) :].lstrip("/")) for one in infos]

    async def plan(
        self, listing: Iterable[ObjectInfo], plan: Callable[..., CleanupPlan]
    ) -> CleanupPlan:
        """Plan with what is there now; manifests are read once only."""
        tags: dict[str, Tag] = await list_tags(self._handle.main)
        branches: dict[str, Branch] = await list_branches(self._handle.main)
        await self._read_versions()
        for name in _descendants(self._handle.branch, branches):
            await self._read_other(self._handle.on(name).places.table)
        await self._read_detached(listing)
        kept = frozenset[str]().union(*self._others.values(), *self._detached.values())
        versions = [self._versions[number] for number in sorted(self._versions)]
        # Millions of files take seconds.
        return await self._handle.session.run_in_thread(
            partial(plan, versions, listing, tags=tags, branches=branches, kept=kept)
        )

    async def _read_versions(self) -> None:
        """Read the manifests of the line that were not read yet."""
        stored = await self._table.handler.versions(self._table.store, self._table.root)
        new = [one for one in stored if one.version not in self._versions]
        reads = [partial(read_version, self._table, one.version, one.naming) for one in new]
        async with aclosing(read_all(reads)) as manifests:
            found = [None if m is None else self._summary(m) async for m in manifests]
        root = self._table.root
        for one, summary in zip(new, found, strict=True):
            if summary is not None:
                timestamp, keys = summary
                path = one.path[len(root) :].lstrip("/")
                self._versions[one.version] = VersionFiles(
                    one.version, timestamp, path, one.num_bytes, keys
                )

    async def _read_other(self, table: TableLocation) -> None:
        """Read the manifests of a line that began with this one."""
        stored: list[StoredVersion] = [
            one
            for one in await table.handler.versions(table.store, table.root)
            if (table.root, one.version) not in self._others
        ]
        reads = [partial(read_version, table, one.version, one.naming) for one in stored]
        async with aclosing(read_all(reads)) as manifests:
            async for manifest in manifests:
                if manifest is not None:
                    self._others[table.root, manifest.version] = self._keys(manifest, own=False)

    async def _read_detached(self, listing: Iterable[ObjectInfo]) -> None:
        """Read manifests that stand in no history: whoever made them still needs their files."""
        prefix = versions_prefix("")
        for info in listing:
            name = info.path.removeprefix(f"{prefix}/")
            if info.path in self._detached or not _DETACHED.fullmatch(name):
                continue
            path = join(self._table.root, info.path)
            try:
                data = await read_object(self._table.store, path, bytes_max=MANIFEST_BYTES_MAX)
            except ObjectNotFoundError:
                continue
            manifest = parse_manifest(data, path=path)
            self._detached[info.path] = self._keys(manifest, own=True)

    def _summary(self, manifest: Manifest) -> tuple[datetime, frozenset[str]]:
        return manifest.timestamp, self._keys(manifest, own=True)

    def _keys(self, manifest: Manifest, *, own: bool) -> frozenset[str]:
        """Files of this line that a version refers to.

        Raises
        ------
        UnsupportedFeatureError
            It may refer to files in ways that this library does not know.
        """
        where = f"version {manifest.version} of {self._table.url}"
        try:
            check_writable(manifest, where)
        except UnsupportedFeatureError as exc:
            exc.add_note("a cleanup might take away files that this version needs")
            raise
        client, root = self._handle.places.client, self._handle.places.root
        roots: dict[int | None, bool] = {None: True} if own else {}
        for base_id, (other, path, is_root) in self._handle.at(manifest).places.bases.items():
            if other.store is client.store and path == (root if is_root else join(root, "data")):
                roots[base_id] = is_root
        found = referenced(manifest, parse_indices(manifest.index_section, path=where), roots)
        return frozenset(self._names.setdefault(name, name) for name in found)


def _descendants(line: str | None, branches: Mapping[str, Branch]) -> list[str]:
    """Branches that may refer to files of a line, having begun with it or with one of these."""
    return [name for name in branches if name != line and _leads_to(name, line, branches)]


def _leads_to(name: str, line: str | None, branches: Mapping[str, Branch]) -> bool:
    """Whether a branch comes from a line; taken to be so where the way back is not known."""
    seen = set()
    at: str | None = name
    while at is not None and at != line:
        if at in seen or at not in branches:
            return True
        seen.add(at)
        at = branches[at].parent_branch
    return at == line
