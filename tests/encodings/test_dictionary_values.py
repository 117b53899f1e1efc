"""Pages of dictionaries inside values, made by hand: the format has them, nobody writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from alance.encodings.blocks import VariableWidthBlock
from alance.encodings.build import build_mini_block
from alance.encodings.choose import EncodedValues
from alance.encodings.compressive.variable import encode_variable
from alance.encodings.registry import EncodedChunks, Stream
from alance.encodings.shred import arrow_to_block, shred
from alance.encodings.spec import Dictionary, Flat, Variable
from alance.testing.pages import StoredPage, rows_of
from alance.types import FileVersion
from tests.encodings.forging import read


def test_dictionaries_of_chunks() -> None:
    texts = pa.array([None if i % 7 == 0 else f"text {i % 5}" * (i % 3) for i in range(3000)])
    shredded = shred(texts, ())
    counts = np.array([1024, 1024, 952], np.int64)
    indices, items = [], []
    for chunk in (texts.slice(start, 1024).fill_null("") for start in (0, 1024, 2048)):
        found = chunk.dictionary_encode()
        padded = pa.concat_arrays([found.dictionary, pa.array(["unused"] * 20)])[:20]
        block = arrow_to_block(padded)
        assert isinstance(block, VariableWidthBlock)
        indices.append(np.asarray(found.indices).astype(np.uint8))
        items.append(encode_variable(block).streams[0])
    sizes = np.concatenate([stream.sizes for stream in items])
    streams = (
        Stream.contiguous(np.concatenate(indices), counts),
        Stream.contiguous(np.concatenate([stream.data for stream in items]), sizes),
    )
    spec = Dictionary(Flat(8), Variable(Flat(32)), 20)
    values = EncodedValues(EncodedChunks(spec, streams, counts))
    built = build_mini_block(shredded, values, FileVersion.V2_1)
    assert built is not None
    stored = StoredPage.of(built)
    assert read(stored, pa.string())[0].equals(texts)
    rows = [0, 1023, 1024, 2999]
    assert read(stored, pa.string(), rows_of(rows))[0].equals(texts.take(pa.array(rows)))
