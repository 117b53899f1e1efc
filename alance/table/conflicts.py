"""Which changes may follow each other unseen: a verdict for every pair of operations.

The table below is the format's own; what a writer of a change must do when another change that it
had not seen has been committed first. It is pure: merging, where a verdict asks for it, is done by
the commit.

One rule is stricter than the reference's. Appended files that store a field which a concurrent
Merge has replaced (a cast gives the column a new id) would lose that column's values without a
word, so such an append is retryable here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from alance.table.operations import (
    Append,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    UpdateConfig,
)

__all__ = ["Verdict", "verdict"]


class Verdict(Enum):
    """What becomes of a change that finds another committed before it."""

    COMPATIBLE = "goes on top of the other as it is"
    REBASE = "goes on top of the other once the two are merged"
    RETRY = "run the whole operation again on the new version"
    INCOMPATIBLE = "the other change makes this one meaningless"


def verdict(mine: Operation, theirs: Operation) -> Verdict:
    """Judge whether `mine` may follow `theirs`, which it was made without knowing of.

    A pair that the table does not list is incompatible, so an operation of the future is never
    built upon.
    """
    rule = _TABLE.get(mine.name, _NOTHING).get(theirs.name, Verdict.INCOMPATIBLE)
    return rule if isinstance(rule, Verdict) else rule(mine, theirs)


def _append_project(_mine: Append, theirs: Project) -> Verdict:
    """Appended nulls may be forbidden now."""
    return Verdict.COMPATIBLE if theirs.preserves_nullability else Verdict.RETRY


def _append_merge(mine: Append, theirs: Merge) -> Verdict:
    """Besides nulls, appended columns may have been replaced."""
    ids = {field.id for field in theirs.schema.fields}
    stored = {i for fragment in mine.fragments for file in fragment.files for i in file.fields}
    replaced = any(i >= 0 and i not in ids for i in stored)
    if replaced or not theirs.preserves_nullability:
        return Verdict.RETRY
    return Verdict.COMPATIBLE


def _overwrite_overwrite(mine: Overwrite, theirs: Overwrite) -> Verdict:
    """Neither may undo a setting of the other."""
    return Verdict.INCOMPATIBLE if mine.config.keys() & theirs.config.keys() else Verdict.RETRY


def _overwrite_update_config(mine: Overwrite, theirs: UpdateConfig) -> Verdict:
    """Only settings survive an overwrite, so only they can collide."""
    if _touches(theirs.config, mine.config):
        return Verdict.INCOMPATIBLE
    return Verdict.COMPATIBLE


def _touches(update: MapUpdate | None, keys: Mapping[str, str]) -> bool:
    if update is None or not keys:
        return False
    return update.replace or bool(update.entries.keys() & keys.keys())


Rule: TypeAlias = Verdict | Callable[[Any, Any], Verdict]

_OK = Verdict.COMPATIBLE
_NO = Verdict.INCOMPATIBLE
_NOTHING: Mapping[str, Rule] = MappingProxyType({})

_APPEND: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _append_merge,
    "Project": _append_project,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_OVERWRITE: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _overwrite_overwrite,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _OK,
    "Project": _OK,
    "Restore": _OK,
    "ReserveFragments": _OK,
    "UpdateConfig": _overwrite_update_config,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

# Rows are the change to be committed, columns the one that was there first.
_TABLE: Mapping[str, Mapping[str, Rule]] = MappingProxyType({
    "Append": _APPEND,
    "Overwrite": _OVERWRITE,
})
