"""Where in a file an error lies: added to it in one place, on its way up."""

from __future__ import annotations

from types import TracebackType

from alance.errors import CorruptFileError, FormatError

__all__ = ["located"]


class located:
    """Add a file, and notes on the place in it, to errors of the format raised inside.

    An error that has come through here before stays as it is: the inner place is the exact one.
    A class, as a page is read through several of these and a generator for each takes longer.

    Parameters
    ----------
    path
        Of the file.
    where
        Notes such as "in page 3 of column 1", innermost first.
    """

    __slots__ = ("_path", "_where")

    def __init__(self, path: str, *where: str) -> None:
        self._path = path
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(exc, FormatError):
            return
        note = f"in file {self._path}"
        notes = getattr(exc, "__notes__", ())
        if note in notes or (isinstance(exc, CorruptFileError) and exc.path is not None):
            return
        if not isinstance(exc, CorruptFileError):
            for each in (*self._where, note):
                exc.add_note(each)
            return
        found = CorruptFileError(f"{exc}; {note}", path=self._path, offset=exc.offset)
        for each in (*notes, *self._where):
            found.add_note(each)
        raise found from exc.__cause__
