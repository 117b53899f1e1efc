from __future__ import annotations

import pytest

from alance.errors import CorruptFileError
from alance.io.simulated import SimulatedStore
from alance.table.operations import Append
from alance.table.transaction import Transaction
from alance.table.transactions import read_transaction
from alance.table.wire_transaction import build_transaction
from tests.table.samples import ROOT, at, creation, fragment, manifest, put

pytestmark = pytest.mark.anyio


async def test_the_transaction_of_a_version_costs_no_request_when_inline() -> None:
    store = SimulatedStore()
    made = await put(store, creation(), None)
    store.requests.clear()
    found = await read_transaction(at(store), made)
    assert found is not None
    assert (found.uuid, found.operation.name, store.requests) == ("create", "Overwrite", [])


async def test_the_transaction_of_a_version_from_its_file() -> None:
    store = SimulatedStore()
    value = Transaction(1, "u", Append((fragment("x"),)))
    store.preload(f"{ROOT}/_transactions/1-u.txn", build_transaction(value))
    made = manifest(2, transaction_file="1-u.txn")
    assert await read_transaction(at(store), made) == value
    assert [request.kind for request in store.requests] == ["get_tail"]


async def test_no_record_of_the_transaction() -> None:
    store = SimulatedStore()
    assert await read_transaction(at(store), manifest(2)) is None
    assert await read_transaction(at(store), manifest(2, transaction_file="1-u.txn")) is None


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a\\b", "a\0"])
async def test_a_transaction_file_lies_in_its_folder(name: str) -> None:
    with pytest.raises(CorruptFileError, match="no file name"):
        await read_transaction(at(SimulatedStore()), manifest(2, transaction_file=name))
