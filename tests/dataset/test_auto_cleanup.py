"""Cleanups that the settings of a table ask for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import alance
from alance.dataset.auto_cleanup import auto_policy, parse_duration
from alance.table.cleanup import CleanupPolicy
from tests.dataset.helpers import ROOT, column_a, data_files, numbers

pytestmark = pytest.mark.anyio


def settings(**values: str) -> dict[str, str]:
    return {f"lance.auto_cleanup.{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    "values",
    [
        {"interval": "3", "older_than": "0s"},
        {"interval": "1", "older_than": "0s"},
        {"interval": "0", "older_than": "0s"},
        {"interval": "2", "retain_versions": "2"},
        {"interval": "3", "older_than": "0s", "retain_versions": "4"},
        {"interval": "2", "older_than": "1h 30m"},
        {"older_than": "0s"},
    ],
)
async def test_the_reference_cleans_up_after_the_same_commits(
    tmp_path: Path, values: dict[str, str]
) -> None:
    ours = await alance.write_dataset(numbers(0, 1), tmp_path / "ours")
    ours = await ours.update_config(settings(**values))
    theirs = lance.write_dataset(numbers(0, 1), tmp_path / "theirs")
    theirs.update_config(settings(**values))
    for i in range(7):
        ours = await ours.append(numbers(i, i + 1))
        theirs = lance.write_dataset(numbers(i, i + 1), theirs, mode="append")
        found = [one["version"] for one in await ours.versions()]
        assert found == [one["version"] for one in theirs.versions()]
    assert await ours.count_rows() == 8


async def test_after_all_kinds_of_changes(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 9), tmp_path / ROOT)
    ds = await ds.update_config(settings(interval="1", older_than="0s"))
    changes: list[Callable[[alance.Dataset], Awaitable[alance.Dataset]]] = [
        lambda ds: ds.append(numbers(9, 10)),
        lambda ds: ds.overwrite(numbers(0, 9)),
        lambda ds: ds.delete("a = 3"),
        lambda ds: ds.update_metadata({"a": "b"}),
    ]
    for change in changes:
        ds = await change(ds)
        versions = [one["version"] for one in await ds.versions()]
        assert versions == [ds.version - 1, ds.version]
    again = await alance.write_dataset(numbers(0, 1), ds.uri, mode="append")
    assert len(await again.versions()) == 2


async def test_tagged_versions_stay(tmp_path: Path) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    await ds.tags.create("first")
    ds = await ds.update_config(settings(interval="1", older_than="0s"))
    ds = await (await ds.append(numbers(1, 2))).append(numbers(2, 3))
    assert [one["version"] for one in await ds.versions()] == [1, 3, 4]


async def test_a_slow_append_is_not_lost(tmp_path: Path) -> None:
    """Its number is taken and freed while its data is on the way."""
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    ds = await ds.update_config(settings(interval="1", retain_versions="1"))

    async def slow() -> AsyncIterator[pa.RecordBatch]:
        other = await alance.open_dataset(ds.uri, session=alance.Session())
        for i in range(1, 5):
            other = await other.append(numbers(i, i + 1))
        yield numbers(5, 6).to_batches()[0]

    with pytest.raises(alance.RetryableCommitError, match=r"version 3 .* cleaned up"):
        await alance.write_dataset(slow(), ds.uri, mode="append", schema=ds.schema)
    newest = await ds.latest()
    assert column_a(await newest.to_table()) == [0, 1, 2, 3, 4]
    assert [one["version"] for one in await ds.versions()] == [5, 6]
    assert len(data_files(tmp_path / ROOT)) == 5


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"interval": "x"}, "interval must be a whole number, not 'x'"),
        ({"interval": "1", "older_than": "soon"}, "'soon' is no duration"),
        ({"interval": "1", "retain_versions": "0"}, "retain_versions must be"),
        ({"interval": "1", "retain_versions": "-1"}, "retain_versions must be"),
    ],
)
async def test_the_commit_stands_whatever_the_settings_say(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, values: dict[str, str], says: str
) -> None:
    ds = await alance.write_dataset(numbers(0, 1), tmp_path / ROOT)
    with caplog.at_level(logging.WARNING, "alance"):
        ds = await ds.update_config(settings(**values))
    assert says in caplog.text
    assert [one["version"] for one in await ds.versions()] == [1, 2]


def test_policies() -> None:
    assert auto_policy({}, 4) is None
    assert auto_policy(settings(interval="3"), 4) is None
    lenient = CleanupPolicy(error_if_tagged=False)
    assert auto_policy(settings(interval="4"), 4) == lenient
    assert lenient.age == timedelta(days=14), "the reference would keep nothing"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0s", timedelta(0)),
        ("14d", timedelta(days=14)),
        ("1h 30m", timedelta(minutes=90)),
        ("2weeks1day", timedelta(days=15)),
        (" 5 min ", timedelta(minutes=5)),
        ("500ms", timedelta(milliseconds=500)),
    ],
)
def test_durations(text: str, found: timedelta) -> None:
    assert parse_duration(text) == found


@pytest.mark.parametrize(
    "text", ["", "d", "14", "1x", "-1d", "1.5h", "1d,2h", "9" * 40 + "d", "999999999y"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(alance.InvalidInputError, match="duration"):
        parse_duration(text)
