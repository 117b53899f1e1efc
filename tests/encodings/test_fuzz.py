"""Damaged pages: errors of the tree or values that Arrow takes for valid, in bounded memory.

Every case is drawn from a seed, so that a failure can be run again alone. The ordinary run takes a
few thousand; `ALANCE_FUZZ_CASES=100000` takes as many for each page, `ALANCE_FUZZ_SEED` moves them.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from alance.encodings.rows import RowRanges
from alance.encodings.spec import (
    Constant,
    FixedSizeList,
    Flat,
    Fsst,
    InlineBitpacking,
    Layer,
    Layout,
    MiniBlockLayout,
    OutOfLineBitpacking,
    Rle,
    Spec,
    Variable,
)
from alance.errors import FormatError
from alance.testing.pages import StoredPage, pages_of, rows_of
from alance.types import FileVersion
from tests.encodings.forging import buffer_bytes, page, read

CASES = int(os.environ.get("ALANCE_FUZZ_CASES", "120"))
SEED = int(os.environ.get("ALANCE_FUZZ_SEED", "0"))
BYTES_MAX = 32 << 20
"""Memory that reading one damaged page of at most 50 KB may take."""
POOL = pa.proxy_memory_pool(pa.default_memory_pool())
"""Counts what is taken from Arrow; never freed, since arrays give their memory back to it."""


def sample(seed: int) -> dict[str, pa.Array]:
    """Arrays whose pages have every layout and encoding that is written."""
    rng = np.random.default_rng(seed)
    some = rng.random(1500) < 0.2
    words = [f"{rng.choice(['red', 'green', 'deep blue'])} page {i}" for i in range(3000)]
    lengths = rng.integers(0, 4, 600)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    numbers = pa.array(rng.random(2000), mask=rng.random(2000) < 0.1)
    null_lists = pa.array(rng.random(600) < 0.1)
    lists = pa.ListArray.from_arrays(offsets, numbers, mask=null_lists)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(140 * 64)), 64)
    binaries = pa.array([rng.bytes(int(rng.integers(0, 500))) for _ in range(140)])
    return {
        "flat": pa.array(rng.random(1500), mask=some),
        "bitpacked": pa.array(rng.integers(0, 50, 3000)),
        "booleans": pa.array(rng.random(5000) < 0.5),
        "strings": pa.array([rng.bytes(6).hex() for _ in range(1500)], mask=some),
        "fsst": pa.array(words),
        "dictionary": pa.array(rng.choice(["a", "bb", "ccc"], 1500)),
        "dictionary column": pa.array(rng.choice(["a", "bb"], 500)).dictionary_encode(),
        "small vectors": pa.FixedSizeListArray.from_arrays(numbers, 4),
        "lists": lists,
        "lists of lists": pa.ListArray.from_arrays(pa.array(range(0, 601, 3), pa.int32()), lists),
        "vectors": vectors,
        "binaries": binaries,
        "long text": pa.array([" ".join(words[i : i + 20]) for i in range(0, 2000, 20)]),
        "lists of binaries": pa.ListArray.from_arrays(
            pa.array([0, None, 3, 3, 90, 140], pa.int32()), binaries
        ),
        "lists of vectors": pa.ListArray.from_arrays(
            pa.array([0, 0, 70, 139], pa.int32()), vectors
        ),
        "nulls": pa.nulls(1500, pa.int64()),
        "lists of nulls": pa.array([None, [], [None]] * 100, pa.list_(pa.int64())),
        "constant": pa.array([7] * 1500),
        "constant and nulls": pa.array([7] * 20, mask=some[:20]),
        "constant text": pa.array(["page"] * 1500),
        "lists of a constant": pa.array([["page"], [None], [], None], pa.list_(pa.large_string())),
        "constant bytes": pa.array([rng.bytes(300)] * 200, mask=some[:200]),
    }


ARRAYS = sample(1)


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, extend, repeat or overwrite bytes."""
    raw = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        size = len(raw)
        at = int(rng.integers(0, size)) if size else 0
        match rng.integers(0, 7):
            case 0 if size:
                raw[at] ^= 1 << int(rng.integers(0, 8))
            case 1 if size:
                raw[at] = int(rng.choice([0, 1, 127, 128, 254, 255]))
            case 2:
                del raw[at:]
            case 3:
                raw += rng.bytes(int(rng.integers(1, 64)))
            case 4:
                word = int(rng.choice([0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63]))
                at -= at % 4
                raw[at : at + 8] = word.to_bytes(8, "little")[: size - at]
            case 5:
                stop = at + int(rng.integers(1, 64))
                raw[at:at] = raw[at:stop]
            case _:
                stop = min(at + int(rng.integers(1, 64)), size)
                raw[at:stop] = rng.bytes(stop - at)
    return bytes(raw)


SPECS: Sequence[Spec] = (
    Flat(1),
    Flat(8),
    Flat(16),
    Flat(32),
    Flat(64),
    Flat(2**34),
    Variable(Flat(32)),
    Variable(Flat(64)),
    Constant(None),
    Constant(b"12345678"),
    InlineBitpacking(16),
    InlineBitpacking(64),
    OutOfLineBitpacking(16, Flat(0)),
    OutOfLineBitpacking(16, Flat(1)),
    OutOfLineBitpacking(64, Flat(64)),
    Rle(Flat(16), Flat(8)),
    Rle(Flat(64), Flat(8)),
    Fsst(bytes(2312), Variable(Flat(32))),
    Fsst(b"\0\0\0\0TSSF" + bytes(2304), Variable(Flat(32))),
    Fsst(b"\0\0\0\1TSSF" + bytes(2304), Variable(Flat(32))),
    FixedSizeList(4, False, Flat(64)),
    FixedSizeList(4, True, Flat(1)),
    FixedSizeList(2**31 - 1, True, Constant(None)),
    FixedSizeList(2**16, False, FixedSizeList(2**15, True, Flat(8))),
)
COUNTS = (0, 1, 2, 3, 63, 64, 65, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62)
SPEC_MEMBERS = {"rep_compression", "def_compression", "value_compression", "dictionary"}


def forge(layout: Layout, rng: np.random.Generator) -> Layout:
    """Change one member of a layout."""
    member = fields(layout)[rng.integers(0, len(fields(layout)))].name
    value: Any = getattr(layout, member)
    if member == "layers":
        layers = [Layer(int(number)) for number in rng.integers(1, 7, rng.integers(1, 4))]
        value = tuple(layers) if not layers[0].is_list else value[::-1]
    elif member == "has_large_chunk":
        value = not value
    elif member in SPEC_MEMBERS:
        value = None if rng.random() < 0.1 else SPECS[int(rng.integers(0, len(SPECS)))]
        value = Flat(64) if value is None and member == "value_compression" else value
    elif member == "inline_value":
        value = None if rng.random() < 0.2 else rng.bytes(int(rng.integers(0, 40)))
    elif rng.random() < 0.5:
        value = int(rng.choice(COUNTS))
    else:
        value = max((value or 0) + int(rng.integers(-2, 3)), 0)
    changed = replace(layout, **{member: value})
    return changed if not value or layout.layers[0].is_list == changed.layers[0].is_list else layout


def forge_page(stored: StoredPage, rng: np.random.Generator) -> StoredPage:
    """Damage buffers, layout or number of rows of a page, mostly one of them."""
    buffers, layout, num_rows = buffer_bytes(stored), stored.page.layout, stored.page.num_rows
    draw = rng.random()
    if buffers and draw < 0.6:
        at = rng.integers(0, len(buffers))
        buffers[at] = damage(buffers[at], rng)
    if draw > 0.55:
        layout = forge(layout, rng)
    if 0.5 < draw < 0.6 or draw > 0.95:
        num_rows = int(rng.choice([*COUNTS[1:], num_rows - 1, num_rows + 1]))
        if rng.random() < 0.5 and isinstance(layout, MiniBlockLayout):
            layout = replace(layout, num_items=num_rows)
    if draw > 0.97 and buffers:
        del buffers[rng.integers(0, len(buffers))]
    return page(layout, buffers, num_rows, stored.version)


def some_rows(num_rows: int, rng: np.random.Generator) -> RowRanges:
    """All rows where they are few, else some of them: nobody asks for more than he can hold."""
    if rng.random() < 0.5:
        start = 0 if num_rows < 10_000 else int(rng.integers(0, num_rows - 5000))
        return RowRanges.one(start, min(num_rows, start + 5000))
    return rows_of(rng.integers(0, num_rows, 10).tolist())


@pytest.fixture(autouse=True)
def counting_pool() -> Iterator[None]:
    pool = pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    yield
    pa.set_memory_pool(pool)


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
@pytest.mark.parametrize("name", list(ARRAYS))
def test_damaged_pages(name: str, version: FileVersion) -> None:
    kind = ARRAYS[name].type
    leaves = pages_of(ARRAYS[name], version)
    (stored,) = (found for leaf in leaves for found in leaf)
    refused = 0
    tracemalloc.start()
    try:
        for case in range(CASES):
            rng = np.random.default_rng((SEED, case))
            forged = forge_page(stored, rng)
            tracemalloc.reset_peak()
            try:
                found, _ = read(forged, kind, some_rows(forged.page.num_rows, rng))
            except FormatError:
                refused += 1
            else:
                found.validate()
            peak = tracemalloc.get_traced_memory()[1] + POOL.max_memory()
            assert peak < BYTES_MAX, f"case {case} took up to {peak} bytes"
    finally:
        tracemalloc.stop()
    share = 10 if stored.buffers else 20  # a page without buffers has few claims to get wrong
    assert refused > CASES // share, "the damage does not reach what is checked"
