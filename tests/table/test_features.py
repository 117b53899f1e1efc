from dataclasses import replace

import pytest

from alance.errors import UnsupportedFeatureError
from alance.table.features import KNOWN, Feature, check_readable, check_writable, compute_flags
from alance.table.manifest import BasePath, DeletionFile, DeletionKind
from tests.table.samples import fragment, manifest

UNKNOWN_BITS = [bit for bit in range(64) if not KNOWN >> bit & 1]


@pytest.mark.parametrize("bit", UNKNOWN_BITS)
def test_unknown_bits_are_refused_by_number(bit: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=rf"\bbit {bit}\b") as caught:
        check_readable(1 << bit | 1, "m")
    assert caught.value.feature == f"reader feature flag bit {bit}"
    with pytest.raises(UnsupportedFeatureError, match=rf"\bbit {bit}\b"):
        check_writable(manifest(writer_flags=1 << bit), "m")


def test_known_bits_are_accepted() -> None:
    check_readable(int(KNOWN), "m")
    check_writable(manifest(writer_flags=int(KNOWN)), "m")


def test_an_unknown_writer_bit_does_not_hinder_reading() -> None:
    base = manifest(writer_flags=1 << 40)
    check_readable(base.reader_flags, "m")
    with pytest.raises(UnsupportedFeatureError, match="must not write to"):
        check_writable(base, "m")


def test_names_are_given_where_there_are_any() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"bit 6 \(data overlays\), bit 20"):
        check_readable(1 << 6 | 1 << 20, "m")


def test_flags_follow_from_what_is_there() -> None:
    assert compute_flags(manifest()) == (0, 0)
    deleted = replace(
        fragment("x"), deletion_file=DeletionFile(DeletionKind.ARROW, 1, 2, num_deleted_rows=3)
    )
    assert compute_flags(manifest(1, deleted)) == (1, 1)
    assert compute_flags(manifest(config={"a": "b"})) == (0, int(Feature.TABLE_CONFIG))
    bases = (BasePath(0, "/elsewhere", is_dataset_root=True),)
    assert compute_flags(manifest(base_paths=bases)) == (16, 16)


def test_lasting_flags_stay_and_others_go() -> None:
    sticky = Feature.STABLE_ROW_IDS | Feature.MIXED_FILE_VERSIONS | Feature.TAGGED_FRAGMENT_REUSE
    gone = Feature.DELETION_FILES | Feature.TABLE_CONFIG | Feature.COVERING_INDICES
    base = manifest(reader_flags=int(sticky | gone), writer_flags=int(sticky | gone))
    assert compute_flags(base) == (int(sticky), int(sticky))


def test_transaction_files_concern_writers_only() -> None:
    flag = int(Feature.NO_TRANSACTION_FILES)
    assert compute_flags(manifest(writer_flags=flag)) == (0, flag)


def test_the_covering_flag_lasts_as_long_as_indices() -> None:
    flag = int(Feature.COVERING_INDICES)
    assert compute_flags(manifest(writer_flags=flag, index_section=b"")) == (flag, flag)
