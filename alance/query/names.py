"""Names in SQL text to things: columns of a schema, types of a cast."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from alance.errors import InvalidInputError
from alance.query.expression import Column

__all__ = ["Name", "resolve_column", "resolve_type"]

Name: TypeAlias = tuple[str, bool]
"""A name, and whether it was quoted."""

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
}
_TIMESTAMPS = {"TIMESTAMP": None, "DATETIME": None, "TIMESTAMPTZ": "UTC"}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def resolve_column(schema: pa.Schema, names: Sequence[Name]) -> Column:
    """Column at a path of names.

    Parameters
    ----------
    schema
        Where to look.
    names
        The column and the struct fields within it. Only the first may differ in case, if unquoted
        and if no other column fits: so does the reference.

    Raises
    ------
    InvalidInputError
        There is none or more than one.
    """
    (first, quoted), *rest = names
    matches = [name for name in schema.names if name == first]
    if not matches and not quoted:
        matches = [name for name in schema.names if name.lower() == first.lower()]
    if len(matches) != 1:
        raise InvalidInputError(_not_one("column", first, matches, schema.names))
    path = [matches[0]]
    data_type = schema.field(matches[0]).type
    for name, _ in rest:
        parent = ".".join(path)
        if not pa.types.is_struct(data_type):
            raise InvalidInputError(
                f"column {parent!r} is of type {data_type}, so it has no field {name!r}"
            )
        children = [data_type.field(i) for i in range(data_type.num_fields)]
        found = [child for child in children if child.name == name]
        if len(found) != 1:
            known = [child.name for child in children]
            raise InvalidInputError(
                _not_one(f"field of {parent!r}", name, [child.name for child in found], known)
            )
        path.append(name)
        data_type = found[0].type
    return Column(tuple(path), data_type)


def _not_one(what: str, name: str, matches: Sequence[str], known: Sequence[str]) -> str:
    if matches:
        return f"{what} {name!r} is ambiguous: it may be any of {list(matches)}; quote it with `"
    folded = {candidate.lower(): candidate for candidate in known}
    close = [folded[match] for match in get_close_matches(name.lower(), folded, n=3, cutoff=0.7)]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
    if not hint:
        more = ", ..." if len(known) > 20 else ""
        hint = f"known are {', '.join(map(repr, known[:20]))}{more}"
    return f"there is no {what} {name!r}; {hint}"


def resolve_type(node: exp.DataType) -> pa.DataType | None:
    """Arrow type of an SQL type; None where there is none."""
    name = node.this.name if isinstance(node.this, exp.DataType.Type) else str(node.this)
    parameters = [_integer(parameter) for parameter in node.expressions]
    if name in _TYPES and (not parameters or name in {"VARCHAR", "TEXT"}):
        return _TYPES[name]
    if name in _TIMESTAMPS and len(parameters) <= 1:
        unit = _UNITS.get(parameters[0] if parameters else 6)
        return None if unit is None else pa.timestamp(unit, _TIMESTAMPS[name])
    if name == "DECIMAL" and len(parameters) in {1, 2}:
        precision, scale = parameters[0], parameters[1] if len(parameters) == 2 else 0
        if 1 <= precision <= 76 and 0 <= scale <= precision:
            kind = pa.decimal128 if precision <= 38 else pa.decimal256
            return kind(precision, scale)
    return None


def _integer(parameter: exp.Expression) -> int:
    """Value of a type's parameter; -1, which fits nowhere, if it is not a number."""
    text = parameter.name
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
