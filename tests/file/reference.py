"""Files as pylance writes them."""

import struct
from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileWriter

from alance.file.metadata import parse_file_descriptor
from alance.file.schema import Schema

__all__ = ["reference_file", "stored_schema"]


def reference_file(path: Path, version: str, table: pa.Table) -> memoryview:
    """The bytes of a file that holds `table`."""
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    return memoryview(path.read_bytes())


def stored_schema(path: Path, schema: pa.Schema, version: str) -> Schema:
    """The schema in the file descriptor of a file without rows."""
    data = reference_file(path, version, schema.empty_table())
    (table,) = struct.unpack("<Q", data[-24:-16])
    start, size = struct.unpack("<QQ", data[table : table + 16])
    return parse_file_descriptor(data[start : start + size]).schema
