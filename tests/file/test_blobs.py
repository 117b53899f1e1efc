from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.blocks import (
    DataBlock,
    FixedWidthBlock,
    Levels,
    NullBlock,
    PackedStructBlock,
    PageRows,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.spec import Layer
from alance.encodings.step import Decode
from alance.errors import (
    CorruptFileError,
    ObjectNotFoundError,
    StoreError,
    UnsupportedFeatureError,
)
from alance.file import blobs, external
from alance.file.blobs import measure_blobs, read_blobs, sidecar_path
from alance.io.client import StoreClient
from alance.io.simulated import SimulatedStore
from alance.session import Session
from alance.types import ByteRange
from tests.file.tables import PATH, open_reader, write_table

pytestmark = pytest.mark.anyio

Descriptor = tuple[int, int, int, int]
"""Kind, position, size, id."""


class Files:
    """A data file and files beside it, in memory; number 0 is the data file."""

    def __init__(self, **contents: bytes) -> None:
        self.contents = {int(name[1:]): data for name, data in contents.items()}
        self.asked: list[tuple[int, list[ByteRange]]] = []
        self.store = SimulatedStore()
        self.elsewhere = Session().clients.wrap(self.store)

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        return await self.fetch_sidecar(0, ranges)

    async def fetch_sidecar(
        self, blob_id: int, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        self.asked.append((blob_id, list(ranges)))
        data = memoryview(self.contents[blob_id])
        return [data[each.start : each.stop] for each in ranges]

    def locate(self, base_id: int, uri: str) -> tuple[StoreClient, str]:
        assert base_id == 0
        return self.elsewhere, uri


def fixed(values: Sequence[int], bits: int) -> FixedWidthBlock:
    data = np.array(values, f"<u{bits // 8}").view(np.uint8)
    return FixedWidthBlock(bits, len(values), data)


def page(values: DataBlock) -> Decode:
    rows = PageRows(values.num_values, (Layer.ALL_VALID_ITEM,), Levels(None, None), values)
    return Decode(rows.num_rows, lambda: rows)


def described(*descriptors: Descriptor, uri: bytes = b"") -> Decode:
    """A page of descriptors that all have the same URI."""
    columns: list[Any] = list(zip(*descriptors, strict=True))
    members: list[DataBlock] = [
        fixed(column, bits) for column, bits in zip(columns, (8, 64, 64, 32), strict=True)
    ]
    offsets = np.arange(len(descriptors) + 1, dtype=np.int32) * len(uri)
    members.append(VariableWidthBlock(offsets, as_bytes(uri * len(descriptors))))
    return page(PackedStructBlock(len(descriptors), tuple(members)))


async def values_of(pages: list[Decode], files: Files) -> list[list[bytes]]:
    """Bytes of every value."""
    found, _ = await read_blobs(pages, files, files.locate)
    out = []
    for each in found:
        block = each.run().values
        assert isinstance(block, VariableWidthBlock)
        bounds = block.offsets.tolist()
        out.append([bytes(block.data[a:b]) for a, b in pairwise(bounds)])
    return out


async def test_all_homes() -> None:
    files = Files(f0=b"..inline..", f1=b"packed-together", f3=b"dedicated")
    first = described((0, 2, 6, 0), (1, 0, 6, 1), (0, 9, 0, 0), (2, 0, 9, 3))
    second = described((1, 7, 8, 1))
    found = await values_of([first, second], files)
    assert found == [[b"inline", b"packed", b"", b"dedicated"], [b"together"]]
    assert files.asked == [
        (0, [ByteRange(2, 8)]),
        (1, [ByteRange(0, 6), ByteRange(7, 15)]),
        (3, [ByteRange(0, 9)]),
    ]


async def test_nothing_but_nulls() -> None:
    nulls = page(NullBlock(3))
    files = Files()
    found, num_bytes = await read_blobs([nulls], files, files.locate)
    assert num_bytes == 0
    assert found[0].run().values == NullBlock(3)


def test_sidecar_paths() -> None:
    assert sidecar_path("d/data/x.lance", 1) == f"d/data/x/1{'0' * 31}.blob"
    assert sidecar_path("d/data/x.lance", 6) == f"d/data/x/011{'0' * 29}.blob"


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        ((0, 1 << 62, 1, 0), "beyond"),
        ((0, 1, (1 << 64) - 1, 0), "beyond"),
        ((2, 0, 1 << 43, 1), "beyond"),
        ((1, 0, 5, 0), "without a number"),
        ((3, 4, 0, 0), "a position and no size"),
    ],
)
async def test_forged_descriptors(blob: Descriptor, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        await values_of([described(blob)], Files())


async def test_values_that_overlap() -> None:
    with pytest.raises(CorruptFileError, match="overlap"):
        await values_of([described((1, 0, 8, 1), (1, 1, 8, 1))], Files(f1=bytes(9)))


async def test_missing_bytes() -> None:
    files = Files(f1=b"short")
    found, _ = await read_blobs([described((1, 0, 8, 1))], files, files.locate)
    with pytest.raises(CorruptFileError, match="8 bytes, of which 5"):
        found[0].run()


async def test_other_kinds() -> None:
    with pytest.raises(UnsupportedFeatureError, match="kind 9"):
        await values_of([described((9, 0, 0, 0))], Files())


@pytest.mark.parametrize("num_bytes", [0, 10, 5_000_000])
async def test_objects_elsewhere(num_bytes: int) -> None:
    files = Files(f0=b"..inline..")
    data = np.random.default_rng(1).bytes(num_bytes)
    await files.store.put("x", data)
    files.store.requests.clear()
    everything = (3, 0, 0, 0)
    pages = [described((0, 2, 6, 0), everything, uri=b"x"), described(everything, uri=b"x")]
    assert await values_of(pages, files) == [[b"inline", data], [data]]
    at_once = max(files.elsewhere.request_cost_bytes, 64 * 1024)
    assert len(files.store.requests) == 1 + (num_bytes > at_once)


async def test_many_objects_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "OBJECTS_AT_ONCE", 3)
    files, names = Files(), [b"%d" % i for i in range(20)]
    for name in names:
        await files.store.put(name.decode(), b"is " + name)
    pages = [described((3, 0, 0, 0), uri=name) for name in names]
    assert await values_of(pages, files) == [[b"is " + name] for name in names]
    assert await measure_blobs(pages, files.locate) == sum(3 + len(name) for name in names)


async def test_ranges_elsewhere() -> None:
    files = Files()
    await files.store.put("x", b"0123456789")
    files.store.requests.clear()
    page = described((3, 2, 3, 0), (3, 3, 4, 0), (3, 2, 3, 0), uri=b"x")
    assert await values_of([page], files) == [[b"234", b"3456", b"234"]]
    assert [request.kind for request in files.store.requests] == ["get_range"]


async def test_sizes_of_what_lies_elsewhere() -> None:
    files = Files()
    await files.store.put("x", bytes(10))
    pages = [described((3, 0, 0, 0), (3, 2, 3, 0), (0, 0, 7, 0), (3, 0, 0, 0), uri=b"x")]
    files.store.requests.clear()
    assert await measure_blobs(pages, files.locate) == 10 + 3 + 7 + 10
    assert [request.kind for request in files.store.requests] == ["head"]


async def test_objects_elsewhere_that_are_not_there() -> None:
    with pytest.raises(ObjectNotFoundError) as caught:
        await values_of([described((3, 0, 0, 0), uri=b"none")], Files())
    assert caught.value.__notes__ == ["a blob lies at 'none', outside of the dataset"]


async def test_objects_elsewhere_that_are_too_short() -> None:
    files = Files()
    await files.store.put("x", bytes(10))
    with pytest.raises(StoreError):
        await values_of([described((3, 8, 3, 0), uri=b"x")], files)
    with pytest.raises(CorruptFileError, match="10 bytes and is referred to for"):
        await values_of([described((3, 8, 1 << 40, 0), uri=b"x")], files)


async def test_more_elsewhere_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    await files.store.put("x", bytes(1000))
    page = described(*[(3, 0, 0, 0)] * 3, uri=b"x")
    monkeypatch.setattr(blobs, "EXTERNAL_BYTES_MAX", 2999)
    with pytest.raises(UnsupportedFeatureError, match="fewer rows"):
        await values_of([page], files)
    monkeypatch.setattr(external, "EXTERNAL_BYTES_MAX", 999)
    with pytest.raises(UnsupportedFeatureError, match="a blob of 1000 bytes"):
        await values_of([page], files)


async def test_sidecars_that_would_be_long_are_asked_for_their_size() -> None:
    store = SimulatedStore()
    await write_table(store, pa.table({"a": [1]}))
    reader = await open_reader(store, None)
    path = sidecar_path(PATH, 3)
    await store.put(path, b"0123456789")
    store.requests.clear()
    (found,) = await reader.fetch_sidecar(3, [ByteRange(2, 5)])
    assert bytes(found) == b"234"
    assert [request.kind for request in store.requests] == ["get_range"]
    store.requests.clear()
    with pytest.raises(CorruptFileError, match="10 bytes and is referred to for"):
        await reader.fetch_sidecar(3, [ByteRange(2, 5), ByteRange(5, 1 << 40)])
    assert [request.kind for request in store.requests] == ["head"]


@pytest.mark.parametrize(
    "members",
    [
        (),
        (fixed([1], 8), fixed([1], 64), fixed([1], 64), fixed([1], 32)),
        (fixed([1], 64), fixed([1], 64), fixed([1], 64), fixed([1], 32), NullBlock(1)),
    ],
)
async def test_descriptors_of_another_form(members: tuple[DataBlock, ...]) -> None:
    with pytest.raises(CorruptFileError, match="not made of"):
        await values_of([page(PackedStructBlock(1, members))], Files())
