from __future__ import annotations

import os
from pathlib import Path

import pytest
from obstore.store import LocalStore

import alance
from alance.errors import (
    AlreadyExistsError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StoreError,
)
from alance.io import local, local_write
from alance.io.client import StoreClients
from alance.io.local import LocalFileStore
from alance.io.obstore import ObstoreStore
from alance.io.store import UPLOAD_PART_BYTES
from alance.limits import Limits
from alance.types import ByteRange

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 8192


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "object"
    file.write_bytes(CONTENT)
    return file.as_posix().strip("/")


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (7, 1000), (5, 2_000_000), (0, len(CONTENT))])
async def test_small_and_large_reads(path: str, start: int, stop: int) -> None:
    found = await LocalFileStore("file://").get_range(path, start, stop)
    assert found == CONTENT[start:stop]


async def test_tail(path: str) -> None:
    store = LocalFileStore("file://")
    for num_bytes in (100, 1 << 30):
        tail, size = await store.get_tail(path, num_bytes)
        assert (bytes(tail), size) == (CONTENT[-num_bytes:], len(CONTENT))


@pytest.mark.parametrize("num_bytes", [100, 1 << 20])
async def test_read_past_the_end_is_no_short_answer(path: str, num_bytes: int) -> None:
    start = len(CONTENT) - 10
    with pytest.raises(StoreError, match=f"has only {len(CONTENT)} bytes"):
        await LocalFileStore("file://").get_range(path, start, start + num_bytes)


@pytest.mark.parametrize("name", ["nothing", "object/below"])
async def test_missing_file(path: str, name: str) -> None:
    missing = f"{os.path.dirname(path)}/{name}"
    with pytest.raises(ObjectNotFoundError) as caught:
        await LocalFileStore("file://").get_range(missing, 0, 10)
    assert caught.value.path == missing
    with pytest.raises(ObjectNotFoundError):
        await LocalFileStore("file://").get_tail(missing, 10)


async def test_read_in_a_thread_when_it_would_wait(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    preadv = os.preadv

    def cold(fd: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        tried.append(flags)
        if flags:
            raise BlockingIOError
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", cold)
    assert await LocalFileStore("file://").get_range(path, 10, 20) == CONTENT[10:20]
    assert tried == [local.NO_WAIT, 0]


@pytest.mark.parametrize(
    ("step", "length", "requests", "num_bytes"),
    [
        (20_000, 100, 50, 50 * 100),  # few and small: at once, as they are
        (20_000, 9000, 1, 49 * 20_000 + 9000),  # in a thread; the gaps are worth less than a call
        (40_000, 9000, 50, 50 * 9000),
    ],
)
async def test_many_cached_ranges_are_read_in_one_thread(
    path: str, step: int, length: int, requests: int, num_bytes: int
) -> None:
    store, _ = StoreClients(Limits()).open("/")
    ranges = [ByteRange(at, at + length) for at in range(0, 50 * step, step)]
    with alance.receipt() as spent:
        found = await store.get_ranges(path, ranges)
    assert found == [CONTENT[one.start : one.stop] for one in ranges]
    assert (spent.requests, spent.rounds) == ({"get": requests}, 1)
    assert (spent.bytes_fetched, spent.bytes_used) == (num_bytes, 50 * length)


def files_of(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


async def test_what_is_written_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = LocalFileStore("file://"), tmp_path.as_posix().strip("/")
    upload = await store.open_upload(f"{folder}/long")
    await upload.write(bytes(UPLOAD_PART_BYTES + 1))
    assert files_of(tmp_path) == ["long#1"], "a name that listings do not show"
    assert list(await store.list(folder)) == []

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        await upload.write(bytes(UPLOAD_PART_BYTES + 1))
    with pytest.raises(InvalidInputError, match="abort it"):
        await upload.finish()
    await upload.abort()
    for put in (store.put, store.put_if_absent):
        with pytest.raises(StoreError, match="No space left"):
            await put(f"{folder}/short", b"abc")
    assert files_of(tmp_path) == []


async def test_listings_are_those_of_obstore(tmp_path: Path) -> None:
    for name in ("b", "a.x", "a/x", "a/y/z", "A", "ä", "a b", "c#1", "c#1a", "d#", "1~%20"):
        file = tmp_path / "here" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "linked").write_bytes(b"linked")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there")
    (tmp_path / "here" / "file").symlink_to(tmp_path / "there" / "linked")
    (tmp_path / "here" / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "here" / "empty").mkdir()
    ours, theirs = LocalFileStore("file://"), ObstoreStore(LocalStore(), "file://")
    folder = tmp_path.as_posix().strip("/")
    for prefix in ("here", "here/a", "here/a/y", "here/link", "here/empty", "here/b", "nowhere"):
        path = f"{folder}/{prefix}"
        expected = list(await theirs.list(path))
        assert list(await ours.list(path)) == expected
        for limit in (0, 1, 3, 100):
            assert list(await ours.list(path, limit=limit)) == expected[:limit]
        for i, info in enumerate(expected):
            found = await ours.list(path, start_after=info.path, limit=2)
            assert list(found) == expected[i + 1 : i + 3]


async def test_listings_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x")
    for name in ("up", "top"):
        (tmp_path / "a" / name).symlink_to(tmp_path)
    folder = tmp_path.as_posix().strip("/")
    assert [one.path for one in await LocalFileStore("file://").list(folder)] == [
        f"{folder}/a/file"
    ]


async def test_folders_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionDeniedError, match="must not be listed"):
        await LocalFileStore("file://").list(tmp_path.as_posix().strip("/"))


async def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    store, path = LocalFileStore("file://"), f"{tmp_path}/x".strip("/")
    uploads = [await store.open_upload(path) for _ in range(3)]
    for number, upload in enumerate(uploads):
        await upload.write(bytes([number]) * (UPLOAD_PART_BYTES + 1))
    for number, upload in enumerate(uploads):
        await upload.finish()
        assert (await store.get_range(path, 0, 1))[0] == number
    assert files_of(tmp_path) == ["x"]
    with pytest.raises(AlreadyExistsError):
        await store.put_if_absent(path, b"abc")
    assert files_of(tmp_path) == ["x"]


@pytest.mark.parametrize("kind", ["a file for a folder", "a folder for a file"])
async def test_places_that_cannot_be_written(tmp_path: Path, kind: str) -> None:
    store, folder = LocalFileStore("file://"), tmp_path.as_posix().strip("/")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    path = f"{folder}/file/x" if kind == "a file for a folder" else f"{folder}/folder"
    for call in (store.put, store.put_if_absent):
        with pytest.raises(alance.AlanceError):
            await call(path, b"abc")
    assert files_of(tmp_path) == ["file", "folder"]


def test_errors_of_the_system_are_ours() -> None:
    kinds = [
        (FileExistsError(17, "exists"), AlreadyExistsError),
        (FileNotFoundError(2, "missing"), ObjectNotFoundError),
        (PermissionError(13, "denied"), PermissionDeniedError),
        (OSError(5, "broken"), StoreError),
    ]
    for raised, expected in kinds:
        found = local_write.os_error(raised, "d/x", "written")
        assert type(found) is expected
        assert "/d/x" in str(found)
