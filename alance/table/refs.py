"""Tags and branches: names for versions, and lines of versions beside the main one. Pure.

Both are small JSON files below `_refs/` of the dataset's main root; a branch has its versions and
new files in a dataset folder of its own, `tree/{name}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import quote, unquote

from alance.errors import CorruptFileError, InvalidInputError, is_text
from alance.table.naming import VERSION_MAX, join

__all__ = [
    "MAIN",
    "REF_BYTES_MAX",
    "Branch",
    "Reference",
    "Tag",
    "branch_path",
    "branch_root",
    "build_branch",
    "build_tag",
    "check_branch_name",
    "check_tag_name",
    "main_root",
    "parse_branch",
    "parse_tag",
    "ref_name",
    "refs_prefix",
    "tag_path",
]

MAIN = "main"
"""Name of the line of versions that is no branch; stored as null."""

REF_BYTES_MAX = 1 << 20
"""A longer file is no tag and no branch."""

Reference: TypeAlias = "int | str | tuple[str | None, int | None] | datetime"
"""A version: its number in the line at hand, a tag, a branch and a number there (None for the main
line, None for the newest), or a time (the newest version that is not after it)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version, which protects it from cleanup.

    Parameters
    ----------
    branch
        Line that the version belongs to; None for the main one.
    version
        Its number.
    created_at, updated_at
        When the tag was made, and last moved; None in files of older writers.
    manifest_size
        Bytes of the version's manifest; 0 when unknown.
    metadata
        Free text by key.
    """

    branch: str | None
    version: int
    created_at: datetime | None = None
    updated_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions that begins with a version of another line.

    Parameters
    ----------
    parent_branch
        Line it began from; None for the main one.
    parent_version
        Version it began from, which is also the number of its own first version.
    identifier
        A (parent version, random hex) pair for each branching on the way from the main line, which
        tells two branches of the same name apart. Empty in files of older writers.
    created_at
        To the second.
    manifest_size
        Bytes of the parent version's manifest; 0 when unknown.
    metadata
        Free text by key.
    """

    parent_branch: str | None
    parent_version: int
    identifier: tuple[tuple[int, str], ...] = ()
    created_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


def refs_prefix(root: str, kind: str) -> str:
    """Folder of the "tags" or "branches" of a dataset."""
    return join(root, "_refs", kind)


def tag_path(root: str, name: str) -> str:
    """Key of a tag's file below the main root; any text makes a name without slashes."""
    return join(root, "_refs", "tags", f"{quote(name, safe='')}.json")


def branch_path(root: str, name: str) -> str:
    """Key of a branch's file below the main root."""
    return join(root, "_refs", "branches", f"{quote(name, safe='')}.json")


def ref_name(path: str, prefix: str) -> str | None:
    """Name of the tag or branch in a listed file; None for a file that is neither."""
    name = path.removeprefix(f"{prefix}/")
    if "/" in name or not name.endswith(".json") or name == ".json":
        return None
    return unquote(name.removesuffix(".json"))


def branch_root(root: str, name: str | None) -> str:
    """Root of a branch, given that of the main line; None is the main line itself."""
    return root if name is None else join(root, "tree", name)


def main_root(root: str, branch: str | None) -> str:
    """Root of the main line, given that of a branch.

    A branch that was copied elsewhere by itself has no main line: it stands for its own.
    """
    below = "" if branch is None else f"tree/{branch}"
    if below and root == below:
        return ""
    if below and root.endswith(f"/{below}"):
        return root.removesuffix(f"/{below}")
    return root


def check_tag_name(name: object) -> str:
    """Refuse what cannot be the name of a new tag.

    Raises
    ------
    InvalidInputError
        Says the rule.
    """
    if not isinstance(name, str) or not _is_part(name):
        raise InvalidInputError(
            f"{name!r} is no tag name: use letters, digits, '.', '-' and '_', with no dot at "
            "either end, no '..' and no '.lock' at the end"
        )
    return name


def check_branch_name(name: object) -> str:
    """Refuse what cannot be the name of a branch.

    Raises
    ------
    InvalidInputError
        Says the rule.
    """
    if not isinstance(name, str) or name == MAIN or not all(map(_is_part, name.split("/"))):
        raise InvalidInputError(
            f"{name!r} is no branch name: use letters, digits, '.', '-' and '_', in parts with "
            "'/' between them, with no dot at either end of a part, no '..' and no '.lock' at the "
            f"end; {MAIN!r} is the main line"
        )
    return name


def _is_part(name: str) -> bool:
    return (
        bool(name)
        and all(char.isalnum() or char in ".-_" for char in name)
        and not name.startswith(".")
        and not name.endswith((".", ".lock"))
        and ".." not in name
    )


def parse_tag(data: memoryview, *, path: str) -> Tag:
    """Read the file of a tag.

    Raises
    ------
    CorruptFileError
        It is no JSON, or a field is missing or of another kind than it must be.
    """
    fields = _Fields(data, path)
    return Tag(
        fields.branch("branch"),
        fields.version("version"),
        fields.time("createdAt"),
        fields.time("updatedAt"),
        fields.count("manifestSize"),
        fields.text_map("metadata"),
    )


def build_tag(tag: Tag) -> bytes:
    """Write the file of a tag."""
    return _dump({
        "branch": tag.branch,
        "version": tag.version,
        **_times(tag),
        "manifestSize": tag.manifest_size,
        "metadata": dict(tag.metadata),
    })


def parse_branch(data: memoryview, *, path: str) -> Branch:
    """Read the file of a branch.

    Raises
    ------
    CorruptFileError
        It is no JSON, or a field is missing or of another kind than it must be.
    """
    fields = _Fields(data, path)
    return Branch(
        fields.branch("parentBranch"),
        fields.version("parentVersion"),
        fields.identifier(),
        fields.seconds("createAt"),
        fields.count("manifestSize"),
        fields.text_map("metadata"),
    )


def build_branch(branch: Branch) -> bytes:
    """Write the file of a branch."""
    created_at = branch.created_at
    return _dump({
        "parentBranch": branch.parent_branch,
        "identifier": {"version_mapping": [list(pair) for pair in branch.identifier]},
        "parentVersion": branch.parent_version,
        "createAt": 0 if created_at is None else int(created_at.timestamp()),
        "manifestSize": branch.manifest_size,
        "metadata": dict(branch.metadata),
    })


def _dump(fields: Mapping[str, Any]) -> bytes:
    """JSON as the reference lays it out."""
    return json.dumps(fields, indent=2, ensure_ascii=False).encode()


def _times(tag: Tag) -> dict[str, str]:
    """The times of a tag that are known, with nanoseconds as the reference writes them."""
    times = {"createdAt": tag.created_at, "updatedAt": tag.updated_at}
    return {
        name: time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        for name, time in times.items()
        if time is not None
    }


class _Fields:
    """The fields of a stored JSON object, each checked as it is read."""

    def __init__(self, data: memoryview, path: str) -> None:
        self.path = path
        try:
            found = json.loads(bytes(data).decode())
        except (ValueError, RecursionError) as exc:
            raise CorruptFileError(f"{path}: expected JSON: {exc}", path=path) from exc
        if not isinstance(found, dict):
            raise CorruptFileError(f"{path}: expected a JSON object", path=path)
        self._found: dict[str, Any] = found

    def branch(self, name: str) -> str | None:
        """Name of a branch, or None for the main line."""
        value = self._found.get(name)
        if value is None or value == MAIN:
            return None
        try:
            return check_branch_name(value)
        except InvalidInputError as exc:
            raise self._wrong(name, "the name of a branch") from exc

    def version(self, name: str) -> int:
        """Number of a version; must be there."""
        value = self._found.get(name)
        if not _is_whole(value) or not 1 <= value <= VERSION_MAX:
            raise self._wrong(name, "the number of a version")
        return value

    def count(self, name: str) -> int:
        """Whole number, 0 when missing."""
        value = self._found.get(name, 0)
        if not _is_whole(value) or not 0 <= value < 1 << 64:
            raise self._wrong(name, "a whole number")
        return value

    def seconds(self, name: str) -> datetime | None:
        """Time in seconds since 1970."""
        value = self.count(name)
        try:
            return datetime.fromtimestamp(value, UTC) if value else None
        except (ValueError, OverflowError, OSError) as exc:
            raise self._wrong(name, "a time in seconds") from exc

    def time(self, name: str) -> datetime | None:
        """Time as text with a time zone."""
        value = self._found.get(name)
        if value is None:
            return None
        expected = "a time such as 2026-01-31T12:00:00Z"
        try:
            time = datetime.fromisoformat(value)
            in_utc = time.astimezone(UTC)
        except (TypeError, ValueError, OverflowError) as exc:
            raise self._wrong(name, expected) from exc
        if time.tzinfo is None:
            raise self._wrong(name, expected)
        return in_utc

    def text_map(self, name: str) -> dict[str, str]:
        """Text by text, empty when missing."""
        value = self._found.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(
            is_text(t) for item in value.items() for t in item
        ):
            raise self._wrong(name, "an object of texts")
        return value

    def identifier(self) -> tuple[tuple[int, str], ...]:
        """Pairs of version and text."""
        value = self._found.get("identifier")
        if value is None:
            return ()
        pairs = value.get("version_mapping") if isinstance(value, dict) else None
        if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
            raise self._wrong("identifier", "pairs of a version and a text")
        return tuple((int(version), str(text)) for version, text in pairs)

    def _wrong(self, name: str, expected: str) -> CorruptFileError:
        found = repr(self._found.get(name))[:100]
        return CorruptFileError(
            f"{self.path}: {name} must be {expected}, found {found}", path=self.path
        )


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_whole(value[0]) and is_text(value[1])
