"""Settings and metadata: changed by this library and by the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest

import alance
from tests.dataset.helpers import ROOT, files, numbers

pytestmark = pytest.mark.anyio


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(numbers(0, 3), tmp_path / ROOT)


async def test_config(dataset: alance.Dataset) -> None:
    ds = await dataset.update_config({"a": "1", "b": "2"})
    assert (ds.version, ds.config) == (2, {"a": "1", "b": "2"})
    ds = await ds.update_config({"a": None, "c": "3", "never": None})
    assert ds.config == {"b": "2", "c": "3"} == lance.dataset(ds.uri).config()
    ds = await ds.update_config({"d": "4", "e": None}, replace=True)
    assert ds.config == {"d": "4"} == lance.dataset(ds.uri).config()
    theirs = lance.dataset(ds.uri)
    theirs.update_config({"d": None, "f": "6"})
    assert (await ds.latest()).config == {"f": "6"}
    assert dataset.config == {}, "versions never change"


async def test_metadata(dataset: alance.Dataset) -> None:
    ds = await dataset.update_metadata({"who": "me", "größe": "ü"})
    ds = await ds.update_schema_metadata({"s": "t"})
    ds = await ds.update_field_metadata({"a": {"x": "y"}, "p.x": {"in": "side"}})
    assert ds.metadata == {"who": "me", "größe": "ü"} == lance.dataset(ds.uri).metadata
    schema = lance.dataset(ds.uri).schema
    assert ds.schema.equals(schema, check_metadata=True)
    assert schema.metadata == {b"s": b"t"}
    assert schema.field("a").metadata == {b"x": b"y"}
    assert schema.field("p").type.field("x").metadata == {b"in": b"side"}
    ds = await ds.update_field_metadata({"a": {"x": None}, "p.x": {"n": "ew"}}, replace=True)
    ds = await ds.update_schema_metadata({"s": None})
    ds = await ds.update_metadata({"only": "this"}, replace=True)
    schema = lance.dataset(ds.uri).schema
    assert ds.schema.equals(schema, check_metadata=True)
    assert (ds.metadata, schema.metadata) == ({"only": "this"}, None)
    assert schema.field("a").metadata is None
    assert schema.field("p").type.field("x").metadata == {b"n": b"ew"}


async def test_both_write_the_same_history(dataset: alance.Dataset, tmp_path: Path) -> None:
    theirs = lance.write_dataset(numbers(0, 3), tmp_path / "theirs.lance")
    ds = dataset
    for method, values in (
        ("update_config", {"a": "1"}),
        ("update_config", {"a": None}),
        ("update_metadata", {"a": "1"}),
        ("update_schema_metadata", {"a": "1"}),
        ("update_field_metadata", {"p.x": {"a": "1"}}),
    ):
        for more in ({}, {"replace": True}):
            ds = await getattr(ds, method)(values, **more)
            getattr(theirs, method)(values, **more)
    mine = lance.dataset(ds.uri)
    assert mine.config() == theirs.config()
    assert mine.metadata == theirs.metadata
    assert mine.schema.equals(theirs.schema, check_metadata=True)
    for version in range(2, 12):
        one, two = (each.read_transaction(version).operation for each in (mine, theirs))
        assert repr(one) == repr(two)


async def test_changes_of_other_keys_go_together(dataset: alance.Dataset) -> None:
    await dataset.update_config({"a": "1"})
    ds = await dataset.update_config({"b": "2"})
    assert (ds.version, ds.config) == (3, {"a": "1", "b": "2"})
    with pytest.raises(alance.CommitConflictError, match="UpdateConfig"):
        await dataset.update_config({"a": "3"})
    assert (await ds.latest()).version == 3


@pytest.mark.parametrize(
    ("method", "values", "says"),
    [
        ("update_config", {"a": 1}, "values must map text to text or None, not 'a' to 1"),
        ("update_config", {1: "a"}, "values must map text"),
        ("update_config", {"a": "\ud800"}, "values must map text"),
        ("update_config", {"\ud800": None}, "values must map text"),
        ("update_metadata", ["a"], "values must map text to text or None, not be"),
        ("update_schema_metadata", {"a": b"b"}, "values must map text"),
        ("update_field_metadata", {"a": {"b": 1}}, "the values of field 'a' must map text"),
        ("update_field_metadata", {"a": "b"}, "the values of field 'a' must map text"),
        ("update_field_metadata", {"nope": {"b": "c"}}, "nope"),
        ("update_field_metadata", {"p.nope": {"b": "c"}}, "p.nope"),
        ("update_field_metadata", {1: {"b": "c"}}, "a field is given by its name, not by 1"),
        ("update_field_metadata", "a", "field_updates must map"),
    ],
)
async def test_bad_arguments(dataset: alance.Dataset, method: str, values: Any, says: str) -> None:
    before = files(Path(dataset.uri))
    with pytest.raises(alance.InvalidInputError, match=says):
        await getattr(dataset, method)(values)
    assert files(Path(dataset.uri)) == before
