"""Commits among other writers: who wins, who follows, and what each is told."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import anyio
import pytest

from alance.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitStateUnknownError,
    CorruptFileError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    PermissionDeniedError,
    RetryableCommitError,
    StoreError,
    StoreTimeoutError,
    UnsupportedFeatureError,
)
from alance.io.simulated import Hook, Moment, Request, SimulatedStore
from alance.table.commit import CommitPolicy
from alance.table.features import Feature
from alance.table.manifest import Manifest, Naming
from alance.table.naming import manifest_path
from alance.table.operations import Other
from alance.table.transaction import Transaction, build_overwrite
from alance.table.transactions import read_transaction
from alance.table.versions import read_manifest
from alance.table.wire import build_manifest
from alance.table.wire_transaction import build_transaction
from tests.table.samples import (
    ROOT,
    append,
    at,
    creation,
    fragment,
    manifest,
    meeting,
    paths,
    put,
    schema,
)

pytestmark = pytest.mark.anyio


async def table() -> tuple[SimulatedStore, Manifest]:
    """A store with version 1 of a table, its requests forgotten."""
    store = SimulatedStore()
    base = await put(store, creation(), None)
    store.requests.clear()
    return store, base


def kinds(store: SimulatedStore) -> list[str]:
    return [request.kind for request in store.requests]


def transaction_files(store: SimulatedStore) -> list[str]:
    prefix = f"{ROOT}/_transactions/"
    return sorted(path.removeprefix(prefix) for path in store.objects if path.startswith(prefix))


def place(store: SimulatedStore, value: Manifest) -> None:
    data = b"".join(build_manifest(value))
    store.preload(manifest_path(ROOT, value.version, value.naming), data)


async def newest(store: SimulatedStore) -> Manifest:
    store.hook = None
    return await read_manifest(at(store))


def failing(kind: str, when: Moment, error: type[StoreError], times: int = 1) -> Hook:
    """A hook that fails some requests for manifests."""
    left = times

    async def hook(request: Request, moment: Moment) -> None:
        nonlocal left
        if (request.kind, moment) == (kind, when) and "_versions" in request.path and left:
            left -= 1
            raise error("told to fail", path=request.path)

    return hook


async def test_create() -> None:
    store = SimulatedStore()
    made = await put(store, creation(), None)
    assert made == await newest(store)
    assert transaction_files(store) == ["0-create.txn"]
    assert sorted(kinds(store)[:3]) == ["list", "put", "put_if_absent"]


async def test_append_is_one_round() -> None:
    store, base = await table()
    made = await put(store, append(base, "x"), base)
    assert sorted(kinds(store)) == ["put", "put_if_absent"]
    assert made == await newest(store)
    assert paths(made) == ["create", "x"]
    assert await read_transaction(at(store), made) == append(base, "x")


async def test_the_two_puts_of_an_append_are_under_way_together() -> None:
    store, base = await table()
    store.hook = meeting()
    with anyio.fail_after(5):
        await put(store, append(base, "x"), base)


async def test_a_lost_race_costs_one_read() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    store.requests.clear()
    made = await put(store, append(base, "mine"), base)
    assert sorted(kinds(store)) == ["get_tail", "put", "put_if_absent", "put_if_absent"]
    assert (made.version, paths(made)) == (3, ["create", "theirs", "mine"])


async def test_a_handle_far_behind_catches_up_in_one_listing() -> None:
    store, base = await table()
    head = base
    for i in range(40):
        head = await put(store, append(head, f"theirs{i}"), head)
    store.requests.clear()
    made = await put(store, append(base, "mine"), base)
    assert made.version == 42
    assert paths(made)[-2:] == ["theirs39", "mine"]
    assert kinds(store).count("put_if_absent") == 3
    assert kinds(store).count("list") == 1


async def test_looking_first_saves_the_lost_races() -> None:
    store, base = await table()
    head = await put(store, append(base, "theirs"), base)
    store.requests.clear()
    made = await put(store, append(base, "mine"), base, look=True)
    assert made.version == head.version + 1
    assert kinds(store).count("put_if_absent") == 1
    assert kinds(store)[:2] == ["list", "get_tail"]


@pytest.mark.parametrize("num_writers", [2, 8])
async def test_concurrent_appends_all_survive(num_writers: int) -> None:
    store, base = await table()
    made: list[Manifest] = []
    policy = CommitPolicy(attempts_max=50)

    async def write(name: str) -> None:
        made.append(await put(store, append(base, name), base, policy=policy))

    async with anyio.create_task_group() as tg:
        for i in range(num_writers):
            tg.start_soon(write, f"w{i}")
    assert sorted(m.version for m in made) == list(range(2, num_writers + 2))
    final = await newest(store)
    assert sorted(paths(final)) == sorted(["create", *(f"w{i}" for i in range(num_writers))])
    assert [f.id for f in final.fragments] == list(range(num_writers + 1))
    assert len(transaction_files(store)) == num_writers + 1


async def test_a_create_race_has_one_winner() -> None:
    store = SimulatedStore()
    made: list[Manifest] = []
    refused: list[DatasetAlreadyExistsError] = []

    async def create(name: str) -> None:
        try:
            made.append(await put(store, creation(name), None))
        except DatasetAlreadyExistsError as exc:
            refused.append(exc)

    async with anyio.create_task_group() as tg:
        for i in range(5):
            tg.start_soon(create, f"w{i}")
    assert (len(made), len(refused)) == (1, 4)
    assert made == [await newest(store)]
    assert transaction_files(store) == [made[0].transaction_file]


async def test_create_over_a_dataset_leaves_nothing() -> None:
    store, _ = await table()
    before = dict(store.objects)
    with pytest.raises(DatasetAlreadyExistsError, match="overwrite"):
        await put(store, creation("again"), None)
    assert store.objects == before


async def test_create_over_a_dataset_whose_first_version_is_cleaned_up() -> None:
    store, base = await table()
    await put(store, append(base, "x"), base)
    del store.objects[manifest_path(ROOT, 1, Naming.V2)]
    with pytest.raises(DatasetAlreadyExistsError):
        await put(store, creation("again"), None)
    assert manifest_path(ROOT, 1, Naming.V2) not in store.objects


async def test_an_append_after_an_overwrite_conflicts() -> None:
    store, base = await table()
    await put(store, build_overwrite(base, schema("z"), [], uuid="theirs"), base)
    with pytest.raises(CommitConflictError, match="incompatible with Overwrite") as caught:
        await put(store, append(base, "mine"), base)
    assert (caught.value.read_version, caught.value.version) == (1, 2)
    assert caught.value.uuid == "mine"
    assert transaction_files(store) == ["0-create.txn", "1-theirs.txn"]
    assert (await newest(store)).version == 2


async def test_a_conflict_among_the_versions_caught_up_with() -> None:
    store, base = await table()
    head = await put(store, build_overwrite(base, schema(), [], uuid="theirs"), base)
    await put(store, append(head, "later"), head)
    with pytest.raises(CommitConflictError, match="Overwrite, which was committed as version 2"):
        await put(store, append(base, "mine"), base, look=True)
    assert (await newest(store)).version == 3


async def test_an_overwrite_after_an_append_goes_on_top() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    mine = build_overwrite(base, schema(), [fragment("mine")], uuid="mine")
    made = await put(store, mine, base)
    assert (made.version, paths(made), [f.id for f in made.fragments]) == (3, ["mine"], [2])


async def test_two_overwrites_are_to_be_run_again() -> None:
    store, base = await table()
    await put(store, build_overwrite(base, schema(), [], uuid="theirs"), base)
    with pytest.raises(RetryableCommitError, match="overtaken by Overwrite in version 2"):
        await put(store, build_overwrite(base, schema(), [], uuid="mine"), base)
    assert transaction_files(store) == ["0-create.txn", "1-theirs.txn"]


async def test_a_version_without_record_conflicts() -> None:
    store, base = await table()
    place(store, manifest(2))
    with pytest.raises(CommitConflictError, match="incompatible with Unknown"):
        await put(store, append(base, "mine"), base)


async def test_a_version_of_which_the_transaction_file_is_gone_conflicts() -> None:
    store, base = await table()
    place(store, manifest(2, transaction_file="1-theirs.txn"))
    with pytest.raises(CommitConflictError, match="incompatible with Unknown"):
        await put(store, append(base, "mine"), base)
    assert (await newest(store)).version == 2


async def test_a_version_that_was_cleaned_up_cannot_be_checked() -> None:
    store, base = await table()
    head = base
    for i in range(4):
        head = await put(store, append(head, f"theirs{i}"), head)
    del store.objects[manifest_path(ROOT, 3, Naming.V2)]
    with pytest.raises(RetryableCommitError, match=r"version 3 .* has been cleaned up"):
        await put(store, append(base, "mine"), base, look=True)
    assert (await newest(store)).version == 5


async def test_attempts_come_to_an_end() -> None:
    store, base = await table()
    head = base

    async def overtake(request: Request, moment: Moment) -> None:
        nonlocal head
        if request.kind == "put_if_absent" and moment is Moment.BEFORE:
            made = replace(head, version=head.version + 1, transaction_file="", transaction=None)
            transaction = append(head, f"theirs{head.version}")
            made = replace(made, transaction_file=transaction.file_name)
            store.preload(
                f"{ROOT}/_transactions/{transaction.file_name}", build_transaction(transaction)
            )
            place(store, made)
            head = made

    store.hook = overtake
    with pytest.raises(CommitContentionError, match="5 in all") as caught:
        await put(store, append(base, "mine"), base)
    assert caught.value.uuid == "mine"
    assert kinds(store).count("put_if_absent") == 5
    assert "1-mine.txn" not in transaction_files(store)


async def test_a_lost_answer_is_found_to_have_landed() -> None:
    store, base = await table()
    store.hook = failing("put_if_absent", Moment.AFTER, StoreTimeoutError)
    made = await put(store, append(base, "x"), base)
    assert made.version == 2
    assert made == await newest(store)


async def test_a_lost_answer_when_another_won() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    store.hook = failing("put_if_absent", Moment.BEFORE, StoreTimeoutError)
    made = await put(store, append(base, "mine"), base)
    assert paths(made) == ["create", "theirs", "mine"]


async def test_an_inner_retry_that_meets_its_own_put() -> None:
    store, base = await table()
    inner = store.put_if_absent

    async def retried(path: str, data: object) -> None:
        await inner(path, data)  # type: ignore[arg-type]
        await inner(path, data)  # type: ignore[arg-type]

    store.put_if_absent = retried  # type: ignore[method-assign]
    made = await put(store, append(base, "x"), base)
    assert (made.version, made) == (2, await newest(store))


async def test_a_put_that_never_arrives_is_sent_again() -> None:
    store, base = await table()
    store.hook = failing("put_if_absent", Moment.BEFORE, StoreTimeoutError, times=3)
    made = await put(store, append(base, "x"), base)
    assert (made.version, paths(made)) == (2, ["create", "x"])
    assert kinds(store).count("put_if_absent") == 4


async def test_a_put_that_arrives_late_is_recognised() -> None:
    store, base = await table()
    late: list[tuple[str, bytes]] = []

    async def hold(request: Request, moment: Moment) -> None:
        if request.kind == "put_if_absent" and moment is Moment.AFTER and not late:
            late.append((request.path, store.objects.pop(request.path)))
            raise StoreTimeoutError("held", path=request.path)
        if request.kind == "put_if_absent" and moment is Moment.BEFORE and late:
            store.preload(*late[0])

    store.hook = hold
    made = await put(store, append(base, "x"), base)
    assert (made.version, paths(made)) == (2, ["create", "x"])
    assert (await newest(store)).version == 2


async def test_an_outcome_that_cannot_be_read_is_unknown() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if "_versions" in request.path:
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    with pytest.raises(CommitStateUnknownError, match="look for transaction x") as caught:
        await put(store, append(base, "x"), base)
    assert (caught.value.version, caught.value.uuid) == (2, "x")
    assert isinstance(caught.value.__cause__, StoreTimeoutError)
    assert "1-x.txn" in transaction_files(store)


async def test_puts_that_never_arrive_may_still() -> None:
    store, base = await table()
    store.hook = failing("put_if_absent", Moment.BEFORE, StoreTimeoutError, times=99)
    with pytest.raises(CommitStateUnknownError):
        await put(store, append(base, "x"), base)
    assert kinds(store).count("put_if_absent") == 5
    assert "1-x.txn" in transaction_files(store)


async def test_a_winner_that_is_damaged_leaves_it_unknown() -> None:
    store, base = await table()
    store.preload(manifest_path(ROOT, 2, Naming.V2), b"damaged")
    with pytest.raises(CommitStateUnknownError) as caught:
        await put(store, append(base, "x"), base)
    assert isinstance(caught.value.__cause__, CorruptFileError)


async def test_a_put_without_end_is_given_up() -> None:
    store, base = await table()

    async def hang(request: Request, moment: Moment) -> None:
        if request.kind == "put_if_absent" and moment is Moment.BEFORE:
            await anyio.sleep_forever()

    store.hook = hang
    with pytest.raises(CommitStateUnknownError):
        await put(store, append(base, "x"), base, policy=CommitPolicy(put_deadline_s=0.0))


async def test_refused_credentials_are_a_verdict() -> None:
    store, base = await table()
    store.hook = failing("put_if_absent", Moment.BEFORE, PermissionDeniedError)
    with pytest.raises(PermissionDeniedError):
        await put(store, append(base, "x"), base)
    assert transaction_files(store) == ["0-create.txn"]


async def test_credentials_refused_after_a_lost_put_are_no_verdict() -> None:
    store, base = await table()
    lost = failing("put_if_absent", Moment.BEFORE, StoreTimeoutError)
    denied = failing("put_if_absent", Moment.BEFORE, PermissionDeniedError, times=99)

    async def both(request: Request, moment: Moment) -> None:
        await lost(request, moment)
        await denied(request, moment)

    store.hook = both
    with pytest.raises(CommitStateUnknownError) as caught:
        await put(store, append(base, "x"), base)
    assert isinstance(caught.value.__cause__, PermissionDeniedError)


async def test_a_lost_transaction_file_does_not_fail_the_commit() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if request.kind == "put":
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    made = await put(store, append(base, "x"), base)
    store.hook = None
    assert await read_transaction(at(store), made) == append(base, "x")


async def test_a_transaction_too_long_for_the_manifest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("alance.table.apply.TRANSACTION_BYTES_MAX", 10)
    store, base = await table()
    made = await put(store, append(base, "x"), base)
    assert kinds(store) == ["put", "put_if_absent"]
    assert made.transaction is None
    assert await read_transaction(at(store), made) == append(base, "x")

    async def fail(request: Request, moment: Moment) -> None:
        if request.kind == "put":
            raise StoreTimeoutError("down", path=request.path)

    store.hook = fail
    with pytest.raises(StoreTimeoutError):
        await put(store, append(made, "y"), made)
    assert (await newest(store)).version == 2


async def test_no_transaction_file_where_the_table_has_none() -> None:
    store = SimulatedStore()
    base = manifest(writer_flags=int(Feature.NO_TRANSACTION_FILES))
    place(store, base)
    mine, theirs = append(base, "mine"), append(base, "theirs")
    await put(store, theirs, base)
    store.hook = failing("put_if_absent", Moment.AFTER, StoreTimeoutError, times=2)
    made = await put(store, mine, base)
    assert (made.version, paths(made)) == (3, ["theirs", "mine"])
    assert transaction_files(store) == []


async def test_the_same_transaction_again_finds_what_it_became() -> None:
    store, base = await table()
    mine = append(base, "mine")
    first = await put(store, mine, base)
    assert await put(store, mine, base) == first
    await put(store, append(first, "later"), first)
    assert await put(store, mine, base, look=True) == first
    assert paths(await newest(store)) == ["create", "mine", "later"]


async def test_the_same_creation_again_finds_what_it_became() -> None:
    store = SimulatedStore()
    first = await put(store, creation(), None)
    await put(store, append(first, "later"), first)
    assert await put(store, creation(), None) == first
    assert transaction_files(store) == ["0-create.txn", "1-later.txn"]


async def test_unknown_writer_flags_refuse_the_commit() -> None:
    store = SimulatedStore()
    base = manifest(writer_flags=1 << 30)
    place(store, base)
    with pytest.raises(UnsupportedFeatureError, match="bit 30"):
        await put(store, append(base, "x"), base)
    assert list(store.objects) == [manifest_path(ROOT, 1, Naming.V2)]


@pytest.mark.parametrize("flags", [{"writer_flags": 1 << 30}, {"reader_flags": 1 << 30}])
async def test_unknown_flags_of_a_winner_refuse_the_commit(flags: dict[str, int]) -> None:
    store, base = await table()
    theirs = append(base, "theirs")
    place(store, manifest(2, transaction=build_transaction(theirs), **flags))
    with pytest.raises(UnsupportedFeatureError, match="bit 30"):
        await put(store, append(base, "mine"), base)
    assert transaction_files(store) == ["0-create.txn"]


async def test_what_is_not_committed_here_writes_nothing() -> None:
    store, base = await table()
    before = dict(store.objects)
    with pytest.raises(InvalidInputError, match="does not commit Delete"):
        await put(store, Transaction(1, "u", Other("Delete")), base)
    with pytest.raises(InvalidInputError, match="only Overwrite creates"):
        await put(SimulatedStore(), replace(append(base, "u"), read_version=0), None)
    assert store.objects == before


@pytest.mark.parametrize("uuid", ["mine", "theirs"])
async def test_whose_a_version_is_tells_its_uuid(uuid: str) -> None:
    """Where there is no transaction file the record itself is compared, not its bytes."""
    store = SimulatedStore()
    base = manifest(writer_flags=int(Feature.NO_TRANSACTION_FILES))
    place(store, base)
    moved = replace(append(base, uuid), tag="of an attempt with other bytes")
    record = build_transaction(moved)
    place(store, manifest(2, transaction=record, writer_flags=base.writer_flags))
    made = await put(store, append(base, "mine"), base)
    assert made.version == (2 if uuid == "mine" else 3)


async def test_attempts_end_when_their_time_is_over() -> None:
    store, base = await table()
    await put(store, append(base, "theirs"), base)
    policy = CommitPolicy(attempts_max=5, time_max_s=0.0)
    with pytest.raises(CommitContentionError, match="1 in all"):
        await put(store, append(base, "mine"), base, policy=policy)
    assert kinds(store).count("put_if_absent") == 2


def test_pauses_grow_to_a_bound() -> None:
    policy = CommitPolicy(backoff_s=0.1, backoff_max_s=1.0)
    rng = random.Random(0)
    for failures in (2, 3, 5, 100):
        longest = min(0.1 * 2 ** (failures - 2), 1.0)
        pauses = [policy.pause_s(failures, rng) for _ in range(200)]
        assert 0 <= min(pauses) < max(pauses) <= longest
        assert max(pauses) > 0.9 * longest


async def test_credentials_refused_for_all_leave_no_exception_group() -> None:
    store, base = await table()

    async def fail(request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            raise PermissionDeniedError("no", path=request.path)

    store.hook = fail
    with pytest.raises(CommitStateUnknownError) as caught:
        await put(store, append(base, "x"), base)
    assert isinstance(caught.value.__cause__, PermissionDeniedError)


async def test_a_long_manifest_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    makers: list[threading.Thread] = []

    def build(value: Manifest) -> list[bytes]:
        makers.append(threading.current_thread())
        return build_manifest(value)

    monkeypatch.setattr("alance.table.commit.FRAGMENTS_BUILT", 2)
    monkeypatch.setattr("alance.table.commit.build_manifest", build)
    store, base = await table()
    while len(base.fragments) < 5:
        base = await put(store, append(base, f"f{len(base.fragments)}"), base)
    assert [maker is threading.main_thread() for maker in makers[-3:]] == [True, False, False]
    assert await read_manifest(at(store)) == base
