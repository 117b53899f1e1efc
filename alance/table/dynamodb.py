"""The external manifest store that other implementations of the format use: a DynamoDB table."""

from __future__ import annotations

import os
import threading
from functools import partial
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread

from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
)
from alance.table.external import ManifestEntry

__all__ = ["DynamoManifestStore"]

CONNECT_S = 5
READ_S = 10
TRIES_MAX = 4
DELETE_ITEMS_MAX = 25
"""DynamoDB takes no more in one batch."""

_KEY_SCHEMA = [
    {"AttributeName": "base_uri", "KeyType": "HASH"},
    {"AttributeName": "version", "KeyType": "RANGE"},
]
_COMMITTER = "lancedb"
_IF_ABSENT = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_IF_PRESENT = "attribute_exists(base_uri) AND attribute_exists(version)"
_DENIED = {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException"}


class DynamoManifestStore:
    """An `ExternalManifestStore` in DynamoDB, with the table layout of pylance.

    The table has a hash key ``base_uri`` (S) and a range key ``version`` (N). Items say where in
    its bucket a dataset is, but not in which: use one table for each bucket.

    Opened by ``s3+ddb://bucket/path?ddbTableName=...``, or passed as `manifest_store`. Needs
    ``pip install 'alance[dynamodb]'``. May be pickled, credentials included.

    Parameters
    ----------
    table
        Its name.
    region
        AWS region; None takes the environment's.
    endpoint
        URL of the service, where it is not AWS's own.
    access_key_id, secret_access_key, session_token
        None for the environment's, by botocore's rules.
    """

    def __init__(
        self,
        table: str,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
    ) -> None:
        if not table:
            raise InvalidInputError("a DynamoDB table needs a name")
        self._table = table
        self._options = {
            "region_name": region,
            "endpoint_url": endpoint,
            "aws_access_key_id": access_key_id,
            "aws_secret_access_key": secret_access_key,
            "aws_session_token": session_token,
        }
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None

    def __repr__(self) -> str:
        return f"alance.DynamoManifestStore({self._table!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (self._table, self._options)

    async def get(self, dataset: str, version: int) -> ManifestEntry | None:
        """Entry of a version; None when there is none."""
        key = {"base_uri": {"S": _base_uri(dataset)}, "version": {"N": str(version)}}
        answer = await self._call("get_item", Key=key, ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else self._entry(item)

    async def get_latest(self, dataset: str) -> ManifestEntry | None:
        """Entry of the highest version; None when the dataset is not known here."""
        answer = await self._call(
            "query",
            KeyConditionExpression="base_uri = :base_uri",
            ExpressionAttributeValues={":base_uri": {"S": _base_uri(dataset)}},
            ScanIndexForward=False,
            Limit=1,
            ConsistentRead=True,
        )
        items = answer.get("Items")
        return self._entry(items[0]) if items else None

    async def put_if_absent(self, dataset: str, entry: ManifestEntry) -> None:
        """Add an entry unless its version has one.

        Raises
        ------
        AlreadyExistsError
            It has one; after a lost answer it may be this very one.
        """
        await self._put(dataset, entry, _IF_ABSENT)

    async def put(self, dataset: str, entry: ManifestEntry) -> None:
        """Replace the entry of a version; nothing happens when there is none."""
        try:
            await self._put(dataset, entry, _IF_PRESENT)
        except AlreadyExistsError:
            return

    async def delete(self, dataset: str) -> None:
        """Forget all entries of a dataset, in batches."""
        start: dict[str, Any] = {}
        while True:
            answer = await self._call(
                "query",
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": _base_uri(dataset)}},
                ProjectionExpression="base_uri, version",
                Limit=DELETE_ITEMS_MAX,
                ConsistentRead=True,
                **start,
            )
            for key in answer.get("Items", ()):
                await self._call("delete_item", Key=key)
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    async def _put(self, dataset: str, entry: ManifestEntry, condition: str) -> None:
        item = {
            "base_uri": {"S": _base_uri(dataset)},
            "version": {"N": str(entry.version)},
            "path": {"S": entry.path},
            "committer": {"S": _COMMITTER},
        }
        if entry.num_bytes is not None:
            item["size"] = {"N": str(entry.num_bytes)}
        await self._call("put_item", Item=item, ConditionExpression=condition)

    async def _call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Send a request in a thread, which bounds itself; see `CONNECT_S`, `READ_S`."""
        work = partial(self._send, name, arguments)
        return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    def _send(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        client = self._client()
        try:
            answer: dict[str, Any] = getattr(client, name)(TableName=self._table, **arguments)
        except Exception as exc:
            raise self._translated(exc) from exc
        return answer

    def _client(self) -> Any:
        """Client of this process, with the table checked; connections do not outlive a fork."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                client = self._connect()
                self._check_table(client)
                self._made = os.getpid(), client
            return self._made[1]

    def _connect(self) -> Any:
        try:
            session = import_module("botocore.session")
            config = import_module("botocore.config").Config(
                connect_timeout=CONNECT_S,
                read_timeout=READ_S,
                retries={"total_max_attempts": TRIES_MAX, "mode": "standard"},
            )
        except ModuleNotFoundError as exc:
            raise InvalidInputError(
                "commits through DynamoDB need botocore: pip install 'alance[dynamodb]'"
            ) from exc
        try:
            return session.get_session().create_client("dynamodb", config=config, **self._options)
        except Exception as exc:
            raise InvalidInputError(f"no client for DynamoDB: {exc}") from exc

    def _check_table(self, client: Any) -> None:
        try:
            found = client.describe_table(TableName=self._table)["Table"]["KeySchema"]
        except Exception as exc:
            raise self._translated(exc) from exc
        if found != _KEY_SCHEMA:
            raise InvalidInputError(
                f"DynamoDB table {self._table!r} has the key schema {found}; manifests need a hash "
                "key 'base_uri' (S) and a range key 'version' (N)"
            )

    def _translated(self, exc: Exception) -> AlanceError:
        """Our exception for one of botocore's."""
        code = getattr(exc, "response", {}).get("Error", {}).get("Code", "")
        said = f"DynamoDB table {self._table!r}: {exc}"
        if code == "ConditionalCheckFailedException":
            return AlreadyExistsError(said)
        if code == "ResourceNotFoundException":
            return InvalidInputError(
                f"{said}; create it with a hash key 'base_uri' (S) and a range key 'version' (N)"
            )
        if code in _DENIED or type(exc).__name__ == "NoCredentialsError":
            return PermissionDeniedError(said)
        if "Timeout" in type(exc).__name__:
            return StoreTimeoutError(said)
        return StoreError(said)

    def _entry(self, item: dict[str, Any]) -> ManifestEntry:
        """Entry of a stored item, which anybody may have written."""
        try:
            size = item.get("size")
            num_bytes = None if size is None else int(size["N"])
            return ManifestEntry(int(item["version"]["N"]), str(item["path"]["S"]), num_bytes)
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            raise CorruptFileError(
                f"DynamoDB table {self._table!r} has an item that is no manifest: {item!r:.300}"
            ) from exc


def _remake(table: str, options: dict[str, str | None]) -> DynamoManifestStore:
    return DynamoManifestStore(
        table,
        region=options["region_name"],
        endpoint=options["endpoint_url"],
        access_key_id=options["aws_access_key_id"],
        secret_access_key=options["aws_secret_access_key"],
        session_token=options["aws_session_token"],
    )


def _base_uri(dataset: str) -> str:
    """Key of a dataset in its bucket, as other implementations write it."""
    return dataset.partition("://")[2].partition("/")[2]
