"""What a run is judged by: what writers meant, what they were told, what readers saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tests.simulation.network import Disk

__all__ = ["Add", "Clear", "Fate", "Intent", "Keep", "Remove", "Return", "Row", "Sighting", "World"]

Row: TypeAlias = tuple[str, int]
"""A row's identity, whatever file it lies in: the change that added it, and its number there."""


@dataclass(frozen=True, slots=True)
class Add:
    """Rows behind the others."""

    rows: frozenset[Row]


@dataclass(frozen=True, slots=True)
class Remove:
    """Rows that were there."""

    rows: frozenset[Row]


@dataclass(frozen=True, slots=True)
class Clear:
    """Rows in place of all others."""

    rows: frozenset[Row]


@dataclass(frozen=True, slots=True)
class Return:
    """The rows and settings of an earlier version."""

    version: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The rows stay; settings may change."""

    settings: Mapping[str, str] = field(default_factory=dict)


Intent: TypeAlias = Add | Remove | Clear | Return | Keep


class Fate(Enum):
    """What a writer was told of a change; one that was killed was told nothing."""

    LANDED = "landed"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a reader found in a version that it took for the newest."""

    version: int
    rows: frozenset[Row]


@dataclass(slots=True)
class World:
    """One run.

    Attributes
    ----------
    disk
        What all writers and readers share.
    rows
        Rows that each data file holds, in order.
    intents
        What each transaction is to do, by uuid.
    told
        What its writer was told: its fate and, when it landed, the version.
    sightings
        What readers saw.
    """

    disk: Disk = field(default_factory=Disk)
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    told: dict[str, tuple[Fate, int]] = field(default_factory=dict)
    sightings: list[Sighting] = field(default_factory=list)
