"""Servers that fail for longer than a unit test may take: rows stay right, whatever happens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import lance
import pyarrow as pa
import pytest

import alance
from alance.limits import Limits
from alance.testing.endpoint import (
    EndpointThread,
    Fault,
    FaultKind,
    Settings,
    start_endpoint,
    start_endpoint_process,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

URI = "s3://bucket/faulty.lance"
NUM_ROWS = 400_000
PASSING = (
    FaultKind.SLOW_DOWN,
    FaultKind.TOO_MANY,
    FaultKind.INTERNAL,
    FaultKind.TRUNCATED,
    FaultKind.CUT,
    FaultKind.LOST,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    text = random.Random(7).randbytes(8 * NUM_ROWS).hex()
    return pa.table({
        "a": range(NUM_ROWS),
        "b": [text[16 * i : 16 * i + 16] for i in range(NUM_ROWS)],
    })


@pytest.fixture
def endpoint(table: pa.Table) -> Iterator[EndpointThread]:
    with start_endpoint() as server:
        options = server.storage_options
        lance.write_dataset(table, URI, storage_options=options, max_rows_per_file=50_000)
        server.reset()
        yield server


async def opened(endpoint: EndpointThread, **limits: float) -> alance.Dataset:
    session = alance.Session(limits=Limits(**limits))  # type: ignore[arg-type]
    return await alance.open_dataset(URI, storage_options=endpoint.storage_options, session=session)


def some_faults(rng: random.Random, count: int) -> list[Fault]:
    """Faults of all passing kinds, here and there among the next requests."""
    faults = []
    for _ in range(count):
        kind = rng.choice(PASSING)
        of_bodies = kind in {FaultKind.TRUNCATED, FaultKind.CUT}
        faults.append(
            Fault(
                kind,
                requests=("get",) if of_bodies else (),
                skip=rng.randrange(5, 60),
                after_bytes=rng.randrange(1, 300),
            )
        )
    return faults


@pytest.mark.parametrize("seed", range(8))
async def test_readers_among_all_kinds_of_faults(
    endpoint: EndpointThread, table: pa.Table, seed: int
) -> None:
    rng = random.Random(seed)
    ds = await opened(endpoint, request_bytes_max=64 << 10)
    endpoint.reset(*some_faults(rng, 30))
    rows = rng.sample(range(NUM_ROWS), 200)
    assert (await ds.take(rows)).equals(table.take(rows))
    assert (await ds.to_table()).equals(table)
    assert endpoint.counters.faults == 30


@pytest.mark.parametrize("seed", range(8))
async def test_writers_among_all_kinds_of_faults(seed: int) -> None:
    rng, appended = random.Random(seed), []
    with start_endpoint() as endpoint:
        options = endpoint.storage_options
        await alance.write_dataset(pa.table({"x": [-1]}), URI, storage_options=options)
        endpoint.reset(*some_faults(rng, 40))

        async def write(writer: int) -> None:
            ds = await alance.open_dataset(
                URI, storage_options=options, session=alance.Session(limits=Limits())
            )
            for number in range(6):
                value = writer * 100 + number
                ds = await ds.append(pa.table({"x": [value]}))
                appended.append(value)

        async with anyio.create_task_group() as tg:
            for writer in range(4):
                tg.start_soon(write, writer)
        endpoint.reset()
        found = lance.dataset(URI, storage_options=options).to_table()["x"].to_pylist()
        assert sorted(found) == [-1, *sorted(appended)]
        assert len(appended) == 24
        assert endpoint.server.s3.uploads == {}


async def test_a_store_that_takes_few_requests_at_once(
    endpoint: EndpointThread, table: pa.Table
) -> None:
    ds = await opened(endpoint, request_bytes_max=32 << 10)
    endpoint.server.settings = Settings(latency_s=0.01, answers_max=6)
    with alance.receipt() as spent:
        assert (await ds.to_table()).equals(table)
    (store,) = ds.session.stats().stores
    assert spent.retries == endpoint.counters.faults > 0
    assert spent.retries < spent.num_requests / 2, "it learns how much is too much"
    assert store.requests_max < 32


async def test_a_server_that_is_away_for_a_while(tmp_path: Path, table: pa.Table) -> None:
    with ExitStack() as first:
        endpoint = first.enter_context(start_endpoint_process(tmp_path))
        port, options = urlsplit(endpoint.endpoint).port, endpoint.storage_options
        assert port is not None
        lance.write_dataset(table, URI, storage_options=options, max_rows_per_file=50_000)
        ds = await alance.open_dataset(URI, storage_options=options, session=alance.Session())
    found: list[pa.Table] = []
    is_read = anyio.Event()

    async def read() -> None:
        found.append(await ds.to_table())
        is_read.set()

    async with anyio.create_task_group() as tg:
        tg.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        with start_endpoint_process(tmp_path, port=port):
            await is_read.wait()
    assert found[0].equals(table)


async def test_late_answers_are_overtaken(endpoint: EndpointThread, table: pa.Table) -> None:
    ds = await opened(endpoint, hedge_budget=0.2, merge_gap_bytes=0)
    rng = random.Random(3)
    for _ in range(40):
        await ds.take(rng.sample(range(NUM_ROWS), 3), ["a"])
    slow = Fault(FaultKind.SLOW, requests=("get",), times=4, delay_s=20.0)
    endpoint.reset(slow)
    with alance.receipt() as spent, anyio.fail_after(15):
        rows = rng.sample(range(NUM_ROWS), 4)
        assert (await ds.take(rows, ["a"])).equals(table.select(["a"]).take(rows))
    assert spent.hedges > 0
    assert spent.retries == 0


class Rotating:
    """A credential provider that hands out another token each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        secret = {"access_key_id": "test", "secret_access_key": "test"}
        return {**secret, "token": f"token-{self.calls}", "expires_at": None}


async def test_credentials_that_expire_again_and_again(
    endpoint: EndpointThread, table: pa.Table
) -> None:
    provider = Rotating()
    options = dict(endpoint.storage_options, credential_provider=provider)
    del options["aws_access_key_id"], options["aws_secret_access_key"]
    endpoint.reset(
        *(
            Fault(FaultKind.EXPIRED_TOKEN, token=f"token-{number}", skip=15, times=None)
            for number in range(1, 6)
        )
    )
    session = alance.Session(limits=Limits(request_bytes_max=64 << 10))
    ds = await alance.open_dataset(URI, storage_options=options, session=session)
    assert (await ds.to_table()).equals(table)
    assert provider.calls > 3


async def test_what_a_request_costs_is_learned(endpoint: EndpointThread, table: pa.Table) -> None:
    uri, options = "s3://bucket/one-file.lance", endpoint.storage_options
    lance.write_dataset(table, uri, storage_options=options)
    endpoint.server.settings = Settings(latency_s=0.04, bandwidth=20e6)
    session = alance.Session(limits=Limits(request_bytes_max=2 << 20))
    ds = await alance.open_dataset(uri, storage_options=options, session=session)
    rng = random.Random(5)
    for _ in range(10):
        await ds.take(rng.sample(range(NUM_ROWS), 5))
    for _ in range(5):
        await ds.to_table()
    (store,) = session.stats().stores
    assert store.latency_s is not None
    assert store.bandwidth is not None
    assert 0.04 <= store.latency_s < 0.2
    assert 2e6 < store.bandwidth < 40e6
