from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import alance.spark
import alance.sync
from alance.errors import DatasetNotFoundError, InvalidInputError, VersionNotFoundError
from alance.spark.reader import (
    PARTITION_ROWS_MAX,
    PARTITION_ROWS_MIN,
    Slice,
    plan_partitions,
)

FRAGMENTS = st.lists(st.integers(0, 3 * PARTITION_ROWS_MAX), max_size=30).map(
    lambda sizes: [(7 * i, size) for i, size in enumerate(sizes)]
)


@given(fragments=FRAGMENTS, num_cores=st.integers(1, 64), split=st.booleans())
def test_partitions_hold_each_row_once_and_in_order(
    fragments: list[tuple[int, int]], num_cores: int, split: bool
) -> None:
    partitions = plan_partitions(fragments, num_cores=num_cores, split=split)
    assert all(partitions)
    pieces = [piece for partition in partitions for piece in partition]
    expected = [size for size in fragments if size[1]]
    joined: list[tuple[int, int]] = []
    for piece in pieces:
        if joined and joined[-1][0] == piece.fragment_id:
            assert joined[-1][1] == piece.start
            joined[-1] = (piece.fragment_id, piece.stop)
        else:
            assert piece.start == 0
            joined.append((piece.fragment_id, piece.stop))
    assert joined == expected
    if split:
        assert all(sum(p.stop - p.start for p in rows) <= PARTITION_ROWS_MAX for rows in partitions)
    else:
        assert len(pieces) == len(expected)


def test_small_fragments_are_grouped() -> None:
    fragments = [(i, 1000) for i in range(300)]
    partitions = plan_partitions(fragments, num_cores=64, split=True)
    assert [len(rows) for rows in partitions] == [131, 131, 38]


def test_a_large_fragment_is_split_where_cores_would_idle() -> None:
    partitions = plan_partitions([(3, 1_000_000)], num_cores=2, split=True)
    assert len(partitions) == 8
    assert partitions[0] == (Slice(3, 0, 125_000),)
    assert len(plan_partitions([(3, 1_000_000)], num_cores=2, split=False)) == 1


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two versions: 6 rows in 2 fragments, then 2 rows more."""
    uri = str(tmp_path / "numbers.lance")
    table = pa.table({"n": pa.array(range(6), pa.int32()), "text": ["a", None, "c", "d", "e", ""]})
    alance.sync.write_dataset(table, uri, max_rows_per_file=3)
    alance.sync.write_dataset(table.slice(4), uri, mode="append")
    return uri


@pytest.mark.spark
@pytest.mark.slow
def test_read_projection_and_filter(spark: SparkSession, uri: str) -> None:
    frame = alance.spark.read(spark, uri)
    assert frame.columns == ["n", "text"]
    assert [row.n for row in frame.collect()] == [0, 1, 2, 3, 4, 5, 4, 5]
    frame = alance.spark.read(spark, uri, columns=["text"], filter="n > 3 and text <> ''")
    assert [row.asDict() for row in frame.collect()] == [{"text": "e"}, {"text": "e"}]
    frame = alance.spark.read(spark, uri, columns={"twice": "n * 2"}, filter="text is null")
    assert [row.twice for row in frame.collect()] == [2]


@pytest.mark.spark
@pytest.mark.slow
def test_the_version_is_pinned_when_read_is_called(spark: SparkSession, uri: str) -> None:
    latest = alance.spark.read(spark, uri)
    first = alance.spark.read(spark, uri, version=1)
    alance.sync.write_dataset(pa.table({"n": pa.array([9], pa.int32())}), uri, mode="overwrite")
    assert latest.count() == 8
    assert first.count() == 6
    assert alance.spark.read(spark, uri).count() == 1


@pytest.mark.spark
@pytest.mark.slow
def test_slices_of_one_fragment_are_read_once_each(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "large.lance")
    num_rows = PARTITION_ROWS_MIN + 3
    alance.sync.write_dataset(pa.table({"n": pa.array(range(num_rows), pa.int32())}), uri)
    frame = alance.spark.read(spark, uri)
    assert frame.rdd.getNumPartitions() == 2
    assert [row.n for row in frame.collect()] == list(range(num_rows))


@pytest.mark.spark
@pytest.mark.slow
def test_wrong_calls_fail_on_the_driver(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        alance.spark.read(spark, tmp_path / "none.lance")
    with pytest.raises(VersionNotFoundError):
        alance.spark.read(spark, uri, version=7)
    with pytest.raises(InvalidInputError, match="nope"):
        alance.spark.read(spark, uri, columns=["nope"])
    with pytest.raises(InvalidInputError, match="nope"):
        alance.spark.read(spark, uri, filter="nope = 1")
    other = tmp_path / "unsigned.lance"
    alance.sync.write_dataset(pa.table({"u": pa.array([1], pa.uint16())}), other)
    with pytest.raises(InvalidInputError, match="column 'u' has the Arrow type uint16"):
        alance.spark.read(spark, other)


@pytest.mark.spark
@pytest.mark.slow
def test_credentials_stay_out_of_plans(
    spark: SparkSession, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = alance.spark.read(spark, uri, storage_options={"aws_secret_access_key": "hush-hush"})
    frame.explain(extended=True)
    assert "read_partition" in (plan := capsys.readouterr().out)
    assert "hush-hush" not in plan
