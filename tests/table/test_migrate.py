"""From V1 names to V2 names, and back to work after a migration that was cut off."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError, StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.external import ManifestEntry
from alance.table.manifest import Naming
from alance.table.migrate import migrate_to_v2
from alance.table.naming import manifest_path
from alance.table.versions import list_stored_versions, read_manifest
from alance.table.wire import build_manifest
from tests.table.entries import StoreWithEntries
from tests.table.samples import ROOT, append, at, manifest, put

pytestmark = pytest.mark.anyio


def fill(store: SimulatedStore, num_versions: int) -> None:
    for version in range(1, num_versions + 1):
        value = manifest(version, naming=Naming.V1)
        store.preload(manifest_path(ROOT, version, Naming.V1), b"".join(build_manifest(value)))


async def test_every_manifest_is_renamed() -> None:
    store = SimulatedStore()
    fill(store, 20)
    assert await migrate_to_v2(at(store)) == 20
    found = await list_stored_versions(at(store))
    assert [(one.version, one.naming) for one in found] == [(i, Naming.V2) for i in range(1, 21)]
    assert len(store.objects) == 20
    base = await read_manifest(at(store))
    assert (await put(store, append(base, "x"), base)).naming is Naming.V2
    assert await migrate_to_v2(at(store)) == 0


async def test_a_migration_cut_off_anywhere_is_completed() -> None:
    for point in range(100):
        store = SimulatedStore()
        fill(store, 3)
        left = point

        async def fail(request: Request, moment: Moment) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise StoreTimeoutError("down", path=request.path)

        store.hook = fail
        with suppress(StoreTimeoutError):
            await migrate_to_v2(at(store))
        store.hook = None
        assert {_version(path) for path in store.objects} == {1, 2, 3}
        await migrate_to_v2(at(store))
        assert [one.version for one in await list_stored_versions(at(store))] == [1, 2, 3]
        if left >= 0:
            break
    assert 10 < point < 99


def _version(path: str) -> int:
    number = int(path.rpartition("/")[2].partition(".")[0])
    return number if number < 1 << 63 else (1 << 64) - 1 - number


async def test_half_a_migration_is_refused() -> None:
    store = SimulatedStore()
    fill(store, 2)
    data = store.objects[manifest_path(ROOT, 1, Naming.V1)]
    store.preload(manifest_path(ROOT, 1, Naming.V2), data)
    with pytest.raises(CorruptFileError, match="complete the migration"):
        await read_manifest(at(store))


async def test_entries_follow() -> None:
    store = StoreWithEntries()
    fill(store, 2)
    dataset = f"simulated://store/{ROOT}"
    for version in (1, 2):
        path = manifest_path(ROOT, version, Naming.V1)
        store.entries.entries[dataset, version] = ManifestEntry(version, path, 10)
    await migrate_to_v2(at(store))
    assert store.entries.entries[dataset, 2].path == manifest_path(ROOT, 2, Naming.V2)
    assert (await read_manifest(at(store))).naming is Naming.V2


async def test_a_dataset_of_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"i": [1]}), path, enable_v2_manifest_paths=False)
    ds = await alance.open_dataset(path)
    ds = await ds.append(pa.table({"i": [2]}))
    assert (path / "_versions" / "2.manifest").exists()
    ds = await ds.migrate_manifest_paths_v2()
    assert ds.version == 2
    names = sorted(one.name for one in (path / "_versions").glob("*.manifest"))
    assert names == [f"{(1 << 64) - 3}.manifest", f"{(1 << 64) - 2}.manifest"]
    ds = await ds.append(pa.table({"i": [3]}))
    assert lance.dataset(path).to_table()["i"].to_pylist() == [1, 2, 3]
    assert lance.dataset(path, version=1).count_rows() == 1
    assert await ds.migrate_manifest_paths_v2() is ds
