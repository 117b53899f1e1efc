"""Tags and branches without `await`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alance.dataset.branches import Branches as AsyncBranches
from alance.dataset.dataset import Dataset as AsyncDataset
from alance.dataset.tags import Tags as AsyncTags
from alance.sync.run import run

if TYPE_CHECKING:
    from alance.table.refs import Reference

__all__ = ["Branches", "Tags"]

D = TypeVar("D")


class Tags:
    """`alance.Tags` without `await`."""

    def __init__(self, tags: AsyncTags) -> None:
        self._tags = tags

    def list(self) -> dict[str, dict[str, Any]]:
        """All tags by name; see `alance.Tags.list`."""
        return run(self._tags.list)

    def get_version(self, name: str) -> int:
        """Number of the version that a tag stands for."""
        return run(lambda: self._tags.get_version(name))

    def create(self, name: str, version: Reference | None = None) -> None:
        """Give a version a name; see `alance.Tags.create`."""
        run(lambda: self._tags.create(name, version))

    def update(self, name: str, version: Reference | None = None) -> None:
        """Move a tag to another version."""
        run(lambda: self._tags.update(name, version))

    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Keep this text with a tag, in place of what was kept with it."""
        run(lambda: self._tags.replace_metadata(name, metadata))

    def delete(self, name: str) -> None:
        """Remove a tag; the version stays."""
        run(lambda: self._tags.delete(name))


class Branches(Generic[D]):
    """`alance.Branches` without `await`."""

    def __init__(
        self, branches: AsyncBranches[AsyncDataset], make: Callable[[AsyncDataset], D]
    ) -> None:
        self._branches = branches
        self._make = make

    def list(self) -> dict[str, dict[str, Any]]:
        """All branches by name; see `alance.Branches.list`."""
        return run(self._branches.list)

    def create(self, name: str, version: Reference | None = None) -> D:
        """Begin a branch with a version of this dataset; see `alance.Branches.create`."""
        return self._make(run(lambda: self._branches.create(name, version)))

    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Keep this text with a branch, in place of what was kept with it."""
        run(lambda: self._branches.replace_metadata(name, metadata))

    def delete(self, name: str) -> None:
        """Remove a branch with everything that was written on it."""
        run(lambda: self._branches.delete(name))
