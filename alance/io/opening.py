"""Makes the store of a URI out of the options that users pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

from alance.errors import InvalidInputError
from alance.io.handle import AnyStore
from alance.io.local import LocalFileStore
from alance.io.obstore import ObstoreStore
from alance.io.obstore_errors import summary
from alance.io.uri import StoreConfig
from alance.limits import Limits

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["limits_of", "open_store", "path_in_store"]

T = TypeVar("T", int, float)

PART_RETRIES_MAX = 8
PART_RETRY_S_MAX = 60
RETRIES = "client_max_retries"
RETRY_S = "client_retry_timeout"

_SCHEME_OF = {
    S3Store: "s3",
    GCSStore: "gs",
    AzureStore: "az",
    LocalStore: "file",
    MemoryStore: "memory",
}


def open_store(config: StoreConfig) -> ObstoreStore:
    """Make the store of a config, or wrap the obstore store given in it; sends nothing.

    Raises
    ------
    InvalidInputError
        An option is unknown or has an unusable value, or the given store is none of obstore's or
        belongs to another place than the URI.
    """
    if config.store is not None:
        given = _adopted(config)
        provider = getattr(given, "credential_provider", None)
        return ObstoreStore(given, config.url, has_credentials=provider is not None)
    if config.scheme == "file":
        return LocalFileStore(config.url)
    if config.scheme == "memory":
        return ObstoreStore(MemoryStore(), config.url)
    make = partial(_make, config, False)
    try:
        made = make(obstore)
    except InvalidInputError:
        raise
    except Exception as exc:
        raise InvalidInputError(
            f"{config.url}: the storage options are not usable: {summary(exc)}"
        ) from exc
    return ObstoreStore(
        made,
        config.url,
        make=make,
        make_for_uploads=partial(_make, config, True),
        has_credentials=config.credentials is not None,
    )


def _make(config: StoreConfig, retries: bool, library: ModuleType) -> AnyStore:
    """Make the store of a cloud, as an object of this library: obstore or a copy of it."""
    options = dict(config.options)
    retries_max = _whole(options, RETRIES, PART_RETRIES_MAX)
    retry_s_max = _whole(options, RETRY_S, PART_RETRY_S_MAX)
    kind = getattr(
        library.store, {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}[config.scheme]
    )
    store: AnyStore = kind(
        config.bucket,
        retry_config=_retry_config(retries_max if retries else 0, retry_s_max),
        config=options,
        credential_provider=config.credentials,
    )
    return store


def limits_of(config: StoreConfig, limits: Limits) -> Limits:
    """The limits of a session as the options of one store have them.

    Raises
    ------
    InvalidInputError
        An option is no number.
    """
    options = dict(config.options)
    return replace(
        limits,
        retries_max=_whole(options, RETRIES, limits.retries_max),
        retry_deadline_s=_whole(options, RETRY_S, limits.retry_deadline_s),
    )


def path_in_store(config: StoreConfig, path: str) -> str:
    """Path as the store of a config counts it: below its prefix, if it was given with one.

    Raises
    ------
    InvalidInputError
        The path does not lie below the prefix.
    """
    prefix = getattr(config.store, "prefix", None)
    below = str(prefix or "").strip("/")
    if not below:
        return path
    if path != below and not path.startswith(below + "/"):
        raise InvalidInputError(
            f"{config.url}/{path} does not lie below the given store's prefix {below!r}"
        )
    return path[len(below) + 1 :]


def _adopted(config: StoreConfig) -> AnyStore:
    """Return the obstore store given in a config, after a look at whether it fits."""
    given = config.store
    scheme = next((name for kind, name in _SCHEME_OF.items() if isinstance(given, kind)), None)
    if scheme is None:
        raise InvalidInputError(
            "storage_options must be a mapping, an obstore store (S3, GCS, Azure, local or memory)"
            f" or a credential provider, not {type(given).__name__}"
        )
    if scheme != config.scheme:
        raise InvalidInputError(
            f"the given store is for {scheme}://, but the URI is for {config.url}"
        )
    settings = getattr(given, "config", {})
    bucket = settings.get("bucket") or settings.get("container_name") or config.bucket
    if bucket != config.bucket:
        raise InvalidInputError(
            f"the given store is for bucket {bucket!r}, but the URI is for {config.url}"
        )
    return given  # type: ignore[return-value]


def _retry_config(retries_max: int, retry_s_max: float) -> RetryConfig:
    """Retries inside obstore: for the parts of uploads only, whose requests nobody else sees."""
    return {
        "max_retries": retries_max,
        "retry_timeout": timedelta(seconds=retry_s_max),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }


def _whole(options: dict[str, str], name: str, default: T) -> int | T:
    """Take a whole number out of options."""
    text = options.pop(name, None)
    if text is None:
        return default
    if not text.isdecimal():
        raise InvalidInputError(f"storage option {name!r} must be a whole number, not {text!r}")
    return int(text)
