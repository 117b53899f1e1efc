"""Building blob pages: the values go to the file first, then the page that says where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.blob_values import FindBase, shred_blobs
from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedWidthBlock,
    Levels,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.build import build_full_zip, build_mini_block
from alance.encodings.choose import EncodedValues
from alance.encodings.compressive.packed_struct import encode_packed_struct
from alance.encodings.constant import build_nulls
from alance.encodings.layout.blob import BlobKind, describe_blobs, join_blobs
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.options import ColumnOptions
from alance.encodings.rows import take
from alance.encodings.shred import Shredded, shred
from alance.encodings.spec import BlobLayout, Layer, MiniBlockLayout
from alance.types import FileVersion

__all__ = ["BlobApart", "BlobPage", "build_blob_page", "build_descriptor_page"]

INLINE_BYTES_MAX = 64 * 1024
PACKED_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BlobApart:
    """A value that goes to a file beside the data file, with others or alone."""

    data: Bytes
    is_dedicated: bool


@dataclass(frozen=True, slots=True)
class BlobPage:
    """A page that can be built once its values have been written."""

    values: PageBuffer
    """Those that go to the data file."""
    apart: tuple[BlobApart, ...]
    place: Callable[[int, Sequence[tuple[int, int]]], EncodedPage]
    """Builds the page when told where in the file `values` begins, a multiple of 64, and for each
    value apart the number of its file and the position there."""


def build_blob_page(array: pa.Array, path: Sequence[int], version: FileVersion) -> BlobPage:
    """Encode rows of one leaf of large binaries, outside of lists, as a page of blobs.

    Parameters
    ----------
    array
        Rows of the top-level field, at least one.
    path
        Which child to follow at every struct on the way to the leaf.
    version
        Of the file.
    """
    shredded = shred(array, path)
    # Pages of nulls too: the reference finds in the first page whether a column holds blobs.
    values = shredded.values
    assert isinstance(values, VariableWidthBlock), "blobs are binary values"
    data, starts = join_blobs(values)
    sizes = np.diff(values.offsets).astype(np.int64)

    def place(start: int, homes: Sequence[tuple[int, int]]) -> EncodedPage:
        assert not homes, "all values are in the data file"
        described = describe_blobs(starts + start, sizes, shredded.levels.def_)
        no_levels = Levels(None, None)
        inner = Shredded(shredded.num_rows, (Layer.ALL_VALID_ITEM,), no_levels, described)
        page = build_mini_block(inner, EncodedValues(encode_packed_struct(described)), version)
        assert page is not None, "chunks of fixed width fit"
        assert isinstance(page.layout, MiniBlockLayout)
        layout = BlobLayout(page.layout, shredded.layers)
        return EncodedPage(layout, page.buffers, page.num_rows)

    return BlobPage(PageBuffer((data,), is_search=False), (), place)


def build_descriptor_page(
    array: pa.Array,
    path: Sequence[int],
    options: ColumnOptions,
    version: FileVersion,
    find_base: FindBase | None = None,
) -> BlobPage:
    """Encode rows of one leaf of large binaries as a page of descriptors (2.2, section 5).

    Parameters
    ----------
    array, path, version
        As in `build_blob_page`, but the values may be as `GIVEN`, and lists may be around them.
    options
        From which size on values go to other files.
    find_base
        As for `shred_blobs`.
    """
    given = shred_blobs(array, path, find_base)
    shredded = given.data
    if not shredded.has_values:
        nulls = build_nulls(shredded, version)
        return BlobPage(PageBuffer((), is_search=False), (), lambda *_: nulls)
    values = shredded.values
    assert isinstance(values, VariableWidthBlock), "blobs are binary values"
    sizes = np.diff(values.offsets).astype(np.int64)
    kinds = np.where(np.diff(given.uris.offsets) > 0, BlobKind.EXTERNAL, _kinds(sizes, options))
    inline = take(values, np.flatnonzero(kinds == BlobKind.INLINE))
    assert isinstance(inline, VariableWidthBlock)
    data, starts = join_blobs(inline)
    bounds = values.offsets.astype(np.int64)
    rows_apart = np.flatnonzero((kinds == BlobKind.PACKED) | (kinds == BlobKind.DEDICATED))
    dedicated = kinds == BlobKind.DEDICATED
    apart = tuple(
        BlobApart(values.data[bounds[row] : bounds[row + 1]], bool(dedicated[row]))
        for row in rows_apart.tolist()
    )

    def place(start: int, homes: Sequence[tuple[int, int]]) -> EncodedPage:
        is_external = kinds == BlobKind.EXTERNAL
        positions = np.where(is_external, given.positions, 0)
        positions[kinds == BlobKind.INLINE] = starts + start
        ids = given.base_ids.copy()
        ids[rows_apart], positions[rows_apart] = np.array(homes, np.int64).reshape(-1, 2).T
        numbers = (kinds, positions, np.where(is_external, given.sizes, sizes), ids)
        members: list[DataBlock] = [
            FixedWidthBlock(bits, len(sizes), column.astype(f"<u{bits // 8}").view(np.uint8))
            for column, bits in zip(numbers, (8, 64, 64, 32), strict=True)
        ]
        block = PackedStructBlock(len(sizes), (*members, given.uris))
        return build_full_zip(replace(shredded, values=block), ColumnOptions(), version)

    return BlobPage(PageBuffer((data,), is_search=False), apart, place)


def _kinds(sizes: npt.NDArray[np.int64], options: ColumnOptions) -> npt.NDArray[np.int64]:
    """Where values of these sizes go."""
    inline_max, packed_max = INLINE_BYTES_MAX, PACKED_BYTES_MAX
    if options.blob_inline_size_threshold is not None:
        inline_max = options.blob_inline_size_threshold
    if options.blob_dedicated_size_threshold is not None:
        packed_max = options.blob_dedicated_size_threshold
    kinds = np.where(sizes > inline_max, BlobKind.PACKED, BlobKind.INLINE)
    return np.where(sizes > packed_max, BlobKind.DEDICATED, kinds)
