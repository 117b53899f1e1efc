import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from alance.errors import InvalidInputError
from alance.table.apply import TRANSACTION_BYTES_MAX, WRITER, apply
from alance.table.features import Feature
from alance.table.manifest import DataFile, Manifest, Naming
from alance.table.naming import VERSION_MAX
from alance.table.operations import Other
from alance.table.row_ids import RowIds
from alance.table.row_versions import RowVersions
from alance.table.transaction import Transaction, build_append, build_overwrite
from alance.table.wire import FRAGMENT_ID_MAX
from alance.table.wire_rows import build_row_ids, build_row_versions
from alance.table.wire_transaction import build_transaction
from alance.types import FileVersion
from tests.table.samples import append, creation, fragment, manifest, paths, schema

NOW = 1_800_000_000_000_000_001


def created(**rest: object) -> Manifest:
    return apply(None, creation(**rest), timestamp_ns=NOW)  # type: ignore[arg-type]


def test_create() -> None:
    transaction = creation()
    made = apply(None, transaction, timestamp_ns=NOW)
    assert (made.version, made.timestamp_ns, made.naming) == (1, NOW, Naming.V2)
    assert (made.schema, made.file_version) == (schema(), FileVersion.V2_1)
    assert [f.id for f in made.fragments] == [0]
    assert made.max_fragment_id == 0
    assert made.transaction_file == "0-create.txn"
    assert made.transaction == build_transaction(transaction)
    assert made.writer == WRITER


def test_the_writer_has_the_projects_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert (WRITER.library, WRITER.version) == (project["name"], project["version"])


def test_create_without_rows() -> None:
    empty = build_overwrite(None, schema(), [], file_version=FileVersion.V2_1)
    made = apply(None, empty, timestamp_ns=NOW)
    assert (made.fragments, made.max_fragment_id) == ((), None)
    grown = apply(made, append(made, "x"), timestamp_ns=NOW)
    assert [f.id for f in grown.fragments] == [0]


def test_append_numbers_fragments_from_the_highest_ever() -> None:
    base = manifest(7, fragment("x", id=3), max_fragment_id=9)
    made = apply(base, append(base, "y"), timestamp_ns=NOW)
    assert (made.version, made.max_fragment_id) == (8, 10)
    assert [f.id for f in made.fragments] == [3, 10]
    assert paths(made) == ["x", "y"]


def test_append_on_a_later_version_than_it_was_made_on() -> None:
    base = manifest(1, fragment("x", id=0))
    mine = append(base, "mine")
    later = apply(base, append(base, "theirs"), timestamp_ns=NOW)
    made = apply(later, mine, timestamp_ns=NOW)
    assert paths(made) == ["x", "theirs", "mine"]
    assert made.transaction_file == "1-mine.txn"


def test_append_carries_what_it_does_not_touch() -> None:
    base = manifest(
        1,
        replace(fragment("x"), unknown=b"\x9a\x06\x00"),
        index_section=b"index",
        unknown=b"\xca\x01\x00",
        config={"a": "b"},
        table_metadata={"c": "d"},
        branch="side",
        naming=Naming.V1,
        writer_flags=int(Feature.COVERING_INDICES),
    )
    made = apply(base, append(base, "y"), timestamp_ns=NOW)
    kept = ("index_section", "unknown", "config", "table_metadata", "branch", "naming", "schema")
    assert all(getattr(made, name) == getattr(base, name) for name in kept)
    assert made.fragments[0] == base.fragments[0]
    assert made.writer_flags == int(Feature.COVERING_INDICES | Feature.TABLE_CONFIG)


def test_overwrite_keeps_settings_and_the_count_of_fragments() -> None:
    base = manifest(
        4, fragment("x", id=6), config={"a": "1", "b": "1"}, index_section=b"index", next_row_id=5
    )
    new = schema("z")
    change = build_overwrite(base, new, [fragment("y", fields=(0,))], config={"b": "2"})
    made = apply(base, change, timestamp_ns=NOW)
    assert (made.version, made.schema, paths(made)) == (5, new, ["y"])
    assert [f.id for f in made.fragments] == [7]
    assert made.config == {"a": "1", "b": "2"}
    assert made.index_section is None
    assert made.file_version is FileVersion.V2_1


def test_overwrite_may_change_the_file_version() -> None:
    base = manifest(1, fragment("x"))
    change = build_overwrite(base, schema(), [], file_version=FileVersion.V2_2)
    assert apply(base, change, timestamp_ns=NOW).file_version is FileVersion.V2_2


def test_new_rows_get_stable_ids() -> None:
    base = created(stable_row_ids=True)
    assert (base.reader_flags, base.next_row_id) == (int(Feature.STABLE_ROW_IDS), 10)
    made = apply(base, append(base, "y", rows=4), timestamp_ns=NOW)
    assert made.next_row_id == 14
    assert made.fragments[1].row_ids == build_row_ids(RowIds.from_range(10, 14))
    assert made.fragments[1].created_at == build_row_versions(RowVersions.uniform(4, 2))
    assert made.fragments[1].last_updated_at == build_row_versions(RowVersions.uniform(4, 2))
    again = apply(made, build_overwrite(made, schema(), [fragment("z")]), timestamp_ns=NOW)
    assert (again.next_row_id, again.fragments[0].row_ids) == (
        24,
        build_row_ids(RowIds.from_range(14, 24)),
    )


def test_an_existing_table_keeps_to_row_addresses() -> None:
    base = created()
    change = build_overwrite(base, schema(), [fragment("y")], stable_row_ids=True)
    made = apply(base, change, timestamp_ns=NOW)
    assert (made.reader_flags, made.fragments[0].row_ids) == (0, None)


def test_no_transaction_file_where_the_table_has_none() -> None:
    base = manifest(writer_flags=int(Feature.NO_TRANSACTION_FILES))
    made = apply(base, append(base, "y"), timestamp_ns=NOW)
    assert made.transaction_file == ""
    assert made.transaction == build_transaction(append(base, "y"))
    assert made.writer_flags == int(Feature.NO_TRANSACTION_FILES)


def test_a_long_transaction_is_in_its_file_only() -> None:
    base = manifest()
    long = build_append(base, [], properties={"k": "x" * TRANSACTION_BYTES_MAX}, uuid="u")
    made = apply(base, long, timestamp_ns=NOW)
    assert (made.transaction, made.transaction_file) == (None, "1-u.txn")


def test_files_of_another_version_are_refused_unless_mixed() -> None:
    file = DataFile("y.lance", (0,), (0,), FileVersion.V2_2)
    other = replace(fragment("y"), files=(file,))
    base = manifest()
    with pytest.raises(InvalidInputError, match=r"y\.lance has version 2\.2, the dataset 2\.1"):
        apply(base, build_append(base, [other]), timestamp_ns=NOW)
    with pytest.raises(InvalidInputError, match=r"version 2\.2, the dataset 2\.1"):
        apply(base, build_overwrite(base, schema(), [other]), timestamp_ns=NOW)
    mixed = manifest(writer_flags=int(Feature.MIXED_FILE_VERSIONS))
    made = apply(mixed, build_append(mixed, [other]), timestamp_ns=NOW)
    assert made.fragments[0].files == (file,)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (manifest(max_fragment_id=FRAGMENT_ID_MAX), "fragment ids are used up"),
        (manifest(version=VERSION_MAX), "version numbers are used up"),
        (
            manifest(next_row_id=2**64 - 2, writer_flags=int(Feature.STABLE_ROW_IDS)),
            "stable row ids are used up",
        ),
    ],
)
def test_numbers_do_not_run_over(base: Manifest, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        apply(base, append(base, "y"), timestamp_ns=NOW)


def test_only_an_overwrite_creates() -> None:
    with pytest.raises(InvalidInputError, match="only Overwrite creates"):
        apply(None, append(manifest(), "y"), timestamp_ns=NOW)
    with pytest.raises(InvalidInputError, match="needs a file version"):
        build_overwrite(None, schema(), [])


def test_operations_that_are_not_committed_here() -> None:
    with pytest.raises(InvalidInputError, match="does not commit DataOverlay"):
        apply(manifest(), Transaction(1, "u", Other("DataOverlay")), timestamp_ns=NOW)
