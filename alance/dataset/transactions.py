"""What the history says of the changes that made versions."""

from __future__ import annotations

from dataclasses import dataclass, field

from alance.table.transaction import Transaction

__all__ = ["COMMIT_MESSAGE", "TransactionInfo"]

COMMIT_MESSAGE = "__lance_commit_message"
"""Transaction property that holds the message of a commit."""


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """The change that made a version.

    Parameters
    ----------
    uuid
        Identifies the change.
    read_version
        Version that it was made on; 0 when it created the dataset.
    operation
        What changed: "Append", "Delete", "Overwrite", "Update", "Restore", ... "Unknown" for one
        that is newer than this library.
    transaction_properties
        Text by key, as given by whoever made the change.
    """

    uuid: str
    read_version: int
    operation: str
    transaction_properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, transaction: Transaction) -> TransactionInfo:
        """Take what users may rely on from a transaction."""
        return cls(
            transaction.uuid,
            transaction.read_version,
            transaction.operation.name,
            dict(transaction.properties),
        )

    @property
    def commit_message(self) -> str | None:
        """The property ``__lance_commit_message``; None when there is none."""
        return self.transaction_properties.get(COMMIT_MESSAGE)
