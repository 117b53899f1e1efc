"""Registries: values that answer for descriptions."""

from __future__ import annotations

import numpy as np
import pytest

from alance.encodings.blocks import Chunks, DataBlock, NullBlock
from alance.encodings.compressive import default_registry
from alance.encodings.registry import Compressive, EncodedChunks, EncodingRegistry, Stream
from alance.encodings.spec import Dictionary, FixedSizeList, Flat, Fsst, Rle, Spec, Variable
from alance.errors import UnsupportedFeatureError

CHUNKS = Chunks(
    np.zeros(8, np.uint8),
    np.zeros((1, 1), np.int64),
    np.full((1, 1), 8, np.int64),
    np.ones(1, np.int64),
)


class CountingEncoding(Compressive):
    """Answers for dictionaries, with nulls."""

    name = "dictionary"
    spec_type = Dictionary
    transparent = True

    def decode_chunks(
        self, spec: Dictionary, chunks: Chunks, registry: EncodingRegistry
    ) -> DataBlock:
        return NullBlock(chunks.total_values)


SPEC = Dictionary(Flat(8), Flat(8), 1)


def test_an_encoding_can_be_added_without_touching_the_registry() -> None:
    plain = EncodingRegistry.of([])
    extended = plain.with_encoding(CountingEncoding())
    assert extended.decode_chunks(SPEC, CHUNKS) == NullBlock(1)
    with pytest.raises(UnsupportedFeatureError, match="Dictionary"):
        plain.decode_chunks(SPEC, CHUNKS)


def test_an_encoding_can_be_replaced() -> None:
    class OtherEncoding(CountingEncoding):
        def decode_chunks(
            self, spec: Dictionary, chunks: Chunks, registry: EncodingRegistry
        ) -> DataBlock:
            return NullBlock(7)

    registry = EncodingRegistry.of([CountingEncoding()]).with_encoding(OtherEncoding())
    assert registry.decode_chunks(SPEC, CHUNKS) == NullBlock(7)


def test_forms_that_an_encoding_does_not_have_are_refused_by_name() -> None:
    registry = EncodingRegistry.of([CountingEncoding()])
    with pytest.raises(UnsupportedFeatureError, match="'dictionary' cannot describe a block"):
        registry.decode_blocks(SPEC, CHUNKS)
    with pytest.raises(UnsupportedFeatureError, match="'dictionary' cannot describe a full-zip"):
        registry.decode_values(SPEC, NullBlock(1))


@pytest.mark.parametrize(
    ("spec", "num_buffers"),
    [
        (Flat(8), 1),
        (Variable(Flat(32)), 1),
        (Fsst(b"", Variable(Flat(32))), 1),
        (Rle(Flat(8), Flat(8)), 2),
        (FixedSizeList(3, False, Flat(8)), 1),
        (FixedSizeList(3, True, FixedSizeList(2, True, Flat(8))), 3),
    ],
)
def test_buffers_of_a_chunk(spec: Spec, num_buffers: int) -> None:
    assert default_registry().num_buffers(spec) == num_buffers


def test_names_are_those_of_the_format() -> None:
    for spec_type, encoding in default_registry().by_spec.items():
        assert encoding.spec_type is spec_type
        assert encoding.name.replace("_", "") == spec_type.__name__.lower()


def test_sizes_of_encoded_chunks() -> None:
    stream = Stream.contiguous(np.zeros(10, np.uint8), np.array([4, 6], np.int64))
    assert stream.offsets.tolist() == [0, 4]
    encoded = EncodedChunks(Flat(8), (stream, stream), np.array([4, 6], np.int64))
    assert (stream.num_bytes, encoded.num_bytes) == (10, 20)
    assert (CHUNKS.num_chunks, CHUNKS.total_values) == (1, 1)
