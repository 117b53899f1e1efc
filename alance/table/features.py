"""Feature flags: what a reader or writer must understand before it touches a table."""

from __future__ import annotations

from enum import IntFlag

from alance.errors import UnsupportedFeatureError
from alance.table.manifest import Manifest

__all__ = ["Feature", "check_readable", "check_writable", "compute_flags"]


class Feature(IntFlag):
    """The bits of both flag words, by the names this library uses in messages."""

    DELETION_FILES = 1 << 0
    STABLE_ROW_IDS = 1 << 1
    V2_FORMAT = 1 << 2
    TABLE_CONFIG = 1 << 3
    BASE_PATHS = 1 << 4
    NO_TRANSACTION_FILES = 1 << 5
    DATA_OVERLAYS = 1 << 6
    COVERING_INDICES = 1 << 7
    MIXED_FILE_VERSIONS = 1 << 8
    FRAGMENT_REUSE_STABLE_IDS = 1 << 9
    TAGGED_FRAGMENT_REUSE = 1 << 10
    SPILLED_ROW_LINEAGE = 1 << 11
    FRAGMENT_TREE = 1 << 12
    MANAGED_BLOBS = 1 << 14
    LASTING_FIELD_IDS = 1 << 15
    ZONE_WRITE_SEED = 1 << 16


KNOWN = (
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILES
    | Feature.COVERING_INDICES
    | Feature.MIXED_FILE_VERSIONS
    | Feature.TAGGED_FRAGMENT_REUSE
)
"""Understood for reading and writing: the two index bits need no more than carrying the indices."""

STICKY = (
    Feature.STABLE_ROW_IDS
    | Feature.NO_TRANSACTION_FILES
    | Feature.MIXED_FILE_VERSIONS
    | Feature.TAGGED_FRAGMENT_REUSE
)
"""Set once and for all; the others follow from what a manifest holds."""

WRITER_ONLY = Feature.TABLE_CONFIG | Feature.NO_TRANSACTION_FILES


def check_readable(reader_flags: int, path: str) -> None:
    """Refuse to open a table that uses features unknown to this library.

    Raises
    ------
    UnsupportedFeatureError
        Naming the bits.
    """
    _check(reader_flags, path, "reader", "read")


def check_writable(manifest: Manifest, path: str) -> None:
    """Refuse to commit to a table that uses features unknown to this library.

    Raises
    ------
    UnsupportedFeatureError
        Naming the bits.
    """
    _check(manifest.writer_flags, path, "writer", "write to")


def compute_flags(manifest: Manifest) -> tuple[int, int]:
    """Reader and writer words for what a manifest holds, sticky bits as they stand in it."""
    flags = Feature((manifest.reader_flags | manifest.writer_flags) & STICKY)
    if any(fragment.deletion_file for fragment in manifest.fragments):
        flags |= Feature.DELETION_FILES
    if manifest.config:
        flags |= Feature.TABLE_CONFIG
    if manifest.base_paths:
        flags |= Feature.BASE_PATHS
    if manifest.index_section is not None:
        flags |= Feature(manifest.writer_flags) & Feature.COVERING_INDICES
    return int(flags & ~WRITER_ONLY), int(flags)


def _check(flags: int, path: str, word: str, verb: str) -> None:
    unknown = flags & ~int(KNOWN)
    if not unknown:
        return
    bits = [bit for bit in range(unknown.bit_length()) if unknown >> bit & 1]
    names = ", ".join(_describe(bit) for bit in bits)
    raise UnsupportedFeatureError(
        f"{path}: the manifest's {word} feature flags are {flags:#x}; this library does not know "
        f"{names}, so it must not {verb} this dataset; a newer version may",
        feature=f"{word} feature flag bit {bits[0]}",
    )


def _describe(bit: int) -> str:
    named = {int(feature): feature.name for feature in Feature}.get(1 << bit)
    return f"bit {bit}" if named is None else f"bit {bit} ({named.lower().replace('_', ' ')})"
