"""What every write is told and tells: limits, versions of files, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alance.errors import InvalidInputError, check_count, is_text
from alance.file.schema import Schema
from alance.types import FileVersion

__all__ = [
    "DEFAULT_VERSION",
    "DISCARD_S",
    "WriteLimits",
    "WriteProgress",
    "check_file_schema",
    "check_texts",
]

DEFAULT_VERSION = "stable"
DISCARD_S = 30.0
"""Patience for removing files that no version refers to; then they are left to a cleanup."""


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """How far a write has come, as `progress` callbacks get it after every batch and file."""

    num_rows: int
    num_bytes: int
    num_files: int


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """When a write begins another file."""

    max_rows_per_file: int = 1_048_576
    max_bytes_per_file: int | None = None

    def __post_init__(self) -> None:
        check_count("max_rows_per_file", self.max_rows_per_file, least=1)
        if self.max_bytes_per_file is not None:
            check_count("max_bytes_per_file", self.max_bytes_per_file, least=1)


def check_file_schema(schema: Schema, version: FileVersion) -> None:
    """Refuse what no data file of this version can hold, before anything is written.

    Raises
    ------
    InvalidInputError
        Names the first such field, or the version.
    """
    if version not in (FileVersion.V2_1, FileVersion.V2_2):
        raise InvalidInputError(
            f"data_storage_version {version.value} cannot be written by this library; use '2.1' "
            "or '2.2'"
        )
    schema.check_storable(version)
    schema.check_options()


def check_texts(name: str, values: Mapping[str, str] | None) -> dict[str, str]:
    """Copy an argument that maps text to text, None being empty.

    Raises
    ------
    InvalidInputError
        It is something else; `name` begins the message.
    """
    if values is not None and not isinstance(values, Mapping):
        raise InvalidInputError(f"{name} must map text to text, not be {values!r}")
    found = dict(values or {})
    for item in found.items():
        if not all(map(is_text, item)):
            raise InvalidInputError(f"{name} must map text to text, not {item[0]!r} to {item[1]!r}")
    return found
