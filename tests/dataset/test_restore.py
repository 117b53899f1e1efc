"""Restoring a version, and what the history says of changes."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import alance
from tests.dataset.helpers import ROOT, column_a, files, numbers

pytestmark = pytest.mark.anyio


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    """Versions 1 to 3 of three rows each."""
    ds = await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)
    ds = await ds.append(numbers(3, 6))
    return await ds.append(numbers(6, 9))


async def test_an_old_version_is_the_newest_again(dataset: alance.Dataset) -> None:
    old = await dataset.checkout(1)
    restored = await old.restore()
    assert restored.version == 4
    assert column_a(await restored.to_table()) == [0, 1, 2]
    assert column_a(await (await dataset.latest()).to_table()) == [0, 1, 2]
    assert column_a(await dataset.to_table()) == list(range(9)), "versions never change"
    again = await restored.append(numbers(9, 10))
    assert [fragment.id for fragment in again.fragments] == [0, 3], "no id is given twice"
    theirs = lance.dataset(dataset.uri)
    assert theirs.to_table()["a"].to_pylist() == [0, 1, 2, 9]
    assert theirs.checkout_version(4).to_table()["a"].to_pylist() == [0, 1, 2]


async def test_settings_come_back_too(dataset: alance.Dataset) -> None:
    with_config = await dataset.update_config({"k": "v"})
    await with_config.update_config({"k": "other"})
    restored = await with_config.restore()
    assert (restored.version, restored.config) == (6, {"k": "v"})
    assert lance.dataset(dataset.uri).config() == {"k": "v"}


async def test_the_reference_agrees(dataset: alance.Dataset) -> None:
    theirs = lance.dataset(dataset.uri, version=1)
    theirs.restore()
    first = await dataset.latest()
    ours = await (await dataset.checkout(1)).restore()
    kept = ("fragments", "max_fragment_id", "next_row_id", "config", "reader_flags", "writer_flags")
    for name in kept:
        assert getattr(first._manifest, name) == getattr(ours._manifest, name)
    told = [await dataset.read_transaction(version) for version in (4, 5)]
    assert [(one.operation, one.read_version) for one in told if one] == [
        ("Restore", 3),
        ("Restore", 4),
    ]
    theirs = lance.dataset(dataset.uri)
    assert [theirs.read_transaction(v).operation.version for v in (4, 5)] == [1, 1]


async def test_a_version_that_is_gone(dataset: alance.Dataset) -> None:
    old = await dataset.checkout(1)
    place = old._handle.places
    await place.client.delete(f"{place.root}/_versions/18446744073709551614.manifest")
    before = files(Path(dataset.uri))
    with pytest.raises(alance.VersionNotFoundError, match="no version 1"):
        await old.restore()
    assert files(Path(dataset.uri)) == before


async def test_history_says_who_did_what(dataset: alance.Dataset) -> None:
    props = {"__lance_commit_message": "more rows", "app": "töst"}
    ds = await dataset.append(numbers(9, 10), transaction_properties=props)
    told = await ds.read_transaction()
    assert told is not None
    assert (told.operation, told.read_version) == ("Append", 3)
    assert told.transaction_properties == props
    assert told.commit_message == "more rows"
    theirs = lance.dataset(dataset.uri)
    assert theirs.read_transaction(4).transaction_properties == props
    assert theirs.read_transaction(4).uuid == told.uuid
    first = await ds.read_transaction(1)
    assert first is not None
    assert (first.operation, first.read_version, first.commit_message) == ("Overwrite", 0, None)
    restored = await dataset.restore(transaction_properties={"__lance_commit_message": "oops"})
    told = await restored.read_transaction()
    assert told is not None
    assert told.commit_message == "oops"


async def test_we_read_the_history_of_the_reference(dataset: alance.Dataset) -> None:
    theirs = lance.write_dataset(
        numbers(9, 10), dataset.uri, mode="append", commit_message="by hand"
    )
    theirs.delete("a = 1")
    theirs.update_config({"a": "b"})
    told = [await dataset.read_transaction(version) for version in (4, 5, 6)]
    assert [one.operation for one in told if one] == ["Append", "Delete", "UpdateConfig"]
    assert told[0] is not None
    assert told[0].commit_message == "by hand"
    with pytest.raises(alance.VersionNotFoundError):
        await dataset.read_transaction(7)


@pytest.mark.parametrize("properties", [{"a": 1}, {1: "a"}, "text"])
async def test_bad_properties(dataset: alance.Dataset, properties: object) -> None:
    before = files(Path(dataset.uri))
    with pytest.raises(alance.InvalidInputError, match="transaction_properties must map text"):
        await dataset.restore(transaction_properties=properties)  # type: ignore[arg-type]
    assert files(Path(dataset.uri)) == before
