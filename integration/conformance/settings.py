"""Cases with `lance-encoding` metadata: every key with telling values, on several types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from integration.conformance.axes import LENGTHS, NULLS, PAGES, VALUES, VERSIONS
from integration.conformance.matrix import Case, deal

__all__ = ["generate_settings"]

PREFIX = "lance-encoding:"
STRUCTURAL = "structural-encoding"
DICTIONARY_LEVEL = "dict-values-compression-level"

SETTINGS: Sequence[Mapping[str, str]] = (
    *({"compression": scheme} for scheme in ("none", "lz4", "zstd", "fsst")),
    *({"compression": "zstd", "compression-level": level} for level in ("1", "19")),
    *({"rle-threshold": share} for share in ("0", "0.5", "1")),
    *({"bss": mode, "compression": "lz4"} for mode in ("off", "on", "auto")),
    {"bss": "on", "compression": "zstd"},
    *({"dict-divisor": number} for number in ("1", "2", "1000")),
    *({"dict-size-ratio": share} for share in ("0.01", "1")),
    *({"dict-values-compression": scheme} for scheme in ("none", "lz4", "zstd")),
    {"dict-values-compression": "zstd", DICTIONARY_LEVEL: "7"},
    *({STRUCTURAL: layout} for layout in ("miniblock", "fullzip")),
    *({STRUCTURAL: "fullzip", "compression": scheme} for scheme in ("lz4", "zstd", "fsst")),
    *({"minichunk-size": size} for size in ("512", "16384")),
)

TYPES: Mapping[str, pa.DataType] = MappingProxyType({
    str(kind): kind
    for kind in (
        *(pa.bool_(), pa.int16(), pa.uint32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.decimal128(30, 3), pa.binary(20), pa.string(), pa.large_binary()),
        *(pa.list_(pa.float32(), 8), pa.dictionary(pa.int16(), pa.string())),
    )
})

_MEMBERS: Mapping[str, tuple[Sequence[pa.DataType], Sequence[str]]] = MappingProxyType({
    "one": ((pa.int32(),), VERSIONS),
    "numbers": ((pa.int8(), pa.float64(), pa.uint16(), pa.int32()), VERSIONS),
    "wide": ((pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.binary(5)), VERSIONS),
    "300 bytes": ((pa.binary(200), pa.binary(100)), VERSIONS),
    "text": ((pa.int32(), pa.string(), pa.large_binary()), ("2.2",)),
    "vectors": ((pa.list_(pa.float32(), 3), pa.date32()), ("2.2",)),
    "text and vectors": ((pa.string(), pa.list_(pa.int16(), 2), pa.string()), ("2.2",)),
})

_BLOBS: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType({
    "2.1": ({"blob": "true"},),
    "2.2": (
        {"blob": "true"},
        {"blob": "true", "blob-inline-size-threshold": "10"},
        {
            "blob": "true",
            "blob-inline-size-threshold": "10",
            "blob-dedicated-size-threshold": "1000",
            "blob-pack-file-size-threshold": "3000",
        },
    ),
})

NESTINGS = ("plain", "list", "struct")


def generate_settings() -> Iterator[Case]:
    """All of them, the same in each run; nesting, nulls, lengths and values are dealt out."""
    others = {"nulls": tuple(NULLS), "length": tuple(LENGTHS), "values": tuple(VALUES)}
    settings = {_label(setting): setting for setting in SETTINGS}
    for version in VERSIONS:
        axes = {"setting": tuple(settings), "type": tuple(TYPES), "nesting": NESTINGS, **others}
        for labels in deal(axes):
            field = _field(settings[labels["setting"]], TYPES[labels["type"]], labels["nesting"])
            yield _case(version, labels, field)
        members = tuple(name for name, (_, where) in _MEMBERS.items() if version in where)
        axes = {"setting": ("packed=true",), "members": members, "nesting": NESTINGS, **others}
        for labels in deal(axes):
            kind = _packed(_MEMBERS[labels["members"]][0])
            yield _case(version, labels, _field({"packed": "true"}, kind, labels["nesting"]))
        blobs = {_label(setting): setting for setting in _BLOBS[version]}
        axes = {"setting": tuple(blobs), "type": ("large_binary",), **others}
        for labels in deal(axes):
            field = _field(blobs[labels["setting"]], pa.large_binary(), "plain")
            yield _case(version, labels, field)


def _label(setting: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in setting.items())


def _case(version: str, labels: Mapping[str, str], field: pa.Field) -> Case:
    return Case(
        version,
        tuple(labels.items()),
        field,
        LENGTHS[labels["length"]],
        replace(VALUES[labels["values"]], **NULLS[labels["nulls"]]),
        labels["length"] == PAGES,
    )


def _packed(members: Sequence[pa.DataType]) -> pa.DataType:
    """A struct; packed ones may be null, their members not."""
    return pa.struct([pa.field(f"m{i}", kind, nullable=False) for i, kind in enumerate(members)])


def _field(setting: Mapping[str, str], kind: pa.DataType, nesting: str) -> pa.Field:
    """Column `c`; the leaf has the metadata, except that layouts are asked for at the top."""
    metadata = {PREFIX + key: value for key, value in setting.items()}
    if nesting == "plain":
        return pa.field("c", kind, metadata=metadata)
    layout = metadata.pop(PREFIX + STRUCTURAL, None)
    leaf = pa.field("item" if nesting == "list" else "a", kind, metadata=metadata or None)
    outer = pa.list_(leaf) if nesting == "list" else pa.struct([leaf, ("b", pa.int32())])
    return pa.field("c", outer, metadata={PREFIX + STRUCTURAL: layout} if layout else None)
