"""Manifests as bytes: those of pylance come back bit for bit, damaged ones as errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from alance.proto import table_pb2 as tables
from alance.table.framing import build_trailer, frame, manifest_section
from alance.table.manifest import (
    BasePath,
    DataFile,
    DeletionFile,
    DeletionKind,
    Fragment,
    Manifest,
    Naming,
    WriterVersion,
)
from alance.table.wire import build_fragment, build_manifest, parse_fragment, parse_manifest
from alance.types import FileVersion
from tests.table.samples import fragment, manifest, objects_below

DATA = pa.table({
    "i": pa.array([1, 2, 3], pa.int32()),
    "s": ["x", None, "z"],
    "l": [[1], [2, 3], None],
})


def write_history(path: Path) -> None:
    """Every kind of manifest that can be had with few calls."""
    lance.write_dataset(DATA, path, data_storage_version="2.1")
    lance.write_dataset(DATA, path, mode="append")
    dataset = lance.dataset(path)
    dataset.delete("i = 1")
    dataset.create_scalar_index("i", "BTREE")
    dataset.update_config({"key": "value"})
    dataset.update_metadata({"about": "tests"})
    dataset.update_schema_metadata({"schema": "metadata"})
    lance.write_dataset(DATA, path, mode="append", data_storage_version="2.2")
    lance.write_dataset(DATA, path, mode="overwrite")


def manifests_of(path: Path) -> dict[str, bytes]:
    found = objects_below(path)
    return {key: data for key, data in found.items() if key.endswith(".manifest")}


def whole(value: Manifest) -> memoryview:
    return memoryview(b"".join(build_manifest(value)))


def forged(change: Callable[[tables.Manifest], object]) -> memoryview:
    """A manifest file with its message changed."""
    message = tables.Manifest()
    base = manifest(1, fragment("x", id=0), fragment("y", id=1), index_section=b"index")
    section = manifest_section(whole(base), "m")
    message.ParseFromString(bytes(section))
    change(message)
    pieces, positions = frame([b"index", message.SerializeToString()])
    return memoryview(b"".join([*pieces, build_trailer(positions[-1])]))


def test_manifests_of_the_reference_come_back_bit_for_bit(tmp_path: Path) -> None:
    write_history(tmp_path / "d.lance")
    found = manifests_of(tmp_path / "d.lance")
    assert len(found) == 9
    for key, data in found.items():
        assert bytes(whole(parse_manifest(memoryview(data), path=key))) == data


def test_stable_row_ids_of_the_reference_come_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    lance.write_dataset(DATA, path, enable_stable_row_ids=True, data_storage_version="2.1")
    lance.write_dataset(DATA, path, mode="append")
    lance.dataset(path).update({"s": "'new'"}, where="i = 2")
    for key, data in manifests_of(path).items():
        parsed = parse_manifest(memoryview(data), path=key)
        assert bytes(whole(parsed)) == data
        assert all(f.row_ids and f.created_at and f.last_updated_at for f in parsed.fragments)


def test_a_manifest_of_the_reference_says_what_it_should(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    write_history(path)
    key, data = min(manifests_of(path).items())
    newest = parse_manifest(memoryview(data), path=key)
    reference = lance.dataset(path)
    assert newest.version == reference.version == 9
    assert newest.num_rows == reference.count_rows() == 3
    told = reference.versions()[-1]["timestamp"]  # through a float
    assert abs(newest.timestamp.timestamp() - told.timestamp()) < 2e-6
    assert newest.schema.to_arrow() == reference.schema
    assert (newest.config, newest.table_metadata) == ({"key": "value"}, {"about": "tests"})
    assert newest.writer == WriterVersion("lance", lance.__version__)
    assert [f.id for f in newest.fragments] == [f.fragment_id for f in reference.get_fragments()]


names = st.text(max_size=8)
small = st.integers(0, 2**32 - 2)
file_versions = st.sampled_from([FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2])


@st.composite
def fragments(draw: st.DrawFn, id: int) -> Fragment:
    ids = draw(st.lists(st.integers(0, 2**31 - 1), max_size=4, unique=True))
    ids += draw(st.lists(st.sampled_from([-2, -3]), max_size=2))
    file = DataFile(
        draw(st.sampled_from(["a.lance", "a/b.lance", "é.lance"])),
        tuple(ids),
        tuple(draw(st.integers(-1, 2**31 - 1)) for _ in ids),
        draw(file_versions),
        draw(st.integers(0, 2**64 - 1)),
        draw(st.none() | st.just(0)),
        draw(st.sampled_from([b"", b"\x9a\x06\x01x"])),
    )
    rows = draw(st.integers(0, 2**32))
    deletion = DeletionFile(
        draw(st.sampled_from(DeletionKind)),
        draw(st.integers(0, 2**64 - 1)),
        draw(st.integers(0, 2**64 - 1)),
        draw(st.integers(0, rows)),
    )
    optional = st.none() | st.binary(max_size=4)
    return Fragment(
        id,
        (file,),
        rows,
        draw(st.none() | st.just(deletion)),
        *draw(st.tuples(optional, optional, optional)),
        unknown=draw(st.sampled_from([b"", b"\x62\x00", b"\x98\x06\x05"])),
    )


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    ids = draw(st.lists(small, max_size=3, unique=True))
    text_map = st.dictionaries(names, names, max_size=2)
    return Manifest(
        version=draw(st.integers(1, 2**63 - 1)),
        schema=manifest().schema,
        fragments=tuple(draw(fragments(id=i)) for i in ids),
        file_version=draw(file_versions),
        timestamp_ns=draw(st.integers(-(10**18), 10**19)),
        naming=draw(st.sampled_from(Naming)),
        writer_flags=draw(st.integers(0, 2**64 - 1)),
        max_fragment_id=draw(st.none() | small),
        next_row_id=draw(st.integers(0, 2**64 - 1)),
        config=draw(text_map),
        table_metadata=draw(text_map),
        base_paths=(BasePath(0, draw(names), draw(st.booleans()), draw(st.none() | names)),),
        branch=draw(st.none() | names),
        tag=draw(names),
        writer=draw(st.none() | st.just(WriterVersion("x", "1", draw(st.none() | names)))),
        max_allocated_field_id=draw(st.none() | st.integers(0, 2**31 - 1)),
        transaction_file=draw(names),
        transaction=draw(st.none() | st.binary(max_size=9)),
        index_section=draw(st.none() | st.binary(max_size=9)),
        unknown=draw(st.sampled_from([b"", b"\xca\x01\x02ab"])),
    )


@given(manifests())
def test_manifests_round_trip(value: Manifest) -> None:
    assert parse_manifest(whole(value), path="m", naming=value.naming) == value


@given(fragments(id=5))
def test_fragments_round_trip_alone(value: Fragment) -> None:
    assert parse_fragment(build_fragment(value)) == value


def test_an_inline_transaction_is_found_where_old_writers_put_it() -> None:
    def change(message: tables.Manifest) -> None:
        message.transaction_section_2025 = 0

    parsed = parse_manifest(forged(change), path="m")
    assert parsed.transaction == b"index"
    assert parsed.unknown == b""


def test_unknown_fields_are_carried_at_every_level() -> None:
    extra = b"\x9a\x06\x03new"  # field 99

    def change(message: tables.Manifest) -> None:
        message.MergeFromString(extra)
        message.fragments[0].MergeFromString(extra)
        message.fragments[0].files[0].MergeFromString(extra)
        message.fragments[0].deletion_file.MergeFromString(extra)

    parsed = parse_manifest(forged(change), path="m")
    first = parsed.fragments[0]
    assert first.deletion_file is not None
    assert {extra} == {
        parsed.unknown,
        first.unknown,
        first.files[0].unknown,
        first.deletion_file.unknown,
    }
    assert bytes(whole(parsed)).count(extra) == 4


def no_format(message: tables.Manifest) -> None:
    message.ClearField("data_format")


def test_old_manifests_go_by_their_files_for_the_version() -> None:
    assert parse_manifest(forged(no_format), path="m").file_version is FileVersion.V2_1

    def empty(message: tables.Manifest) -> None:
        no_format(message)
        del message.fragments[:]

    assert parse_manifest(forged(empty), path="m").file_version is FileVersion.V0_1

    def flagged(message: tables.Manifest) -> None:
        empty(message)
        message.writer_feature_flags = 4

    assert parse_manifest(forged(flagged), path="m").file_version is FileVersion.V2_0


PATHS = [
    "",
    "/etc/passwd",
    "../x.lance",
    "a/../../x.lance",
    "a//b.lance",
    "./x.lance",
    "s3://bucket/x.lance",
    "C:x.lance",
    "a\\b.lance",
    "a\0b.lance",
    "a\nb.lance",
    "x" * 2000,
]


@pytest.mark.parametrize("path", PATHS)
def test_a_data_file_lies_below_data(path: str) -> None:
    def change(message: tables.Manifest) -> None:
        message.fragments[0].files[0].path = path

    with pytest.raises(CorruptFileError, match="below data/") as caught:
        parse_manifest(forged(change), path="m")
    assert caught.value.path == "m"


FORGERIES: dict[str, tuple[Callable[[tables.Manifest], object], str]] = {
    "twice the same id": (lambda m: setattr(m.fragments[1], "id", 0), "same id"),
    "fragment id": (lambda m: setattr(m.fragments[1], "id", 2**32 - 1), "ids are below"),
    "rows": (lambda m: setattr(m.fragments[0], "physical_rows", 2**32 + 1), "at most"),
    "deleted rows": (
        lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 11),
        "11 rows deleted of 10",
    ),
    "field twice": (lambda m: m.fragments[0].files[0].fields.__setitem__(1, 0), "two of its files"),
    "columns": (lambda m: m.fragments[0].files[0].column_indices.pop(), "2 field ids for 1"),
    "column": (
        lambda m: m.fragments[0].files[0].column_indices.__setitem__(0, -2),
        "column index below -1",
    ),
    "index section": (lambda m: setattr(m, "index_section", 2**63), "index section at"),
    "transaction": (lambda m: setattr(m, "transaction_section", 10**6), "transaction section at"),
    "base path": (lambda m: setattr(m.fragments[0].files[0], "base_id", 4), "not listed"),
    "base path of a deletion file": (
        lambda m: setattr(m.fragments[0].deletion_file, "base_id", 4),
        "not listed",
    ),
    "base paths": (
        lambda m: m.base_paths.extend([tables.BasePath(id=3), tables.BasePath(id=3)]),
        "two base paths",
    ),
    "time": (lambda m: setattr(m.timestamp, "seconds", 2**62), "timestamp"),
    "parent": (lambda m: setattr(m.fields[0], "parent_id", 77), "."),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_manifest_is_corrupt(name: str) -> None:
    change, message = FORGERIES[name]
    with pytest.raises(CorruptFileError, match=message):
        parse_manifest(forged(change), path="m")


UNSUPPORTED: dict[str, tuple[Callable[[tables.Manifest], object], str]] = {
    "reader flag": (lambda m: setattr(m, "reader_feature_flags", 1 << 12), "bit 12"),
    "file version": (lambda m: setattr(m.data_format, "version", "3.7"), "'3.7'"),
    "file format": (lambda m: setattr(m.data_format, "file_format", "parquet"), "'parquet'"),
    "data file": (lambda m: setattr(m.fragments[0].files[0], "file_major_version", 9), "9.1"),
    "deletion file": (lambda m: setattr(m.fragments[0].deletion_file, "file_type", 7), "type 7"),
    "type": (lambda m: setattr(m.fields[0], "logical_type", "hologram"), "hologram"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_known_is_named(name: str) -> None:
    change, message = UNSUPPORTED[name]
    with pytest.raises(UnsupportedFeatureError, match=message):
        parse_manifest(forged(change), path="m")


def test_damaged_bytes_are_format_errors_only() -> None:
    base = manifest(
        1,
        replace(fragment("x"), deletion_file=DeletionFile(DeletionKind.BITMAP, 1, 2, 3)),
        index_section=b"index",
        transaction=b"transaction",
        base_paths=(BasePath(1, "/a", is_dataset_root=True),),
        writer=WriterVersion("x", "1"),
    )
    data = bytes(whole(base))
    rng = random.Random(7)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        cut = rng.randrange(len(data)) if rng.random() < 0.2 else len(data)
        try:
            parsed = parse_manifest(memoryview(damaged)[:cut], path="m")
        except FormatError:
            refused += 1
        else:
            assert parsed.timestamp.tzinfo is not None
    assert refused > 1000


def test_a_fragment_that_is_none() -> None:
    with pytest.raises(CorruptFileError, match="not a valid DataFragment"):
        parse_fragment(b"\xff\xff")
