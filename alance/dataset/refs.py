"""Reading the files of tags and branches, one or all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from alance.errors import ObjectNotFoundError, VersionNotFoundError, check_text
from alance.table.location import TableLocation
from alance.table.manifest import Manifest
from alance.table.objects import read_object
from alance.table.refs import (
    REF_BYTES_MAX,
    Branch,
    Tag,
    branch_path,
    parse_branch,
    parse_tag,
    ref_name,
    refs_prefix,
    tag_path,
)
from alance.table.versions import read_all

__all__ = ["list_branches", "list_tags", "manifest_size", "read_branch", "read_tag"]

R = TypeVar("R", Tag, Branch)


async def read_tag(main: TableLocation, name: str) -> Tag:
    """Read a tag; one request.

    Raises
    ------
    VersionNotFoundError
        There is none of this name.
    InvalidInputError
        The name is no text.
    CorruptFileError
        Its file is damaged.
    """
    path = tag_path(main.root, check_text("a tag's name", name))
    found = await _read(main, path, parse_tag)
    if found is None:
        raise VersionNotFoundError(f"{main.url} has no tag {name!r}", uri=main.url, version=name)
    return found


async def read_branch(main: TableLocation, name: str) -> Branch:
    """Read what a branch began from; one request.

    Raises
    ------
    VersionNotFoundError
        There is none of this name.
    CorruptFileError
        Its file is damaged.
    """
    found = await _read(main, branch_path(main.root, name), parse_branch)
    if found is None:
        raise VersionNotFoundError(f"{main.url} has no branch {name!r}", uri=main.url, version=name)
    return found


async def list_tags(main: TableLocation) -> dict[str, Tag]:
    """All tags by name, sorted; a listing, then one request each."""
    return await _read_all(main, "tags", parse_tag)


async def list_branches(main: TableLocation) -> dict[str, Branch]:
    """All branches by name, sorted; a listing, then one request each."""
    return await _read_all(main, "branches", parse_branch)


async def manifest_size(table: TableLocation, manifest: Manifest) -> int:
    """Bytes of a stored manifest, which readers rely on; one request, two above 64 KiB.

    Raises
    ------
    VersionNotFoundError
        It has been cleaned up meanwhile.
    """
    version = manifest.version
    data = await table.handler.read(table.store, table.root, version, manifest.naming)
    if data is None:
        raise VersionNotFoundError(
            f"version {version} of {table.url} has just been cleaned up",
            uri=table.url,
            version=version,
        )
    return data.nbytes


async def _read_all(main: TableLocation, kind: str, parse: Callable[..., R]) -> dict[str, R]:
    prefix = refs_prefix(main.root, kind)
    paths = {}
    for info in await main.store.list(prefix):
        name = ref_name(info.path, prefix)
        if name is not None:
            paths[name] = info.path
    names = sorted(paths)
    reads = [partial(_read, main, paths[name], parse) for name in names]
    async with aclosing(read_all(reads)) as answers:
        found = [answer async for answer in answers]
    return {name: one for name, one in zip(names, found, strict=True) if one is not None}


async def _read(main: TableLocation, path: str, parse: Callable[..., R]) -> R | None:
    try:
        data = await read_object(main.store, path, bytes_max=REF_BYTES_MAX)
    except ObjectNotFoundError:
        return None
    return parse(data, path=f"{main.store.url}/{path}")
