"""Sequences of row ids and versions: their values, and their bytes beside the reference's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, FormatError
from alance.proto import table_pb2 as tables
from alance.table.row_ids import NO_ROW, ROW_ID_MAX, RowIdIndex, RowIds
from alance.table.row_versions import RowVersions
from alance.table.wire import build_manifest, parse_manifest
from alance.table.wire_rows import (
    build_row_ids,
    build_row_versions,
    parse_row_ids,
    parse_row_versions,
)


def u64(values: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.array(values, np.uint64)


def kinds(data: bytes) -> list[str | None]:
    segments = tables.RowIdSequence.FromString(data).segments
    return [segment.WhichOneof("segment") for segment in segments]


SAMPLES: list[tuple[list[int], str]] = [
    (list(range(5, 25)), "range"),
    ([i for i in range(100) if i != 40], "range_with_holes"),
    ([i for i in range(100) if i % 3], "range_with_bitmap"),
    ([1, 500, 70_000, 70_001, 5_000_000_000], "sorted_array"),
    ([1, 500, 600], "sorted_array"),
    ([9, 8, 7, 100], "array"),
    ([ROW_ID_MAX, 0], "array"),
    ([ROW_ID_MAX - 1, ROW_ID_MAX], "range"),
]


@pytest.mark.parametrize(("ids", "kind"), SAMPLES, ids=[f"{k}-{len(i)}" for i, k in SAMPLES])
def test_the_form_that_is_chosen(ids: list[int], kind: str) -> None:
    data = build_row_ids(RowIds.from_ids(u64(ids)))
    assert kinds(data) == [kind]
    assert parse_row_ids(data, len(ids), path="t").ids().tolist() == ids


def test_no_rows() -> None:
    none = RowIds.from_ids(u64([]))
    assert len(none) == 0
    assert kinds(build_row_ids(none)) == ["range"]
    assert parse_row_ids(build_row_ids(none), 0, path="t").ids().tolist() == []
    assert RowIds.concat([none, RowIds.from_range(3, 3)]).ids().tolist() == []
    assert none.select(np.zeros(0, np.int64)).ids().tolist() == []


def test_a_long_range_stays_short() -> None:
    ids = RowIds.from_range(1 << 40, (1 << 40) + (1 << 32))
    assert parse_row_ids(build_row_ids(ids), 1 << 32, path="t").runs.tolist() == [1 << 32]
    assert ids.ids_at(np.array([7, 0])).tolist() == [(1 << 40) + 7, 1 << 40]
    assert ids.ids(10, 12).tolist() == [(1 << 40) + 10, (1 << 40) + 11]


def test_segments_are_stored_one_by_one() -> None:
    scattered = RowIds.from_ids(u64([4_000_000, 9_000_000, 9_500_000]))
    both = RowIds.concat([RowIds.from_range(0, 1000), scattered, RowIds.from_range(1000, 2000)])
    assert kinds(build_row_ids(both)) == ["range", "sorted_array", "range"]
    kept = both.select(np.delete(np.arange(len(both)), [1000, 1500]))
    assert kinds(build_row_ids(kept)) == ["range", "sorted_array", "range_with_holes"]
    assert kept.ids().tolist() == np.delete(both.ids(), [1000, 1500]).tolist()


def test_ranges_that_meet_become_one() -> None:
    parts = [RowIds.from_range(0, 10), RowIds.from_range(10, 15), RowIds.from_range(15, 16)]
    assert kinds(build_row_ids(RowIds.concat(parts))) == ["range"]
    assert RowIds.concat(parts).ids().tolist() == list(range(16))
    apart = RowIds.concat([RowIds.from_range(5, 10), RowIds.from_range(0, 5)])
    assert kinds(build_row_ids(apart)) == ["range", "range"]


id_lists = st.lists(
    st.one_of(st.integers(0, 60), st.integers(0, 1 << 17), st.integers(0, ROW_ID_MAX)),
    unique=True,
    max_size=30,
)


@given(parts=st.lists(st.tuples(id_lists, st.booleans()), max_size=4), seed=st.randoms())
def test_parts_put_together_and_cut(
    parts: list[tuple[list[int], bool]], seed: random.Random
) -> None:
    lists = [sorted(ids) if ascending else ids for ids, ascending in parts]
    model = [i for ids in lists for i in ids]
    made = RowIds.concat([RowIds.from_ids(u64(ids)) for ids in lists])
    assert made.ids().tolist() == model
    assert parse_row_ids(build_row_ids(made), len(model), path="t").ids().tolist() == model
    kept = np.array([i for i in range(len(model)) if seed.random() < 0.7], np.int64)
    assert made.select(kept).ids().tolist() == [model[i] for i in kept]


@given(st.data())
def test_addresses_of_live_rows(data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 40), unique=True, max_size=30))
    cut = data.draw(st.integers(0, len(ids)))
    moved = ids[:cut][::2]  # live in the last fragment, deleted in the first
    fragments = [
        (3, ids[:cut], list(range(0, cut, 2))),
        (7, ids[cut:], []),
        (9, moved, []),
    ]
    index = RowIdIndex.build(
        (fragment_id, RowIds.from_ids(u64(values)), np.array(deleted, np.uint32))
        for fragment_id, values, deleted in fragments
    )
    model = {
        value: fragment_id << 32 | offset
        for fragment_id, values, deleted in fragments
        for offset, value in enumerate(values)
        if offset not in deleted
    }
    found = index.lookup(np.arange(50, dtype=np.uint64)).tolist()
    assert found == [model.get(value, NO_ROW) for value in range(50)]


def test_no_addresses() -> None:
    index = RowIdIndex.build([])
    assert index.lookup(u64([0, 5])).tolist() == [NO_ROW, NO_ROW]
    gone = RowIdIndex.build([(0, RowIds.from_range(0, 2), np.array([0, 1]))])
    assert gone.lookup(u64([0, 5])).tolist() == [NO_ROW, NO_ROW]


def test_an_id_that_two_live_rows_have() -> None:
    rows = RowIds.from_range(0, 5)
    with pytest.raises(CorruptFileError, match="two live rows have the stable id 3"):
        RowIdIndex.build([(0, rows, None), (1, RowIds.from_range(3, 6), None)])


@given(st.lists(st.lists(st.integers(1, 4), max_size=12), max_size=4))
def test_row_versions(lists: list[list[int]]) -> None:
    model = [version for versions in lists for version in versions]
    made = RowVersions.concat([RowVersions.from_versions(u64(each)) for each in lists])
    assert made.versions().tolist() == model
    data = build_row_versions(made)
    assert parse_row_versions(data, len(model), path="t").versions().tolist() == model
    assert made.select(np.arange(0, len(model), 2)).versions().tolist() == model[::2]


def test_row_versions_that_are_not_stored() -> None:
    assert parse_row_versions(None, 3, path="t").versions(1).tolist() == [1, 1]


def test_spans_count_wherever_they_start() -> None:
    message = tables.RowDatasetVersionSequence()
    for start in (10, 0):
        run = message.runs.add(version=start + 1)
        run.span.range.start, run.span.range.end = start, start + 2
    parsed = parse_row_versions(message.SerializeToString(), 4, path="t")
    assert parsed.versions().tolist() == [11, 11, 1, 1]


def segment(**members: object) -> bytes:
    return tables.RowIdSequence(segments=[tables.U64Segment(**members)]).SerializeToString()  # type: ignore[arg-type]


def u16(base: int, *offsets: int) -> dict[str, object]:
    return {"u16_array": {"base": base, "offsets": np.array(offsets, "<u2").tobytes()}}


HOSTILE: list[tuple[bytes, str]] = [
    (segment(range={"start": 5, "end": 4}), "range from 5 to 4"),
    (segment(range={"start": 0, "end": 2**63}), "rows are left for 4"),
    (segment(range={"start": 2**64 - 4, "end": 2**64 - 1}), "3 row ids for 4 rows"),
    (segment(), "of no known kind"),
    (b"\x0a\x02\x32\x00", "of no known kind"),
    (segment(array={}), "array of row ids is of no known kind"),
    (segment(array={"u32_array": {"offsets": b"abc"}}), "no multiple of 4"),
    (segment(array=u16(2**64 - 2, 0, 1)), "is above"),
    (segment(array={"u64_array": {"values": b"\xff" * 8}}), "is above"),
    (segment(sorted_array=u16(0, 1, 1)), "do not ascend"),
    (segment(array=u16(0, 1, 2, 3, 4, 5)), "5 values where rows are left for 4"),
    (segment(range_with_holes={"start": 3, "end": 8, "holes": u16(0, 2)}), "out of order"),
    (segment(range_with_holes={"start": 3, "end": 8, "holes": u16(0, 8)}), "out of order"),
    (segment(range_with_holes={"start": 3, "end": 8, "holes": u16(0, 5, 4)}), "out of order"),
    (segment(range_with_holes={"start": 0, "end": 2**62, "holes": u16(0, 1)}), "left for 4"),
    (segment(range_with_bitmap={"start": 0, "end": 9, "bitmap": b"\xff"}), "1 bytes of bitmap"),
    (segment(range_with_bitmap={"start": 0, "end": 4, "bitmap": b"\x1f"}), "longer than its"),
    (segment(range_with_bitmap={"start": 0, "end": 8, "bitmap": b"\x1f"}), "left for 4"),
    (segment(range_with_bitmap={"start": 0, "end": 2**62}), "0 bytes of bitmap"),
]


@pytest.mark.parametrize(("data", "complaint"), HOSTILE)
def test_sequences_that_contradict_themselves(data: bytes, complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        parse_row_ids(data, 4, path="t")


def test_versions_for_other_rows() -> None:
    data = build_row_versions(RowVersions.uniform(5, 1))
    for num_rows, complaint in ((6, "5 row versions for 6 rows"), (4, "left for 4")):
        with pytest.raises(CorruptFileError, match=complaint):
            parse_row_versions(data, num_rows, path="t")


def test_all_is_hole() -> None:
    data = segment(range_with_holes={"start": 3, "end": 5, "holes": u16(3, 0, 1)})
    assert len(parse_row_ids(data, 0, path="t")) == 0


def test_damaged_bytes_are_format_errors_only() -> None:
    rng = random.Random(5)
    for i in range(4000):
        ids, _ = SAMPLES[i % len(SAMPLES)]
        data = bytearray(build_row_ids(RowIds.from_ids(u64(ids))))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse_row_ids(bytes(data[: rng.randint(0, len(data))]), len(ids), path="t")
        except FormatError:
            continue


def rewritten(path: Path, row_ids: bytes) -> lance.LanceDataset:
    """The dataset, its only fragment with other row ids, as the reference opens it."""
    (file,) = (path / "_versions").glob("*.manifest")
    manifest = parse_manifest(memoryview(file.read_bytes()), path="t")
    fragment = replace(manifest.fragments[0], row_ids=row_ids)
    changed = replace(manifest, fragments=(fragment,), next_row_id=ROW_ID_MAX - 1)
    file.write_bytes(b"".join(build_manifest(changed)))
    return lance.dataset(path)


@pytest.mark.parametrize("ids", [ids for ids, _ in SAMPLES[:6]], ids=[k for _, k in SAMPLES[:6]])
def test_the_reference_reads_them(ids: list[int], tmp_path: Path) -> None:
    table = pa.table({"i": pa.array(range(len(ids)), pa.int32())})
    lance.write_dataset(table, tmp_path / "d", enable_stable_row_ids=True)
    theirs = rewritten(tmp_path / "d", build_row_ids(RowIds.from_ids(u64(ids))))
    assert theirs.to_table(with_row_id=True)["_rowid"].to_pylist() == ids
    taken = theirs._take_rows(ids[::2])
    assert taken["i"].to_pylist() == list(range(0, len(ids), 2))


def test_the_forms_of_the_reference(tmp_path: Path) -> None:
    """Every fragment of a table that was updated and compacted reads as the reference reads it."""
    path = tmp_path / "d"
    table = pa.table({"i": pa.array(range(300), pa.int32()), "v": pa.array([0] * 300)})
    theirs = lance.write_dataset(table, path, enable_stable_row_ids=True, max_rows_per_file=100)
    theirs.update({"v": "1"}, where="i % 7 = 0")
    theirs.update({"v": "2"}, where="i in (3, 150, 151, 152)")
    theirs.delete("i between 20 and 60 or i % 5 = 1")
    for _ in range(2):
        (stored,) = (
            p
            for p in (path / "_versions").iterdir()
            if p.name == f"{2**64 - 1 - lance.dataset(path).version:020}.manifest"
        )
        manifest = parse_manifest(memoryview(stored.read_bytes()), path="t")
        columns = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        for fragment in manifest.fragments:
            rows = fragment.physical_rows
            read = (
                lance
                .dataset(path)
                .get_fragment(fragment.id)
                .to_table(columns=columns, with_row_address=True)
            )
            offsets = read["_rowaddr"].to_numpy() & np.uint64(0xFFFF_FFFF)
            ids = parse_row_ids(fragment.row_ids or b"", rows, path="t")
            created = parse_row_versions(fragment.created_at, rows, path="t")
            updated = parse_row_versions(fragment.last_updated_at, rows, path="t")
            assert ids.ids_at(offsets).tolist() == read[columns[0]].to_pylist()
            assert created.versions_at(offsets).tolist() == read[columns[1]].to_pylist()
            assert updated.versions_at(offsets).tolist() == read[columns[2]].to_pylist()
            assert build_row_ids(ids) == fragment.row_ids
        lance.dataset(path).optimize.compact_files()
