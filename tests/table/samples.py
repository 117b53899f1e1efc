"""Small tables that exist only as metadata, and shorthand for committing to them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from alance.file.schema import Field, Schema
from alance.io.simulated import Hook, Moment, Request, SimulatedStore
from alance.io.store import ObjectStore
from alance.table.commit import CommitPolicy, commit
from alance.table.handler import ConditionalPut
from alance.table.location import CommitHandler, TableLocation
from alance.table.manifest import DataFile, Fragment, Manifest
from alance.table.transaction import Transaction, build_append, build_overwrite
from alance.types import FileVersion
from tests.table.entries import StoreWithEntries

ROOT = "t.lance"
POLICY = CommitPolicy(attempts_max=5, put_deadline_s=60.0)


def schema(*names: str, nullable: bool = True) -> Schema:
    """Columns of int64, with ids from 0."""
    fields = [Field(name, i, -1, "int64", nullable) for i, name in enumerate(names or ("a", "b"))]
    return Schema(tuple(fields))


def fragment(
    path: str, *, rows: int = 10, fields: tuple[int, ...] = (0, 1), id: int = 0
) -> Fragment:
    """A fragment of one file."""
    indices = tuple(range(len(fields)))
    file = DataFile(f"{path}.lance", fields, indices, FileVersion.V2_1, file_size_bytes=100)
    return Fragment(id, (file,), rows)


def manifest(version: int = 1, *fragments: Fragment, **rest: object) -> Manifest:
    """A manifest with two columns."""
    members: dict[str, object] = {
        "version": version,
        "schema": schema(),
        "fragments": fragments,
        "file_version": FileVersion.V2_1,
        "timestamp_ns": 1_700_000_000_123_456_789,
        "max_fragment_id": max((f.id for f in fragments), default=None),
        **rest,
    }
    return Manifest(**members)  # type: ignore[arg-type]


def creation(uuid: str = "create", **rest: object) -> Transaction:
    """A transaction that creates the table with one fragment."""
    options: dict[str, object] = {"file_version": FileVersion.V2_1, **rest}
    return build_overwrite(None, schema(), [fragment(uuid)], uuid=uuid, **options)  # type: ignore[arg-type]


def append(base: Manifest, uuid: str, *, rows: int = 10) -> Transaction:
    """A transaction that appends one fragment, its file named like the transaction."""
    return build_append(base, [fragment(uuid, rows=rows)], uuid=uuid)


def at(store: ObjectStore, root: str = ROOT) -> TableLocation:
    """Table of which the store itself guards the versions, or the entries beside it."""
    handler = store.handler if isinstance(store, StoreWithEntries) else ConditionalPut()
    return TableLocation(store, root, handler)


async def pause(_: float) -> None:
    """Take no time."""


async def put(
    store: SimulatedStore,
    transaction: Transaction,
    base: Manifest | None,
    *,
    policy: CommitPolicy = POLICY,
    look: bool = False,
    handler: CommitHandler | None = None,
    **more: Any,
) -> Manifest:
    """Commit without waiting, at a fixed time."""
    return await commit(
        at(store) if handler is None else TableLocation(store, ROOT, handler),
        transaction,
        base=base,
        rng=random.Random(1),
        policy=policy,
        look=look,
        sleep=pause,
        **{"now_ns": lambda: 1_700_000_000_000_000_000, **more},
    )


def meeting(kind: str = "") -> Hook:
    """Hold requests, of one kind or any, until two are there: they end only if sent together."""
    both, waiting = anyio.Event(), 0

    async def meet(request: Request, moment: Moment) -> None:
        nonlocal waiting
        if moment is Moment.BEFORE and request.kind == (kind or request.kind):
            waiting += 1
            if waiting == 2:
                both.set()
            await both.wait()

    return meet


def paths(manifest: Manifest) -> list[str]:
    """Names of the data files, without ending, in dataset order."""
    files = [file for fragment in manifest.fragments for file in fragment.files]
    return [file.path.removesuffix(".lance") for file in files]


def objects_below(folder: Path) -> Mapping[str, bytes]:
    """Files of a local dataset, by key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in files}


def load(store: SimulatedStore, folder: Path) -> str:
    """Copy a local dataset into a store; its root there."""
    for key, data in objects_below(folder).items():
        store.preload(key, data)
    return folder.name
