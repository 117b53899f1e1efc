"""The public API without `await`, for scripts, notebooks and Spark workers.

All calls run on one event loop per process, in a background thread that starts with the first call.
A forked child notices that it is another process and starts its own.
"""

from __future__ import annotations

from alance.sync.dataset import Dataset
from alance.sync.entry import (
    commit_fragments,
    discard_fragments,
    open_dataset,
    write_dataset,
    write_fragments,
)
from alance.sync.files import FileReader, FileWriter, create_file, open_file
from alance.sync.refs import Branches, Tags
from alance.sync.scan import Scan

__all__ = [
    "Branches",
    "Dataset",
    "FileReader",
    "FileWriter",
    "Scan",
    "Tags",
    "commit_fragments",
    "create_file",
    "discard_fragments",
    "open_dataset",
    "open_file",
    "write_dataset",
    "write_fragments",
]
