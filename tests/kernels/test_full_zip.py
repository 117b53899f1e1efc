from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.kernels import bytes as compiled
from tests.kernels import reference_bytes as reference
from tests.kernels.arrays import from_bytes, i64, same, u16, variable


@pytest.fixture(params=[reference, compiled], ids=["reference", "compiled"])
def impl(request: pytest.FixtureRequest) -> Any:
    return request.param


small = st.integers(-2, 40)


# strings ab, null, empty; one bit of definition level
ZIPPED = from_bytes("00 02000000 6162 01 00 00000000")


def test_zip_variable_example(impl: Any) -> None:
    offsets = np.array([0, 2, 2, 2], np.int32)
    found = impl.zip_variable(None, u16(0, 1, 0), 0, 1, 0, 1, offsets, from_bytes(b"ab"), 4)
    same(found, (ZIPPED, i64(0, 7, 8, 13)))


def test_unzip_variable_example(impl: Any) -> None:
    found = impl.unzip_variable(ZIPPED, i64(0, 7), i64(7, 13), 0, 1, 1, 4, 32)
    offsets = np.array([0, 2, 2, 2], np.int32)
    same(found, (i64(1, 2), None, u16(0, 1, 0), offsets, from_bytes(b"ab"), 0))


def test_fixed_example(impl: Any) -> None:
    # rows [7, null], null, [9]: def 1 is a null value, 2 a null list
    rep, def_ = u16(1, 0, 1, 1), u16(0, 1, 2, 0)
    zipped = from_bytes("04 0007 01 0000 06 04 0009")
    values = from_bytes("0007 0000 0009")
    same(impl.zip_fixed(rep, def_, 1, 2, 1, 1, values, 2), (zipped, i64(0, 6, 7, 10)))
    found = impl.unzip_fixed(zipped, i64(0, 7), i64(7, 10), 1, 2, 1, 2)
    same(found, (i64(3, 1), rep, def_, values, 0))


def test_unzip_without_control_words(impl: Any) -> None:
    found = impl.unzip_fixed(from_bytes(b"aabbcc"), i64(4, 0), i64(6, 4), 0, 0, 0, 2)
    same(found, (i64(1, 2), None, None, from_bytes(b"ccaabb"), 0))


levels = st.tuples(st.integers(0, 3), st.integers(0, 16)).flatmap(
    lambda bits: st.tuples(
        st.just(bits),
        st.lists(
            st.tuples(st.integers(0, (1 << bits[0]) - 1), st.integers(0, (1 << bits[1]) - 1)),
            max_size=12,
        ),
        st.sampled_from([0, 1, (1 << bits[1]) - 1, 1 << bits[1]]),
    )
)


@given(levels, st.sampled_from([1, 3, 8]), st.sampled_from([0, 4, 8]), st.data())
def test_zip_round_trip(
    drawn: Any, value_bytes: int, length_bytes: Any, draw: st.DataObject
) -> None:
    (bits_rep, bits_def), items, max_visible = drawn
    max_rep = (1 << bits_rep) - 1
    rep = u16(*(item[0] for item in items)) if bits_rep else None
    if rep is not None:
        rep[:1] = max_rep
    def_ = u16(*(item[1] for item in items)) if bits_def else None
    defs = [0] * len(items) if def_ is None else def_.tolist()
    visible = [level for level in defs if level <= max_visible]
    sizes = [value_bytes if not length_bytes else draw.draw(st.integers(0, 5)) for _ in visible]
    values = [bytes([i % 256]) * size for i, size in enumerate(sizes)]
    offsets, data = variable(values, np.int32)
    bits = (bits_rep, bits_def, max_rep, max_visible)
    if length_bytes:
        zipping: tuple[Any, ...] = (rep, def_, *bits, offsets, data, length_bytes)
        zipped, starts = compiled.zip_variable(*zipping)
        same((zipped, starts), reference.zip_variable(*zipping))
        unzipping: tuple[Any, ...] = (bits_rep, bits_def, max_visible, length_bytes, 64)
        found: Any = compiled.unzip_variable(zipped, starts[:-1], starts[1:], *unzipping)
        same(found, reference.unzip_variable(zipped, starts[:-1], starts[1:], *unzipping))
        stored = [v for v, level in zip(values, visible, strict=True) if level == 0]
        assert found[4].tobytes() == b"".join(stored)
    else:
        zipped, starts = compiled.zip_fixed(rep, def_, *bits, data, value_bytes)
        same((zipped, starts), reference.zip_fixed(rep, def_, *bits, data, value_bytes))
        unzipping = (bits_rep, bits_def, max_visible, value_bytes)
        found = compiled.unzip_fixed(zipped, starts[:-1], starts[1:], *unzipping)
        same(found, reference.unzip_fixed(zipped, starts[:-1], starts[1:], *unzipping))
        assert found[3].tobytes() == data.tobytes()
    assert found[-1] == 0
    assert found[0].sum() == len(items)
    same(found[1:3], (rep, def_))


@given(st.binary(max_size=40), st.integers(0, 3), st.integers(0, 16), st.data())
def test_unzip_on_any_bytes(data: bytes, bits_rep: int, bits_def: int, draw: st.DataObject) -> None:
    ranges = draw.draw(st.lists(st.tuples(small, small), max_size=3))
    places = i64(*(a for a, _ in ranges)), i64(*(b for _, b in ranges))
    bits = (bits_rep, bits_def, draw.draw(st.integers(0, 4)))
    sizes: Any = (draw.draw(st.sampled_from([4, 8])), draw.draw(st.sampled_from([32, 64])))
    found: Any = compiled.unzip_variable(from_bytes(data), *places, *bits, *sizes)
    expected: Any = reference.unzip_variable(from_bytes(data), *places, *bits, *sizes)
    assert found[-1] == expected[-1]
    if expected[-1] == 0:
        same(found, expected)
    value_bytes = draw.draw(st.integers(1, 4))
    found = compiled.unzip_fixed(from_bytes(data), *places, *bits, value_bytes)
    expected = reference.unzip_fixed(from_bytes(data), *places, *bits, value_bytes)
    assert found[-1] == expected[-1]
    if expected[-1] == 0:
        same(found, expected)


@pytest.mark.parametrize(("start", "stop"), [(-1, 7), (7, 0), (0, 14), (0, 6), (0, 3), (0, 9)])
def test_unzip_refuses_ranges(impl: Any, start: int, stop: int) -> None:
    found = impl.unzip_variable(ZIPPED, i64(0, start), i64(7, stop), 0, 1, 1, 4, 32)
    assert found[-1] == 2


def test_unzip_refuses_huge_lengths_and_spare_bits(impl: Any) -> None:
    huge = from_bytes("00 ffffffffffffffff 6162")
    assert impl.unzip_variable(huge, i64(0), i64(11), 0, 1, 1, 8, 64)[-1] == 1
    spare = from_bytes("84 0007")  # a rep level of 33 in one bit
    assert impl.unzip_fixed(spare, i64(0), i64(3), 1, 2, 1, 2)[-1] == 1


def test_zip_refuses_wrong_calls() -> None:
    values = from_bytes(b"abcd")
    cases: list[tuple[Any, ...]] = [
        (u16(0, 1), None, 1, 0, 1, 0, values, 2),  # does not start a row
        (u16(2, 1), None, 1, 0, 2, 0, values, 2),  # two bits needed
        (None, u16(0, 2), 0, 1, 0, 2, values, 2),
        (None, u16(0, 0, 0), 0, 1, 0, 1, values, 2),  # too few values
        (None, u16(0), 0, 1, 0, 1, values, 2),  # too many
    ]
    for case in cases:
        with pytest.raises(ValueError, match=r"item \d of \d does not fit"):
            compiled.zip_fixed(*case)
    with pytest.raises(ValueError, match="not values of 3 bytes"):
        compiled.zip_fixed(None, None, 0, 0, 0, 0, values, 3)
    with pytest.raises(ValueError, match="def: expected length 1, found 2"):
        compiled.zip_fixed(u16(1), u16(0, 0), 1, 0, 1, 0, values, 4)
    for offsets in ((0, 5), (-1, 2), (2, 1)):
        with pytest.raises(ValueError, match="item 0 of 1"):
            compiled.zip_variable(None, None, 0, 0, 0, 0, i64(*offsets), values, 4)


def test_widths_that_the_format_does_not_have() -> None:
    empty, data = i64(), from_bytes(b"")
    wrong: Any = 3
    with pytest.raises(ValueError, match="length_bytes must be 4 or 8"):
        compiled.unzip_variable(data, empty, empty, 0, 0, 0, wrong, 32)
    with pytest.raises(ValueError, match="at most 16"):
        compiled.unzip_fixed(data, empty, empty, 17, 0, 0, 4)
    with pytest.raises(ValueError, match="cannot be counted"):
        compiled.unzip_fixed(data, empty, empty, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="stops: expected length 0, found 1"):
        compiled.unzip_fixed(data, empty, i64(0), 0, 0, 0, 4)
