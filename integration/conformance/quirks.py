"""What the reference implementation refuses or does not manage, found by trying; each is asserted.

A quirk is the text of its complaint. When it learns better, the suite fails and the quirk goes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from integration.conformance.matrix import Case

__all__ = ["not_read", "not_written"]


def not_written(case: Case, table: pa.Table) -> str | None:
    """Complaint with which it refuses to write a table, if it does."""
    if dict(case.labels).get("members") == "300 bytes" and _num_packed(table):
        # From 256 bytes on it wants full-zip, for which members of fixed width have no form.
        return "should not be used for fixed-width-only structs"
    return None


def not_read(case: Case, table: pa.Table, rows: npt.NDArray[np.int64]) -> str | None:
    """Complaint with which it fails to read these rows of a table, if it does."""
    labels = dict(case.labels)
    is_variable = any(part in labels.get("members", "") for part in ("text", "vectors"))
    if not is_variable or labels["nesting"] != "list" or not len(rows) or not _num_packed(table):
        return None
    # Lists of structs with members of variable width, where there is none in the wanted rows.
    return None if _num_packed(table.take(rows)) else "DataBlockBuilder didn't see any data"


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
