import threading
from functools import partial
from pathlib import Path

import anyio
import obstore.store
import pytest

from alance.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from alance.io.client import StoreClient, StoreClients
from alance.io.store import UPLOAD_PART_BYTES
from alance.limits import Limits
from alance.receipts import receipt
from alance.testing.s3 import S3Server
from alance.testing.stores import CountingStore
from alance.types import ByteRange

pytestmark = pytest.mark.anyio


def client() -> tuple[StoreClients, StoreClient]:
    clients = StoreClients(Limits())
    return clients, clients.open("memory://")[0]


async def test_every_request_is_counted_by_kind() -> None:
    clients, store = client()
    with receipt() as spent:
        await store.put("d/x", [b"hello ", b"world"])
        await store.put_if_absent("d/y", b"abc")
        await store.get_ranges("d/x", [ByteRange(0, 2), ByteRange(8, 10)])
        await store.get_range("d/x", 3, 4)
        await store.get_tail("d/x", 4)
        await store.head("d/x")
        await store.list("d")
        await store.delete("d/x")
    assert spent.requests == {"put": 2, "get": 3, "head": 1, "list": 1, "delete": 1}
    assert spent.rounds == 8
    assert (spent.bytes_fetched, spent.bytes_used) == (10 + 1 + 4, 4 + 1 + 4)
    assert spent.bytes_written == 14
    assert str(clients.total).split(" s waited")[0][:-5] == str(spent).split(" s waited")[0][:-5]


async def test_failed_requests_count_without_bytes() -> None:
    _, store = client()
    await store.put("x", b"abc")
    with receipt() as spent:
        with pytest.raises(AlreadyExistsError):
            await store.put_if_absent("x", b"abc")
        with pytest.raises(ObjectNotFoundError):
            await store.get_tail("y", 4)
    assert spent.requests == {"put": 1, "get": 1}
    assert (spent.rounds, spent.bytes_written, spent.bytes_fetched) == (2, 0, 0)


async def test_requests_side_by_side_are_one_round() -> None:
    _, store = client()
    with receipt() as spent:
        async with anyio.create_task_group() as tg:
            for i in range(5):
                tg.start_soon(store.put, f"x{i}", b"abc")
        await store.list("")
    assert (spent.requests, spent.rounds) == ({"put": 5, "list": 1}, 2)


async def test_pages_of_a_listing_follow_one_another() -> None:
    _, store = client()
    async with anyio.create_task_group() as tg:
        for i in range(2001):
            tg.start_soon(store.put, f"d/{i}", b"")
    with receipt() as spent:
        assert len(await store.list("d")) == 2001
    assert (spent.requests, spent.rounds) == ({"list": 3}, 3)


@pytest.mark.parametrize(
    ("num_bytes", "requests"),
    [
        (0, {"put": 1}),
        (UPLOAD_PART_BYTES, {"put": 1}),
        (UPLOAD_PART_BYTES + 1, {"multipart": 4}),
        (3 * UPLOAD_PART_BYTES, {"multipart": 5}),
    ],
)
async def test_uploads_are_counted_as_they_are_sent(
    num_bytes: int, requests: dict[str, int]
) -> None:
    _, store = client()
    with receipt() as spent:
        upload = await store.open_upload("x")
        for start in range(0, num_bytes, 3 << 20):
            await upload.write(bytes(min(3 << 20, num_bytes - start)))
        await upload.finish()
    assert (spent.requests, spent.bytes_written) == (requests, num_bytes)
    assert (await store.head("x")).num_bytes == num_bytes


async def test_the_server_sees_what_was_counted(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        "werkzeug.serving.WSGIRequestHandler.log_request",
        lambda handler, *_: seen.append(handler.command),
    )
    store, _ = StoreClients(Limits()).open("s3://bucket", s3_server.storage_options)
    with receipt() as spent:
        upload = await store.open_upload("counted/x")
        await upload.write(bytes(2 * UPLOAD_PART_BYTES + 1))
        await upload.finish()
        await store.get_tail("counted/x", 100)
        await store.get_ranges("counted/x", [ByteRange(0, 10), ByteRange(20, 30)])
        await store.list("counted")
        await store.delete("counted/x")
    assert spent.requests == {"multipart": 5, "get": 2, "list": 1, "delete": 1}
    assert len(seen) == 9


async def test_an_abort_is_sent_though_cancelled() -> None:
    clients, _ = client()
    inner, _ = clients.open("memory://")
    counting = CountingStore(inner.store)
    store = clients.wrap(counting)
    for num_bytes in (5, UPLOAD_PART_BYTES + 1):
        upload = await store.open_upload("x")
        await upload.write(bytes(num_bytes))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await upload.abort()
    assert counting.count("upload_abort") == 2
    assert list(await store.list("")) == []


async def test_limits_hold_over_all_stores() -> None:
    clients = StoreClients(Limits(requests_max=2))
    counting = CountingStore(clients.open("memory://")[0].store)
    one, other = clients.wrap(counting), clients.wrap(counting)
    async with anyio.create_task_group() as tg:
        for i in range(6):
            tg.start_soon(one.put, f"x{i}", b"abc")
            tg.start_soon(partial(other.list, f"y{i}"))
    assert counting.count() == 12
    assert counting.most_under_way == 2


async def test_a_place_opened_twice_is_one_store(tmp_path: Path) -> None:
    clients = StoreClients(Limits())
    options = {"region": "r"}
    assert clients.open("s3://b/x", options)[0].store is clients.open("s3://b/y", options)[0].store
    assert clients.open("s3://b/x", options)[0].store is not clients.open("s3://b/x")[0].store
    assert clients.open("/x")[0].store is clients.open(tmp_path)[0].store
    given = obstore.store.MemoryStore()
    first, path = clients.open("memory://a/b", given)
    assert first.store is clients.open("memory://c", given)[0].store
    assert first.store is not clients.open("memory://c")[0].store
    assert path == "a/b"


async def test_memory_belongs_to_a_session_and_its_siblings() -> None:
    clients = StoreClients(Limits())
    sibling = clients.sibling()
    store, path = clients.open("memory://d/x")
    await store.put(path, b"abc")
    same, _ = sibling.open("memory://d/x")
    assert (await same.head(path)).num_bytes == 3
    assert (clients.total.requests, sibling.total.requests) == ({"put": 1}, {"head": 1})
    other, _ = StoreClients(Limits()).open("memory://d/x")
    with pytest.raises(ObjectNotFoundError):
        await other.head(path)


def test_siblings_read_on_loops_of_their_own() -> None:
    clients = StoreClients(Limits())
    store, path = clients.open("memory://x")
    anyio.run(store.put, path, bytes(1000))
    sizes: list[int] = []

    def work() -> None:
        mine, _ = clients.sibling().open("memory://x")
        sizes.append(anyio.run(mine.get_range, path, 10, 30).nbytes)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [20] * 4


def test_given_prefixes_are_taken_off() -> None:
    given = obstore.store.S3Store("bucket", prefix="a", region="r")
    assert StoreClients(Limits()).open("s3://bucket/a/b", given)[1] == "b"


def test_wrong_places_are_refused() -> None:
    clients = StoreClients(Limits())
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="'aws_nope'"):
            clients.open("s3://bucket/x", {"aws_nope": "1"})
