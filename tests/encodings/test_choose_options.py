"""Which encoding telling values get under every metadata key, in both file versions.

Everything that is written here is read by the reference too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.encodings.options import parse_options
from alance.encodings.spec import (
    ByteStreamSplit,
    Flat,
    Fsst,
    FullZipLayout,
    General,
    InlineBitpacking,
    MiniBlockLayout,
    OutOfLineBitpacking,
    Rle,
    Spec,
    Variable,
)
from alance.testing.pages import pages_of
from alance.types import FileVersion

pytestmark = pytest.mark.anyio

VERSIONS = [FileVersion.V2_1, FileVersion.V2_2]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def picks(values: np.ndarray[tuple[int], np.dtype[np.generic]], count: int) -> pa.Array:
    return pa.array(values[rng().integers(0, len(values), count)])


WORDS = np.array(["alpha", "beta", "gamma", "delta"])
LETTERS = np.array(list("abcdefghij"))
RUNS = np.repeat(rng().integers(0, 1 << 40, 200), 50)


def texts(count: int, words: int) -> pa.Array:
    """Distinct values that FSST shortens."""
    chosen = WORDS[rng().integers(0, 4, (count, words))]
    return pa.array([f"{' '.join(row)} {i}" for i, row in enumerate(chosen)])


ARRAYS: dict[str, Callable[[], pa.Array]] = {
    "runs": lambda: pa.array(RUNS),
    "runs of bytes": lambda: pa.array(np.repeat(rng().integers(0, 256, 90), 99).astype(np.uint8)),
    "runs of floats": lambda: pa.array(np.repeat(rng().random(300), 30).astype(np.float32)),
    "narrow": lambda: pa.array(rng().integers(0, 9, 5000)),
    "doubles": lambda: pa.array(rng().standard_normal(5000)),
    "repeated doubles": lambda: picks(rng().standard_normal(50).round(2), 10_000),
    "repeated ids": lambda: picks(rng().integers(0, 1 << 20, 3000) * 1001 + (1 << 45), 20_000),
    "repeated decimals": lambda: picks(np.arange(50), 5000).cast(pa.decimal128(19, 0)),
    "words": lambda: picks(WORDS, 5000),
    "many words": lambda: picks(np.array([f"word number {i}" for i in range(900)]), 5000),
    "texts": lambda: texts(1000, 8),
    "short texts": lambda: texts(40, 4),
    "wide texts": lambda: texts(150, 100),
    "very wide texts": lambda: texts(3, 9000),
    "letters": lambda: pa.array(["".join(r) for r in LETTERS[rng().integers(0, 10, (999, 40))]]),
    "booleans": lambda: pa.array(rng().random(9000) < 0.5),
    "no nulls to speak of": lambda: pa.array(
        rng().standard_normal(9000), mask=np.arange(9000) % 3000 == 7
    ),
    "half nulls": lambda: pa.array(rng().standard_normal(9000), mask=rng().random(9000) < 0.5),
    "vectors": lambda: pa.FixedSizeListArray.from_arrays(
        pa.array(rng().random(8000, np.float32)), 8
    ),
    "dictionary of longs": lambda: pa.DictionaryArray.from_arrays(
        pa.array(rng().integers(0, 900, 5000).astype(np.int16)), pa.array(np.arange(900) * 7)
    ),
}

CASES: list[tuple[str, dict[str, str], str, str]] = [
    ("runs", {}, "rle(64)", "="),
    ("runs", {"compression": "none"}, "full-zip flat(64)", "flat(32) of flat(64)"),
    ("runs", {"rle_threshold": "0.021"}, "rle(64)", "="),
    ("runs", {"rle_threshold": "0.02"}, "inline(64)", "inline(32) of flat(64)"),
    ("runs", {"compression": "zstd"}, "general[zstd](rle(64))", "="),
    ("runs of bytes", {}, "rle(8)", "="),
    ("runs of floats", {}, "rle(32)", "="),
    ("narrow", {}, "inline(64)", "="),
    ("narrow", {"compression": "none"}, "full-zip flat(64)", "flat(32) of general[lz4](flat(64))"),
    ("narrow", {"compression": "fsst"}, "inline(64)", "="),
    ("narrow", {"structural_encoding": "fullzip"}, "full-zip flat(64)", "="),
    ("narrow", {"structural_encoding": "miniblock"}, "inline(64)", "="),
    ("doubles", {}, "full-zip flat(64)", "="),
    ("doubles", {"compression": "zstd"}, "general[zstd](split(64))", "="),
    ("doubles", {"compression": "lz4", "bss": "on"}, "general[lz4](split(64))", "="),
    ("doubles", {"compression": "zstd", "bss": "off"}, "general[zstd](flat(64))", "="),
    ("doubles", {"compression": "lz4", "bss": "off"}, "full-zip flat(64)", "="),
    ("doubles", {"bss": "on"}, "full-zip flat(64)", "="),
    ("repeated doubles", {}, "full-zip flat(64)", "inline(32) of general[lz4](flat(64))"),
    (
        "repeated doubles",
        {"dict_values_compression": "zstd", "dict_values_compression_level": "9"},
        "full-zip flat(64)",
        "inline(32) of general[zstd:9](flat(64))",
    ),
    (
        "repeated doubles",
        {"dict_values_compression": "none"},
        "full-zip flat(64)",
        "inline(32) of flat(64)",
    ),
    ("repeated doubles", {"dict_divisor": "401"}, "full-zip flat(64)", "="),
    ("repeated doubles", {"dict_size_ratio": "0.01"}, "full-zip flat(64)", "="),
    (
        "repeated doubles",
        {"compression": "zstd", "compression_level": "7", "bss": "off"},
        "general[zstd:7](flat(64))",
        "inline(32) of general[lz4](flat(64))",
    ),
    ("repeated ids", {}, "inline(64)", "inline(32) of packed(64, 46)"),
    ("repeated decimals", {}, "inline(32) of flat(128)", "inline(32) of general[lz4](flat(128))"),
    ("repeated decimals", {"dict_divisor": "500"}, "full-zip flat(128)", "="),
    ("words", {}, "inline(32) of variable", "="),
    ("words", {"compression": "none"}, "flat(32) of variable", "="),
    ("words", {"dict_divisor": "2000"}, "fsst(variable)", "="),
    ("words", {"dict_size_ratio": "0.01"}, "fsst(variable)", "="),
    ("many words", {}, "inline(32) of variable", "inline(32) of general[lz4](variable)"),
    ("many words", {"dict_values_compression": "none"}, "inline(32) of variable", "="),
    ("texts", {}, "fsst(variable)", "="),
    ("texts", {"compression": "none"}, "variable", "="),
    ("texts", {"compression": "fsst"}, "fsst(variable)", "="),
    ("texts", {"compression": "lz4"}, "general[lz4](variable)", "="),
    ("texts", {"compression": "zstd"}, "general[zstd](variable)", "="),
    (
        "texts",
        {"compression": "zstd", "compression_level": "19"},
        "general[zstd:19](variable)",
        "=",
    ),
    (
        "texts",
        {"compression": "lz4", "compression_level": "9"},
        "general[lz4:9](variable)",
        "=",
    ),
    ("texts", {"structural_encoding": "fullzip"}, "full-zip fsst(variable)", "="),
    ("short texts", {}, "variable", "="),
    ("short texts", {"compression": "fsst"}, "fsst(variable)", "="),
    ("short texts", {"compression": "zstd"}, "variable", "="),
    ("wide texts", {}, "full-zip fsst(variable)", "="),
    ("wide texts", {"compression": "none"}, "full-zip variable", "="),
    ("wide texts", {"compression": "zstd"}, "full-zip general[zstd](variable)", "="),
    ("wide texts", {"compression": "lz4"}, "full-zip general[zstd](variable)", "="),
    ("wide texts", {"compression": "fsst"}, "full-zip fsst(variable)", "="),
    ("wide texts", {"structural_encoding": "miniblock"}, "fsst(variable)", "="),
    ("very wide texts", {}, "full-zip general[zstd](variable)", "="),
    ("very wide texts", {"compression": "none"}, "full-zip variable", "="),
    ("letters", {}, "fsst(variable)", "="),
    ("booleans", {"compression": "zstd"}, "flat(1)", "="),
    ("no nulls to speak of", {}, "nulls packed(16, 1) flat(64)", "nulls rle(16) flat(64)"),
    ("half nulls", {}, "nulls packed(16, 1) flat(64)", "="),
    ("vectors", {"compression": "zstd"}, "full-zip FixedSizeList", "="),
    ("dictionary of longs", {}, "inline(16) of inline(64)", "="),
]


def describe(spec: Spec) -> str:
    """A short way to write a description."""
    match spec:
        case Flat(bits):
            return f"flat({bits})"
        case InlineBitpacking(bits):
            return f"inline({bits})"
        case OutOfLineBitpacking(bits, Flat(packed)):
            return f"packed({bits}, {packed})"
        case Rle(Flat(bits), Flat(8)):
            return f"rle({bits})"
        case ByteStreamSplit(Flat(bits)):
            return f"split({bits})"
        case Variable(_):
            return "variable"
        case Fsst(_, values):
            return f"fsst({describe(values)})"
        case General(scheme, level, values):
            codec = scheme if level is None else f"{scheme}:{level}"
            return f"general[{codec}]({describe(values)})"
        case _:
            return type(spec).__name__


def metadata(marks: dict[str, str]) -> dict[str, str]:
    return {f"lance-encoding:{key.replace('_', '-')}": value for key, value in marks.items()}


def chosen(array: pa.Array, marks: dict[str, str], version: FileVersion) -> str:
    """What the only page of an array looks like."""
    options = parse_options({k: v.encode() for k, v in metadata(marks).items()}, "x")
    ((page,),) = pages_of(array, version, options)
    layout = page.page.layout
    if isinstance(layout, FullZipLayout):
        return f"full-zip {describe(layout.value_compression)}"
    assert isinstance(layout, MiniBlockLayout)
    found = describe(layout.value_compression)
    if layout.dictionary is not None:
        found += f" of {describe(layout.dictionary)}"
    nulls = layout.def_compression
    return found if nulls is None else f"nulls {describe(nulls)} {found}"


def name_of(case: object) -> str:
    if isinstance(case, dict):
        return ",".join(f"{key}={value}" for key, value in case.items()) or "auto"
    return case if isinstance(case, str) and case in ARRAYS else ""


@pytest.mark.parametrize(("name", "marks", "older", "newer"), CASES, ids=name_of)
def test_what_is_chosen(name: str, marks: dict[str, str], older: str, newer: str) -> None:
    array = ARRAYS[name]()
    assert chosen(array, marks, FileVersion.V2_1) == older
    assert chosen(array, marks, FileVersion.V2_2) == (older if newer == "=" else newer)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.value)
@pytest.mark.parametrize("name", ARRAYS)
async def test_the_reference_reads_it(name: str, version: FileVersion, tmp_path: Path) -> None:
    """All cases of one array are columns of one dataset."""
    array = ARRAYS[name]()
    kinds = [marks for other, marks, _, _ in CASES if other == name]
    fields = [
        pa.field(f"c{i}", array.type, metadata=metadata(marks)) for i, marks in enumerate(kinds)
    ]
    table = pa.table([array] * len(fields), schema=pa.schema(fields))
    uri = str(tmp_path / "d")
    ours = await alance.write_dataset(table, uri, data_storage_version=version.value)
    rows = [0, len(array) // 2, len(array) - 1]
    theirs = lance.dataset(uri)
    assert theirs.to_table() == table
    assert theirs.take(rows) == table.take(rows)
    assert await ours.to_table() == table
    assert await ours.take(rows) == table.take(rows)


def test_levels_are_sampled_not_compressed_at_full_strength() -> None:
    """Strong levels are for the page itself; the way is found with a weaker one."""
    values = pa.array(np.tile(rng().standard_normal(25_000), 2))
    marks = {"compression": "zstd", "compression_level": "22"}
    assert chosen(values, marks, FileVersion.V2_1) == "general[zstd:22](split(64))"


@pytest.mark.parametrize("items", [20_000, 60_000])
def test_how_many_values_differ_is_guessed_from_a_sample(items: int) -> None:
    """A sample of 4096 of so many holds hardly one value twice."""
    array = picks(rng().random(items), 200_000)
    assert chosen(array, {}, FileVersion.V2_2).startswith("inline(32) of ")
    distinct = pa.array(rng().random(200_000))
    assert " of " not in chosen(distinct, {}, FileVersion.V2_2)


def test_smaller_chunks_when_asked_for() -> None:
    options = parse_options({"lance-encoding:minichunk-size": b"1024"}, "x")
    sizes = []
    for each in (options, parse_options({}, "x")):
        ((page,),) = pages_of(texts(1000, 8), FileVersion.V2_1, each)
        sizes.append(page.buffers[0].num_bytes)
    assert sizes[0] == 4 * sizes[1]
