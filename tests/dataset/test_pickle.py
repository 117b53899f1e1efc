"""Datasets between processes: pickled, and in children that were forked."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import alance
from alance.testing.s3 import S3Server
from tests.dataset.helpers import ROOT, numbers

pytestmark = pytest.mark.anyio

TABLE = numbers(0, 100)


def read_pickled(data: bytes) -> pa.Table:
    """Read a dataset in another process, which knows nothing but this."""
    ds = pickle.loads(data)
    return asyncio.run(ds.to_table())


async def test_no_request_is_sent(tmp_path: Path) -> None:
    ds = await alance.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=30)
    with alance.receipt() as spent:
        again = pickle.loads(pickle.dumps(ds))
    assert spent.num_requests == 0
    assert (again.uri, again.version, again.schema) == (ds.uri, ds.version, ds.schema)
    assert again.fragments == ds.fragments
    assert again.session is ds.session, "that of the running loop"
    assert (await again.to_table()).equals(TABLE)
    assert (await again.append(numbers(100, 101))).version == 2


async def test_the_version_stays_what_it_was(tmp_path: Path) -> None:
    ds = await alance.write_dataset(TABLE, tmp_path / ROOT)
    data = pickle.dumps(ds)
    newer = await ds.overwrite(numbers(0, 3))
    await newer.delete("a = 1")
    again = pickle.loads(data)
    assert again.version == 1
    assert (await again.to_table()).equals(TABLE)
    assert (await (await again.latest()).to_table())["a"].to_pylist() == [0, 2]


def test_outside_of_a_loop_it_has_a_session_of_its_own(tmp_path: Path) -> None:
    ds = alance.sync.write_dataset(TABLE, tmp_path / ROOT)
    data = pickle.dumps(asyncio.run(alance.open_dataset(ds.uri)))
    one, other = pickle.loads(data), pickle.loads(data)
    assert one.session is not other.session
    assert asyncio.run(one.to_table()).equals(TABLE)
    assert asyncio.run(one.to_table()).equals(TABLE), "on one loop after the other"


async def test_options_go_along(s3_server: S3Server) -> None:
    ds = await alance.write_dataset(
        TABLE, "s3://bucket/pickled.lance", storage_options=s3_server.storage_options
    )
    data = pickle.dumps(ds)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found = await asyncio.to_thread(pool.apply, read_pickled, (data,))
    assert found.equals(TABLE)


async def test_a_branch(tmp_path: Path) -> None:
    ds = await alance.write_dataset(TABLE, tmp_path / ROOT)
    branch = await ds.branches.create("work")
    branch = await branch.append(numbers(100, 101))
    again = pickle.loads(pickle.dumps(branch))
    assert (await again.to_table()).num_rows == 101
    assert (await again.latest()).version == branch.version


class TestRefused:
    async def test_memory(self) -> None:
        ds = await alance.write_dataset(TABLE, "memory://set.lance")
        with pytest.raises(alance.InvalidInputError, match="memory of one session"):
            pickle.dumps(ds)

    async def test_options_that_cannot(self, s3_server: S3Server) -> None:
        options = {**s3_server.storage_options}
        keys = {name: options.pop(name) for name in list(options) if "access_key" in name}

        def provider() -> Any:
            return {
                "access_key_id": keys["aws_access_key_id"],
                "secret_access_key": keys["aws_secret_access_key"],
                "token": None,
                "expires_at": None,
            }

        ds = await alance.write_dataset(
            TABLE,
            "s3://bucket/provided.lance",
            storage_options={**options, "credential_provider": provider},
        )
        with pytest.raises(alance.InvalidInputError, match="its storage_options holds something"):
            pickle.dumps(ds)


def test_a_forked_child_reads_and_writes(s3_server: S3Server) -> None:
    """The parent has connections and caches; the child makes its own, and ends."""
    uri = "s3://bucket/forked.lance"
    # In a process of its own: what other tests have loaded into this one may not like forks.
    parent = multiprocessing.get_context("spawn").Process(
        target=_fork, args=(uri, s3_server.storage_options)
    )
    parent.start()
    parent.join(120)
    assert parent.exitcode == 0


def _fork(uri: str, options: dict[str, str]) -> None:
    """Use a dataset, then fork, and look at what the child has done."""

    async def write() -> alance.Dataset:
        ds = await alance.write_dataset(TABLE, uri, storage_options=options)
        await ds.to_table()
        return ds

    ds = asyncio.run(write())
    child = multiprocessing.get_context("fork").Process(
        target=_in_child, args=(ds, pickle.dumps(ds))
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0

    async def latest() -> alance.Dataset:
        return await ds.latest()

    assert asyncio.run(latest()).version == 3


def _in_child(inherited: alance.Dataset, data: bytes) -> None:
    """Use a dataset that was inherited by the fork, and one that was sent."""

    async def use(ds: alance.Dataset) -> None:
        assert (await ds.take([99, 0])).equals(TABLE.take([99, 0]))
        assert (await ds.to_table(filter="a >= 50")).equals(TABLE.slice(50))
        await ds.append(numbers(0, 1))

    asyncio.run(use(inherited))
    asyncio.run(use(pickle.loads(data)))
