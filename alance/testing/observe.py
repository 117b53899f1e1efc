"""Which layouts and encodings a written dataset has, read from the metadata of its pages."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from alance.encodings.spec import Flat, FullZipLayout, General, PackedField
from alance.encodings.wire import parse_page_layout
from alance.file.footer import parse_footer, parse_offset_tables
from alance.file.metadata import PageInfo, parse_column_metadata
from alance.types import ByteRange

__all__ = ["observe"]

ROLES = {
    "rep_compression": "levels",
    "def_compression": "levels",
    "value_compression": "values",
    "dictionary": "dictionary",
}


def observe(dataset: Path) -> frozenset[str]:
    """Layouts, encodings by what they are used for, and whether a column has several pages."""
    found: set[str] = set()
    for path in sorted((dataset / "data").glob("*.lance")):
        data = path.read_bytes()
        for pages in _pages(memoryview(data)):
            if len(pages) > 1:
                found.add("several pages")
            for page in pages:
                message = page.layout
                if isinstance(message, ByteRange):
                    message = data[message.start : message.stop]
                found.update(_describe(parse_page_layout(message), page))
    return frozenset(found)


def _pages(data: memoryview) -> Iterator[tuple[PageInfo, ...]]:
    """Pages of every column of a file."""
    footer = parse_footer(data, len(data))
    for place in parse_offset_tables(footer, data).column_metadata:
        metadata = data[place.start : place.stop]
        yield parse_column_metadata(metadata, limit=len(data), version=footer.version).pages


def _describe(layout: object, page: PageInfo) -> Iterator[str]:
    yield f"layout {_layout_name(layout, page)}"
    for name, value in _members(layout):
        if name == "inner_layout":
            yield from _describe(value, page)
        elif dataclasses.is_dataclass(value):
            yield f"{ROLES.get(name, name)} {_spec_name(value)}"


def _layout_name(layout: object, page: PageInfo) -> str:
    name = _words(type(layout).__name__.removesuffix("Layout"))
    if isinstance(layout, FullZipLayout):
        return f"{name} of {'variable' if layout.bits_per_value is None else 'fixed'} width"
    if hasattr(layout, "inline_value") and layout.inline_value is not None:
        name += " inline"
    return f"{name}, {len(page.buffers)} buffers"


def _spec_name(spec: object) -> str:
    """Encoding with all that it nests, from the outside in."""
    name = _words(type(spec).__name__)
    if isinstance(spec, General):
        name += f" {spec.scheme}"
    if isinstance(spec, Flat):
        return f"{name} 1" if spec.bits_per_value == 1 else name
    inner = [_spec_name(value) for _, value in _members(spec) if dataclasses.is_dataclass(value)]
    if isinstance(spec, PackedField):
        return inner[0]
    return f"{name}({', '.join(dict.fromkeys(inner))})" if inner else name


def _members(value: object) -> Iterator[tuple[str, object]]:
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        member = getattr(value, field.name)
        if isinstance(member, tuple):
            yield from ((field.name, each) for each in dict.fromkeys(member))
        else:
            yield field.name, member


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
