"""Blobs of file version 2.2: descriptors of bytes in the data file, or in files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alance._aio import run_all
from alance.encodings.blocks import (
    DataBlock,
    FixedWidthBlock,
    NullBlock,
    PackedStructBlock,
    PageRows,
    VariableWidthBlock,
    as_bytes,
)
from alance.encodings.layout.blob import BlobKind
from alance.encodings.step import Decode
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.types import ByteRange

__all__ = ["BlobSource", "count_blob_bytes", "read_blobs", "sidecar_folder", "sidecar_path"]

DATA_FILE = 0
"""Stands for the data file itself among the numbers of sidecars, which begin with 1."""
WIDTHS = (8, 64, 64, 32)
"""Bits of kind, position, size and sidecar id; the URI follows."""
FILE_BYTES_MAX = 1 << 42
"""More than an object store takes in one object."""
Numbers = npt.NDArray[np.int64]


class BlobSource(Protocol):
    """A data file with the files beside it."""

    async def fetch(
        self, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of the data file."""
        ...

    async def fetch_sidecar(
        self, blob_id: int, ranges: Sequence[ByteRange], *, priority: int = 0
    ) -> Sequence[memoryview]:
        """Bytes of a file beside it."""
        ...


def sidecar_folder(path: str) -> str:
    """Folder of the files of blobs beside the data file at `path`."""
    return path.removesuffix(".lance")


def sidecar_path(path: str, blob_id: int) -> str:
    """Path of a file of blobs beside the data file at `path`."""
    digits = f"{blob_id:032b}"[::-1]  # lowest bit first, which spreads keys
    return f"{sidecar_folder(path)}/{digits}.blob"


def count_blob_bytes(page: Decode) -> int:
    """Bytes that the descriptors of a page lead to."""
    return int(_Blobs.of(page.run()).sizes.sum())


async def read_blobs(
    pages: Sequence[Decode], source: BlobSource, *, priority: int = 0
) -> tuple[list[Decode], int]:
    """Turn pages of descriptors into pages of large binaries.

    Parameters
    ----------
    pages
        Of one column, with the descriptors of the wanted rows only.
    source
        The data file that they come from.
    priority
        Lower goes first when requests must wait.

    Returns
    -------
    pages, num_bytes
        As many pages; and the bytes that were fetched.

    Raises
    ------
    CorruptFileError
        Descriptors that no writer makes.
    UnsupportedFeatureError
        A blob that lies at a URI.

    Notes
    -----
    Rounds: one. Requests: one for the data file and one for each sidecar, after coalescing.
    """
    found = [_Blobs.of(page.run()) for page in pages]
    num_bytes = 0

    async def fetch(
        home: int, blobs: Sequence[tuple[_Blobs, int]], ranges: list[ByteRange]
    ) -> None:
        nonlocal num_bytes
        if home == DATA_FILE:
            views = await source.fetch(ranges, priority=priority)
        else:
            views = await source.fetch_sidecar(home, ranges, priority=priority)
        for (page, row), view in zip(blobs, views, strict=True):
            page.values[row] = view
            num_bytes += len(view)

    homes: dict[int, tuple[list[tuple[_Blobs, int]], list[ByteRange]]] = {}
    for page in found:
        for home, row, place in page.places():
            blobs, ranges = homes.setdefault(home, ([], []))
            blobs.append((page, row))
            ranges.append(place)
    for _, ranges in homes.values():
        # Values do not overlap: together they are no longer than the file up to the last one.
        if sum(each.num_bytes for each in ranges) > max(each.stop for each in ranges):
            raise CorruptFileError("the blobs of a column overlap")
    await run_all([partial(fetch, home, *wanted) for home, wanted in homes.items()])
    return [Decode(page.num_rows, page.decode) for page in found], num_bytes


@dataclass(slots=True)
class _Blobs:
    """Descriptors of a page, and the bytes of its values as they arrive."""

    rows: PageRows
    homes: Numbers
    """Sidecar of each value, or `DATA_FILE`."""
    positions: Numbers
    sizes: Numbers
    values: dict[int, memoryview]

    @classmethod
    def of(cls, rows: PageRows) -> _Blobs:
        """Check what a page says."""
        if isinstance(rows.values, NullBlock):
            none = np.zeros(rows.values.num_values, np.int64)
            return cls(rows, none, none, none, {})
        kinds, positions, sizes, ids = _numbers(rows.values)
        external = np.flatnonzero(kinds == BlobKind.EXTERNAL)
        if len(external):
            raise UnsupportedFeatureError(
                f"a blob lies at {_uri(rows.values, int(external[0]))!r}, outside of the "
                "dataset; blobs at URIs cannot be read by this library",
                feature="external blobs",
            )
        if bool((kinds > BlobKind.EXTERNAL).any()):
            raise UnsupportedFeatureError(
                f"a blob of kind {int(kinds.max())} cannot be read by this library; a newer one "
                "may read it",
                feature=f"blob kind {int(kinds.max())}",
            )
        homes = np.where(kinds == BlobKind.INLINE, DATA_FILE, ids)
        if bool(((kinds != BlobKind.INLINE) & (ids == DATA_FILE)).any()):
            raise CorruptFileError("a blob lies in a sidecar without a number")
        if bool((positions + sizes > FILE_BYTES_MAX).any()):
            raise CorruptFileError("a blob lies beyond the end of any file")
        return cls(rows, homes, positions, sizes, {})

    @property
    def num_rows(self) -> int:
        """Rows of the page."""
        return self.rows.num_rows

    def places(self) -> list[tuple[int, int, ByteRange]]:
        """Home, number and bytes of every value that has any."""
        kept = np.flatnonzero(self.sizes)
        starts = self.positions[kept]
        stops = starts + self.sizes[kept]
        ranges = map(ByteRange, starts.tolist(), stops.tolist())
        return list(zip(self.homes[kept].tolist(), kept.tolist(), ranges, strict=True))

    def decode(self) -> PageRows:
        """Rows with the bytes in place of the descriptors."""
        if isinstance(self.rows.values, NullBlock):
            return self.rows
        pieces = [as_bytes(self.values[row]) for row in np.flatnonzero(self.sizes).tolist()]
        data = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.sizes)))
        if len(data) != offsets[-1]:
            raise CorruptFileError(f"blobs of {offsets[-1]} bytes, of which {len(data)} are there")
        return replace(self.rows, values=VariableWidthBlock(offsets, data))


def _numbers(values: DataBlock) -> list[Numbers]:
    """Members of descriptors that are numbers; those too large for any file are made smaller."""
    members = values.members if isinstance(values, PackedStructBlock) else ()
    fixed = [member for member in members if isinstance(member, FixedWidthBlock)]
    if len(members) != len(WIDTHS) + 1 or tuple(m.bits_per_value for m in fixed) != WIDTHS:
        raise CorruptFileError("blob descriptors are not made of kind, position, size, id and URI")
    unsigned = (m.data.view(f"<u{m.bits_per_value // 8}").astype(np.uint64) for m in fixed)
    return [np.minimum(each, 2 * FILE_BYTES_MAX).astype(np.int64) for each in unsigned]


def _uri(values: DataBlock, row: int) -> str:
    """URI in a descriptor."""
    uris = values.members[-1] if isinstance(values, PackedStructBlock) else None
    if not isinstance(uris, VariableWidthBlock):
        return "an unknown place"
    return bytes(uris.data[uris.offsets[row] : uris.offsets[row + 1]]).decode("utf-8", "replace")
