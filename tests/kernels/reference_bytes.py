"""The byte kernels in plain Python: the oracle, written for reading, not for speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]
Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]

INT32_MAX = (1 << 31) - 1


class Corrupt(Exception):
    """Bytes contradict the format."""


def _cut(data: Bytes, offset: int, size: int) -> bytes:
    if offset < 0 or size < 0 or offset + size > len(data):
        raise Corrupt
    return data[offset : offset + size].tobytes()


def _integer(data: bytes, offset: int, size: int) -> int:
    if offset + size > len(data):
        raise Corrupt
    return int.from_bytes(data[offset : offset + size], "little")


def _padded(data: bytes, multiple: int) -> bytes:
    return data + bytes(-len(data) % multiple)


def _array(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


def _as_offsets(ends: Sequence[int], width: int) -> Offsets:
    return np.array(ends, np.int32) if width == 32 else np.array(ends, np.int64)


def _join(values: Sequence[bytes], width: int) -> tuple[Offsets, Bytes, int]:
    ends = list(accumulate(map(len, values), initial=0))
    if ends[-1] > INT32_MAX and width == 32:
        return _as_offsets([0], width), _array(b""), -1
    return _as_offsets(ends, width), _array(b"".join(values)), 0


def parse_chunk_headers(
    data: Bytes,
    offsets: Int64s,
    sizes: Int64s,
    level_streams: int,
    value_streams: int,
    size_bytes: int,
) -> tuple[Int64s, Int64s, Int64s, int]:
    widths = [2] * level_streams + [size_bytes] * value_streams
    num_levels = np.zeros(len(offsets), np.int64)
    places = np.zeros((2, len(widths), len(offsets)), np.int64)
    for c, (offset, size) in enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True)):
        try:
            chunk = _cut(data, offset, size)
            num_levels[c] = _integer(chunk, 0, 2)
            position = len(_padded(bytes(2 + sum(widths)), 8))
            _cut(_array(chunk), position, 0)
            for s, width in enumerate(widths):
                stream_bytes = _integer(chunk, 2 + sum(widths[:s]), width)
                _cut(_array(chunk), position, stream_bytes)
                places[:, s, c] = offset + position, stream_bytes
                position += stream_bytes + -stream_bytes % 8
        except Corrupt:
            return num_levels, places[0], places[1], c + 1
    return num_levels, places[0], places[1], 0


def build_chunks(
    num_levels: Int64s,
    streams: Sequence[tuple[Bytes, Int64s, Int64s]],
    level_streams: int,
    size_bytes: int,
) -> tuple[Bytes, Int64s]:
    chunks = []
    for c, levels in enumerate(num_levels.tolist()):
        header = levels.to_bytes(2, "little")
        body = b""
        for s, (data, offsets, sizes) in enumerate(streams):
            stream = _cut(data, int(offsets[c]), int(sizes[c]))
            header += len(stream).to_bytes(2 if s < level_streams else size_bytes, "little")
            body += _padded(stream, 8)
        chunks.append(_padded(header, 8) + body)
    return _array(b"".join(chunks)), np.array([len(chunk) for chunk in chunks], np.int64)


def gather(data: Bytes, offsets: Int64s, sizes: Int64s, out: Bytes) -> int:
    end = 0
    for i, (offset, size) in enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True)):
        if offset < 0 or size < 0 or offset + size > len(data) or end + size > len(out):
            return i + 1
        out[end : end + size] = data[offset : offset + size]
        end += size
    return 0 if end == len(out) else len(offsets) + 1


def put_fixed(data: Bytes, width: int, places: Int64s, out: Bytes) -> int:
    if width < 0 or len(data) != width * len(places):
        raise ValueError("data")
    offsets = np.arange(len(places) + 1) * width
    return _put(data, offsets, 0, places, out) if width else 0


def put_variable(
    data: Bytes, offsets: Int64s, length_bytes: int, places: Int64s, out: Bytes
) -> int:
    if length_bytes not in (4, 8):
        raise ValueError("length_bytes")
    if len(offsets) != len(places) + 1:
        raise ValueError("offsets")
    return _put(data, offsets, length_bytes, places, out)


def _put(data: Bytes, offsets: Int64s, length_bytes: int, places: Int64s, out: Bytes) -> int:
    for i, place in enumerate(places.tolist()):
        start, stop = int(offsets[i]), int(offsets[i + 1])
        end = place + length_bytes + stop - start
        if not (0 <= start <= stop <= len(data) and 0 <= place <= end <= len(out)):
            return i + 1
        length = (stop - start).to_bytes(8, "little")[:length_bytes]
        out[place:end] = [*length, *data[start:stop]]
        places[i] = end
    return 0


def gather_bits(data: Bytes, offsets: Int64s, num_values: Int64s, out: Bytes) -> int:
    bits: list[int] = []
    for i, (offset, count) in enumerate(zip(offsets.tolist(), num_values.tolist(), strict=True)):
        size = (count + 7) // 8
        if offset < 0 or count < 0 or offset + size > len(data):
            return i + 1
        if len(bits) + count > 8 * len(out):
            return i + 1
        chunk = np.unpackbits(data[offset : offset + size], bitorder="little")
        bits += chunk[:count].tolist()
    if (len(bits) + 7) // 8 != len(out):
        return len(offsets) + 1
    out[:] = np.packbits(np.array(bits, np.uint8), bitorder="little")
    return 0


def slice_bits(data: Bytes, bit_offset: int, num_bits: int) -> Bytes:
    bits = np.unpackbits(data, bitorder="little")[bit_offset : bit_offset + num_bits]
    return np.packbits(bits, bitorder="little")


def take_fixed(data: Bytes, positions: Int64s, value_bytes: int, out: Bytes) -> int:
    num_values = len(data) // value_bytes
    for i, position in enumerate(positions.tolist()):
        if not 0 <= position < num_values:
            return i + 1
        value = data[position * value_bytes : (position + 1) * value_bytes]
        out[i * value_bytes : (i + 1) * value_bytes] = value
    return 0


def take_bits(data: Bytes, positions: Int64s, out: Bytes) -> int:
    bits = np.unpackbits(data, bitorder="little")
    for i, position in enumerate(positions.tolist()):
        if not 0 <= position < len(bits):
            return i + 1
    out[:] = np.packbits(bits[positions], bitorder="little")
    return 0


def decode_variable(
    data: Bytes, offsets: Int64s, sizes: Int64s, num_values: Int64s, width: int
) -> tuple[Offsets, Bytes, int]:
    values: list[bytes] = []
    for c, count in enumerate(num_values.tolist()):
        try:
            chunk = _cut(data, int(offsets[c]), int(sizes[c]))
            if count < 0 or (count and (count + 1) * width // 8 > len(chunk)):
                raise Corrupt
            stored = np.frombuffer(chunk, f"<u{width // 8}", count + 1 if count else 0).tolist()
            if stored and stored[0] < (count + 1) * width // 8:
                raise Corrupt
            for low, high in pairwise(stored):
                values.append(_cut(_array(chunk), low, high - low))
        except Corrupt:
            return _as_offsets([0], width), _array(b""), c + 1
    return _join(values, width)


def repeats(data: Bytes, period: int) -> bool:
    if period < 1:
        raise ValueError("period")
    return all(data[i] == data[i - period] for i in range(period, len(data)))


def encode_variable(offsets: Offsets, data: Bytes, boundaries: Int64s) -> tuple[Bytes, Int64s]:
    width = offsets.dtype.itemsize
    buffers = []
    for start, stop in zip(boundaries.tolist(), boundaries.tolist()[1:], strict=False):
        ends = offsets[start : stop + 1].astype(np.int64)
        head = ends - ends[0] + len(ends) * width
        body = data[ends[0] : ends[-1]].tobytes()
        buffers.append(_padded(head.astype(offsets.dtype).tobytes() + body, width))
    return _array(b"".join(buffers)), np.array([len(b) for b in buffers], np.int64)


def take_variable(offsets: Offsets, data: Bytes, positions: Int64s) -> tuple[Offsets, Bytes, int]:
    values = []
    width = offsets.dtype.itemsize * 8
    for i, position in enumerate(positions.tolist()):
        try:
            if not 0 <= position < len(offsets) - 1:
                raise Corrupt
            low, high = int(offsets[position]), int(offsets[position + 1])
            values.append(_cut(data, low, high - low))
        except Corrupt:
            return _as_offsets([0], width), _array(b""), i + 1
    return _join(values, width)


def _control_bytes(bits: int) -> int:
    return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4


def _items(
    data: bytes, bits: tuple[int, int], max_visible: int, length_bytes: int, value_bytes: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """(rep, def, value) of each item; None where it owns no value."""
    bits_rep, bits_def = bits
    size = _control_bytes(sum(bits))
    position = 0
    while position < len(data):
        control = _integer(data, position, size)
        position += size
        rep, def_ = control >> bits_def, control & ((1 << bits_def) - 1)
        if rep >> bits_rep:
            raise Corrupt
        if def_ > max_visible:
            yield rep, def_, None
            continue
        length = value_bytes
        if length_bytes:
            length = _integer(data, position, length_bytes) if def_ == 0 else 0
            position += length_bytes if def_ == 0 else 0
        yield rep, def_, _cut(_array(data), position, length)
        position += length


def _unzip(
    data: Bytes,
    starts: Int64s,
    stops: Int64s,
    bits: tuple[int, int],
    max_visible: int,
    sizes: tuple[int, int],
) -> tuple[Int64s, Levels | None, Levels | None, list[bytes], int]:
    items: list[tuple[int, int, bytes | None]] = []
    num_items = np.zeros(len(starts), np.int64)
    for i, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        before = len(items)
        try:
            items += _items(_cut(data, start, stop - start), bits, max_visible, *sizes)
        except Corrupt:
            return num_items, None, None, [], i + 1
        num_items[i] = len(items) - before
    rep = np.array([item[0] for item in items], np.uint16) if bits[0] else None
    def_ = np.array([item[1] for item in items], np.uint16) if bits[1] else None
    return num_items, rep, def_, [item[2] for item in items if item[2] is not None], 0


def unzip_fixed(
    data: Bytes,
    starts: Int64s,
    stops: Int64s,
    bits_rep: int,
    bits_def: int,
    max_visible: int,
    value_bytes: int,
) -> tuple[Int64s, Levels | None, Levels | None, Bytes, int]:
    bits, sizes = (bits_rep, bits_def), (0, value_bytes)
    num_items, rep, def_, values, status = _unzip(data, starts, stops, bits, max_visible, sizes)
    return num_items, rep, def_, _array(b"".join(values)), status


def unzip_variable(
    data: Bytes,
    starts: Int64s,
    stops: Int64s,
    bits_rep: int,
    bits_def: int,
    max_visible: int,
    length_bytes: int,
    width: int,
) -> tuple[Int64s, Levels | None, Levels | None, Offsets, Bytes, int]:
    bits, sizes = (bits_rep, bits_def), (length_bytes, 0)
    num_items, rep, def_, values, status = _unzip(data, starts, stops, bits, max_visible, sizes)
    offsets, joined, overflow = _join(values, width)
    return num_items, rep, def_, offsets, joined, status or overflow


def _zip(
    rep: Levels | None,
    def_: Levels | None,
    bits: tuple[int, int],
    max_rep: int,
    max_visible: int,
    values: Sequence[bytes],
    length_bytes: int,
) -> tuple[Bytes, Int64s]:
    levels = rep if rep is not None else def_
    num_items = len(values) if levels is None else len(levels)
    out, starts, rest = b"", [], iter(values)
    for i in range(num_items):
        r = 0 if rep is None else int(rep[i])
        d = 0 if def_ is None else int(def_[i])
        if rep is None or r == max_rep:
            starts.append(len(out))
        out += ((r << bits[1]) | d).to_bytes(_control_bytes(sum(bits)), "little")
        if d > max_visible:
            continue
        value = next(rest)
        if length_bytes == 0:
            out += value
        elif d == 0:
            out += len(value).to_bytes(length_bytes, "little") + value
    return _array(out), np.array([*starts, len(out)], np.int64)


def zip_fixed(
    rep: Levels | None,
    def_: Levels | None,
    bits_rep: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    values: Bytes,
    value_bytes: int,
) -> tuple[Bytes, Int64s]:
    raw = values.tobytes()
    cut = [raw[i : i + value_bytes] for i in range(0, len(raw), value_bytes)]
    return _zip(rep, def_, (bits_rep, bits_def), max_rep, max_visible, cut, 0)


def zip_variable(
    rep: Levels | None,
    def_: Levels | None,
    bits_rep: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    offsets: Offsets,
    data: Bytes,
    length_bytes: int,
) -> tuple[Bytes, Int64s]:
    raw, ends = data.tobytes(), offsets.tolist()
    cut = [raw[low:high] for low, high in pairwise(ends)]
    return _zip(rep, def_, (bits_rep, bits_def), max_rep, max_visible, cut, length_bytes)
