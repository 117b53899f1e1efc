"""Blobs given as bytes or URIs, written and read here and by the reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.blob import Blob
from obstore.store import MemoryStore

import alance
from alance.encodings.blob_values import GIVEN
from alance.file.external import ExternalBlob, count_external_bytes, read_external
from alance.file.given_blobs import base_finder
from alance.io.simulated import SimulatedStore
from alance.testing.s3 import S3Server
from tests.dataset.helpers import files, places_on
from tests.dataset.test_blob import damaged

pytestmark = pytest.mark.anyio

DIGITS = b"0123456789"
MARKS = {"ARROW:extension:name": "lance.blob.v2"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of files that belong to no dataset."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    contents = {
        "digits.bin": DIGITS,
        "empty.bin": b"",
        "a b%20ü.bin": b"odd name",
        "long.bin": np.random.default_rng(2).bytes(200_000),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder


def uri(place: Path, name: str) -> str:
    return (place / name).as_uri()


def given_blobs(place: Path) -> tuple[pa.Array, list[bytes | None]]:
    """Blobs given in all ways, and what they are."""
    digits = uri(place, "digits.bin")
    pairs: list[tuple[Any, bytes | None]] = [
        (digits, DIGITS),
        (None, None),
        (b"", b""),
        (b"inside", b"inside"),
        (Blob.from_uri(digits, 2, 3), b"234"),
        (uri(place, "empty.bin"), b""),
        (uri(place, "a b%20ü.bin"), b"odd name"),
        (digits, DIGITS),
        (bytes(70_000), bytes(70_000)),
        (uri(place, "long.bin"), (place / "long.bin").read_bytes()),
    ]
    given, values = zip(*pairs, strict=True)
    return lance.blob_array(list(given)), list(values)


def blob_table(array: pa.Array) -> pa.Table:
    return pa.table([array], schema=pa.schema([lance.blob_field("b")]))


def write_there(table: pa.Table, path: Path, mode: str = "create") -> lance.LanceDataset:
    return lance.write_dataset(
        table,
        path,
        mode=mode,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )


async def test_both_write_and_read(tmp_path: Path, place: Path) -> None:
    array, values = given_blobs(place)
    table = blob_table(array)
    dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    assert (await dataset.to_table())["b"].to_pylist() == values
    theirs = write_there(table, tmp_path / "it", "append")
    assert theirs.schema == table.schema
    described = theirs.to_table()["b"].to_pylist()
    assert described[: len(values)] == described[len(values) :]
    dataset = await (await dataset.latest()).append(table)
    assert (await dataset.to_table())["b"].to_pylist() == values * 3
    rows = [9, 0, 17, 4, 0, 25]
    found = await dataset.take(rows)
    assert found["b"].to_pylist() == [(values * 3)[row] for row in rows]
    theirs = lance.dataset(tmp_path / "it")
    assert theirs.to_table(blob_handling="all_binary")["b"].to_pylist() == values * 3
    assert theirs.take_blobs("b", indices=[24])[0].read() == b"234"


async def test_nested(tmp_path: Path, place: Path) -> None:
    array, values = given_blobs(place)
    lists = pa.ListArray.from_arrays([0, 2, 2, 5], array)
    columns = {
        "list": lists,
        "struct": pa.StructArray.from_arrays(
            [array[4:7]], ["v"], mask=pa.array([False, True, False])
        ),
        "structs": pa.ListArray.from_arrays(
            [0, 1, 1, 3], pa.StructArray.from_arrays([array[:3]], ["v"])
        ),
    }
    expected = {
        "list": [values[:2], [], values[2:5]],
        "struct": [{"v": values[4]}, None, {"v": values[6]}],
        "structs": [[{"v": values[0]}], [], [{"v": values[1]}, {"v": values[2]}]],
    }
    table = pa.table(columns)
    ours = await alance.write_dataset(table, tmp_path / "ours", data_storage_version="2.2")
    theirs = write_there(table, tmp_path / "theirs")
    assert (await ours.to_table()).to_pydict() == expected
    dataset = await alance.open_dataset(tmp_path / "theirs")
    assert (await dataset.to_table()).to_pydict() == expected
    for reference in (theirs, lance.dataset(tmp_path / "ours")):
        assert reference.to_table(blob_handling="all_binary").to_pydict() == expected


async def test_below_base_paths(tmp_path: Path, place: Path) -> None:
    array, values = given_blobs(place)
    theirs = lance.write_dataset(
        blob_table(array),
        tmp_path / "it",
        data_storage_version="2.2",
        initial_bases=[lance.DatasetBasePath(str(place), "elsewhere", False, 7)],
    )
    assert theirs.to_table()["b"][6].as_py()["blob_uri"] == "a b%20ü.bin"
    dataset = await alance.open_dataset(tmp_path / "it")
    assert (await dataset.to_table())["b"].to_pylist() == values
    dataset = await dataset.append(blob_table(array))
    assert (await dataset.to_table())["b"].to_pylist() == values * 2
    theirs = lance.dataset(tmp_path / "it")
    described = theirs.to_table()["b"].to_pylist()
    assert described[: len(values)] == described[len(values) :]
    assert theirs.to_table(blob_handling="all_binary")["b"].to_pylist() == values * 2


def test_the_longest_base_path_counts() -> None:
    find = base_finder([(1, "s3://b/x"), (2, "s3://b/x/y/"), (3, "/tmp/z"), (4, "?:/"), (0, "/")])
    assert find is not None
    assert find("s3://b/x/y/a%20b") == (2, "a b")
    assert find("s3://b/x/yy/a") == (1, "yy/a")
    assert find("s3://c/x/y/a") == (0, "s3://c/x/y/a")
    assert find("file:///tmp/z/a/b") == (3, "a/b")
    assert find("file:///tmp/zz") == (0, "file:///tmp/zz")
    assert base_finder([(0, "/"), (4, "gopher://x")]) is None


async def test_two_members_are_enough(tmp_path: Path, place: Path) -> None:
    rows = [{"data": b"q"}, None, {"uri": uri(place, "digits.bin")}, {"data": b""}]
    for number, kind in enumerate((pa.struct(list(GIVEN)[:2]), GIVEN)):
        field = pa.field("b", kind, metadata=MARKS)
        table = pa.table([pa.array(rows, kind)], schema=pa.schema([field]))
        where = tmp_path / str(number)
        dataset = await alance.write_dataset(table, where, data_storage_version="2.2")
        assert (await dataset.to_table())["b"].to_pylist() == [b"q", None, DIGITS, b""]
        theirs = lance.dataset(where)
        assert theirs.schema.field("b").type == lance.blob.BlobType._from_storage_type(kind)


async def test_files_alone(tmp_path: Path, place: Path) -> None:
    array, values = given_blobs(place)
    table, path = blob_table(array), tmp_path / "it.lance"
    async with alance.create_file(path, table.schema, data_storage_version="2.2") as writer:
        await writer.write(table)
    assert (await (await alance.open_file(path)).read())["b"].to_pylist() == values


async def test_a_take_reads_what_it_needs(tmp_path: Path, place: Path) -> None:
    table = blob_table(given_blobs(place)[0])
    await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    dataset = await alance.open_dataset(tmp_path / "it", session=alance.Session())
    await dataset.take([1])
    with alance.receipt() as receipt:
        await dataset.take([0, 4, 7, 6])
    # Descriptors are in the tail. The digits as a whole, a range of them, the file of the odd name.
    assert (receipt.requests["get"], receipt.rounds) == (3, 1)
    assert receipt.bytes_fetched < 1000


async def test_scans_read_few_values_at_once(tmp_path: Path, place: Path) -> None:
    large = place / "large.bin"
    large.write_bytes(bytes(1 << 20))
    table = blob_table(lance.blob_array([large.as_uri()] * 40))
    dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    sizes = [batch.num_rows async for batch in dataset.scan()]
    assert sum(sizes) == 40
    assert max(sizes) <= 16


async def test_an_object_that_is_gone(tmp_path: Path, place: Path) -> None:
    table = blob_table(given_blobs(place)[0])
    dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    await anyio.Path(place / "digits.bin").unlink()
    with pytest.raises(alance.ObjectNotFoundError, match=r"digits\.bin") as caught:
        await dataset.take([0])
    assert any("outside of the dataset" in note for note in caught.value.__notes__)
    assert (await dataset.take([3, 6]))["b"].to_pylist() == [b"inside", b"odd name"]


async def test_another_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    options = s3_server.storage_options
    for name in ("home-of-blobs", "home-of-datasets"):
        s3_server.create_bucket(name)
    client, _ = alance.Session().clients.open("s3://home-of-blobs/x", options)
    await client.put("some/blob.bin", DIGITS)
    array = lance.blob_array(["s3://home-of-blobs/some/blob.bin", b"inside"])
    table, address = blob_table(array), "s3://home-of-datasets/it"
    dataset = await alance.write_dataset(
        table, address, data_storage_version="2.2", storage_options=options
    )
    assert (await dataset.to_table())["b"].to_pylist() == [DIGITS, b"inside"]
    theirs = lance.dataset(address, storage_options=options)
    found = theirs.to_table(blob_handling="all_binary")["b"].to_pylist()
    assert found == [DIGITS, b"inside"]


async def test_options_that_do_not_fit(place: Path) -> None:
    table = blob_table(given_blobs(place)[0])
    dataset = await alance.write_dataset(
        table, "memory://it", data_storage_version="2.2", storage_options=MemoryStore()
    )
    with pytest.raises(alance.InvalidInputError, match="given store is for memory://"):
        await dataset.to_table()


FORGED = [
    (0, "", "no absolute URI"),
    (0, "digits.bin", "no absolute URI"),
    (0, "/etc/hosts", "no absolute URI"),
    (0, "gopher://x/y", "'gopher' is unknown"),
    (0, "s3://", "names no bucket"),
    (0, "s3://bucket", "names no object"),
    (0, "s3://bucket/../x", r"'\.\.'"),
    (0, "file://host/x", "three slashes"),
    (0, "file:///a\0b", "no path"),
    (3, "digits.bin", "base path 3, which is not recorded"),
    (7, "../digits.bin", "no path below"),
    (7, "/digits.bin", "no path below"),
    (7, "", "no path below"),
]


@pytest.mark.parametrize(("base_id", "address", "says"), FORGED)
async def test_addresses_that_lead_nowhere(base_id: int, address: str, says: str) -> None:
    places = places_on(alance.Session(), SimulatedStore())
    base = (places.client, "base", False)
    with pytest.raises(alance.CorruptFileError, match=says):
        replace(places, bases={7: base}).external(base_id, address)


@pytest.mark.parametrize("name", ["digits\1.bin", "digits%7F.bin"])
async def test_names_that_no_object_has(name: str) -> None:
    places = places_on(alance.Session(), SimulatedStore())
    blobs = [ExternalBlob(0, f"memory://some/{name}")]
    for ask in (read_external, count_external_bytes):
        with pytest.raises(alance.CorruptFileError, match="leads nowhere"):
            await ask(blobs, places.external)


@pytest.mark.slow
async def test_damaged_files(tmp_path: Path, place: Path) -> None:
    digits = uri(place, "digits.bin")
    array = lance.blob_array([digits, None, b"", b"abc", Blob.from_uri(digits, 3, 5)] * 5)
    table = blob_table(array)
    dataset = await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    path = anyio.Path(tmp_path / "it" / "data" / dataset.fragments[0].files[0].path)
    data = await path.read_bytes()
    for seed in range(300):
        await path.write_bytes(damaged(data, seed))
        reader = await alance.open_dataset(tmp_path / "it", session=alance.Session())
        with suppress(alance.FormatError, alance.StoreError, alance.ObjectNotFoundError):
            await reader.to_table()
        with suppress(alance.FormatError, alance.StoreError, alance.ObjectNotFoundError):
            await reader.take([24, 0, 4])


FILE = "file:///some/where"
BAD: dict[str, tuple[Sequence[object], str]] = {
    "nothing": ([{}], "either data or a uri"),
    "both": ([{"data": b"x", "uri": FILE}], "either data or a uri"),
    "no size": ([{"uri": FILE, "position": 1}], "both a position and a size"),
    "no bytes": ([{"uri": FILE, "position": 1, "size": 0}], "a size of at least 1"),
    "no end": ([{"uri": FILE, "position": 1, "size": 1 << 60}], "before byte"),
    "bytes": ([{"data": b"", "position": 0, "size": 1}], "only one at a uri"),
    "a path": ([{"uri": "/some/where"}], "no absolute URI"),
    "no text": ([{"uri": ""}], "no absolute URI"),
    "a bucket": ([{"uri": "s3://bucket"}], "names no object"),
    "a control character": ([{"uri": "s3://bucket/a%01b"}], "control characters"),
    "a scheme": ([{"uri": "http://some/where"}], "'http' is unknown"),
}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *[(name, "alone") for name in BAD],
        *[("both", where) for where in ("list", "struct", "map", "structs")],
    ],
)
async def test_values_that_cannot_be(tmp_path: Path, name: str, where: str) -> None:
    values, says = BAD[name]
    leaf = pa.field("b", GIVEN, metadata=MARKS)
    kind, row, path = {
        "alone": (leaf.type, values[0], "c"),
        "list": (pa.list_(leaf), values, r"c\.b"),
        "struct": (pa.struct([leaf]), {"b": values[0]}, r"c\.b"),
        "map": (pa.map_(pa.string(), leaf), [("k", values[0])], r"c\.entries\.b"),
        "structs": (pa.list_(pa.struct([leaf]), 1), [{"b": values[0]}], r"c\.item\.b"),
    }[where]
    field = leaf.with_name("c") if where == "alone" else pa.field("c", kind)
    table = pa.table([pa.array([None, row], kind)], schema=pa.schema([field]))
    with pytest.raises(alance.InvalidInputError, match=f"'{path}': a blob .*{says}"):
        await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.2")
    assert files(tmp_path) == {}


async def test_where_they_cannot_be_written(tmp_path: Path) -> None:
    table = blob_table(lance.blob_array([b"q"]))
    with pytest.raises(alance.InvalidInputError, match=r"'b'.*file version 2\.2"):
        await alance.write_dataset(table, tmp_path / "it", data_storage_version="2.1")
    field = pa.field("b", pa.struct([("data", pa.binary())]), metadata=MARKS)
    with pytest.raises(alance.InvalidInputError, match=r"'b'.*lance\.blob\.v2"):
        await alance.write_dataset(
            [], tmp_path / "it", schema=pa.schema([field]), data_storage_version="2.2"
        )
    for version in ("2.1", "2.2"):
        plain = pa.table({"b": pa.array([b"plain"], pa.large_binary())})
        dataset = await alance.write_dataset(
            plain, tmp_path / version, data_storage_version=version
        )
        with pytest.raises(alance.SchemaMismatchError, match=r"the data lance\.blob\.v2"):
            await dataset.append(table)
