"""A store behind a network that delays, drops, repeats and delays again: each writer's own view."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from alance.errors import AlreadyExistsError, ObjectNotFoundError, StoreError, StoreTimeoutError
from alance.io.store import Data, ObjectInfo, Upload, buffers_of

__all__ = ["Disk", "Faults", "Link"]

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a request goes wrong, each a chance in [0, 1].

    Parameters
    ----------
    refused
        503: nothing happens.
    lost_answer
        All happens but the answer.
    late
        A timeout is reported, and the effect comes afterwards.
    repeated
        The first answer is lost and the request is sent again, as clients do below us.
    stale_list
        A listing shows what was there a while ago.
    killed
        The writer ends at this request, before or after its effect.
    """

    refused: float = 0.0
    lost_answer: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    stale_list: float = 0.0
    killed: float = 0.0


@dataclass(slots=True)
class Disk:
    """What the store holds, and what it held: changes by time, for stale listings."""

    honours_condition: bool = True
    objects: dict[str, bytes] = field(default_factory=dict)
    written_s: dict[str, float] = field(default_factory=dict)
    overwritten: list[str] = field(default_factory=list)
    """Paths of which one content was replaced by another."""

    def put(self, path: str, data: bytes, now_s: float) -> None:
        """Store an object, replacing what is there."""
        if self.objects.get(path, data) != data:
            self.overwritten.append(path)
        self.objects[path] = data
        self.written_s[path] = now_s

    def put_if_absent(self, path: str, data: bytes, now_s: float) -> None:
        """Store an object unless there is one; an unsafe store replaces it."""
        if path in self.objects and self.honours_condition:
            raise AlreadyExistsError(f"{path} exists", path=path)
        self.put(path, data, now_s)

    def get(self, path: str) -> bytes:
        """Content of an object."""
        if path not in self.objects:
            raise ObjectNotFoundError(f"no object at {path}", path=path)
        return self.objects[path]

    def info(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        modified = START + timedelta(seconds=self.written_s.get(path, 0.0))
        return ObjectInfo(path, len(self.get(path)), modified)

    def list(self, prefix: str, start_after: str | None, before_s: float) -> list[ObjectInfo]:
        """Objects below a folder that were there at a moment and still are."""
        folder = prefix.rstrip("/") + "/" if prefix else ""
        return [
            self.info(path)
            for path in sorted(self.objects)
            if path.startswith(folder)
            and (start_after is None or path > start_after)
            and self.written_s[path] <= before_s
        ]

    def delete(self, path: str) -> None:
        """Remove an object, if there is one."""
        self.objects.pop(path, None)
        self.written_s.pop(path, None)

    def copy(self, source: str, target: str, now_s: float) -> None:
        """Store an object's content under another name as well."""
        self.put(target, self.get(source), now_s)


class Link:
    """One writer's way to the disk: an `ObjectStore` with faults of its own.

    Parameters
    ----------
    disk
        Shared by all.
    rng
        This writer's.
    faults
        What may happen to its requests.
    """

    def __init__(self, disk: Disk, rng: random.Random, faults: Faults) -> None:
        self._disk = disk
        self._rng = rng
        self._faults = faults
        self.is_dead = False

    @property
    def url(self) -> str:
        """A scheme of its own."""
        return "simulated://store"

    @property
    def lists_in_order(self) -> bool:
        """As S3 does."""
        return True

    @property
    def request_cost_bytes(self) -> int:
        """As for a remote store."""
        return 1 << 20

    async def get_range(self, path: str, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of an object."""
        data = await self._send(lambda: self._disk.get(path), path)
        if stop > len(data):
            raise StoreError(f"{path} has {len(data)} bytes, not {stop}", path=path)
        return memoryview(data)[start:stop]

    async def get_tail(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        """The last bytes of an object and its size."""
        data = await self._send(lambda: self._disk.get(path), path)
        return memoryview(data)[max(0, len(data) - num_bytes) :], len(data)

    async def head(self, path: str) -> ObjectInfo:
        """Size and time of an object."""
        return await self._send(lambda: self._disk.info(path), path)

    async def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None
    ) -> Sequence[ObjectInfo]:
        """Objects below a folder, perhaps as they were a while ago."""
        is_stale = self._rng.random() < self._faults.stale_list
        age_s = self._rng.random() * 2.0 if is_stale else 0.0
        found = await self._send(
            lambda: self._disk.list(prefix, start_after, self._now_s() - age_s), prefix
        )
        return found[:limit]

    async def put(self, path: str, data: Data) -> None:
        """Write a whole object."""
        whole = b"".join(buffers_of(data))
        await self._send(lambda: self._disk.put(path, whole, self._now_s()), path)

    async def put_if_absent(self, path: str, data: Data) -> None:
        """Write a whole object unless one exists."""
        whole = b"".join(buffers_of(data))
        await self._send(lambda: self._disk.put_if_absent(path, whole, self._now_s()), path)

    async def copy(self, source: str, target: str) -> None:
        """Store an object's content under another name as well."""
        await self._send(lambda: self._disk.copy(source, target, self._now_s()), source)

    async def delete(self, path: str) -> None:
        """Remove an object."""
        await self._send(lambda: self._disk.delete(path), path)

    async def delete_many(self, paths: Sequence[str]) -> None:
        """Remove objects, one request each."""
        for path in paths:
            await self.delete(path)

    async def open_upload(self, path: str) -> Upload:
        """Not used by what is simulated."""
        raise NotImplementedError(path)

    async def call(self, effect: Callable[[], T], name: str) -> T:
        """Send a request to something else than the disk over the same line."""
        return await self._send(effect, name)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _send(self, effect: Callable[[], T], path: str) -> T:
        """One request: time passes, and by chance something goes wrong."""
        chance, faults = self._rng.random(), self._faults
        await self._travel()
        if (chance := chance - faults.killed) < 0:
            if self._rng.random() < 0.5:
                _quietly(effect)
            self.is_dead = True
            raise asyncio.CancelledError
        if (chance := chance - faults.refused) < 0:
            raise StoreError("503 slow down", path=path)
        if (chance := chance - faults.late) < 0:
            loop = asyncio.get_running_loop()
            loop.call_later(self._rng.random() * 3.0, _quietly, effect)
            await self._travel()
            raise StoreTimeoutError("no answer", path=path)
        answer = effect()
        if (chance := chance - faults.repeated) < 0:
            answer = effect()
        await self._travel()
        if chance - faults.lost_answer < 0:
            raise StoreTimeoutError("no answer", path=path)
        return answer

    async def _travel(self) -> None:
        if self.is_dead:
            raise asyncio.CancelledError
        await asyncio.sleep(self._rng.expovariate(10.0))
        if self.is_dead:
            raise asyncio.CancelledError


def _quietly(effect: Callable[[], object]) -> None:
    """Let a request arrive for which nobody waits any more."""
    try:
        effect()
    except (AlreadyExistsError, ObjectNotFoundError):
        return
