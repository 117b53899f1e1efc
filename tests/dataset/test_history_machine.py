"""Several handles of one dataset, changed in any order, against a model of plain values."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import lance
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

import alance
from alance.errors import CommitConflictError, RetryableCommitError, VersionNotFoundError

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """What one version holds."""

    rows: tuple[int, ...]
    config: dict[str, str] = field(default_factory=dict)


class Histories(RuleBasedStateMachine):
    """Every rule changes the dataset through some handle, and the model with it."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.uri = str(self.folder / "t.lance")
        self.runner = asyncio.Runner()
        self.states: dict[int, State] = {}
        self.tags: dict[str, int] = {}
        self.next_row = 0

    def teardown(self) -> None:
        """The reference reads the same history."""
        if self.states:
            self.compare_with_reference()
        self.runner.close()
        shutil.rmtree(self.folder)

    @property
    def newest(self) -> int:
        """Number of the last version."""
        return max(self.states)

    @initialize(target=handles, stable=st.booleans(), count=st.integers(0, 5))
    def create(self, stable: bool, count: int) -> alance.Dataset:
        """The first version."""
        rows = self.new_rows(count)
        ds = self.call(
            alance.write_dataset(
                table(rows), self.uri, max_rows_per_file=3, enable_stable_row_ids=stable
            )
        )
        self.states[1] = State(rows)
        return ds

    @rule(target=handles, version=st.integers(0, 30))
    def open_some(self, version: int) -> alance.Dataset:
        """A handle at the newest version, or at any."""
        asked = version if version in self.states else None
        ds = self.call(alance.open_dataset(self.uri, version=asked))
        assert ds.version == (asked or self.newest)
        return ds

    @rule(target=handles, ds=consumes(handles))
    def refresh(self, ds: alance.Dataset) -> alance.Dataset:
        """A handle follows to the newest version."""
        newer = self.call(ds.latest())
        assert newer.version == self.newest
        return newer

    @rule(target=handles, ds=handles, count=st.integers(0, 5))
    def append(self, ds: alance.Dataset, count: int) -> Any:
        """Rows behind those of the newest version, however old the handle."""
        rows = self.new_rows(count)
        newest = self.states[self.newest]
        return self.change(
            ds.append(table(rows), max_rows_per_file=3),
            replace(newest, rows=newest.rows + rows),
        )

    @rule(target=handles, ds=handles, count=st.integers(0, 4))
    def overwrite(self, ds: alance.Dataset, count: int) -> Any:
        """Rows in place of all."""
        rows = self.new_rows(count)
        return self.change(ds.overwrite(table(rows)), replace(self.states[self.newest], rows=rows))

    @rule(target=handles, ds=handles, modulus=st.integers(1, 4), rest=st.integers(0, 3))
    def delete(self, ds: alance.Dataset, modulus: int, rest: int) -> Any:
        """Rows that match go, from the handle's version or, run again, from the newest."""
        newest = self.states[self.newest]
        matching = [row for row in newest.rows if row % modulus == rest]
        seen = set(self.states[ds.version].rows)
        either = [
            replace(newest, rows=tuple(row for row in newest.rows if row not in gone))
            for gone in (set(matching), seen.intersection(matching))
        ]
        return self.change(ds.delete(f"i % {modulus} = {rest}"), *either)

    @rule(target=handles, ds=handles)
    def restore(self, ds: alance.Dataset) -> Any:
        """The handle's version becomes the newest again."""
        return self.change(ds.restore(), self.states[ds.version])

    @rule(target=handles, ds=handles, key=st.sampled_from("ab"), value=st.none() | st.just("x"))
    def configure(self, ds: alance.Dataset, key: str, value: str | None) -> Any:
        """A setting is made or removed."""
        newest = self.states[self.newest]
        config = {k: v for k, v in {**newest.config, key: value}.items() if v is not None}
        return self.change(ds.update_config({key: value}), replace(newest, config=config))

    @rule(ds=handles, name=st.sampled_from(["one", "two"]))
    def tag(self, ds: alance.Dataset, name: str) -> None:
        """A name for the handle's version, new or moved."""
        move = ds.tags.update if name in self.tags else ds.tags.create
        self.call(move(name, ds.version))
        self.tags[name] = ds.version

    @rule(target=handles, ds=handles, version=st.integers(1, 30) | st.sampled_from(["one", "two"]))
    def checkout(self, ds: alance.Dataset, version: int | str) -> Any:
        """Another version by number or name, or a clear error."""
        number = self.tags.get(version) if isinstance(version, str) else version
        try:
            other = self.call(ds.checkout(version))
        except VersionNotFoundError:
            assert number not in self.states
            return multiple()
        assert other.version == number
        return other

    @rule(ds=handles, data=st.data())
    def take(self, ds: alance.Dataset, data: st.DataObject) -> None:
        """Rows by position, in the order asked for."""
        rows = self.states[ds.version].rows
        if rows:
            wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
            found = self.call(ds.take(wanted))
            assert found["i"].to_pylist() == [rows[position] for position in wanted]

    @rule(ds=handles)
    def read(self, ds: alance.Dataset) -> None:
        """An old handle keeps reading its version."""
        state = self.states[ds.version]
        assert tuple(self.call(ds.to_table())["i"].to_pylist()) == state.rows
        assert self.call(ds.count_rows()) == len(state.rows)
        assert ds.config == state.config

    @invariant()
    def the_newest_version_is_known(self) -> None:
        """No change went in unseen."""
        if self.states:
            assert self.call(alance.open_dataset(self.uri)).version == self.newest

    def change(self, work: Coroutine[Any, Any, alance.Dataset], *either: State) -> Any:
        """Make a change that leads to one of these states, or conflicts and leads to none."""
        try:
            ds = self.call(work)
        except (CommitConflictError, RetryableCommitError):
            return multiple()
        assert ds.version == self.newest + 1
        rows = tuple(self.call(ds.to_table())["i"].to_pylist())
        assert rows in [state.rows for state in either]
        assert ds.config == either[0].config
        self.states[ds.version] = replace(either[0], rows=rows)
        return ds

    def compare_with_reference(self) -> None:
        """Each version and tag as the reference reads it."""
        newest = lance.dataset(self.uri)
        assert {entry["version"] for entry in newest.versions()} == set(self.states)
        for version, state in self.states.items():
            theirs = newest.checkout_version(version)
            assert tuple(theirs.to_table()["i"].to_pylist()) == state.rows
            assert theirs.config() == state.config
        assert {name: tag["version"] for name, tag in newest.tags.list().items()} == self.tags

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the machine's loop."""
        return self.runner.run(work)

    def new_rows(self, count: int) -> tuple[int, ...]:
        """Values that no row has had before."""
        rows = tuple(range(self.next_row, self.next_row + count))
        self.next_row += count
        return rows


def table(rows: tuple[int, ...]) -> pa.Table:
    """Rows with these values."""
    words = [f"row {row}" for row in rows]
    return pa.table({"i": pa.array(rows, pa.int64()), "s": pa.array(words, pa.string())})


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
