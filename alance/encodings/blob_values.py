"""Blobs as they are given to be written: their bytes, or the URIs where these lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.assemble import is_list, is_struct_list
from alance.encodings.blocks import FixedWidthBlock, VariableWidthBlock, as_bytes
from alance.encodings.shred import Shredded, prune, shred

__all__ = ["GIVEN", "FindBase", "GivenBlobs", "shred_blobs"]

GIVEN = pa.struct([
    pa.field("data", pa.large_binary()),
    pa.field("uri", pa.string()),
    pa.field("position", pa.uint64()),
    pa.field("size", pa.uint64()),
])
"""One value: `data`, or a `uri` with the range of bytes there; without a range all of them."""
_ABSENT = (b"", "", 0, 0)
"""What stands for a member that is null, while the value is not."""

Numbers = npt.NDArray[np.int64]
FindBase: TypeAlias = Callable[[str], tuple[int, str]]
"""Number of the base path that a URI lies below, with the way from there; else 0 and the URI."""


@dataclass(frozen=True, slots=True)
class GivenBlobs:
    """Rows of a leaf of blobs: nesting and bytes, and for each value where else it lies.

    Parameters
    ----------
    data
        Layers and levels; a `VariableWidthBlock` in which values at URIs have no bytes.
    uris
        One for each value; empty where the bytes are given.
    base_ids
        Base paths that the URIs start from, 0 where they are absolute.
    positions, sizes
        Ranges at the URIs, 0 and 0 for all bytes.
    """

    data: Shredded
    uris: VariableWidthBlock
    base_ids: Numbers
    positions: Numbers
    sizes: Numbers


def shred_blobs(
    array: pa.Array, path: Sequence[int], find_base: FindBase | None = None
) -> GivenBlobs:
    """Take a leaf of blobs out of rows; its values are large binaries, or as `GIVEN`.

    Parameters
    ----------
    array, path
        As for `shred`; `array` is pruned to the leaf.
    find_base
        Shortens URIs; without it they stay.
    """
    if not pa.types.is_struct(_leaf_type(array.type, path)):
        data = shred(array, path)
        num_values = data.values.num_values
        no_uris = VariableWidthBlock(np.zeros(num_values + 1, np.int32), np.empty(0, np.uint8))
        none = np.zeros(num_values, np.int64)
        return GivenBlobs(data, no_uris, none, none, none)
    data, uris, positions, sizes = (
        shred(prune(array, path, partial(_member, i)), path) for i in range(len(GIVEN))
    )
    assert isinstance(uris.values, VariableWidthBlock), "URIs are text"
    base_ids, short = np.zeros(uris.values.num_values, np.int64), uris.values
    if find_base is not None:
        base_ids, short = _shortened(short, find_base)
    return GivenBlobs(data, short, base_ids, _numbers(positions), _numbers(sizes))


def _shortened(uris: VariableWidthBlock, find_base: FindBase) -> tuple[Numbers, VariableWidthBlock]:
    """Base paths of URIs, and the ways from there."""
    data = uris.data.tobytes()
    texts = [data[start:stop].decode() for start, stop in pairwise(uris.offsets.tolist())]
    found = {text: find_base(text) if text else (0, "") for text in dict.fromkeys(texts)}
    base_ids = np.array([found[text][0] for text in texts], np.int64)
    ways = [found[text][1].encode() for text in texts]
    offsets = np.cumsum([0, *map(len, ways)]).astype(np.int32)
    return base_ids, VariableWidthBlock(offsets, as_bytes(b"".join(ways)))


def _leaf_type(kind: pa.DataType, path: Sequence[int]) -> pa.DataType:
    """Type of the leaf that a path leads to."""
    children = list(path)
    while True:
        if is_list(kind) or is_struct_list(kind):
            kind = kind.value_type
        elif children:
            kind = kind.field(children.pop(0)).type
        else:
            return kind


def _member(i: int, values: pa.StructArray) -> pa.Array:
    """A member of given values, null where these are."""
    member = values.field(i)
    if member.null_count:
        member = member.fill_null(pa.scalar(_ABSENT[i], member.type))
    if not values.null_count:
        return member
    return pa.StructArray.from_arrays([member], ["member"], mask=values.is_null()).flatten()[0]


def _numbers(shredded: Shredded) -> Numbers:
    """Values as signed numbers."""
    values = shredded.values
    assert isinstance(values, FixedWidthBlock), "positions and sizes are numbers"
    return values.data.view("<u8").astype(np.int64)
