"""Errors of obstore into those of alance; what kind one is can often be told by its text alone."""

from __future__ import annotations

import re

from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    StoreTimeoutError,
)
from alance.io.handle import library

__all__ = ["is_expired", "summary", "translate"]

MESSAGE_MAX = 500
STATUS = re.compile(r"non-2xx status code: (\d{3})")
PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may go well."""
CODES_OF_EXPIRY = ("ExpiredToken", "TokenExpired", "InvalidToken", "RequestExpired")
ON_THE_WAY = ("HTTP error", "error sending request", "response body", "kind: Interrupted")
"""Words of failures without an answer, or in the middle of one."""


def translate(exc: Exception, url: str, path: str) -> AlanceError:
    """Our exception for one of obstore's, with the place in message and attribute."""
    place, text = f"{url}/{path}", str(exc)
    message = f"{place}: {summary(exc)}"
    found = STATUS.search(text)
    status = int(found[1]) if found is not None else None
    theirs = library.use().exceptions
    if isinstance(exc, FileNotFoundError) or "NotADirectory" in text:
        return ObjectNotFoundError(f"{place} does not exist", path=path)
    if isinstance(exc, theirs.AlreadyExistsError):
        return AlreadyExistsError(f"{place} already exists", path=path)
    if (
        isinstance(exc, theirs.PermissionDeniedError | theirs.UnauthenticatedError)
        or status in {401, 403}
        or "PermissionDenied" in text
    ):
        return PermissionDeniedError(f"{message}; check the credentials", path=path, status=status)
    if isinstance(exc, theirs.PreconditionError | theirs.NotModifiedError):
        return PreconditionFailedError(message, path=path, status=status)
    if isinstance(exc, ValueError):
        return InvalidInputError(message)
    if "TimedOut" in text or "timed out" in text:
        return StoreTimeoutError(message, path=path, transient=True)
    passes = status in PASSING or (status is None and any(said in text for said in ON_THE_WAY))
    return StoreError(message, path=path, status=status, transient=passes)


def is_expired(error: AlanceError) -> bool:
    """Whether a request was refused because its credentials have expired."""
    refused = isinstance(error, StoreError) and error.status in {400, 401, 403}
    return refused and any(code in str(error) for code in CODES_OF_EXPIRY)


def summary(exc: Exception) -> str:
    """What obstore says, on one line, without the dump of its error values behind it."""
    said = " ".join(str(exc).partition("\n\nDebug source")[0].split())
    return said if len(said) <= MESSAGE_MAX else f"{said[:MESSAGE_MAX]}..."
