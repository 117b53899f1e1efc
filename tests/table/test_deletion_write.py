"""Deletion files as this library writes them, and as pylance reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.fragment import DeletionFile as ReferenceFile

from alance.io.simulated import SimulatedStore
from alance.table.deletion import (
    BITMAP_ROWS_MIN,
    encode_deletion_vector,
    parse_deletion_vector,
    read_deletion_vector,
    write_deletion_file,
)
from alance.table.manifest import DeletionFile, DeletionKind
from tests.table.samples import ROOT, fragment

ROWS = 100_000


@given(
    st.one_of(
        st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=50),
        st.integers(1, ROWS).map(range),
    ),
    st.sampled_from(DeletionKind),
)
def test_what_is_encoded_is_decoded(rows: list[int] | range, kind: DeletionKind) -> None:
    offsets = pyroaring.BitMap(rows)
    file = DeletionFile(kind, 1, 1, len(offsets))
    found = parse_deletion_vector(
        encode_deletion_vector(offsets, kind),
        replace(fragment("x", rows=ROWS), deletion_file=file),
        path="d",
    )
    assert found.tolist() == list(offsets)


def test_arrow_files_are_compressed_where_it_pays() -> None:
    data = encode_deletion_vector(pyroaring.BitMap(range(4999)), DeletionKind.ARROW)
    reader = pa.ipc.open_file(pa.py_buffer(data))
    assert reader.schema.equals(
        pa.schema([pa.field("row_id", pa.uint32(), nullable=False)]), check_metadata=True
    )
    assert reader.schema.metadata is None
    assert reader.num_record_batches == 1
    assert len(data) < 4 * 4999


@pytest.mark.anyio
@pytest.mark.parametrize("num_rows", [1, BITMAP_ROWS_MIN - 1, BITMAP_ROWS_MIN])
async def test_the_form_follows_the_number_of_rows(num_rows: int) -> None:
    store = SimulatedStore()
    offsets = pyroaring.BitMap(range(0, 2 * num_rows, 2))
    file = await write_deletion_file(store, ROOT, 3, offsets, read_version=8)
    small = num_rows < BITMAP_ROWS_MIN
    assert file.kind is (DeletionKind.ARROW if small else DeletionKind.BITMAP)
    assert (file.read_version, file.num_deleted_rows, file.base_id) == (8, num_rows, None)
    (info,) = await store.list(f"{ROOT}/_deletions")
    assert info.path == f"{ROOT}/_deletions/3-8-{file.id}.{'arrow' if small else 'bin'}"
    holder = replace(fragment("x", rows=3 * num_rows, id=3), deletion_file=file)
    assert (await read_deletion_vector(store, ROOT, holder)).tolist() == list(offsets)


@pytest.mark.anyio
async def test_names_are_never_used_twice() -> None:
    store = SimulatedStore()
    offsets = pyroaring.BitMap([1])
    files = [await write_deletion_file(store, ROOT, 0, offsets, read_version=1) for _ in range(3)]
    assert len({file.id for file in files}) == 3


@pytest.mark.parametrize("kind", DeletionKind)
@pytest.mark.parametrize("rows", [[3], range(9000), range(0, 20_000, 2)])
def test_the_reference_reads_both_forms_of_any_size(
    tmp_path: Path, kind: DeletionKind, rows: list[int] | range
) -> None:
    place = tmp_path / "d.lance"
    ds = lance.write_dataset(pa.table({"i": np.arange(20_000)}), place)
    offsets = pyroaring.BitMap(rows)
    (place / "_deletions").mkdir()
    name = f"0-1-{2**64 - 1}.{kind.value}"
    (place / "_deletions" / name).write_bytes(encode_deletion_vector(offsets, kind))
    (only,) = ds.get_fragments()
    form = "array" if kind is DeletionKind.ARROW else "bitmap"
    metadata = only.metadata
    metadata.deletion_file = ReferenceFile(1, 2**64 - 1, form, len(offsets), None)
    operation = lance.LanceOperation.Delete([metadata], [], "any")
    ds = lance.LanceDataset.commit(place, operation, read_version=1)
    live = sorted(set(range(20_000)) - set(rows))
    assert ds.to_table()["i"].to_pylist() == live
    assert ds.count_rows() == len(live)
