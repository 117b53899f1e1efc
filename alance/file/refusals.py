"""What an Arrow schema may hold that no Lance schema does: refused, with the name of the field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from alance.encodings.blob_values import GIVEN
from alance.errors import InvalidInputError
from alance.file.types import BLOB_V2

__all__ = ["refuse_duplicates", "refuse_storage", "text_metadata"]


def refuse_duplicates(items: Iterable[pa.Field], where: str) -> None:
    """Refuse fields of the same name side by side."""
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise InvalidInputError(f"{where} has two fields named {item.name!r}; rename one")
        seen.add(item.name)


def refuse_storage(extension: str, storage: pa.DataType, path: str) -> None:
    """Refuse extension types of which the format knows another storage type."""
    if extension == BLOB_V2 and storage not in (GIVEN, pa.struct(list(GIVEN)[:2])):
        raise InvalidInputError(
            f"column {path!r} of extension type {extension} is stored as {storage}, not as "
            f"{GIVEN}; give blobs so, or as large_binary with metadata 'lance-encoding:blob' = "
            "'true'"
        )


def text_metadata(metadata: Mapping[bytes, bytes] | None, where: str) -> dict[str, bytes]:
    """Arrow metadata with text keys; the format demands UTF-8 of keys and values.

    Raises
    ------
    InvalidInputError
        Bytes that are no UTF-8.
    """
    out: dict[str, bytes] = {}
    for key, value in (metadata or {}).items():
        try:
            value.decode()
            out[key.decode()] = value
        except UnicodeDecodeError:
            raise InvalidInputError(
                f"{where} has metadata {key!r} that is no UTF-8, which the Lance format demands"
            ) from None
    return out
