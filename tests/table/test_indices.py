"""Index metadata: as the reference writes them, kept whole, and held to the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alance.errors import CorruptFileError
from alance.proto import table_pb2 as tables
from alance.table.indices import (
    FRAGMENT_REUSE,
    MEM_WAL,
    IndexMetadata,
    build_fragment_bitmap,
    parse_bitmap,
)
from alance.table.wire_indices import build_indices, parse_fragment_moves, parse_indices
from tests.table import histories

UUID = "00000001-0000-4000-8000-000000000000"


@pytest.mark.parametrize("history", [histories.indices, histories.deferred, histories.vectors])
def test_sections_of_the_reference_come_back_bit_for_bit(
    history: Callable[[Path, bool], None], tmp_path: Path
) -> None:
    history(tmp_path / "t.lance", False)
    sections = {m.index_section for m in histories.manifests(tmp_path / "t.lance").values()}
    assert len(sections) > 3
    for section in sections:
        assert build_indices(parse_indices(section, path="t"), like=section) == section


def test_what_the_reference_says_of_its_indices(tmp_path: Path) -> None:
    histories.deferred(tmp_path / "t.lance", False)
    *_, (version, last) = histories.manifests(tmp_path / "t.lance").items()
    index, reuse = parse_indices(last.index_section, path="t")
    assert (index.name, index.fields, index.dataset_version, index.is_system) == (
        "i_idx", (0,), 1, False,
    )  # fmt: skip
    assert {file.path for file in index.files} == {"page_data.lance", "page_lookup.lance"}
    assert (reuse.name, reuse.fields, reuse.is_system) == (FRAGMENT_REUSE, (), True)
    assert version > reuse.dataset_version > 1
    moves = parse_fragment_moves(reuse, path="t")
    assert moves is not None
    assert [(list(old), list(new)) for old, new in moves] == [([0, 1], [2])]


def test_no_indices() -> None:
    assert parse_indices(None, path="t") == ()
    assert parse_indices(b"", path="t") == ()
    assert build_indices(()) is None


def test_system_indices_are_known_by_name() -> None:
    assert IndexMetadata(UUID, (), MEM_WAL, 1).is_system
    assert not IndexMetadata(UUID, (), "i_idx", 1).is_system


def test_bitmaps() -> None:
    assert IndexMetadata(UUID, (0,), "i", 1).fragments is None
    index = IndexMetadata(UUID, (0,), "i", 1, build_fragment_bitmap([70_000, 3, 3]))
    assert list(index.fragments or ()) == [3, 70_000]
    assert index.fragment_bitmap == build_fragment_bitmap([3, 70_000])
    with pytest.raises(CorruptFileError, match="a bitmap is damaged"):
        parse_bitmap(b"\x3a\x30\x00\x00\xff\xff\xff\xff", "t")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "C:/x", "", "a\\x", "s3://b/x"])
def test_files_stay_in_their_folder(name: str) -> None:
    message = tables.IndexSection()
    message.indices.add(uuid=tables.UUID(uuid=bytes(16))).files.add(path=name)
    with pytest.raises(CorruptFileError, match="below _indices/"):
        parse_indices(message.SerializeToString(), path="t")
