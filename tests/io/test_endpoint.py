"""The endpoint that other tests and the benchmark stand on: S3, faults and counts."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import lance
import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store

from alance.io.opening import open_store
from alance.io.store import ObjectStore
from alance.io.uri import parse_uri
from alance.testing.endpoint import (
    EndpointThread,
    Exchange,
    Fault,
    FaultKind,
    Settings,
    rounds,
    start_endpoint,
    start_endpoint_process,
)
from alance.testing.s3 import S3Server
from alance.testing.store_conformance import StoreConformance

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def in_memory() -> Iterator[EndpointThread]:
    with start_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(in_memory: EndpointThread) -> EndpointThread:
    in_memory.reset()
    return in_memory


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointThread]:
    with start_endpoint(tmp_path_factory.mktemp("endpoint")) as endpoint:
        yield endpoint


def plain(server: S3Server, **options: str) -> S3Store:
    """Return a store without retries, so that one call is one request."""
    return S3Store(
        "bucket",
        config={**server.storage_options, **options},  # type: ignore[arg-type]
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=10)},
    )


class TestInMemory(StoreConformance):
    @pytest.fixture
    def store(self, in_memory: EndpointThread) -> ObjectStore:
        in_memory.reset()
        return open_store(parse_uri("s3://bucket", in_memory.storage_options)[0])


class TestOnDisk(StoreConformance):
    @pytest.fixture
    def store(self, on_disk: EndpointThread) -> ObjectStore:
        return open_store(parse_uri("s3://bucket", on_disk.storage_options)[0])


def test_pylance_works_on_it_in_a_process_of_its_own(tmp_path: Path) -> None:
    table = pa.table({"a": range(5000)})
    with start_endpoint_process(tmp_path) as endpoint:
        uri, options = "s3://bucket/x.lance", endpoint.storage_options
        lance.write_dataset(table, uri, storage_options=options, max_rows_per_file=2000)
        lance.write_dataset(table, uri, mode="append", storage_options=options)
        endpoint.configure(Settings(latency_s=0.001))
        endpoint.reset()
        found = lance.dataset(uri, storage_options=options)
        assert (found.version, found.count_rows()) == (2, 10_000)
        counters = endpoint.counters()
        assert counters.requests == {"list": 1, "get": 1}
        assert rounds(counters.log) == 2
    assert lance.dataset(str(tmp_path / "bucket" / "x.lance")).count_rows() == 10_000


async def test_listings_have_pages_and_folders(endpoint: EndpointThread) -> None:
    for place in range(1500):
        endpoint.objects.write(f"bucket/pages/{place % 3}/{place:04}", [b""])
    store = plain(endpoint)
    found = [one["path"] for page in obstore.list(store, "pages", chunk_size=1000) for one in page]
    assert len(found) == len(set(found)) == 1500
    assert found == sorted(found)
    assert endpoint.counters.requests == {"list": 2}
    below = obstore.list_with_delimiter(store, "pages")
    assert below["common_prefixes"] == ["pages/0", "pages/1", "pages/2"]


async def test_objects_are_copied_and_removed_in_bulk(endpoint: EndpointThread) -> None:
    store = plain(endpoint)
    await obstore.put_async(store, "bulk/a b", b"hello", use_multipart=False)
    await obstore.copy_async(store, "bulk/a b", "bulk/c")
    assert bytes(await obstore.get_range_async(store, "bulk/c", start=1, end=3)) == b"el"
    await obstore.delete_async(store, ["bulk/a b", "bulk/c"])
    assert list(endpoint.objects.keys("bucket/bulk/", "")) == []
    assert endpoint.counters.requests == {"put": 1, "copy": 1, "get": 1, "delete_many": 1}


async def test_etags_change_with_each_write(
    endpoint: EndpointThread, on_disk: EndpointThread
) -> None:
    for server in (endpoint, on_disk):
        store = plain(server)
        tags = []
        for data in (b"one", b"two"):
            obstore.put(store, "tagged", data, use_multipart=False)
            tags.append(obstore.head(store, "tagged")["e_tag"])
        assert tags[0] != tags[1]
        obstore.get(store, "tagged", options={"if_match": tags[1]})
        with pytest.raises(obstore.exceptions.PreconditionError):
            obstore.get(store, "tagged", options={"if_match": tags[0]})


def test_conditions_can_be_ignored() -> None:
    with start_endpoint(honours_condition=False) as endpoint:
        store = plain(endpoint)
        for _ in range(2):
            obstore.put(store, "x", b"1", mode="create", use_multipart=False)
    assert endpoint.counters.requests == {"put_if_absent": 2}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(FaultKind.SLOW_DOWN), "SlowDown"),
        (Fault(FaultKind.TOO_MANY), "429"),
        (Fault(FaultKind.INTERNAL), "InternalError"),
        (Fault(FaultKind.DENIED), "AccessDenied"),
        (Fault(FaultKind.MISSING), "NoSuchKey"),
        (Fault(FaultKind.EXPIRED_TOKEN, token="old"), "ExpiredToken"),
        (Fault(FaultKind.CUT, after_bytes=10_000), "IncompleteBody"),
        (Fault(FaultKind.LOST), "error sending request"),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Fault) else "",
)
def test_a_fault_meets_the_requests_it_is_for(
    endpoint: EndpointThread, fault: Fault, message: str
) -> None:
    endpoint.objects.write("bucket/faulty", [bytes(100_000)])
    endpoint.reset(fault)
    old = plain(endpoint, aws_session_token="old")
    with pytest.raises(Exception, match=message):
        obstore.get_range(old, "faulty", start=0, end=100_000)
    assert endpoint.counters.faults == 1
    for store in (old, plain(endpoint, aws_session_token="new")):
        assert len(obstore.get_range(store, "faulty", start=0, end=100_000)) == 100_000
    assert (endpoint.counters.num_requests, endpoint.counters.faults) == (3, 1)


def test_a_truncated_body_looks_whole(endpoint: EndpointThread) -> None:
    endpoint.objects.write("bucket/faulty", [bytes(100_000)])
    endpoint.reset(Fault(FaultKind.TRUNCATED, after_bytes=7))
    assert len(obstore.get_range(plain(endpoint), "faulty", start=0, end=1000)) == 7


def test_faults_count_for_themselves(endpoint: EndpointThread) -> None:
    endpoint.objects.write("bucket/faulty", [b"abc"])
    endpoint.reset(
        Fault(FaultKind.MISSING, requests=("head",), key="faulty", skip=1, times=2),
        Fault(FaultKind.DENIED, requests=("get",), times=None),
    )
    store = plain(endpoint)
    said = []
    for _ in range(5):
        try:
            said.append(obstore.head(store, "faulty")["size"])
        except FileNotFoundError:
            said.append(-1)
    assert said == [3, -1, -1, 3, 3]
    for _ in range(3):
        with pytest.raises(obstore.exceptions.PermissionDeniedError):
            obstore.get(store, "faulty")
    assert endpoint.counters.faults == 5


async def test_bytes_of_answers_that_nobody_waits_for_are_counted() -> None:
    # 1 MB at 0.2 MB/s would take 5 seconds.
    with start_endpoint(settings=Settings(bandwidth=200_000)) as endpoint:
        endpoint.objects.write("bucket/slow", [bytes(1_000_000)])
        store, wait_until = plain(endpoint), endpoint.server.wait_until

        async def read() -> None:
            await obstore.get_range_async(store, "slow", start=0, end=1_000_000)

        async with anyio.create_task_group() as tg:
            tg.start_soon(read)
            await anyio.to_thread.run_sync(wait_until, lambda: endpoint.counters.bytes_sent > 0)
            tg.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_until, lambda: endpoint.server.answering == 0)
        assert 0 < endpoint.counters.bytes_sent < 500_000
        assert endpoint.counters.aborted == 1
        assert [one.num_bytes for one in endpoint.counters.log] == [endpoint.counters.bytes_sent]


def test_what_is_no_s3_is_refused(endpoint: EndpointThread) -> None:
    requests = [
        urllib.request.Request(f"{endpoint.endpoint}/"),
        urllib.request.Request(f"{endpoint.endpoint}/-/nonsense"),
        urllib.request.Request(f"{endpoint.endpoint}/bucket/x?acl", method="POST"),
        urllib.request.Request(
            f"{endpoint.endpoint}/bucket/x",
            headers={"x-amz-decoded-content-length": "3"},
            method="PUT",
        ),
    ]
    for request in requests:
        with pytest.raises(urllib.error.HTTPError, match=r"501|404"):
            urllib.request.urlopen(request, timeout=10)


def test_rounds_are_chains() -> None:
    def exchange(arrived_s: float, answered_s: float) -> Exchange:
        return Exchange("get", "k", arrived_s, answered_s, 0)

    assert rounds([]) == 0
    assert rounds([exchange(0, 1), exchange(0.1, 1.1)]) == 1
    assert rounds([exchange(0, 1), exchange(0.1, 1.2), exchange(1.05, 2)]) == 2
