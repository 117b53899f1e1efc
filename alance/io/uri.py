"""Pure: what a user writes for a place -> which store, and the path in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

from alance.errors import InvalidInputError, check_text

__all__ = ["StorageOptions", "StoreConfig", "parse_uri"]

StorageOptions: TypeAlias = Mapping[str, Any] | object | None
"""Options by name; or, in their place, an obstore store or a credential provider (a callable)."""

_CLOUDS = {"s3": ("aws_",), "gs": ("google_", "gcp_"), "az": ("azure_", "fabric_")}
_SCHEMES = (*_CLOUDS, "s3+ddb", "file", "memory")
_OWN_NAMES = {"request_timeout": "timeout"}
_WITH_DYNAMODB = "s3+ddb"
_DYNAMODB_OPTION = "dynamodb_endpoint"
_ENDPOINT_NAME = re.compile(r"(aws_)?endpoint(_url)?(_s3)?")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


@dataclass(frozen=True, slots=True, eq=False)
class StoreConfig:
    """All that is needed to open a store.

    Parameters
    ----------
    scheme
        s3, gs, az, file or memory.
    bucket
        Bucket or container; empty for file and memory, of which there is one per session.
    options
        Names in lower case and their values as text; empty for file and memory.
    credentials
        obstore credential provider, or None.
    store
        obstore store to be used instead of making one, or None.
    manifest_table
        DynamoDB table that says which versions exist; None where the store itself does.
    manifest_endpoint
        URL of DynamoDB where it is not AWS's own.
    """

    scheme: str
    bucket: str
    options: tuple[tuple[str, str], ...] = ()
    credentials: Callable[[], Any] | None = None
    store: object | None = None
    manifest_table: str | None = None
    manifest_endpoint: str | None = None

    @property
    def url(self) -> str:
        """Scheme and bucket, such as `s3://bucket`."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def is_known(self) -> bool:
        """Whether the store is of a kind known to honour conditional puts.

        Anything may answer at an S3 endpoint of the user's own.
        """
        if self.scheme != "s3":
            return True
        given = getattr(self.store, "config", {})
        named = any(_ENDPOINT_NAME.fullmatch(name) for name in (*given, *dict(self.options)))
        return not (named or any(os.environ.get(name) for name in _ENDPOINT_VARIABLES))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for configs that may share one store; holds while the opened store lives."""
        return (self.scheme, self.bucket, self.options, id(self.credentials), id(self.store))


def parse_uri(
    uri: str | os.PathLike[str], storage_options: StorageOptions = None
) -> tuple[StoreConfig, str]:
    """Split a place into its store and the path in it.

    Parameters
    ----------
    uri
        `s3://bucket/path`, `s3+ddb://bucket/path?ddbTableName=table`, `gs://bucket/path`,
        `az://container/path`, `memory://path`, `file:///path`, or a path of the local file system;
        a relative one starts at the current directory, `~` is the home directory. Percent escapes
        are decoded in URIs, not in plain paths.
    storage_options
        Options of pylance and object_store (`aws_region`, `access_key_id`, `allow_http`, ...),
        upper or lower case, with text, bool or integer values. Those of another cloud are passed
        over, so that one mapping may serve several stores; file and memory stores need none and
        pass over all. Under `credential_provider` an obstore credential provider may stand. An
        obstore store or a credential provider may also stand in place of the mapping.

    Returns
    -------
    tuple of StoreConfig and str
        The path has no slash at either end; it is empty for a bucket's root.

    Raises
    ------
    InvalidInputError
        The scheme is unknown, the bucket or table is missing, the path has an empty segment, or an
        option's value is of no known kind.
    """
    text = _spelled(uri)
    if text.startswith(f"{_WITH_DYNAMODB}://"):
        return _parse_with_dynamodb(text, storage_options)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, path = "file", _local_path(text)
        bucket = ""
    elif scheme == "file":
        bucket, path = "", _local_path(unquote(_without_host(text, rest)))
    elif scheme == "memory":
        bucket, path = "", _key(text, rest)
    elif scheme in _CLOUDS:
        bucket, _, key = rest.partition("/")
        path = _key(text, key)
    else:
        raise InvalidInputError(
            f"{text}: scheme {scheme!r} is unknown; one of {', '.join(_SCHEMES)}, or a local path"
        )
    if scheme in _CLOUDS and not bucket:
        raise InvalidInputError(f"{text} names no bucket")
    return _config(scheme, bucket, storage_options), path


def _spelled(uri: object) -> str:
    """A place as text."""
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    return check_text("a place, which is a URI or a path,", text)


def _parse_with_dynamodb(text: str, given: StorageOptions) -> tuple[StoreConfig, str]:
    """Split a place in S3 of which a DynamoDB table keeps the versions."""
    place, _, query = text.partition("?")
    named = parse_qsl(query, keep_blank_values=True)
    if len(named) != 1 or named[0][0] != "ddbTableName" or not named[0][1]:
        raise InvalidInputError(
            f"{text}: the table of the manifests is to be named, and nothing else, as in "
            f"{_WITH_DYNAMODB}://bucket/path?ddbTableName=table"
        )
    endpoint = os.environ.get(_DYNAMODB_OPTION.upper())
    if isinstance(given, Mapping):
        named_so = [name for name in given if str(name).lower() == _DYNAMODB_OPTION]
        endpoint = next((_text(name, given[name]) for name in named_so), endpoint)
    config, path = parse_uri("s3" + place.removeprefix(_WITH_DYNAMODB), given)
    if getattr(config.store, "prefix", None):
        raise InvalidInputError(
            f"{text}: a store with a prefix does not know the keys that stand in the table"
        )
    return replace(config, manifest_table=named[0][1], manifest_endpoint=endpoint), path


def _config(scheme: str, bucket: str, given: StorageOptions) -> StoreConfig:
    """Config for a store with the options as users pass them."""
    if given is None:
        return StoreConfig(scheme, bucket)
    if not isinstance(given, Mapping):
        if callable(given):
            return StoreConfig(scheme, bucket, credentials=given)
        return StoreConfig(scheme, bucket, store=given)
    if scheme not in _CLOUDS:
        return StoreConfig(scheme, bucket)
    options = dict(given)
    credentials = options.pop("credential_provider", None)
    if credentials is not None and not callable(credentials):
        raise InvalidInputError(
            f"storage option 'credential_provider' must be callable, not {credentials!r}"
        )
    foreign = tuple(prefix for cloud, mine in _CLOUDS.items() if cloud != scheme for prefix in mine)
    named: dict[str, str] = {}
    for name, value in options.items():
        lower = str(name).lower()
        if not lower.startswith(foreign) and lower != _DYNAMODB_OPTION:
            named[_OWN_NAMES.get(lower, lower)] = _text(name, value)
    return StoreConfig(scheme, bucket, tuple(sorted(named.items())), credentials)


def _text(name: object, value: object) -> str:
    """Text of an option's value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    raise InvalidInputError(
        f"storage option {name!r} must be text, a bool or an integer, not {type(value).__name__}"
    )


def _local_path(text: str) -> str:
    """Key of a local file: its absolute path without the leading slash."""
    if not text or "\0" in text:
        raise InvalidInputError(f"{text!r} is no path")
    return os.path.abspath(os.path.expanduser(text)).replace(os.sep, "/").strip("/")


def _without_host(uri: str, rest: str) -> str:
    """Path of a file URI."""
    host, slash, path = rest.partition("/")
    if host not in {"", "localhost"} or not slash:
        raise InvalidInputError(f"{uri}: a file URI has three slashes, as in file:///tmp/x.lance")
    return slash + path


def _key(uri: str, key: str) -> str:
    """Key of an object as users write it, with percent signs decoded as pylance does."""
    if "?" in key or "#" in key:
        raise InvalidInputError(
            f"{uri}: '?' and '#' cannot stand in the path of a URI; write %3F or %23"
        )
    path = unquote(key).rstrip("/")
    if path and not set(path.split("/")).isdisjoint({"", ".", ".."}):
        raise InvalidInputError(f"{uri}: the path has an empty segment, '.' or '..'")
    return path
