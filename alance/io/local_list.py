"""Local folders as a store lists them: every file below, in one order, as it is at that time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from alance.io.store import ObjectInfo

__all__ = ["list_files"]

STAGED = re.compile(r".*#\d+")
"""Names of files that are being written, here and by obstore."""


def list_files(prefix: str, start_after: str | None, limit: int | None) -> list[ObjectInfo]:
    """List files below a folder, ascending; none where it is no folder.

    Parameters
    ----------
    prefix, start_after
        Absolute paths without the leading slash.
    limit
        Files to describe, at most.

    Raises
    ------
    OSError
        A folder cannot be read.
    """
    paths = sorted(path.removeprefix("/") for path in _walk(f"/{prefix}"))
    if start_after is not None:
        paths = [path for path in paths if path > start_after]
    found: list[ObjectInfo] = []
    for path in paths:
        if limit is not None and len(found) >= limit:
            break
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(_info(path, os.stat(f"/{path}")))
    return found


def _walk(folder: str) -> Iterator[str]:
    """Files in a folder and those below; links are followed, but not back to where they are."""
    todo: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while todo:
        path, above = todo.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(path)
            place = (status.st_dev, status.st_ino)
            if place in above:
                continue
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir():
                        todo.append((entry.path, above | {place}))
                    elif entry.is_file() and _is_text(entry.name):
                        yield entry.path


def _is_text(name: str) -> bool:
    """Whether a file has its final name, and one that is text."""
    return STAGED.fullmatch(name) is None and not any("\ud800" <= c <= "\udfff" for c in name)


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    """Describe a file; the tag is the one that obstore gives it."""
    micros = status.st_mtime_ns // 1000
    modified = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(
        microsecond=micros % 1_000_000
    )
    tag = f'"{status.st_ino:x}-{micros:x}-{status.st_size:x}"'
    return ObjectInfo(path, status.st_size, modified, tag)
