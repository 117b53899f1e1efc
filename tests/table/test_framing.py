import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.table.framing import build_trailer, frame, manifest_section, read_section


def file_of(*sections: bytes) -> bytes:
    pieces, positions = frame(sections)
    return b"".join([*pieces, build_trailer(positions[-1])])


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=3))
def test_sections_come_back(sections: list[bytes]) -> None:
    data = memoryview(file_of(*sections))
    _, positions = frame(sections)
    assert [bytes(read_section(data, p, "m", "x")) for p in positions] == sections
    assert bytes(manifest_section(data, "m")) == sections[-1]


def test_the_layout_is_the_formats() -> None:
    expected = b"\x02\0\0\0ab" + b"\x01\0\0\0c" + struct.pack("<qHH4s", 6, 0, 2, b"LANC")
    assert file_of(b"ab", b"c") == expected


@given(st.binary(max_size=60), st.data())
def test_truncated_files_are_corrupt(section: bytes, data: st.DataObject) -> None:
    whole = file_of(section)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptFileError):
        manifest_section(memoryview(whole[:cut]), "m")


@pytest.mark.parametrize("position", [-1, -(2**63), 1, 7, 8, 100, 2**63 - 1])
def test_a_forged_position_is_corrupt(position: int) -> None:
    whole = file_of(b"abc")
    forged = whole[:-16] + build_trailer(position)
    with pytest.raises(CorruptFileError, match=r"outside|length|claims"):
        manifest_section(memoryview(forged), "m")


@pytest.mark.parametrize("length", [0, 2, 4, 19, 2**32 - 1])
def test_a_forged_length_is_corrupt(length: int) -> None:
    whole = struct.pack("<I", length) + file_of(b"abc")[4:]
    with pytest.raises(CorruptFileError, match=r"length does not match|claims"):
        manifest_section(memoryview(whole), "m")


def test_another_magic_is_named() -> None:
    whole = file_of(b"abc")[:-4] + b"PAR1"
    with pytest.raises(CorruptFileError, match="found b'PAR1'") as caught:
        manifest_section(memoryview(whole), "some/path")
    assert caught.value.path == "some/path"
