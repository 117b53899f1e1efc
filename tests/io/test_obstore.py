import asyncio
import pickle
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import anyio
import obstore
import obstore.exceptions
import obstore.store
import pytest

from alance.errors import (
    AlanceError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
)
from alance.io.obstore import ObstoreStore
from alance.io.obstore_errors import summary
from alance.io.opening import open_store
from alance.io.pieces import SMALL_BUFFER_BYTES, joined
from alance.io.store import UPLOAD_PART_BYTES
from alance.io.uri import parse_uri
from alance.testing.s3 import S3Server

pytestmark = pytest.mark.anyio


def memory() -> ObstoreStore:
    return open_store(parse_uri("memory://")[0])


def uploads_under_way(server: S3Server) -> int:
    """Multipart uploads in the bucket that were neither completed nor aborted."""
    with urllib.request.urlopen(f"{server.endpoint}/bucket?uploads", timeout=30) as answer:
        return int(answer.read().count(b"<UploadId>"))


async def test_reads_are_views_of_what_obstore_holds() -> None:
    store = memory()
    await store.put("x", bytes(1000))
    assert isinstance((await store.get_range("x", 10, 20)).obj, obstore.Bytes)
    assert isinstance((await store.get_tail("x", 20))[0].obj, obstore.Bytes)


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([], [0]),
        ([3], [3]),
        ([3, 4, 5], [12]),
        ([SMALL_BUFFER_BYTES], [SMALL_BUFFER_BYTES]),
        ([1, 2, SMALL_BUFFER_BYTES, 3, SMALL_BUFFER_BYTES + 1], None),
    ],
)
def test_small_buffers_are_joined_and_large_ones_kept(
    sizes: Sequence[int], found: list[int] | None
) -> None:
    views = [memoryview(bytes([i]) * size) for i, size in enumerate(sizes)]
    pieces = joined(views)
    if found is None:
        found = [3, SMALL_BUFFER_BYTES, 3, SMALL_BUFFER_BYTES + 1]
        assert pieces[1] is views[2]
        assert pieces[3] is views[4]
    assert [piece.nbytes for piece in pieces] == found
    assert b"".join(pieces) == b"".join(views)


async def test_listings_longer_than_a_page() -> None:
    store = memory()
    names = [f"d/{i:05}" for i in range(2300)]
    for name in names:
        await store.put(name, b"")
    assert [info.path for info in await store.list("d")] == names
    assert [info.path for info in await store.list("d", limit=1500)] == names[:1500]
    late = await store.list("d", start_after=names[999], limit=1200)
    assert [info.path for info in late] == names[1000:2200]


async def test_local_directories_need_not_exist(tmp_path: Path) -> None:
    config, root = parse_uri(tmp_path / "deep" / "down")
    store = open_store(config)
    assert list(await store.list(root)) == []
    await store.put_if_absent(f"{root}/x", b"hello")
    assert (tmp_path / "deep" / "down" / "x").read_bytes() == b"hello"


def test_listing_order_of_directory_buckets() -> None:
    inner = obstore.store.MemoryStore()
    assert ObstoreStore(inner, "s3://bucket").lists_in_order
    assert not ObstoreStore(inner, "s3://bucket--usw2-az1--x-s3").lists_in_order


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (FileNotFoundError("gone"), ObjectNotFoundError, "x does not exist"),
        (obstore.exceptions.PermissionDeniedError("no"), PermissionDeniedError, "credentials"),
        (obstore.exceptions.UnauthenticatedError("no"), PermissionDeniedError, "credentials"),
        (
            obstore.exceptions.GenericError("x\n\nDebug source:\nkind: PermissionDenied"),
            PermissionDeniedError,
            "credentials",
        ),
        (
            obstore.exceptions.GenericError("x\n\nDebug source:\nsource: TimedOut"),
            StoreTimeoutError,
            "x$",
        ),
        (obstore.exceptions.GenericError("the  disk\nburns"), StoreError, "the disk burns"),
        (obstore.exceptions.NotSupportedError("never heard"), StoreError, "never heard"),
        (ValueError("Could not parse path"), InvalidInputError, "Could not parse path"),
        (RuntimeError("odd"), StoreError, "odd"),
    ],
)
def test_errors_are_ours_with_place_and_cause(
    raised: Exception, expected: type[AlanceError], said: str
) -> None:
    store = memory()
    with pytest.raises(expected, match=said) as caught, store.translated("d/x"):
        raise raised
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised
    assert str(caught.value).startswith("memory:///d/x")
    if not isinstance(caught.value, InvalidInputError):
        assert caught.value.path == "d/x"  # type: ignore[attr-defined]
        copied = pickle.loads(pickle.dumps(caught.value))
        assert (str(copied), copied.path) == (str(caught.value), "d/x")


def test_long_messages_are_cut() -> None:
    assert len(summary(RuntimeError("x" * 10_000))) < 600


async def test_odd_paths_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="memory:///a//b"):
        await memory().head("a//b")


async def test_no_server_is_an_error_within_the_bounds_of_retries() -> None:
    options = {
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": True,
        "region": "x",
        "skip_signature": True,
        "client_max_retries": 0,
    }
    store = open_store(parse_uri("s3://bucket", options)[0])
    with pytest.raises(StoreError, match="s3://bucket/x"):
        await store.head("x")


async def test_aborted_uploads_leave_nothing_on_the_server(s3_server: S3Server) -> None:
    store = open_store(parse_uri("s3://bucket", s3_server.storage_options)[0])
    upload = await store.open_upload("aborted")
    await upload.write(bytes(UPLOAD_PART_BYTES + 1))
    assert uploads_under_way(s3_server) == 1
    await upload.abort()
    assert uploads_under_way(s3_server) == 0
    with pytest.raises(InvalidInputError, match="finished or aborted"):
        await upload.write(b"more")


@pytest.mark.parametrize("ticks", [1, 2, 3, 5, 8])
async def test_an_upload_cancelled_at_its_start_can_be_aborted(
    s3_server: S3Server, ticks: int
) -> None:
    store = open_store(parse_uri("s3://bucket", s3_server.storage_options)[0])
    upload = await store.open_upload("cancelled")
    async with anyio.create_task_group() as tg:
        tg.start_soon(upload.write, bytes(UPLOAD_PART_BYTES + 1))
        for _ in range(ticks):
            await asyncio.sleep(0)
        tg.cancel_scope.cancel()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await upload.abort()
    assert uploads_under_way(s3_server) == 0
    assert list(await store.list("cancelled")) == []


async def test_an_upload_with_a_hole_cannot_be_finished() -> None:
    store = memory()
    upload = await store.open_upload("x")
    async with anyio.create_task_group() as tg:
        tg.start_soon(upload.write, bytes(2 * UPLOAD_PART_BYTES))
        await asyncio.sleep(0)
        tg.cancel_scope.cancel()
    for call in (upload.finish, lambda: upload.write(b"more")):
        with pytest.raises(InvalidInputError, match="abort it"):
            await call()
    await upload.abort()
    assert list(await store.list("x")) == []


async def test_a_finished_upload_is_not_taken_back() -> None:
    store = memory()
    upload = await store.open_upload("x")
    await upload.write(b"hello")
    await upload.finish()
    await upload.abort()
    assert (await store.head("x")).num_bytes == 5
    with pytest.raises(InvalidInputError, match="finished or aborted"):
        await upload.finish()


async def test_azure_tails_take_a_head_and_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = obstore.store.AzureStore(
        "container", account_name="a", skip_signature=True, endpoint="http://127.0.0.1:9"
    )
    store = ObstoreStore(azure, "az://container")
    plain = memory()
    await plain.put("x", b"hello world")
    monkeypatch.setattr(store, "head", plain.head)
    monkeypatch.setattr(store, "get_range", plain.get_range)
    tail, size = await store.get_tail("x", 5)
    assert (bytes(tail), size) == (b"world", 11)
