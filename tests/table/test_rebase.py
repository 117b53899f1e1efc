"""What a rebase makes of a change, and what it leaves in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

import anyio
import hypothesis.strategies as st
import pytest
from hypothesis import given
from pyroaring import BitMap

from alance.errors import CorruptFileError, RetryableCommitError, StoreError
from alance.file.schema import Schema
from alance.io.simulated import Moment, Request, SimulatedStore
from alance.table.deletion import deletion_path, read_deletion_vector, write_deletion_file
from alance.table.indices import FRAGMENT_REUSE, IndexMetadata, build_fragment_bitmap
from alance.table.manifest import DeletionKind, Fragment, Manifest
from alance.table.operations import Append, CreateIndex, Delete, Operation, Project, Update
from alance.table.rebase import Rebased, rebase
from alance.table.transaction import Transaction
from tests.table.samples import ROOT, fragment, manifest, schema

pytestmark = pytest.mark.anyio

ROWS = 10
F0, F1 = (fragment(f"f{i}", rows=ROWS, id=i) for i in range(2))
READ = manifest(3, F0, F1)
Rows = AbstractSet[int]


async def without(
    store: SimulatedStore, kept: Fragment, rows: Rows, *, version: int = 3
) -> Fragment:
    """Fragment with a deletion file."""
    file = await write_deletion_file(store, ROOT, kept.id, BitMap(rows), read_version=version)
    return replace(kept, deletion_file=file)


async def attempt(
    store: SimulatedStore,
    operation: Operation,
    current: Manifest,
    affected: dict[int, Rows] | None = None,
    *,
    read: Manifest = READ,
) -> Rebased:
    rows = {i: BitMap(offsets) for i, offsets in (affected or {}).items()}
    mine = Transaction(read.version, "mine", operation)
    return await rebase(store, ROOT, mine, read=read, current=current, affected_rows=rows)


async def deleted(store: SimulatedStore, found: Fragment) -> set[int]:
    return set((await read_deletion_vector(store, ROOT, found)).tolist())


def updated(rebased: Rebased) -> tuple[Fragment, ...]:
    operation = rebased.transaction.operation
    assert isinstance(operation, Delete | Update)
    return operation.updated_fragments


async def test_rows_deleted_by_both_are_gone() -> None:
    store = SimulatedStore()
    mine, theirs = await without(store, F0, {1, 2}), await without(store, F0, {7})
    before = set(store.objects)
    current = manifest(5, theirs, F1)
    rebased = await attempt(store, Delete((mine,), (), "x < 3"), current, {0: {1, 2}})

    (merged,) = updated(rebased)
    assert await deleted(store, merged) == {1, 2, 7}
    assert merged.deletion_file is not None
    assert merged.deletion_file.kind is DeletionKind.BITMAP
    assert merged.deletion_file.read_version == 5
    assert replace(merged, deletion_file=None) == F0
    assert rebased.transaction == Transaction(5, "mine", Delete((merged,), (), "x < 3"))
    assert rebased.written == (deletion_path(ROOT, merged),)
    assert set(store.objects) - before == set(rebased.written)
    assert rebased.superseded == (deletion_path(ROOT, mine),)


async def test_an_update_keeps_the_rest_of_what_it_says() -> None:
    store = SimulatedStore()
    mine, theirs = await without(store, F0, {1}), await without(store, F0, {7})
    kept = Update(new_fragments=(fragment("moved"),), fields_for_preserving_frag_bitmap=(1,))
    operation = replace(kept, updated_fragments=(mine,))
    rebased = await attempt(store, operation, manifest(4, theirs, F1), {0: {1}})
    (merged,) = updated(rebased)
    assert await deleted(store, merged) == {1, 7}
    assert rebased.transaction.operation == replace(kept, updated_fragments=(merged,))


async def test_only_fragments_that_others_changed_are_merged() -> None:
    store = SimulatedStore()
    mine = await without(store, F0, {1})
    current = manifest(4, F0, await without(store, F1, {1}))
    store.requests.clear()
    rebased = await attempt(store, Delete((mine,)), current, {0: {1}})
    assert rebased == Rebased(Transaction(4, "mine", Delete((mine,))))
    assert not store.requests


async def test_a_fragment_of_which_no_row_is_left_goes() -> None:
    store = SimulatedStore()
    low, high = set(range(5)), set(range(5, ROWS))
    other = await without(store, F1, {0})
    mine, theirs = await without(store, F0, low), await without(store, F0, high)
    rest = [fragment("g", rows=ROWS, id=7)]
    read, current = manifest(3, F0, F1, *rest), manifest(4, theirs, F1, *rest)
    store.requests.clear()
    rebased = await attempt(
        store, Delete((mine, other), (7,)), current, {0: low, 1: {0}}, read=read
    )
    assert rebased.transaction.operation == Delete((other,), (7, 0))
    assert rebased.written == ()
    assert [request.kind for request in store.requests] == ["get_tail"]
    moved = Update(updated_fragments=(mine,), removed_fragment_ids=(7,))
    again = await attempt(store, moved, current, {0: low}, read=read)
    assert again.transaction.operation == Update(removed_fragment_ids=(7, 0))


async def test_a_rebased_change_is_rebased_once_more() -> None:
    store = SimulatedStore()
    mine = await without(store, F0, {1})
    second = manifest(4, await without(store, F0, {2}), F1)
    once = await attempt(store, Delete((mine,)), second, {0: {1}})
    third = manifest(5, await without(store, F0, {2, 3}), F1)
    operation = once.transaction.operation
    twice = await attempt(store, operation, third, {0: {1}}, read=second)
    assert await deleted(store, updated(twice)[0]) == {1, 2, 3}
    assert twice.superseded == once.written


async def test_all_is_read_at_once_and_written_at_once() -> None:
    store = SimulatedStore()
    mine = [await without(store, kept, {1}) for kept in (F0, F1)]
    theirs = [await without(store, kept, {2}) for kept in (F0, F1)]
    store.requests.clear()
    waiting: list[Request] = []

    async def gather(request: Request, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            waiting.append(request)
            while len(waiting) % 2:
                await anyio.lowlevel.checkpoint()

    store.hook = gather
    with anyio.fail_after(5):
        await attempt(store, Delete(tuple(mine)), manifest(4, *theirs), {0: {1}, 1: {1}})
    assert [request.kind for request in waiting] == ["get_tail", "get_tail", "put", "put"]


async def test_a_deletion_file_that_is_gone_means_none_is_deleted() -> None:
    store = SimulatedStore()
    was = await without(store, F0, {3})
    mine = await without(store, F0, {1, 3})
    rebased = await attempt(
        store, Delete((mine,)), manifest(4, F0, F1), {0: {1}}, read=manifest(3, was, F1)
    )
    assert await deleted(store, updated(rebased)[0]) == {1}


async def _same_row(store: SimulatedStore) -> Manifest:
    return manifest(4, await without(store, F0, {1, 5}), F1)


async def _gone(store: SimulatedStore) -> Manifest:
    return manifest(4, F1)


async def _other_files(store: SimulatedStore) -> Manifest:
    return manifest(4, await without(store, fragment("new", id=0), {5}), F1)


async def _lost_file(store: SimulatedStore) -> Manifest:
    theirs = await without(store, F0, {5})
    await store.delete(deletion_path(ROOT, theirs))
    return manifest(4, theirs, F1)


async def _elsewhere(store: SimulatedStore) -> Manifest:
    theirs = await without(store, F0, {5})
    assert theirs.deletion_file is not None
    file = replace(theirs.deletion_file, base_id=2)
    return manifest(4, replace(theirs, deletion_file=file), F1)


@pytest.mark.parametrize(
    ("happened", "reason"),
    [
        (_same_row, "same rows"),
        (_gone, "is gone"),
        (_other_files, "other data files"),
        (_lost_file, "a deletion file that is gone"),
        (_elsewhere, "below base path 2"),
    ],
)
async def test_what_cannot_be_merged_must_run_again(
    happened: Callable[[SimulatedStore], Awaitable[Manifest]], reason: str
) -> None:
    store = SimulatedStore()
    mine = await without(store, F0, {1})
    current = await happened(store)
    before = set(store.objects)
    with pytest.raises(RetryableCommitError, match=reason) as caught:
        await attempt(store, Delete((mine,)), current, {0: {1}})
    assert caught.value.read_version == 3
    assert caught.value.version == 5
    assert caught.value.uuid == "mine"
    assert set(store.objects) == before


@pytest.mark.parametrize(
    ("operation", "affected"),
    [
        (Delete((F0,)), None),
        (Delete((F0,)), {1: {1}}),
        (Delete((F0,)), {0: set()}),
        (Delete((fragment("rewritten", id=0),)), {0: {1}}),
        (Delete((fragment("x", id=7),)), {7: {1}}),
        (Delete((), (0,)), {0: {1}}),
        (Update(removed_fragment_ids=(7,)), {0: {1}}),
    ],
)
async def test_what_is_not_known_to_go_together_must_run_again(
    operation: Delete | Update, affected: dict[int, Rows] | None
) -> None:
    store = SimulatedStore()
    current = manifest(4, await without(store, F0, {5}), F1)
    with pytest.raises(RetryableCommitError):
        await attempt(store, operation, current, affected)


async def test_a_deletion_file_that_others_refer_to_is_never_superseded() -> None:
    """The change names a row, but leaves the fragment with the deletion file it had."""
    store = SimulatedStore()
    was = await without(store, F0, {3})
    current = manifest(4, await without(store, F0, {3, 5}), F1)
    with pytest.raises(RetryableCommitError, match="other deleted rows"):
        await attempt(store, Delete((was,)), current, {0: {1}}, read=manifest(3, was, F1))


async def test_a_deletion_file_below_a_base_path_is_read_there() -> None:
    store, base = SimulatedStore(), SimulatedStore()
    mine, theirs = await without(store, F0, {1}), await without(base, F0, {5})
    assert theirs.deletion_file is not None
    theirs = replace(theirs, deletion_file=replace(theirs.deletion_file, base_id=2))
    rebased = await rebase(
        store,
        ROOT,
        Transaction(3, "mine", Delete((mine,))),
        read=READ,
        current=manifest(4, theirs, F1),
        affected_rows={0: BitMap({1})},
        bases={2: (base, ROOT)},
    )
    (merged,) = updated(rebased)
    assert merged.deletion_file is not None
    assert merged.deletion_file.base_id is None
    assert await deleted(store, merged) == {1, 5}


async def test_a_damaged_deletion_file_is_told() -> None:
    store = SimulatedStore()
    mine, theirs = await without(store, F0, {1}), await without(store, F0, {5})
    store.preload(deletion_path(ROOT, theirs), b"no deletion file")
    with pytest.raises(CorruptFileError):
        await attempt(store, Delete((mine,)), manifest(4, theirs, F1), {0: {1}})


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("how", ["error", "scope", "task"])
async def test_a_rebase_cut_short_removes_what_it_knows_to_have_written(
    number: int, moment: Moment, how: str
) -> None:
    """Two reads, then two puts; one of them is cut short when the other has been answered."""
    store = SimulatedStore()
    mine = [await without(store, kept, {1}) for kept in (F0, F1)]
    theirs = [await without(store, kept, {2}) for kept in (F0, F1)]
    before = set(store.objects)
    store.requests.clear()
    cut: list[str] = []
    caller = asyncio.current_task()
    assert caller is not None

    async def interrupt(request: Request, found: Moment) -> None:
        if request.number != number or found is not moment:
            return
        for _ in range(10):  # until the other one is through
            await anyio.lowlevel.checkpoint()
        cut.append(request.path)
        if how == "error":
            raise StoreError("no answer")
        scope.cancel() if how == "scope" else caller.cancel()
        await anyio.lowlevel.checkpoint()

    store.hook = interrupt
    cancelled = asyncio.CancelledError
    with anyio.CancelScope() as scope, pytest.raises((StoreError, cancelled)) as caught:
        await attempt(store, Delete(tuple(mine)), manifest(4, *theirs), {0: {1}, 1: {1}})
    assert caught.type is (StoreError if how == "error" else cancelled)
    assert len(cut) == 1
    assert set(store.objects) - before <= set(cut), "an answer that is lost may hide a file"


ROW_SETS = st.frozensets(st.integers(0, ROWS - 1))


@given(was=ROW_SETS, mine=ROW_SETS, theirs=ROW_SETS)
async def test_rows_merge_exactly_when_they_are_different(
    was: Rows, mine: Rows, theirs: Rows
) -> None:
    mine, theirs = mine - was or {9}, theirs - was or {9}
    was = was - mine - theirs
    store = SimulatedStore()
    before = await without(store, F0, was) if was else F0
    whole = len(was | theirs) == ROWS
    current = manifest(4, F1) if whole else manifest(4, await without(store, F0, was | theirs), F1)
    own = (
        Delete((), (0,))
        if len(was | mine) == ROWS
        else Delete((await without(store, F0, was | mine),))
    )
    judged = attempt(store, own, current, {0: mine}, read=manifest(3, before, F1))
    if mine & theirs or whole or not own.updated_fragments:
        with pytest.raises(RetryableCommitError):
            await judged
        return
    operation = (await judged).transaction.operation
    assert isinstance(operation, Delete)
    if len(was | mine | theirs) == ROWS:
        assert operation == Delete((), (0,))
    else:
        assert await deleted(store, operation.updated_fragments[0]) == was | mine | theirs


def index(*fragments: int, fields: tuple[int, ...] = (1,), name: str = "i") -> IndexMetadata:
    return IndexMetadata("uuid", fields, name, 3, build_fragment_bitmap(fragments))


async def test_an_index_does_not_cover_values_that_were_replaced() -> None:
    store = SimulatedStore()
    old, new = fragment("f0", fields=(0, -2)).files[0], fragment("b", fields=(1,)).files[0]
    current = manifest(4, replace(F0, files=(old, new)), F1)
    unsaid = replace(index(), fragment_bitmap=None)
    kept = (index(1, 5), index(0, 1, fields=(0,)), index(0, name=FRAGMENT_REUSE), unsaid)
    operation = CreateIndex((index(0, 1), *kept), (index(),))
    rebased = await attempt(store, operation, current)
    assert rebased == Rebased(
        Transaction(3, "mine", CreateIndex((index(1), *kept), (index(),))),
    )
    assert not store.requests


async def test_an_index_of_a_nested_field_follows_the_columns_below_it() -> None:
    store = SimulatedStore()
    fields = tuple(
        replace(schema().fields[0], name=name, id=i, parent_id=parent, logical_type=kind)
        for name, i, parent, kind in [("l", 0, -1, "list"), ("item", 1, 0, "int64")]
    )
    read = manifest(3, F0, F1, schema=Schema(fields))
    current = manifest(4, replace(F0, files=fragment("new").files), F1, schema=Schema(fields))
    rebased = await attempt(store, CreateIndex((index(0, 1, fields=(0,)),)), current, read=read)
    assert rebased.transaction.operation == CreateIndex((index(1, fields=(0,)),))


async def test_a_projection_takes_over_newer_metadata_of_the_fields_it_keeps() -> None:
    a, b = schema().fields
    described = replace(a, metadata={"k": b"1"}, unenforced_primary_key=True)
    other = replace(b, metadata={"k": b"1"})
    current = manifest(4, F0, F1, schema=Schema((described, other)))
    renamed = replace(a, name="aa", nullable=False)
    own = replace(b, metadata={"k": b"mine"})
    mine = Project(Schema((renamed, own)), preserves_nullability=True)
    rebased = await attempt(SimulatedStore(), mine, current)
    expected = Schema((replace(described, name="aa", nullable=False), own))
    assert rebased.transaction.operation == Project(expected, preserves_nullability=True)
    assert rebased.transaction.read_version == 3


async def test_other_changes_come_back_as_they_are() -> None:
    mine = Append((fragment("x"),))
    rebased = await attempt(SimulatedStore(), mine, manifest(4, F0))
    assert rebased == Rebased(Transaction(3, "mine", mine))
