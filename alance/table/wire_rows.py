"""Protobuf <-> sequences of stable row ids and of row versions, as fragments carry them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alance.errors import CorruptFileError
from alance.proto import table_pb2 as tables
from alance.table.row_ids import ROW_ID_MAX, RowIds
from alance.table.row_versions import RowVersions
from alance.table.wire import decode

__all__ = ["build_row_ids", "build_row_versions", "parse_row_ids", "parse_row_versions"]

U16_MAX, U32_MAX = (1 << 16) - 1, (1 << 32) - 1

_Ids = npt.NDArray[np.uint64]


def parse_row_ids(data: bytes, num_rows: int, *, path: str, partial: bool = False) -> RowIds:
    """Read the row ids of a fragment.

    Parameters
    ----------
    data
        `Fragment.row_ids`.
    num_rows
        Physical rows of the fragment, which have one id each.
    path
        For messages.
    partial
        Allow fewer ids than rows, as in an update: the commit gives the last rows new ones.

    Raises
    ------
    CorruptFileError
        The bytes are no sequence of so many ids.
    """
    message = decode(tables.RowIdSequence, data, path)
    parts: list[RowIds] = []
    left = num_rows
    for segment in message.segments:
        part = _parse_segment(segment, left, path)
        left -= len(part)
        parts.append(part)
    if left and not partial:
        raise CorruptFileError(f"{path}: {num_rows - left} row ids for {num_rows} rows", path=path)
    return RowIds.concat(parts)


def build_row_ids(row_ids: RowIds) -> bytes:
    """Row ids as bytes, each segment in its shortest form."""
    message = tables.RowIdSequence()
    for first, last in zip(row_ids.segments[:-1], row_ids.segments[1:], strict=True):
        starts = row_ids.starts[first:last]
        message.segments.append(_build_segment(starts, row_ids.runs[first:last]))
    if not message.segments:
        message.segments.append(_range_segment(0, 0))
    return message.SerializeToString(deterministic=True)


def parse_row_versions(data: bytes | None, num_rows: int, *, path: str) -> RowVersions:
    """Read the versions at which the rows of a fragment were created, or last updated.

    Parameters
    ----------
    data
        `Fragment.created_at` or `.last_updated_at`; None means version 1 for all rows.
    num_rows
        Physical rows of the fragment.
    path
        For messages.

    Raises
    ------
    CorruptFileError
        The bytes are no sequence of so many versions.
    """
    if data is None:
        return RowVersions.uniform(num_rows, 1)
    message = decode(tables.RowDatasetVersionSequence, data, path)
    parts: list[RowVersions] = []
    left = num_rows
    for run in message.runs:
        # Only the number of values counts: compactions leave spans that start anywhere.
        num_values = len(_parse_segment(run.span, left, path))
        left -= num_values
        parts.append(RowVersions.uniform(num_values, run.version))
    if left:
        raise CorruptFileError(
            f"{path}: {num_rows - left} row versions for {num_rows} rows", path=path
        )
    return RowVersions.concat(parts)


def build_row_versions(row_versions: RowVersions) -> bytes:
    """Row versions as bytes."""
    bounds = row_versions.positions.tolist()
    runs = [
        tables.RowDatasetVersionSequence.Run(span=_range_segment(start, stop), version=version)
        for start, stop, version in zip(
            bounds[:-1], bounds[1:], row_versions.values.tolist(), strict=True
        )
    ]
    message = tables.RowDatasetVersionSequence(runs=runs)
    return message.SerializeToString(deterministic=True)


def _parse_segment(message: tables.U64Segment, rows_max: int, path: str) -> RowIds:
    """One segment; what it claims is held against `rows_max` before anything is allocated."""
    kind = message.WhichOneof("segment")
    if kind in ("sorted_array", "array"):
        ids = _parse_array(getattr(message, kind), path)
        _check_rows(len(ids), rows_max, path)
        if kind == "sorted_array" and (ids[1:] <= ids[:-1]).any():
            raise CorruptFileError(f"{path}: sorted row ids do not ascend", path=path)
        return RowIds.from_ids(ids)
    if kind is None:
        raise CorruptFileError(f"{path}: a segment of row ids is of no known kind", path=path)
    body = getattr(message, kind)
    if not body.start <= body.end <= ROW_ID_MAX + 1:
        raise CorruptFileError(f"{path}: row ids range from {body.start} to {body.end}", path=path)
    if kind == "range":
        _check_rows(body.end - body.start, rows_max, path)
        return RowIds.from_range(body.start, body.end)
    if kind == "range_with_holes":
        return _parse_holes(body, rows_max, path)
    return _parse_bitmap(body, rows_max, path)


def _parse_holes(body: tables.U64Segment.RangeWithHoles, rows_max: int, path: str) -> RowIds:
    """The stretches between the holes."""
    holes = _parse_array(body.holes, path)
    ascend = bool((holes[1:] > holes[:-1]).all())
    if len(holes) and not (ascend and body.start <= holes[0] and holes[-1] < body.end):
        raise CorruptFileError(f"{path}: holes among row ids are out of order or range", path=path)
    num_rows = body.end - body.start - len(holes)
    _check_rows(num_rows, rows_max, path)
    starts = np.append(np.uint64(body.start), holes + np.uint64(1)).astype(np.uint64)
    stops = np.append(holes, np.uint64(body.end)).astype(np.uint64)
    kept = starts < stops
    if not kept.any():
        return RowIds.concat(())
    lengths = (stops[kept] - starts[kept]).astype(np.int64)
    positions = np.append(0, np.cumsum(lengths))
    return RowIds(starts[kept], positions, np.array([0, len(lengths)]))


def _parse_bitmap(body: tables.U64Segment.RangeWithBitmap, rows_max: int, path: str) -> RowIds:
    """The values whose bits are set."""
    size = body.end - body.start
    if len(body.bitmap) != (size + 7) // 8:
        raise CorruptFileError(
            f"{path}: {len(body.bitmap)} bytes of bitmap for {size} row ids", path=path
        )
    bits = np.unpackbits(np.frombuffer(body.bitmap, np.uint8), bitorder="little")
    if bits[size:].any():
        raise CorruptFileError(f"{path}: a bitmap of row ids is longer than its range", path=path)
    offsets = np.flatnonzero(bits)
    _check_rows(len(offsets), rows_max, path)
    return RowIds.from_ids(np.uint64(body.start) + offsets.astype(np.uint64))


def _parse_array(message: tables.EncodedU64Array, path: str) -> _Ids:
    kind = message.WhichOneof("array")
    if kind is None:
        raise CorruptFileError(f"{path}: an array of row ids is of no known kind", path=path)
    body = getattr(message, kind)
    data, width = (body.values, 8) if kind == "u64_array" else (body.offsets, int(kind[1:3]) // 8)
    if len(data) % width:
        raise CorruptFileError(
            f"{path}: {len(data)} bytes of row ids are no multiple of {width}", path=path
        )
    values = np.frombuffer(data, f"<u{width}").astype(np.uint64)
    base = 0 if kind == "u64_array" else body.base
    if len(values) and base + int(values.max()) > ROW_ID_MAX:
        raise CorruptFileError(f"{path}: a row id is above {ROW_ID_MAX}", path=path)
    return values + np.uint64(base)


def _check_rows(found: int, rows_max: int, path: str) -> None:
    if found > rows_max:
        raise CorruptFileError(
            f"{path}: a segment holds {found} values where rows are left for {rows_max}", path=path
        )


def _build_segment(starts: _Ids, lengths: npt.NDArray[np.int64]) -> tables.U64Segment:
    """The form of least estimated size; holes, bitmap, array is the order among equals."""
    if len(starts) == 1:
        return _range_segment(int(starts[0]), int(starts[0]) + int(lengths[0]))
    stops = starts + lengths.astype(np.uint64)
    if (starts[1:] < stops[:-1]).any():
        return tables.U64Segment(array=_build_array(_spell_out(starts, lengths)))
    start, stop, num_values = int(starts[0]), int(stops[-1]), int(lengths.sum())
    holes, bitmap = 4 * (stop - start - num_values), (stop - start + 7) // 8
    if holes <= min(bitmap, 2 * num_values):
        gaps = (starts[1:] - stops[:-1]).astype(np.int64)
        array = _build_array(_spell_out(stops[:-1], gaps))
        with_holes = tables.U64Segment.RangeWithHoles(start=start, end=stop, holes=array)
        return tables.U64Segment(range_with_holes=with_holes)
    ids = _spell_out(starts, lengths)
    if bitmap <= 2 * num_values:
        bits = np.zeros(stop - start, np.bool_)
        bits[(ids - starts[0]).astype(np.int64)] = True
        packed = np.packbits(bits, bitorder="little").tobytes()
        with_bitmap = tables.U64Segment.RangeWithBitmap(start=start, end=stop, bitmap=packed)
        return tables.U64Segment(range_with_bitmap=with_bitmap)
    return tables.U64Segment(sorted_array=_build_array(ids))


def _range_segment(start: int, stop: int) -> tables.U64Segment:
    return tables.U64Segment(range=tables.U64Segment.Range(start=start, end=stop))


def _build_array(values: _Ids) -> tables.EncodedU64Array:
    """Offsets from the least value, as narrow as they can be."""
    base = values.min()
    offsets = values - base
    longest = int(offsets.max())
    if longest <= U16_MAX:
        data = offsets.astype("<u2").tobytes()
        narrow = tables.EncodedU64Array.U16Array(base=int(base), offsets=data)
        return tables.EncodedU64Array(u16_array=narrow)
    if longest <= U32_MAX:
        data = offsets.astype("<u4").tobytes()
        half = tables.EncodedU64Array.U32Array(base=int(base), offsets=data)
        return tables.EncodedU64Array(u32_array=half)
    wide = tables.EncodedU64Array.U64Array(values=values.astype("<u8").tobytes())
    return tables.EncodedU64Array(u64_array=wide)


def _spell_out(starts: _Ids, lengths: npt.NDArray[np.int64]) -> _Ids:
    """Values of runs."""
    firsts = np.cumsum(lengths) - lengths
    values: _Ids = np.arange(int(lengths.sum()), dtype=np.uint64)
    values += np.repeat(starts - firsts.astype(np.uint64), lengths)
    return values
