"""Filters and projections computed here and by the reference implementation give the same rows."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance.errors import InvalidInputError
from alance.query import evaluate, filter_mask, parse_expression, parse_filter
from tests.query.filters import (
    DIFFERENT,
    EXPRESSIONS,
    REFUSED_BY_BOTH,
    REFUSED_ONLY_HERE,
    SAME,
)
from tests.query.samples import NUM_ROWS, table


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path: Path = tmp_path_factory.mktemp("differential") / "all.lance"
    return lance.write_dataset(table(), str(path))


@pytest.fixture(scope="module")
def stored(dataset: lance.LanceDataset) -> pa.RecordBatch:
    return dataset.to_table().combine_chunks().to_batches()[0]


def passing(sql: str, batch: pa.RecordBatch) -> list[int]:
    mask = filter_mask(parse_filter(sql, batch.schema), batch)
    assert len(mask) == batch.num_rows
    assert mask.null_count == 0
    rows: list[int] = batch.filter(mask)["id"].to_pylist()
    return rows


@pytest.mark.parametrize("sql", lines(SAME))
def test_same_rows_as_the_reference(
    sql: str, dataset: lance.LanceDataset, stored: pa.RecordBatch
) -> None:
    expected = dataset.to_table(columns=["id"], filter=sql)["id"].to_pylist()
    assert passing(sql, stored) == expected


@pytest.mark.parametrize("sql", DIFFERENT)
def test_deliberate_differences(
    sql: str, dataset: lance.LanceDataset, stored: pa.RecordBatch
) -> None:
    try:
        theirs = dataset.to_table(columns=["id"], filter=sql)["id"].to_pylist()
    except ValueError:
        theirs = None
    assert passing(sql, stored) == DIFFERENT[sql]
    assert theirs != DIFFERENT[sql], "no longer a difference: move it to SAME"


@pytest.mark.parametrize("sql", REFUSED_ONLY_HERE)
def test_refused_only_here(sql: str, stored: pa.RecordBatch) -> None:
    with pytest.raises(InvalidInputError):
        passing(sql, stored)


@pytest.mark.parametrize("sql", lines(REFUSED_BY_BOTH))
def test_refused_by_both(sql: str, dataset: lance.LanceDataset, stored: pa.RecordBatch) -> None:
    with pytest.raises(ValueError):
        dataset.to_table(columns=["id"], filter=sql)
    with pytest.raises(InvalidInputError):
        passing(sql, stored)


@pytest.mark.parametrize("sql", lines(EXPRESSIONS))
def test_projections_give_the_same_values_and_types(
    sql: str, dataset: lance.LanceDataset, stored: pa.RecordBatch
) -> None:
    expected = dataset.to_table(columns={"out": sql})["out"].combine_chunks()
    expression = parse_expression(sql, stored.schema)
    found = evaluate(expression, stored)
    assert found.type == expression.type == expected.type
    assert len(found) == NUM_ROWS
    assert str(found.to_pylist()) == str(expected.to_pylist())  # text, so that NaN equals NaN
