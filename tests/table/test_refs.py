"""Files of tags and branches: written and read, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from alance.errors import CorruptFileError, InvalidInputError
from alance.table.refs import (
    Branch,
    Tag,
    branch_path,
    branch_root,
    build_branch,
    build_tag,
    check_branch_name,
    check_tag_name,
    main_root,
    parse_branch,
    parse_tag,
    ref_name,
    tag_path,
)

TIME = datetime(2026, 1, 31, 12, 30, 59, 123456, tzinfo=UTC)
TAG = Tag("feat/x", 7, TIME, TIME + timedelta(days=1), 459, {"why": "größer"})
BRANCH = Branch(None, 3, ((3, "b6ffffb2f8cb467fa84e85debe70725b"),), TIME, 369, {"a": "b"})
BARE = {"branch": None, "version": 1, "manifestSize": 9}


def tag_of(fields: Any) -> Tag:
    return parse_tag(memoryview(json.dumps(fields).encode()), path="x.json")


def branch_of(fields: Any) -> Branch:
    return parse_branch(memoryview(json.dumps(fields).encode()), path="x.json")


@pytest.mark.parametrize("tag", [TAG, Tag(None, 1)], ids=["full", "bare"])
def test_tags_come_back(tag: Tag) -> None:
    assert parse_tag(memoryview(build_tag(tag)), path="x.json") == tag


def test_branches_come_back() -> None:
    found = parse_branch(memoryview(build_branch(BRANCH)), path="x.json")
    assert found == Branch(None, 3, BRANCH.identifier, TIME.replace(microsecond=0), 369, {"a": "b"})
    bare = Branch("a", 1)
    assert parse_branch(memoryview(build_branch(bare)), path="x.json") == bare


def test_a_tag_is_laid_out_as_the_reference_does() -> None:
    written = build_tag(Tag(None, 1, TIME, TIME, 369)).decode()
    assert written == (
        '{\n  "branch": null,\n  "version": 1,\n'
        '  "createdAt": "2026-01-31T12:30:59.123456000Z",\n'
        '  "updatedAt": "2026-01-31T12:30:59.123456000Z",\n'
        '  "manifestSize": 369,\n  "metadata": {}\n}'
    )


def test_a_branch_is_laid_out_as_the_reference_does() -> None:
    branch = Branch(None, 1, ((1, "b6ff"),), datetime.fromtimestamp(1795161200, UTC), 369)
    assert build_branch(branch).decode() == (
        '{\n  "parentBranch": null,\n  "identifier": {\n    "version_mapping": [\n      [\n'
        '        1,\n        "b6ff"\n      ]\n    ]\n  },\n  "parentVersion": 1,\n'
        '  "createAt": 1795161200,\n  "manifestSize": 369,\n  "metadata": {}\n}'
    )


def test_what_older_writers_left_out_is_optional() -> None:
    assert tag_of({"version": 4}) == Tag(None, 4)
    assert branch_of({"parentVersion": 4, "createAt": 0}) == Branch(None, 4)


def test_times_have_nanoseconds_and_any_zone() -> None:
    found = tag_of({**BARE, "createdAt": "2026-01-31T13:30:59.123456789+01:00"})
    assert found.created_at == TIME
    east = TIME.astimezone(timezone(timedelta(hours=5)))
    assert parse_tag(memoryview(build_tag(Tag(None, 1, east))), path="x").created_at == TIME


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'"x"', b"[" * 100_000, b'{"version": 1' + b"0" * 5000 + b"}"],
    ids=["empty", "cut", "array", "no text", "text", "deep", "huge number"],
)
def test_no_json_object(data: bytes) -> None:
    for parse in (parse_tag, parse_branch):
        with pytest.raises(CorruptFileError, match=r"^s3://b/x\.json: expected"):
            parse(memoryview(data), path="s3://b/x.json")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"version": None}, "version must be the number of a version, found None"),
        ({"version": 0}, "version must be"),
        ({"version": True}, "version must be"),
        ({"version": 1 << 63}, "version must be"),
        ({"version": "1"}, "version must be"),
        ({"branch": "../up"}, "branch must be the name of a branch"),
        ({"branch": 3}, "branch must be"),
        ({"manifestSize": -1}, "manifestSize must be a whole number"),
        ({"manifestSize": 1.5}, "manifestSize must be"),
        ({"createdAt": "yesterday"}, "createdAt must be a time"),
        ({"createdAt": "2026-01-31T12:30:59"}, "createdAt must be a time"),
        ({"createdAt": "0001-01-01T00:00:00+23:00"}, "createdAt must be a time"),
        ({"updatedAt": 7}, "updatedAt must be a time"),
        ({"metadata": []}, "metadata must be an object of texts"),
        ({"metadata": {"a": 1}}, "metadata must be an object of texts"),
        ({"metadata": {"a": "\ud800"}}, "metadata must be an object of texts"),
    ],
)
def test_fields_of_a_tag_that_cannot_be(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(CorruptFileError, match=f"^x.json: {says}"):
        tag_of({**BARE, **changed})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"parentVersion": None}, "parentVersion must be"),
        ({"parentBranch": "a//b"}, "parentBranch must be"),
        ({"createAt": 1 << 62}, "createAt must be a time in seconds"),
        ({"identifier": []}, "identifier must be pairs"),
        ({"identifier": {"version_mapping": [[1]]}}, "identifier must be pairs"),
        ({"identifier": {"version_mapping": [["1", "a"]]}}, "identifier must be pairs"),
        ({"identifier": {"version_mapping": [[1, None]]}}, "identifier must be pairs"),
    ],
)
def test_fields_of_a_branch_that_cannot_be(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(CorruptFileError, match=f"^x.json: {says}"):
        branch_of({"parentVersion": 1, **changed})


@pytest.mark.parametrize("name", ["a", "v1.0", "a-b_c", "größe", "1", "main"])
def test_names_of_tags(name: str) -> None:
    assert check_tag_name(name) == name


@pytest.mark.parametrize("name", ["a", "feat/x", "a/b/c", "größe/1"])
def test_names_of_branches(name: str) -> None:
    assert check_branch_name(name) == name


BAD = ["", ".a", "a.", "a..b", "a.lock", "a b", "a\\b", "a\n", "..", ".", "a%", None, 7, b"a"]


@pytest.mark.parametrize("name", [*BAD, "a/b"])
def test_no_names_of_tags(name: object) -> None:
    with pytest.raises(InvalidInputError, match="is no tag name"):
        check_tag_name(name)


@pytest.mark.parametrize("name", [*BAD, "main", "/a", "a/", "a//b", "a/../b", "a/.b", "a.lock/b"])
def test_no_names_of_branches(name: object) -> None:
    with pytest.raises(InvalidInputError, match="is no branch name"):
        check_branch_name(name)


@pytest.mark.parametrize("root", ["", "a/b.lance"])
@pytest.mark.parametrize("name", ["x", "feat/x", "größe", "../../etc"])
def test_paths_lead_back_to_names(root: str, name: str) -> None:
    prefix = f"{root}/_refs" if root else "_refs"
    for path, kind in ((tag_path(root, name), "tags"), (branch_path(root, name), "branches")):
        assert path.count("/") == prefix.count("/") + 2
        assert ref_name(path, f"{prefix}/{kind}") == name


def test_slashes_and_other_letters_are_spelled_out_in_paths() -> None:
    assert branch_path("r", "feat/x") == "r/_refs/branches/feat%2Fx.json"
    assert tag_path("r", "é") == "r/_refs/tags/%C3%A9.json"


@pytest.mark.parametrize(
    "path", ["r/_refs/tags/x.txt", "r/_refs/tags/.json", "r/_refs/tags/a/b.json"]
)
def test_other_files_are_no_tags(path: str) -> None:
    assert ref_name(path, "r/_refs/tags") is None


def test_roots_of_branches() -> None:
    assert branch_root("r", None) == "r"
    assert branch_root("r", "feat/x") == "r/tree/feat/x"
    assert branch_root("", "x") == "tree/x"
    for root in ("", "r", "a/tree/b"):
        for name in (None, "x", "feat/x"):
            assert main_root(branch_root(root, name), name) == root
    assert main_root("copied/elsewhere", "x") == "copied/elsewhere"
