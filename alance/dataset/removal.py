"""Removing many objects, as far as the store lets us."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from alance._aio import run_all
from alance.errors import StoreError
from alance.io.store import ObjectStore

__all__ = ["remove_all"]

REMOVALS_AT_ONCE = 32
"""Less than a session's requests, as others want theirs answered meanwhile."""


async def remove_all(
    store: ObjectStore, paths: Iterable[str], on_removed: Callable[[str], None] | None = None
) -> dict[str, StoreError]:
    """Remove objects, one request each, some of them at once.

    Parameters
    ----------
    store
        Where they are.
    paths
        Their keys; one that is gone already counts as removed.
    on_removed
        Called with each key when it is gone.

    Returns
    -------
    dict of str to StoreError
        The keys that could not be removed, and why.
    """
    failed: dict[str, StoreError] = {}
    left = iter(paths)

    async def work() -> None:
        for path in left:
            try:
                await store.delete(path)
            except StoreError as exc:
                failed[path] = exc
            else:
                if on_removed is not None:
                    on_removed(path)

    await run_all([work] * REMOVALS_AT_ONCE)
    return failed
