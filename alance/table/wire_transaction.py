"""Protobuf <-> transactions; `wire_operations` has what is in them."""

from __future__ import annotations

from alance.proto import transaction_pb2 as transactions
from alance.table.transaction import Transaction
from alance.table.wire import decode
from alance.table.wire_operations import build_operation, parse_operation

__all__ = ["build_transaction", "parse_transaction"]


def parse_transaction(data: bytes | memoryview, *, path: str) -> Transaction:
    """Read a transaction file, or the transaction section of a manifest.

    Parameters
    ----------
    data
        The message.
    path
        For messages.

    Raises
    ------
    CorruptFileError
        The bytes are no transaction, or contradict the format.
    UnsupportedFeatureError
        The operation holds what this library does not know.
    """
    message = decode(transactions.Transaction, data, path)
    return Transaction(
        read_version=message.read_version,
        uuid=message.uuid,
        operation=parse_operation(message, path),
        tag=message.tag,
        properties=dict(message.transaction_properties),
    )


def build_transaction(transaction: Transaction) -> bytes:
    """Transaction as bytes: the whole content of a transaction file."""
    message = transactions.Transaction(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        tag=transaction.tag,
        transaction_properties=transaction.properties,
    )
    build_operation(transaction.operation, message)
    return message.SerializeToString(deterministic=True)
