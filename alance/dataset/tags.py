"""`ds.tags`: names for versions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from alance.dataset.refs import list_tags, manifest_size, read_tag
from alance.dataset.writing import check_texts
from alance.errors import AlreadyExistsError, StoreError, VersionNotFoundError
from alance.receipts import one_call
from alance.table.refs import Tag, build_tag, check_tag_name, tag_path

if TYPE_CHECKING:
    from alance.dataset.handle import Handle
    from alance.table.refs import Reference

__all__ = ["Tags"]


class Tags:
    """Names for versions of a dataset, of all its branches; a tagged version is never cleaned up.

    Made by `Dataset.tags`. Tags belong to the dataset rather than to one of its versions: every
    call looks at what is there now.
    """

    def __init__(self, handle: Handle, version: int) -> None:
        self._handle = handle
        self._version = version

    @one_call
    async def list(self) -> dict[str, dict[str, Any]]:
        """All tags by name, sorted, as dicts.

        Each has branch (None for the main line), version, created_at, updated_at, manifest_size and
        metadata.

        Notes
        -----
        Requests: a listing, then one per tag.
        """
        found = await list_tags(self._handle.main)
        return {name: _describe(tag) for name, tag in found.items()}

    @one_call
    async def get_version(self, name: str) -> int:
        """Number of the version that a tag stands for, on its branch; one request.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        return (await read_tag(self._handle.main, name)).version

    @one_call
    async def create(self, name: str, version: Reference | None = None) -> None:
        """Give a version a name.

        Parameters
        ----------
        name
            Letters, digits, '.', '-' and '_', with no dot at either end and no '..'.
        version
            As for `Dataset.checkout`; None is the version of this dataset.

        Raises
        ------
        AlreadyExistsError
            There is a tag of this name.
        VersionNotFoundError
            There is no such version.
        InvalidInputError
            No name, or no version.

        Notes
        -----
        Requests: those of finding the version, then two in turn.
        """
        path = tag_path(self._handle.main.root, check_tag_name(name))
        now = datetime.now(UTC)
        tag = replace(await self._resolve(version), created_at=now, updated_at=now)
        try:
            await self._handle.main.store.put_if_absent(path, build_tag(tag))
        except (AlreadyExistsError, StoreError) as exc:
            if not await self._is_ours(name, tag):
                if isinstance(exc, StoreError):
                    raise
                raise AlreadyExistsError(
                    f"{self._handle.main.url} has a tag {name!r} already; move it with update",
                    path=path,
                ) from exc

    @one_call
    async def update(self, name: str, version: Reference | None = None) -> None:
        """Move a tag to another version.

        Parameters are those of `create`.

        Raises
        ------
        VersionNotFoundError
            There is no such tag or version.
        InvalidInputError
            No version.
        """
        tag = await read_tag(self._handle.main, name)
        found = await self._resolve(version)
        moved = replace(
            found,
            created_at=tag.created_at,
            updated_at=datetime.now(UTC),
            metadata=tag.metadata,
        )
        await self._put(name, moved)

    @one_call
    async def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Keep this text with a tag, in place of what was kept with it.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        InvalidInputError
            Not a mapping of text to text.
        """
        texts = check_texts("metadata", metadata)
        tag = await read_tag(self._handle.main, name)
        await self._put(name, replace(tag, metadata=texts))

    @one_call
    async def delete(self, name: str) -> None:
        """Remove a tag; the version stays.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        await read_tag(self._handle.main, name)
        await self._handle.main.store.delete(tag_path(self._handle.main.root, name))

    async def _is_ours(self, name: str, tag: Tag) -> bool:
        """Whether what stands there is what was put: it may be, whatever the store answered."""
        with suppress(VersionNotFoundError):
            return await read_tag(self._handle.main, name) == tag
        return False

    async def _put(self, name: str, tag: Tag) -> None:
        main = self._handle.main
        await main.store.put(tag_path(main.root, name), build_tag(tag))

    async def _resolve(self, version: Reference | None) -> Tag:
        """A tag for a version that exists."""
        reference = self._version if version is None else version
        handle, manifest = await self._handle.find(reference)
        num_bytes = await manifest_size(handle.places.table, manifest)
        return Tag(handle.branch, manifest.version, manifest_size=num_bytes)


def _describe(tag: Tag) -> dict[str, Any]:
    return {
        "branch": tag.branch,
        "version": tag.version,
        "created_at": tag.created_at,
        "updated_at": tag.updated_at,
        "manifest_size": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }
