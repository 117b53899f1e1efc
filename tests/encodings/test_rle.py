from __future__ import annotations

from itertools import chain
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.encodings.blocks import Chunks, FixedWidthBlock, as_bytes
from alance.encodings.compressive import default_registry
from alance.encodings.spec import Flat, InlineBitpacking, Rle, Spec
from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError

Runs = list[tuple[int, int]]

RUNS = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=12)


def _chunks(runs: list[Runs], counts: list[int], bits: int) -> Chunks:
    """Chunks in a page that begins with a byte of something else."""
    parts: list[list[bytes]] = [[], []]
    for chunk in runs:
        parts[0].append(np.array([value for value, _ in chunk], f"<u{bits // 8}").tobytes())
        parts[1].append(bytes(length for _, length in chunk))
    sizes = np.array([[len(part) for part in buffers] for buffers in parts], np.int64)
    flat = sizes.reshape(-1)
    offsets = (1 + np.cumsum(flat) - flat).reshape(sizes.shape)
    data = as_bytes(b"\xff" + b"".join(parts[0] + parts[1]))
    return Chunks(data, offsets, sizes, np.array(counts, np.int64))


def _decode(chunks: Chunks, bits: int, spec: Spec | None = None) -> npt.NDArray[np.uint64]:
    spec = spec or Rle(values=Flat(bits), run_lengths=Flat(8))
    block = default_registry().decode_chunks(spec, chunks)
    assert isinstance(block, FixedWidthBlock)
    assert (block.bits_per_value, block.num_values) == (bits, chunks.total_values)
    return block.data.view(f"<u{bits // 8}").astype(np.uint64)


@given(runs=st.lists(RUNS, min_size=1, max_size=5), bits=st.sampled_from([8, 16, 32, 64]))
def test_runs_are_repeated(runs: list[Runs], bits: int) -> None:
    expected = [[value for value, length in chunk for _ in range(length)] for chunk in runs]
    chunks = _chunks(runs, [len(values) for values in expected], bits)
    assert _decode(chunks, bits).tolist() == list(chain(*expected))


def test_a_chunk_may_end_within_a_run() -> None:
    chunks = _chunks([[(7, 3), (8, 255)], [(8, 255), (9, 4)], [(1, 2)]], [10, 257, 0], 16)
    assert _decode(chunks, 16).tolist() == [7] * 3 + [8] * 262 + [9] * 2


@pytest.mark.parametrize("counts", [[4, 1], [3, 2], [300, 1]])
def test_runs_that_are_too_short_are_refused(counts: list[int]) -> None:
    with pytest.raises(CorruptFileError, match="shorter than its number of values"):
        _decode(_chunks([[(1, 3)], [(2, 1)]], counts, 8), 8)


def test_values_and_lengths_must_agree() -> None:
    chunks = _chunks([[(1, 3), (2, 4)]], [7], 32)
    with pytest.raises(CorruptFileError, match="as many run values as run lengths"):
        _decode(Chunks(chunks.data, chunks.offsets, chunks.sizes - 1, chunks.num_values), 32)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (Rle(values=InlineBitpacking(32), run_lengths=Flat(8)), UnsupportedFeatureError),
        (Rle(values=Flat(32), run_lengths=Flat(16)), UnsupportedFeatureError),
        (Rle(values=Flat(24), run_lengths=Flat(8)), CorruptFileError),
        (Rle(values=Flat(1), run_lengths=Flat(8)), CorruptFileError),
    ],
)
def test_other_descriptions_are_refused(spec: Spec, error: type[FormatError]) -> None:
    with pytest.raises(error):
        _decode(_chunks([[(1, 3)]], [3], 32), 32, spec)


@pytest.mark.anyio
@pytest.mark.slow
async def test_runs_written_by_the_reference(tmp_path: Path) -> None:
    runs = np.repeat(np.arange(400), np.arange(400) % 300)
    table = pa.table({
        "float": pa.array(runs * 0.25, pa.float64()),
        "null": pa.array(runs, pa.int64(), mask=runs % 5 == 0),
        "text": pa.array([f"value {n % 3}" for n in runs]),
    })
    lance.write_dataset(table, str(tmp_path / "runs"), data_storage_version="2.1")
    dataset = await alance.open_dataset(tmp_path / "runs")
    assert await dataset.to_table() == table
    rows = [0, 17, 30_000, 255, 41_000]
    assert await dataset.take(rows) == table.take(rows)
