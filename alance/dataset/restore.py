"""Making an earlier version the newest again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from alance._aio import both
from alance.dataset.committing import commit_change
from alance.dataset.handle import Handle
from alance.dataset.writing import check_texts
from alance.table.manifest import Manifest
from alance.table.operations import Restore

__all__ = ["restore"]


async def restore(
    handle: Handle, version: int, *, properties: Mapping[str, str] | None = None
) -> Manifest:
    """Commit a version again; see `Dataset.restore`.

    Its manifest is read anew, though it may be at hand: it tells whether the version still exists.
    """
    check_texts("transaction_properties", properties)
    source, newest = await both(partial(handle.read, version), partial(handle.read, None))
    return await commit_change(
        handle.places,
        newest,
        Restore(version),
        properties=properties,
        source=source,
        is_recent=True,
    )
