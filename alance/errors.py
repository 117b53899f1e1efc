"""Every exception that alance raises on purpose, grouped by what the caller does next.

::

    AlanceError
    ├── InvalidInputError (ValueError)       the call is wrong: fix the call
    │   └── SchemaMismatchError
    ├── NotFoundError (LookupError)
    │   ├── DatasetNotFoundError
    │   ├── VersionNotFoundError
    │   └── ObjectNotFoundError
    ├── AlreadyExistsError
    │   └── DatasetAlreadyExistsError
    ├── CommitError                          read_version, version, uuid of the transaction
    │   ├── CommitConflictError              incompatible: do not retry blindly
    │   ├── RetryableCommitError             run the operation again on the new version
    │   ├── CommitContentionError            attempts used up: try later
    │   └── CommitStateUnknownError          may have landed: look for the uuid first
    ├── FormatError
    │   ├── CorruptFileError                 path, offset
    │   └── UnsupportedFeatureError          feature
    └── StoreError                           the environment: path, status, transient
        ├── StoreTimeoutError (TimeoutError)
        ├── PermissionDeniedError
        └── PreconditionFailedError

All of them pickle with their attributes: Spark carries them from executors to the driver.
"""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = [
    "AlanceError",
    "AlreadyExistsError",
    "CommitConflictError",
    "CommitContentionError",
    "CommitError",
    "CommitStateUnknownError",
    "CorruptFileError",
    "DatasetAlreadyExistsError",
    "DatasetNotFoundError",
    "FormatError",
    "InvalidInputError",
    "NotFoundError",
    "ObjectNotFoundError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "RetryableCommitError",
    "SchemaMismatchError",
    "StoreError",
    "StoreTimeoutError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "check_count",
    "check_text",
    "is_text",
]


class AlanceError(Exception):
    """Root of the tree; details such as path or version are attributes.

    Parameters
    ----------
    message
        What happened, where, what was found and expected, and what to do.
    **details
        Kept as attributes; the names a class documents are always present, None when unknown.
    """

    details: tuple[str, ...] = ()

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        for name in self.details:
            setattr(self, name, details.pop(name, None))
        if details:
            raise TypeError(f"{type(self).__name__} has no detail {sorted(details)[0]!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self)), self.__dict__)


def _rebuild(kind: type[AlanceError], message: str) -> AlanceError:
    return kind(message)


class InvalidInputError(AlanceError, ValueError):
    """The call is wrong; nothing was written. Fix the call."""


class SchemaMismatchError(InvalidInputError):
    """The data's schema does not fit the dataset's."""


class NotFoundError(AlanceError, LookupError):
    """What was asked for is not there."""


class DatasetNotFoundError(NotFoundError):
    """No dataset at this `uri`."""

    details = ("uri",)
    uri: str | None


class VersionNotFoundError(NotFoundError):
    """The dataset exists, but not this `version` or tag."""

    details = ("uri", "version")
    uri: str | None
    version: int | str | None


class ObjectNotFoundError(NotFoundError):
    """The store has no object at `path`."""

    details = ("path",)
    path: str | None


class AlreadyExistsError(AlanceError):
    """Something stands where this call would create it."""

    details = ("path",)
    path: str | None


class DatasetAlreadyExistsError(AlreadyExistsError):
    """A dataset exists at this `path`; use mode "append" or "overwrite"."""


class CommitError(AlanceError):
    """A commit did not go through, or nobody knows whether it did."""

    details = ("read_version", "version", "uuid")
    read_version: int | None
    version: int | None
    uuid: str | None


class CommitConflictError(CommitError):
    """Another writer's change makes this one meaningless; do not retry blindly."""


class RetryableCommitError(CommitError):
    """Another writer was first; run the whole operation again on the new version."""


class CommitContentionError(CommitError):
    """Other writers won every attempt; try later."""


class CommitStateUnknownError(CommitError):
    """The commit may have landed; look for its `uuid` in the history before anything else."""


class FormatError(AlanceError):
    """Bytes in storage are not what this library can read."""


class CorruptFileError(FormatError):
    """Stored bytes contradict the format, at `path` and `offset` where they are known."""

    details = ("path", "offset")
    path: str | None
    offset: int | None


class UnsupportedFeatureError(FormatError):
    """A `feature` of the format that this version of the library does not know."""

    details = ("feature",)
    feature: str | None


class StoreError(AlanceError):
    """The store or the way to it failed, after retries.

    `status` is that of HTTP, where there was an answer; `transient` says that the same request may
    well succeed later.
    """

    details = ("path", "status", "transient")
    path: str | None
    status: int | None
    transient: bool | None


class StoreTimeoutError(StoreError, TimeoutError):
    """No answer in time, after retries."""


class PermissionDeniedError(StoreError):
    """The credentials do not allow this request."""


class PreconditionFailedError(StoreError):
    """A conditional request was refused."""


def check_count(name: str, value: object, *, least: int) -> None:
    """Refuse an argument that is no whole number from `least` up.

    Raises
    ------
    InvalidInputError
        Names the argument.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError(f"{name} must be a whole number from {least}, not {value!r}")


def check_text(name: str, value: object) -> str:
    """Refuse an argument that is no text, or holds half of a surrogate pair: nothing can store it.

    Raises
    ------
    InvalidInputError
        Names the argument.
    """
    if not is_text(value):
        raise InvalidInputError(f"{name} must be text, not {value!r}")
    return value


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is text that UTF-8 can spell; JSON and Python strings may hold other."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
