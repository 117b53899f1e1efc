from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance.errors import (
    CorruptFileError,
    FormatError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from alance.proto import transaction_pb2 as transactions
from alance.table.indices import IndexFile, IndexMetadata, build_fragment_bitmap
from alance.table.manifest import BasePath, DataFile
from alance.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMode,
)
from alance.table.transaction import Transaction
from alance.table.wire_transaction import build_transaction, parse_transaction
from alance.types import FileVersion
from tests.table.samples import fragment, objects_below, schema

DATA = pa.table({"i": pa.array([1, 2, 3], pa.int32()), "s": ["x", None, "z"]})

# Calls of the reference, and the operation that each records.
CALLS: list[tuple[Callable[[Path], object], str]] = [
    (lambda p: lance.write_dataset(DATA, p, data_storage_version="2.1"), "Overwrite"),
    (lambda p: lance.write_dataset(DATA, p, mode="append"), "Append"),
    (lambda p: lance.dataset(p).delete("i = 1"), "Delete"),
    (lambda p: lance.dataset(p).update({"s": "'n'"}, where="i = 2"), "Update"),
    (lambda p: lance.dataset(p).create_scalar_index("i", "BTREE"), "CreateIndex"),
    (lambda p: lance.dataset(p).add_columns({"j": "i + 1"}), "Merge"),
    (lambda p: lance.dataset(p).drop_columns(["j"]), "Project"),
    (lambda p: lance.dataset(p).update_config({"key": "value"}), "UpdateConfig"),
    (lambda p: lance.dataset(p).restore(), "Restore"),
    (lambda p: lance.write_dataset(DATA, p, mode="overwrite"), "Overwrite"),
]


def test_transactions_of_the_reference_come_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    for call, name in CALLS:
        before = objects_below(path)
        call(path)
        new = {k: v for k, v in objects_below(path).items() if k not in before}
        ((key, data),) = ((k, v) for k, v in new.items() if k.endswith(".txn"))
        parsed = parse_transaction(data, path=key)
        assert parsed.operation.name == name
        assert key.endswith(f"/{parsed.file_name}")
        assert build_transaction(parsed) == data


UUIDS = [f"0000000{i}-0000-4000-8000-000000000000" for i in range(3)]
INDEX = IndexMetadata(
    UUIDS[0],
    (1,),
    "i_idx",
    7,
    fragment_bitmap=build_fragment_bitmap([0, 3]),
    base_id=0,
    index_details=b"\n\x02/x",
    index_version=0,
    created_at_ms=1,
    files=(IndexFile("page_data.lance", 10),),
    unknown=b"\x5a\x01\x05",  # field 11, covering fields
)
FILE = DataFile("x.lance", (0,), (0,), FileVersion.V2_1)

OPERATIONS: list[Operation] = [
    Append((fragment("x"), fragment("y", fields=()))),
    Overwrite((fragment("x"),), schema("a", "b"), config={"k": "v"}),
    Merge((fragment("x"),), schema("a"), preserves_nullability=True),
    Project(schema("a"), preserves_nullability=True),
    UpdateConfig(),
    UpdateConfig(
        config=MapUpdate({"a": "1", "b": None}),
        table_metadata=MapUpdate({}, replace=True),
        schema_metadata=MapUpdate({"c": ""}),
        field_metadata={0: MapUpdate({"d": "2"}), -1: MapUpdate({})},
    ),
    Overwrite((), schema("a"), initial_bases=(BasePath(1, "/x", True, "n"),)),
    Delete((fragment("x", id=4),), (7, 9), "i > 3"),
    CreateIndex((INDEX,), (replace(INDEX, uuid=UUIDS[1], fragment_bitmap=None),)),
    Rewrite(
        (RewriteGroup((fragment("x", id=1),), (fragment("y", id=8),)),),
        (
            RewrittenIndex(UUIDS[0], UUIDS[1], b"\n\x02/x", 3, (IndexFile("a", 1),), b"\x30\x01"),
            RewrittenIndex(UUIDS[1], UUIDS[2]),
        ),
    ),
    Restore(5),
    ReserveFragments(4),
    Update(
        (3,), (fragment("x", id=1),), (fragment("y"),), (1,), (0, 1), UpdateMode.REWRITE_COLUMNS
    ),
    Update(inserted_rows=b"\x08\x01", unknown=b"\x2a\x00"),
    Update(updated_fragment_offset_bitmaps={3: build_fragment_bitmap([1, 7])}),
    Update(update_mode=UpdateMode.REWRITE_ROWS),
    DataReplacement((Replacement(3, FILE),)),
    Clone(True, "tag", 3, "/path", "side"),
    Clone(False, None, 3, "/path"),
    UpdateBases((BasePath(0, "/x", False), BasePath(3, "/y", True, "n"))),
    Other("UpdateMemWalState", b"\x08\x05"),
    Other("DataOverlay"),
    Other("Unknown", b"\xa2\x07\x02ab"),  # field 116
]


def _name(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=_name)
def test_round_trip(operation: Operation) -> None:
    value = Transaction(3, "u-u", operation, tag="t", properties={"b": "2", "a": "1"})
    assert parse_transaction(build_transaction(value), path="t") == value


def test_no_operation_is_an_unknown_one() -> None:
    assert parse_transaction(b"", path="t").operation == Other("Unknown", b"")


def test_settings_of_old_writers_are_read_as_what_they_meant() -> None:
    message = transactions.Transaction()
    old = message.update_config
    old.upsert_values["a"] = "1"
    old.delete_keys.append("b")
    old.schema_metadata["c"] = "3"
    old.field_metadata[4].metadata["d"] = "5"
    parsed = parse_transaction(message.SerializeToString(), path="t")
    assert parsed.operation == UpdateConfig(
        config=MapUpdate({"a": "1", "b": None}),
        schema_metadata=MapUpdate({"c": "3"}, replace=True),
        field_metadata={4: MapUpdate({"d": "5"}, replace=True)},
    )


def test_fragments_of_a_transaction_are_checked() -> None:
    bad = fragment("../../etc/passwd")
    value = Transaction(1, "u", Append((bad,)))
    with pytest.raises(CorruptFileError, match="below data/"):
        parse_transaction(build_transaction(value), path="t")


HOSTILE: list[tuple[Callable[[transactions.Transaction], object], str]] = [
    (lambda m: m.delete.deleted_fragment_ids.append(2**32 - 1), "is no fragment id"),
    (lambda m: m.update.removed_fragment_ids.append(2**40), "is no fragment id"),
    (lambda m: m.update.fields_modified.append(2**31), "is no field id"),
    (lambda m: m.restore.SetInParent(), "restores version 0"),
    (lambda m: m.create_index.new_indices.add(name="i"), "uuid of an index segment has 0 bytes"),
    (lambda m: _index(m, fields=[-1]), "a field id is negative"),
    (lambda m: _index(m, fragment_bitmap=b"\x01"), "a bitmap is damaged"),
    (
        lambda m: setattr(m.rewrite.rewritten_indices.add().old_id, "uuid", bytes(15)),
        "old_id of an index segment has 15 bytes",
    ),
    (lambda m: m.data_replacement.replacements.add(fragment_id=2**33), "is no fragment id"),
    (
        lambda m: setattr(m.data_replacement.replacements.add().new_file, "path", "../x"),
        "below data/",
    ),
]


def _index(message: transactions.Transaction, **members: object) -> None:
    index = message.create_index.new_indices.add(**members)
    index.uuid.uuid = bytes(16)


@pytest.mark.parametrize(("make", "complaint"), HOSTILE, ids=[text for _, text in HOSTILE])
def test_what_contradicts_the_format(
    make: Callable[[transactions.Transaction], object], complaint: str
) -> None:
    message = transactions.Transaction()
    make(message)
    with pytest.raises(CorruptFileError, match=complaint):
        parse_transaction(message.SerializeToString(), path="t")


def test_a_mode_of_the_future() -> None:
    with pytest.raises(UnsupportedFeatureError, match="mode 9"):
        parse_transaction(b"\xe2\x06\x02\x38\x09", path="t")  # field 108: field 7 is 9


def test_the_groups_of_old_writers() -> None:
    message = transactions.Transaction()
    message.rewrite.old_fragments.add(id=3)
    message.rewrite.new_fragments.add(id=5)
    operation = parse_transaction(message.SerializeToString(), path="t").operation
    assert isinstance(operation, Rewrite)
    (group,) = operation.groups
    assert [fragment.id for fragment in (*group.old_fragments, *group.new_fragments)] == [3, 5]


def test_a_known_operation_is_not_written_from_bytes() -> None:
    with pytest.raises(InvalidInputError, match="not recorded as mere bytes"):
        build_transaction(Transaction(1, "u", Other("Restore", b"\x08\x05")))


def test_damaged_bytes_are_format_errors_only() -> None:
    rng = random.Random(3)
    refused = 0
    for i in range(4000):
        operation = OPERATIONS[i % len(OPERATIONS)]
        data = build_transaction(Transaction(3, "uuid", operation, properties={"k": "v"}))
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse_transaction(bytes(damaged[: rng.randrange(len(data))]), path="t")
        except FormatError:
            refused += 1
    assert refused > 500
