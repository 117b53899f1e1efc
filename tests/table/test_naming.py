import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.table.manifest import Naming
from alance.table.naming import (
    VERSION_MAX,
    ManifestName,
    join,
    manifest_path,
    parse_manifest_name,
    transaction_path,
    versions_prefix,
)


def test_paths_of_a_dataset() -> None:
    assert manifest_path("a/b", 1, Naming.V2) == "a/b/_versions/18446744073709551614.manifest"
    assert manifest_path("a/b", 12, Naming.V1) == "a/b/_versions/12.manifest"
    assert versions_prefix("") == "_versions"
    assert transaction_path("a", "0-x.txn") == "a/_transactions/0-x.txn"
    assert join("", "data", "x") == "data/x"
    assert join("a/b", "c") == "a/b/c"
    assert join("", "_versions", "1.manifest") == "_versions/1.manifest"


@given(st.integers(1, VERSION_MAX), st.sampled_from(Naming))
def test_names_round_trip(version: int, naming: Naming) -> None:
    name = manifest_path("", version, naming).removeprefix("_versions/")
    assert parse_manifest_name(name) == ManifestName(version, naming)


@given(st.lists(st.integers(1, VERSION_MAX), min_size=2, unique=True))
def test_v2_names_sort_newest_first(versions: list[int]) -> None:
    names = sorted(manifest_path("", version, Naming.V2) for version in versions)
    assert names == [manifest_path("", v, Naming.V2) for v in sorted(versions, reverse=True)]


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "d9223372036854775809.manifest",
        "18446744073709551614.manifest-0b5e",
        ".tmp_18446744073709551614.manifest",
        "18446744073709551615.manifest",  # version 0
        "09223372036854775807.manifest",  # a detached version number
        "99999999999999999999.manifest",  # below version 0
        "0.manifest",
        "01.manifest",
        "9223372036854775808.manifest",
        "x/1.manifest",
        "1.manifest\n",
        "",
    ],
)
def test_other_names_are_no_versions(name: str) -> None:
    assert parse_manifest_name(name) is None
