"""How many requests calls send, in how many rounds: what makes them fast on object stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.dataset.writing import WriteLimits
from alance.io.simulated import SimulatedStore
from alance.receipts import one_call
from alance.testing.s3 import S3Server
from tests.dataset.helpers import ROOT, numbers, open_on, write_on

pytestmark = pytest.mark.anyio

ROWS_PER_FILE = 300_000
INDICES = [7, 299_999, 300_000, 450_000, 599_999, 600_001, 777_777, 900_000, 1_000_000, 1_199_999]


def large() -> pa.Table:
    """Four fragments' worth of values that do not compress: 2.4 MB a fragment and column."""
    values = np.random.default_rng(5).integers(0, 1 << 63, (2, 4 * ROWS_PER_FILE))
    return pa.table({"a": values[0], "b": values[1]})


LARGE = large()


@dataclass(frozen=True)
class Place:
    """Where the data lies, with a fresh session for every look at it."""

    uri: str
    storage_options: dict[str, str]

    async def open(self, **more: Any) -> alance.Dataset:
        return await alance.open_dataset(
            self.uri, storage_options=self.storage_options, session=alance.Session(), **more
        )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def place(s3_server: S3Server) -> Place:
    """A dataset of four large fragments in S3."""
    found = Place("s3://bucket/requests.lance", s3_server.storage_options)
    await alance.write_dataset(
        LARGE,
        found.uri,
        max_rows_per_file=ROWS_PER_FILE,
        storage_options=found.storage_options,
        mode="overwrite",
    )
    return found


async def test_open_takes_two_rounds(place: Place) -> None:
    with alance.receipt() as spent:
        await place.open()
    assert (spent.requests, spent.rounds) == ({"list": 1, "get": 1}, 2)


async def test_open_of_a_known_version_takes_one(place: Place) -> None:
    with alance.receipt() as spent:
        await place.open(version=1)
    assert (spent.requests, spent.rounds) == ({"get": 1}, 1)


async def test_attributes_and_counts_take_none(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        assert await ds.count_rows() == len(LARGE)
        assert ds.schema == LARGE.schema
        ds.scan(filter="a > 5").explain()
        assert (await ds.take([])).num_rows == 0
    assert (spent.num_requests, spent.rounds) == (0, 0)


async def test_a_cold_take_of_ten_rows_takes_two_rounds(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        found = await ds.take(INDICES, ["a"])
    assert found.equals(LARGE.take(INDICES).select(["a"]))
    assert spent.rounds == 2
    assert spent.requests["get"] <= 4 + len(INDICES)
    assert spent.bytes_fetched < 4 * 80_000 + len(INDICES) * 40_000


async def test_a_warm_take_takes_one_round(place: Place) -> None:
    ds = await place.open()
    await ds.take(INDICES, ["a"])
    with alance.receipt() as spent:
        assert (await ds.take(INDICES, ["a"])).equals(LARGE.take(INDICES).select(["a"]))
    assert spent.rounds == 1
    assert spent.requests["get"] <= len(INDICES)
    assert spent.bytes_fetched < len(INDICES) * 40_000


async def test_a_cold_take_of_all_columns_takes_two_rounds_as_well(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        assert (await ds.take(INDICES)).equals(LARGE.take(INDICES))
    assert spent.rounds == 2
    assert spent.requests["get"] <= 4 + 2 * len(INDICES)


async def test_a_thousand_takes_at_once_share_requests(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        async with anyio.create_task_group() as tg:
            for i in range(1000):
                tg.start_soon(ds.take, [600_000 + i * 20], ["a"])
    assert spent.requests["get"] <= 4
    assert spent.rounds == 2


async def test_a_head_reads_little(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        assert (await ds.head(10)).equals(LARGE.slice(0, 10))
    assert (spent.requests, spent.rounds) == ({"get": 3}, 2)
    assert spent.bytes_fetched < 200_000


async def test_a_scan_reads_only_its_columns(place: Place) -> None:
    ds = await place.open()
    with alance.receipt() as spent:
        assert (await ds.to_table(["b"])).equals(LARGE.select(["b"]))
    assert spent.rounds == 2
    assert spent.requests["get"] <= 4 * 3
    stored = sum(file.file_size_bytes for f in ds.fragments for file in f.files)
    assert spent.bytes_fetched < 0.6 * stored


async def test_latest_takes_one_round_when_nothing_or_one_version_is_new(
    s3_server: S3Server,
) -> None:
    options = s3_server.storage_options
    ds = await alance.write_dataset(
        numbers(0, 5), "s3://bucket/latest.lance", storage_options=options, mode="overwrite"
    )
    with alance.receipt() as spent:
        assert await ds.latest() is ds
    assert (spent.num_requests, spent.rounds) == (2, 1)
    await ds.append(numbers(5, 6))
    with alance.receipt() as spent:
        assert (await ds.latest()).version == ds.version + 1
    assert (spent.num_requests, spent.rounds) == (2, 1)
    with alance.receipt() as spent:
        assert (await ds.checkout(ds.version)).version == ds.version
    assert (spent.num_requests, spent.rounds) == (1, 1)


async def test_an_append_is_a_look_a_file_and_a_commit(s3_server: S3Server) -> None:
    options = s3_server.storage_options
    ds = await alance.write_dataset(
        numbers(0, 5), "s3://bucket/append.lance", storage_options=options, mode="overwrite"
    )
    with alance.receipt() as spent:
        await alance.write_dataset(numbers(5, 6), ds.uri, mode="append", storage_options=options)
    assert spent.requests == {"list": 1, "get": 1, "put": 3}
    assert spent.rounds == 4


async def test_a_warm_delete_is_a_scan_beside_a_look_then_two_rounds(place: Place) -> None:
    uri, options = "s3://bucket/delete.lance", place.storage_options
    ds = await alance.write_dataset(
        LARGE, uri, max_rows_per_file=ROWS_PER_FILE, storage_options=options, mode="overwrite"
    )
    await ds.take([0, 300_000, 600_000, 900_000], ["a"])
    found = (await ds.take(INDICES[:4], ["a"]))["a"].to_pylist()
    with alance.receipt() as spent:
        after = await ds.delete(f"a in ({', '.join(map(str, found))})")
    assert await after.count_rows() == len(LARGE) - 4
    assert spent.rounds == 1 + 1 + 1
    assert (spent.requests["list"], spent.requests["put"]) == (1, 2 + 2)
    stored = sum(file.file_size_bytes for f in ds.fragments for file in f.files)
    assert spent.bytes_fetched < 0.6 * stored, "of one column"
    more = (await ds.take([10, 310_000, 610_000, 910_000], ["a"]))["a"].to_pylist()
    cold = await Place(uri, options).open()
    with alance.receipt() as spent:
        await cold.delete(f"a in ({', '.join(map(str, more))})")
    assert spent.rounds == 2 + 1 + 1, "deletion files come with the tails"


async def test_a_first_commit_to_an_unknown_endpoint_probes_it_in_no_round_of_its_own(
    s3_server: S3Server,
) -> None:
    """Two puts beside the data file, a delete beside the manifest."""
    options = s3_server.storage_options
    uri = "s3://bucket/probed.lance"
    await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    session = alance.Session()
    with alance.receipt() as first:
        ds = await alance.write_dataset(
            numbers(5, 6), uri, mode="append", storage_options=options, session=session
        )
    assert first.requests == {"list": 1, "get": 1, "put": 3 + 2, "delete": 1}
    assert first.rounds == 4
    with alance.receipt() as second:
        await ds.append(numbers(6, 7))
    assert (second.requests, second.rounds) == ({"list": 1, "put": 3}, 2)
    other = alance.Session()
    ds = await alance.open_dataset(uri, storage_options=options, session=other)
    with alance.receipt() as spent:
        await ds.append(numbers(7, 8))
    assert (spent.requests, spent.rounds) == ({"list": 1, "put": 3 + 2, "delete": 1}, 2)


@pytest.mark.slow
async def test_a_cold_take_from_the_reference_takes_three_rounds(
    place: Place, tmp_path: Path
) -> None:
    options = place.storage_options
    uri = "s3://bucket/reference.lance"
    lance.write_dataset(
        LARGE, uri, max_rows_per_file=ROWS_PER_FILE, storage_options=options, mode="overwrite"
    )
    ds = await alance.open_dataset(uri, storage_options=options, session=alance.Session())
    with alance.receipt() as spent:
        assert (await ds.take(INDICES, ["a"])).equals(LARGE.take(INDICES).select(["a"]))
    assert spent.rounds == 3
    with alance.receipt() as spent:
        await ds.take(INDICES, ["a"])
    assert spent.rounds == 1


async def test_fragments_of_small_files_come_whole_with_their_tails(tmp_path: Path) -> None:
    table = numbers(0, 100)
    await alance.write_dataset(table, tmp_path / ROOT, max_rows_per_file=10)
    ds = await alance.open_dataset(tmp_path / ROOT, session=alance.Session())
    with alance.receipt() as spent:
        assert (await ds.to_table()).equals(table)
        assert (await ds.take([99, 0])).equals(table.take([99, 0]))
    assert (spent.requests, spent.rounds) == ({"get": 10}, 1)


@pytest.mark.slow
async def test_limits_read_no_page_more_than_they_need() -> None:
    """Two columns of three pages of 8 MiB in one file: ten rows take a few KiB, wherever they are.

    With `ordered=False` as well, and in batches: what is read depends on the rows alone.
    """
    values = np.random.default_rng(6).integers(0, 1 << 63, (2, 2_500_000))
    table = pa.table({"a": values[0], "b": values[1]})
    store = SimulatedStore()
    await write_on(alance.Session(), store, table, "create", limits=WriteLimits(len(table)))
    ds = await open_on(alance.Session(), store)
    await ds.take([0])
    for offset in (0, 1_048_570, 1_048_576, 2_000_000, 2_499_990):
        with alance.receipt() as spent:
            scan = ds.scan(["a"], limit=10, offset=offset, batch_size=4, ordered=offset % 20 == 0)
            batches = [batch async for batch in scan]
        assert [batch.num_rows for batch in batches] == [4, 4, 2]
        assert pa.Table.from_batches(batches).equals(table.select(["a"]).slice(offset, 10))
        assert spent.rounds == 1
        assert spent.bytes_fetched < 4 * 16_384


@pytest.mark.parametrize("predicate", ["a < 0", "a >= 0"])
async def test_what_follows_a_scan_in_a_call_has_waited_for_it(predicate: str) -> None:
    """Also where no row passes the filter, so that no batch tells of the requests."""
    store = SimulatedStore()
    await write_on(alance.Session(), store, numbers(0, 100), "create")
    ds = await open_on(alance.Session(), store)

    @one_call
    async def scan_and_look() -> None:
        async for _ in ds.scan(filter=predicate):
            pass
        await ds.latest()

    with alance.receipt() as spent:
        await scan_and_look()
    assert spent.rounds == 2
