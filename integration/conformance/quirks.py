"""What the reference implementation refuses or does not manage, found by trying; each is asserted.

A quirk is the text of its complaint. When it learns better, the suite fails and the quirk goes.
"""

from __future__ import annotations

import pyarrow as pa

from integration.conformance.matrix import Case

__all__ = ["not_read", "not_written"]


def not_written(case: Case, table: pa.Table) -> str | None:
    """Complaint with which it refuses to write a table, if it does."""
    if dict(case.labels).get("members") == "300 bytes" and _num_packed(table):
        # From 256 bytes on it wants full-zip, for which members of fixed width have no form.
        return "should not be used for fixed-width-only structs"
    return None


def not_read(case: Case, table: pa.Table, rows: pa.Table) -> str | None:
    """Complaint with which it fails to read these rows of a table, if it does."""
    labels = dict(case.labels)
    in_list = labels["nesting"] == "list" if "members" in labels else False
    is_variable = any(part in labels.get("members", "") for part in ("text", "vectors"))
    if in_list and is_variable and not _num_packed(rows) and _num_packed(table):
        # Lists of structs with members of variable width, none of which is asked for.
        return "DataBlockBuilder didn't see any data" if rows.num_rows else None
    return None


def _num_packed(table: pa.Table) -> int:
    """Packed structs that are not null."""
    total = 0
    for chunk in table["c"].chunks:
        if pa.types.is_list(chunk.type):
            chunk = chunk.flatten()
        elif pa.types.is_struct(chunk.type) and pa.types.is_struct(chunk.type.field(0).type):
            chunk = chunk.flatten()[0]
        total += len(chunk) - chunk.null_count
    return total
