"""Where the endpoint keeps its objects: in memory, or as files below a directory."""

from __future__ import annotations

import os
import tempfile
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Directory", "Memory", "Objects", "Stored"]


class Stored(Protocol):
    """One object as it was when it was looked up."""

    @property
    def num_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def modified_s(self) -> float:
        """When it was written, in seconds since 1970."""
        ...

    @property
    def etag(self) -> str:
        """Another one after each write, in quotes."""
        ...

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop); fewer where a file has been cut meanwhile."""
        ...


class Objects(Protocol):
    """Objects by key; a key begins with its bucket and a slash."""

    def find(self, key: str) -> Stored | None:
        """Return an object, or None where there is none."""
        ...

    def write(self, key: str, pieces: list[bytes]) -> Stored:
        """Write a whole object, atomically."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object; no error when there is none."""
        ...

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """Keys that begin with `prefix` and come behind `after`, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class _Bytes:
    """An object in memory."""

    data: memoryview
    modified_s: float
    etag: str

    @property
    def num_bytes(self) -> int:
        return self.data.nbytes

    def read(self, start: int, stop: int) -> memoryview:
        return self.data[start:stop]


class Memory:
    """Objects in a dictionary."""

    def __init__(self) -> None:
        self._found: dict[str, _Bytes] = {}
        self._keys: list[str] = []
        self._writes = 0

    def find(self, key: str) -> Stored | None:
        """Return an object, or None where there is none."""
        return self._found.get(key)

    def write(self, key: str, pieces: list[bytes]) -> Stored:
        """Write a whole object."""
        self._writes += 1
        data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if key not in self._found:
            insort(self._keys, key)
        self._found[key] = stored = _Bytes(data, time.time(), f'"{self._writes:032x}"')
        return stored

    def remove(self, key: str) -> None:
        """Remove an object; no error when there is none."""
        if self._found.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """Keys that begin with `prefix` and come behind `after`, ascending."""
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        for place in range(first, len(self._keys)):
            if not self._keys[place].startswith(prefix):
                return
            yield self._keys[place]


@dataclass(frozen=True, slots=True)
class _File:
    """An object in a file."""

    path: Path
    num_bytes: int
    modified_s: float
    etag: str

    def read(self, start: int, stop: int) -> memoryview:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return memoryview(os.pread(fd, stop - start, start))
        finally:
            os.close(fd)


class Directory:
    """Objects as files: what others write below the directory is served as well.

    Parameters
    ----------
    root
        Holds one folder per bucket.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: str) -> Stored | None:
        """Return an object, or None where there is none."""
        path = self._root / key
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not path.is_file():
            return None
        # A write replaces the file, so the inode tells two apart within one tick of the clock.
        etag = f'"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"'
        return _File(path, found.st_size, found.st_mtime, etag)

    def write(self, key: str, pieces: list[bytes]) -> Stored:
        """Write a whole object, atomically."""
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=self._root, prefix=".writing-")
        with open(fd, "wb") as file:
            file.writelines(pieces)
        os.replace(temporary, path)
        stored = self.find(key)
        assert stored is not None, "nobody else removes what was just written"
        return stored

    def remove(self, key: str) -> None:
        """Remove an object; no error when there is none."""
        if self.find(key) is not None:
            (self._root / key).unlink(missing_ok=True)

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """Keys that begin with `prefix` and come behind `after`, ascending."""
        folder = self._root / prefix.rpartition("/")[0]
        found = (
            Path(parent, name).relative_to(self._root).as_posix()
            for parent, _, names in os.walk(folder)
            for name in names
        )
        yield from sorted(key for key in found if key.startswith(prefix) and key > after)
