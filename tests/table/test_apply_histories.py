"""The versions that this library builds beside those that the reference built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeAlias

import lance
import pytest

from alance.file.schema import Schema
from alance.proto import transaction_pb2 as transactions
from alance.table.apply import apply
from alance.table.features import Feature
from alance.table.indices import build_fragment_bitmap
from alance.table.manifest import Manifest
from alance.table.naming import manifest_path
from alance.table.operations import Clone, Merge, Overwrite, Restore, Rewrite
from alance.table.transaction import Transaction
from alance.table.wire import build_manifest
from alance.table.wire_indices import build_indices, parse_indices
from alance.table.wire_transaction import build_transaction, parse_transaction
from tests.table import histories
from tests.table.walks import walk

History: TypeAlias = Callable[[Path, bool], None]

CASES = pytest.mark.parametrize(
    ("history", "stable"),
    [(history, stable) for history in histories.ALL for stable in (False, True)],
    ids=[f"{h.__name__}-{i}" for h in histories.ALL for i in ("addresses", "stable")],
)


def message(transaction: bytes) -> transactions.Transaction:
    """To be compared: bytes differ in the order of maps, and in what is left out as a default."""
    return transactions.Transaction.FromString(transaction)


def recorded(manifest: Manifest) -> Transaction:
    """The change that made a version, with what its record does not say."""
    assert manifest.transaction is not None
    transaction = parse_transaction(manifest.transaction, path="t")
    operation = transaction.operation
    if isinstance(operation, Merge | Overwrite):
        schema = Schema(operation.schema.fields, manifest.schema.metadata)
        operation = replace(operation, schema=schema)
    if isinstance(operation, Overwrite):
        operation = replace(
            operation,
            file_version=manifest.file_version,
            stable_row_ids=bool(Feature.STABLE_ROW_IDS & manifest.writer_flags),
        )
    if isinstance(operation, Rewrite):
        indices = parse_indices(manifest.index_section, path="t")
        reuse = next((index for index in indices if index.is_system), None)
        operation = replace(operation, fragment_reuse_index=reuse)
    return replace(transaction, operation=operation)


def rebuilt(known: dict[int, Manifest], base: Manifest | None, theirs: Manifest) -> Manifest:
    """A version as this library builds it, with the marks of the one who did."""
    transaction = recorded(theirs)
    operation = transaction.operation
    source = known[operation.version] if isinstance(operation, Restore) else None
    made = apply(base, transaction, timestamp_ns=theirs.timestamp_ns, source=source)
    return replace(made, writer=theirs.writer, transaction=theirs.transaction)


def plain(manifest: Manifest) -> Manifest:
    """Base paths are a map, which the reference writes in any order; bitmaps may hold runs."""
    indices = [
        index
        if index.fragments is None
        else replace(index, fragment_bitmap=build_fragment_bitmap(index.fragments))
        for index in parse_indices(manifest.index_section, path="t")
    ]
    return replace(
        manifest,
        base_paths=tuple(sorted(manifest.base_paths, key=lambda base: base.id)),
        index_section=build_indices(indices, like=manifest.index_section),
    )


def assert_equal(mine: Manifest, theirs: Manifest) -> None:
    mine, theirs = plain(mine), plain(theirs)
    for member in fields(Manifest):
        found, expected = getattr(mine, member.name), getattr(theirs, member.name)
        assert found == expected, f"{member.name} of version {theirs.version}"


@CASES
def test_each_version_as_the_reference_built_it(
    history: History, stable: bool, tmp_path: Path
) -> None:
    history(tmp_path / "t.lance", stable)
    assert_rebuilt(tmp_path / "t.lance")


@pytest.mark.parametrize("seed", range(16))
def test_each_version_of_a_random_walk(seed: int, tmp_path: Path) -> None:
    walk(tmp_path / "t.lance", seed)
    assert_rebuilt(tmp_path / "t.lance")


def assert_rebuilt(path: Path) -> None:
    """Each version follows from the one before and the record of its change."""
    known = histories.manifests(path)
    assert len(known) > 2
    base = None
    for version, theirs in known.items():
        assert theirs.transaction is not None
        transaction = parse_transaction(theirs.transaction, path="t")
        assert message(build_transaction(transaction)) == message(theirs.transaction)
        if isinstance(transaction.operation, Clone):
            assert base is None
        else:
            assert_equal(rebuilt(known, base, theirs), theirs)
        base = known[version]


@CASES
def test_the_reference_goes_on_from_versions_built_here(
    history: History, stable: bool, tmp_path: Path
) -> None:
    """Each version is built on the one built before it, and reads like the reference's own."""
    path = tmp_path / "t.lance"
    history(path, stable)
    ours = histories.copy(path, "ours.lance")
    known = histories.manifests(path)
    made: dict[int, Manifest] = {}
    base = None
    for version, theirs in known.items():
        is_clone = isinstance(recorded(theirs).operation, Clone)
        base = theirs if is_clone else rebuilt(made, base, theirs)
        made[version] = base
        key = manifest_path("", version, base.naming)
        (ours / key).write_bytes(b"".join(build_manifest(base)))
    for version in known:
        expected = lance.dataset(path, version=version).to_table(with_row_id=True)
        assert lance.dataset(ours, version=version).to_table(with_row_id=True) == expected
    lance.dataset(ours).validate()
    before = lance.dataset(ours).to_table()
    lance.dataset(ours).optimize.compact_files()
    lance.write_dataset(before, ours, mode="append")
    assert lance.dataset(ours).count_rows() == 2 * len(before)
    lance.dataset(ours).delete("true")
    assert lance.dataset(ours).count_rows() == 0
