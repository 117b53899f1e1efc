"""One attempt to make a version, and what became of it: landed, lost, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitStateUnknownError,
    FormatError,
    PermissionDeniedError,
    StoreError,
    UnsupportedFeatureError,
)
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.transaction import Transaction
from alance.table.versions import read_version
from alance.table.wire_transaction import parse_transaction

__all__ = ["Landed", "Lost", "Open", "Outcome", "Sender"]


@dataclass(frozen=True, slots=True)
class Landed:
    """The version is ours."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Lost:
    """The version is another's."""

    winner: Manifest


@dataclass(frozen=True, slots=True)
class Open:
    """The put failed and nothing is there, but it may still arrive."""

    error: AlanceError


Outcome: TypeAlias = Landed | Lost | Open


@dataclass(slots=True)
class Sender:
    """Sends the manifests of one commit, and finds out about each of them.

    Parameters
    ----------
    table
        Where they go.
    read_version, uuid
        Of the transaction.
    deadline_s
        For one manifest: the put, the store's own retries, and reading back what became of it.
    may_stand
        Whether a manifest was sent that is not known to have lost.
    """

    table: TableLocation
    read_version: int
    uuid: str
    deadline_s: float
    may_stand: bool = False

    async def send(self, manifest: Manifest, data: Sequence[bytes], *, resent: bool) -> Outcome:
        """Put a manifest; whatever is answered but success, look what is there.

        Parameters
        ----------
        manifest
            The version to be made.
        data
            It, serialized.
        resent
            Whether the same version was sent before and may still arrive.

        Raises
        ------
        CommitStateUnknownError
            It cannot be found out, or not in time.
        PermissionDeniedError
            The store refused and nothing can have landed.
        UnsupportedFeatureError
            Another's manifest is there, and uses what this library does not know.
        """
        table = self.table
        self.may_stand = True
        with anyio.move_on_after(self.deadline_s):
            try:
                await table.handler.put(
                    table.store, table.root, manifest.version, manifest.naming, data
                )
            except (AlreadyExistsError, StoreError) as exc:
                outcome = await self._read_back(manifest, exc)
                refused = isinstance(exc, PermissionDeniedError)
                if isinstance(outcome, Open) and refused and not resent:
                    self.may_stand = False
                    raise
                return outcome
            return Landed(manifest)
        raise self.unknown(manifest.version)

    async def _read_back(self, manifest: Manifest, error: AlanceError) -> Outcome:
        """Whose manifest stands where ours should: no error answer is a verdict by itself.

        The store retries, so even "exists" and "denied" may follow a put that went through.
        """
        try:
            stored = await read_version(self.table, manifest.version, manifest.naming)
        except UnsupportedFeatureError:
            self.may_stand = False
            raise  # another's: ours can be read
        except AlanceError as exc:
            raise self.unknown(manifest.version) from exc
        if stored is None:
            return Open(error)
        self.may_stand = self.is_ours(stored)
        return Landed(stored) if self.may_stand else Lost(stored)

    def is_ours(self, manifest: Manifest) -> bool:
        """Whether a version was made by this transaction, at whatever attempt."""
        if manifest.transaction_file:
            return manifest.transaction_file.endswith(f"-{self.uuid}.txn")
        theirs = _inline_transaction(manifest)
        return theirs is not None and theirs.uuid == self.uuid

    def unknown(self, version: int) -> CommitStateUnknownError:
        """Say that nobody knows whether a version is ours."""
        return CommitStateUnknownError(
            f"whether version {version} of {self.table.url} was committed is not known: "
            f"the answer was lost; look for transaction {self.uuid} in the history "
            "before writing the same data again",
            **self.details(version),
        )

    def details(self, version: int) -> dict[str, int | str]:
        """Attributes of an error about an attempt at a version."""
        return {"read_version": self.read_version, "version": version, "uuid": self.uuid}


def _inline_transaction(manifest: Manifest) -> Transaction | None:
    """The record in a manifest; None where there is none, or one of a kind that is not ours."""
    if manifest.transaction is None:
        return None
    try:
        return parse_transaction(manifest.transaction, path=f"version {manifest.version}")
    except FormatError:
        return None
