from __future__ import annotations

import os
from pathlib import Path

import pytest

from alance.errors import ObjectNotFoundError, StoreError
from alance.io import local
from alance.io.local import LocalFileStore

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
