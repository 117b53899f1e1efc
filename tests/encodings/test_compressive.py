"""Compressive encodings, each form they have, against data that contradicts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.encodings.blocks import (
    Chunks,
    ConstantBlock,
    DataBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    VariableWidthBlock,
)
from alance.encodings.compressive import default_registry
from alance.encodings.compressive.byte_stream_split import encode_split
from alance.encodings.compressive.fixed_size_list import (
    describe,
    encode_fixed_size_list,
    zip_validity,
)
from alance.encodings.compressive.flat import encode_flat
from alance.encodings.compressive.fsst import encode_fsst, train_fsst
from alance.encodings.compressive.general import (
    Codec,
    compress_block,
    compress_chunks,
    compress_values,
)
from alance.encodings.compressive.inline_bitpacking import encode_inline
from alance.encodings.compressive.out_of_line_bitpacking import encode_blocks
from alance.encodings.compressive.rle import (
    encode_rle,
    encode_rle_blocks,
    rle_blocks_bytes,
    rle_bytes,
    rle_bytes_range,
)
from alance.encodings.compressive.variable import encode_variable, encode_variable_block
from alance.encodings.registry import EncodedChunks
from alance.encodings.spec import (
    ByteStreamSplit,
    Constant,
    Dictionary,
    FixedSizeList,
    Flat,
    Fsst,
    General,
    InlineBitpacking,
    OutOfLineBitpacking,
    Rle,
    Spec,
    Variable,
)
from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError

REGISTRY = default_registry()
RNG = np.random.default_rng(11)
RANDOM = np.frombuffer(RNG.bytes(64), np.uint8)


def as_chunks(encoded: EncodedChunks) -> Chunks:
    """What a reader would make of encoded chunks: their streams in one run of bytes."""
    data = np.concatenate([stream.data for stream in encoded.streams])
    sizes = [len(stream.data) for stream in encoded.streams]
    starts = np.cumsum([0, *sizes[:-1]])
    offsets = np.stack([s.offsets + at for s, at in zip(encoded.streams, starts, strict=True)])
    return Chunks(data, offsets, np.stack([s.sizes for s in encoded.streams]), encoded.num_values)


def one_chunk(data: bytes, num_values: int, more: Sequence[bytes] = ()) -> Chunks:
    """One chunk with these buffers."""
    buffers = [data, *more]
    sizes = np.array([[len(b)] for b in buffers], np.int64)
    offsets = np.cumsum(sizes, axis=0) - sizes
    joined = np.frombuffer(b"".join(buffers), np.uint8)
    return Chunks(joined, offsets, sizes, np.array([num_values], np.int64))


def fixed(values: np.ndarray[tuple[int], np.dtype[np.generic]]) -> FixedWidthBlock:
    return FixedWidthBlock(values.itemsize * 8, len(values), values.view(np.uint8))


def bits(values: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FixedWidthBlock:
    return FixedWidthBlock(1, len(values), np.packbits(values, bitorder="little"))


def variable(values: Sequence[bytes], width: int = 32) -> VariableWidthBlock:
    ends = np.cumsum([0, *map(len, values)])
    offsets = ends.astype(np.int32) if width == 32 else ends
    return VariableWidthBlock(offsets, np.frombuffer(b"".join(values), np.uint8))


def values_of(block: DataBlock) -> list[bytes]:
    assert isinstance(block, VariableWidthBlock)
    return [
        block.data[start:stop].tobytes()
        for start, stop in zip(block.offsets[:-1], block.offsets[1:], strict=True)
    ]


@given(
    width=st.sampled_from([1, 2, 4, 8, 16, 32, 300]),
    count=st.sampled_from([1, 2, 511, 512, 513, 4096, 4097, 9000]),
)
@settings(deadline=None, max_examples=30)
def test_flat(width: int, count: int) -> None:
    data = RNG.integers(0, 256, count * width).astype(np.uint8)
    encoded = encode_flat(FixedWidthBlock(width * 8, count, data))
    assert encoded.num_values.sum() == count
    assert (encoded.num_values[:-1] * width <= 8186).all()
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert (found.bits_per_value, found.num_values) == (width * 8, count)
    assert found.data.tobytes() == data.tobytes()


@pytest.mark.parametrize("count", [1, 8, 4095, 4096, 4097, 10_001])
def test_flat_bits(count: int) -> None:
    block = bits(RNG.random(count) < 0.5)
    encoded = encode_flat(block)
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.tobytes() == block.data.tobytes()


def test_a_single_flat_chunk_is_a_view() -> None:
    chunks = one_chunk(RNG.bytes(80), 10)
    found = REGISTRY.decode_chunks(Flat(64), chunks)
    assert isinstance(found, FixedWidthBlock)
    assert np.shares_memory(found.data, chunks.data)


@pytest.mark.parametrize("dtype", ["<u1", "<u2", "<u4", "<u8"])
@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 3000])
def test_inline_bitpacking(dtype: str, count: int) -> None:
    values = RNG.integers(0, 100, count).astype(dtype)
    values[-1] = np.iinfo(dtype).max
    encoded = encode_inline(fixed(values))
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view(dtype).tolist() == values.tolist()


@given(counts=st.lists(st.integers(1, 3000), min_size=1, max_size=4), width=st.integers(0, 16))
@settings(deadline=None, max_examples=30)
def test_out_of_line_bitpacking(counts: list[int], width: int) -> None:
    values = RNG.integers(0, 1 << width, sum(counts)).astype("<u2")
    num_values = np.array(counts, np.int64)
    spec, stream = encode_blocks(values.view(np.uint8), num_values, 16, width)
    chunks = Chunks(stream.data, stream.offsets[None], stream.sizes[None], num_values)
    found = REGISTRY.decode_blocks(spec, chunks)
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view("<u2").tolist() == values.tolist()


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
@pytest.mark.parametrize("count", [1, 512, 1025, 3000])
def test_byte_stream_split(dtype: str, count: int) -> None:
    values = RNG.integers(0, 1 << 32, count).astype(dtype)
    encoded = encode_split(fixed(values))
    assert (encoded.num_values[:-1] * values.itemsize == 4096).all()
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view(dtype).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("spec", "num_values", "error"),
    [
        (ByteStreamSplit(Flat(64)), 5, CorruptFileError),
        (ByteStreamSplit(Flat(16)), 1, CorruptFileError),
        (ByteStreamSplit(InlineBitpacking(64)), 1, UnsupportedFeatureError),
    ],
)
def test_damaged_byte_stream_split(spec: Spec, num_values: int, error: type[FormatError]) -> None:
    with pytest.raises(error):
        REGISTRY.decode_chunks(spec, one_chunk(bytes(32), num_values))


@pytest.mark.parametrize("dtype", ["<u1", "<u2", "<u4", "<u8"])
def test_rle(dtype: str) -> None:
    runs = RNG.integers(1, 600, 60)
    values = np.repeat(RNG.integers(0, 100, 60).astype(dtype), runs)
    encoded = encode_rle(fixed(values))
    assert rle_bytes(fixed(values)) == encoded.num_bytes
    least, most = rle_bytes_range(fixed(values))
    assert least <= encoded.num_bytes <= most
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view(dtype).tolist() == values.tolist()


def test_chunks_of_short_runs_are_short() -> None:
    """One stretch without runs must not make a chunk that no page can hold."""
    values = np.concatenate((np.zeros(100_000, "<u8"), np.arange(4096, dtype="<u8")))
    encoded = encode_rle(fixed(values))
    sizes = encoded.streams[0].sizes + encoded.streams[1].sizes
    assert int(sizes.max()) <= 12 * 1024
    assert (encoded.num_values[:-1] == encoded.num_values[0]).all()


@pytest.mark.parametrize("dtype", ["<u2", "<u8"])
def test_rle_blocks(dtype: str) -> None:
    values = np.repeat(np.arange(9), [1, 2, 300, 4, 5, 256, 1, 255, 7]).astype(dtype)
    boundaries = np.array([0, 0, 10, 10, 500, len(values)])
    bits = values.itemsize * 8
    spec, stream = encode_rle_blocks(values.view(np.uint8), boundaries, bits)
    assert stream.num_bytes == rle_blocks_bytes(values.view(np.uint8), boundaries, bits)
    chunks = Chunks(stream.data, stream.offsets[None], stream.sizes[None], np.diff(boundaries))
    found = REGISTRY.decode_blocks(spec, chunks)
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view(dtype).tolist() == values.tolist()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        (2).to_bytes(8, "little") + bytes(2),
        (4).to_bytes(8, "little") + bytes(5),
        (2).to_bytes(8, "little") + b"\1\1\4",
        ((1 << 64) - 1).to_bytes(8, "little") + b"\1\1\5",
    ],
)
def test_damaged_rle_blocks(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        REGISTRY.decode_blocks(Rle(Flat(16), Flat(8)), one_chunk(data, 5))
    with pytest.raises(CorruptFileError):
        REGISTRY.decode_blocks(Rle(Flat(16), Flat(8)), one_chunk(data, 1 << 60))


CODECS = [
    Codec("lz4"),
    Codec("lz4", 9),
    Codec("zstd"),
    Codec("zstd", 1),
    Codec("zstd", 19),
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("encode", [encode_flat, encode_split, encode_inline, encode_rle])
def test_general_around_every_encoding_of_fixed_width(
    codec: Codec, encode: Callable[[FixedWidthBlock], EncodedChunks]
) -> None:
    values = np.repeat(RNG.integers(0, 9, 1000), RNG.integers(1, 9, 1000))
    plain = encode(fixed(values))
    encoded = compress_chunks(codec, plain)
    assert encoded.spec == General(codec.scheme, codec.level, plain.spec)
    found = REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.view("<i8").tolist() == values.tolist()


@pytest.mark.parametrize("codec", CODECS)
def test_general_around_variable_width(codec: Codec) -> None:
    values = [b"", b"a" * 300, b"", b"abc" * 50, b"x"]
    encoded = compress_chunks(codec, encode_variable(variable(values)))
    assert values_of(REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))) == values
    spec = codec.describe(Variable(Flat(32)))
    coded = compress_values(codec, variable(values))
    assert min(map(len, values_of(coded))) > 0, "an empty value has a frame too"
    assert values_of(REGISTRY.decode_values(spec, coded)) == values
    block = compress_block(codec, encode_variable_block(variable(values, 64)))
    spec = codec.describe(Variable(Flat(64)))
    assert values_of(REGISTRY.decode_blocks(spec, one_chunk(block.tobytes(), 5))) == values


def frame(said: int | None, plain: bytes, write_content_size: bool = True) -> bytes:
    """One ZSTD frame, with a size before it or bare."""
    found = zstandard.ZstdCompressor(write_content_size=write_content_size).compress(plain)
    return found if said is None else said.to_bytes(8, "little") + found


@pytest.mark.parametrize("data", [frame(16, bytes(16)), frame(None, bytes(16))])
def test_zstd_frames_with_and_without_a_size(data: bytes) -> None:
    found = REGISTRY.decode_chunks(General("zstd", None, Flat(64)), one_chunk(data, 2))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.tobytes() == bytes(16)


def test_zstd_frames_whose_writer_did_not_know_their_size() -> None:
    stored = frame(16, bytes(16), write_content_size=False)
    found = REGISTRY.decode_chunks(General("zstd", None, Flat(64)), one_chunk(stored, 2))
    assert isinstance(found, FixedWidthBlock)
    assert found.data.tobytes() == bytes(16)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("said", [0, 8, 15, 17, 1 << 20, 1 << 40, (1 << 64) - 1])
def test_zstd_frames_of_another_size_are_corrupt(said: int, known: bool) -> None:
    stored = frame(said, bytes(16), write_content_size=known)
    with pytest.raises(CorruptFileError):
        REGISTRY.decode_chunks(General("zstd", None, Flat(64)), one_chunk(stored, 2))


def side_by_side(*buffers: bytes) -> Chunks:
    """Chunks of two values, each with one buffer."""
    sizes = np.array([[len(buffer) for buffer in buffers]], np.int64)
    joined = np.frombuffer(b"".join(buffers), np.uint8)
    return Chunks(joined, np.cumsum(sizes, axis=1) - sizes, sizes, np.full(len(buffers), 2))


@pytest.mark.parametrize("other", [frame(16, bytes(16)), frame(None, bytes(16))])
def test_zstd_frames_of_many_chunks(other: bytes) -> None:
    chunks = side_by_side(frame(16, b"a" * 16), other, frame(16, b"b" * 16))
    found = REGISTRY.decode_chunks(General("zstd", None, Flat(64)), chunks)
    assert isinstance(found, FixedWidthBlock)
    assert found.data.tobytes() == b"a" * 16 + bytes(16) + b"b" * 16


@pytest.mark.parametrize("said", [1, 15, 17, 1 << 20, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("known", [True, False])
def test_one_bad_zstd_frame_of_many_chunks(said: int, known: bool) -> None:
    good = frame(16, bytes(16))
    bad = frame(said, bytes(16), write_content_size=known)
    for buffers in ([good, bad, good], [good, good, good[:-3]], [good, b"\1" + good[1:]]):
        with pytest.raises(CorruptFileError):
            REGISTRY.decode_chunks(General("zstd", None, Flat(64)), side_by_side(*buffers))


VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=300)


@given(values=VALUES, width=st.sampled_from([32, 64]))
@settings(deadline=None, max_examples=40)
def test_variable(values: list[bytes], width: int) -> None:
    block = variable(values, width)
    encoded = encode_variable(block)
    counts = encoded.num_values[:-1]
    assert ((counts & (counts - 1)) == 0).all(), "all but the last hold a power of two"
    assert values_of(REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded))) == values
    data = encode_variable_block(block)
    chunks = one_chunk(data.tobytes(), len(values))
    assert values_of(REGISTRY.decode_blocks(encoded.spec, chunks)) == values


@pytest.mark.parametrize("header", ["20 03000000 19000000", "20 ffffff01 19000000"])
def test_variable_with_the_header_of_old_files(header: str) -> None:
    offsets = np.array([0, 1, 1, 3], "<i4").tobytes()
    data = bytes.fromhex(header) + offsets + b"abc"
    found = REGISTRY.decode_blocks(Variable(Flat(32)), one_chunk(data, 3))
    assert values_of(found) == [b"a", b"", b"bc"]


def test_variable_with_the_wide_header_of_old_files() -> None:
    header = b"\x40" + np.array([0x0101, 33], "<u8").tobytes()
    data = header + np.array([0, 3], "<i8").tobytes() + b"abc"
    assert values_of(REGISTRY.decode_blocks(Variable(Flat(64)), one_chunk(data, 1))) == [b"abc"]


@given(values=st.lists(st.sampled_from([b"", b"red", b"the manifest", b"\xff\0"]), min_size=1))
@settings(deadline=None, max_examples=30)
def test_fsst(values: list[bytes]) -> None:
    block = variable(values * 20)
    table = train_fsst(block)
    codes = encode_fsst(table, block)
    encoded = encode_variable(codes)
    spec = Fsst(table, encoded.spec)
    assert values_of(REGISTRY.decode_chunks(spec, as_chunks(encoded))) == values * 20
    assert values_of(REGISTRY.decode_values(spec, codes)) == values * 20


def lists(
    count: int, dimension: int, *, width: int, inner: int | None = None
) -> FixedSizeListBlock:
    """Lists of fixed-width items with validity; of lists of `inner` items where it is given."""
    num_items = count * dimension
    validity = np.packbits(RNG.random(num_items) < 0.7, bitorder="little")
    items: DataBlock
    if inner is not None:
        items = lists(num_items, inner, width=width)
    elif width == 1:
        items = bits(RNG.random(num_items) < 0.5)
    else:
        items = FixedWidthBlock(
            width, num_items, RNG.integers(0, 256, num_items * width // 8).astype(np.uint8)
        )
    return FixedSizeListBlock(dimension, count, validity, items)


def assert_same_lists(found: DataBlock, expected: DataBlock) -> None:
    while isinstance(expected, FixedSizeListBlock):
        assert isinstance(found, FixedSizeListBlock)
        assert (found.dimension, found.num_values) == (expected.dimension, expected.num_values)
        assert found.validity is not None
        assert expected.validity is not None
        assert found.validity.tobytes() == expected.validity.tobytes()
        found, expected = found.items, expected.items
    assert isinstance(found, FixedWidthBlock)
    assert isinstance(expected, FixedWidthBlock)
    assert found.data.tobytes() == expected.data.tobytes()


@pytest.mark.parametrize("count", [1, 2, 700])
@pytest.mark.parametrize(("dimension", "inner"), [(1, None), (3, None), (8, None), (3, 5), (16, 2)])
@pytest.mark.parametrize("width", [1, 8, 32])
def test_fixed_size_lists(count: int, dimension: int, inner: int | None, width: int) -> None:
    block = lists(count, dimension, width=width, inner=inner)
    encoded = encode_fixed_size_list(block)
    assert REGISTRY.num_buffers(encoded.spec) == len(encoded.streams)
    assert_same_lists(REGISTRY.decode_chunks(encoded.spec, as_chunks(encoded)), block)
    if width > 1:
        zipped = zip_validity(block)
        assert_same_lists(REGISTRY.decode_values(describe(block), zipped), block)


def test_fixed_size_lists_of_no_rows() -> None:
    spec = FixedSizeList(4, True, Flat(32))
    empty = FixedWidthBlock(8 + 128, 0, np.empty(0, np.uint8))
    found = REGISTRY.decode_values(spec, empty)
    assert isinstance(found, FixedSizeListBlock)
    assert (found.num_values, found.items.num_values) == (0, 0)


def test_constant_items() -> None:
    spec = FixedSizeList(10, True, Constant(None))
    found = REGISTRY.decode_values(spec, FixedWidthBlock(16, 3, np.zeros(6, np.uint8)))
    assert isinstance(found, FixedSizeListBlock)
    assert found.items == NullBlock(30)


def test_items_of_one_value() -> None:
    value = np.array([7], "<u4")
    for spec, stored in (
        (FixedSizeList(10, True, Constant(value.tobytes())), FixedWidthBlock(16, 3, RANDOM[:6])),
        (FixedSizeList(10, False, Constant(value.tobytes())), FixedWidthBlock(0, 3, RANDOM[:0])),
    ):
        found = REGISTRY.decode_values(spec, stored)
        assert isinstance(found, FixedSizeListBlock)
        assert (found.validity is not None) == spec.has_validity
        assert isinstance(found.items, ConstantBlock)
        assert found.items.num_values == 30
        assert found.items.value.data.tobytes() == value.tobytes()


def test_a_constant_block() -> None:
    found = REGISTRY.decode_blocks(Constant(b"abc"), one_chunk(b"", 4))
    assert isinstance(found, FixedWidthBlock)
    assert (found.bits_per_value, found.data.tobytes()) == (24, b"abc" * 4)
    assert REGISTRY.decode_blocks(Constant(None), one_chunk(b"", 4)) == NullBlock(4)


def test_dictionaries_of_chunks() -> None:
    spec = Dictionary(Flat(8), Variable(Flat(32)), 3)
    assert REGISTRY.num_buffers(spec) == 2
    items = [variable([b"a", b"", b"cde"]), variable([b"xy", b"z", b""])]
    parts = [bytes([2, 0, 0, 1]), as_chunks(encode_variable(items[0])).data.tobytes()]
    parts += [bytes([1, 1]), as_chunks(encode_variable(items[1])).data.tobytes()]
    sizes = np.array([[4, 2], [len(parts[1]), len(parts[3])]], np.int64)
    ends = np.cumsum([len(part) for part in parts])
    starts = np.array([[0, ends[1]], [ends[0], ends[2]]], np.int64)
    data = np.frombuffer(b"".join(parts), np.uint8)
    chunks = Chunks(data, starts, sizes, np.array([4, 2], np.int64))
    found = REGISTRY.decode_chunks(spec, chunks)
    assert isinstance(found, DictionaryBlock)
    codes = found.indices.data.view("<u8").tolist()
    looked_up = [values_of(found.items)[code] for code in codes]
    assert looked_up == [b"cde", b"a", b"a", b"", b"z", b"z"]
    for num_items in (0, 2, 1 << 16):
        with pytest.raises(CorruptFileError):
            REGISTRY.decode_chunks(replace(spec, num_dictionary_items=num_items), chunks)
    with pytest.raises(CorruptFileError, match="not integers"):
        REGISTRY.decode_chunks(replace(spec, indices=Flat(24)), one_chunk(bytes(12), 4, [b""]))
    with pytest.raises(UnsupportedFeatureError, match="'dictionary'"):
        REGISTRY.decode_blocks(spec, one_chunk(bytes(4), 1))


CONTRADICTIONS: list[tuple[Spec, Chunks]] = [
    (Flat(64), one_chunk(bytes(79), 10)),
    (Flat(1), one_chunk(bytes(1), 9)),
    (Flat(8 * (2**31 - 1)), one_chunk(bytes(8), 2**61)),
    (Flat(2**62), one_chunk(bytes(8), 4)),
    (InlineBitpacking(32), one_chunk(bytes(4), 1025)),
    (InlineBitpacking(32), one_chunk(b"\x21\0\0\0" + bytes(33 * 128), 1024)),
    (InlineBitpacking(32), one_chunk(b"\x03\0\0\0" + bytes(127), 1024)),
    (InlineBitpacking(32), one_chunk(b"", 1)),
    (Variable(Flat(32)), one_chunk(b"", 1)),
    (Variable(Flat(32)), one_chunk(bytes(4), 2**40)),
    (Variable(Flat(32)), one_chunk(np.array([8, 100], "<i4").tobytes(), 1)),
    (Variable(Flat(32)), one_chunk(np.array([12, 13, 12], "<i4").tobytes() + b"ab", 2)),
    (Variable(Flat(32)), one_chunk(np.array([4, 8], "<i4").tobytes(), 1)),
    (Fsst(bytes(2312), Variable(Flat(32))), one_chunk(np.array([8, 8], "<i4").tobytes(), 1)),
    (Fsst(bytes(2311), Variable(Flat(32))), one_chunk(np.array([8, 8], "<i4").tobytes(), 1)),
    (Fsst(bytes(2312), Flat(32)), one_chunk(bytes(4), 1)),
    (FixedSizeList(4, True, Flat(8)), one_chunk(b"", 1, [bytes(4)])),
    (FixedSizeList(4, False, Flat(8)), one_chunk(bytes(3), 1)),
    (FixedSizeList(2**31, False, FixedSizeList(2**31, False, Flat(8))), one_chunk(b"", 1)),
    (OutOfLineBitpacking(64, Flat(3)), one_chunk(bytes(8), 1)),
    (Constant(None), one_chunk(b"", 2**40)),
]


@pytest.mark.parametrize(("spec", "chunks"), CONTRADICTIONS)
def test_chunks_that_contradict_their_description(spec: Spec, chunks: Chunks) -> None:
    with pytest.raises(FormatError):
        REGISTRY.decode_chunks(spec, chunks)


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [
        (OutOfLineBitpacking(64, Flat(0)), one_chunk(b"", 65_536)),
        (OutOfLineBitpacking(16, Flat(1)), one_chunk(b"", 2**40)),
        (OutOfLineBitpacking(16, Flat(1)), one_chunk(bytes(127), 1024)),
        (OutOfLineBitpacking(24, Flat(1)), one_chunk(bytes(128), 1024)),
        (Variable(Flat(32)), one_chunk(bytes(3), 0)),
        (Variable(Flat(32)), one_chunk(b"\x20" + bytes(20), 2**40)),
        (Variable(Flat(32)), one_chunk(b"\x21\x01" + bytes(20), 1)),
        (Variable(Flat(32)), one_chunk(np.array([32, 16, 1, 1], "<i4").tobytes(), 1)),
        (Variable(Flat(32)), one_chunk(np.array([32, 16, 0, 1], "<i4").tobytes(), 1)),
        (Variable(Flat(32)), one_chunk(np.array([32, 17, 0, 0], "<i4").tobytes(), 1)),
        (Fsst(bytes(2312), Variable(Flat(32))), one_chunk(bytes(8), 1)),
        (FixedSizeList(1, False, Flat(8)), one_chunk(bytes(8), 8)),
        (Constant(b""), one_chunk(b"", 8)),
        (Constant(bytes(2)), one_chunk(b"", 1 << 16)),
    ],
)
def test_blocks_that_contradict_their_description(spec: Spec, chunks: Chunks) -> None:
    with pytest.raises(FormatError):
        REGISTRY.decode_blocks(spec, chunks)


def test_levels_of_no_bits() -> None:
    found = REGISTRY.decode_blocks(OutOfLineBitpacking(16, Flat(0)), one_chunk(b"", 65_535))
    assert isinstance(found, FixedWidthBlock)
    assert not found.data.any()


def test_values_of_another_kind() -> None:
    strings, numbers = variable([b"a"]), fixed(np.zeros(2, "<u4"))
    of_strings: list[Spec] = [Variable(Flat(32)), Fsst(bytes(2312), Variable(Flat(32))), Flat(64)]
    for spec in of_strings:
        with pytest.raises(CorruptFileError):
            REGISTRY.decode_values(spec, numbers)
    of_numbers: list[Spec] = [Flat(32), FixedSizeList(1, False, Flat(32))]
    for spec in of_numbers:
        with pytest.raises(CorruptFileError):
            REGISTRY.decode_values(spec, strings)
    with pytest.raises(UnsupportedFeatureError, match="inline_bitpacking"):
        REGISTRY.decode_values(InlineBitpacking(32), numbers)
    with pytest.raises(CorruptFileError, match="bytes of their own"):
        REGISTRY.decode_values(Constant(b"x"), numbers)
