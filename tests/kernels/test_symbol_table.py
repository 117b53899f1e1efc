from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from alance.kernels.symbol_table import build_table, take_sample
from tests.kernels.reference_symbols import best_symbols


def _offsets(*lengths: int, first: int = 0) -> npt.NDArray[np.int32]:
    return (first + np.cumsum([0, *lengths])).astype(np.int32)


def test_a_table_lies_as_the_format_says() -> None:
    table = build_table([b"abc", b"z", b"12345678"])
    assert len(table) == 2312
    assert table[:8] == bytes([3, 0, 0, 1]) + b"TSSF"
    assert table[8:32] == b"abc\0\0\0\0\0" + b"z\0\0\0\0\0\0\0" + b"12345678"
    assert table[32:35] == bytes([3, 1, 8])
    assert not any(table[35:])


def test_the_largest_table_fits() -> None:
    table = build_table([bytes((i,)) * 8 for i in range(255)])
    assert len(table) == 2312
    assert table[8 + 255 * 8 : 8 + 255 * 9] == b"\x08" * 255


def test_a_small_input_is_its_own_sample() -> None:
    starts, stops = take_sample(_offsets(3, 0, 5, first=7), 100, seed=3)
    assert starts.tolist() == [7, 10, 10]
    assert stops.tolist() == [10, 10, 15]


@pytest.mark.parametrize("lengths", [[100_000], [10] * 10_000, [0, 7, 1000, 0] * 100])
@pytest.mark.parametrize("sample_bytes", [1, 255, 256, 300, 16384])
@pytest.mark.parametrize("seed", [0, 1, -5, 1 << 70])
def test_a_sample_is_even_and_never_crosses_values(
    lengths: list[int], sample_bytes: int, seed: int
) -> None:
    offsets = _offsets(*lengths, first=11)
    starts, stops = take_sample(offsets, sample_bytes, seed)
    assert (starts <= stops).all()
    assert starts[0] >= 11
    assert stops[-1] <= offsets[-1]
    assert (stops[:-1] <= starts[1:]).all()
    inside = np.searchsorted(offsets, starts, side="right") - 1
    assert (stops <= offsets[inside + 1]).all()
    taken = int((stops - starts).sum())
    assert taken == (sample_bytes if sample_bytes < 256 else sample_bytes // 256 * 256)
    half = int(offsets[0]) + (int(offsets[-1]) - int(offsets[0])) // 2
    if sample_bytes > 512:
        assert 0.4 < (stops - starts)[starts < half].sum() / taken < 0.6


def test_the_symbols_that_replace_most_bytes_win() -> None:
    alphabet = [b"abcd", b"ef", b"xyz12345", b"q"]
    singles = np.array([5, 2, 1, 4], dtype=np.int64)
    pairs = np.zeros((4, 4), dtype=np.int32)
    pairs[0, 1] = 7  # abcdef: 42
    pairs[1, 3] = 2  # seen twice: no candidate
    pairs[2, 0] = 9  # a full symbol cannot grow
    pairs[1, 0] = 3  # efabcd: 18
    pairs[0, 2] = 2  # abcdxyz1: seen twice
    # q counts 8 for each use: 32, abcd 20, ef 4, xyz12345 8
    expected = [b"abcdef", b"q", b"abcd", b"efabcd", b"xyz12345", b"ef"]
    assert best_symbols(alphabet, singles, pairs) == expected


def test_gains_of_one_symbol_add_up_and_draws_are_settled_by_the_symbol() -> None:
    alphabet = [b"ab", b"a", b"b", b"dc", b"ab"]
    singles = np.array([3, 1, 1, 4, 1], dtype=np.int64)
    pairs = np.zeros((5, 5), dtype=np.int32)
    pairs[1, 2] = 2
    # ab: 3 + 1 + 2 uses of 2 bytes = 12; a, b and dc: 8 each, the longer and then the smaller first
    assert best_symbols(alphabet, singles, pairs) == [b"ab", b"dc", b"a", b"b"]


def test_no_more_symbols_than_codes() -> None:
    alphabet = [bytes((i,)) for i in range(256)]
    pairs = np.full((256, 256), 2, dtype=np.int32)
    assert len(best_symbols(alphabet, np.ones(256, dtype=np.int64), pairs)) == 255


def test_two_symbols_at_most_begin_alike() -> None:
    alphabet = [b"abc1", b"abc2", b"abc3", b"abd", b"ab"]
    singles = np.array([9, 8, 7, 2, 1], dtype=np.int64)
    found = best_symbols(alphabet, singles, np.zeros((5, 5), np.int32))
    assert found == [b"abc1", b"abc2", b"abd", b"ab"]


def test_of_very_many_pairs_the_best_are_looked_at() -> None:
    alphabet = [bytes((i,)) for i in range(256)]
    pairs = np.arange(256 * 256, dtype=np.int32).reshape(256, 256)
    found = best_symbols(alphabet, np.zeros(256, np.int64), pairs)
    assert found == [bytes((255, i)) for i in range(255, 0, -1)]
