"""Which changes may follow each other unseen: a verdict for every pair of operations.

The table below is the format's own: what a writer of a change must do when another change that it
had not seen has been committed first. It is pure; what a rebase takes is done by
`alance.table.rebase`. Where the rules here ask for more than the reference's, docs/conflicts.md
says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from alance.table import conflicts_rules as rules
from alance.table import conflicts_settings as settings
from alance.table.conflicts_rules import Verdict
from alance.table.operations import Delete, Operation, Update

__all__ = ["Verdict", "verdict"]


def verdict(mine: Operation, theirs: Operation, *, has_affected_rows: bool = False) -> Verdict:
    """Judge whether `mine` may follow `theirs`, which it was made without knowing of.

    A pair that the table does not list is incompatible, so an operation of the future is never
    built upon.

    Parameters
    ----------
    mine
        The change to be committed.
    theirs
        One that was committed after the version that `mine` was made on.
    has_affected_rows
        Whether it is known which rows `mine` deletes, as merging them with those of `theirs` needs.

    Raises
    ------
    CorruptFileError
        A bitmap in one of the two is damaged.
    """
    rule = _TABLE.get(mine.name, _NOTHING).get(theirs.name, Verdict.INCOMPATIBLE)
    judged = rule if isinstance(rule, Verdict) else rule(mine, theirs)
    merges_rows = judged is Verdict.REBASE and isinstance(mine, Delete | Update)
    return Verdict.RETRY if merges_rows and not has_affected_rows else judged


Rule: TypeAlias = Verdict | Callable[[Any, Any], Verdict]

_OK = Verdict.COMPATIBLE
_RETRY = Verdict.RETRY
_NO = Verdict.INCOMPATIBLE
_NOTHING: Mapping[str, Rule] = MappingProxyType({})

_APPEND: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": rules.append_after_merge,
    "Project": rules.nulls,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_DELETE: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": rules.rows,
    "Update": rules.rows,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": rules.shared_fragments,
    "Merge": _RETRY,
    "Project": _OK,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": rules.shared_fragments,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_UPDATE: Mapping[str, Rule] = MappingProxyType({
    "Append": rules.update_after_append,
    "Delete": rules.rows,
    "Update": rules.updates,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": rules.shared_fragments,
    "Merge": _RETRY,
    "Project": rules.update_after_project,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": rules.shared_fragments,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": rules.update_after_mem_wal,
    "DataOverlay": _RETRY,
})

_OVERWRITE: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": settings.overwrites,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _OK,
    "Project": _OK,
    "Restore": _OK,
    "ReserveFragments": _OK,
    "UpdateConfig": settings.overwrite_after_config,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_CREATEINDEX: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": rules.index_after_update,
    "Overwrite": _NO,
    "CreateIndex": rules.indices,
    "Rewrite": rules.index_after_rewrite,
    "Merge": rules.index_and_merge,
    "Project": _OK,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": rules.data_and_index,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_REWRITE: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": rules.shared_fragments,
    "Update": rules.shared_fragments,
    "Overwrite": _NO,
    "CreateIndex": rules.rewrite_after_index,
    "Rewrite": rules.rewrites,
    "Merge": _RETRY,
    "Project": _OK,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": rules.shared_fragments,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _OK,
    "DataOverlay": _RETRY,
})

_MERGE: Mapping[str, Rule] = MappingProxyType({
    "Append": _RETRY,
    "Delete": _RETRY,
    "Update": _RETRY,
    "Overwrite": _NO,
    "CreateIndex": rules.index_and_merge,
    "Rewrite": _RETRY,
    "Merge": _RETRY,
    "Project": _NO,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": settings.config_and_merge,
    "DataReplacement": _RETRY,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _RETRY,
})

_PROJECT: Mapping[str, Rule] = MappingProxyType({
    "Append": rules.nulls,
    "Delete": _OK,
    "Update": rules.nulls,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _RETRY,
    "Project": _RETRY,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": rules.project_after_config,
    "DataReplacement": rules.nulls,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_RESTORE: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _OK,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _OK,
    "Project": _OK,
    "Restore": _OK,
    "ReserveFragments": _OK,
    "UpdateConfig": settings.restore_after_config,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_RESERVEFRAGMENTS: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _NO,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _OK,
    "Project": _OK,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _OK,
    "DataOverlay": _OK,
})

_UPDATECONFIG: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": settings.config_after_overwrite,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": settings.config_and_merge,
    "Project": settings.config_after_project,
    "Restore": settings.config_after_restore,
    "ReserveFragments": _OK,
    "UpdateConfig": settings.configs,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _OK,
    "DataOverlay": _OK,
})

_DATAREPLACEMENT: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": rules.data_after_delete,
    "Update": rules.data_after_update,
    "Overwrite": _NO,
    "CreateIndex": rules.data_and_index,
    "Rewrite": rules.shared_fragments,
    "Merge": _RETRY,
    "Project": rules.data_after_project,
    "Restore": _NO,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": rules.data_after_data,
    "Clone": _OK,
    "UpdateBases": _OK,
    "UpdateMemWalState": _NO,
    "DataOverlay": _OK,
})

_UPDATEBASES: Mapping[str, Rule] = MappingProxyType({
    "Append": _OK,
    "Delete": _OK,
    "Update": _OK,
    "Overwrite": _OK,
    "CreateIndex": _OK,
    "Rewrite": _OK,
    "Merge": _OK,
    "Project": _OK,
    "Restore": _OK,
    "ReserveFragments": _OK,
    "UpdateConfig": _OK,
    "DataReplacement": _OK,
    "Clone": _OK,
    "UpdateBases": settings.bases,
    "UpdateMemWalState": _OK,
    "DataOverlay": _OK,
})

# Rows are the change to be committed, columns the one that was there first. A clone has no row: it
# begins a table, so it follows nothing.
_TABLE: Mapping[str, Mapping[str, Rule]] = MappingProxyType({
    "Append": _APPEND,
    "Delete": _DELETE,
    "Update": _UPDATE,
    "Overwrite": _OVERWRITE,
    "CreateIndex": _CREATEINDEX,
    "Rewrite": _REWRITE,
    "Merge": _MERGE,
    "Project": _PROJECT,
    "Restore": _RESTORE,
    "ReserveFragments": _RESERVEFRAGMENTS,
    "UpdateConfig": _UPDATECONFIG,
    "DataReplacement": _DATAREPLACEMENT,
    "UpdateBases": _UPDATEBASES,
})
