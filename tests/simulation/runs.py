"""One run from one number: writers, readers, faults and all their timing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from alance.table.external import ExternalHandler
from alance.table.handler import ConditionalPut
from alance.table.location import TableLocation
from alance.table.probe import ProbedPut
from tests.simulation.entries import Entries, Records
from tests.simulation.history import check
from tests.simulation.loop import run
from tests.simulation.network import Disk, Faults, Link
from tests.simulation.world import Fate, World
from tests.simulation.writer import Reader, Writer
from tests.table.samples import ROOT

__all__ = ["Guard", "Outcome", "simulate"]

Locate: TypeAlias = Callable[[Link], TableLocation]


class Guard(Enum):
    """Who sees to it that a version is made once."""

    CONDITION = "conditional puts"
    PROBED = "conditional puts, once the store was seen to honour them"
    EXTERNAL = "an external manifest store; the object store ignores conditions"
    NOBODY = "conditional puts that the store ignores"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went: enough to see that two runs of a seed are the same."""

    versions: int
    fates: tuple[tuple[str, Fate, int], ...]
    sightings: int
    killed: int
    merged: int
    """Deletion files of two changes in one; other ones are so short that they are Arrow files."""


def simulate(seed: int, guard: Guard | None = None) -> Outcome:
    """Run everything that a seed stands for, and judge it.

    Parameters
    ----------
    seed
        Of all chances.
    guard
        None leaves that to the seed as well, among those that are safe.
    """
    rng = random.Random(seed)
    safe = (Guard.CONDITION, Guard.CONDITION, Guard.PROBED, Guard.EXTERNAL)
    chosen = rng.choice(safe)
    return run(lambda: _simulate(rng, guard or chosen))


async def _simulate(rng: random.Random, guard: Guard) -> Outcome:
    world = World(Disk(honours_condition=guard in (Guard.CONDITION, Guard.PROBED)))
    locate = partial(_locate, guard, {})
    safe = Link(world.disk, random.Random(rng.random()), Faults())
    await Writer(world, "first", safe, locate(safe), rng).create()
    # Each run has its own weather: mostly one or two kinds of trouble, sometimes all.
    refused, lost, late, repeated, stale = (rng.choice((0.0, 0.0, 0.02, 0.1)) for _ in range(5))
    faults = Faults(refused, lost, late, repeated, stale, killed=rng.choice((0.0, 0.01)))
    links: list[Link] = []
    async with asyncio.TaskGroup() as tasks:
        for i in range(rng.randint(2, 5)):
            link = Link(world.disk, random.Random(rng.random()), faults)
            mine = random.Random(rng.random())
            links.append(link)
            writer = Writer(world, f"w{i}", link, locate(link), mine)
            tasks.create_task(_until_killed(link, writer.run(rng.randint(2, 6))))
        link = Link(world.disk, random.Random(rng.random()), faults)
        reader = Reader(world, locate(link), random.Random(rng.random()))
        tasks.create_task(_until_killed(link, reader.run(5)))
    await asyncio.sleep(10.0)  # what is still on its way arrives
    manifests = await check(world, locate(safe))
    fates = tuple((uuid, fate, version) for uuid, (fate, version) in world.told.items())
    killed = sum(link.is_dead for link in links)
    merged = sum(path.endswith(".bin") for path in world.disk.objects)
    return Outcome(len(manifests), fates, len(world.sightings), killed, merged)


def _locate(guard: Guard, records: Records, link: Link) -> TableLocation:
    """Return the simulated table, as a writer with this line sees it."""
    if guard is Guard.EXTERNAL:
        return TableLocation(link, ROOT, ExternalHandler(Entries(link, records)))
    return TableLocation(link, ROOT, ProbedPut() if guard is Guard.PROBED else ConditionalPut())


async def _until_killed(link: Link, program: Coroutine[Any, Any, None]) -> None:
    """Run a program; whatever a dead one says is not heard."""
    try:
        await program
    except BaseException:
        if not link.is_dead:
            raise
