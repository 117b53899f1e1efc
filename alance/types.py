"""Small values that every layer shares."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from alance.errors import InvalidInputError, UnsupportedFeatureError

__all__ = ["ByteRange", "FileVersion"]


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Half-open range of byte positions in one object."""

    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        """Length in bytes."""
        return self.stop - self.start


class FileVersion(Enum):
    """A version of the file format, by the name that users and manifests give it."""

    V0_1 = "0.1"
    V2_0 = "2.0"
    V2_1 = "2.1"
    V2_2 = "2.2"

    @property
    def footer(self) -> tuple[int, int]:
        """(major, minor) as the footer of a data file carries it."""
        return {"0.1": (0, 2), "2.0": (0, 3), "2.1": (2, 1), "2.2": (2, 2)}[self.value]

    @property
    def manifest(self) -> tuple[int, int]:
        """(major, minor) as a manifest's data file entry carries it."""
        return (2, 0) if self is FileVersion.V2_0 else self.footer

    @classmethod
    def parse(cls, name: str) -> FileVersion:
        """Version of a name as users write it, with its aliases.

        Raises
        ------
        InvalidInputError
            The name is none of them.
        """
        aliases = {"stable": "2.1", "next": "2.2", "legacy": "0.1"}
        try:
            return cls(aliases.get(name, name))
        except ValueError:
            known = [v.value for v in cls] + sorted(aliases)
            raise InvalidInputError(
                f"data_storage_version {name!r} is unknown; one of {', '.join(known)}"
            ) from None

    @classmethod
    def from_footer(cls, major: int, minor: int) -> FileVersion:
        """Version of a footer's or manifest's number pair.

        Raises
        ------
        UnsupportedFeatureError
            A pair that this library does not know.
        """
        if (major, minor) in {(0, 0), (0, 1), (0, 2)}:
            return cls.V0_1
        if (major, minor) in {(0, 3), (2, 0)}:
            return cls.V2_0
        if (major, minor) == (2, 1):
            return cls.V2_1
        if (major, minor) == (2, 2):
            return cls.V2_2
        raise UnsupportedFeatureError(
            f"file version {major}.{minor} is not known to this library; a newer one may read it",
            feature=f"file version {major}.{minor}",
        )
