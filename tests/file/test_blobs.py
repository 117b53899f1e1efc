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
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.file.blobs import read_blobs, sidecar_path
from alance.io.simulated import SimulatedStore
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


def fixed(values: Sequence[int], bits: int) -> FixedWidthBlock:
    data = np.array(values, f"<u{bits // 8}").view(np.uint8)
    return FixedWidthBlock(bits, len(values), data)


def page(values: DataBlock) -> Decode:
    rows = PageRows(values.num_values, (Layer.ALL_VALID_ITEM,), Levels(None, None), values)
    return Decode(rows.num_rows, lambda: rows)


def described(*blobs: Descriptor, uri: bytes = b"") -> Decode:
    """A page of descriptors that all have the same URI."""
    columns: list[Any] = list(zip(*blobs, strict=True))
    members: list[DataBlock] = [
        fixed(column, bits) for column, bits in zip(columns, (8, 64, 64, 32), strict=True)
    ]
    offsets = np.arange(len(blobs) + 1, dtype=np.int32) * len(uri)
    members.append(VariableWidthBlock(offsets, as_bytes(uri * len(blobs))))
    return page(PackedStructBlock(len(blobs), tuple(members)))


async def values_of(pages: list[Decode], files: Files) -> list[list[bytes]]:
    """Bytes of every value."""
    found, _ = await read_blobs(pages, files)
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
    found, num_bytes = await read_blobs([nulls], Files())
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
    ],
)
async def test_forged_descriptors(blob: Descriptor, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        await read_blobs([described(blob)], Files())


async def test_values_that_overlap() -> None:
    with pytest.raises(CorruptFileError, match="overlap"):
        await read_blobs([described((1, 0, 8, 1), (1, 1, 8, 1))], Files(f1=bytes(9)))


async def test_missing_bytes() -> None:
    found, _ = await read_blobs([described((1, 0, 8, 1))], Files(f1=b"short"))
    with pytest.raises(CorruptFileError, match="8 bytes, of which 5"):
        found[0].run()


async def test_other_kinds() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'s3://elsewhere/x'"):
        await read_blobs([described((3, 0, 0, 0), uri=b"s3://elsewhere/x")], Files())
    with pytest.raises(UnsupportedFeatureError, match="kind 9"):
        await read_blobs([described((9, 0, 0, 0))], Files())


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
        await read_blobs([page(PackedStructBlock(1, members))], Files())
