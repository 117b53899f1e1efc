# ruff: noqa: D102 (the names of tests say what they test)
"""What every object store must do, as a test class to inherit; needs pytest with anyio's plugin."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from alance.errors import AlreadyExistsError, ObjectNotFoundError, StoreError
from alance.io.store import UPLOAD_PART_BYTES, ObjectStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["StoreConformance"]


async def _tail(store: ObjectStore, path: str, num_bytes: int) -> tuple[bytes, int]:
    view, size = await store.get_tail(path, num_bytes)
    return bytes(view), size


class StoreConformance:
    """Tests of the `ObjectStore` protocol; a subclass gives a fixture `store`.

    Every test works below a folder of its own, so that one store may serve them all.
    """

    @pytest.fixture
    def store(self) -> ObjectStore:
        """Return the store under test."""
        raise NotImplementedError("a conformance test class defines the fixture `store`")

    @pytest.fixture
    def folder(self) -> str:
        """Return a folder that no other test uses."""
        return f"conformance/{uuid.uuid4().hex}"

    async def test_is_a_store(self, store: ObjectStore) -> None:
        assert isinstance(store, ObjectStore)
        assert "://" in store.url

    async def test_put_then_get(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"hello world")
        view = await store.get_range(f"{folder}/a", 6, 11)
        assert bytes(view) == b"world"
        assert (view.format, view.ndim, view.contiguous) == ("B", 1, True)

    async def test_put_of_several_buffers(self, store: ObjectStore, folder: str) -> None:
        big = bytes(range(256)) * 4096
        pieces: list[Buffer] = [b"ab", b"", memoryview(big), bytearray(b"cd"), b"ef", big]
        whole = b"".join(bytes(piece) for piece in pieces)
        await store.put(f"{folder}/a", pieces)
        assert await _tail(store, f"{folder}/a", len(whole)) == (whole, len(whole))

    async def test_put_replaces(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"first")
        await store.put(f"{folder}/a", b"2nd")
        assert await _tail(store, f"{folder}/a", 10) == (b"2nd", 3)

    async def test_names_are_taken_as_they_are(self, store: ObjectStore, folder: str) -> None:
        names = sorted(f"{folder}/{name}" for name in ("a b", "ü", "a%20b", "x=1", "a+b"))
        for name in names:
            await store.put(name, name.encode())
        assert sorted(info.path for info in await store.list(folder)) == names
        for name in names:
            assert (await store.get_tail(name, 100))[0] == name.encode()

    async def test_empty_range(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"hello")
        assert bytes(await store.get_range(f"{folder}/a", 2, 2)) == b""

    @pytest.mark.parametrize(("start", "stop"), [(3, 6), (5, 6), (100, 200)])
    async def test_range_past_the_end(
        self, store: ObjectStore, folder: str, start: int, stop: int
    ) -> None:
        await store.put(f"{folder}/a", b"hello")
        with pytest.raises(StoreError, match=f"{folder}/a") as caught:
            await store.get_range(f"{folder}/a", start, stop)
        assert caught.value.path == f"{folder}/a"

    @pytest.mark.parametrize(
        ("num_bytes", "tail"), [(0, b""), (2, b"lo"), (5, b"hello"), (50, b"hello")]
    )
    async def test_tail(self, store: ObjectStore, folder: str, num_bytes: int, tail: bytes) -> None:
        await store.put(f"{folder}/a", b"hello")
        assert await _tail(store, f"{folder}/a", num_bytes) == (tail, 5)

    async def test_empty_object(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"")
        assert await _tail(store, f"{folder}/a", 10) == (b"", 0)
        assert (await store.head(f"{folder}/a")).num_bytes == 0

    async def test_head(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"hello")
        info = await store.head(f"{folder}/a")
        assert (info.path, info.num_bytes) == (f"{folder}/a", 5)
        assert abs(datetime.now(UTC) - info.last_modified) < timedelta(days=1)

    @pytest.mark.parametrize("name", ["missing", "a", "a/b/c"])
    async def test_missing_object(self, store: ObjectStore, folder: str, name: str) -> None:
        await store.put(f"{folder}/a/b", b"hello")
        path = f"{folder}/{name}"
        calls = (
            lambda: store.get_range(path, 0, 1),
            lambda: store.get_tail(path, 1),
            lambda: store.head(path),
        )
        for call in calls:
            with pytest.raises(ObjectNotFoundError) as caught:
                await call()
            assert caught.value.path == path

    async def test_list(self, store: ObjectStore, folder: str) -> None:
        names = [f"{folder}/a/{i:04}" for i in range(30)]
        for name in [*names, f"{folder}/ab", f"{folder}/b/x"]:
            await store.put(name, b"12345")
        found = list(await store.list(f"{folder}/a"))
        if store.lists_in_order:
            assert [info.path for info in found] == names
        assert sorted(info.path for info in found) == names
        assert {info.num_bytes for info in found} == {5}

    async def test_list_in_part(self, store: ObjectStore, folder: str) -> None:
        names = [f"{folder}/{i:04}" for i in range(12)]
        for name in reversed(names):
            await store.put(name, b"")
        after = await store.list(folder, start_after=names[4])
        assert sorted(info.path for info in after) == names[5:]
        assert len(await store.list(folder, limit=3)) == 3
        assert len(await store.list(folder, limit=0)) == 0
        both = await store.list(folder, start_after=names[4], limit=2)
        if store.lists_in_order:
            assert [info.path for info in both] == names[5:7]
        assert len(both) == 2

    async def test_list_of_nothing(self, store: ObjectStore, folder: str) -> None:
        assert list(await store.list(f"{folder}/nothing")) == []

    async def test_put_if_absent(self, store: ObjectStore, folder: str) -> None:
        await store.put_if_absent(f"{folder}/a", [b"fir", b"st"])
        with pytest.raises(AlreadyExistsError) as caught:
            await store.put_if_absent(f"{folder}/a", b"second")
        assert caught.value.path == f"{folder}/a"
        assert await _tail(store, f"{folder}/a", 10) == (b"first", 5)

    async def test_one_of_many_creates(self, store: ObjectStore, folder: str) -> None:
        winners: list[int] = []

        async def create(writer: int) -> None:
            try:
                await store.put_if_absent(f"{folder}/a", b"%d" % writer)
            except AlreadyExistsError:
                return
            winners.append(writer)

        async with anyio.create_task_group() as tg:
            for writer in range(8):
                tg.start_soon(create, writer)
        assert len(winners) == 1
        assert (await store.get_tail(f"{folder}/a", 10))[0] == b"%d" % winners[0]

    async def test_copy(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a b", b"hello")
        await store.put(f"{folder}/c", b"replaced")
        for target in (f"{folder}/c", f"{folder}/d/e"):
            await store.copy(f"{folder}/a b", target)
            assert await _tail(store, target, 10) == (b"hello", 5)
        assert await _tail(store, f"{folder}/a b", 10) == (b"hello", 5)
        with pytest.raises(ObjectNotFoundError):
            await store.copy(f"{folder}/none", f"{folder}/f")

    async def test_delete(self, store: ObjectStore, folder: str) -> None:
        await store.put(f"{folder}/a", b"hello")
        await store.delete(f"{folder}/a")
        await store.delete(f"{folder}/a")
        with pytest.raises(ObjectNotFoundError):
            await store.head(f"{folder}/a")

    async def test_delete_many(self, store: ObjectStore, folder: str) -> None:
        paths = [f"{folder}/{name}" for name in ("none", "a b", "d/e", "n%2Fn", "ü")]
        for path in (*paths[1:], f"{folder}/kept"):
            await store.put(path, b"hello")
        await store.delete_many(paths)
        await store.delete_many(paths)
        await store.delete_many([])
        assert [info.path for info in await store.list(folder)] == [f"{folder}/kept"]

    @pytest.mark.parametrize("num_bytes", [0, 5, UPLOAD_PART_BYTES, 2 * UPLOAD_PART_BYTES + 7])
    async def test_upload(self, store: ObjectStore, folder: str, num_bytes: int) -> None:
        data = (bytes(range(251)) * (num_bytes // 251 + 1))[:num_bytes]
        upload = await store.open_upload(f"{folder}/a")
        step = max(1, num_bytes // 5)
        for start in range(0, num_bytes, step):
            half = start + step // 2
            await upload.write([data[start:half], data[half : start + step]])
        assert list(await store.list(folder)) == []
        await upload.finish()
        view, size = await store.get_tail(f"{folder}/a", num_bytes + 1)
        assert size == num_bytes
        assert view == data

    @pytest.mark.parametrize("num_bytes", [0, 5, UPLOAD_PART_BYTES + 7])
    async def test_aborted_upload(self, store: ObjectStore, folder: str, num_bytes: int) -> None:
        upload = await store.open_upload(f"{folder}/a")
        await upload.write(bytes(num_bytes))
        await upload.abort()
        await upload.abort()
        assert list(await store.list(folder)) == []
