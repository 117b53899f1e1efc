"""Building blob pages: the values go to the file first, then the page that says where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alance.encodings.blocks import Levels, VariableWidthBlock
from alance.encodings.build import build_mini_block
from alance.encodings.choose import EncodedValues
from alance.encodings.compressive.packed_struct import encode_packed_struct
from alance.encodings.layout.blob import describe_blobs, join_blobs
from alance.encodings.layout.page import EncodedPage, PageBuffer
from alance.encodings.shred import Shredded, shred
from alance.encodings.spec import BlobLayout, Layer, MiniBlockLayout
from alance.types import FileVersion

__all__ = ["BlobPage", "build_blob_page"]


@dataclass(frozen=True, slots=True)
class BlobPage:
    """A page that can be built once its values have been written."""

    values: PageBuffer
    place: Callable[[int], EncodedPage]
    """Builds the page when told where in the file `values` begins, a multiple of 64."""


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

    def place(start: int) -> EncodedPage:
        described = describe_blobs(starts + start, sizes, shredded.levels.def_)
        no_levels = Levels(None, None)
        inner = Shredded(shredded.num_rows, (Layer.ALL_VALID_ITEM,), no_levels, described)
        page = build_mini_block(inner, EncodedValues(encode_packed_struct(described)), version)
        assert page is not None, "chunks of fixed width fit"
        assert isinstance(page.layout, MiniBlockLayout)
        layout = BlobLayout(page.layout, shredded.layers)
        return EncodedPage(layout, page.buffers, page.num_rows)

    return BlobPage(PageBuffer((data,), is_search=False), place)
