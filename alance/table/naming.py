"""Names of a dataset's files: pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from alance.table.manifest import Naming

__all__ = [
    "VERSION_MAX",
    "ManifestName",
    "hint_path",
    "join",
    "manifest_path",
    "parse_manifest_name",
    "parse_staged_name",
    "transaction_path",
    "versions_prefix",
]

VERSION_MAX = (1 << 63) - 1
"""Bit 63 marks a detached version, which is in no dataset's history."""

_INVERTED = (1 << 64) - 1
_V2 = re.compile(r"([0-9]{20})\.manifest")
_V1 = re.compile(r"([1-9][0-9]{0,18})\.manifest")


@dataclass(frozen=True, slots=True)
class ManifestName:
    """What the name of a manifest says."""

    version: int
    naming: Naming


def join(root: str, *parts: str) -> str:
    """Key below a dataset's root, which is empty when the dataset is the whole store."""
    return "/".join((root, *parts)) if root else "/".join(parts)


def versions_prefix(root: str) -> str:
    """Folder of the manifests."""
    return join(root, "_versions")


def manifest_path(root: str, version: int, naming: Naming) -> str:
    """Key of a version's manifest."""
    number = f"{_INVERTED - version:020}" if naming is Naming.V2 else str(version)
    return join(root, "_versions", f"{number}.manifest")


def hint_path(root: str) -> str:
    """Key of the hint at the newest version."""
    return join(root, "_versions", "latest_version_hint.json")


def transaction_path(root: str, name: str) -> str:
    """Key of a transaction file."""
    return join(root, "_transactions", name)


def parse_manifest_name(name: str) -> ManifestName | None:
    """Version and scheme of a file in `_versions/`; None for anything but an attached manifest.

    Detached manifests, staged ones, temporary files and the version hint are none.
    """
    if match := _V2.fullmatch(name):
        named = ManifestName(_INVERTED - int(match[1]), Naming.V2)
    elif match := _V1.fullmatch(name):
        named = ManifestName(int(match[1]), Naming.V1)
    else:
        return None
    return named if 1 <= named.version <= VERSION_MAX else None


def parse_staged_name(name: str) -> ManifestName | None:
    """Version and scheme of a manifest under a staged name, `{final name}-{anything}`."""
    final, dash, rest = name.partition("-")
    return parse_manifest_name(final) if dash and rest and "/" not in rest else None
