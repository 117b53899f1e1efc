"""A store object of obstore that can be made anew, and what every use of obstore goes through."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from obstore.store import MemoryStore

from alance.errors import StoreError
from alance.io.exit import OutstandingObjects
from alance.io.forked import ObstoreLibrary

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

__all__ = ["AnyStore", "Handle", "Make", "library", "outstanding", "remake"]

AnyStore: TypeAlias = "AzureStore | GCSStore | LocalStore | MemoryStore | S3Store"
Make: TypeAlias = Callable[[ModuleType], AnyStore]
"""Makes a store as an object of one loaded copy of obstore."""

library = ObstoreLibrary()
outstanding = OutstandingObjects(drain=lambda: library.use().Bytes())


class Handle:
    """Holds a store object; makes another where that one is of no use any more.

    Parameters
    ----------
    url
        Scheme and bucket, for messages.
    store
        The object; None to make it at first use.
    make
        Makes the same again.
    has_credentials
        Whether its credentials come from a provider, so that another object may have fresh ones.
    """

    def __init__(
        self, url: str, store: AnyStore | None, make: Make, *, has_credentials: bool = False
    ) -> None:
        self._url = url
        self._store = store
        self._make = make
        self._has_credentials = has_credentials

    def use(self) -> AnyStore:
        """Return the store; after a fork one of the child's own, with connections of its own.

        Raises
        ------
        StoreError
            It is in the parent's memory.
        """
        store = self._store
        if store is None or not isinstance(store, getattr(library.use().store, _name(store))):
            if isinstance(store, MemoryStore):
                raise StoreError(f"{self._url} is in the memory of this forked process's parent")
            store = self._store = self._make(library.use())
        return store

    def renew(self, used: AnyStore | None = None) -> bool:
        """Ask the credential provider anew, unless that was done since `used` was taken.

        obstore keeps what a provider gave until the time it named. A store may think otherwise.

        Parameters
        ----------
        used
            What a request failed with; None for whatever is in use now.

        Returns
        -------
        bool
            Whether a request may go better now.
        """
        if self._has_credentials and (used is None or self._store is used):
            self._store = None
        return self._has_credentials


def remake(store: Any, copy: ModuleType) -> AnyStore:
    """Make the same store from another copy of obstore, by what pickling would keep of it."""
    arguments, options = store.__getnewargs_ex__()
    made: AnyStore = getattr(copy.store, _name(store))(*arguments, **options)
    return made


def _name(store: AnyStore) -> str:
    return type(store).__name__
