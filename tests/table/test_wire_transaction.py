from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError, FormatError
from alance.proto import transaction_pb2 as transactions
from alance.table.manifest import Fragment
from alance.table.operations import (
    Append,
    MapUpdate,
    Merge,
    Operation,
    Other,
    Overwrite,
    Project,
    UpdateConfig,
)
from alance.table.transaction import Transaction
from alance.table.wire_transaction import build_transaction, parse_transaction
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
    Other("Restore", b"\x08\x05"),
    Other("DataOverlay"),
    Other("Unknown", b"\xa2\x07\x02ab"),  # field 116
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
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


def test_damaged_bytes_are_format_errors_only() -> None:
    files: tuple[Fragment, ...] = (fragment("x"), fragment("y"))
    data = build_transaction(Transaction(3, "uuid", Overwrite(files, schema(), {"k": "v"})))
    rng = random.Random(3)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse_transaction(bytes(damaged[: rng.randrange(len(data))]), path="t")
        except FormatError:
            refused += 1
    assert refused > 500
