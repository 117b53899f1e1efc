"""Short ways to write and compare arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]


def from_bytes(data: bytes | str) -> Bytes:
    """Read-only bytes, as they come from a store; a string is hexadecimal."""
    return np.frombuffer(bytes.fromhex(data) if isinstance(data, str) else data, np.uint8)


def u8(*values: int) -> Bytes:
    return np.array(values, np.uint8)


def u16(*values: int) -> Levels:
    return np.array(values, np.uint16)


def i64(*values: int) -> Int64s:
    return np.array(values, np.int64)


def variable(values: list[bytes], dtype: Any) -> tuple[Any, Bytes]:
    """Offsets and bytes of values."""
    return np.cumsum([0, *map(len, values)]).astype(dtype), from_bytes(b"".join(values))


def same(found: Any, expected: Any) -> None:
    """Equal results, dtypes and shapes included."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected
