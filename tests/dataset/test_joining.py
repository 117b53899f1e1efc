"""Rows that Arrow cannot join into one array are written anyway, and say so when they are read."""

from __future__ import annotations

import pyarrow as pa
import pytest

import alance
from alance.testing.asserts import assert_same_table

pytestmark = pytest.mark.anyio

BYTE_CODES = pa.dictionary(pa.int8(), pa.string())


def coded(prefix: str) -> pa.Array:
    """A hundred strings with 8-bit codes: two such arrays need more codes than there are."""
    return pa.array([f"{prefix}{i}" for i in range(100)]).dictionary_encode().cast(BYTE_CODES)


async def test_dictionaries_with_too_many_items_together() -> None:
    table = pa.table({"c": pa.chunked_array([coded("a"), coded("b")])})
    ours = await alance.write_dataset(table, "memory://d", session=alance.Session())
    with pytest.raises(alance.UnsupportedFeatureError, match="fewer rows at once"):
        await ours.to_table()
    with pytest.raises(alance.UnsupportedFeatureError, match="fewer rows at once"):
        await ours.take([150, 0])
    for start in (0, 100):
        found = await ours.to_table(offset=start, limit=100)
        assert_same_table(found, table.slice(start, 100))


async def test_dictionaries_with_too_many_items_in_two_fragments() -> None:
    table = pa.table({"c": pa.chunked_array([coded("a"), coded("b")])})
    session = alance.Session()
    ours = await alance.write_dataset(table, "memory://d", max_rows_per_file=100, session=session)
    assert_same_table(await ours.to_table(), table)  # a chunk for each fragment
    with pytest.raises(alance.UnsupportedFeatureError, match="fewer rows at once"):
        await ours.take([150, 0])
    with pytest.raises(alance.UnsupportedFeatureError, match="fewer rows at once"):
        _ = [batch async for batch in ours.scan(batch_size=150)]


async def test_dictionaries_that_hold_nulls() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), [None, "x"])
    second = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), ["y", None])
    table = pa.table({"c": pa.chunked_array([first, second])})
    ours = await alance.write_dataset(table, "memory://d", session=alance.Session())
    assert_same_table(await ours.to_table(), table)
    rows = [5, 0, 2, 3, 4, 3]
    assert_same_table(await ours.take(rows), table, rows)


async def test_dictionaries_that_differ_from_themselves() -> None:
    """NaN is not equal to NaN, so Arrow takes two uses of one dictionary for two dictionaries."""
    codes = pa.array([0, 1, 2, 0])
    column = pa.DictionaryArray.from_arrays(codes, pa.array([1.5, float("nan"), None]))
    table = pa.table({"c": column})
    ours = await alance.write_dataset(table, "memory://d", session=alance.Session())
    assert_same_table(await ours.to_table(), table)
