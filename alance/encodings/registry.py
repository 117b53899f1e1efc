"""Which code answers for which arm of the format: an immutable value that a session carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import Bytes, Chunks, DataBlock
from alance.encodings.spec import Spec
from alance.errors import UnsupportedFeatureError

__all__ = ["Compressive", "EncodedChunks", "EncodingRegistry", "Stream"]


@dataclass(frozen=True, slots=True)
class Stream:
    """One buffer of every chunk: chunk c has `data[offsets[c]:offsets[c] + sizes[c]]`."""

    data: Bytes
    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def contiguous(cls, data: Bytes, sizes: npt.NDArray[np.int64]) -> Stream:
        """Chunks that lie back to back."""
        return cls(data, np.cumsum(sizes) - sizes, sizes)

    @property
    def num_bytes(self) -> int:
        """Bytes over all chunks."""
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True)
class EncodedChunks:
    """A data block as mini-block chunks: its description, value buffers and values per chunk."""

    spec: Spec
    streams: tuple[Stream, ...]
    num_values: npt.NDArray[np.int64]

    @property
    def num_bytes(self) -> int:
        """Bytes of all value buffers."""
        return sum(stream.num_bytes for stream in self.streams)


class Compressive:
    """One compressive encoding: what it is called and how its three forms are decoded.

    A subclass overrides the forms that the format allows for it; the others refuse. Nothing here
    does I/O or keeps state, so one instance serves all threads. `spec` is always an instance of
    `spec_type`; inner encodings are reached through `registry`, never by import.
    """

    name: ClassVar[str]
    """The oneof arm of `CompressiveEncoding`."""
    spec_type: ClassVar[type]
    transparent: ClassVar[bool]
    """Whether single values stay addressable after it."""

    def num_buffers(self, spec: Any, registry: EncodingRegistry) -> int:
        """Value buffers that one mini-block chunk has in this encoding."""
        return 1

    def decode_chunks(self, spec: Any, chunks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Decode the values of many mini-block chunks into one block."""
        raise self._refuse("a mini-block chunk")

    def decode_blocks(self, spec: Any, blocks: Chunks, registry: EncodingRegistry) -> DataBlock:
        """Decode many buffers in block form (levels of chunks, a dictionary) into one block."""
        raise self._refuse("a block of levels or dictionary items")

    def decode_values(self, spec: Any, block: DataBlock, registry: EncodingRegistry) -> DataBlock:
        """Decode values that were each compressed alone (full-zip)."""
        raise self._refuse("a full-zip value")

    def _refuse(self, where: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"encoding {self.name!r} cannot describe {where}; a newer library may have written it",
            feature=self.name,
        )


@dataclass(frozen=True, slots=True)
class EncodingRegistry:
    """Encodings by the description they answer for; `with_encoding` makes another registry."""

    by_spec: Mapping[type, Compressive]

    @classmethod
    def of(cls, encodings: Iterable[Compressive]) -> EncodingRegistry:
        """Build a registry of these."""
        return cls(MappingProxyType({e.spec_type: e for e in encodings}))

    def with_encoding(self, encoding: Compressive) -> EncodingRegistry:
        """Return a registry with this encoding, in place of one for the same description."""
        return EncodingRegistry(MappingProxyType({**self.by_spec, encoding.spec_type: encoding}))

    def find(self, spec: Spec) -> Compressive:
        """Encoding that answers for a description.

        Raises
        ------
        UnsupportedFeatureError
            None does.
        """
        found = self.by_spec.get(type(spec))
        if found is None:
            name = type(spec).__name__
            raise UnsupportedFeatureError(
                f"encoding {name} is not supported by this library", feature=name
            )
        return found

    def num_buffers(self, spec: Spec) -> int:
        """Value buffers of one mini-block chunk."""
        return self.find(spec).num_buffers(spec, self)

    def decode_chunks(self, spec: Spec, chunks: Chunks) -> DataBlock:
        """Decode mini-block chunks."""
        return self.find(spec).decode_chunks(spec, chunks, self)

    def decode_blocks(self, spec: Spec, blocks: Chunks) -> DataBlock:
        """Decode buffers in block form."""
        return self.find(spec).decode_blocks(spec, blocks, self)

    def decode_values(self, spec: Spec, block: DataBlock) -> DataBlock:
        """Decode values compressed one by one."""
        return self.find(spec).decode_values(spec, block, self)
