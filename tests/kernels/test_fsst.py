from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.kernels import fsst
from alance.kernels.symbol_table import build_table
from tests.kernels import reference_fsst

Bytes = npt.NDArray[np.uint8]

TEXT = [b"https://lance.org/format/", b"https://lance.org/", b"", b"http://example.com/format"]
TABLE = build_table([b"a", b"bc", b"bcdefghi", b"bcd", b"\0", b"\0\0", b"z\xff"])

symbol_lists = st.lists(
    st.binary(min_size=1, max_size=8) | st.text("ab\0", min_size=1, max_size=8).map(str.encode),
    max_size=30,
    unique=True,
)
value_lists = st.lists(
    st.binary(max_size=30) | st.text("ab\0\n", max_size=40).map(str.encode), max_size=12
)


@pytest.fixture(params=[reference_fsst, fsst], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


def _block(
    values: list[bytes], dtype: type[np.int32] | type[np.int64] = np.int32, before: int = 0
) -> tuple[npt.NDArray[Any], Bytes]:
    """Offsets and bytes of values, with some other bytes around them."""
    offsets = before + np.cumsum([0] + [len(value) for value in values])
    data = b"\xee" * before + b"".join(values) + b"\xee" * (before // 2)
    return offsets.astype(dtype), np.frombuffer(data, dtype=np.uint8)


def _list(offsets: npt.NDArray[Any], data: Bytes) -> list[bytes]:
    return [data[a:b].tobytes() for a, b in pairwise(offsets)]


def _decoded(impl: Any, table: bytes, codes: list[bytes]) -> list[bytes] | int:
    offsets, data, status = impl.decode(table, *_block(codes))
    if status:
        assert len(offsets) == len(data) == 0
        return int(status)
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    return _list(offsets, data)


def _encoded(impl: Any, table: bytes, values: list[bytes]) -> list[bytes]:
    offsets, data = impl.encode(table, *_block(values))
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    return _list(offsets, data)


# --- what the bytes mean


def test_codes_are_symbols_and_255_escapes(impl: Any) -> None:
    codes = [b"\x02\x00\xff\xff\x01", b"", b"\xff\x00", b"\x03" * 9 + b"\xff\xff" * 9 + b"\x00" * 9]
    expected = [b"bcdefghia\xffbc", b"", b"\x00", b"bcd" * 9 + b"\xff" * 9 + b"a" * 9]
    assert _decoded(impl, TABLE, codes) == expected


def test_the_longest_symbol_is_taken(impl: Any) -> None:
    values = [b"abcdefghi", b"bcdefgh", b"bcdbc", b"b", b"", b"z\xffz", b"\0\0\0", b"\xff"]
    expected = [b"\0\2", b"\3\xffe\xfff\xffg\xffh", b"\3\1", b"\xffb", b"", b"\6\xffz", b"\5\4"]
    assert _encoded(impl, TABLE, values) == [*expected, b"\xff\xff"]


def test_a_symbol_never_reaches_into_the_next_value(impl: Any) -> None:
    values = [b"b", b"cd", b"bc", b"defghi"]
    codes = _encoded(impl, TABLE, values)
    assert codes == [b"\xffb", b"\xffc\xffd", b"\1", b"\xffd\xffe\xfff\xffg\xffh\xffi"]
    assert _decoded(impl, TABLE, codes) == values


def test_the_first_of_equal_symbols_or_the_last_decodes_to_the_same(impl: Any) -> None:
    table = build_table([b"ab", b"ab", b"c"])
    assert _decoded(impl, table, _encoded(impl, table, [b"ababc"])) == [b"ababc"]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_slice_of_a_larger_block(impl: Any, dtype: type[np.int32] | type[np.int64]) -> None:
    offsets, data, status = impl.decode(TABLE, *_block([b"\1\0", b"", b"\xff\0"], dtype, before=9))
    assert status == 0
    assert offsets.dtype == dtype
    assert offsets.tolist() == [0, 3, 3, 4]
    assert data.tobytes() == b"bca\0"
    codes_offsets, codes = impl.encode(TABLE, *_block([b"bca", b"", b"x"], dtype, before=9))
    assert codes_offsets.dtype == dtype
    assert codes_offsets.tolist() == [0, 2, 2, 4]
    assert codes.tobytes() == b"\1\0\xffx"


def test_no_values_and_no_bytes(impl: Any) -> None:
    for values in ([], [b""], [b""] * 5):
        assert _decoded(impl, TABLE, values) == values
        assert _encoded(impl, TABLE, values) == values
        assert impl.train(*_block(values)) == build_table([])


def test_a_table_switched_off_leaves_values_as_they_are(impl: Any) -> None:
    off = TABLE[:3] + b"\0" + TABLE[4:]
    values = [b"\xff", b"", b"anything\0"]
    assert _decoded(impl, off, values) == values
    assert _encoded(impl, off, values) == values
    offsets, data, status = impl.decode(off, *_block(values, np.int64, before=4))
    assert (status, offsets.tolist(), data.tobytes()) == (0, [0, 1, 1, 10], b"\xffanything\0")


# --- round trips


@given(values=value_lists, symbols=symbol_lists, before=st.integers(0, 9))
def test_any_table_round_trips_any_values(
    values: list[bytes], symbols: list[bytes], before: int
) -> None:
    table = build_table(symbols)
    block = _block(values, before=before)
    offsets, codes = fsst.encode(table, *block)
    expected_offsets, expected = reference_fsst.encode(table, *block)
    assert offsets.tolist() == expected_offsets.tolist()
    assert codes.tobytes() == expected.tobytes()
    for each in (fsst, reference_fsst):
        out_offsets, out, status = each.decode(table, offsets, codes)
        assert status == 0
        assert _list(out_offsets, out) == values


@settings(max_examples=30, deadline=None)
@given(values=value_lists, repeats=st.integers(1, 5))
def test_training_equals_the_reference(values: list[bytes], repeats: int) -> None:
    block = _block(values * repeats)
    table = fsst.train(*block)
    assert table == reference_fsst.train(*block)
    assert _decoded(fsst, table, _encoded(fsst, table, values)) == values


@pytest.mark.parametrize("letters", [2, 16, 40, 256])
def test_training_of_very_many_pairs_equals_the_reference(letters: int) -> None:
    rng = np.random.default_rng(letters)
    values = [rng.integers(0, letters, n, np.uint8).tobytes() for n in range(1, 200)]
    block = _block(values, np.int64, before=3)
    assert fsst.train(*block) == reference_fsst.train(*block)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 4095, 4096, 4097, 8191, 10_000])
@pytest.mark.parametrize("step", [1, 3, 8, 5000])
def test_values_and_escapes_at_every_place_of_a_block(length: int, step: int) -> None:
    """The compiled decoder works through blocks of codes: its edges may fall anywhere."""
    rng = np.random.default_rng(length)
    text = rng.choice(np.frombuffer(b"abcdefgh??", dtype=np.uint8), length).tobytes()
    values = [text[i : i + step] for i in range(0, length, step)]
    for start in range(9):
        codes = _encoded(fsst, TABLE, [b"a" * start, *values])
        assert _decoded(fsst, TABLE, codes) == [b"a" * start, *values]


def test_a_sample_from_a_large_input(impl: Any) -> None:
    values = [b"https://lance.org/format/%d" % (i * i) for i in range(3000)]
    block = _block(values)
    table = impl.train(*block, sample_bytes=2048, seed=1)
    assert table == reference_fsst.train(*block, sample_bytes=2048, seed=1)
    assert table != impl.train(*block, sample_bytes=2048, seed=2)
    codes = _encoded(fsst, table, values)
    assert sum(map(len, codes)) < sum(map(len, values)) / 3
    assert _decoded(fsst, table, codes) == values


def test_training_finds_what_repeats(impl: Any) -> None:
    table = impl.train(*_block(TEXT * 20))
    codes = _encoded(impl, table, TEXT)
    assert max(map(len, codes)) <= 5
    assert _decoded(impl, table, codes) == TEXT


def test_bytes_without_pattern_at_most_double(impl: Any) -> None:
    value = np.random.default_rng(7).bytes(3000)
    codes = _encoded(impl, build_table([]), [value])
    assert len(codes[0]) == 2 * len(value)
    assert _decoded(impl, build_table([]), codes) == [value]


# --- hostile bytes


@pytest.mark.parametrize("size", [0, 1, 7, 8, 2311, 2313, 4000])
def test_a_table_of_another_size_is_corrupt(impl: Any, size: int) -> None:
    table = TABLE.ljust(size, b"\0")[:size]
    assert _decoded(impl, table, [b"\0"]) == fsst.CORRUPT_TABLE
    with pytest.raises(ValueError):
        impl.encode(table, *_block([b"a"]))


def test_every_flipped_byte_of_the_header_and_lengths(impl: Any) -> None:
    """All symbols are used, so a length is either noticed or changes the size."""
    codes = [bytes(range(7))]
    expected = _decoded(impl, TABLE, codes)
    for at in (4, 5, 6, 7):
        forged = TABLE[:at] + bytes((TABLE[at] ^ 1,)) + TABLE[at + 1 :]
        assert _decoded(impl, forged, codes) == fsst.CORRUPT_TABLE
    for at in range(64, 71):
        for length in (0, 9, 128, 255):
            forged = TABLE[:at] + bytes((length,)) + TABLE[at + 1 :]
            assert _decoded(impl, forged, codes) == fsst.CORRUPT_TABLE
        forged = TABLE[:at] + bytes((TABLE[at] % 8 + 1,)) + TABLE[at + 1 :]
        assert _decoded(impl, forged, codes) not in (expected, fsst.CORRUPT_TABLE)
    for count in (8, 100, 255):  # symbols become lengths, among them zeros
        assert _decoded(impl, bytes((count,)) + TABLE[1:], codes) == fsst.CORRUPT_TABLE


@pytest.mark.parametrize("code", [7, 8, 100, 254])
@pytest.mark.parametrize("at", [0, 3, 8, 20])
def test_a_code_without_symbol_is_corrupt(impl: Any, code: int, at: int) -> None:
    value = b"\0" * at + bytes((code,)) + b"\0" * (20 - at)
    assert _decoded(impl, TABLE, [b"\1", value, b"\1"]) == fsst.CORRUPT_CODES


@pytest.mark.parametrize("length", [0, 1, 6, 7, 8, 15, 4095, 4096])
@pytest.mark.parametrize("following", [[], [b""], [b"\0"], [b"", b"\0" * 20]])
def test_a_value_that_ends_in_an_escape_is_corrupt(
    impl: Any, length: int, following: list[bytes]
) -> None:
    values = [b"\0" * length + b"\xff", *following]
    assert _decoded(impl, TABLE, values) == fsst.CORRUPT_CODES
    values[0] += b"\xff"
    assert _decoded(impl, TABLE, values) == [
        b"a" * length + b"\xff",
        *(b"a" * len(value) for value in following),
    ]


@pytest.mark.parametrize(
    "offsets",
    [
        [-1, 2],
        [0, 4],
        [4, 4],
        [2, 1],
        [0, 2, 1, 3],
        [0, -1, 3],
        [3, 0],
        [-(1 << 31), (1 << 31) - 1],
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_offsets_that_fall_or_leave_the_data_are_corrupt(
    impl: Any, offsets: list[int], dtype: type[np.int32] | type[np.int64]
) -> None:
    forged = np.array(offsets, dtype=dtype)
    data = np.zeros(3, dtype=np.uint8)
    assert impl.decode(TABLE, forged, data)[2] == fsst.CORRUPT_OFFSETS
    off = TABLE[:3] + b"\0" + TABLE[4:]
    assert impl.decode(off, forged, data)[2] == fsst.CORRUPT_OFFSETS
    with pytest.raises(ValueError):
        impl.encode(TABLE, forged, data)
    with pytest.raises(ValueError):
        impl.train(forged, data)


@given(codes=value_lists, symbols=symbol_lists)
def test_any_codes_give_what_the_reference_gives(codes: list[bytes], symbols: list[bytes]) -> None:
    table = build_table(symbols)
    assert _decoded(fsst, table, codes) == _decoded(reference_fsst, table, codes)


@given(
    flips=st.lists(st.tuples(st.integers(0, 2311), st.integers(1, 255)), max_size=4),
    codes=st.lists(st.binary(max_size=20), max_size=4),
)
def test_any_table_gives_what_the_reference_gives(
    flips: list[tuple[int, int]], codes: list[bytes]
) -> None:
    forged = bytearray(TABLE)
    for at, mask in flips:
        forged[at] ^= mask
    table = bytes(forged)
    assert _decoded(fsst, table, codes) == _decoded(reference_fsst, table, codes)


def test_more_than_32_bit_offsets_can_express() -> None:
    """8 bytes for each of 2**28 codes are one byte too many; untouched zeros take no memory."""
    codes = np.zeros(1 << 28, dtype=np.uint8)
    offsets = np.array([0, 1 << 28], dtype=np.int32)
    out_offsets, out, status = fsst.decode(build_table([b"12345678"]), offsets, codes)
    assert status == fsst.OUTPUT_TOO_LARGE < 0
    assert len(out_offsets) == len(out) == 0
    with pytest.raises(OverflowError, match="32-bit offsets"):
        fsst.encode(TABLE, np.array([0, 1 << 30], dtype=np.int32), np.zeros(1 << 30, np.uint8))


# --- wrong calls


def test_offsets_need_an_entry(impl: Any) -> None:
    none = np.empty(0, dtype=np.int32)
    data = np.zeros(3, dtype=np.uint8)
    for call in (impl.decode, impl.encode):
        with pytest.raises(ValueError):
            call(TABLE, none, data)
    with pytest.raises(ValueError):
        impl.train(none, data)


@pytest.mark.parametrize("sample_bytes", [0, -1, (1 << 24) + 1])
def test_a_sample_has_a_sensible_size(impl: Any, sample_bytes: int) -> None:
    with pytest.raises(ValueError):
        impl.train(*_block([b"abc"]), sample_bytes=sample_bytes)
