"""A suspicious point, and what each worker measures at the level before it. Pure.

Machines of one kind differ, for ever, by as much as the changes that are looked for. Which of them
happened to measure before and after is no change, so each is held against its own past. Only points
before the suspicious one count: an offset told from both sides would hold a part of the change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Self

from benchmarks.contracts import Direction
from service.models import ConfirmationRow
from service.schemas.series import SeriesName

CLEARLY = 0.35
"""A value lies at a level if it is within this share of the way to the other one."""
ENOUGH = 3
"""Points of a worker's own that say what it measures; with fewer it is taken for one of many."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The level that all workers measure together, and what single ones measure at it."""

    level: float
    by_worker: Mapping[str, float]
    """By worker, of those that are known well enough."""

    @classmethod
    def of(cls, measured: Iterable[tuple[str, float]]) -> Baseline:
        """From workers and what they measured, at least one.

        Raises:
            ValueError: nothing was measured.
        """
        values: dict[str, list[float]] = defaultdict(list)
        for worker, value in measured:
            values[worker].append(value)
        if not values:
            raise ValueError("Nothing was measured: there is no usual level.")
        known = {name: median(its) for name, its in values.items() if len(its) >= ENOUGH}
        return cls(
            level=median(value for its in values.values() for value in its),
            by_worker={name: level for name, level in known.items() if level > 0},
        )

    def at(self, worker: str) -> float:
        """Give the value that a worker measures at this level."""
        return self.by_worker.get(worker, self.level)

    def alike(self, worker: str, value: float) -> float:
        """Convert a worker's ``value`` to what all workers together would have measured.

        If the worker's own level is not above zero, ``value`` comes out unchanged.
        """
        level = self.at(worker)
        return value * self.level / level if level > 0 else value


class Where(StrEnum):
    """The place of a value beside the two levels of the history."""

    OLD = "old"
    NEW = "new"
    BETWEEN = "between"


def where_lies(value: float, before: float, after: float) -> Where:
    """Give the place of a value beside two different levels; all three are above zero."""
    way = math.log(value / before) / math.log(after / before)
    if way <= CLEARLY:
        return Where.OLD
    return Where.NEW if way >= 1 - CLEARLY else Where.BETWEEN


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A point that is not where its history led one to expect it, or the first of several."""

    series: SeriesName
    last_good: str
    first_bad: str
    first_bad_at: datetime
    first_bad_result: str
    change_id: str | None
    """The change, if the history shows one here."""
    worker: str
    usual: Baseline
    """What was expected, of all workers and of single ones."""
    after: float
    """What all workers together measure now."""

    @classmethod
    def of(cls, row: ConfirmationRow, series: SeriesName) -> Self:
        """As it is stored."""
        return cls(
            series=series,
            last_good=row.last_good,
            first_bad=row.first_bad,
            first_bad_at=row.first_bad_at,
            first_bad_result=row.first_bad_result,
            change_id=row.change_id,
            worker=row.worker,
            usual=Baseline(row.before, row.usual),
            after=row.after,
        )

    @property
    def before(self) -> float:
        """The level that all workers together measured before."""
        return self.usual.level

    @property
    def effect(self) -> float:
        """As a share of the level before, signed as measured."""
        return self.after / self.before - 1.0

    @property
    def worse(self) -> bool:
        """Whether the new level is the worse one."""
        return (self.after > self.before) != (self.series.direction is Direction.HIGHER)

    def where(self, worker: str, value: float) -> Where:
        """Give the place of a worker's value beside the old level and the new one."""
        return where_lies(self.usual.alike(worker, value), self.before, self.after)

    def same_way(self, baseline: float, contender: float) -> bool:
        """Return True if two values differ in the direction in which the history does."""
        return (contender > baseline) == (self.after > self.before)
