"""Deletion files: which row offsets of a fragment are deleted."""

from __future__ import annotations

import io
import secrets
import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from alance._aio import run_to_end
from alance.errors import CorruptFileError, InvalidInputError
from alance.io.store import ObjectStore
from alance.table.manifest import DeletionFile, DeletionKind, Fragment
from alance.table.naming import join
from alance.table.objects import discard, read_object

__all__ = [
    "deletion_path",
    "encode_deletion_vector",
    "parse_deletion_vector",
    "read_deletion_vector",
    "write_deletion_file",
]

BITMAP_ROWS_MIN = 5000
"""Deleted rows of a fragment from which a bitmap is written, as the reference does."""

BYTES_PER_ROW_MAX = 16
BYTES_SPARE = 1 << 20
"""A deletion file is at most this much longer than `BYTES_PER_ROW_MAX` for each deleted row."""

_FOOTER = struct.Struct("<i6s")
_BLOCK = struct.Struct("<qi4xq")

_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
_RAW = -1


def deletion_path(root: str, fragment: Fragment) -> str:
    """Key of a fragment's deletion file.

    Raises
    ------
    InvalidInputError
        The fragment has none.
    """
    if fragment.deletion_file is None:
        raise InvalidInputError(f"fragment {fragment.id} has no deletion file")
    return join(root, "_deletions", fragment.deletion_file.name(fragment.id))


async def write_deletion_file(
    store: ObjectStore,
    root: str,
    fragment_id: int,
    offsets: pyroaring.BitMap,
    *,
    read_version: int,
    kind: DeletionKind | None = None,
) -> DeletionFile:
    """Store which rows of a fragment are deleted, under a name that was never used.

    Parameters
    ----------
    store, root
        Where the dataset is.
    fragment_id
        Part of the name.
    offsets
        All deleted rows of the fragment, also those that an earlier file names; not empty.
    read_version
        The version that the change is made on; part of the name.
    kind
        None chooses by the number of rows.

    Returns
    -------
    DeletionFile
        For the fragment's new state.

    Raises
    ------
    StoreError
        It could not be written.

    Notes
    -----
    Requests: one; one more that removes what may be there, after a failure or cancellation.
    """
    assert offsets, "a fragment without deleted rows has no deletion file"
    if kind is None:
        kind = DeletionKind.ARROW if len(offsets) < BITMAP_ROWS_MIN else DeletionKind.BITMAP
    file = DeletionFile(kind, read_version, secrets.randbits(64), len(offsets))
    path = join(root, "_deletions", file.name(fragment_id))
    try:
        await store.put(path, encode_deletion_vector(offsets, kind))
    except BaseException:
        await run_to_end(discard(store, [path]))  # it may be there all the same
        raise
    return file


def encode_deletion_vector(offsets: pyroaring.BitMap, kind: DeletionKind) -> memoryview:
    """Bytes of a deletion file; row offsets ascend in both forms."""
    if kind is DeletionKind.BITMAP:
        return memoryview(offsets.serialize())
    column = pa.array(np.asarray(offsets.to_array(), dtype=np.uint32))
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([column], schema=_SCHEMA))
    return sink.getbuffer()


async def read_deletion_vector(
    store: ObjectStore, root: str, fragment: Fragment
) -> npt.NDArray[np.uint32]:
    """Read which row offsets of a fragment are deleted.

    Parameters
    ----------
    store, root
        Where the dataset is, or the base path that the deletion file refers to.
    fragment
        One that has a deletion file.

    Returns
    -------
    numpy.ndarray
        uint32, ascending, without duplicates; `fragment.num_deleted_rows` of them.

    Raises
    ------
    CorruptFileError
        The file contradicts itself or the manifest.
    ObjectNotFoundError
        It is not there.

    Notes
    -----
    Requests: one, two for a file above 64 KiB.
    """
    path = deletion_path(root, fragment)
    bytes_max = BYTES_PER_ROW_MAX * fragment.num_deleted_rows + BYTES_SPARE
    data = await read_object(store, path, bytes_max=bytes_max)
    return parse_deletion_vector(data, fragment, path=path)


def parse_deletion_vector(
    data: memoryview, fragment: Fragment, *, path: str
) -> npt.NDArray[np.uint32]:
    """Decode a whole deletion file of either form and check it against the manifest.

    Raises
    ------
    CorruptFileError
        The file contradicts itself or the manifest.
    """
    arrow = fragment.deletion_file is not None and fragment.deletion_file.kind is DeletionKind.ARROW
    decode = _decode_arrow if arrow else _decode_bitmap
    offsets = decode(data, fragment.num_deleted_rows, path)
    if len(offsets) and int(offsets[-1]) >= fragment.physical_rows:
        raise CorruptFileError(
            f"{path}: row offset {int(offsets[-1])} is deleted, but fragment {fragment.id} has "
            f"{fragment.physical_rows} rows",
            path=path,
        )
    return offsets


def _decode_bitmap(data: memoryview, num_rows: int, path: str) -> npt.NDArray[np.uint32]:
    try:
        bitmap = pyroaring.BitMap.deserialize(bytes(data))
    except (ValueError, IndexError) as exc:
        raise CorruptFileError(f"{path}: not a roaring bitmap: {exc}", path=path) from exc
    _check_count(len(bitmap), num_rows, path)
    return np.asarray(bitmap.to_array(), dtype=np.uint32)


def _decode_arrow(data: memoryview, num_rows: int, path: str) -> npt.NDArray[np.uint32]:
    try:
        reader = pa.ipc.open_file(pa.py_buffer(data))
        if reader.schema != _SCHEMA or reader.num_record_batches != 1:
            raise CorruptFileError(
                f"{path}: a deletion file has one batch of one column, row_id: uint32 not null; "
                f"found {reader.num_record_batches} of {reader.schema}",
                path=path,
            )
        message = pa.ipc.read_message(pa.py_buffer(_cut_batch(data)))
        _check_batch(message, num_rows, path)
        batch = pa.ipc.read_record_batch(message, reader.schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, IndexError, struct.error) as exc:
        raise CorruptFileError(f"{path}: not an Arrow file: {exc}", path=path) from exc
    offsets: npt.NDArray[np.uint32] = np.sort(batch.column(0).to_numpy())
    if (offsets[1:] == offsets[:-1]).any():
        raise CorruptFileError(f"{path}: a row offset is deleted twice", path=path)
    return offsets


def _cut_batch(data: memoryview) -> memoryview:
    """Bytes of the only batch, which the file's footer points to."""
    footer_bytes, _ = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
    footer = data[_positive(len(data) - _FOOTER.size - footer_bytes) :]
    blocks = _follow(footer, _slot(footer, _follow(footer, 0), 3))
    offset, metadata_bytes, body_bytes = _BLOCK.unpack_from(footer, blocks + 4)
    return data[_positive(offset) : _positive(offset + metadata_bytes + body_bytes)]


def _check_batch(message: pa.Message, num_rows: int, path: str) -> None:
    """Hold what a batch says of its size against the manifest, before Arrow believes it.

    A compressed buffer begins with its size decompressed, which Arrow allocates unseen.
    """
    header = memoryview(message.metadata)
    if message.type != "record batch":
        raise CorruptFileError(f"{path}: expected a record batch, not a {message.type}", path=path)
    batch = _follow(header, _slot(header, _follow(header, 0), 2))
    _check_count(_integer(header, _slot(header, batch, 0)), num_rows, path)
    if _slot(header, batch, 3) is None:
        return
    vector = _follow(header, _slot(header, batch, 2))
    (num_buffers,) = struct.unpack_from("<I", header, vector)
    body = memoryview(message.body)
    for i in range(num_buffers):
        offset, length = struct.unpack_from("<qq", header, vector + 4 + 16 * i)
        if length < 8:
            continue
        size = _integer(body, offset)
        if size != _RAW and not 0 <= size <= 4 * num_rows:
            raise CorruptFileError(
                f"{path}: a buffer claims {size} bytes for {num_rows} row offsets", path=path
            )


def _check_count(found: int, num_rows: int, path: str) -> None:
    if found != num_rows:
        raise CorruptFileError(
            f"{path}: {found} row offsets are deleted, the manifest says {num_rows}", path=path
        )


def _slot(data: memoryview, table: int, slot: int) -> int | None:
    """Position of a field of a flatbuffer table; None when it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (vtable_bytes,) = struct.unpack_from("<H", data, _positive(vtable))
    entry = 4 + 2 * slot
    if entry >= vtable_bytes:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + entry)
    return table + offset if offset else None


def _follow(data: memoryview, position: int | None) -> int:
    """Position that a flatbuffer reference points to."""
    if position is None:
        raise IndexError("a flatbuffer reference is missing")
    return position + int(struct.unpack_from("<I", data, position)[0])


def _integer(data: memoryview, position: int | None) -> int:
    """64-bit integer, 0 when left out."""
    if position is None:
        return 0
    return int(struct.unpack_from("<q", data, _positive(position))[0])


def _positive(position: int) -> int:
    if position < 0:
        raise IndexError("a flatbuffer reference points before its beginning")
    return position
