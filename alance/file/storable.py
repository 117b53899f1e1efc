"""What columns with a form of their own can be stored as: packed structs, blobs, struct lists."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.fields import Nesting, Node
from alance.types import FileVersion

__all__ = ["check_blobs", "check_packed", "check_struct_lists", "lies_in_lists"]


def check_packed(root: Node, version: FileVersion) -> None:
    """Refuse packed structs with members that a row of bytes cannot hold.

    Raises
    ------
    InvalidInputError
        Names the member.
    """
    _check_packed(root, root.field.name, version)


def _check_packed(node: Node, path: str, version: FileVersion) -> None:
    if node.field.is_blob_v2:
        return
    is_packed = node.kind is Nesting.LEAF and bool(node.children)
    for child in node.children:
        below = f"{path}.{child.field.name}"
        if not is_packed:
            _check_packed(child, below, version)
        elif not _fits_row(child.data_type, version):
            raise InvalidInputError(
                f"member {below!r} of type {child.data_type} cannot be stored in a packed struct "
                f"of file version {version.value}; {_fitting(version)}; remove "
                "'lance-encoding:packed' from the metadata of the struct, or cast the member"
            )


def _fitting(version: FileVersion) -> str:
    if version is FileVersion.V2_1:
        return "members are numbers, times and fixed-size binaries there"
    return "members are numbers, times, strings, binaries and fixed-size lists of numbers"


def _fits_row(kind: pa.DataType, version: FileVersion) -> bool:
    if version is not FileVersion.V2_1:
        if pa.types.is_fixed_size_list(kind):
            return _has_bytes(kind.value_type)
        if any(test(kind) for test in _VARIABLE):
            return True
    return _has_bytes(kind)


def _has_bytes(kind: pa.DataType) -> bool:
    """Whether values take a fixed number of whole bytes."""
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return False
    try:
        return bool(kind.bit_width >= 8)
    except ValueError:
        return False


_VARIABLE = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


_LISTS = frozenset({Nesting.LIST, Nesting.LARGE_LIST, Nesting.MAP})


def check_blobs(root: Node, version: FileVersion) -> None:
    """Refuse blobs of types and in places where the format has none.

    Raises
    ------
    InvalidInputError
        Names the column.
    """
    _check_blobs(root, root.field.name, version, in_list="")


def _check_blobs(node: Node, path: str, version: FileVersion, *, in_list: str) -> None:
    if node.field.is_blob_v2 and version is FileVersion.V2_1:
        raise InvalidInputError(
            f"column {path!r} is marked as blobs of file version 2.2; give large_binary, with "
            "metadata 'lance-encoding:blob' = 'true'"
        )
    if node.field.is_blob and not pa.types.is_large_binary(node.data_type):
        raise InvalidInputError(
            f"column {path!r} of type {node.data_type} cannot be stored as a blob; cast it to "
            "large_binary, or remove 'lance-encoding:blob' from the metadata of the field"
        )
    if node.field.is_blob and in_list:
        # Places of values say nothing of where a list begins (specification: 2.1, section 7).
        raise InvalidInputError(
            f"column {in_list!r} holds lists of blobs, which only datasets of file version 2.2 "
            "can; write with data_storage_version='2.2', or remove 'lance-encoding:blob' from the "
            f"metadata of {path!r}"
        )
    if node.kind in _LISTS:
        in_list = in_list or path
    for child in node.children:
        _check_blobs(child, f"{path}.{child.field.name}", version, in_list=in_list)


def lies_in_lists(nodes: Sequence[Node]) -> bool:
    """Whether a leaf, given by its nodes from the top, has lists of fixed-size lists of structs.

    The format does not say how their items repeat (specification: 2.2, section 5).
    """
    kinds = [node.kind for node in nodes]
    if Nesting.FIXED_SIZE_LIST not in kinds:
        return False
    last = len(kinds) - 1 - kinds[::-1].index(Nesting.FIXED_SIZE_LIST)
    return not _LISTS.isdisjoint(kinds[:last])


def check_struct_lists(root: Node) -> None:
    """Refuse fixed-size lists of structs with lists around them: no level tells their items apart.

    Raises
    ------
    InvalidInputError
        Names the column.
    """
    _check_struct_lists(root, root.field.name, in_list=False)


def _check_struct_lists(node: Node, path: str, *, in_list: bool) -> None:
    if in_list and node.kind is Nesting.FIXED_SIZE_LIST:
        raise InvalidInputError(
            f"column {path!r} is a fixed-size list of structs in a list, which cannot be stored; "
            "cast the fixed-size list to a list"
        )
    for child in node.children:
        path_below = f"{path}.{child.field.name}"
        _check_struct_lists(child, path_below, in_list=in_list or node.kind in _LISTS)
