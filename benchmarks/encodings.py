"""Every encoding and layout, alance and pylance side by side in one run.

Each row is a column made for the encoding that it is named after. Both libraries read the same two
datasets, one written by each; times are medians of alternating runs with warm handles, and every
figure is pylance's time over alance's: above 1, alance is faster. `size` is alance's bytes over
pylance's. The last columns say how the values are stored in the file of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.testing.observe import observe
from benchmarks.kinds import WORDS, make_columns
from benchmarks.local import HEADINGS, bench_table

__all__ = ["Kind", "bench_encodings", "make_kinds"]

PREFIX = "lance-encoding:"
BLOB_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A column that is stored in a certain way."""

    make: Callable[[], pa.Array]
    version: str = "2.1"
    settings: tuple[str, ...] = ()
    """Field metadata, `key=value`."""

    @property
    def is_blob(self) -> bool:
        """Whether values lie apart from the column."""
        return "blob=true" in self.settings

    def table(self) -> pa.Table:
        """Make the rows."""
        array = self.make()
        metadata = {PREFIX + key: value for key, value in (s.split("=") for s in self.settings)}
        field = pa.field("c", array.type, metadata=metadata or None)
        return pa.Table.from_arrays([array], schema=pa.schema([field]))


def make_kinds(num_rows: int = 1_000_000, seed: int = 7) -> Mapping[str, Kind]:
    """Kinds by the name of the encoding; fewer rows where values are long."""
    plain = make_columns(num_rows, seed)
    rng = np.random.default_rng(seed)
    vectors, texts, blobs = num_rows // 10, num_rows // 20, num_rows // 1000 + 1

    def nulls(length: int) -> npt.NDArray[np.bool_]:
        return rng.random(length) < 0.1

    def runs() -> pa.Array:
        return pa.array(np.repeat(rng.integers(0, 2**40, num_rows // 50 + 1), 50)[:num_rows])

    def smooth() -> npt.NDArray[np.float64]:
        return np.asarray(np.round(np.cumsum(rng.normal(size=num_rows)), 2), np.float64)

    return {
        "flat": Kind(plain["int64 random"]),
        "flat bool": Kind(plain["bool"]),
        "inline_bitpacking": Kind(plain["int64 small"]),
        "levels of nulls": Kind(plain["int32 nulls"]),
        "rle": Kind(runs),
        "byte_stream_split lz4": Kind(
            lambda: pa.array(smooth().astype(np.float32)), settings=("compression=lz4", "bss=on")
        ),
        "byte_stream_split zstd": Kind(
            lambda: pa.array(smooth()), settings=("compression=zstd", "bss=on")
        ),
        "general lz4": Kind(plain["string text"], settings=("compression=lz4",)),
        "general zstd": Kind(plain["string text"], settings=("compression=zstd",)),
        "dictionary": Kind(plain["string few"]),
        "dictionary 2.2": Kind(lambda: pa.array(rng.choice(rng.random(500), num_rows)), "2.2"),
        "fsst": Kind(plain["string text"]),
        "variable": Kind(lambda: _random_bytes(rng, num_rows, 12)),
        "fixed_size_list": Kind(plain["vector f32[16]"]),
        "fixed_size_list nulls": Kind(lambda: _vectors(rng, vectors, 16, nulls(vectors * 16))),
        "packed_struct": Kind(lambda: _members(rng, num_rows), settings=("packed=true",)),
        "variable_packed_struct": Kind(
            lambda: _members(rng, num_rows // 4, text=True), "2.2", ("packed=true",)
        ),
        "full_zip fixed": Kind(lambda: _vectors(rng, vectors, 128)),
        "full_zip variable": Kind(plain["binary 600 B"]),
        "full_zip fsst": Kind(lambda: _texts(rng, texts, 60)),
        "full_zip zstd": Kind(lambda: _texts(rng, texts // 50 + 2, 6000)),
        "constant": Kind(lambda: pa.array(np.full(num_rows, 7.25)), "2.2"),
        "constant nulls": Kind(lambda: pa.array(np.full(num_rows, 7), mask=nulls(num_rows)), "2.2"),
        "constant string": Kind(lambda: pa.array(["the same"] * num_rows), "2.2"),
        "all null": Kind(lambda: pa.nulls(num_rows, pa.int64())),
        "list": Kind(plain["list<int64>"]),
        "list deep": Kind(lambda: _deep_lists(rng, num_rows // 10)),
        "map": Kind(lambda: _maps(rng, num_rows // 4), "2.2"),
        "blob": Kind(lambda: _random_blobs(rng, blobs), settings=("blob=true",)),
    }


def _random_bytes(rng: np.random.Generator, num_rows: int, length: int) -> pa.Array:
    """Values of one length that nothing compresses."""
    offsets = np.arange(num_rows + 1, dtype=np.int32) * length
    data = pa.py_buffer(rng.bytes(num_rows * length))
    return pa.Array.from_buffers(pa.binary(), num_rows, [None, pa.py_buffer(offsets), data])


def _random_blobs(rng: np.random.Generator, num_rows: int) -> pa.Array:
    return pa.array([rng.bytes(BLOB_BYTES) for _ in range(num_rows)], pa.large_binary())


def _texts(rng: np.random.Generator, num_rows: int, words: int) -> pa.Array:
    table = np.array(WORDS, dtype=object)
    return pa.array([" ".join(table[rng.integers(0, len(WORDS), words)]) for _ in range(num_rows)])


def _vectors(
    rng: np.random.Generator,
    num_rows: int,
    dimension: int,
    mask: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    items = pa.array(rng.random(num_rows * dimension, dtype=np.float32), mask=mask)
    return pa.FixedSizeListArray.from_arrays(items, dimension)


def _members(rng: np.random.Generator, num_rows: int, *, text: bool = False) -> pa.Array:
    """Structs of a number, a small one and perhaps a word."""
    members = [pa.array(rng.random(num_rows)), pa.array(rng.integers(0, 99, num_rows, np.int32))]
    if text:
        members.append(_texts(rng, num_rows, 2))
    return pa.StructArray.from_arrays(members, names=["a", "b", "c"][: len(members)])


def _lists(rng: np.random.Generator, num_rows: int, make: Callable[[int], pa.Array]) -> pa.Array:
    """Lists of three items on average, a tenth of them null."""
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 7, num_rows)))).astype(np.int32)
    mask = pa.array(rng.random(num_rows) < 0.1)
    return pa.ListArray.from_arrays(pa.array(offsets), make(int(offsets[-1])), mask=mask)


def _deep_lists(rng: np.random.Generator, num_rows: int) -> pa.Array:
    """Lists of structs of lists of numbers."""

    def structs(length: int) -> pa.Array:
        numbers = _lists(rng, length, lambda n: pa.array(rng.integers(0, 1000, n)))
        return pa.StructArray.from_arrays([numbers], names=["numbers"])

    return _lists(rng, num_rows, structs)


def _maps(rng: np.random.Generator, num_rows: int) -> pa.Array:
    """Three entries on average, word to number."""
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 7, num_rows)))).astype(np.int32)
    length = int(offsets[-1])
    keys = pa.array(np.array(WORDS)[rng.integers(0, len(WORDS), length)])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(rng.random(length)))


async def bench_encodings(num_rows: int, runs: int, only: str = "") -> dict[str, dict[str, float]]:
    """All ratios by kind; prints a line as each is known."""
    print(f"{'encoding':24}" + "".join(f"{name:>11}" for name in HEADINGS))
    found = {}
    for name, kind in make_kinds(num_rows).items():
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            table = kind.table()
            found[name] = await bench_table(
                table, Path(folder), runs, version=kind.version, is_blob=kind.is_blob
            )
            stored = [_stored(Path(folder) / writer) for writer in ("alance", "pylance")]
        figures = "".join(f"{found[name][heading]:>10.2f}x" for heading in HEADINGS)
        print(f"{name:24}{figures}  {stored[0]} | {stored[1]}")
    return found


def _stored(dataset: Path) -> str:
    """How the values of a dataset are stored; for pages without values, their layout."""
    found = observe(dataset)
    values = sorted(each.removeprefix("values ") for each in found if each.startswith("values "))
    dictionary = ["by dictionary"] if any(each.startswith("dictionary") for each in found) else []
    layouts = sorted(each.removeprefix("layout ") for each in found if "full_zip" in each)
    return ", ".join([*values, *dictionary, *layouts]) or ", ".join(sorted(found))
