"""Cleaning up every so many commits, as the settings of a table ask for."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from alance.dataset.cleanup import clean_up
from alance.dataset.handle import Handle
from alance.errors import AlanceError, InvalidInputError
from alance.table.cleanup import CleanupPolicy
from alance.table.freed import AUTO_CLEANUP
from alance.table.manifest import Manifest

__all__ = ["auto_policy", "clean_up_if_due", "parse_duration"]

_SECONDS: Mapping[str, float] = MappingProxyType({
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400),
    **dict.fromkeys(("month", "months", "M"), 30.44 * 86_400),
    **dict.fromkeys(("y", "year", "years"), 365.25 * 86_400),
})
_DURATION = re.compile(r"(?:\s*[0-9]{1,9}\s*[a-zA-Z]+)+\s*")
_PART = re.compile(r"([0-9]+)\s*([a-zA-Z]+)")


async def clean_up_if_due(handle: Handle, manifest: Manifest) -> None:
    """Clean up after a commit whose version the settings of the table name; raises nothing.

    The commit stands whatever becomes of the cleanup, so what goes wrong is only logged. The
    version before the new one stays, as its readers were there a moment ago.

    Parameters
    ----------
    handle
        Leads to the line of versions.
    manifest
        The version that was just committed.

    Notes
    -----
    Requests: none unless a cleanup is due, else those of `Dataset.cleanup_old_versions`.
    """
    try:
        policy = auto_policy(manifest.config, manifest.version)
        if policy is not None:
            await clean_up(handle, manifest.version - 1, policy)
    except AlanceError as exc:
        where = f"{handle.uri} version {manifest.version}"
        logging.getLogger(__name__).warning("no automatic cleanup of %s: %s", where, exc)


def auto_policy(config: Mapping[str, str], version: int) -> CleanupPolicy | None:
    """Policy of the cleanup that is due after a version; None when none is.

    Without an age and without a number of versions the age is that of a cleanup without arguments;
    the reference would keep nothing but the newest. Tagged versions just stay.

    Raises
    ------
    InvalidInputError
        A setting is no number, or no duration.
    """
    interval = _whole(config, "interval")
    if interval is None or (interval and version % interval):
        return None
    older_than = config.get(f"{AUTO_CLEANUP}older_than")
    return CleanupPolicy(
        None if older_than is None else parse_duration(older_than),
        _whole(config, "retain_versions"),
        error_if_tagged=False,
    )


def parse_duration(text: str) -> timedelta:
    """Length of time in words, such as "14d" or "1h 30m"; a month has 30.44 days.

    Raises
    ------
    InvalidInputError
        The text is none.
    """
    parts = _PART.findall(text) if _DURATION.fullmatch(text) else ()
    if not parts or not all(unit in _SECONDS for _, unit in parts):
        raise InvalidInputError(f"{text[:100]!r} is no duration, such as '14d' or '1h 30m'")
    try:
        return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))
    except OverflowError as exc:
        raise InvalidInputError(f"{text[:100]!r} is too long a duration") from exc


def _whole(config: Mapping[str, str], name: str) -> int | None:
    """Value of a setting that is a whole number; None when it is not set."""
    text = config.get(f"{AUTO_CLEANUP}{name}")
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", text):
        raise InvalidInputError(f"{AUTO_CLEANUP}{name} must be a whole number, not {text[:100]!r}")
    return int(text)
