"""The synchronous facade: the same results, from any thread, after a fork, and under Ctrl-C."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.testing.s3 import S3Server
from tests.dataset.helpers import ROOT, column_a, files, numbers

TABLE = numbers(0, 200)


@pytest.fixture
def dataset(tmp_path: Path) -> sync.Dataset:
    return sync.write_dataset(TABLE, tmp_path / ROOT, max_rows_per_file=60)


def test_reads_are_those_of_the_asynchronous_api(dataset: sync.Dataset) -> None:
    ds = sync.open_dataset(dataset.uri)
    assert (ds.version, ds.uri, ds.schema) == (1, dataset.uri, TABLE.schema)
    assert (ds.config, ds.metadata, ds.data_storage_version) == ({}, {}, "2.1")
    assert [fragment.physical_rows for fragment in ds.fragments] == [60, 60, 60, 20]
    assert repr(ds) == f"<alance.sync.Dataset {ds.uri} version 1: 200 rows>"
    assert ds.to_table().equals(TABLE)
    assert ds.take([150, 3]).equals(TABLE.take([150, 3]))
    assert ds.head(5).equals(TABLE.slice(0, 5))
    assert ds.count_rows() == 200
    assert ds.count_rows("a >= 150") == 50
    assert ds.to_table({"x": "a + 1"}, filter="a < 2").to_pydict() == {"x": [1, 2]}
    assert ds.to_reader(limit=7).read_all().equals(TABLE.slice(0, 7))
    assert pa.table(ds).equals(TABLE)


def test_scans(dataset: sync.Dataset) -> None:
    scan = dataset.scan(["a"], batch_size=90, filter="a >= 10")
    assert scan.schema == pa.schema([("a", pa.int64())])
    for _ in range(2):
        assert [batch.num_rows for batch in scan] == [90, 90, 10]
    assert column_a(scan.to_table()) == list(range(10, 200))
    assert "fragment 3" in scan.explain()


def test_a_loop_left_early_holds_nothing(dataset: sync.Dataset) -> None:
    for batch in dataset.scan(batch_size=7):
        assert batch.num_rows == 7
        break
    assert dataset.session.budget.held == 0
    batches = iter(dataset.scan(batch_size=7))
    next(batches)
    del batches
    assert dataset.session.budget.held == 0


def test_writes(tmp_path: Path) -> None:
    ds = sync.write_dataset(numbers(0, 2), tmp_path / ROOT)
    second = ds.append(numbers(2, 4))
    third = second.overwrite(iter(numbers(9, 10).to_batches()), schema=TABLE.schema)
    assert [each["version"] for each in third.versions()] == [1, 2, 3]
    assert column_a(third.to_table()) == [9]
    assert column_a(third.checkout(2).to_table()) == [0, 1, 2, 3]
    assert ds.latest().version == 3
    appended = sync.write_dataset(numbers(0, 1), tmp_path / ROOT, mode="append")
    assert appended.version == 4


def test_writes_in_parts(tmp_path: Path) -> None:
    fragments = sync.write_fragments(TABLE, tmp_path / ROOT, max_rows_per_file=70)
    ds = sync.commit_fragments(tmp_path / ROOT, fragments, schema=TABLE.schema)
    assert ds.to_table().equals(TABLE)
    more = sync.write_fragments(TABLE, tmp_path / ROOT)
    before = files(tmp_path)
    sync.discard_fragments(tmp_path / ROOT, more)
    assert len(files(tmp_path)) == len(before) - 1


def test_errors_are_the_same(dataset: sync.Dataset, tmp_path: Path) -> None:
    with pytest.raises(alance.DatasetNotFoundError, match="no dataset"):
        sync.open_dataset(tmp_path / "nothing")
    with pytest.raises(alance.InvalidInputError, match="out of range"):
        dataset.take([200])
    with pytest.raises(alance.InvalidInputError, match="nope"):
        dataset.scan(["nope"])
    with pytest.raises(alance.DatasetAlreadyExistsError):
        sync.write_dataset(TABLE, dataset.uri)


def test_receipts_count(dataset: sync.Dataset) -> None:
    with alance.receipt() as spent:
        ds = sync.open_dataset(dataset.uri, session=alance.Session())
        ds.to_table()
    assert spent.requests == {"list": 1, "get": 1 + 4}
    assert spent.rounds == 3
    ds = sync.open_dataset(dataset.uri, session=alance.Session())
    with alance.receipt() as spent:
        assert sum(batch.num_rows for batch in ds.scan()) == 200
    assert spent.requests == {"get": 4}


def test_a_session_is_passed_on(tmp_path: Path) -> None:
    session = alance.Session(limits=alance.Limits(requests_max=2))
    ds = sync.write_dataset(TABLE, tmp_path / ROOT, session=session)
    assert ds.session is session
    assert sync.open_dataset(tmp_path / ROOT, session=session).session is session
    assert sync.open_dataset(tmp_path / ROOT).session is sync.open_dataset(ds.uri).session


def test_many_threads_at_once(dataset: sync.Dataset) -> None:
    found: list[bool] = []

    def read(i: int) -> None:
        rows = [batch["a"].to_pylist() for batch in dataset.scan(["a"], batch_size=50)]
        taken = dataset.take([i])["a"].to_pylist()
        found.append([a for one in rows for a in one] == list(range(200)) and taken == [i])

    threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_works_beside_a_running_loop(dataset: sync.Dataset) -> None:
    async def main() -> int:
        return sync.open_dataset(dataset.uri).count_rows("a > 100")

    assert asyncio.run(main()) == 99


METHODS = {
    "fork": multiprocessing.get_context("fork").Process,
    "spawn": multiprocessing.get_context("spawn").Process,
}


def _read(uri: str, options: dict[str, str] | None, inherited: sync.Dataset | None) -> None:
    """Read and append in a child; an error makes its exit status 1."""
    ds = sync.open_dataset(uri, storage_options=options)
    assert ds.to_table().equals(TABLE)
    if inherited is not None:
        assert inherited.take([7]).equals(TABLE.slice(7, 1))
        assert inherited.latest().version == 1
    ds.append(numbers(200, 210))


@pytest.mark.parametrize("place", ["local", "s3"])
@pytest.mark.parametrize("method", [*METHODS])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_processes(
    tmp_path: Path, place: str, method: str, request: pytest.FixtureRequest
) -> None:
    uri, options = str(tmp_path / ROOT), None
    if place == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        uri, options = f"s3://bucket/{method}.lance", server.storage_options
    ds = sync.write_dataset(TABLE, uri, storage_options=options, mode="overwrite")
    batches = iter(ds.scan(batch_size=5))
    next(batches)  # the loop is in the middle of something
    kept = ds if method == "fork" else None
    child = METHODS[method](target=_read, args=(uri, options, kept))
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    assert code == 0
    assert sum(batch.num_rows for batch in batches) == 195, "the parent goes on"
    assert ds.latest().count_rows() == 210


def test_history(dataset: sync.Dataset, tmp_path: Path) -> None:
    dataset.tags.create("first")
    branch = dataset.branches.create("x").append(numbers(0, 1))
    assert (branch.branch, branch.count_rows()) == ("x", 201)
    ds = dataset.update_config({"a": "b"}).overwrite(numbers(0, 3))
    assert (ds.version, ds.config) == (3, {"a": "b"})
    assert ds.checkout("first").restore().count_rows() == 200
    told = ds.read_transaction()
    assert told is not None
    assert told.operation == "Overwrite"
    assert ds.shallow_clone(tmp_path / "clone.lance", ("x", None)).count_rows() == 201
    ds.tags.delete("first")
    ds.branches.delete("x")
    assert (ds.tags.list(), ds.branches.list()) == ({}, {})
    assert ds.latest().cleanup_old_versions(timedelta(0)).versions == (1, 2, 3)


def test_an_interrupt_cancels_the_call(tmp_path: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def source() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches()
        signal.pthread_kill(main, signal.SIGINT)
        while not stopped.wait(0.01):
            yield from TABLE.to_batches()

    stopped = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        sync.write_dataset(source(), tmp_path / ROOT, schema=TABLE.schema, max_rows_per_file=100)
    stopped.set()
    assert files(tmp_path) == {}, "the write has ended, and removed its files"


@pytest.mark.slow
def test_the_loop_ends_with_the_process(tmp_path: Path) -> None:
    script = f"""
import pyarrow as pa, alance
ds = alance.sync.write_dataset(pa.table({{"a": range(9)}}), {str(tmp_path / ROOT)!r})
print(ds.count_rows("a > 4"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


@pytest.mark.parametrize(
    "name",
    [
        "open_dataset",
        "write_dataset",
        "write_fragments",
        "commit_fragments",
        "discard_fragments",
        "open_file",
        "create_file",
    ],
)
def test_functions_have_the_same_arguments(name: str) -> None:
    mine, theirs = (inspect.signature(getattr(place, name)) for place in (sync, alance))
    assert mine.parameters == theirs.parameters


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (sync.Dataset, alance.Dataset),
        (sync.Scan, alance.Scan),
        (sync.Tags, alance.Tags),
        (sync.Branches, alance.Branches),
        (sync.FileReader, alance.FileReader),
        (sync.FileWriter, alance.FileWriter),
    ],
)
def test_classes_have_the_same_members(mine: type, theirs: type) -> None:
    def members(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert members(theirs) - members(mine) <= {"on"}
    assert members(mine) <= members(theirs)
    for name in members(mine):
        found = [getattr(kind, name) for kind in (mine, theirs)]
        if inspect.isfunction(found[0]):
            one, two = (dict(inspect.signature(each).parameters) for each in found)
            if name == "retrying":  # calls a function in one, a coroutine function in the other
                assert one.pop("change").kind is two.pop("change").kind
            assert one == two, name
