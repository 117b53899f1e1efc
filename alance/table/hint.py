"""The hint at the newest version that the reference keeps where listings do not come sorted."""

from __future__ import annotations

from contextlib import suppress

import anyio

from alance.errors import AlanceError
from alance.table.location import TableLocation
from alance.table.naming import hint_path

__all__ = ["write_hint"]

HINT_S = 5.0
"""Patience for a courtesy."""


async def write_hint(table: TableLocation, version: int) -> None:
    """Note the newest version for other libraries; raises nothing and is never relied upon.

    One request on the local file system and in S3 directory buckets; none elsewhere, where a short
    listing tells as much.
    """
    if table.store.lists_in_order and not table.store.url.startswith("file:"):
        return
    with anyio.move_on_after(HINT_S, shield=True), suppress(AlanceError):
        await table.store.put(hint_path(table.root), b'{"version":%d}' % version)
