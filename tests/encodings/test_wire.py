import contextlib
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileWriter

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
from alance.encodings.wire import (
    build_column_encoding,
    build_page_layout,
    check_column_encoding,
    parse_page_layout,
)
from alance.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from alance.proto import encodings_pb2 as pb
from alance.proto import file_pb2

bits = st.sampled_from([0, 1, 8, 16, 32, 64, 128, 2312])
blobs = st.binary(max_size=8)


def around(values: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    return st.one_of(
        st.builds(Variable, values),
        st.builds(OutOfLineBitpacking, bits, values),
        st.builds(Fsst, blobs, values),
        st.builds(Dictionary, values, values, st.integers(0, 2**32 - 1)),
        st.builds(Rle, values, values),
        st.builds(ByteStreamSplit, values),
        st.builds(
            General,
            st.sampled_from(["lz4", "zstd"]),
            st.none() | st.integers(-(2**31), 2**31 - 1),
            values,
        ),
        st.builds(FixedSizeList, st.integers(1, 2**31 - 1), st.booleans(), values),
        st.builds(PackedStruct, st.lists(bits, max_size=3).map(tuple), values),
        st.builds(
            VariablePackedStruct,
            st.lists(
                st.builds(PackedField, values, bits_per_value=bits)
                | st.builds(PackedField, values, bits_per_length=bits),
                max_size=3,
            ).map(tuple),
        ),
    )


specs: st.SearchStrategy[Spec] = st.recursive(
    st.builds(Flat, bits)
    | st.builds(InlineBitpacking, bits)
    | st.builds(Constant, st.none() | blobs),
    around,
    max_leaves=4,
)
layers = st.tuples(
    st.sampled_from([Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM]),
    st.lists(st.sampled_from(list(Layer)), max_size=5),
).map(lambda parts: (parts[0], *parts[1]))
plain_layouts: st.SearchStrategy[Layout] = st.one_of(
    st.builds(
        MiniBlockLayout,
        rep_compression=st.none() | specs,
        def_compression=st.none() | specs,
        value_compression=specs,
        dictionary=st.none() | specs,
        num_dictionary_items=st.integers(0, 2**40),
        layers=layers,
        num_buffers=st.integers(0, 64),
        repetition_index_depth=st.integers(0, 1),
        num_items=st.integers(0, 2**40),
        has_large_chunk=st.booleans(),
    ),
    st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([32, 64]), st.booleans()).flatmap(
        lambda width: st.builds(
            FullZipLayout,
            bits_rep=st.integers(0, 16),
            bits_def=st.integers(0, 16),
            bits_per_value=st.just(width[0] if width[2] else None),
            bits_per_offset=st.just(None if width[2] else width[1]),
            num_items=st.integers(0, 2**32 - 1),
            num_visible_items=st.integers(0, 2**32 - 1),
            value_compression=specs,
            layers=layers,
        )
    ),
    st.builds(
        ConstantLayout,
        layers=layers,
        inline_value=st.none() | blobs,
        rep_compression=st.none() | specs,
        def_compression=st.none() | specs,
        num_rep_values=st.integers(0, 2**40),
        num_def_values=st.integers(0, 2**40),
    ),
)
layouts = plain_layouts | st.builds(BlobLayout, plain_layouts, layers)
ITEM = pb.REPDEF_ALL_VALID_ITEM
FLAT = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=32))


def wrapped(message: pb.PageLayout, type_url: str = "/lance.encodings21.PageLayout") -> bytes:
    return AnyMessage(type_url=type_url, value=message.SerializeToString()).SerializeToString()


def mini_block(**members: object) -> bytes:
    """A page of ten flat values, with some members replaced."""
    values = {"value_compression": FLAT, "layers": [1], "num_buffers": 1, "num_items": 10}
    layout = pb.MiniBlockLayout(**(values | members))  # type: ignore[arg-type]
    return wrapped(pb.PageLayout(mini_block_layout=layout))


def full_zip(**members: object) -> bytes:
    """A page of ten wide values, with some members replaced."""
    values = {"value_compression": FLAT, "layers": [1], "bits_per_value": 32, "num_items": 10}
    layout = pb.FullZipLayout(**(values | members))  # type: ignore[arg-type]
    return wrapped(pb.PageLayout(full_zip_layout=layout))


def encoding(**arm: object) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(**arm)  # type: ignore[arg-type]


def tagged(tag: bytes, value: bytes) -> bytes:
    """A member of a message: tag, length, value."""
    size, rest = bytearray(), len(value)
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return tag + bytes([*size, rest]) + value


class TestRoundTrip:
    @given(layouts)
    def test_layouts(self, layout: Layout) -> None:
        assert parse_page_layout(build_page_layout(layout)) == layout

    def test_column_encoding(self) -> None:
        data = build_column_encoding()
        assert data == b"\x0a\x1f/lance.encodings.ColumnEncoding\x12\x02\x0a\x00"
        check_column_encoding(data)

    def test_any_prefix_before_the_last_slash(self) -> None:
        message = pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM]))
        data = wrapped(message, "type.googleapis.com/lance.encodings21.PageLayout")
        assert parse_page_layout(data) == ConstantLayout((Layer.NULLABLE_ITEM,))

    def test_unknown_members_are_passed_over(self) -> None:
        message = pb.PageLayout.FromString(
            pb.PageLayout(
                constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM])
            ).SerializeToString()
            + b"\xfa\x3e\x03abc"
        )
        assert parse_page_layout(wrapped(message)) == ConstantLayout((Layer.NULLABLE_ITEM,))

    def test_worked_example(self) -> None:
        """int32 values 1, 2, 3, null."""
        layout = MiniBlockLayout(
            rep_compression=None,
            def_compression=Flat(16),
            value_compression=Flat(32),
            dictionary=None,
            num_dictionary_items=0,
            layers=(Layer.NULLABLE_ITEM,),
            num_buffers=1,
            repetition_index_depth=0,
            num_items=4,
        )
        value = bytes.fromhex("0a13 12040a020810 1a040a020820 320103 3801 4804")
        data = build_page_layout(layout)
        assert data == b"\x0a\x1d/lance.encodings21.PageLayout\x12\x15" + value


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "feature"),
        [
            (wrapped(pb.PageLayout()), "page layout unknown"),
            (
                wrapped(pb.PageLayout(), "/lance.encodings.ArrayEncoding"),
                "encoding message lance.encodings.ArrayEncoding",
            ),
            (mini_block(value_compression=pb.CompressiveEncoding()), "encoding unknown"),
            (
                mini_block(value_compression=encoding(general=pb.General(values=FLAT))),
                "compression scheme 0",
            ),
            (
                mini_block(
                    value_compression=encoding(flat=pb.Flat(data=pb.BufferCompression(scheme=1)))  # type: ignore[arg-type]
                ),
                "buffer compression in encoding Flat",
            ),
            (mini_block(repetition_index_depth=2), "repetition index of depth 2"),
            (full_zip(bits_per_value=None), "full-zip page with value width unknown"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_unsupported(self, data: bytes, feature: str) -> None:
        with pytest.raises(UnsupportedFeatureError) as caught:
            parse_page_layout(data)
        assert caught.value.feature == feature

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"\xff", "no valid message"),
            (wrapped(pb.PageLayout(), "lance.encodings21.PageLayout"), "type_url"),
            (b"", "type_url"),
            (mini_block(value_compression=None), "lacks its value_compression"),
            (mini_block(layers=[]), "0 layers"),
            (mini_block(layers=[1] * 65), "65 layers"),
            (mini_block(layers=[0]), "1 to 6"),
            (mini_block(layers=[1, 7]), "1 to 6"),
            (mini_block(layers=[5]), "inner-most"),
            (mini_block(num_buffers=65), "65 value buffers"),
            (mini_block(num_items=2**63), "num_items"),
            (mini_block(num_dictionary_items=2**64 - 1), "num_dictionary_items"),
            (
                mini_block(value_compression=encoding(flat=pb.Flat(bits_per_value=2**63))),
                "9223372036854775808 bits",
            ),
            (
                mini_block(value_compression=encoding(variable=pb.Variable())),
                "Variable lacks its offsets",
            ),
            (
                mini_block(value_compression=encoding(rle=pb.Rle(values=FLAT))),
                "Rle lacks its run_lengths",
            ),
            (
                mini_block(
                    value_compression=encoding(fixed_size_list=pb.FixedSizeList(values=FLAT))
                ),
                "0 items per value",
            ),
            (full_zip(bits_rep=17), "17 and 0 bits"),
            (full_zip(bits_def=2**31), "and 2147483648 bits"),
            (full_zip(bits_per_offset=16), "lengths of 16 bits"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_corrupt(self, data: bytes, message: str) -> None:
        with pytest.raises(CorruptFileError, match=message):
            parse_page_layout(data)

    @pytest.mark.parametrize("depth", [16, 17, 40, 1000])
    def test_nests_of_encodings(self, depth: int) -> None:
        value = FLAT.SerializeToString()
        for _ in range(depth):
            value = tagged(b"\x4a", tagged(b"\x0a", value))  # values of a byte stream split
        layout = tagged(b"\x0a", tagged(b"\x1a", value) + b"\x32\x01\x01")
        url = "/lance.encodings21.PageLayout"
        data = AnyMessage(type_url=url, value=layout).SerializeToString()
        with pytest.raises(CorruptFileError):
            parse_page_layout(data)

    def test_nest_at_the_limit(self) -> None:
        spec: Spec = Flat(8)
        for _ in range(15):
            spec = ByteStreamSplit(spec)
        layout = MiniBlockLayout(
            None, None, spec, None, 0, (Layer.ALL_VALID_ITEM,), 1, 0, num_items=1
        )
        assert parse_page_layout(build_page_layout(layout)) == layout

    @pytest.mark.parametrize("arm", ["zone_index", "blob", None])
    def test_column_encodings(self, arm: str | None) -> None:
        message = pb.ColumnEncoding()
        if arm is not None:
            getattr(message, arm).SetInParent()
        any_message = AnyMessage(
            type_url="/lance.encodings.ColumnEncoding", value=message.SerializeToString()
        )
        with pytest.raises(UnsupportedFeatureError, match=arm or "unknown"):
            check_column_encoding(any_message.SerializeToString())

    def test_column_encodings_around_values(self) -> None:
        message = pb.ColumnEncoding()
        message.zone_index.rows_per_zone = 7
        message.zone_index.inner.blob.inner.values.SetInParent()
        any_message = AnyMessage(
            type_url="/lance.encodings.ColumnEncoding", value=message.SerializeToString()
        )
        check_column_encoding(any_message.SerializeToString())

    @given(layouts, st.data())
    def test_damaged_bytes(self, layout: Layout, data: st.DataObject) -> None:
        stored = bytearray(build_page_layout(layout))
        position = data.draw(st.integers(0, len(stored) - 1))
        stored[position] ^= data.draw(st.integers(1, 255))
        with contextlib.suppress(FormatError):
            assert len(parse_page_layout(bytes(stored)).layers) >= 1
        with contextlib.suppress(FormatError):
            assert len(parse_page_layout(bytes(stored[:position])).layers) >= 1


def marked(data: pa.Array, **marks: str) -> tuple[pa.Array, dict[str, str]]:
    return data, {f"lance-encoding:{key.replace('_', '-')}": mark for key, mark in marks.items()}


RNG = np.random.default_rng(5)
WORDS = pa.array([f"a longer text of number {i % 997} " * 3 for i in range(3000)])
REFERENCE_PAGES = {
    "flat": (marked(pa.array(RNG.random(2000)), compression="none"), Flat),
    "bool": (marked(pa.array([True, None, False] * 100)), Flat),
    "bitpacked": (marked(pa.array(RNG.integers(0, 100, 5000))), InlineBitpacking),
    "rle": (marked(pa.array(np.repeat(np.arange(20), 300))), Rle),
    "split": (
        marked(pa.array(RNG.integers(0, 9, 9000) / 8), compression="zstd", bss="on"),
        General,
    ),
    "variable": (marked(pa.array(["a", "bb", None])), Variable),
    "fsst": (marked(WORDS, dict_divisor="100000"), Fsst),
    "zstd": (marked(WORDS, compression="zstd", compression_level="5"), General),
    "lz4": (marked(WORDS, compression="lz4"), General),
    "vector": (marked(pa.FixedSizeListArray.from_arrays(pa.array([1.5, None] * 8), 4)), None),
    "struct": (
        marked(pa.array([{"a": 1, "b": 2.5}] * 9), packed="true"),
        PackedStruct,
    ),
    "dictionary": (marked(pa.array(["red", "blue"] * 200).dictionary_encode()), None),
    "list": (marked(pa.array([[1, 2], None, [], [4, None]] * 600)), None),
    "wide": (marked(pa.array(["x" * 3000, None, ""])), Variable),
    "wide vector": (
        marked(pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(1280)), 128)),
        FixedSizeList,
    ),
    "null": (marked(pa.nulls(7)), None),
    "null lists": (marked(pa.array([None, []], pa.list_(pa.int8()))), None),
}


def reference_pages(path: Path, data: pa.Array, marks: dict[str, str], version: str) -> list[bytes]:
    """Wrapped layouts of all pages of a file that pylance writes."""
    schema = pa.schema([pa.field("x", data.type, metadata=marks)])
    with LanceFileWriter(str(path), schema, version=version) as writer:
        writer.write_batch(pa.Table.from_arrays([data], schema=schema))
    stored = path.read_bytes()
    _, table, _, _, num_columns = struct.unpack("<QQQII", stored[-40:-8])
    pages: list[bytes] = []
    for i in range(num_columns):
        start, size = struct.unpack_from("<QQ", stored, table + 16 * i)
        column = file_pb2.ColumnMetadata.FromString(stored[start : start + size])
        pages.extend(page.encoding.direct.encoding for page in column.pages)
    return pages


class TestReferencePages:
    @pytest.mark.parametrize("name", REFERENCE_PAGES)
    def test_same_bytes_again(self, name: str, tmp_path: Path) -> None:
        (data, marks), expected = REFERENCE_PAGES[name]
        pages = reference_pages(tmp_path / "f", data, marks, "2.1")
        assert pages
        for page in pages:
            layout = parse_page_layout(page)
            assert build_page_layout(layout) == page
            if expected is not None:
                assert not isinstance(layout, ConstantLayout | BlobLayout)
                assert isinstance(layout.value_compression, expected)

    def test_constant_pages_of_2_2(self, tmp_path: Path) -> None:
        (page,) = reference_pages(tmp_path / "f", pa.array([7] * 100), {}, "2.2")
        layout = ConstantLayout((Layer.ALL_VALID_ITEM,), (7).to_bytes(8, "little"))
        assert parse_page_layout(page) == layout
        assert build_page_layout(layout) == page

    def test_large_chunks_of_2_2(self, tmp_path: Path) -> None:
        (page,) = reference_pages(tmp_path / "f", pa.array([7, 8]), {}, "2.2")
        layout = parse_page_layout(page)
        assert isinstance(layout, MiniBlockLayout)
        assert layout.has_large_chunk

    def test_blob_pages(self, tmp_path: Path) -> None:
        data, marks = marked(pa.array([b"x"], pa.large_binary()), blob="true")
        (page,) = reference_pages(tmp_path / "f", data, marks, "2.1")
        layout = parse_page_layout(page)
        assert isinstance(layout, BlobLayout)
        assert build_page_layout(layout) == page
