from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import bytes as compiled
from tests.kernels import reference_bytes as reference
from tests.kernels.arrays import from_bytes, i64, same, variable


@pytest.fixture(params=[reference, compiled], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


byte_strings = st.lists(st.binary(max_size=20), max_size=20)
small = st.integers(-2, 40)


@pytest.mark.parametrize(
    ("data", "period", "expected"),
    [
        (b"", 3, True),
        (b"ab", 3, True),
        (b"abcabcab", 3, True),
        (b"abcabcac", 3, False),
        (b"aaaa", 1, True),
        (b"aaab", 1, False),
    ],
)
def test_bytes_that_repeat(impl: Any, data: bytes, period: int, expected: bool) -> None:
    assert impl.repeats(from_bytes(data), period) is expected
    with pytest.raises(ValueError, match="period"):
        impl.repeats(from_bytes(data), 0)


# ---- mini-block chunks -------------------------------------------------------------------------

# nullable int32 1, 2, 3, null
CHUNK = "0400080010000000 0000000000000100 01000000020000000300000000000000"
# int32 lists [1, 2], null, [], [4, null, 6], [null]: header, rep, def, values
LIST_CHUNK = (
    "0800100010001800 01000000010001000100000000000100 00000000020003000000010000000100"
    "010000000200000004000000000000000600000000000000"
)


def test_parse_chunk_headers_locates_streams(impl: Any) -> None:
    data = from_bytes("ff" * 8 + CHUNK + LIST_CHUNK)
    found = impl.parse_chunk_headers(data, i64(8), i64(32), 1, 1, 2)
    same(found, (i64(4), i64(16, 24)[:, None], i64(8, 16)[:, None], 0))
    found = impl.parse_chunk_headers(data, i64(40), i64(64), 2, 1, 2)
    same(found, (i64(8), i64(48, 64, 80)[:, None], i64(16, 16, 24)[:, None], 0))


def test_parse_chunk_headers_of_large_chunks(impl: Any) -> None:
    # u16 num_levels, u16 def size, two u32 sizes: 12 bytes, padded to 16
    data = from_bytes("0200 0200 01000000 00000000 00000000 aabb000000000000 cc00000000000000")
    found = impl.parse_chunk_headers(data, i64(0), i64(32), 1, 2, 4)
    same(found, (i64(2), np.array([[16], [24], [32]]), np.array([[2], [1], [0]]), 0))


@pytest.mark.parametrize(
    ("offset", "size"),
    [(-1, 32), (0, -8), (1, 32), (33, 8), (0, 7), (0, 24), (2**62, 2**62)],
)
def test_parse_chunk_headers_refuses_places(impl: Any, offset: int, size: int) -> None:
    data = from_bytes(CHUNK)
    status = impl.parse_chunk_headers(data, i64(0, offset), i64(32, size), 1, 1, 2)[-1]
    assert status == 2


@pytest.mark.parametrize("field", [2, 4])
def test_parse_chunk_headers_refuses_long_streams(impl: Any, field: int) -> None:
    data = from_bytes(CHUNK).copy()
    data[field : field + 2] = 0xFF
    assert impl.parse_chunk_headers(data, i64(0), i64(32), 1, 1, 2)[-1] == 1


def test_build_chunks_lays_out_the_examples(impl: Any) -> None:
    chunk = from_bytes(LIST_CHUNK)
    streams = [(chunk, i64(8), i64(16)), (chunk, i64(24), i64(16)), (chunk, i64(40), i64(24))]
    same(impl.build_chunks(i64(8), streams, 2, 2), (chunk, i64(64)))
    assert impl.build_chunks(i64(), [], 0, 2)[0].size == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 65535), st.lists(st.binary(max_size=30), min_size=4, max_size=4)),
        max_size=5,
    ),
    st.integers(0, 2),
    st.sampled_from([2, 4]),
)
def test_chunks_round_trip(
    chunks: list[tuple[int, list[bytes]]], level_streams: int, size_bytes: Any
) -> None:
    num_levels = i64(*(levels for levels, _ in chunks))
    streams = []
    for s in range(4):
        offsets, data = variable([cut[s] for _, cut in chunks], np.int64)
        streams.append((data, offsets[:-1], np.diff(offsets)))
    data, sizes = compiled.build_chunks(num_levels, streams, level_streams, size_bytes)
    same((data, sizes), reference.build_chunks(num_levels, streams, level_streams, size_bytes))
    starts = np.cumsum(sizes) - sizes
    arguments = (data, starts, sizes, level_streams, 4 - level_streams, size_bytes)
    found = compiled.parse_chunk_headers(*arguments)
    same(found, reference.parse_chunk_headers(*arguments))
    assert found[-1] == 0
    for s in range(4):
        places = zip(found[1][s].tolist(), found[2][s].tolist(), strict=True)
        assert [data[a : a + n].tobytes() for a, n in places] == [cut[s] for _, cut in chunks]


@given(
    st.binary(max_size=80),
    st.lists(st.tuples(small, small), max_size=4),
    st.integers(0, 2),
    st.integers(0, 3),
)
def test_parse_chunk_headers_on_any_bytes(
    data: bytes, places: list[tuple[int, int]], level_streams: int, value_streams: int
) -> None:
    chunks = i64(*(a for a, _ in places)), i64(*(b for _, b in places))
    arguments = (from_bytes(data), *chunks, level_streams, value_streams, 2)
    found, expected = (m.parse_chunk_headers(*arguments) for m in (compiled, reference))
    assert found[-1] == expected[-1]
    if expected[-1] == 0:
        same(found, expected)


def test_build_chunks_refuses_what_no_field_holds() -> None:
    data = from_bytes(bytes(70000))
    for stream in ((i64(0), i64(65536)), (i64(-1), i64(1)), (i64(69999), i64(2))):
        with pytest.raises(ValueError, match="stream of chunk 0"):
            compiled.build_chunks(i64(1), [(data, *stream)], 0, 2)
    for num_levels in (-1, 65536):
        with pytest.raises(ValueError, match="levels"):
            compiled.build_chunks(i64(num_levels), [], 0, 2)
    with pytest.raises(ValueError, match="expected length 1"):
        compiled.build_chunks(i64(1), [(data, i64(0, 1), i64(1, 1))], 0, 2)
    out, sizes = compiled.build_chunks(i64(1), [(data, i64(0), i64(65536))], 0, 4)
    assert out.size == sizes[0] == 8 + 65536


# ---- ranges, values and bits -------------------------------------------------------------------


@given(st.binary(max_size=40), st.lists(st.tuples(small, small), max_size=5), st.integers(0, 60))
def test_gather(data: bytes, ranges: list[tuple[int, int]], out_bytes: int) -> None:
    places = i64(*(a for a, _ in ranges)), i64(*(b for _, b in ranges))
    outs = np.zeros((2, out_bytes), np.uint8)
    found = compiled.gather(from_bytes(data), *places, outs[0])
    assert found == reference.gather(from_bytes(data), *places, outs[1])
    if found == 0:
        same(outs[0], outs[1])


def test_gather_statuses(impl: Any) -> None:
    out = np.zeros(4, np.uint8)
    assert impl.gather(from_bytes(b"abcdef"), i64(4, 0), i64(2, 2), out) == 0
    assert out.tobytes() == b"efab"
    assert impl.gather(from_bytes(b"abcdef"), i64(4, 5), i64(2, 2), out) == 2
    assert impl.gather(from_bytes(b"abcdef"), i64(0, 0), i64(4, 1), out) == 2
    assert impl.gather(from_bytes(b"abcdef"), i64(0, 0), i64(1, 1), out) == 3


@given(
    values=byte_strings, gaps=st.lists(small, min_size=20, max_size=20), spare=st.integers(-3, 9)
)
@pytest.mark.parametrize("length_bytes", [4, 8])
def test_members_put_to_rows(
    length_bytes: int, values: list[bytes], gaps: list[int], spare: int
) -> None:
    sizes = [length_bytes + len(value) for value in values]
    places = np.cumsum([gap % 3 for gap in gaps[: len(values)]]) + np.cumsum([0, *sizes])[:-1]
    out_bytes = max(int(places[-1]) + sizes[-1] + spare, 0) if values else 0
    offsets, data = variable(values, np.int64)
    found = []
    for impl in (compiled, reference):
        args = places.astype(np.int64), np.zeros(out_bytes, np.uint8)
        status = impl.put_variable(data, offsets, length_bytes, *args)
        found.append((status, *(each.tolist() for each in args)))
    assert found[0] == found[1]
    assert (found[0][0] == 0) is (spare >= 0 or not values)


@given(num_rows=st.integers(0, 9), width=st.integers(0, 17), spare=st.integers(-3, 3))
def test_fixed_members_put_to_rows(num_rows: int, width: int, spare: int) -> None:
    data = np.arange(num_rows * width, dtype=np.uint8)
    found = []
    for impl in (compiled, reference):
        args = (
            i64(*range(2, 2 + num_rows * (width + 1), width + 1)),
            np.zeros(max(num_rows * (width + 1) + 1 + spare, 0), np.uint8),
        )
        status = impl.put_fixed(data, width, *args)
        found.append((status, *(each.tolist() for each in args)))
    assert found[0] == found[1]


def test_members_that_do_not_fit_their_rows(impl: Any) -> None:
    data, out = from_bytes(b"abcdef"), np.zeros(12, np.uint8)
    assert impl.put_fixed(data, 3, i64(0, 10), out) == 2
    assert impl.put_fixed(data, 3, i64(-1, 3), out) == 1
    assert impl.put_variable(data, i64(0, 2, 7), 4, i64(0, 6), out) == 2
    assert impl.put_variable(data, i64(2, 0), 4, i64(0), out) == 1
    assert impl.put_variable(data, i64(0, 6), 8, i64(0), out) == 1
    with pytest.raises(ValueError, match="data"):
        impl.put_fixed(data, 3, i64(0), out)
    with pytest.raises(ValueError, match="length"):
        impl.put_variable(data, i64(0, 6), 2, i64(0), out)
    with pytest.raises(ValueError, match="offsets"):
        impl.put_variable(data, i64(0), 4, i64(0), out)


@given(st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=5), st.data())
def test_gather_bits(data: bytes, counts: list[int], draw: st.DataObject) -> None:
    offsets = i64(*(draw.draw(st.integers(0, 40)) for _ in counts))
    outs = np.full((2, (sum(counts) + 7) // 8), 0xAA, np.uint8)
    found = compiled.gather_bits(from_bytes(data), offsets, i64(*counts), outs[0])
    assert found == reference.gather_bits(from_bytes(data), offsets, i64(*counts), outs[1])
    if found == 0:
        same(outs[0], outs[1])


@pytest.mark.parametrize(
    ("offsets", "counts", "status"),
    [
        ((0, 9), (8, 8), 2),
        ((0, -1), (8, 8), 2),
        ((0, 0), (9, 8), 2),
        ((0, 0), (8, -1), 2),
        ((0, 0), (1, 1), 3),
    ],
)
def test_gather_bits_statuses(impl: Any, offsets: Any, counts: Any, status: int) -> None:
    out = np.zeros(2, np.uint8)
    assert impl.gather_bits(from_bytes(bytes(9)), i64(*offsets), i64(*counts), out) == status


@given(st.binary(max_size=60), st.data())
def test_slice_bits(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data) * 8))
    count = draw.draw(st.integers(0, len(data) * 8 - start))
    expected = reference.slice_bits(from_bytes(data), start, count)
    same(compiled.slice_bits(from_bytes(data), start, count), expected)


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, 17), (16, 1), (3, -1), (2**62, 2**62)])
def test_slice_bits_refuses_bits_outside(start: int, count: int) -> None:
    with pytest.raises(ValueError, match="bitmap of 2 bytes"):
        compiled.slice_bits(from_bytes(b"ab"), start, count)


@pytest.mark.parametrize("value_bytes", [1, 2, 3, 4, 8, 16, 33])
def test_take_fixed(impl: Any, value_bytes: int) -> None:
    values = [bytes([i]) * value_bytes for i in range(5)]
    data = from_bytes(b"-" + b"".join(values))[1:]  # at an odd address
    out = np.zeros(4 * value_bytes, np.uint8)
    assert impl.take_fixed(data, i64(4, 0, 0, 2), value_bytes, out) == 0
    assert out.tobytes() == values[4] + values[0] * 2 + values[2]
    for wrong in (5, -1, 2**62):
        assert impl.take_fixed(data, i64(4, wrong, 0, 2), value_bytes, out) == 2
    if value_bytes > 1:  # a value that is cut off is none
        assert impl.take_fixed(data[:-1], i64(0, 0, 0, 4), value_bytes, out) == 4


def test_take_fixed_refuses_wrong_calls() -> None:
    with pytest.raises(ValueError, match="out: expected length 4, found 3"):
        compiled.take_fixed(from_bytes(b"abcd"), i64(0), 4, np.zeros(3, np.uint8))
    for value_bytes in (0, -1, 2**31):
        with pytest.raises(ValueError, match="value_bytes"):
            compiled.take_fixed(from_bytes(b"abcd"), i64(), value_bytes, np.zeros(0, np.uint8))


@given(st.binary(min_size=1, max_size=20), st.data())
def test_take_bits(data: bytes, draw: st.DataObject) -> None:
    positions = i64(*draw.draw(st.lists(st.integers(-1, len(data) * 8), max_size=40)))
    outs = np.full((2, (len(positions) + 7) // 8), 0xAA, np.uint8)
    found = compiled.take_bits(from_bytes(data), positions, outs[0])
    assert found == reference.take_bits(from_bytes(data), positions, outs[1])
    if found == 0:
        same(outs[0], outs[1])


# ---- variable width ----------------------------------------------------------------------------

# a, bb, null, dddd
VARIABLE = from_bytes("14000000 15000000 17000000 17000000 1b000000" + b"abbdddd".hex() + "48")


def test_decode_variable_example(impl: Any) -> None:
    found = impl.decode_variable(VARIABLE, i64(0), i64(28), i64(4), 32)
    same(found, (np.array([0, 1, 3, 3, 7], np.int32), from_bytes(b"abbdddd"), 0))


def test_encode_variable_example(impl: Any) -> None:
    offsets = np.array([5, 6, 8, 8, 12], np.int32)  # a slice of a larger block
    data, sizes = impl.encode_variable(offsets, from_bytes(b"-----abbdddd"), i64(0, 4))
    same(sizes, i64(28))
    same(data[:27], VARIABLE[:27])
    assert data[27] == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(st.lists(byte_strings, max_size=5))
def test_variable_round_trip(dtype: Any, chunks: list[list[bytes]]) -> None:
    offsets, data = variable([value for chunk in chunks for value in chunk], dtype)
    num_values = i64(*map(len, chunks))
    boundaries = np.cumsum(i64(0, *num_values))
    encoded, sizes = compiled.encode_variable(offsets, data, boundaries)
    same((encoded, sizes), reference.encode_variable(offsets, data, boundaries))
    assert not (sizes % offsets.dtype.itemsize).any()
    width = offsets.dtype.itemsize * 8
    starts = np.cumsum(sizes) - sizes
    same(compiled.decode_variable(encoded, starts, sizes, num_values, width), (offsets, data, 0))


@given(st.data())
def test_decode_variable_on_flipped_bytes(draw: st.DataObject) -> None:
    data = VARIABLE.copy()
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, 27))] = draw.draw(st.integers(0, 255))
    places = i64(draw.draw(st.integers(-1, 2))), i64(draw.draw(st.integers(20, 29)))
    count = i64(draw.draw(st.sampled_from([-1, 0, 3, 4, 4, 4, 5, 2**62])))
    width: Any = draw.draw(st.sampled_from([32, 64]))
    found = compiled.decode_variable(data, *places, count, width)
    expected = reference.decode_variable(data, *places, count, width)
    assert found[-1] == expected[-1]
    if expected[-1] == 0:
        same(found, expected)


@pytest.mark.parametrize(
    "offsets",
    [
        (20, 21, 23, 23, 29),  # beyond the buffer
        (20, 21, 19, 23, 27),  # decreasing
        (16, 21, 23, 23, 27),  # values among the offsets
        (20, 2**32 - 1, 23, 23, 27),
        (20, 21, 23, 23, 19),
    ],
)
def test_decode_variable_refuses_offsets(impl: Any, offsets: tuple[int, ...]) -> None:
    bad = from_bytes(np.array(offsets, "<u4").tobytes() + b"abbdddd-")
    data = np.concatenate([VARIABLE, bad])
    found = impl.decode_variable(data, i64(0, 28), i64(28, 28), i64(4, 4), 32)
    assert found[-1] == 2


def test_variable_overflow() -> None:
    # many chunks in the same bytes: 2^31 bytes of values without as much memory
    size = 1 << 20
    head = np.array([8, size], "<u4").tobytes()
    data = from_bytes(head + bytes(size - 8))
    count = 2049
    chunks = np.zeros(count, np.int64), np.full(count, size), np.ones(count, np.int64)
    assert compiled.decode_variable(data, *chunks, 32)[-1] == -1
    offsets = np.array([0, size], np.int32)
    assert compiled.take_variable(offsets, data, np.zeros(count, np.int64))[-1] == -1


def test_encode_variable_refuses_wrong_calls() -> None:
    offsets, data = variable([b"ab", b"c"], np.int64)
    for boundaries in ((0, 3), (-1, 2), (2, 1)):
        with pytest.raises(ValueError, match="chunk 0 holds values"):
            compiled.encode_variable(offsets, data, i64(*boundaries))
    with pytest.raises(ValueError, match="outside the 2 bytes"):
        compiled.encode_variable(offsets, data[:2], i64(0, 2))
    with pytest.raises(ValueError, match="decrease in chunk 0"):
        compiled.encode_variable(i64(0, 3, 2, 3), data, i64(0, 3))
    with pytest.raises(ValueError, match="found none"):
        compiled.encode_variable(offsets, data, i64())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(byte_strings, st.lists(st.integers(-1, 20), max_size=20))
def test_take_variable(dtype: Any, values: list[bytes], positions: list[int]) -> None:
    arguments = (*variable(values, dtype), i64(*positions))
    found, expected = compiled.take_variable(*arguments), reference.take_variable(*arguments)
    assert found[-1] == expected[-1]
    if expected[-1] == 0:
        same(found, expected)


@pytest.mark.parametrize("offsets", [(0, 2, 1, 3), (0, -1, 0, 3), (0, 1, 9, 3)])
def test_take_variable_refuses_offsets(impl: Any, offsets: tuple[int, ...]) -> None:
    assert impl.take_variable(i64(*offsets), from_bytes(b"abc"), i64(1))[-1] == 1


def test_widths_that_the_format_does_not_have() -> None:
    empty, data = i64(), from_bytes(b"")
    wrong: Any = 3
    with pytest.raises(ValueError, match="size_bytes must be 2 or 4"):
        compiled.parse_chunk_headers(data, empty, empty, 1, 1, wrong)
    with pytest.raises(ValueError, match="3 level"):
        compiled.parse_chunk_headers(data, empty, empty, 3, 1, 2)
    with pytest.raises(ValueError, match="width must be 32 or 64"):
        compiled.decode_variable(data, empty, empty, empty, wrong)
