"""Deletion files of both forms, as pylance writes them and as nobody should."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, InvalidInputError, ObjectNotFoundError
from alance.io.simulated import SimulatedStore
from alance.table.deletion import deletion_path, parse_deletion_vector, read_deletion_vector
from alance.table.manifest import DeletionFile, DeletionKind, Fragment
from alance.table.versions import read_manifest
from tests.table.samples import at, fragment, load

ROWS = 100_000
ROW_ID = pa.field("row_id", pa.uint32(), nullable=False)


def deleted(kind: DeletionKind, num_rows: int, *, rows: int = ROWS) -> Fragment:
    file = DeletionFile(kind, read_version=1, id=2**64 - 1, num_deleted_rows=num_rows)
    return replace(fragment("x", rows=rows, id=7), deletion_file=file)


def arrow_file(*batches: pa.RecordBatch, compression: str | None = None) -> memoryview:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def batch_of(offsets: Sequence[int], field: pa.Field = ROW_ID) -> pa.RecordBatch:
    return pa.record_batch([pa.array(offsets, field.type)], schema=pa.schema([field]))


def parse_arrow(data: memoryview, num_rows: int) -> list[int]:
    vector = parse_deletion_vector(data, deleted(DeletionKind.ARROW, num_rows), path="d")
    assert vector.dtype == np.uint32
    return list(map(int, vector))


def parse_bitmap(data: bytes, num_rows: int) -> list[int]:
    vector = parse_deletion_vector(
        memoryview(data), deleted(DeletionKind.BITMAP, num_rows), path="d"
    )
    assert vector.dtype == np.uint32
    return list(map(int, vector))


some_offsets = st.lists(st.integers(0, ROWS - 1), max_size=50, unique=True)


@given(some_offsets, st.sampled_from([None, "lz4", "zstd"]))
def test_arrow_in_any_order_and_compression(offsets: list[int], compression: str | None) -> None:
    data = arrow_file(batch_of(offsets), compression=compression)
    assert parse_arrow(data, len(offsets)) == sorted(offsets)


@given(some_offsets, st.booleans())
def test_bitmap_with_and_without_runs(offsets: list[int], runs: bool) -> None:
    bitmap = pyroaring.BitMap(offsets)
    if runs:
        bitmap.run_optimize()
    assert parse_bitmap(bitmap.serialize(), len(offsets)) == sorted(offsets)


@pytest.mark.anyio
@pytest.mark.parametrize("num_deleted", [1, 4999, 5000])
async def test_what_the_reference_writes(tmp_path: Path, num_deleted: int) -> None:
    path = tmp_path / "d.lance"
    lance.write_dataset(pa.table({"i": range(20_000)}), path)
    lance.dataset(path).delete(f"i % 4 = 0 and i < {4 * num_deleted}")
    store = SimulatedStore()
    root = load(store, path)
    (only,) = (await read_manifest(at(store, root))).fragments
    assert only.deletion_file is not None
    kind = DeletionKind.ARROW if num_deleted < 5000 else DeletionKind.BITMAP
    assert only.deletion_file.kind is kind
    assert only.num_rows == 20_000 - num_deleted
    store.requests.clear()
    vector = await read_deletion_vector(store, root, only)
    assert vector.tolist() == list(range(0, 4 * num_deleted, 4))
    assert [request.kind for request in store.requests] == ["get_tail"]


def test_the_name_of_a_deletion_file() -> None:
    found = deletion_path("a", deleted(DeletionKind.BITMAP, 1))
    assert found == "a/_deletions/7-1-18446744073709551615.bin"
    with pytest.raises(InvalidInputError, match="fragment 0 has no deletion file"):
        deletion_path("a", fragment("x"))


@pytest.mark.anyio
async def test_a_deletion_file_that_is_missing_or_too_large() -> None:
    store = SimulatedStore()
    one = deleted(DeletionKind.ARROW, 1)
    with pytest.raises(ObjectNotFoundError):
        await read_deletion_vector(store, "a", one)
    store.preload(deletion_path("a", one), b"x" * (2 << 20))
    with pytest.raises(CorruptFileError, match="expected an object of 1 to"):
        await read_deletion_vector(store, "a", one)


@pytest.mark.parametrize(
    "batch",
    [
        batch_of([1, 2], pa.field("row_id", pa.int32(), nullable=False)),
        batch_of([1, 2], pa.field("row_id", pa.uint32())),
        batch_of([1, 2], pa.field("rows", pa.uint32(), nullable=False)),
        pa.record_batch([[1, 2], [1, 2]], names=["row_id", "b"]),
    ],
)
def test_other_columns_are_refused(batch: pa.RecordBatch) -> None:
    with pytest.raises(CorruptFileError, match="one column, row_id: uint32 not null"):
        parse_arrow(arrow_file(batch), 2)


def test_several_batches_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="found 2 of"):
        parse_arrow(arrow_file(batch_of([1]), batch_of([2])), 2)


@pytest.mark.parametrize("kind", DeletionKind)
def test_the_manifest_is_held_against_the_file(kind: DeletionKind) -> None:
    offsets = [1, 5, 9]
    data = (
        arrow_file(batch_of(offsets))
        if kind is DeletionKind.ARROW
        else memoryview(pyroaring.BitMap(offsets).serialize())
    )
    with pytest.raises(CorruptFileError, match="3 row offsets are deleted, the manifest says 4"):
        parse_deletion_vector(data, deleted(kind, 4), path="d")
    with pytest.raises(CorruptFileError, match="row offset 9 is deleted, but fragment 7 has 9"):
        parse_deletion_vector(data, deleted(kind, 3, rows=9), path="d")


def test_an_offset_twice_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="deleted twice"):
        parse_arrow(arrow_file(batch_of([3, 4, 3])), 3)


@pytest.mark.parametrize("claim", [8001, 2**40, 2**62, -2, -(2**63)])
def test_a_forged_size_is_refused_before_it_is_allocated(claim: int) -> None:
    data = bytes(arrow_file(batch_of(range(2000)), compression="zstd"))
    size = struct.pack("<q", 8000)
    assert data.count(size) == 1
    forged = data.replace(size, struct.pack("<q", claim))
    with pytest.raises(CorruptFileError, match=f"claims {claim} bytes for 2000"):
        parse_arrow(memoryview(forged), 2000)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_damaged_arrow_files_are_format_errors_only(compression: str | None) -> None:
    data = bytes(arrow_file(batch_of(range(500)), compression=compression))
    rng = random.Random(5)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        cut = rng.randrange(len(data)) if rng.random() < 0.2 else len(data)
        try:
            vector = parse_arrow(memoryview(damaged)[:cut], 500)
        except CorruptFileError:
            refused += 1
        else:
            assert len(vector) == 500
    assert refused > 300


def test_damaged_bitmaps_are_format_errors_only() -> None:
    bitmap = pyroaring.BitMap([*range(0, 9000, 2), *range(70_000, 80_000)])
    data = bitmap.serialize()
    rng = random.Random(5)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(rng.choice([40, len(data)]))] = rng.randrange(256)
        cut = rng.randrange(len(data)) if rng.random() < 0.2 else len(data)
        try:
            vector = parse_bitmap(bytes(damaged[:cut]), len(bitmap))
        except CorruptFileError:
            refused += 1
        else:
            assert vector == sorted(set(vector))
    assert refused > 300
