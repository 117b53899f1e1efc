"""A session: limits, caches and encodings, shared by all datasets that are opened with it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt

from alance._aio import ByteBudget
from alance.encodings.compressive import default_registry
from alance.encodings.registry import EncodingRegistry
from alance.file.cache import ByteCache, CachedBytes, CacheKind, CacheStats
from alance.file.reader import FileReader
from alance.io.client import StoreClient, StoreClients
from alance.io.link import StoreStats
from alance.limits import Limits
from alance.receipts import Receipt
from alance.table.handlers import CommitHandlers
from alance.table.location import CachedManifest
from alance.table.row_ids import RowIdIndex

if TYPE_CHECKING:
    from alance.table.commit import CommitPolicy
    from alance.table.group import AppendQueues

__all__ = ["Session", "SessionStats", "current_session"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeletedOffsets:
    """Deleted rows of a fragment, ascending, as a session keeps them."""

    offsets: npt.NDArray[np.int64]

    @property
    def cached_bytes(self) -> int:
        """Bytes held."""
        return int(self.offsets.nbytes)


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What a session has done so far, and holds now.

    Attributes
    ----------
    requests
        What was sent; a request shared by several calls counts once. Goes on counting.
    caches
        By what is kept: "manifests", "files" (metadata and search caches), "deletions",
        "row_indices" (from stable row ids to addresses, one for each `Dataset` that was asked), and
        "pages", which is empty unless `Limits.page_cache_bytes_max` allows some.
    budget_held, budget_total
        Bytes of `Limits.bytes_in_flight_max` that are in use, and may be.
    stores
        What was learned of each store that the session talks to.
    """

    requests: Receipt
    caches: Mapping[str, CacheStats]
    budget_held: int
    budget_total: int
    stores: tuple[StoreStats, ...]


class Session:
    """What many calls share: limits, connections, caches, encodings.

    Give one to `open_dataset` or `write_dataset`; without one, all calls on the same event loop
    share that loop's default session.

    Parameters
    ----------
    limits
        What may be used at once; see `Limits`.
    registry
        Encodings that pages may use; None for those of this library.
    """

    def __init__(
        self, *, limits: Limits | None = None, registry: EncodingRegistry | None = None
    ) -> None:
        self.limits = limits if limits is not None else Limits()
        self.registry = registry if registry is not None else default_registry()
        self.clients = StoreClients(self.limits)
        self.budget = ByteBudget(self.limits.bytes_in_flight_max)
        cache = ByteCache(self.limits.cache_bytes_max)
        self.manifests: CacheKind[CachedManifest] = CacheKind(cache)
        self.files: CacheKind[FileReader] = CacheKind(cache)
        self.deletions: CacheKind[DeletedOffsets] = CacheKind(cache)
        self.row_indices: CacheKind[RowIdIndex] = CacheKind(cache)
        self.pages: CacheKind[CachedBytes] = CacheKind(ByteCache(self.limits.page_cache_bytes_max))
        self.handlers = CommitHandlers()
        self._decoders = anyio.CapacityLimiter(self.limits.decoders_max)
        self._loaded: set[str] = set()

    @cached_property
    def appends(self) -> AppendQueues:
        """Appends under way, by table."""
        # Whoever appends has loaded this: programs that only read do without.
        from alance.table.group import AppendQueues

        return AppendQueues(self.commit_policy)

    @property
    def commit_policy(self) -> CommitPolicy:
        """How hard commits through this session try."""
        from alance.table.commit import CommitPolicy  # loaded by whoever commits

        return CommitPolicy(attempts_max=self.limits.commit_attempts_max)

    def sibling(self) -> Session:
        """Return a session for another event loop: the same stores, caches of its own."""
        other = Session(limits=self.limits, registry=self.registry)
        other.clients = self.clients.sibling()
        return other

    def pages_of(self, client: StoreClient) -> CacheKind[CachedBytes] | None:
        """Where data pages of a store may be kept; None for local files, which the kernel keeps."""
        is_of_use = self.limits.page_cache_bytes_max and not client.may_read_cached
        return self.pages if is_of_use else None

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run CPU work in one of the session's threads; it cannot be cancelled once begun."""
        return await anyio.to_thread.run_sync(work, limiter=self._decoders)

    async def load(self, module: str) -> None:
        """Import what not every program needs, in a thread, as that may take tens of milliseconds.

        The caller's own import of it, inside of the function, then takes no time.
        """
        if module not in self._loaded:
            await self.run_in_thread(partial(import_module, module))
            self._loaded.add(module)

    def stats(self) -> SessionStats:
        """What the session has sent so far, what it keeps, and what is in use."""
        caches = {
            "manifests": self.manifests.stats(),
            "files": self.files.stats(),
            "deletions": self.deletions.stats(),
            "row_indices": self.row_indices.stats(),
            "pages": self.pages.stats(),
        }
        clients, budget = self.clients, self.budget
        return SessionStats(clients.total, caches, budget.held, budget.total, clients.store_stats)


_sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Session] = (
    weakref.WeakKeyDictionary()
)
"""The one piece of module state (api.md): it dies with its loop."""


def current_session() -> Session:
    """Return the default session of the running event loop, made at first use."""
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None:
        # Not every loop that is over is collected: uvloop keeps those whose threads anyio used.
        for ended in [each for each in _sessions if each.is_closed()]:
            del _sessions[ended]
        session = _sessions[loop] = Session()
    return session
