"""Datasets and branches that were removed and made anew under the eyes of a handle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import alance
from tests.dataset.helpers import ROOT, column_a, files, numbers

pytestmark = pytest.mark.anyio


async def stale(place: Path) -> alance.Dataset:
    """A handle at version 3 of a dataset that has been replaced by another of one version."""
    ds = await alance.write_dataset(numbers(0, 3), place)
    ds = await (await ds.append(numbers(3, 4))).append(numbers(4, 5))
    shutil.rmtree(place)
    await alance.write_dataset(numbers(7, 8), place, session=alance.Session())
    return ds


CHANGES: dict[str, Callable[[alance.Dataset], Coroutine[Any, Any, alance.Dataset]]] = {
    "append": lambda ds: ds.append(numbers(5, 6)),
    "overwrite": lambda ds: ds.overwrite(numbers(5, 6)),
    "delete nothing": lambda ds: ds.delete("false"),
    "update_config": lambda ds: ds.update_config({"a": "b"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_changes_are_refused(
    tmp_path: Path, change: Callable[[alance.Dataset], Coroutine[Any, Any, alance.Dataset]]
) -> None:
    ds = await stale(tmp_path / ROOT)
    before = files(tmp_path)
    with pytest.raises(alance.CommitConflictError, match="newest version is 1") as caught:
        await change(ds)
    assert (caught.value.read_version, caught.value.version) == (3, 1)
    assert files(tmp_path) == before
    found = await change(await ds.latest())
    assert found.version == 2


async def test_the_newest_is_that_of_the_new_one(tmp_path: Path) -> None:
    ds = await (await stale(tmp_path / ROOT)).latest()
    assert (ds.version, column_a(await ds.to_table())) == (1, [7])


async def test_a_branch(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    old = await (await ds.branches.create("x")).append(numbers(3, 4))
    await ds.branches.delete("x")
    await ds.branches.create("x")
    with pytest.raises(alance.CommitConflictError, match="removed and made anew"):
        await old.append(numbers(4, 5))
    branch = await (await old.latest()).append(numbers(4, 5))
    assert column_a(await branch.to_table()) == [0, 1, 2, 4]
