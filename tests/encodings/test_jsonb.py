"""JSON in its binary form: the bytes and the text of the reference, and what is refused."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader

from alance.encodings.jsonb import DEPTH_MAX, from_text, to_text
from alance.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError

FIXED = [
    *("null", "true", "false", "[]", "{}", '""', '"h"', '  { "z" : [ ] } \n', "[[],{},[[]]]"),
    *("0", "-0", "-0.0", "0.0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "65535"),
    *("65536", "-32769", "4294967295", "4294967296", "-2147483649", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775808"),
    *("-9223372036854775809", "123456789012345678901234567890", "9" * 400, "-" + "9" * 400),
    *("1.10", "1e2", "1E5", "1e15", "1e16", "1e17", "1e300", "1e-5", "-1.5e-5", "1e-6", "1e-7"),
    *("9.99e-5", "0.0001", "5e-324", "1e-400", "1e400", "-1e400", "123456789012345680.0"),
    *('"\\ud83d\\ude00 \\u0000 \\b\\f\\/ \\u001f\\"\\\\"', '"\x7f\u2028\x85"', '"a\nb\x01"'),
    *('{"b":1,"\\u0061":2,"":3,"é":4,"Z":5,"😀":6,"\uffff":7}', '{"a":{"b":{"a":[1,{"c":null}]}}}'),
    json.dumps("long " * 20_000),
    json.dumps(list(range(3000))),
    "[" * DEPTH_MAX + "]" * DEPTH_MAX,
]
CHARACTERS = 'aZé😀\n\x00\x1f\x7f"\\/\u2028 \b\f\r\t'


def stored(path: Path, texts: list[str]) -> tuple[list[bytes], list[str]]:
    """Bytes that the reference stores for JSON texts, and the texts that it reads again."""
    table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))})
    dataset = lance.write_dataset(table, path)
    (file,) = (path / "data").iterdir()
    data = LanceFileReader(str(file)).read_all().to_table().column(0).to_pylist()
    return data, dataset.to_table()["j"].to_pylist()


def read_there(path: Path, values: list[bytes]) -> list[str]:
    """Texts that the reference reads from bytes that are not its own."""
    marked = pa.field("j", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
    table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([marked]))
    texts: list[str] = lance.write_dataset(table, path).to_table()["j"].to_pylist()
    return texts


def random_text(source: random.Random) -> str:
    return "".join(source.choices(CHARACTERS, k=source.randrange(8)))


def random_number(source: random.Random) -> str:
    match source.randrange(4):
        case 0:
            return str(source.choice([1, -1]) * (2 ** source.randrange(70) + source.randint(-2, 2)))
        case 1:
            bits = source.randbytes(8)
            value = struct.unpack("d", bits)[0]
            return repr(value) if abs(value) < float("inf") else "0"
        case 2:
            return f"{source.choice(['', '-'])}{source.randrange(10**6)}.{source.randrange(10**9)}"
        case _:
            return f"{source.randrange(10)}.{source.randrange(1000)}e{source.randint(-25, 25)}"


def random_document(source: random.Random, depth: int) -> str:
    space = source.choice(["", " ", "\n\t"])
    match source.randrange(8 if depth else 6):
        case 0:
            return source.choice(["true", "false", "null"])
        case 1 | 2:
            return json.dumps(random_text(source), ensure_ascii=source.random() < 0.5)
        case 3 | 4 | 5:
            return random_number(source)
        case 6:
            items = [random_document(source, depth - 1) for _ in range(source.randrange(5))]
            return f"[{','.join(space + item + space for item in items)}]"
        case _:
            names = dict.fromkeys(random_text(source) for _ in range(source.randrange(5)))
            members = [
                f"{space}{json.dumps(name)}{space}:{space}{random_document(source, depth - 1)}"
                for name in names
            ]
            return "{" + ",".join(members) + "}"


def scalar(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", 0x2000_0000, kind | len(payload)) + payload


class TestReference:
    def test_same_bytes_and_texts(self, tmp_path: Path) -> None:
        source = random.Random(1)
        texts = FIXED + [random_document(source, 4) for _ in range(3000)]
        data, again = stored(tmp_path / "set", texts)
        assert [from_text(text) for text in texts] == data
        assert [to_text(value) for value in data] == again

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            scalar(0x2000_0000, b"\x40\x01"),
            scalar(0x2000_0000, b"\x50\x00\x00\x00\x01"),
            scalar(0x2000_0000, b"\x10"),
            scalar(0x2000_0000, b"\x60" + struct.pack(">d", float("nan"))),
            scalar(0x2000_0000, b"\x70" + (101).to_bytes(8, "big") + b"\x02"),
            scalar(0x2000_0000, b"\x70" + (-101).to_bytes(16, "big", signed=True) + b"\x01"),
            scalar(0x2000_0000, b"\x70" + (101).to_bytes(16, "big") + b"\x26\x01"),
            scalar(0x2000_0000, b"\x70" + (12345678901234567890123).to_bytes(32, "big") + b"\x04"),
            scalar(0x2000_0000, b"\x70" + (5).to_bytes(32, "big") + b"\x4c\x00"),
        ],
        ids=bytes.hex,
    )
    def test_same_text_of_what_it_does_not_write(self, value: bytes, tmp_path: Path) -> None:
        assert read_there(tmp_path / "set", [value]) == [to_text(value)]


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            *((text, "no JSON") for text in ("", " ", "tru", "NaN", "-Infinity", "{'a':1}", "1 2")),
            *((text, "no JSON") for text in ("[1,]", "01", "+1", ".5", "5.", "0x1F", '"\\x"', "[")),
            ('[{"a":1,"b":2,"a":1}]', "'a' twice"),
            ('"\\ud800"', "surrogate"),
            ('{"\\udc00x":1}', "surrogate"),
            ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "nests deeper"),
            ("[" * 100_000, "nests deeper"),
        ],
        ids=lambda value: value[:20],
    )
    def test_no_json(self, text: str, says: str) -> None:
        with pytest.raises(InvalidInputError, match=says):
            from_text(text)

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            (b"\x20", "ends inside a header"),
            (b"junk", "has header"),
            (struct.pack(">I", 0x2000_0000), "entries do not fit"),
            (struct.pack(">I", 0x9FFF_FFFF), "entries do not fit"),
            (struct.pack(">I", 0x5FFF_FFFF) + bytes(64), "entries do not fit"),
            (struct.pack(">II", 0x2000_0000, 0x1000_0005) + b"abc", "another length"),
            (struct.pack(">II", 0x8000_0001, 0x1000_0005) + b"abc", "do not fill it"),
            (struct.pack(">II", 0x8000_0001, 0x5000_0000), "ends inside a header"),
            (struct.pack(">III", 0x8000_0001, 0x5000_0004, 0x2000_0000), "has header"),
            (struct.pack(">III", 0x4000_0001, 0x2000_0001, 0) + b"\x00", "key of an object"),
            (
                struct.pack(">II", 0x2000_0000, 0x5000_0004) + b"\x80\x00\x00\x00",
                "holds a container",
            ),
            (scalar(0x1000_0000, b"\xff"), "no UTF-8"),
            (scalar(0x0000_0000, b"x"), "1 bytes"),
            (scalar(0x7000_0000, b""), "has kind"),
            (scalar(0xA000_0000, b"\x00"), "has kind"),
            *((scalar(0x2000_0000, number), "a number") for number in (b"", b"\x40", b"\x01\x00")),
            *(
                (scalar(0x2000_0000, number), "a number")
                for number in (b"\x60", b"\x70" + bytes(8))
            ),
        ],
        ids=str,
    )
    def test_damaged(self, value: bytes, says: str) -> None:
        with pytest.raises(CorruptFileError, match=says):
            to_text(value)

    def test_nest_too_deep(self) -> None:
        value = struct.pack(">I", 0x8000_0000)
        for _ in range(DEPTH_MAX):
            value = struct.pack(">II", 0x8000_0001, 0x5000_0000 | len(value)) + value
        with pytest.raises(CorruptFileError, match="nests deeper"):
            to_text(value)

    def test_dates(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="date"):
            to_text(scalar(0x6000_0000, b"\x10" + bytes(4)))


class TestProperties:
    @given(st.data())
    def test_flipped_bytes_never_surprise(self, data: st.DataObject) -> None:
        value = bytearray(from_text('{"a":[1,-2.5,"é",{"b":null}],"c":{"d":[true,[]]}}'))
        for _ in range(data.draw(st.integers(1, 4))):
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(CorruptFileError, UnsupportedFeatureError):
            json.loads(to_text(bytes(value)))

    @given(st.binary(max_size=64))
    def test_any_bytes_never_surprise(self, value: bytes) -> None:
        with contextlib.suppress(CorruptFileError, UnsupportedFeatureError):
            json.loads(to_text(value))
