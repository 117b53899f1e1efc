"""Variable packed struct: rows of members, those of variable width behind their length (2.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alance.encodings.blocks import (
    Bytes,
    DataBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import PackedField, Spec, VariablePackedStruct
from alance.errors import CorruptFileError, UnsupportedFeatureError
from alance.kernels import bytes as byte_kernels
from alance.kernels.memory import empty

__all__ = ["VariablePackedStructEncoding", "zip_members"]

Positions = npt.NDArray[np.int64]
INT32_MAX = (1 << 31) - 1


class VariablePackedStructEncoding(Compressive):
    """Full-zip only: a row is one value of variable width, each of its members one of its own."""

    name = "variable_packed_struct"
    spec_type = VariablePackedStruct
    transparent = True

    def decode_values(
        self, spec: VariablePackedStruct, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """Cut every row into its members, then decode each member of all rows at once."""
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("a variable packed struct in a page of fixed-width values")
        rows = _Rows(block)
        members = []
        for field in spec.fields:
            cut: DataBlock
            if field.bits_per_value is not None:
                cut = rows.cut_fixed(field.bits_per_value)
            else:
                cut = rows.cut_variable(field.bits_per_length or 0)
            members.append(registry.decode_values(field.value, cut))
        rows.finish()
        return PackedStructBlock(block.num_values, tuple(members))


class _Rows:
    """Rows being cut from left to right, all of them at once; rows of null structs are empty."""

    def __init__(self, block: VariableWidthBlock) -> None:
        bounds = block.offsets.astype(np.int64)
        lengths = np.diff(bounds)
        self._data = block.data
        self._num_rows = block.num_values
        self._present: npt.NDArray[np.bool_] = lengths > 0
        self._at: Positions = bounds[:-1][self._present]
        self._stops: Positions = bounds[1:][self._present]

    def cut_fixed(self, bits: int) -> FixedWidthBlock:
        """Cut off as many bits from every row; empty rows have zeros."""
        if bits < 8 or bits % 8:
            raise CorruptFileError(f"members of {bits} bits cannot be packed: take whole bytes")
        width = bits // 8
        found = self._cut(np.full(len(self._at), width, np.int64))
        if len(self._at) < self._num_rows:
            # Longer than what was cut: empty rows must not be many times as wide as all others.
            if width * self._num_rows > INT32_MAX:
                raise UnsupportedFeatureError(
                    "more than 2 GiB of packed structs in one read; ask for fewer rows at once",
                    feature="large packed structs",
                )
            padded = np.zeros((self._num_rows, width), np.uint8)
            padded[self._present] = found.reshape(-1, width)
            found = padded.reshape(-1)
        return FixedWidthBlock(bits, self._num_rows, found)

    def cut_variable(self, bits: int) -> VariableWidthBlock:
        """Cut off a length of so many bits, and as many bytes, from every row."""
        if bits not in (32, 64):
            raise CorruptFileError(f"lengths of {bits} bits do not exist; expected 32 or 64")
        prefixes = self._cut(np.full(len(self._at), bits // 8, np.int64)).view(f"<u{bits // 8}")
        # Whatever is longer than its row stays so when it is cut down to the longest row.
        sizes = np.minimum(prefixes, INT32_MAX * 2 if bits == 32 else 1 << 62).astype(np.int64)
        found = self._cut(sizes)
        if bits == 32 and len(found) > INT32_MAX:
            raise UnsupportedFeatureError(
                "more than 2 GiB of string bytes in one read; ask for fewer rows at once",
                feature="32-bit offsets",
            )
        lengths = np.zeros(self._num_rows, np.int64)
        lengths[self._present] = sizes
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        return VariableWidthBlock(ends.astype(np.int32) if bits == 32 else ends, found)

    def _cut(self, sizes: Positions) -> Bytes:
        """Bytes of the next piece of every row, one after the other."""
        if bool((sizes > self._stops - self._at).any()):
            raise CorruptFileError("a member is longer than what is left of its packed struct")
        found = empty(int(sizes.sum()), np.uint8)
        status = byte_kernels.gather(self._data, self._at, sizes, found)
        if status != 0:
            raise CorruptFileError("a packed struct lies outside of its page")
        self._at = self._at + sizes
        return found

    def finish(self) -> None:
        """Make sure that nothing is left."""
        if bool((self._at != self._stops).any()):
            raise CorruptFileError("a packed struct is longer than its members")


def zip_members(
    members: Sequence[tuple[Spec, DataBlock]], num_rows: int
) -> tuple[VariablePackedStruct, VariableWidthBlock]:
    """Lay members out row by row.

    Parameters
    ----------
    members
        Of each its description and its values, compressed one by one, fixed-width in whole bytes.
    num_rows
        Values of each member.
    """
    fields = []
    sizes = np.zeros(num_rows, np.int64)
    for spec, values in members:
        if isinstance(values, VariableWidthBlock):
            bits = values.bits_per_offset
            sizes += np.diff(values.offsets) + bits // 8
            fields.append(PackedField(spec, bits_per_length=bits))
        else:
            assert isinstance(values, FixedWidthBlock), "members are zipped one by one"
            sizes += values.bits_per_value // 8
            fields.append(PackedField(spec, bits_per_value=values.bits_per_value))
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    out, places = empty(int(ends[-1]), np.uint8), ends[:-1].copy()
    for _, values in members:
        status = _put(values, places, out)
        assert status == 0, "rows have room for all members"
    offsets = ends.astype(np.int32) if len(out) <= INT32_MAX else ends
    return VariablePackedStruct(tuple(fields)), VariableWidthBlock(offsets, out)


def _put(values: DataBlock, places: Positions, out: Bytes) -> int:
    """Add a member to all rows."""
    if isinstance(values, VariableWidthBlock):
        width = values.bits_per_offset // 8
        bounds = values.offsets.astype(np.int64)
        return byte_kernels.put_variable(values.data, bounds, width, places, out)
    assert isinstance(values, FixedWidthBlock), "members are zipped one by one"
    width = values.bits_per_value // 8
    data = values.data[: width * len(places)]
    return byte_kernels.put_fixed(data, width, places, out)
