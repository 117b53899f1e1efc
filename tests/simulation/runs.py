"""One run from one number: writers, readers, faults and all their timing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from alance.table.handler import ConditionalPut
from alance.table.location import TableLocation
from tests.simulation.history import check
from tests.simulation.loop import run
from tests.simulation.network import Faults, Link
from tests.simulation.world import Fate, World
from tests.simulation.writer import Reader, Writer
from tests.table.samples import ROOT

__all__ = ["Outcome", "simulate"]

LOCATE = Callable[[Link], TableLocation]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went: enough to see that two runs of a seed are the same."""

    versions: int
    fates: tuple[tuple[str, Fate, int], ...]
    sightings: int
    killed: int
    merged: int
    """Deletion files of two changes in one; other ones are so short that they are Arrow files."""


def simulate(seed: int) -> Outcome:
    """Run everything that a seed stands for, and judge it."""
    return run(lambda: _simulate(random.Random(seed)))


async def _simulate(rng: random.Random) -> Outcome:
    world = World()
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


def locate(link: Link) -> TableLocation:
    """Return the simulated table, as a writer with this line sees it."""
    return TableLocation(link, ROOT, ConditionalPut())


async def _until_killed(link: Link, program: Coroutine[Any, Any, None]) -> None:
    """Run a program; whatever a dead one says is not heard."""
    try:
        await program
    except BaseException:
        if not link.is_dead:
            raise
