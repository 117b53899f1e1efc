"""Blobs of file version 2.2: descriptors of bytes in the data file, beside it, or at URIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from alance.file.external import (
    EXTERNAL_BYTES_MAX,
    ExternalBlob,
    LocateBlob,
    count_external_bytes,
    read_external,
)
from alance.types import ByteRange

__all__ = ["BlobSource", "measure_blobs", "read_blobs", "sidecar_folder", "sidecar_path"]

ELSEWHERE = -1
"""Stands for the objects at URIs."""
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


async def measure_blobs(pages: Sequence[Decode], locate: LocateBlob) -> int:
    """Bytes that the descriptors of pages lead to.

    Notes
    -----
    Requests: one for each object that a descriptor says nothing of but its URI; all at once.
    """
    found = [_Blobs.of(page.run()) for page in pages]
    elsewhere = [blob for page in found for blob in page.external.values()]
    sizes = await count_external_bytes(elsewhere, locate)
    unknown = sum(sizes[blob] for blob in elsewhere if not blob.num_bytes)
    return unknown + sum(int(page.sizes.sum()) for page in found)


async def read_blobs(
    pages: Sequence[Decode], source: BlobSource, locate: LocateBlob, *, priority: int = 0
) -> tuple[list[Decode], int]:
    """Turn pages of descriptors into pages of large binaries.

    Parameters
    ----------
    pages
        Of one column, with the descriptors of the wanted rows only.
    source
        The data file that they come from.
    locate
        Finds objects at URIs.
    priority
        Lower goes first when requests must wait.

    Returns
    -------
    pages, num_bytes
        As many pages; and the bytes that were fetched.

    Raises
    ------
    CorruptFileError
        Descriptors that no writer makes; a URI that leads nowhere.
    ObjectNotFoundError, StoreError
        An object is not there, or cannot be read.
    UnsupportedFeatureError
        A kind of blob that this library does not know; more bytes at URIs than can be held.

    Notes
    -----
    Rounds: one; two for objects at URIs that are long and wanted whole. Requests: one for the data
    file, one for each sidecar and object, after coalescing.
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

    async def fetch_elsewhere() -> None:
        nonlocal num_bytes
        blobs = (blob for page in found for blob in page.external.values())
        views = await read_external(blobs, locate, priority=priority)
        for page in found:
            page.put_external(views)
        num_bytes += sum(map(len, views.values()))

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
    works = [partial(fetch, home, *wanted) for home, wanted in homes.items()]
    if any(page.external for page in found):
        works.append(partial(fetch_elsewhere))
    await run_all(works)
    if sum(page.num_external_bytes for page in found) > EXTERNAL_BYTES_MAX:
        raise UnsupportedFeatureError(
            f"more than {EXTERNAL_BYTES_MAX} bytes of blobs at URIs in one read; ask for fewer "
            "rows at once",
            feature="large external blobs",
        )
    return [Decode(page.num_rows, page.decode) for page in found], num_bytes


@dataclass(slots=True)
class _Blobs:
    """Descriptors of a page, and the bytes of its values as they arrive."""

    rows: PageRows
    homes: Numbers
    """Sidecar of each value, or `DATA_FILE`, or `ELSEWHERE`."""
    positions: Numbers
    sizes: Numbers
    """Those of whole objects at URIs are 0 until these are here."""
    external: Mapping[int, ExternalBlob]
    """Values at URIs by their number."""
    values: dict[int, memoryview]

    @classmethod
    def of(cls, rows: PageRows) -> _Blobs:
        """Check what a page says."""
        if isinstance(rows.values, NullBlock):
            none = np.zeros(rows.values.num_values, np.int64)
            return cls(rows, none, none, none, {}, {})
        kinds, positions, sizes, ids = _numbers(rows.values)
        if bool((kinds > BlobKind.EXTERNAL).any()):
            raise UnsupportedFeatureError(
                f"a blob of kind {int(kinds.max())} cannot be read by this library; a newer one "
                "may read it",
                feature=f"blob kind {int(kinds.max())}",
            )
        is_external = kinds == BlobKind.EXTERNAL
        homes = np.where(kinds == BlobKind.INLINE, DATA_FILE, ids)
        homes[is_external] = ELSEWHERE
        if bool(((kinds != BlobKind.INLINE) & (homes == DATA_FILE)).any()):
            raise CorruptFileError("a blob lies in a sidecar without a number")
        if bool((positions + sizes > FILE_BYTES_MAX).any()):
            raise CorruptFileError("a blob lies beyond the end of any file")
        if bool((is_external & (sizes == 0) & (positions != 0)).any()):
            raise CorruptFileError("a blob at a URI has a position and no size")
        external = {
            row: ExternalBlob(base_id, _uri(rows.values, row), position, size)
            for row, base_id, position, size in zip(
                np.flatnonzero(is_external).tolist(),
                *(each[is_external].tolist() for each in (ids, positions, sizes)),
                strict=True,
            )
        }
        return cls(rows, homes, positions, sizes, external, {})

    @property
    def num_rows(self) -> int:
        """Rows of the page."""
        return self.rows.num_rows

    @property
    def num_external_bytes(self) -> int:
        """Bytes of values at URIs, once they are here."""
        return sum(len(self.values[row]) for row in self.external)

    def put_external(self, views: Mapping[ExternalBlob, memoryview]) -> None:
        """Take the values at URIs; several rows may share one."""
        for row, blob in self.external.items():
            self.values[row] = views[blob]
            self.sizes[row] = len(views[blob])

    def places(self) -> list[tuple[int, int, ByteRange]]:
        """Home, number and bytes of every value that has any, but for those at URIs."""
        kept = np.flatnonzero((self.sizes > 0) & (self.homes != ELSEWHERE))
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
        raise CorruptFileError("the URIs of blobs are no text")
    try:
        return bytes(uris.data[uris.offsets[row] : uris.offsets[row + 1]]).decode()
    except UnicodeDecodeError as exc:
        raise CorruptFileError("the URI of a blob is no text") from exc
