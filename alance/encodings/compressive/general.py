"""General compression: LZ4 or ZSTD around the first buffer of another encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import lz4.block
import numpy as np
import numpy.typing as npt
import zstandard

from alance.encodings.blocks import Bytes, Chunks, DataBlock, VariableWidthBlock, as_bytes
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import General, Spec
from alance.errors import CorruptFileError, UnsupportedFeatureError

__all__ = ["Codec", "GeneralEncoding", "compress_block", "compress_chunks", "compress_values"]

BYTES_MAX = 1 << 31
RATIO_MAX = 1 << 16
"""More than this no codec reaches; a forged size must not take memory."""
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
        unframe = _opened(spec.scheme)
        bounds = block.offsets.tolist()
        values = [unframe(block.data[start:stop]) for start, stop in pairwise(bounds)]
        ends = np.cumsum([len(value) for value in values], dtype=np.int64)
        offsets = np.zeros_like(block.offsets)
        if len(ends) and ends[-1] > np.iinfo(offsets.dtype).max:
            raise UnsupportedFeatureError(
                "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
                feature="32-bit offsets",
            )
        offsets[1:] = ends
        data = as_bytes(b"".join(values))
        return registry.decode_values(spec.values, VariableWidthBlock(offsets, data))


def _decompressed(spec: General, chunks: Chunks) -> Chunks:
    """Chunks whose first buffer is plain; the others stay what they are."""
    pairs = zip(chunks.offsets[0].tolist(), chunks.sizes[0].tolist(), strict=True)
    unframe = _opened(spec.scheme)
    plain = [unframe(chunks.data[start : start + size]) for start, size in pairs]
    data, sizes = _join(plain)
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


def _opened(scheme: str) -> Callable[[Bytes], bytes]:
    """Return what unpacks framed buffers (specification: 2.1, section 11) of a scheme."""
    if scheme == "lz4":
        unpack = _unlz4
    elif scheme == "zstd":
        codec = zstandard.ZstdDecompressor(max_window_size=BYTES_MAX)
        unpack = partial(_unzstd, codec)
    else:
        raise UnsupportedFeatureError(f"compression scheme {scheme!r}", feature=scheme)

    def unframe(framed: Bytes) -> bytes:
        if len(framed) == 0:
            return b""
        try:
            return unpack(framed.data)
        except (lz4.block.LZ4BlockError, zstandard.ZstdError, ValueError) as exc:
            raise CorruptFileError(f"a buffer compressed with {scheme} is damaged: {exc}") from exc

    return unframe


def _unlz4(framed: memoryview) -> bytes:
    size = _checked(int.from_bytes(framed[:4], "little"), len(framed))
    plain: bytes = lz4.block.decompress(framed[4:], uncompressed_size=size)
    return _complete(plain, size)


def _unzstd(codec: zstandard.ZstdDecompressor, framed: memoryview) -> bytes:
    if framed[:4] == ZSTD_MAGIC and (len(framed) < 8 or not framed[4] & 0x10):
        return _stream(codec, framed)
    size = _checked(int.from_bytes(framed[:8], "little"), len(framed))
    frame = framed[8:]
    # The frame says how much memory it wants, unless its writer did not know.
    wanted = zstandard.get_frame_parameters(frame).content_size
    if wanted not in (size, zstandard.CONTENTSIZE_UNKNOWN):
        raise ValueError(f"a frame of {wanted} bytes that should have {size}")
    if size == 0:
        return _complete(_stream(codec, frame), size)
    return _complete(codec.decompress(frame, max_output_size=size), size)


def _stream(codec: zstandard.ZstdDecompressor, frame: memoryview) -> bytes:
    """Decompress a frame of unknown size."""
    with codec.stream_reader(frame) as reader:
        plain = reader.read(min(BYTES_MAX, len(frame) * RATIO_MAX))
        if reader.read(1):
            raise ValueError("more bytes than can be real")
    return plain


def _complete(plain: bytes, size: int) -> bytes:
    if len(plain) != size:
        raise ValueError(f"{len(plain)} bytes where {size} are said to be")
    return plain


def _checked(size: int, compressed: int) -> int:
    if size > min(BYTES_MAX, compressed * RATIO_MAX):
        raise ValueError(f"{compressed} bytes cannot become {size}")
    return size


@dataclass(frozen=True, slots=True)
class Codec:
    """How to compress: `lz4` or `zstd`, and how hard; None leaves that to the codec."""

    scheme: str
    level: int | None = None

    def describe(self, inner: Spec) -> General:
        """Description of something compressed with it."""
        return General(self.scheme, self.level, inner)

    def open(self) -> Callable[[Bytes], bytes]:
        """Return what frames one buffer (specification: 2.1, section 11)."""
        if self.scheme == "zstd":
            codec = zstandard.ZstdCompressor(level=self.level or 3)
            return lambda plain: len(plain).to_bytes(8, "little") + codec.compress(plain.data)
        level = self.level or 0
        mode = "high_compression" if level >= LZ4_HIGH_LEVEL_MIN else "default"

        def frame(plain: Bytes) -> bytes:
            block: bytes = lz4.block.compress(
                plain.data, mode=mode, compression=level, store_size=False
            )
            return len(plain).to_bytes(4, "little") + block

        return frame


def _join(parts: Iterable[bytes]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Buffers back to back and the size of each."""
    buffers = list(parts)
    return as_bytes(b"".join(buffers)), np.array([len(b) for b in buffers], np.int64)


def compress_chunks(codec: Codec, chunks: EncodedChunks) -> EncodedChunks:
    """Compress the first value buffer of every chunk."""
    first, *rest = chunks.streams
    frame = codec.open()
    starts, stops = first.offsets.tolist(), (first.offsets + first.sizes).tolist()
    data, sizes = _join(frame(first.data[a:b]) for a, b in zip(starts, stops, strict=True))
    streams = (Stream.contiguous(data, sizes), *rest)
    return EncodedChunks(codec.describe(chunks.spec), streams, chunks.num_values)


def compress_block(codec: Codec, data: Bytes) -> Bytes:
    """Compress a buffer in block form."""
    return as_bytes(codec.open()(data))


def compress_values(codec: Codec, block: VariableWidthBlock) -> VariableWidthBlock:
    """Compress every value alone; empty ones too have a frame."""
    frame = codec.open()
    data, sizes = _join(frame(block.data[a:b]) for a, b in pairwise(block.offsets.tolist()))
    offsets = np.zeros_like(block.offsets)
    np.cumsum(sizes, out=offsets[1:], dtype=offsets.dtype)
    return VariableWidthBlock(offsets, data)
