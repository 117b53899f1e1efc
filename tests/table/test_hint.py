"""The hint at the newest version: where the reference keeps it, and never in the way."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import StoreTimeoutError
from alance.io.simulated import Moment, Request, SimulatedStore
from tests.table.samples import ROOT, append, creation, put

pytestmark = pytest.mark.anyio

HINT = f"{ROOT}/_versions/latest_version_hint.json"


async def test_where_listings_come_sorted_there_is_none() -> None:
    store = SimulatedStore()
    await put(store, creation(), None)
    assert HINT not in store.objects


async def test_where_they_do_not_it_follows_each_commit() -> None:
    store = SimulatedStore(lists_in_order=False)
    base = await put(store, creation(), None)
    assert store.objects[HINT] == b'{"version":1}'
    await put(store, append(base, "x"), base)
    assert store.objects[HINT] == b'{"version":2}'


async def test_its_failure_is_no_failure_of_the_commit() -> None:
    store = SimulatedStore(lists_in_order=False)

    async def fail(request: Request, moment: Moment) -> None:
        if request.path == HINT:
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    assert (await put(store, creation(), None)).version == 1


async def test_the_reference_writes_the_same_bytes(tmp_path: Path) -> None:
    data = pa.table({"i": [1]})
    lance.write_dataset(data, tmp_path / "theirs.lance")
    ds = await alance.write_dataset(data, tmp_path / "ours.lance")
    ours, theirs = (
        (tmp_path / name / "_versions" / "latest_version_hint.json").read_bytes()
        for name in ("ours.lance", "theirs.lance")
    )
    assert ours == theirs
    await ds.append(data)
    hint = tmp_path / "ours.lance" / "_versions" / "latest_version_hint.json"
    assert json.loads(hint.read_bytes()) == {"version": 2}
    assert lance.dataset(ds.uri).version == 2
