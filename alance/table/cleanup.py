"""Which versions and files of a table may go: pure.

A file goes when no version that stays refers to it, and when it is either known to have belonged to
a version that goes, or old enough that no writer can still be about to commit it. Only files of
kinds that the format gives to a table are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from alance.errors import InvalidInputError, check_count
from alance.io.store import ObjectInfo
from alance.table.indices import IndexMetadata
from alance.table.manifest import Manifest
from alance.table.naming import join
from alance.table.refs import Branch, Tag

__all__ = [
    "FOLDERS",
    "LEFTOVER_AGE",
    "CleanupFile",
    "CleanupPlan",
    "CleanupPolicy",
    "FileKind",
    "VersionFiles",
    "plan_cleanup",
    "referenced",
]

LEFTOVER_AGE = timedelta(days=7)
"""A writer may take this long from its first file to its commit."""

DEFAULT_AGE = timedelta(days=14)

FOLDERS = ("data", "_deletions", "_transactions", "_indices", "_versions")
"""Where a table keeps what may go; nothing outside of these is looked at."""


class FileKind(Enum):
    """What a file is to a table."""

    DATA = "data file"
    BLOB = "blob file"
    DELETION = "deletion file"
    TRANSACTION = "transaction file"
    INDEX = "index file"
    TEMPORARY = "temporary file"
    MANIFEST = "manifest"


_KINDS = (
    (re.compile(r"(data/[^/]+\.lance)"), FileKind.DATA),
    (re.compile(r"(data/[^/]+)/[^/]+\.blob"), FileKind.BLOB),
    (re.compile(r"(_deletions/[^/]+\.(?:arrow|bin))"), FileKind.DELETION),
    (re.compile(r"(_transactions/[^/]+\.txn)"), FileKind.TRANSACTION),
    (re.compile(r"(_indices/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/.+"), FileKind.INDEX),
    (re.compile(r"(_versions/\.tmp[^/]*)"), FileKind.TEMPORARY),
)
"""Pattern of a path below the root, its group being what manifests refer to; and its kind."""


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """Which versions have served their time.

    Parameters
    ----------
    older_than
        Only versions committed longer ago go; None sets no limit, unless `retain_versions` is None
        as well: then it is 14 days.
    retain_versions
        So many of the newest versions stay, whatever their age; None sets no number.
    delete_unverified
        Whether leftovers of writers go however young they are. Only where no writer is at work.
    error_if_tagged
        Whether a tagged version that has served its time is an error; else it just stays.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False
    error_if_tagged: bool = True

    def __post_init__(self) -> None:
        age: object = self.older_than
        if age is not None and not (isinstance(age, timedelta) and age >= timedelta(0)):
            raise InvalidInputError(f"older_than must be a timedelta from 0, not {age!r}")
        if self.retain_versions is not None:
            check_count("retain_versions", self.retain_versions, least=1)

    @property
    def age(self) -> timedelta:
        """Age above which versions go."""
        if self.older_than is not None:
            return self.older_than
        return DEFAULT_AGE if self.retain_versions is None else timedelta(0)


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """What cleanup needs to know of a version.

    Parameters
    ----------
    version
        Its number.
    timestamp
        Time of its commit, UTC.
    path, num_bytes
        Key of its manifest below the root, and its size.
    files
        What it refers to below the root; see `referenced`.
    """

    version: int
    timestamp: datetime
    path: str
    num_bytes: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class CleanupFile:
    """A file that goes.

    Parameters
    ----------
    path
        Key below the dataset's root.
    kind
        What it is.
    num_bytes
        Its size.
    verified
        Whether a version that goes refers to it, or it is that version's manifest; else it is a
        leftover that nothing refers to.
    """

    path: str
    kind: FileKind
    num_bytes: int
    verified: bool


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What goes, in the order of its going: manifests are last.

    Parameters
    ----------
    versions
        Numbers of the versions that go, ascending.
    files
        All but the manifests.
    manifests
        Those of `versions`, in the same order.
    """

    versions: tuple[int, ...]
    files: tuple[CleanupFile, ...]
    manifests: tuple[CleanupFile, ...]

    @property
    def num_bytes(self) -> int:
        """Size of everything that goes."""
        return sum(file.num_bytes for file in (*self.files, *self.manifests))


def referenced(
    manifest: Manifest, indices: Iterable[IndexMetadata], roots: Mapping[int | None, bool]
) -> frozenset[str]:
    """Files and index folders below a table's root that a version refers to.

    Parameters
    ----------
    manifest, indices
        The version: of this table, of one of its branches, or of any other.
    roots
        The base ids that lead into the table, None for a version of its own; and whether to its
        root, rather than to its data folder.

    Returns
    -------
    frozenset of str
        Keys below the root; of an index its folder.
    """
    found: set[str] = set()
    for fragment in manifest.fragments:
        found.update(join("data", file.path) for file in fragment.files if file.base_id in roots)
        deletion = fragment.deletion_file
        if deletion is not None and roots.get(deletion.base_id):
            found.add(join("_deletions", deletion.name(fragment.id)))
    found.update(join("_indices", index.uuid) for index in indices if roots.get(index.base_id))
    if None in roots and manifest.transaction_file:
        found.add(join("_transactions", manifest.transaction_file))
    return frozenset(found)


def plan_cleanup(
    versions: Sequence[VersionFiles],
    listing: Iterable[ObjectInfo],
    *,
    policy: CleanupPolicy,
    now: datetime,
    current: int,
    line: str | None = None,
    tags: Mapping[str, Tag] | None = None,
    branches: Mapping[str, Branch] | None = None,
    kept: Collection[str] = (),
) -> CleanupPlan:
    """Decide which versions and files of a table go.

    Parameters
    ----------
    versions
        All versions of the table, oldest first.
    listing
        Files in the table's `FOLDERS`, paths below its root. Taken before `versions` was, or a
        version that was committed between the two would look like a leftover.
    policy
        Which versions have served their time.
    now
        Time of the cleanup.
    current
        This version and newer ones stay.
    line
        Branch that this table is, None for the main line.
    tags, branches
        By name, of all lines. A tagged version stays, as does one that a branch began from.
    kept
        Files and index folders that stay for other reasons: branches refer to them.

    Returns
    -------
    CleanupPlan

    Raises
    ------
    InvalidInputError
        Tagged versions have served their time, and the policy makes that an error.
    """
    expired = _expired(versions, policy, now, current)
    tagged = {n: tag.version for n, tag in (tags or {}).items() if tag.branch == line}
    caught = {name: version for name, version in tagged.items() if version in expired}
    if caught and policy.error_if_tagged:
        raise InvalidInputError(
            f"tags protect {len(caught)} of the versions to be cleaned up: "
            f"{', '.join(f'{name} (version {version})' for name, version in caught.items())}; "
            "delete these tags, or pass error_if_tagged_old_versions=False to keep the versions"
        )
    starts = {b.parent_version for b in (branches or {}).values() if b.parent_branch == line}
    gone = [one for one in versions if one.version in expired - set(tagged.values()) - starts]
    going = {one.version for one in gone}
    staying = set(kept).union(*(one.files for one in versions if one.version not in going))
    known = frozenset[str]().union(*(one.files for one in gone))
    return CleanupPlan(
        tuple(one.version for one in gone),
        tuple(_files(listing, staying, known, policy, now)),
        tuple(CleanupFile(one.path, FileKind.MANIFEST, one.num_bytes, True) for one in gone),
    )


def _expired(
    versions: Sequence[VersionFiles], policy: CleanupPolicy, now: datetime, current: int
) -> set[int]:
    """Numbers of the versions that have served their time."""
    by_number = versions[: -policy.retain_versions] if policy.retain_versions else versions
    newest = max((one.version for one in versions), default=0)
    return {
        one.version
        for one in by_number
        if one.version < min(current, newest) and now - one.timestamp > policy.age
    }


def _files(
    listing: Iterable[ObjectInfo],
    staying: Collection[str],
    known: Collection[str],
    policy: CleanupPolicy,
    now: datetime,
) -> Iterable[CleanupFile]:
    """Listed files that go."""
    for info in listing:
        kind, key = _classify(info.path)
        if kind is None or key in staying:
            continue
        verified = key in known
        # A transaction file may be all that a writer has to show of a commit under way.
        hurry = policy.delete_unverified and kind is not FileKind.TRANSACTION
        if verified or hurry or info.last_modified < now - LEFTOVER_AGE:
            yield CleanupFile(info.path, kind, info.num_bytes, verified)


def _classify(path: str) -> tuple[FileKind | None, str]:
    """Kind of a file, and what manifests call it; no kind for what the format does not know."""
    for pattern, kind in _KINDS:
        match = pattern.fullmatch(path)
        if match:
            return kind, f"{match[1]}.lance" if kind is FileKind.BLOB else match[1]
    return None, path
