"""Datasets between processes: what of a handle is sent, and how it is made again."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass

from alance.dataset.handle import Handle
from alance.errors import InvalidInputError
from alance.io.uri import StorageOptions, parse_uri
from alance.session import Session, current_session
from alance.table.external import ExternalHandler, ExternalManifestStore
from alance.table.manifest import Manifest, Naming
from alance.table.wire import build_manifest, parse_manifest

__all__ = ["SentDataset"]


@dataclass(frozen=True, slots=True)
class SentDataset:
    """A version of a dataset as it travels: address, options, and the manifest as it is stored.

    No connection, cache or session goes along, and none is needed to make it again: that reads
    nothing.
    """

    uri: str
    storage_options: StorageOptions
    manifest_store: ExternalManifestStore | None
    manifest: bytes
    naming: Naming

    @classmethod
    def of(cls, handle: Handle, manifest: Manifest) -> SentDataset:
        """Take down a version.

        Raises
        ------
        InvalidInputError
            The dataset is in memory, or its options or manifest store cannot be pickled.
        """
        config, _ = parse_uri(handle.uri, handle.storage_options)
        if handle.uri.startswith("memory:"):
            raise InvalidInputError(
                f"{handle.uri} is in the memory of one session and cannot be pickled; write it to "
                "a store that other processes can reach"
            )
        handler = handle.places.handler
        is_passed = isinstance(handler, ExternalHandler) and config.manifest_table is None
        entries = handler.entries if is_passed and isinstance(handler, ExternalHandler) else None
        for name, value in (
            ("storage_options", handle.storage_options),
            ("manifest_store", entries),
        ):
            _check_pickles(handle.uri, name, value)
        data = b"".join(build_manifest(manifest))
        return cls(handle.uri, handle.storage_options, entries, data, manifest.naming)

    def open(self) -> tuple[Handle, Manifest]:
        """Lead there again, through the session of the running loop, or outside of one a new one.

        Raises
        ------
        CorruptFileError, InvalidInputError
            What was sent makes no sense here.
        """
        handle = Handle.of(self.uri, self.storage_options, _session(), self.manifest_store)
        manifest = parse_manifest(memoryview(self.manifest), path=self.uri, naming=self.naming)
        return handle.at(manifest), manifest


def _session() -> Session:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return Session()
    return current_session()


def _check_pickles(uri: str, name: str, value: object) -> None:
    """Refuse what would fail in the midst of pickling something that holds the dataset."""
    try:
        pickle.dumps(value)
    except Exception as exc:  # whatever a foreign object's own methods raise
        raise InvalidInputError(
            f"the dataset {uri} cannot be pickled: its {name} holds something that cannot "
            f"({type(exc).__name__}: {exc}); open it in the other process instead, or pass options "
            "as text"
        ) from exc
