"""Structural encodings: how a page's values, levels and indices are laid out."""

from __future__ import annotations

from collections.abc import Sequence

from alance.encodings.layout.blob import BlobReader
from alance.encodings.layout.constant import ConstantReader
from alance.encodings.layout.full_zip import FullZipReader
from alance.encodings.layout.miniblock import MiniBlockReader
from alance.encodings.layout.page import PageReader
from alance.encodings.registry import EncodingRegistry
from alance.encodings.spec import BlobLayout, ConstantLayout, FullZipLayout, Layout, MiniBlockLayout
from alance.types import ByteRange, FileVersion

__all__ = ["open_page"]


def open_page(
    layout: Layout,
    buffers: Sequence[ByteRange],
    num_rows: int,
    registry: EncodingRegistry,
    version: FileVersion,
) -> PageReader:
    """Build the reader of a page of this layout, in a file of this version; no I/O.

    Raises
    ------
    CorruptFileError
        Layout, buffers and number of rows contradict one another.
    UnsupportedFeatureError
        A page of a newer version that this library does not know.
    """
    match layout:
        case MiniBlockLayout():
            return MiniBlockReader(layout, buffers, num_rows, registry)
        case FullZipLayout():
            return FullZipReader(layout, buffers, num_rows, registry)
        case ConstantLayout():
            return ConstantReader(layout, buffers, num_rows, registry, version)
        case BlobLayout(inner, layers):
            places = open_page(inner, buffers, num_rows, registry, version)
            return BlobReader(layers, places)
