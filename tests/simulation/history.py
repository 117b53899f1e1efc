"""The judge: replays a table's history against what its writers meant."""

from __future__ import annotations

from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.transactions import read_transaction
from alance.table.versions import list_stored_versions, read_manifest
from tests.simulation.world import Add, Clear, Fate, Keep, Remove, Return, Row, World
from tests.simulation.writer import live_rows

__all__ = ["check"]


async def check(world: World, table: TableLocation) -> list[Manifest]:
    """Assert what must hold after every run, through a line without faults.

    Versions form one line; every acknowledged change is in it exactly once, where its writer was
    told, and no change that was reported lost; each version has exactly the rows that the changes
    up to it leave, with every file it refers to; and what readers saw was one of these versions.

    Returns
    -------
    list of Manifest
        All versions, oldest first.
    """
    versions = [stored.version for stored in await list_stored_versions(table)]
    assert versions == list(range(1, len(versions) + 1)), "versions are missing"
    manifests = [await read_manifest(table, version) for version in versions]
    landed: dict[str, int] = {}
    states: list[frozenset[Row]] = [frozenset()]
    settings: list[dict[str, str]] = [{}]
    for manifest in manifests:
        transaction = await read_transaction(table, manifest)
        assert transaction is not None, f"version {manifest.version} does not say what it did"
        assert transaction.uuid not in landed, f"{transaction.uuid} landed twice"
        landed[transaction.uuid] = manifest.version
        rows, config = _after(world, transaction.uuid, states, settings)
        found = await live_rows(world, table, manifest)
        assert len(set(found)) == len(found), f"version {manifest.version} has a row twice"
        assert frozenset(found) == rows, f"rows of version {manifest.version}"
        assert dict(manifest.config) == config, f"settings of version {manifest.version}"
        states.append(rows)
        settings.append(config)
    for uuid, (fate, version) in world.told.items():
        if fate is Fate.LANDED:
            assert landed.get(uuid) == version, f"{uuid} was acknowledged as version {version}"
        elif fate is Fate.LOST:
            assert uuid not in landed, f"{uuid} was reported lost"
    for sighting in world.sightings:
        assert sighting.rows == states[sighting.version], f"a reader of {sighting.version}"
    assert not [path for path in world.disk.overwritten if "_versions" in path]
    return manifests


def _after(
    world: World, uuid: str, states: list[frozenset[Row]], settings: list[dict[str, str]]
) -> tuple[frozenset[Row], dict[str, str]]:
    """Rows and settings that a change leaves behind."""
    rows, config = states[-1], settings[-1]
    match world.intents[uuid]:
        case Add(added):
            assert not added & rows
            rows |= added
        case Remove(removed):
            assert removed <= rows, f"{uuid} deletes rows that were gone already"
            rows -= removed
        case Clear(added):
            rows = added
        case Return(version):
            rows, config = states[version], settings[version]
        case Keep(changed):
            config = {**config, **changed}
    return rows, config
