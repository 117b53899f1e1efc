"""Where in a file an error lies: added to it in one place, on its way up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from alance.errors import CorruptFileError, FormatError

__all__ = ["located"]


@contextmanager
def located(path: str, *where: str) -> Generator[None, None, None]:
    """Add a file, and notes on the place in it, to errors of the format raised inside.

    An error that has come through here before stays as it is: the inner place is the exact one.

    Parameters
    ----------
    path
        Of the file.
    where
        Notes such as "in page 3 of column 1", innermost first.
    """
    try:
        yield
    except FormatError as exc:
        note = f"in file {path}"
        notes = getattr(exc, "__notes__", ())
        if note in notes or (isinstance(exc, CorruptFileError) and exc.path is not None):
            raise
        if not isinstance(exc, CorruptFileError):
            for each in (*where, note):
                exc.add_note(each)
            raise
        found = CorruptFileError(f"{exc}; in file {path}", path=path, offset=exc.offset)
        for each in (*notes, *where):
            found.add_note(each)
        raise found from exc.__cause__
