"""Which commit handler a table has."""

from __future__ import annotations

from collections.abc import Mapping

from alance.errors import InvalidInputError
from alance.io.uri import StoreConfig
from alance.table.dynamodb import DynamoManifestStore
from alance.table.external import ExternalHandler, ExternalManifestStore
from alance.table.handler import ConditionalPut
from alance.table.location import CommitHandler
from alance.table.probe import ProbedPut

__all__ = ["CommitHandlers"]


class CommitHandlers:
    """The commit handlers of one session: what one has found out serves all tables of its store."""

    def __init__(self) -> None:
        self._probed: dict[tuple[object, ...], ProbedPut] = {}
        self._dynamo: dict[tuple[object, ...], ExternalHandler] = {}

    def of(self, config: StoreConfig, entries: ExternalManifestStore | None) -> CommitHandler:
        """Handler for tables in a store; sends nothing.

        Parameters
        ----------
        config
            Of the store, which is kept open.
        entries
            External manifest store that the user passed, or None.

        Raises
        ------
        InvalidInputError
            `entries` is none, or the URI names another.
        """
        if entries is not None:
            if not isinstance(entries, ExternalManifestStore):
                raise InvalidInputError(
                    f"manifest_store must be an ExternalManifestStore, not {entries!r}"
                )
            if config.manifest_table is not None:
                raise InvalidInputError(
                    "the URI names a DynamoDB table: pass no manifest_store beside it"
                )
            return ExternalHandler(entries)
        if config.manifest_table is not None:
            key = (*config.key, config.manifest_table, config.manifest_endpoint)
            if key not in self._dynamo:
                self._dynamo[key] = ExternalHandler(_dynamo(config, config.manifest_table))
            return self._dynamo[key]
        if config.is_known:
            return ConditionalPut()
        return self._probed.setdefault(config.key, ProbedPut())


def _dynamo(config: StoreConfig, table: str) -> DynamoManifestStore:
    """Store in the table that a URI names, with the region and credentials of its bucket."""
    options = dict(config.options)
    return DynamoManifestStore(
        table,
        region=_first(options, "region", "default_region"),
        endpoint=config.manifest_endpoint,
        access_key_id=_first(options, "access_key_id"),
        secret_access_key=_first(options, "secret_access_key"),
        session_token=_first(options, "session_token", "token"),
    )


def _first(options: Mapping[str, str], *names: str) -> str | None:
    """Value of the first of these options that is there, with or without `aws_` before it."""
    spelled = [spelling for name in names for spelling in (f"aws_{name}", name)]
    return next((options[name] for name in spelled if name in options), None)
