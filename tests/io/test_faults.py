"""Faults of a real server, met by whole datasets: the right rows or a clear error."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import lance
import pyarrow as pa
import pytest

import alance
from alance.io.client import StoreClients
from alance.io.entity_tags import EntityTags
from alance.limits import Limits
from alance.testing.endpoint import EndpointThread, Fault, FaultKind, Settings, start_endpoint

pytestmark = pytest.mark.anyio

NUM_ROWS = 60_000
TABLE = pa.table({"a": range(NUM_ROWS), "b": [f"row {i}" for i in range(NUM_ROWS)]})
URI = "s3://bucket/faulty.lance"


@pytest.fixture(scope="module")
def server() -> Iterator[EndpointThread]:
    with start_endpoint() as endpoint:
        lance.write_dataset(
            TABLE, URI, storage_options=endpoint.storage_options, max_rows_per_file=20_000
        )
        yield endpoint


@pytest.fixture
def endpoint(server: EndpointThread) -> Iterator[EndpointThread]:
    server.reset()
    yield server
    server.reset()
    server.server.settings = Settings()


async def opened(endpoint: EndpointThread, **limits: float) -> alance.Dataset:
    session = alance.Session(limits=Limits(**limits))  # type: ignore[arg-type]
    return await alance.open_dataset(URI, storage_options=endpoint.storage_options, session=session)


def data_files(endpoint: EndpointThread) -> list[str]:
    return list(endpoint.objects.keys("bucket/faulty.lance/data/", ""))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(FaultKind.SLOW_DOWN, requests=("get",), skip=1, times=5),
        Fault(FaultKind.TOO_MANY, requests=("get",), times=3),
        Fault(FaultKind.INTERNAL, times=2),
        Fault(FaultKind.CUT, requests=("get",), key="/data/", skip=3, times=2, after_bytes=5000),
        Fault(FaultKind.CUT, requests=("get",), key="_versions", after_bytes=10),
        Fault(FaultKind.LOST, requests=("get",), times=2),
        Fault(FaultKind.LOST, requests=("list",)),
        Fault(FaultKind.TRUNCATED, requests=("get",), key="/data/", times=2, after_bytes=1000),
        Fault(FaultKind.TRUNCATED, requests=("get",), key="_versions", after_bytes=10),
    ],
    ids=lambda fault: f"{fault.kind.value} {fault.key}",
)
async def test_what_passes_is_read_in_spite_of_it(endpoint: EndpointThread, fault: Fault) -> None:
    endpoint.reset(fault)
    with alance.receipt() as spent:
        ds = await opened(endpoint)
        assert (await ds.to_table()).equals(TABLE)
    assert endpoint.counters.faults == fault.times
    assert spent.retries == fault.times
    asked_for_size = endpoint.counters.requests.get("head", 0)  # of objects with a short answer
    assert spent.num_requests + asked_for_size == endpoint.counters.num_requests


async def test_a_storm_ends_in_the_right_rows_with_less_at_once(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint, request_bytes_max=8192)
    await ds.take([0, 30_000, 50_000])
    endpoint.reset(Fault(FaultKind.SLOW_DOWN, requests=("get",), times=40))
    assert (await ds.to_table()).equals(TABLE)
    (store,) = ds.session.stats().stores
    assert endpoint.counters.faults == 40
    assert store.requests_max < 128


async def test_what_does_not_pass_is_a_clear_error(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint, retries_max=2)
    endpoint.reset(Fault(FaultKind.SLOW_DOWN, requests=("get",), times=None))
    with alance.receipt() as spent, pytest.raises(alance.StoreError, match="503") as caught:
        await ds.take([1])
    assert (caught.value.status, caught.value.transient) == (503, True)
    assert (spent.retries, endpoint.counters.num_requests) == (2, 3)


async def test_a_body_that_is_always_truncated_is_never_taken(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint, retries_max=1)
    fault = Fault(FaultKind.TRUNCATED, requests=("get",), key="/data/", times=None, after_bytes=100)
    endpoint.reset(fault)
    with pytest.raises(alance.StoreError, match="cut off"):
        await ds.to_table()


@pytest.mark.parametrize("after", [0, 1])
async def test_an_object_that_disappears_is_named(endpoint: EndpointThread, after: int) -> None:
    ds = await opened(endpoint)
    if after:
        await ds.take([0])
    name = data_files(endpoint)[0]
    stored = endpoint.objects.find(name)
    assert stored is not None
    endpoint.objects.remove(name)
    try:
        with pytest.raises(alance.ObjectNotFoundError, match=name.rpartition("/")[2]):
            await ds.to_table()
    finally:
        endpoint.objects.write(name, [bytes(stored.read(0, stored.num_bytes))])


async def test_an_object_that_becomes_shorter_is_an_error(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint)
    await ds.take([0, 20_000, 40_000])  # the tails are known by now
    name = data_files(endpoint)[0]
    stored = endpoint.objects.find(name)
    assert stored is not None
    whole = bytes(stored.read(0, stored.num_bytes))
    endpoint.objects.write(name, [whole[:20_000]])
    endpoint.reset()
    try:
        with pytest.raises(alance.StoreError, match=r"has only 20000|416|replaced"):
            await ds.to_table()
    finally:
        endpoint.objects.write(name, [whole])


async def test_an_object_that_is_replaced_is_an_error(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint)
    await ds.take([0, 20_000, 40_000])  # the tails are known by now
    name = data_files(endpoint)[0]
    stored = endpoint.objects.find(name)
    assert stored is not None
    whole = bytes(stored.read(0, stored.num_bytes))
    endpoint.objects.write(name, [bytes(len(whole))])
    try:
        with pytest.raises(alance.StoreError, match="was replaced while it was read"):
            await ds.to_table()
    finally:
        endpoint.objects.write(name, [whole])
    assert (await (await opened(endpoint)).to_table()).equals(TABLE)


async def test_what_a_session_replaces_itself_is_read_anew(endpoint: EndpointThread) -> None:
    store, _ = StoreClients(Limits()).open("s3://bucket", endpoint.storage_options)
    for value in range(3):
        await store.put("own", bytes([value]) * 100_000)
        assert (await store.get_range("own", 0, 100_000))[5] == value
    endpoint.objects.write("bucket/own", [b"3" * 100_000])
    with pytest.raises(alance.StoreError, match="replaced"):
        await store.get_range("own", 0, 100_000)
    assert (await store.get_range("own", 0, 100_000))[5] == ord("3"), "said once"
    endpoint.objects.write("bucket/own", [b"4" * 100_000])
    await store.get_tail("own", 10)  # a new look
    assert (await store.get_range("own", 0, 100_000))[5] == ord("4")


def test_tags_of_few_paths_are_kept() -> None:
    tags = EntityTags(2)
    for path in ("a", "b", "c"):
        assert tags.is_same(path, "1")
    assert tags.is_same("a", "2")
    assert not tags.is_same("c", "2")


async def test_a_timeout_is_one_try_of_several(endpoint: EndpointThread) -> None:
    ds = await opened(endpoint, request_timeout_s=0.2)
    endpoint.reset(Fault(FaultKind.SLOW, requests=("get",), times=1, delay_s=20.0))
    with alance.receipt() as spent:
        assert (await ds.take([5])).to_pydict() == {"a": [5], "b": ["row 5"]}
    assert spent.retries >= 1


async def test_commits_do_not_repeat_a_put_blindly(endpoint: EndpointThread) -> None:
    uri = "s3://bucket/commits.lance"
    options = endpoint.storage_options
    ds = await alance.write_dataset(TABLE.slice(0, 10), uri, storage_options=options)
    for kind in (FaultKind.LOST, FaultKind.SLOW_DOWN, FaultKind.INTERNAL, FaultKind.TOO_MANY):
        endpoint.reset(Fault(kind, requests=("put_if_absent",)))
        ds = await ds.append(TABLE.slice(0, 10))
        assert endpoint.counters.faults == 1
    assert ds.version == 5
    assert lance.dataset(uri, storage_options=options).count_rows() == 50


async def test_puts_and_removals_are_repeated(endpoint: EndpointThread) -> None:
    endpoint.reset(
        Fault(FaultKind.SLOW_DOWN, requests=("put",)),
        Fault(FaultKind.LOST, requests=("put",)),
        Fault(FaultKind.INTERNAL, requests=("delete", "delete_many")),
        Fault(FaultKind.INTERNAL, requests=("head",)),
    )
    store, _ = StoreClients(Limits()).open("s3://bucket", endpoint.storage_options)
    with alance.receipt() as spent:
        await store.put("puts/x", b"abc")
        assert (await store.head("puts/x")).num_bytes == 3
        upload = await store.open_upload("puts/y")
        await upload.write(b"abcd")
        await upload.finish()
        await store.delete("puts/x")
    assert list(endpoint.objects.keys("bucket/puts/", "")) == ["bucket/puts/y"]
    assert spent.retries == 4
    assert spent.num_requests == endpoint.counters.num_requests == 8


async def test_parts_of_uploads_are_repeated_below(endpoint: EndpointThread) -> None:
    endpoint.reset(
        Fault(FaultKind.INTERNAL, requests=("part",)), Fault(FaultKind.LOST, requests=("part",))
    )
    store, _ = StoreClients(Limits()).open("s3://bucket", endpoint.storage_options)
    upload = await store.open_upload("parts")
    for _ in range(3):
        await upload.write(bytes(4 << 20))
    await upload.finish()
    assert (await store.head("parts")).num_bytes == 12 << 20
    assert endpoint.counters.faults == 2


class Rotating:
    """A credential provider that hands out another token each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return {
            "access_key_id": "test",
            "secret_access_key": "test",
            "token": f"token-{self.calls}",
            "expires_at": None,
        }


async def test_credentials_that_expire_are_asked_for_anew(endpoint: EndpointThread) -> None:
    provider = Rotating()
    options = dict(endpoint.storage_options, credential_provider=provider)
    del options["aws_access_key_id"], options["aws_secret_access_key"]
    ds = await alance.open_dataset(URI, storage_options=options)
    assert provider.calls == 1
    endpoint.reset(Fault(FaultKind.EXPIRED_TOKEN, token="token-1", times=None))
    assert (await ds.to_table()).equals(TABLE)
    assert provider.calls == 2
    endpoint.reset(Fault(FaultKind.EXPIRED_TOKEN, token="token-2", times=None))
    uri = "s3://bucket/renewed.lance"
    made = await alance.write_dataset(TABLE.slice(0, 5), uri, storage_options=options)
    assert (await made.append(TABLE.slice(0, 5))).version == 2


async def test_an_upload_with_expired_credentials_fails_and_the_next_does_not(
    endpoint: EndpointThread,
) -> None:
    options = dict(endpoint.storage_options, credential_provider=Rotating())
    del options["aws_access_key_id"], options["aws_secret_access_key"]
    store, _ = StoreClients(Limits()).open("s3://bucket", options)
    endpoint.reset(Fault(FaultKind.EXPIRED_TOKEN, token="token-1", times=None))
    upload = await store.open_upload("long")
    with pytest.raises(alance.PermissionDeniedError, match="Expired"):
        await upload.write(bytes(9 << 20))
    await upload.abort()
    upload = await store.open_upload("long")
    await upload.write(bytes(9 << 20))
    await upload.finish()
    assert (await store.get_tail("long", 5))[1] == 9 << 20


async def test_without_a_provider_expired_credentials_are_an_error(
    endpoint: EndpointThread,
) -> None:
    ds = await opened(endpoint)
    endpoint.reset(Fault(FaultKind.EXPIRED_TOKEN, token="", times=None))
    with alance.receipt() as spent, pytest.raises(alance.PermissionDeniedError, match="Expired"):
        await ds.to_table()
    assert spent.retries == 0


@pytest.fixture(scope="module")
def narrow() -> Iterator[EndpointThread]:
    """A server that would need seconds for its dataset."""
    values = random.Random(1).randbytes(16 * 200_000)
    table = pa.table({"x": [values[i : i + 16] for i in range(0, len(values), 16)]})
    with start_endpoint() as endpoint:
        lance.write_dataset(
            table, URI, storage_options=endpoint.storage_options, max_rows_per_file=10_000
        )
        yield endpoint


@pytest.mark.parametrize("how", ["left early", "closed", "cancelled", "timed out", "take"])
async def test_nothing_goes_on_after_its_reader_has_gone(narrow: EndpointThread, how: str) -> None:
    server = narrow.server
    server.settings = Settings()
    ds = await opened(narrow, request_bytes_max=64 << 10, requests_max=4)
    await ds.take(list(range(0, 200_000, 10_000)))
    server.settings = Settings(bandwidth=400_000.0)
    narrow.reset()
    before = asyncio.all_tasks()

    async def read() -> None:
        if how == "take":
            await ds.take(list(range(0, 200_000, 10)))
        elif how == "closed":
            async with ds.scan(batch_size=100) as batches:
                async for _ in batches:
                    break
        else:
            async for _ in ds.scan(batch_size=100):
                if how == "left early":
                    break

    deadlines: list[asyncio.Timeout] = []

    async def read_in_time() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as deadline:
                deadlines.append(deadline)
                await read()

    async with anyio.create_task_group() as tg:
        tg.start_soon(read_in_time)
        await anyio.to_thread.run_sync(
            server.wait_until, lambda: narrow.counters.bytes_sent > 10_000
        )
        if how == "timed out":
            deadlines[0].reschedule(0)
        elif how in {"cancelled", "take"}:
            tg.cancel_scope.cancel()
    assert deadlines[0].expired() == (how == "timed out")
    await settled(before)
    assert ds.session.stats().budget_held == 0
    await anyio.to_thread.run_sync(server.wait_until, lambda: server.answering == 0)
    assert narrow.counters.aborted > 0
    assert narrow.counters.bytes_sent < 2_000_000


async def settled(before: set[asyncio.Task[Any]]) -> None:
    """Let the loop run until the tasks since `before` have ended, and all has been told."""
    while not asyncio.all_tasks() <= before:
        await anyio.lowlevel.checkpoint()
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
