"""An asyncio-native engine for Lance datasets in cloud storage."""

from __future__ import annotations

import importlib
import typing

from alance.dataset.dataset import Dataset
from alance.dataset.entry import (
    commit_fragments,
    discard_fragments,
    open_dataset,
    write_dataset,
    write_fragments,
)
from alance.dataset.file_reader import FileReader, open_file
from alance.dataset.file_writer import FileWriter, create_file
from alance.dataset.scan import Scan
from alance.dataset.writing import WriteProgress
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitConflictError,
    CommitContentionError,
    CommitError,
    CommitStateUnknownError,
    CorruptFileError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    RetryableCommitError,
    SchemaMismatchError,
    StoreError,
    StoreTimeoutError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from alance.file.cache import CacheStats
from alance.io.link import StoreStats
from alance.limits import Limits
from alance.receipts import Receipt, receipt
from alance.session import Session, SessionStats
from alance.table.dynamodb import DynamoManifestStore
from alance.table.external import ExternalManifestStore, ManifestEntry
from alance.table.manifest import DataFile, DeletionFile, Fragment

if typing.TYPE_CHECKING:
    from alance import sync
    from alance.dataset.branches import Branches
    from alance.dataset.cleanup import CleanupProgress, CleanupStats
    from alance.dataset.tags import Tags
    from alance.dataset.transactions import TransactionInfo
    from alance.table.cleanup import CleanupFile, FileKind
    from alance.table.sqlite_store import SqliteManifestStore

__all__ = [
    "AlanceError",
    "AlreadyExistsError",
    "Branches",
    "CacheStats",
    "CleanupFile",
    "CleanupProgress",
    "CleanupStats",
    "CommitConflictError",
    "CommitContentionError",
    "CommitError",
    "CommitStateUnknownError",
    "CorruptFileError",
    "DataFile",
    "Dataset",
    "DatasetAlreadyExistsError",
    "DatasetNotFoundError",
    "DeletionFile",
    "DynamoManifestStore",
    "ExternalManifestStore",
    "FileKind",
    "FileReader",
    "FileWriter",
    "FormatError",
    "Fragment",
    "InvalidInputError",
    "Limits",
    "ManifestEntry",
    "NotFoundError",
    "ObjectNotFoundError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "Receipt",
    "RetryableCommitError",
    "Scan",
    "SchemaMismatchError",
    "Session",
    "SessionStats",
    "SqliteManifestStore",
    "StoreError",
    "StoreStats",
    "StoreTimeoutError",
    "Tags",
    "TransactionInfo",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "WriteProgress",
    "commit_fragments",
    "create_file",
    "discard_fragments",
    "open_dataset",
    "open_file",
    "receipt",
    "sync",
    "write_dataset",
    "write_fragments",
]

__version__ = "0.1.0"

_LATE = {
    "Branches": "alance.dataset.branches",
    "CleanupFile": "alance.table.cleanup",
    "CleanupProgress": "alance.dataset.cleanup",
    "CleanupStats": "alance.dataset.cleanup",
    "FileKind": "alance.table.cleanup",
    "SqliteManifestStore": "alance.table.sqlite_store",
    "Tags": "alance.dataset.tags",
    "TransactionInfo": "alance.dataset.transactions",
    "sync": "alance.sync",
}
"""Names that few programs use, and the modules which they are loaded from at first use."""


if not typing.TYPE_CHECKING:  # which would take any name then

    def __getattr__(name: str) -> object:
        if name not in _LATE:
            raise AttributeError(f"module 'alance' has no attribute {name!r}")
        value: object = importlib.import_module(_LATE[name])
        if name != "sync":
            value = getattr(value, name)
            value.__module__ = "alance"
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _name in __all__:
    if _name not in _LATE:
        globals()[_name].__module__ = "alance"
del _name
