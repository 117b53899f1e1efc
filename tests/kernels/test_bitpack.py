from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import bitpack
from tests.kernels import reference_bitpack

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

BITS = (8, 16, 32, 64)
WIDTHS = [(bits, width) for bits in BITS for width in range(bits + 1)]


@pytest.fixture(params=[reference_bitpack, bitpack], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


def _values(num_values: int, bits: int, width: int, seed: int = 0) -> Bytes:
    """Random values of exactly `width` bits: the first one has its top bit set."""
    rng = np.random.default_rng([seed, bits, width])
    words = rng.integers(0, 1 << width, num_values, dtype=np.uint64)
    if width == 64:
        words = rng.integers(0, 1 << 63, num_values, dtype=np.uint64) * 2 + words % 2
    if num_values and width:
        words[0] |= np.uint64(1 << (width - 1))
    return words.astype(f"<u{bits // 8}").view(np.uint8)


def _starts(sizes: Int64s) -> Int64s:
    return np.cumsum(sizes) - sizes


def _int64(*values: int) -> Int64s:
    return np.array(values, dtype=np.int64)


def _unpack_inline(
    impl: ModuleType, data: Bytes, sizes: Int64s, num_values: Int64s, bits: int
) -> Bytes:
    out = np.full(int(num_values.sum()) * bits // 8, 0xAA, dtype=np.uint8)
    assert impl.unpack_inline(data, _starts(sizes), sizes, num_values, bits, out) == 0
    return out


def _unpack_blocks(
    impl: ModuleType, data: Bytes, sizes: Int64s, num_values: Int64s, bits: int, packed_bits: int
) -> Bytes:
    out = np.full(int(num_values.sum()) * bits // 8, 0xAA, dtype=np.uint8)
    status = impl.unpack_blocks(data, _starts(sizes), sizes, num_values, bits, packed_bits, out)
    assert status == 0
    return out


def _group_counts(num_values: int) -> Int64s:
    return np.array([min(1024, num_values - s) for s in range(0, num_values, 1024)], dtype=np.int64)


# --- the bytes themselves


def test_levels_of_one_bit_lie_where_the_format_says(impl: Any) -> None:
    """Bit width 1 of 16: value i is bit i // 128 + 8 * ((i % 128) // 64) of word i % 64."""
    for i in (0, 1, 63, 64, 127, 128, 500, 1023):
        values = np.zeros(1024, dtype="<u2")
        values[i] = 1
        data, sizes = impl.pack_inline(values.view(np.uint8), 1024, 16)
        words = data.view("<u2")
        assert sizes.tolist() == [2 + 128]
        assert words[0] == 1
        assert words[1 + i % 64] == 1 << (i // 128 + 8 * ((i % 128) // 64))
        assert np.count_nonzero(words) == 2


def test_bits_of_one_value_run_on_in_the_next_word_of_its_lane(impl: Any) -> None:
    """Row 10 of width 3 in 32 bits starts at bit 30: two bits here, one 32 words further."""
    values = np.zeros(1024, dtype="<u4")
    values[4 * 16 + 2 * 128 + 5] = 0b101  # row 10 = 8 * 1 + 2, lane 5
    data, sizes = impl.pack_inline(values.view(np.uint8), 1024, 32)
    words = data.view("<u4")
    assert sizes.tolist() == [4 + 3 * 128]
    assert words[1 + 5] == 0b01 << 30
    assert words[1 + 32 + 5] == 0b1
    assert np.count_nonzero(words) == 3


@pytest.mark.parametrize("bits", BITS)
def test_full_width_is_a_permutation(impl: Any, bits: int) -> None:
    values = _values(1024, bits, bits)
    data, _ = impl.pack_inline(values, 1024, bits)
    dtype = f"<u{bits // 8}"
    words = data.view(dtype)
    assert words[0] == bits
    lanes = 1024 // bits
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    for row in range(bits):
        start = order[row // 8] * 16 + row % 8 * 128
        expected = values.view(dtype)[start : start + lanes]
        assert words[1 + row * lanes : 1 + (row + 1) * lanes].tolist() == expected.tolist()


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
def test_every_width_equals_the_reference(bits: int, width: int) -> None:
    values = _values(1024 + 1000, bits, width)
    data, sizes = bitpack.pack_inline(values, 2024, bits)
    expected, expected_sizes = reference_bitpack.pack_inline(values, 2024, bits)
    assert data.tobytes() == expected.tobytes()
    assert sizes.tolist() == expected_sizes.tolist()
    assert sizes[0] == bits // 8 + 128 * width
    counts = _int64(1024, 1000)
    assert _unpack_inline(bitpack, data, sizes, counts, bits).tobytes() == values.tobytes()
    assert _unpack_inline(reference_bitpack, data, sizes, counts, bits).tobytes() == (
        values.tobytes()
    )


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
def test_every_packed_width_of_blocks_equals_the_reference(bits: int, width: int) -> None:
    counts = _int64(1024, 1, 1025, 2047)
    values = _values(int(counts.sum()), bits, width)
    data, sizes = bitpack.pack_blocks(values, counts, bits, width)
    expected, expected_sizes = reference_bitpack.pack_blocks(values, counts, bits, width)
    assert data.tobytes() == expected.tobytes()
    assert sizes.tolist() == expected_sizes.tolist()
    assert _unpack_blocks(bitpack, data, sizes, counts, bits, width).tobytes() == values.tobytes()
    assert _unpack_blocks(reference_bitpack, data, sizes, counts, bits, width).tobytes() == (
        values.tobytes()
    )


# --- round trips


@given(
    bits=st.sampled_from(BITS),
    num_values=st.sampled_from([0, 1, 2, 1023, 1024, 1025, 3000]),
    width=st.integers(0, 64),
    seed=st.integers(0, 99),
    shift=st.integers(0, 7),
)
def test_inline_round_trip(bits: int, num_values: int, width: int, seed: int, shift: int) -> None:
    """Also from unaligned chunks and to an unaligned target."""
    width = min(width, bits)
    values = _values(num_values, bits, width, seed)
    data, sizes = bitpack.pack_inline(values, num_values, bits)
    counts = _group_counts(num_values)
    moved = np.concatenate([np.zeros(shift, dtype=np.uint8), data])
    out = np.empty(len(values) + shift, dtype=np.uint8)
    status = bitpack.unpack_inline(moved, _starts(sizes) + shift, sizes, counts, bits, out[shift:])
    assert status == 0
    assert out[shift:].tobytes() == values.tobytes()
    widths = bitpack.group_widths(values, num_values, bits)
    assert widths.tolist() == reference_bitpack.group_widths(values, num_values, bits).tolist()
    assert (sizes == bits // 8 + 128 * widths.astype(np.int64)).all()


@given(
    bits=st.sampled_from(BITS),
    counts=st.lists(st.sampled_from([0, 1, 64, 500, 1023, 1024, 1025, 2500]), max_size=4),
    width=st.integers(0, 64),
    seed=st.integers(0, 99),
)
def test_block_round_trip(bits: int, counts: list[int], width: int, seed: int) -> None:
    width = min(width, bits)
    values = _values(sum(counts), bits, width, seed)
    data, sizes = bitpack.pack_blocks(values, _int64(*counts), bits, width)
    out = _unpack_blocks(bitpack, data, sizes, _int64(*counts), bits, width)
    assert out.tobytes() == values.tobytes()


def test_chunks_may_be_short_shared_and_out_of_order(impl: Any) -> None:
    values = _values(2048, 32, 9)
    data, sizes = impl.pack_inline(values, 2048, 32)
    first, second = _starts(sizes).tolist()
    out = np.empty(4 * (3 + 1024 + 0 + 3), dtype=np.uint8)
    offsets = _int64(second, first, first, second)
    num_values = _int64(3, 1024, 0, 3)
    assert impl.unpack_inline(data, offsets, sizes[[1, 0, 0, 1]], num_values, 32, out) == 0
    start = values[4 * 1024 : 4 * 1027]
    assert out.tobytes() == start.tobytes() + values[: 4 * 1024].tobytes() + start.tobytes()


def test_nothing_is_written_past_the_values(impl: Any) -> None:
    values = _values(1500, 16, 5)
    for pack in ("inline", "blocks"):
        out = np.full(2 * 1500 + 100, 0xAA, dtype=np.uint8)
        if pack == "inline":
            data, sizes = impl.pack_inline(values, 1500, 16)
            counts = _int64(1024, 476)
            status = impl.unpack_inline(data, _starts(sizes), sizes, counts, 16, out)
        else:
            data, sizes = impl.pack_blocks(values, _int64(1500), 16, 5)
            status = impl.unpack_blocks(data, _starts(sizes), sizes, _int64(1500), 16, 5, out)
        assert status == 0
        assert out[:3000].tobytes() == values.tobytes()
        assert (out[3000:] == 0xAA).all()


def test_no_chunks(impl: Any) -> None:
    none = _int64()
    empty = np.empty(0, dtype=np.uint8)
    assert impl.unpack_inline(empty, none, none, none, 8, empty) == 0
    assert impl.unpack_blocks(empty, none, none, none, 8, 3, empty) == 0
    assert impl.group_widths(empty, 0, 8).tolist() == []
    for data, sizes in (impl.pack_inline(empty, 0, 8), impl.pack_blocks(empty, none, 8, 3)):
        assert data.dtype == np.uint8
        assert sizes.dtype == np.int64
        assert len(data) == len(sizes) == 0


def test_a_tail_is_packed_when_that_is_smaller(impl: Any) -> None:
    for tail, size in ((256, 512), (257, 512), (1023, 512), (255, 510), (1, 2)):
        values = _values(tail, 16, 4)
        data, sizes = impl.pack_blocks(values, _int64(tail), 16, 4)
        assert sizes.tolist() == [size]
        assert _unpack_blocks(impl, data, sizes, _int64(tail), 16, 4).tobytes() == values.tobytes()


def test_zero_bits_store_no_group(impl: Any) -> None:
    zeros = np.zeros(2 * 3000, dtype=np.uint8)
    data, sizes = impl.pack_blocks(zeros, _int64(3000), 16, 0)
    assert len(data) == 0
    assert sizes.tolist() == [0]
    assert not _unpack_blocks(impl, data, sizes, _int64(3000), 16, 0).any()


def test_a_raw_tail_of_another_writer_is_read(impl: Any) -> None:
    """Either form of a tail is legal whatever its length."""
    values = _values(1000, 16, 3)
    out = _unpack_blocks(impl, values, _int64(2000), _int64(1000), 16, 3)
    assert out.tobytes() == values.tobytes()
    packed = reference_bitpack.pack_group(values[:20], 16, 3)
    out = _unpack_blocks(impl, packed, _int64(len(packed)), _int64(10), 16, 3)
    assert out.tobytes() == values[:20].tobytes()


# --- hostile bytes


@pytest.mark.parametrize("bits", BITS)
def test_a_chunk_of_the_wrong_size_is_corrupt(impl: Any, bits: int) -> None:
    values = _values(2048, bits, 5)
    data, sizes = impl.pack_inline(values, 2048, bits)
    padded = np.concatenate([data, data])
    out = np.empty(len(values), dtype=np.uint8)
    for size in (0, 1, bits // 8, sizes[1] - 1, sizes[1] + 1, sizes[1] + 128, len(padded), -1):
        if size != sizes[1]:
            status = impl.unpack_inline(
                padded, _starts(sizes), _int64(sizes[0], size), _int64(1024, 1024), bits, out
            )
            assert status == 2


@pytest.mark.parametrize("bits", BITS)
def test_a_forged_width_is_corrupt(impl: Any, bits: int) -> None:
    data, sizes = impl.pack_inline(_values(1024, bits, 6), 1024, bits)
    out = np.empty(1024 * bits // 8, dtype=np.uint8)
    header = data[: bits // 8]
    words = [0, 5, 7, bits, bits + 1, 255, 1 << (bits - 1), (1 << bits) - 1, 6 + (1 << (bits - 3))]
    for word in words:
        header[:] = np.frombuffer((word % (1 << bits)).to_bytes(bits // 8, "little"), np.uint8)
        assert impl.unpack_inline(data, _int64(0), sizes, _int64(1024), bits, out) == 1
    too_wide = np.zeros(bits // 8 + 128 * (bits + 1), dtype=np.uint8)
    too_wide[0] = bits + 1
    status = impl.unpack_inline(too_wide, _int64(0), _int64(len(too_wide)), _int64(9), bits, out)
    assert status == 1


@pytest.mark.parametrize("extreme", [-(1 << 63), -1025, -1, (1 << 62) + 1, (1 << 63) - 1])
@pytest.mark.parametrize("which", ["offset", "size", "num_values"])
def test_extreme_ranges_are_corrupt(impl: Any, which: str, extreme: int) -> None:
    values = _values(1024, 32, 5)
    data, sizes = impl.pack_inline(values, 1024, 32)
    out = np.empty(len(values), dtype=np.uint8)
    ranges = {"offset": 0, "size": int(sizes[0]), "num_values": 1024, which: extreme}
    offset, size, count = (_int64(ranges[name]) for name in ("offset", "size", "num_values"))
    assert impl.unpack_inline(data, offset, size, count, 32, out) == 1
    ranges |= {} if which == "size" else {"size": 128 * 5}
    size = _int64(ranges["size"])
    assert impl.unpack_blocks(data, offset, size, count, 32, 5, out) == 1


def test_a_chunk_outside_of_the_data_is_corrupt(impl: Any) -> None:
    data, sizes = impl.pack_inline(_values(1024, 8, 2), 1024, 8)
    out = np.empty(1024, dtype=np.uint8)
    for offset in (1, len(data), len(data) + 1):
        assert impl.unpack_inline(data, _int64(offset), sizes, _int64(1024), 8, out) == 1
    assert impl.unpack_blocks(data, _int64(len(data) + 1), _int64(0), _int64(0), 8, 2, out) == 1


def test_values_that_do_not_fit_are_corrupt(impl: Any) -> None:
    values = _values(2048, 64, 5)
    out = np.empty(8 * 2048 - 1, dtype=np.uint8)
    data, sizes = impl.pack_inline(values, 2048, 64)
    counts = _int64(1024, 1024)
    assert impl.unpack_inline(data, _starts(sizes), sizes, counts, 64, out) == 2
    data, sizes = impl.pack_blocks(values, counts, 64, 5)
    assert impl.unpack_blocks(data, _starts(sizes), sizes, counts, 64, 5, out) == 2


@pytest.mark.parametrize("num_values", [1024, 1500, 2040])
def test_a_block_of_the_wrong_size_is_corrupt(impl: Any, num_values: int) -> None:
    values = _values(num_values, 16, 4)
    data, sizes = impl.pack_blocks(values, _int64(num_values), 16, 4)
    padded = np.concatenate([data, values, values])
    out = np.empty(len(values), dtype=np.uint8)
    raw_tail = 512 + num_values % 1024 * 2
    for size in (0, 1, 511, 513, sizes[0] - 1, sizes[0] + 1, sizes[0] + 512, len(values)):
        if size not in (sizes[0], raw_tail):
            status = impl.unpack_blocks(
                padded, _int64(0), _int64(size), _int64(num_values), 16, 4, out
            )
            assert status == 1, size


@pytest.mark.parametrize("packed_bits", [-1, 17, 128, 1 << 40, 1 << 64])
def test_a_packed_width_out_of_range_is_corrupt(impl: Any, packed_bits: int) -> None:
    data = np.zeros(1 << 14, dtype=np.uint8)
    out = np.empty(2048, dtype=np.uint8)
    size = _int64(128 * packed_bits if 0 < packed_bits <= 128 else len(data))
    assert impl.unpack_blocks(data, _int64(0), size, _int64(1024), 16, packed_bits, out) == 1


@given(
    raw=st.binary(max_size=300),
    offset=st.integers(-2, 300),
    size=st.integers(-2, 300),
    count=st.integers(-2, 1100),
    bits=st.sampled_from(BITS),
    packed_bits=st.integers(0, 3),
)
def test_any_bytes_give_what_the_reference_gives(
    raw: bytes, offset: int, size: int, count: int, bits: int, packed_bits: int
) -> None:
    data = np.frombuffer(raw, dtype=np.uint8)
    ranges = (_int64(offset), _int64(size), _int64(count))
    for packed in (None, packed_bits):
        results = []
        for impl in (reference_bitpack, bitpack):
            out = np.zeros(2000, dtype=np.uint8)
            if packed is None:
                status = impl.unpack_inline(data, *ranges, bits, out)
            else:
                status = impl.unpack_blocks(data, *ranges, bits, packed, out)
            results.append((status, b"" if status else out.tobytes()))
        assert results[0] == results[1]


# --- wrong calls


def test_wrong_calls_raise(impl: Any) -> None:
    data = np.zeros(64, dtype=np.uint8)
    one, two = _int64(0), _int64(0, 0)
    for bits in (0, 1, 12, 24, 128, -8):
        with pytest.raises(ValueError):
            impl.unpack_inline(data, one, one, one, bits, data)
        with pytest.raises(ValueError):
            impl.unpack_blocks(data, one, one, one, bits, 0, data)
        with pytest.raises(ValueError):
            impl.pack_blocks(data, one, bits, 0)
        with pytest.raises(ValueError):
            impl.group_widths(data, 1, bits)
    for offsets, sizes, counts in ((two, one, one), (one, two, one), (one, one, two)):
        with pytest.raises(ValueError):
            impl.unpack_inline(data, offsets, sizes, counts, 8, data)
        with pytest.raises(ValueError):
            impl.unpack_blocks(data, offsets, sizes, counts, 8, 1, data)


@pytest.mark.parametrize("num_values", [-1, 17, 1 << 40, 1 << 62])
def test_packing_more_values_than_there_are_raises(impl: Any, num_values: int) -> None:
    values = np.zeros(64, dtype=np.uint8)
    with pytest.raises(ValueError):
        impl.pack_inline(values, num_values, 32)
    with pytest.raises(ValueError):
        impl.group_widths(values, num_values, 32)
    with pytest.raises(ValueError):
        impl.pack_blocks(values, _int64(num_values), 32, 4)
    with pytest.raises(ValueError):
        impl.pack_blocks(values, _int64(8, 9), 32, 4)


@pytest.mark.parametrize("packed_bits", [-1, 33, 1 << 40])
def test_packing_into_a_width_out_of_range_raises(impl: Any, packed_bits: int) -> None:
    with pytest.raises(ValueError):
        impl.pack_blocks(np.zeros(64, dtype=np.uint8), _int64(8), 32, packed_bits)
