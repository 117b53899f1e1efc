"""Commits through DynamoDB, in turn with pylance on one table."""

from __future__ import annotations

import pickle
import uuid
from typing import Any

import anyio
import anyio.to_thread
import lance
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session

import alance
from alance.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
)
from alance.table.dynamodb import DynamoManifestStore
from alance.table.external import ManifestEntry
from alance.testing.s3 import S3Server

pytestmark = pytest.mark.anyio

HASH = {"AttributeName": "base_uri", "KeyType": "HASH"}
RANGE = {"AttributeName": "version", "KeyType": "RANGE"}


class Tables:
    """DynamoDB of the test's server, as an administrator sees it."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.client = get_session().create_client(
            "dynamodb",
            region_name="us-east-1",
            endpoint_url=server.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def create(self, *keys: dict[str, str], types: dict[str, str] | None = None) -> str:
        """A table of a name of its own."""
        name = f"manifests-{uuid.uuid4()}"
        types = types or {"base_uri": "S", "version": "N"}
        self.client.create_table(
            TableName=name,
            KeySchema=list(keys or (HASH, RANGE)),
            AttributeDefinitions=[
                {"AttributeName": key, "AttributeType": kind} for key, kind in types.items()
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        return name

    def items(self, table: str) -> list[dict[str, Any]]:
        """All items of a table, by version."""
        found: list[dict[str, Any]] = self.client.scan(TableName=table)["Items"]
        return sorted(found, key=lambda item: int(item["version"]["N"]))

    def open(self, table: str) -> DynamoManifestStore:
        return DynamoManifestStore(
            table,
            region="us-east-1",
            endpoint=self.server.endpoint,
            access_key_id="test",
            secret_access_key="test",
        )

    @property
    def options(self) -> dict[str, str]:
        return {**self.server.storage_options, "dynamodb_endpoint": self.server.endpoint}


@pytest.fixture
def tables(s3_server: S3Server) -> Tables:
    return Tables(s3_server)


def rows(*values: int) -> pa.Table:
    return pa.table({"i": pa.array(values, pa.int64())})


def place(table: str) -> str:
    return f"s3+ddb://bucket/{table}/t.lance?ddbTableName={table}"


async def test_entries(tables: Tables) -> None:
    entries = tables.open(tables.create())
    dataset = "s3://bucket/a/b.lance"
    assert await entries.get_latest(dataset) is None
    for version in (1, 2, 10):
        await entries.put_if_absent(dataset, ManifestEntry(version, f"p{version}", 7))
    with pytest.raises(AlreadyExistsError):
        await entries.put_if_absent(dataset, ManifestEntry(2, "mine"))
    assert await entries.get(dataset, 2) == ManifestEntry(2, "p2", 7)
    assert await entries.get(dataset, 3) is None
    await entries.put(dataset, ManifestEntry(10, "final"))
    await entries.put(dataset, ManifestEntry(11, "of nothing"))
    assert await entries.get_latest(dataset) == ManifestEntry(10, "final", None)
    assert (await pickle.loads(pickle.dumps(entries)).get_latest(dataset)).version == 10
    await entries.put_if_absent("s3://bucket/other", ManifestEntry(5, "p"))
    await entries.delete(dataset)
    assert await entries.get_latest(dataset) is None
    assert await entries.get("s3://bucket/other", 5) == ManifestEntry(5, "p")


async def test_both_libraries_commit_in_turn(tables: Tables) -> None:
    table = tables.create()
    uri, options = place(table), tables.options
    ds = await alance.write_dataset(rows(1), uri, storage_options=options)
    theirs = lance.write_dataset(rows(2), uri, mode="append", storage_options=options)
    assert (theirs.version, theirs.count_rows()) == (2, 2)
    ds = await ds.append(rows(3))  # a race that is lost once
    lance.write_dataset(rows(4), uri, mode="append", storage_options=options)
    ds = await (await ds.latest()).append(rows(5))
    assert ds.version == 5
    assert (await ds.to_table())["i"].to_pylist() == [1, 2, 3, 4, 5]
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.to_table()["i"].to_pylist() == [1, 2, 3, 4, 5]
    assert [entry["version"] for entry in theirs.versions()] == [1, 2, 3, 4, 5]
    assert [entry["version"] for entry in await ds.versions()] == [1, 2, 3, 4, 5]
    for version, item in enumerate(tables.items(table), start=1):
        name = f"{table}/t.lance/_versions/{(1 << 64) - 1 - version}.manifest"
        assert item.keys() == {"base_uri", "version", "path", "committer", "size"}
        assert item["base_uri"]["S"] == f"{table}/t.lance"
        assert item["path"]["S"] == name
        assert item["committer"]["S"] == "lancedb"


@pytest.mark.slow
async def test_both_libraries_commit_at_once(tables: Tables) -> None:
    uri, options = place(tables.create()), tables.options
    await alance.write_dataset(rows(0), uri, storage_options=options)

    def theirs(start: int) -> None:
        for value in (start, start + 1):
            lance.write_dataset(rows(value), uri, mode="append", storage_options=options)

    async def ours(start: int) -> None:
        session = alance.Session()
        for value in (start, start + 1):
            await alance.write_dataset(
                rows(value), uri, mode="append", storage_options=options, session=session
            )

    async with anyio.create_task_group() as tg:
        tg.start_soon(anyio.to_thread.run_sync, theirs, 10)
        tg.start_soon(ours, 20)
        tg.start_soon(ours, 30)
    ds = await alance.open_dataset(uri, storage_options=options)
    assert ds.version == 7
    assert sorted((await ds.to_table())["i"].to_pylist()) == [0, 10, 11, 20, 21, 30, 31]
    assert lance.dataset(uri, storage_options=options).count_rows() == 7


async def test_a_dataset_that_pylance_made(tables: Tables) -> None:
    table = tables.create()
    uri, options = place(table), tables.options
    lance.write_dataset(
        rows(1), uri, storage_options=options, data_storage_version="2.1", max_rows_per_file=1
    )
    ds = await alance.open_dataset(uri, storage_options=options)
    assert (await ds.append(rows(2))).version == 2
    assert (await ds.checkout(1)).version == 1
    assert lance.dataset(uri, storage_options=options).to_table()["i"].to_pylist() == [1, 2]


async def test_each_finishes_what_the_other_left(tables: Tables) -> None:
    table = tables.create()
    uri, options = place(table), tables.options
    ds = await alance.write_dataset(rows(1), uri, storage_options=options)
    for i, last in enumerate((lance, alance), start=2):
        ds = await ds.append(rows(i))
        await _unfinish(tables, ds, table)
        if last is lance:
            assert lance.dataset(uri, storage_options=options).version == i
        else:
            assert (await alance.open_dataset(uri, storage_options=options)).version == i
        item = tables.items(table)[-1]
        assert item["path"]["S"].endswith(".manifest")
    assert (await ds.to_table())["i"].to_pylist() == [1, 2, 3]


async def _unfinish(tables: Tables, ds: alance.Dataset, table: str) -> None:
    """Put the newest version back to where it was when it had just been committed."""
    store, root = ds._places.client, ds._places.root
    entries = tables.open(table)
    dataset = f"{store.url}/{root}"
    entry = await entries.get(dataset, ds.version)
    assert entry is not None
    staged = f"{entry.path}-{uuid.uuid4()}"
    await store.copy(entry.path, staged)
    await store.delete(entry.path)
    await entries.put(dataset, ManifestEntry(ds.version, staged, entry.num_bytes))


async def test_the_table_is_looked_at_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = tables.open(tables.create())
    looks: list[str] = []
    check = DynamoManifestStore._check_table

    def look(self: DynamoManifestStore, client: object) -> None:
        looks.append(self._table)
        check(self, client)

    monkeypatch.setattr(DynamoManifestStore, "_check_table", look)
    await entries.get_latest("s3://bucket/a")
    await entries.get("s3://bucket/a", 1)
    assert len(looks) == 1


async def test_a_table_with_other_keys(tables: Tables) -> None:
    only = tables.create(HASH, types={"base_uri": "S"})
    with pytest.raises(InvalidInputError, match="range key 'version'"):
        await alance.open_dataset(place(only), storage_options=tables.options)


async def test_a_table_that_is_not_there(tables: Tables) -> None:
    with pytest.raises(InvalidInputError, match="create it with a hash key 'base_uri'"):
        await alance.open_dataset(place("no-table"), storage_options=tables.options)


async def test_an_item_that_is_no_manifest(tables: Tables) -> None:
    table = tables.create()
    tables.client.put_item(
        TableName=table, Item={"base_uri": {"S": "a"}, "version": {"N": "1"}, "size": {"S": "x"}}
    )
    with pytest.raises(CorruptFileError, match="no manifest"):
        await tables.open(table).get_latest("s3://bucket/a")


async def test_one_store_is_enough(tables: Tables) -> None:
    table = tables.create()
    with pytest.raises(InvalidInputError, match="pass no manifest_store"):
        await alance.open_dataset(
            place(table), storage_options=tables.options, manifest_store=tables.open(table)
        )
    with pytest.raises(InvalidInputError, match="needs a name"):
        DynamoManifestStore("")


async def test_without_botocore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("alance.table.dynamodb.import_module", missing)
    with pytest.raises(InvalidInputError, match=r"pip install 'alance\[dynamodb\]'"):
        await DynamoManifestStore("t").get("s3://bucket/a", 1)


async def test_a_client_that_cannot_be_made() -> None:
    with pytest.raises(InvalidInputError, match="no client for DynamoDB"):
        await DynamoManifestStore("t", region="x", endpoint="nowhere").get("s3://bucket/a", 1)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AccessDeniedException", PermissionDeniedError),
        ("ProvisionedThroughputExceededException", StoreError),
        ("ConditionalCheckFailedException", AlreadyExistsError),
    ],
)
def test_refusals_are_told_apart(code: str, kind: type[Exception]) -> None:
    error = ClientError({"Error": {"Code": code}}, "PutItem")
    found = DynamoManifestStore("t")._translated(error)
    assert type(found) is kind
    assert "DynamoDB table 't'" in str(found)


def test_timeouts_are_told_apart() -> None:
    class ReadTimeoutError(Exception):
        pass

    assert type(DynamoManifestStore("t")._translated(ReadTimeoutError())) is StoreTimeoutError
