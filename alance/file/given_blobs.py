"""Blobs that data gives as bytes or URIs, in the extension type that users of the format know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa

from alance.encodings.blob_values import GIVEN, FindBase
from alance.errors import InvalidInputError
from alance.file.blobs import FILE_BYTES_MAX
from alance.file.fields import BLOB
from alance.io.uri import parse_uri

__all__ = ["base_finder", "check_given", "given_type"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def given_type(data_type: pa.DataType, field: pa.Field) -> pa.DataType:
    """Type in which data is written: that of a field, with `GIVEN` for blobs that are given so.

    Parameters
    ----------
    data_type
        Of the data; it fits the field.
    field
        As the dataset has it, without extension types.
    """
    kind = field.type
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if data_type.equals(kind) or not pa.types.is_nested(data_type):
        return kind
    if pa.types.is_large_binary(kind) and BLOB.encode() in (field.metadata or {}):
        return GIVEN
    if pa.types.is_struct(kind):
        return pa.struct([
            member.with_type(given_type(given.type, member))
            for given, member in zip(data_type, kind, strict=True)
        ])
    if pa.types.is_map(kind):
        value = kind.item_field.with_type(given_type(data_type.item_type, kind.item_field))
        return pa.map_(kind.key_field, value)
    if pa.types.is_dictionary(kind):
        return kind
    item = kind.value_field.with_type(given_type(data_type.value_type, kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)


def check_given(array: pa.Array, kind: pa.DataType, path: str) -> None:
    """Refuse blobs that are not either bytes or one place.

    Parameters
    ----------
    array
        Of the `given_type`.
    kind
        Type of the field, in which blobs are large binaries.
    path
        Its dotted name.

    Raises
    ------
    InvalidInputError
        Names the column and the first such value.
    """
    if array.type.equals(kind):
        return
    if pa.types.is_large_binary(kind):
        _check_values(array.drop_null() if array.null_count else array, path)
    elif pa.types.is_struct(kind):
        for member, values in zip(kind, array.flatten(), strict=True):
            check_given(values, member.type, f"{path}.{member.name}")
    elif pa.types.is_map(kind):
        entries = array.cast(pa.list_(array.type.field(0))).flatten()
        check_given(entries.field(1), kind.item_type, f"{path}.entries.{kind.item_field.name}")
    else:
        check_given(array.flatten(), kind.value_type, f"{path}.{kind.value_field.name}")


def _check_values(values: pa.StructArray, path: str) -> None:
    """Check values that are not null."""
    data, uris, positions, sizes = (
        values.field(i).is_valid().to_numpy(zero_copy_only=False) for i in range(len(GIVEN))
    )
    for wrong, problem in (
        (data == uris, "must have either data or a uri"),
        (positions != sizes, "must have both a position and a size, or neither"),
        (positions & ~uris, "has a position, which only one at a uri can have"),
    ):
        if wrong.any():
            raise _invalid(path, values[int(np.argmax(wrong))].as_py(), problem)
    starts, lengths = (values.field(i).fill_null(fill).to_numpy() for i, fill in ((2, 0), (3, 1)))
    too_far = (lengths == 0) | (np.maximum(starts, lengths) > FILE_BYTES_MAX // 2)
    if too_far.any():
        problem = f"must have a size of at least 1, and end before byte {FILE_BYTES_MAX // 2}"
        raise _invalid(path, values[int(np.argmax(too_far))].as_py(), problem)
    for uri in dict.fromkeys(values.field(1).drop_null().to_pylist()):
        _check_uri(uri, path)


def _check_uri(uri: str, path: str) -> None:
    try:
        if "://" not in uri:
            raise InvalidInputError("it is no absolute URI")
        _, key = parse_uri(uri)
        if not key:
            raise InvalidInputError("it names no object")
        if _CONTROL.search(key):
            raise InvalidInputError("its path holds control characters")
    except InvalidInputError as exc:
        raise InvalidInputError(
            f"column {path!r}: a blob cannot lie at {uri[:200]!r}: {exc}"
        ) from exc


def base_finder(bases: Iterable[tuple[int, str]]) -> FindBase | None:
    """Make what finds the base path that a URI lies below, the longest; None without base paths.

    Parameters
    ----------
    bases
        Numbers and addresses. Number 0 cannot be told from none, and is passed over.
    """
    places = []
    for number, address in bases:
        with suppress(InvalidInputError):
            config, root = parse_uri(address)
            if number:
                places.append((f"{config.url}/{root}/" if root else f"{config.url}/", number))
    places.sort(key=lambda place: len(place[0]), reverse=True)

    def find(uri: str) -> tuple[int, str]:
        config, path = parse_uri(uri)
        whole = f"{config.url}/{path}"
        for start, number in places:
            if whole.startswith(start):
                return number, whole.removeprefix(start)
        return 0, uri

    return find if places else None


def _invalid(path: str, value: object, problem: str) -> InvalidInputError:
    return InvalidInputError(f"column {path!r}: a blob {problem}; one is {str(value)[:200]}")
