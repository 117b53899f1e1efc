"""Comparing Arrow data bit by bit, without Arrow's own compute functions.

What lies under nulls does not count; NaNs are equal when their bits are, and 0.0 is not -0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.assemble import variable_bits
from alance.encodings.rows import expand_ranges

__all__ = ["assert_same_array", "assert_same_table"]

Positions = npt.NDArray[np.int64]


def assert_same_table(
    found: pa.Table, expected: pa.Table, rows: Sequence[int] | Positions | None = None
) -> None:
    """Assert that a table has the schema of another, and its rows.

    Parameters
    ----------
    found
        As it was read.
    expected
        As it was written.
    rows
        Which rows of `expected` the found ones must be, in order; None for all.
    """
    assert found.schema.equals(expected.schema, check_metadata=True), (
        f"found the schema\n{found.schema}\nexpected\n{expected.schema}"
    )
    num_rows = expected.num_rows if rows is None else len(rows)
    assert found.num_rows == num_rows, f"found {found.num_rows} rows, expected {num_rows}"
    wanted = np.arange(num_rows) if rows is None else np.asarray(rows, np.int64)
    for name, one, other in zip(found.column_names, found.columns, expected.columns, strict=True):
        _assert_same_column(name, one, other, wanted)


def _assert_same_column(
    name: str, found: pa.ChunkedArray, expected: pa.ChunkedArray, rows: Positions
) -> None:
    """Compare every chunk with every chunk: Arrow cannot join all dictionaries."""
    stop = 0
    for one in found.chunks:
        start, stop = stop, stop + len(one)
        wanted, base = rows[start:stop], 0
        for other in expected.chunks:
            here = np.flatnonzero((wanted >= base) & (wanted < base + len(other)))
            _assert_same(one, here, other, wanted[here] - base, name)
            base += len(other)


def assert_same_array(
    found: pa.Array,
    expected: pa.Array,
    rows: Sequence[int] | Positions | None = None,
    *,
    name: str = "array",
) -> None:
    """Assert that an array holds the values of another, or those at `rows` in order."""
    assert found.type == expected.type, f"{name}: found {found.type}, expected {expected.type}"
    wanted = np.arange(len(expected)) if rows is None else np.asarray(rows, np.int64)
    assert len(found) == len(wanted), f"{name}: found {len(found)} values, expected {len(wanted)}"
    _assert_same(found, np.arange(len(found)), expected, wanted, name)


def _assert_same(
    found: pa.Array, found_rows: Positions, expected: pa.Array, rows: Positions, name: str
) -> None:
    parts = zip(_parts(found, found_rows, name), _parts(expected, rows, name), strict=True)
    for (path, one), (_, other) in parts:
        assert one.shape == other.shape, f"{path}: found {one.shape}, expected {other.shape}"
        differences = np.flatnonzero(one != other)
        assert not len(differences), (
            f"{path}: {len(differences)} of {one.size} differ, the first at {differences[0]}: "
            f"found {one.reshape(-1)[differences[0]]}, expected "
            f"{other.reshape(-1)[differences[0]]}"
        )


def _parts(
    array: pa.Array, positions: Positions, path: str
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Validity, lengths and bytes of the values at some positions, level by level."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, positions, valid = _looked_up(array, positions)
        yield f"{path} validity", valid
        yield from _parts(array, positions, path)
        return
    valid = _valid(array)[positions]
    yield f"{path} validity", valid
    positions = positions[valid]
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _parts(array.field(i), positions, f"{path}.{kind.field(i).name}")
    elif pa.types.is_fixed_size_list(kind):
        starts = (array.offset + positions) * kind.list_size
        items = expand_ranges(starts, starts + kind.list_size)
        yield from _parts(array.values, items, f"{path}[]")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = np.asarray(array.offsets).astype(np.int64)
        starts, stops = offsets[positions], offsets[positions + 1]
        yield f"{path} lengths", stops - starts
        items = expand_ranges(starts, stops)
        if pa.types.is_map(kind):
            yield from _parts(array.keys, items, f"{path} keys")
            yield from _parts(array.items, items, f"{path} items")
        else:
            yield from _parts(array.values, items, f"{path}[]")
    elif not pa.types.is_null(kind):
        yield from _values(array, positions, path)


def _looked_up(
    array: pa.DictionaryArray, positions: Positions
) -> tuple[pa.Array, Positions, npt.NDArray[np.bool_]]:
    """Items of a dictionary array, which of them are meant, and which values are not null."""
    valid = _valid(array.indices)[positions]
    if not valid.any():
        return array.dictionary, np.empty(0, np.int64), valid
    indices = array.indices
    codes = np.frombuffer(
        indices.buffers()[1], indices.type.to_pandas_dtype(), indices.offset + len(indices)
    )
    chosen = codes[indices.offset + positions[valid]].astype(np.int64)
    item_valid = _valid(array.dictionary)[chosen]
    valid[valid] = item_valid
    return array.dictionary, chosen[item_valid], valid


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), np.bool_)
    return _bits(bitmap, array.offset, len(array))


def _bits(buffer: pa.Buffer, offset: int, length: int) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=offset + length, bitorder="little")
    return bits[offset:].astype(np.bool_)


def _values(
    array: pa.Array, positions: Positions, path: str
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    kind = array.type
    if len(positions) == 0:
        return
    if pa.types.is_boolean(kind):
        yield path, _bits(array.buffers()[1], array.offset, len(array))[positions]
    elif not variable_bits(kind):
        width = kind.bit_width // 8
        data = np.frombuffer(array.buffers()[1], np.uint8)
        starts = (array.offset + positions) * width
        yield path, data[expand_ranges(starts, starts + width)]
    else:
        _, places, data = array.buffers()
        dtype = f"<i{variable_bits(kind) // 8}"
        offsets = np.frombuffer(places, dtype, array.offset + len(array) + 1).astype(np.int64)
        starts, stops = offsets[array.offset + positions], offsets[array.offset + positions + 1]
        yield f"{path} lengths", stops - starts
        text = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        yield path, text[expand_ranges(starts, stops)]
