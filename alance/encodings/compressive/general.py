"""General compression: LZ4 or ZSTD around the first buffer of another encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import lz4.block
import numpy as np
import numpy.typing as npt
import zstandard

from alance.encodings.blocks import Bytes, Chunks, DataBlock, VariableWidthBlock, as_bytes
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import General, Spec
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import lz4 as lz4_kernel

__all__ = ["Codec", "GeneralEncoding", "compress_block", "compress_chunks", "compress_values"]

Positions = npt.NDArray[np.int64]
BYTES_MAX = 1 << 31
RATIO_MAX = 1 << 16
"""More than this ZSTD does not reach; a forged size must not take memory."""
LZ4_HIGH_LEVEL_MIN = 3
"""Below it LZ4 has one way to compress, the fast one."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class GeneralEncoding(Compressive):
    """Each buffer is framed: its uncompressed size, then one LZ4 block or ZSTD frame."""

    name = "general"
    spec_type = General
    transparent = False

    def num_buffers(self, spec: General, registry: EncodingRegistry) -> int:
        """As many as the encoding inside has."""
        return registry.num_buffers(spec.values)

    def decode_chunks(self, spec: General, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Decompress the first buffer of every chunk, then decode them together."""
        return registry.decode_chunks(spec.values, _decompressed(spec, chunks))

    def decode_blocks(self, spec: General, blocks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Decompress every block, then decode them together."""
        return registry.decode_blocks(spec.values, _decompressed(spec, blocks))

    def decode_values(
        self, spec: General, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Decompress every value alone; a null slot has no bytes and no frame."""
        if not isinstance(block, VariableWidthBlock):
            raise UnsupportedFeatureError(
                "compressed full-zip values of fixed width", feature="general on fixed width"
            )
        starts = block.offsets[:-1].astype(np.int64)
        data, sizes = _unframed(spec.scheme, block.data, starts, np.diff(block.offsets))
        offsets = np.zeros_like(block.offsets)
        if len(data) > np.iinfo(offsets.dtype).max:
            raise UnsupportedFeatureError(
                "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
                feature="32-bit offsets",
            )
        offsets[1:] = np.cumsum(sizes)
        return registry.decode_values(spec.values, VariableWidthBlock(offsets, data))


def _decompressed(spec: General, chunks: Chunks) -> Chunks:
    """Chunks whose first buffer is plain; the others stay what they are."""
    data, sizes = _unframed(spec.scheme, chunks.data, chunks.offsets[0], chunks.sizes[0])
    first = np.cumsum(sizes) - sizes
    rest, rest_sizes = chunks.offsets[1:], chunks.sizes[1:]
    if len(rest):
        data, rest = np.concatenate((data, chunks.data)), rest + len(data)
    return replace(
        chunks,
        data=data,
        offsets=np.concatenate((first[np.newaxis], rest)),
        sizes=np.concatenate((sizes[np.newaxis], rest_sizes)),
    )


def _unframed(
    scheme: str, data: Bytes, starts: Positions, sizes: Positions
) -> tuple[Bytes, Positions]:
    """Decompress framed buffers (specification: 2.1, section 11); also the size of each."""
    if scheme == "lz4":
        plain, plain_sizes, status = lz4_kernel.decode(data, starts, sizes.astype(np.int64))
        if status:
            raise CorruptFileError(f"buffer {status - 1} compressed with lz4 is damaged")
        return plain, plain_sizes
    if scheme != "zstd":
        raise UnsupportedFeatureError(f"compression scheme {scheme!r}", feature=scheme)
    try:
        return _join(_unzstd(list(_cut(data, starts, sizes))))
    except (zstandard.ZstdError, ValueError) as exc:
        raise CorruptFileError(f"a buffer compressed with zstd is damaged: {exc}") from exc


def _unzstd(buffers: Sequence[memoryview]) -> Iterable[bytes | memoryview]:
    """Decompress many buffers: in one call, in which no other thread takes its turn, if it can."""
    codec = zstandard.ZstdDecompressor(max_window_size=BYTES_MAX)
    sizes = [_zstd_size(framed) for framed in buffers]
    if len(sizes) > 1 and all(sizes):
        frames: list[bytes | bytearray | memoryview] = [framed[8:] for framed in buffers]
        wanted = np.array(sizes, "<u8").tobytes()
        found = codec.multi_decompress_to_buffer(frames, decompressed_sizes=wanted, threads=1)
        return (memoryview(found[i]) for i in range(len(found)))  # type: ignore[arg-type]
    return map(partial(_unzstd_one, codec), buffers, sizes)


def _zstd_size(framed: memoryview) -> int | None:
    """Size that a buffer says it will have; None where it says none."""
    if framed[:4] == ZSTD_MAGIC and (len(framed) < 8 or not framed[4] & 0x10):
        return None
    size = int.from_bytes(framed[:8], "little")
    if size > min(BYTES_MAX, len(framed) * RATIO_MAX):
        raise ValueError(f"{len(framed)} bytes cannot become {size}")
    return size


def _unzstd_one(codec: zstandard.ZstdDecompressor, framed: memoryview, size: int | None) -> bytes:
    if len(framed) == 0:
        return b""
    if size is None:
        return _stream(codec, framed)
    frame = framed[8:]
    # The frame says how much memory it wants, unless its writer did not know.
    wanted = zstandard.get_frame_parameters(frame).content_size
    if wanted not in (size, zstandard.CONTENTSIZE_UNKNOWN):
        raise ValueError(f"a frame of {wanted} bytes that should have {size}")
    plain = codec.decompress(frame, max_output_size=size) if size else _stream(codec, frame)
    if len(plain) != size:
        raise ValueError(f"{len(plain)} bytes where {size} are said to be")
    return plain


def _stream(codec: zstandard.ZstdDecompressor, frame: memoryview) -> bytes:
    """Decompress a frame of unknown size."""
    with codec.stream_reader(frame) as reader:
        plain = reader.read(min(BYTES_MAX, len(frame) * RATIO_MAX))
        if reader.read(1):
            raise ValueError("more bytes than can be real")
    return plain


@dataclass(frozen=True, slots=True)
class Codec:
    """How to compress: `lz4` or `zstd`, and how hard; None leaves that to the codec."""

    scheme: str
    level: int | None = None

    def describe(self, inner: Spec) -> General:
        """Description of something compressed with it."""
        return General(self.scheme, self.level, inner)

    def frame(self, data: Bytes, starts: Positions, sizes: Positions) -> tuple[Bytes, Positions]:
        """Compress buffers one by one (specification: 2.1, section 11); also the size of each."""
        level = self.level or 0
        if self.scheme == "lz4" and level < LZ4_HIGH_LEVEL_MIN:
            return lz4_kernel.encode(data, starts, sizes)
        buffers = _cut(data, starts, sizes)
        if self.scheme == "lz4":
            return _join(
                lz4.block.compress(buffer, mode="high_compression", compression=level)
                for buffer in buffers
            )
        codec = zstandard.ZstdCompressor(level=level or 3)
        return _join(
            len(buffer).to_bytes(8, "little") + codec.compress(buffer) for buffer in buffers
        )


def _cut(data: Bytes, starts: Positions, sizes: Positions) -> Iterator[memoryview]:
    """Views of buffers."""
    stops = starts + sizes
    return (data[a:b].data for a, b in zip(starts.tolist(), stops.tolist(), strict=True))


def _join(parts: Iterable[bytes | memoryview]) -> tuple[Bytes, Positions]:
    """Buffers back to back and the size of each."""
    buffers = list(parts)
    return as_bytes(b"".join(buffers)), np.array([len(b) for b in buffers], np.int64)


def compress_chunks(codec: Codec, chunks: EncodedChunks) -> EncodedChunks:
    """Compress the first value buffer of every chunk."""
    first, *rest = chunks.streams
    data, sizes = codec.frame(first.data, first.offsets, first.sizes)
    streams = (Stream.contiguous(data, sizes), *rest)
    return EncodedChunks(codec.describe(chunks.spec), streams, chunks.num_values)


def compress_block(codec: Codec, data: Bytes) -> Bytes:
    """Compress a buffer in block form."""
    framed, _ = codec.frame(data, np.zeros(1, np.int64), np.array([len(data)]))
    return framed


def compress_values(codec: Codec, block: VariableWidthBlock) -> VariableWidthBlock:
    """Compress every value alone; empty ones too have a frame."""
    bounds = block.offsets.astype(np.int64)
    data, sizes = codec.frame(block.data, bounds[:-1], np.diff(bounds))
    offsets = np.zeros_like(block.offsets)
    np.cumsum(sizes, out=offsets[1:], dtype=offsets.dtype)
    return VariableWidthBlock(offsets, data)
