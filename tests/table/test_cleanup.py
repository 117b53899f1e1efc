"""Which versions and files of a table go: the plan alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alance.errors import InvalidInputError
from alance.io.store import ObjectInfo
from alance.table.cleanup import (
    CleanupPlan,
    CleanupPolicy,
    FileKind,
    VersionFiles,
    plan_cleanup,
    referenced,
)
from alance.table.indices import IndexMetadata
from alance.table.manifest import DataFile, DeletionFile, DeletionKind
from alance.table.refs import Branch, Tag
from tests.table.samples import fragment, manifest

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
INDEX = "0cc00be5-22da-4011-aa61-c199ee5a8e64"
FRAGMENT = fragment("a")
EVERYTHING = CleanupPolicy(timedelta(0))


def version(number: int, *files: str, age: timedelta = DAY) -> VersionFiles:
    return VersionFiles(number, NOW - age, f"_versions/{number}.manifest", 10, frozenset(files))


def listed(*paths: str, age: timedelta = timedelta(0)) -> list[ObjectInfo]:
    return [ObjectInfo(path, 1, NOW - age) for path in paths]


def plan(
    versions: Iterable[VersionFiles],
    listing: Iterable[ObjectInfo] = (),
    policy: CleanupPolicy = EVERYTHING,
    **more: Any,
) -> CleanupPlan:
    found = list(versions)
    newest = found[-1].version if found else 0
    return plan_cleanup(found, listing, policy=policy, now=NOW, **{"current": newest, **more})


def paths(found: CleanupPlan) -> list[str]:
    return [file.path for file in found.files]


def file(name: str, base_id: int | None = None) -> DataFile:
    return replace(FRAGMENT.files[0], path=f"{name}.lance", base_id=base_id)


AGES = [version(n, age=timedelta(days=30 - n)) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        (CleanupPolicy(), [1, 2, 3, 4]),
        (CleanupPolicy(timedelta(days=27)), [1, 2]),
        (CleanupPolicy(timedelta(days=27), 4), [1]),
        (CleanupPolicy(timedelta(days=27), 1), [1, 2]),
        (CleanupPolicy(retain_versions=2), [1, 2, 3]),
        (CleanupPolicy(retain_versions=9), []),
        (CleanupPolicy(timedelta(days=100)), []),
        (CleanupPolicy(timedelta.max), []),
        (EVERYTHING, [1, 2, 3, 4]),
    ],
)
def test_versions_that_have_served_their_time(policy: CleanupPolicy, gone: list[int]) -> None:
    found = plan(AGES, policy=policy)
    assert list(found.versions) == gone
    assert [one.path for one in found.manifests] == [f"_versions/{n}.manifest" for n in gone]
    assert {one.kind for one in found.manifests} <= {FileKind.MANIFEST}
    assert found.num_bytes == 10 * len(gone)


def test_young_versions_stay_where_nothing_is_said() -> None:
    young = [version(1, age=13 * DAY), version(2)]
    assert plan(young, policy=CleanupPolicy()).versions == ()
    assert plan(young, policy=CleanupPolicy(retain_versions=1)).versions == (1,)


def test_the_newest_version_stays_whatever_its_age() -> None:
    assert plan([version(7, age=999 * DAY)]).versions == ()
    assert plan([]).versions == ()
    assert plan(AGES, current=99).versions == (1, 2, 3, 4)


def test_versions_from_the_current_one_on_stay() -> None:
    assert plan(AGES, current=3).versions == (1, 2)


def test_tagged_versions_are_an_error_or_stay() -> None:
    tags = {"a": Tag(None, 2), "other": Tag("x", 3), "new": Tag(None, 5)}
    with pytest.raises(InvalidInputError, match=r"1 of the versions .* a \(version 2\); delete"):
        plan(AGES, tags=tags)
    lenient = replace(EVERYTHING, error_if_tagged=False)
    assert plan(AGES, policy=lenient, tags=tags).versions == (1, 3, 4)
    assert plan(AGES, policy=lenient, tags=tags, line="x").versions == (1, 2, 4)


def test_versions_that_branches_began_with_stay() -> None:
    branches = {"a": Branch(None, 2), "b": Branch("x", 3)}
    assert plan(AGES, branches=branches).versions == (1, 3, 4)
    assert plan(AGES, branches=branches, line="x").versions == (1, 2, 4)


def test_files_of_versions_that_go_and_of_none_that_stays() -> None:
    versions = [
        version(1, "data/a.lance", "data/b.lance", f"_indices/{INDEX}", "_transactions/1.txn"),
        version(2, "data/b.lance", "_deletions/1.bin"),
        version(3, "data/b.lance", "_deletions/2.bin"),
    ]
    listing = listed(
        "data/a.lance",
        "data/a/1.blob",
        "data/b.lance",
        "data/b/1.blob",
        "data/new.lance",
        "_deletions/1.bin",
        "_deletions/2.bin",
        f"_indices/{INDEX}/page.idx",
        f"_indices/{INDEX}/deep/er.idx",
        "_transactions/1.txn",
    )
    found = plan(versions, listing)
    assert {file.path: file.kind for file in found.files} == {
        "data/a.lance": FileKind.DATA,
        "data/a/1.blob": FileKind.BLOB,
        "_deletions/1.bin": FileKind.DELETION,
        f"_indices/{INDEX}/page.idx": FileKind.INDEX,
        f"_indices/{INDEX}/deep/er.idx": FileKind.INDEX,
        "_transactions/1.txn": FileKind.TRANSACTION,
    }
    assert all(file.verified for file in found.files)
    kept = plan(versions, listing, kept={"data/a.lance", f"_indices/{INDEX}"})
    assert paths(kept) == ["_deletions/1.bin", "_transactions/1.txn"]


KINDS = [
    "data/x.lance",
    "data/x/1.blob",
    "_deletions/1-1-1.arrow",
    "_deletions/1-1-2.bin",
    "_transactions/9-a.txn",
    f"_indices/{INDEX}/page.idx",
    "_versions/.tmp_abc",
]


@pytest.mark.parametrize("path", KINDS)
@pytest.mark.parametrize(("days", "goes"), [(0, False), (6.9, False), (7.1, True)])
def test_leftovers_stay_for_seven_days(path: str, days: float, goes: bool) -> None:
    found = plan([version(1)], listed(path, age=days * DAY))
    assert paths(found) == [path] * goes
    assert not any(file.verified for file in found.files)


@pytest.mark.parametrize("path", KINDS)
def test_leftovers_go_at_once_on_request(path: str) -> None:
    policy = replace(EVERYTHING, delete_unverified=True)
    found = plan([version(1)], listed(path), policy)
    assert paths(found) == ([] if path.endswith(".txn") else [path])


@pytest.mark.parametrize(
    "path",
    [
        "data/x.txt",
        "data/noext",
        "data/sub/x.lance",
        "data/a/b/1.blob",
        "_deletions/1.tmp",
        "_deletions/sub/1-1-1.bin",
        "_transactions/foo",
        "_indices/zz/page.idx",
        "_indices/top.idx",
        f"_indices/{INDEX}",
        f"_indices/{INDEX.upper()}/page.idx",
        "_versions/18446744073709551610.manifest-abc",
        "_versions/18446744073709551610.manifest",
        "_versions/d9223372036854775809.manifest",
        "_versions/latest_version_hint.json",
        "_refs/tags/x.json",
        "_blobs/a.blob",
        "tree/x/data/a.lance",
        "x.lance",
    ],
)
def test_what_is_not_known_is_never_touched(path: str) -> None:
    policy = replace(EVERYTHING, delete_unverified=True)
    assert paths(plan([version(1)], listed(path, age=999 * DAY), policy)) == []


def test_what_a_version_refers_to() -> None:
    deletion = DeletionFile(DeletionKind.BITMAP, 3, 17, 1)
    own = manifest(
        1,
        replace(FRAGMENT, id=4, files=(file("a"), file("b", 0)), deletion_file=deletion),
        replace(FRAGMENT, id=5, files=(), deletion_file=replace(deletion, base_id=0)),
        transaction_file="1-x.txn",
    )
    indices = [
        IndexMetadata(INDEX, (0,), "i", 1),
        IndexMetadata(INDEX.replace("0", "1"), (0,), "j", 1, base_id=0),
    ]
    mine = {"data/a.lance", "_deletions/4-3-17.bin", f"_indices/{INDEX}", "_transactions/1-x.txn"}
    theirs = {"data/b.lance", "_deletions/5-3-17.bin", f"_indices/{INDEX.replace('0', '1')}"}
    assert referenced(own, indices, {None: True}) == mine
    assert referenced(own, indices, {0: True}) == theirs
    assert referenced(own, indices, {None: True, 0: True}) == mine | theirs
    assert referenced(own, indices, {0: False}) == {"data/b.lance"}
    assert referenced(own, indices, {}) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"older_than": timedelta(days=-1)},
        {"older_than": 14},
        {"retain_versions": 0},
        {"retain_versions": True},
        {"retain_versions": 1.5},
    ],
)
def test_policies_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"^(older_than|retain_versions) must be"):
        CleanupPolicy(**wrong)
