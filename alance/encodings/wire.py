"""Protobuf <-> descriptions of layouts and encodings (wire module 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from alance.encodings.spec import (
    BlobLayout,
    ByteStreamSplit,
    Constant,
    ConstantLayout,
    Dictionary,
    FixedSizeList,
    Flat,
    Fsst,
    FullZipLayout,
    General,
    InlineBitpacking,
    Layer,
    Layout,
    MiniBlockLayout,
    OutOfLineBitpacking,
    PackedField,
    PackedStruct,
    Rle,
    Spec,
    Variable,
    VariablePackedStruct,
)
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.proto import encodings_pb2 as pb

__all__ = [
    "build_column_encoding",
    "build_page_layout",
    "check_column_encoding",
    "parse_page_layout",
]

M = TypeVar("M", bound=Message)

PAGE_LAYOUT = "lance.encodings21.PageLayout"
COLUMN_ENCODING = "lance.encodings.ColumnEncoding"

NESTING_MAX = 16
"""Encodings inside encodings."""
LAYERS_MAX = 64
BUFFERS_MAX = 64
"""Value buffers of a chunk; the deepest fixed-size list has one for each nesting and one more."""
COUNT_MAX = 2**62
BITS_MAX = 8 * (2**31 - 1)
"""Width of one value; Arrow cannot hold a wider one."""

_SCHEMES: Mapping[pb.CompressionScheme, str] = MappingProxyType({
    pb.COMPRESSION_LZ4: "lz4",
    pb.COMPRESSION_ZSTD: "zstd",
})


def parse_page_layout(data: bytes) -> Layout:
    """Layout of a page, from the wrapped message that its `PageInfo` keeps.

    Raises
    ------
    CorruptFileError
        The bytes are no message, or say things that contradict each other.
    UnsupportedFeatureError
        A layout or encoding that this library does not know; names it.
    """
    message = _parse_message(pb.PageLayout, _unwrap(data, PAGE_LAYOUT), "page layout")
    if message.WhichOneof("layout") == "blob_layout":
        blob = message.blob_layout
        return BlobLayout(_parse_layout(blob.inner_layout), _parse_layers(blob.layers))
    return _parse_layout(message)


def _parse_layout(message: pb.PageLayout) -> MiniBlockLayout | FullZipLayout | ConstantLayout:
    """Layout that holds no other."""
    arm = message.WhichOneof("layout")
    if arm == "mini_block_layout":
        return _parse_mini_block(message.mini_block_layout)
    if arm == "full_zip_layout":
        return _parse_full_zip(message.full_zip_layout)
    if arm == "constant_layout":
        return _parse_constant_layout(message.constant_layout)
    raise _unsupported("page layout", arm)


def build_page_layout(layout: Layout) -> bytes:
    """Inverse of `parse_page_layout`."""
    message = pb.PageLayout()
    if isinstance(layout, BlobLayout):
        _build_layout(layout.inner_layout, message.blob_layout.inner_layout)
        message.blob_layout.layers.extend(_layer_numbers(layout.layers))
    else:
        _build_layout(layout, message)
    return _wrap(message.SerializeToString(deterministic=True), PAGE_LAYOUT)


def _build_layout(
    layout: MiniBlockLayout | FullZipLayout | ConstantLayout, message: pb.PageLayout
) -> None:
    if isinstance(layout, MiniBlockLayout):
        _build_mini_block(layout, message.mini_block_layout)
    elif isinstance(layout, FullZipLayout):
        _build_full_zip(layout, message.full_zip_layout)
    else:
        _build_constant_layout(layout, message.constant_layout)


def check_column_encoding(data: bytes) -> None:
    """Make sure that the pages of a column say all that is needed to read it.

    They do since 2.1, also inside a zone index or what 2.0 marks blobs with: those tell how pages
    may be skipped, and where values of 2.0 pages lie.

    Raises
    ------
    CorruptFileError
        The bytes are no message.
    UnsupportedFeatureError
        The column has an encoding that this library does not know.
    """
    message = _parse_message(pb.ColumnEncoding, _unwrap(data, COLUMN_ENCODING), "column encoding")
    what = "column encoding"
    while (arm := message.WhichOneof("column_encoding")) != "values":
        if arm == "zone_index":
            message = message.zone_index.inner
        elif arm == "blob":
            message = message.blob.inner
        else:
            raise _unsupported(what, arm)
        what = f"column encoding inside {arm}"


def build_column_encoding() -> bytes:
    """Wrapped message of a column that is nothing but its pages."""
    message = pb.ColumnEncoding()
    message.values.SetInParent()
    return _wrap(message.SerializeToString(deterministic=True), COLUMN_ENCODING)


def _wrap(value: bytes, name: str) -> bytes:
    """Serialized Any; readers demand the slash before the name."""
    message = AnyMessage(type_url=f"/{name}", value=value)
    return message.SerializeToString(deterministic=True)


def _unwrap(data: bytes, name: str) -> bytes:
    message = _parse_message(AnyMessage, data, name)
    _, slash, found = message.type_url.rpartition("/")
    if not slash:
        raise CorruptFileError(
            f"encoding has type_url {message.type_url[:80]!r}; expected {'/' + name!r}"
        )
    if found != name:
        raise UnsupportedFeatureError(
            f"encoding is a {found[:80]!r}; this file version has {name!r}",
            feature=f"encoding message {found[:80]}",
        )
    return bytes(message.value)


def _parse_message(kind: type[M], data: bytes, what: str) -> M:
    try:
        return kind.FromString(data)
    except DecodeError as exc:
        raise CorruptFileError(f"{what} of {len(data)} bytes is no valid message: {exc}") from exc


def _unsupported(what: str, arm: str | None) -> UnsupportedFeatureError:
    name = arm or "unknown"
    return UnsupportedFeatureError(
        f"{what} {name!r} cannot be read by this library; a newer one may read it",
        feature=f"{what} {name}",
    )


# Layouts


def _parse_mini_block(message: pb.MiniBlockLayout) -> MiniBlockLayout:
    if message.num_buffers > BUFFERS_MAX:
        raise CorruptFileError(
            f"mini-block page has {message.num_buffers} value buffers; at most {BUFFERS_MAX} exist"
        )
    if message.repetition_index_depth > 1:
        raise UnsupportedFeatureError(
            f"mini-block page has a repetition index of depth {message.repetition_index_depth}; "
            "this library knows 0 and 1",
            feature=f"repetition index of depth {message.repetition_index_depth}",
        )
    return MiniBlockLayout(
        rep_compression=_parse_optional(message, "rep_compression", 0),
        def_compression=_parse_optional(message, "def_compression", 0),
        value_compression=_parse_member(message, "value_compression", 0),
        dictionary=_parse_optional(message, "dictionary", 0),
        num_dictionary_items=_count(message.num_dictionary_items, "num_dictionary_items"),
        layers=_parse_layers(message.layers),
        num_buffers=message.num_buffers,
        repetition_index_depth=message.repetition_index_depth,
        num_items=_count(message.num_items, "num_items"),
        has_large_chunk=message.has_large_chunk,
    )


def _build_mini_block(layout: MiniBlockLayout, message: pb.MiniBlockLayout) -> None:
    for name in ("rep_compression", "def_compression", "value_compression", "dictionary"):
        spec = getattr(layout, name)
        if spec is not None:
            getattr(message, name).CopyFrom(_build_spec(spec))
    message.num_dictionary_items = layout.num_dictionary_items
    message.layers.extend(_layer_numbers(layout.layers))
    message.num_buffers = layout.num_buffers
    message.repetition_index_depth = layout.repetition_index_depth
    message.num_items = layout.num_items
    message.has_large_chunk = layout.has_large_chunk


def _parse_full_zip(message: pb.FullZipLayout) -> FullZipLayout:
    arm = message.WhichOneof("details")
    if arm is None:
        raise _unsupported("full-zip page with value width", arm)
    if message.bits_rep > 16 or message.bits_def > 16:
        raise CorruptFileError(
            f"full-zip page has levels of {message.bits_rep} and {message.bits_def} bits; "
            "levels have at most 16"
        )
    if arm == "bits_per_offset" and message.bits_per_offset not in (32, 64):
        raise CorruptFileError(
            f"full-zip page has lengths of {message.bits_per_offset} bits; expected 32 or 64"
        )
    return FullZipLayout(
        bits_rep=message.bits_rep,
        bits_def=message.bits_def,
        bits_per_value=message.bits_per_value if arm == "bits_per_value" else None,
        bits_per_offset=message.bits_per_offset if arm == "bits_per_offset" else None,
        num_items=message.num_items,
        num_visible_items=message.num_visible_items,
        value_compression=_parse_member(message, "value_compression", 0),
        layers=_parse_layers(message.layers),
    )


def _build_full_zip(layout: FullZipLayout, message: pb.FullZipLayout) -> None:
    message.bits_rep = layout.bits_rep
    message.bits_def = layout.bits_def
    if layout.bits_per_value is not None:
        message.bits_per_value = layout.bits_per_value
    if layout.bits_per_offset is not None:
        message.bits_per_offset = layout.bits_per_offset
    message.num_items = layout.num_items
    message.num_visible_items = layout.num_visible_items
    message.value_compression.CopyFrom(_build_spec(layout.value_compression))
    message.layers.extend(_layer_numbers(layout.layers))


def _parse_constant_layout(message: pb.ConstantLayout) -> ConstantLayout:
    return ConstantLayout(
        layers=_parse_layers(message.layers),
        inline_value=bytes(message.inline_value) if message.HasField("inline_value") else None,
        rep_compression=_parse_optional(message, "rep_compression", 0),
        def_compression=_parse_optional(message, "def_compression", 0),
        num_rep_values=_count(message.num_rep_values, "num_rep_values"),
        num_def_values=_count(message.num_def_values, "num_def_values"),
    )


def _build_constant_layout(layout: ConstantLayout, message: pb.ConstantLayout) -> None:
    message.layers.extend(_layer_numbers(layout.layers))
    if layout.inline_value is not None:
        message.inline_value = layout.inline_value
    for name in ("rep_compression", "def_compression"):
        spec = getattr(layout, name)
        if spec is not None:
            getattr(message, name).CopyFrom(_build_spec(spec))
    message.num_rep_values = layout.num_rep_values
    message.num_def_values = layout.num_def_values


def _parse_layers(numbers: Sequence[int]) -> tuple[Layer, ...]:
    if not 1 <= len(numbers) <= LAYERS_MAX:
        raise CorruptFileError(f"page has {len(numbers)} layers; expected 1 to {LAYERS_MAX}")
    try:
        layers = tuple(map(Layer, numbers))
    except ValueError:
        raise CorruptFileError(f"page has layers {list(numbers)}; they count from 1 to 6") from None
    if layers[0].is_list:
        raise CorruptFileError(f"page has {layers[0].name} as inner-most layer; expected an item")
    return layers


def _layer_numbers(layers: Sequence[Layer]) -> list[pb.RepDefLayer]:
    # Same numbers, but type checkers take generated enums for classes of their own.
    return cast("list[pb.RepDefLayer]", [int(layer) for layer in layers])


def _count(value: int, name: str) -> int:
    if value > COUNT_MAX:
        raise CorruptFileError(f"page says {name} is {value}")
    return value


# Compressive encodings


def _parse_optional(message: Message, name: str, depth: int) -> Spec | None:
    return _parse_spec(getattr(message, name), depth) if message.HasField(name) else None


def _parse_member(message: Message, name: str, depth: int) -> Spec:
    if not message.HasField(name):
        raise CorruptFileError(f"{type(message).__name__} lacks its {name}")
    return _parse_spec(getattr(message, name), depth)


def _parse_spec(message: pb.CompressiveEncoding, depth: int) -> Spec:
    arm = message.WhichOneof("compression")
    parse = _PARSERS.get(arm or "")
    if arm is None or parse is None:
        raise _unsupported("encoding", arm)
    if depth == NESTING_MAX:
        raise CorruptFileError(f"page nests more than {NESTING_MAX} encodings")
    return parse(getattr(message, arm), depth + 1)


def _bits(value: int) -> int:
    if value > BITS_MAX:
        raise CorruptFileError(f"encoding has values of {value} bits; at most {BITS_MAX} exist")
    return value


def _refuse_compression(message: Message, name: str) -> None:
    """Buffer compression inside an encoding is described by the format, written by nobody."""
    if getattr(message, name).scheme != pb.COMPRESSION_UNSPECIFIED:
        raise _unsupported("buffer compression in encoding", type(message).__name__)


def _parse_flat(message: pb.Flat, depth: int) -> Spec:
    _refuse_compression(message, "data")
    return Flat(_bits(message.bits_per_value))


def _parse_variable(message: pb.Variable, depth: int) -> Spec:
    _refuse_compression(message, "values")
    return Variable(_parse_member(message, "offsets", depth))


def _parse_constant(message: pb.Constant, depth: int) -> Spec:
    return Constant(bytes(message.value) if message.HasField("value") else None)


def _parse_out_of_line_bitpacking(message: pb.OutOfLineBitpacking, depth: int) -> Spec:
    bits = _bits(message.uncompressed_bits_per_value)
    return OutOfLineBitpacking(bits, _parse_member(message, "values", depth))


def _parse_inline_bitpacking(message: pb.InlineBitpacking, depth: int) -> Spec:
    _refuse_compression(message, "values")
    return InlineBitpacking(_bits(message.uncompressed_bits_per_value))


def _parse_fsst(message: pb.Fsst, depth: int) -> Spec:
    return Fsst(bytes(message.symbol_table), _parse_member(message, "values", depth))


def _parse_dictionary(message: pb.Dictionary, depth: int) -> Spec:
    indices = _parse_member(message, "indices", depth)
    items = _parse_member(message, "items", depth)
    return Dictionary(indices, items, message.num_dictionary_items)


def _parse_rle(message: pb.Rle, depth: int) -> Spec:
    return Rle(
        _parse_member(message, "values", depth), _parse_member(message, "run_lengths", depth)
    )


def _parse_byte_stream_split(message: pb.ByteStreamSplit, depth: int) -> Spec:
    return ByteStreamSplit(_parse_member(message, "values", depth))


def _parse_general(message: pb.General, depth: int) -> Spec:
    compression = message.compression
    scheme = _SCHEMES.get(compression.scheme)
    if scheme is None:
        raise _unsupported("compression scheme", str(int(compression.scheme)))
    level = compression.level if compression.HasField("level") else None
    return General(scheme, level, _parse_member(message, "values", depth))


def _parse_fixed_size_list(message: pb.FixedSizeList, depth: int) -> Spec:
    if not 1 <= message.items_per_value < 2**31:
        raise CorruptFileError(
            f"fixed-size list encoding has {message.items_per_value} items per value"
        )
    values = _parse_member(message, "values", depth)
    return FixedSizeList(message.items_per_value, message.has_validity, values)


def _parse_packed_struct(message: pb.PackedStruct, depth: int) -> Spec:
    widths = tuple(map(_bits, message.bits_per_value))
    return PackedStruct(widths, _parse_member(message, "values", depth))


def _parse_variable_packed_struct(message: pb.VariablePackedStruct, depth: int) -> Spec:
    return VariablePackedStruct(tuple(_parse_field(field, depth) for field in message.fields))


def _parse_field(message: pb.VariablePackedStruct.FieldEncoding, depth: int) -> PackedField:
    value = _parse_member(message, "value", depth)
    if message.HasField("bits_per_value"):
        return PackedField(value, bits_per_value=_bits(message.bits_per_value))
    if message.HasField("bits_per_length"):
        return PackedField(value, bits_per_length=_bits(message.bits_per_length))
    raise CorruptFileError("a member of a packed struct says nothing about its width")


_PARSERS: Mapping[str, Callable[[Any, int], Spec]] = MappingProxyType({
    "flat": _parse_flat,
    "variable": _parse_variable,
    "constant": _parse_constant,
    "out_of_line_bitpacking": _parse_out_of_line_bitpacking,
    "inline_bitpacking": _parse_inline_bitpacking,
    "fsst": _parse_fsst,
    "dictionary": _parse_dictionary,
    "rle": _parse_rle,
    "byte_stream_split": _parse_byte_stream_split,
    "general": _parse_general,
    "fixed_size_list": _parse_fixed_size_list,
    "packed_struct": _parse_packed_struct,
    "variable_packed_struct": _parse_variable_packed_struct,
})


def _build_spec(spec: Spec) -> pb.CompressiveEncoding:
    """Message of an encoding with all that it nests."""
    message = pb.CompressiveEncoding()
    if isinstance(spec, Flat):
        message.flat.bits_per_value = spec.bits_per_value
    elif isinstance(spec, Variable):
        message.variable.offsets.CopyFrom(_build_spec(spec.offsets))
    elif isinstance(spec, Constant):
        message.constant.SetInParent()
        if spec.value is not None:
            message.constant.value = spec.value
    elif isinstance(spec, OutOfLineBitpacking):
        packed = message.out_of_line_bitpacking
        packed.uncompressed_bits_per_value = spec.uncompressed_bits_per_value
        packed.values.CopyFrom(_build_spec(spec.values))
    elif isinstance(spec, InlineBitpacking):
        inline = message.inline_bitpacking
        inline.uncompressed_bits_per_value = spec.uncompressed_bits_per_value
    elif isinstance(spec, Fsst):
        message.fsst.symbol_table = spec.symbol_table
        message.fsst.values.CopyFrom(_build_spec(spec.values))
    elif isinstance(spec, Dictionary):
        message.dictionary.indices.CopyFrom(_build_spec(spec.indices))
        message.dictionary.items.CopyFrom(_build_spec(spec.items))
        message.dictionary.num_dictionary_items = spec.num_dictionary_items
    elif isinstance(spec, Rle):
        message.rle.values.CopyFrom(_build_spec(spec.values))
        message.rle.run_lengths.CopyFrom(_build_spec(spec.run_lengths))
    elif isinstance(spec, ByteStreamSplit):
        message.byte_stream_split.values.CopyFrom(_build_spec(spec.values))
    elif isinstance(spec, General):
        _build_general(spec, message.general)
    elif isinstance(spec, FixedSizeList):
        message.fixed_size_list.items_per_value = spec.items_per_value
        message.fixed_size_list.has_validity = spec.has_validity
        message.fixed_size_list.values.CopyFrom(_build_spec(spec.values))
    elif isinstance(spec, PackedStruct):
        message.packed_struct.bits_per_value.extend(spec.bits_per_value)
        message.packed_struct.values.CopyFrom(_build_spec(spec.values))
    else:
        message.variable_packed_struct.fields.extend(map(_build_field, spec.fields))
    return message


def _build_field(field: PackedField) -> pb.VariablePackedStruct.FieldEncoding:
    message = pb.VariablePackedStruct.FieldEncoding(value=_build_spec(field.value))
    if field.bits_per_value is not None:
        message.bits_per_value = field.bits_per_value
    else:
        message.bits_per_length = field.bits_per_length or 0
    return message


def _build_general(spec: General, message: pb.General) -> None:
    scheme = next(number for number, name in _SCHEMES.items() if name == spec.scheme)
    message.compression.scheme = scheme
    if spec.level is not None:
        message.compression.level = spec.level
    message.values.CopyFrom(_build_spec(spec.values))
