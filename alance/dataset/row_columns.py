"""Columns that no data file stores: where a row is, which one it is, when it came and changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alance.encodings.rows import RowRanges
from alance.errors import CorruptFileError, InvalidInputError
from alance.table.manifest import Fragment
from alance.table.row_ids import RowIds
from alance.table.row_versions import RowVersions
from alance.table.wire_rows import parse_row_ids, parse_row_versions

__all__ = [
    "PSEUDO_COLUMNS",
    "ROW_ADDRESS",
    "ROW_ID",
    "RowColumns",
    "check_names",
    "check_row_ids",
    "decode_row_ids",
]

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"

PSEUDO_COLUMNS = pa.schema([
    (name, pa.uint64()) for name in (ROW_ID, ROW_ADDRESS, CREATED_AT, LAST_UPDATED_AT)
])

RESERVED = frozenset([*PSEUDO_COLUMNS.names, "_rowoffset"])
"""Names that the columns of a dataset must not have: the reference refuses them too."""

ADDRESS_BITS = 32
"""Of an address, those of the row offset; the fragment id is above them."""

VALUE_BYTES = 8

Values = npt.NDArray[np.uint64]


class RowColumns:
    """Pseudo columns of one fragment; what the manifest says of its rows is decoded when needed.

    Parameters
    ----------
    fragment
        Without row ids, the address of a row is its id; without versions, they are all 1.
    """

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment

    def num_bytes(self, names: Sequence[str], num_rows: int) -> int:
        """Bytes that `arrays` works on."""
        if not names:
            return 0
        fragment = self._fragment
        stored = (fragment.row_ids, fragment.created_at, fragment.last_updated_at)
        return VALUE_BYTES * num_rows * len(names) + sum(len(part or b"") for part in stored)

    def arrays(self, names: Sequence[str], rows: RowRanges) -> list[pa.Array]:
        """Pseudo columns of rows by offset, uint64.

        Raises
        ------
        CorruptFileError
            The manifest does not say it for each row.
        """
        if not names:
            return []
        offsets = rows.rows()
        return [pa.array(self._values(name, offsets)) for name in names]

    def _values(self, name: str, offsets: npt.NDArray[np.int64]) -> Values:
        if name == CREATED_AT:
            return self._created.versions_at(offsets)
        if name == LAST_UPDATED_AT:
            return self._last_updated.versions_at(offsets)
        if name == ROW_ID and self._fragment.row_ids is not None:
            return self._row_ids.ids_at(offsets)
        base = np.uint64(self._fragment.id << ADDRESS_BITS)
        addresses: Values = offsets.astype(np.uint64) | base
        return addresses

    @cached_property
    def _row_ids(self) -> RowIds:
        return decode_row_ids(self._fragment)

    @cached_property
    def _created(self) -> RowVersions:
        return self._versions(self._fragment.created_at)

    @cached_property
    def _last_updated(self) -> RowVersions:
        return self._versions(self._fragment.last_updated_at)

    def _versions(self, data: bytes | None) -> RowVersions:
        path = f"row versions of fragment {self._fragment.id}"
        return parse_row_versions(data, self._fragment.physical_rows, path=path)


def check_names(names: Iterable[str]) -> None:
    """Refuse names of pseudo columns for top-level columns of a dataset.

    Raises
    ------
    InvalidInputError
        One is among them.
    """
    for name in names:
        if name in RESERVED:
            raise InvalidInputError(f"column name {name!r} is reserved; choose another one")


def check_row_ids(fragments: Iterable[Fragment]) -> None:
    """Check that all fragments of a version with stable row ids have some.

    Raises
    ------
    CorruptFileError
        One has none.
    """
    for fragment in fragments:
        if fragment.row_ids is None:
            raise CorruptFileError(
                f"the dataset has stable row ids, but fragment {fragment.id} has none"
            )


def decode_row_ids(fragment: Fragment) -> RowIds:
    """Stable ids of a fragment's rows, deleted ones included.

    Raises
    ------
    CorruptFileError
        There is not one for each row.
    """
    path = f"row ids of fragment {fragment.id}"
    return parse_row_ids(fragment.row_ids or b"", fragment.physical_rows, path=path)
