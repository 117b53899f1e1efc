"""The history of a dataset: going from one version to another, and what led to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.dataset.branches import Branches
from alance.dataset.tags import Tags
from alance.receipts import one_call
from alance.table.versions import list_versions, refresh

if TYPE_CHECKING:
    from typing import Self

    from alance.dataset.handle import Handle
    from alance.table.manifest import Manifest
    from alance.table.refs import Reference

__all__ = ["History"]


class History:
    """The part of `Dataset` that looks at other versions than its own.

    Parameters
    ----------
    handle
        Leads to the dataset and the files of this version.
    manifest
        This version.
    """

    def __init__(self, handle: Handle, manifest: Manifest) -> None:
        self._handle = handle
        self._manifest = manifest

    @property
    def branch(self) -> str | None:
        """Branch that this version is on; None for the main line."""
        return self._manifest.branch

    @property
    def tags(self) -> Tags:
        """Names of versions; see `Tags`."""
        return Tags(self._handle, self._manifest.version)

    @property
    def branches(self) -> Branches[Self]:
        """Lines of versions beside the main one; see `Branches`."""
        return Branches(self._handle, self._manifest.version, type(self))

    def _at(self, manifest: Manifest) -> Self:
        """Another version of the same line."""
        return type(self)(self._handle.at(manifest), manifest)

    @one_call
    async def versions(self) -> list[dict[str, Any]]:
        """List all versions, oldest first, as dicts of version, timestamp and metadata.

        Notes
        -----
        Requests: a listing, then one per version.
        """
        found = await list_versions(self._handle.places.table)
        return [
            {"version": one.version, "timestamp": one.timestamp, "metadata": dict(one.metadata)}
            for one in found
        ]

    @one_call
    async def checkout(self, version: Reference) -> Self:
        """Open another version of this dataset.

        Parameters
        ----------
        version
            A version number, of the branch that this dataset is on; the name of a tag; a branch and
            a version number on it, such as ``("main", 3)`` or ``("feature", None)``, None being the
            main line or the newest version; or a `datetime` with a time zone, for the newest
            version of this line that was committed then or before.

        Raises
        ------
        VersionNotFoundError
            There is no such version, tag or branch, or it has been cleaned up.
        InvalidInputError
            None of these.

        Notes
        -----
        Requests: one for a number; two in turn for a tag, or for the newest version of a branch; a
        listing and a few rounds of up to four for a time.
        """
        return type(self)(*await self._handle.find(version))

    @one_call
    async def latest(self) -> Self:
        """Open the newest version; one round of requests where it is this one or the next."""
        manifest = await refresh(self._handle.places.table, self._manifest)
        return self if manifest is self._manifest else self._at(manifest)
