"""Changing settings and metadata: of the table, of its schema and of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from alance.errors import InvalidInputError, is_text
from alance.file.schema import Schema
from alance.table.operations import MapUpdate, UpdateConfig

__all__ = ["Values", "plan_config", "plan_fields", "plan_metadata", "plan_schema_metadata"]

Values: TypeAlias = Mapping[str, str | None]
"""New values by key; None removes the key."""


def plan_config(values: Values, *, replace: bool) -> UpdateConfig:
    """Change settings of the table.

    Raises
    ------
    InvalidInputError
        A key or value is no text.
    """
    return UpdateConfig(config=_update("values", values, replace=replace))


def plan_metadata(values: Values, *, replace: bool) -> UpdateConfig:
    """Change what users keep with the table; errors as for `plan_config`."""
    return UpdateConfig(table_metadata=_update("values", values, replace=replace))


def plan_schema_metadata(values: Values, *, replace: bool) -> UpdateConfig:
    """Change metadata of the schema; errors as for `plan_config`."""
    return UpdateConfig(schema_metadata=_update("values", values, replace=replace))


def plan_fields(schema: Schema, updates: Mapping[str, Values], *, replace: bool) -> UpdateConfig:
    """Change metadata of fields, given by dotted names.

    Raises
    ------
    InvalidInputError
        A name that is not in the schema; a key or value that is no text.
    """
    if not isinstance(updates, Mapping):
        raise InvalidInputError(f"field_updates must map names to values, not {updates!r}")
    return UpdateConfig(
        field_metadata={
            _field_id(schema, name): _update(
                f"the values of field {name!r}", values, replace=replace
            )
            for name, values in updates.items()
        }
    )


def _field_id(schema: Schema, name: str) -> int:
    if not isinstance(name, str):
        raise InvalidInputError(f"a field is given by its name, not by {name!r}")
    [path] = schema.resolve([name])
    nodes = schema.roots
    for part in path[:-1]:
        nodes = next(node.children for node in nodes if node.field.name == part)
    return next(node.field.id for node in nodes if node.field.name == path[-1])


def _update(what: str, values: Values, *, replace: bool) -> MapUpdate:
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{what} must map text to text or None, not be {values!r}")
    for key, value in values.items():
        if not (is_text(key) and (value is None or is_text(value))):
            raise InvalidInputError(
                f"{what} must map text to text or None, not {key!r} to {value!r}"
            )
    return MapUpdate(dict(values), replace)
