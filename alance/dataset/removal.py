"""Removing many objects, as far as the store lets us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from alance._aio import run_each
from alance.errors import StoreError
from alance.io.store import DELETE_MAX, ObjectStore

__all__ = ["remove_all"]

REMOVALS_AT_ONCE = 8
"""Less than a session's requests, as others want theirs answered meanwhile."""


async def remove_all(
    store: ObjectStore, paths: Sequence[str], on_removed: Callable[[str], None] | None = None
) -> dict[str, StoreError]:
    """Remove objects, up to a thousand with each request, some requests at once.

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
        The keys that could not be removed, and why: where a request for many failed, each of them
        was tried by itself.
    """
    failed: dict[str, StoreError] = {}

    async def remove(some: Sequence[str], send: Callable[[], Awaitable[None]]) -> bool:
        try:
            await send()
        except StoreError as exc:
            failed.update(dict.fromkeys(some, exc))
            return False
        for path in some:
            failed.pop(path, None)
            if on_removed is not None:
                on_removed(path)
        return True

    async def remove_batch(batch: Sequence[str]) -> None:
        if not await remove(batch, partial(store.delete_many, batch)):
            for path in batch:
                await remove((path,), partial(store.delete, path))

    batches = [paths[i : i + DELETE_MAX] for i in range(0, len(paths), DELETE_MAX)]
    await run_each([partial(remove_batch, each) for each in batches], at_once=REMOVALS_AT_ONCE)
    return failed
