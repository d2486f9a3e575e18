"""Finds the suspicious points of a history: a low bar, for they are only measured again. Pure.

Machines of one kind differ, for ever, by as much as the changes that are looked for. Which of them
happened to measure before and after is no change, so each is held against its own past. Only points
before the suspicious one count: an offset seen from both sides would hold a part of the change.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from statistics import fmean, median
from typing import Self

from scipy.special import ndtr, stdtrit

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Direction
from service.analysis.contrast import LEAST_EFFECT
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History, Refused
from service.analysis.detection.prediction import LEAST_POINTS, Expectation, expectation
from service.analysis.detection.support import Supports, confirmed
from service.findings import rules
from service.findings.thresholds import NEVER
from service.history.series_history import EDGE, RecentPoint, RecentPoints, SeriesHistory
from service.history.slow_workers import SlowPeriods, by_ill, of_well_workers
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
    clarity: float = 0.0
    """Distance of the two levels in standard deviations of one point; zero if they are unknown."""

    @classmethod
    def of(cls, row: ConfirmationRow, series: SeriesName) -> Self:
        """As it is stored."""
        usual = Baseline(row.before, row.usual)
        return cls(series=series, **row.fields_of(cls) | {"usual": usual})

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


NEWEST = 3
"""Points at the end that may be suspicious by themselves; older ones had their chance."""
LEVEL_POINTS = 30
"""Points before a change that say what was expected."""
CLEAR_OF_YOUNG = 3.75
"""Standard deviations from a level of fewer than `LEAST_POINTS` points from which what follows it
is measured again: with less, an unlucky first point looks like another level. By Student's t, so
four of a noise that sixty points tell, and five where only sixteen do."""
LEAST_SCALE = 1e-4
"""Noise, as a share, below which all changes are equally clear, such as that of a memory size."""


def suspicions(
    history: SeriesHistory,
    since: datetime,
    covered: rules.AlreadyReported,
    ill: SlowPeriods,
    least: float = LEAST_EFFECT,
) -> list[Suspicion]:
    """Find the suspicious points of a series, which should be measured again.

    What begins before ``since`` is suspicious only where a change was detected, or together with a
    point that came since. ``covered`` is what findings say of the series already, and ``ill`` says
    when workers were slow by findings about them: neither is news. What differs by less than the
    share ``least`` is not reported.
    """
    series, analysis = history.series, history.analysis
    declared = metric(series.metric)
    if series.source:
        return []  # nothing here can measure it again
    if not declared.is_watched or declared.of_several or least == NEVER:
        return []
    shifts = {shift.index for shift in covered.shifts}
    by_well = _by_well(history, covered, ill)
    shown = [*covered.shifts, *by_well.values()]
    known = {shift.index for shift in shown}
    places: dict[int, str | None] = {
        by_well[change.id].index: change.id
        for change in analysis.changes
        if change.id in by_well
        and rules.recent(analysis, change)
        and change.id not in covered.changes
        and not _near(change.change.index, shifts)
    }
    surprises = _surprises(history, since, shown, ill)
    # A change may be placed too late. One that is placed too early leaves no surprise behind it.
    places |= {index: None for index in surprises if not _before(index, known)}
    scale = analysis.noise.scale if analysis.noise else math.inf
    rows = (
        _suspicion(history, index, change_id, known, ill, scale)
        for index, change_id in sorted(places.items())
    )
    rises = {change.id: change.change.effect > 0 for change in analysis.changes}
    found: dict[str, Suspicion] = {}
    for row in rows:
        if row is None or not rules.worth_telling(row.effect, least):
            continue
        # Without what slow workers measured a change may be none, or another one.
        if rises.get(row.change_id or "", row.effect > 0) == (row.effect > 0):
            clarity = abs(row.effect) / max(scale, LEAST_SCALE)
            found.setdefault(row.first_bad, replace(row, clarity=clarity))
    return list(found.values())


def _near(index: int, places: Iterable[int]) -> bool:
    return any(abs(index - known) <= EDGE for known in places)


def _before(index: int, places: Iterable[int]) -> bool:
    return any(0 <= known - index <= EDGE for known in places)


def _by_well(
    history: SeriesHistory, covered: rules.AlreadyReported, ill: SlowPeriods
) -> dict[str, rules.PendingShift]:
    """Give the changes of a series by id, without those that slow workers made.

    Beside a point of a slow worker, a change is as well workers show it. If they show none, it
    counts only if a finding reports it.
    """
    tail, changes = history.recent, history.analysis.changes
    beside_ill = {
        one.id
        for one in changes
        if one.change.index > tail.first and rules.beside_ill(tail, one.change.index, ill)
    }
    known, found = {shift.index for shift in covered.shifts}, {}
    for one in sorted(changes, key=lambda one: one.id in beside_ill):
        shift = rules.PendingShift(one.change.index, one.change.before, one.change.after)
        if one.id in beside_ill:
            by_well = _shift_by_well(tail, one.change, known, ill)
            if by_well is None and one.id not in covered.changes:
                continue
            shift = by_well or shift
        found[one.id] = shift
        known.add(shift.index)
    return found


def _shift_by_well(
    tail: RecentPoints, change: ChangePoint, known: Collection[int], ill: SlowPeriods
) -> rules.PendingShift | None:
    """Give a change as well workers show it, if they moved the same way."""
    earlier, later = well_sides(tail, change.index, known, ill)
    if not earlier or not later:
        return None
    usual = Baseline.of((point.worker, point.value) for point in earlier)
    values = [usual.alike(point.worker, point.value) for point in later]
    before, after = usual.level, median(values)
    same_way = (after > before) == (change.effect > 0)
    if before <= 0 or not same_way or not rules.worth_telling(after / before - 1.0):
        return None
    first = next(at for at, value in enumerate(values) if abs(value - before) > abs(value - after))
    index = tail.number_of(later[first].result_id)
    return None if index is None else rules.PendingShift(index, before, after)


def _surprises(
    history: SeriesHistory, since: datetime, shown: Iterable[rules.PendingShift], ill: SlowPeriods
) -> Sequence[int]:
    tail = history.recent
    known = [shift for shift in shown if min(shift.before, shift.after) > 0]
    count = len(tail.points)
    newest = range(max(1, count - NEWEST), count)
    alone = [
        at
        for at in newest
        if tail.points[at].revision_at >= since and _surprised(tail, at, at + 1, known, ill)
    ]
    if alone or not count or tail.points[-1].revision_at < since:
        return [tail.first + at for at in alone]
    together = (at for at in reversed(newest[:-1]) if _surprised(tail, at, count, known, ill))
    return [tail.first + at for at in islice(together, 1)]


def _surprised(
    tail: RecentPoints, at: int, end: int, known: Iterable[rules.PendingShift], ill: SlowPeriods
) -> bool:
    """Return True if some points are surprising, both as they are and with young changes undone.

    They are those from ``at`` to ``end``, by their mean: what noise hides in one, two show. What
    slow workers measured does not count. Changes are young that have too few points yet to say what
    is expected after them.
    """
    index = tail.first + at
    news = [place for place in range(at, end) if not by_ill(tail.points[place], ill)]
    if not news:
        return False
    workers = [tail.points[place].worker for place in news]
    earlier = [shift for shift in known if tail.first < shift.index <= index]
    settled = {
        shift.index - tail.first: confirmed(shift.after - shift.before)
        for shift in earlier
        if index - shift.index >= LEAST_POINTS
    }
    young = [shift for shift in earlier if index - shift.index < LEAST_POINTS]
    begun = min((shift.index - tail.first for shift in young), default=at)
    values = [one.value for one in tail.points[:end]]
    as_it_is = _expected(tail, values[:begun], settled, workers, ill)
    if as_it_is is None or not as_it_is.surprised_by(fmean(values[place] for place in news)):
        return False
    if not young:
        return True
    for shift in young:
        place = shift.index - tail.first
        values[place:] = [value * shift.before / shift.after for value in values[place:]]
    expected = _expected(tail, values[:at], settled, workers, ill)
    since = index - max(shift.index for shift in young)
    if expected is not None and since:
        expected = expected.after(since)
    return expected is not None and expected.surprised_by(fmean(values[place] for place in news))


def _expected(
    tail: RecentPoints,
    values: Sequence[float],
    settled: Supports,
    following: Sequence[str],
    ill: SlowPeriods,
) -> Expectation | None:
    """Give what ``following`` workers were expected to measure after the first points of a series.

    ``values`` are theirs; those of slow workers do not count, which would widen the range for as
    long as they are remembered. None if the rest cannot be analysed, or the level is too young.
    """
    points = tail.points[: len(values)]
    well = [at for at, point in enumerate(points) if not by_ill(point, ill)]
    settled = {bisect_left(well, place): known for place, known in settled.items()}
    workers = [points[at].worker for at in well]
    try:
        history = History.of([values[at] for at in well], tail.direction, workers)
    except Refused:
        return None
    names = history.group_names
    groups = [names.index(worker) if worker in names else None for worker in following]
    return expectation(history, settled, groups)


def points_before(tail: RecentPoints, index: int, known: Iterable[int]) -> Sequence[RecentPoint]:
    """The points of the level that ends before a place, between which no change is ``known``."""
    at = index - tail.first
    begin = max((place for place in known if place < index), default=tail.first) - tail.first
    return tail.points[max(0, begin, at - LEVEL_POINTS) : max(0, at)]


def well_sides(
    tail: RecentPoints, index: int, known: Collection[int], ill: SlowPeriods
) -> tuple[list[RecentPoint], list[RecentPoint]]:
    """Give what well workers measured between the ``known`` changes around a place."""
    end = min((place for place in known if place > index), default=tail.first + len(tail.points))
    later = tail.points[max(0, index - tail.first) : end - tail.first]
    return of_well_workers(points_before(tail, index, known), ill), of_well_workers(later, ill)


def _suspicion(
    history: SeriesHistory,
    index: int,
    change_id: str | None,
    known: Collection[int],
    ill: SlowPeriods,
    scale: float,
) -> Suspicion | None:
    """Give the suspicion at a place, if there is one, without what slow workers measured.

    ``scale`` is the standard deviation of one point, as a share.
    """
    series, tail = history.series, history.recent
    earlier, later = well_sides(tail, index, known, ill)
    if not earlier or not later or not _take_back_revision(earlier, later):
        return None
    usual = _baseline(history, earlier)
    before = usual.level
    after = median(usual.alike(point.worker, point.value) for point in later)
    for _ in range(EDGE):  # a point just before may have changed as well and been no surprise
        value = usual.alike(earlier[-1].worker, earlier[-1].value)
        if len(earlier) == 1 or abs(value - before) <= abs(value - after):
            break
        later.insert(0, earlier.pop())
    while later[0].revision == earlier[-1].revision:  # only whole revisions can be compared
        earlier.append(later.pop(0))
    while (stayed := _still_before(later, usual, after)) and len(stayed) < len(later):
        earlier += stayed  # the change was placed too early
        later = later[len(stayed) :]
        after = median(usual.alike(point.worker, point.value) for point in later)
    if min(before, after) <= 0 or before == after:
        return None
    if len(earlier) < LEAST_POINTS:
        error = scale * math.sqrt(1 / len(earlier) + 1 / len(later))
        known_from = max(1, history.analysis.points - len(history.analysis.changes) - 1)
        if abs(math.log(after / before)) < float(stdtrit(known_from, ndtr(CLEAR_OF_YOUNG))) * error:
            return None
    worker, after = _suspect(later, usual, after)
    return Suspicion(
        series=series,
        last_good=earlier[-1].revision,
        first_bad=later[0].revision,
        first_bad_at=later[0].revision_at,
        first_bad_result=later[0].result_id,
        change_id=change_id,
        worker=worker,
        usual=usual,
        after=after,
    )


def _take_back_revision(earlier: list[RecentPoint], later: list[RecentPoint]) -> bool:
    """Move what others measured of the first revision of ``later`` there; False if it goes on.

    Only whole revisions can be compared, and the worker that surprises need not come first.
    """
    for _ in range(EDGE):
        if len(earlier) == 1 or later[0].revision != earlier[-1].revision:
            break
        later.insert(0, earlier.pop())
    return later[0].revision != earlier[-1].revision


def _baseline(history: SeriesHistory, earlier: Sequence[RecentPoint]) -> Baseline:
    """Give the level of some points; of a young one, what single workers measure is known before.

    Workers differ by the same share at every level.
    """
    usual = Baseline.of((point.worker, point.value) for point in earlier)
    offsets = history.analysis.machine_offsets
    if len(earlier) >= LEAST_POINTS or not offsets or usual.level <= 0:
        return usual
    level = median(point.value / (1.0 + offsets.get(point.worker, 0.0)) for point in earlier)
    return Baseline(level, {name: level * (1.0 + share) for name, share in offsets.items()})


def _still_before(
    later: Sequence[RecentPoint], usual: Baseline, after: float
) -> Sequence[RecentPoint]:
    """Give the points of the first revision if all of them are nearer to the level before."""
    first = [point for point in later if point.revision == later[0].revision]
    values = [usual.alike(point.worker, point.value) for point in first]
    return first if all(abs(v - usual.level) < abs(v - after) for v in values) else []


def _suspect(later: Sequence[RecentPoint], usual: Baseline, after: float) -> tuple[str, float]:
    """Give the worker that moved most at the first revision, and what it measures since then.

    Where another one stayed at the old level there, ``after`` is half of a move that one node made.
    """
    before = usual.level
    measured = {
        point.worker: usual.alike(point.worker, point.value)
        for point in reversed(later)
        if point.revision == later[0].revision and point.value > 0
    }
    if not measured:
        return later[0].worker, after
    worker = max(sorted(measured), key=lambda name: abs(math.log(measured[name] / before)))
    level = measured[worker]
    stayed = [
        name
        for name in measured.keys() - {worker}
        if level != before and where_lies(measured[name], before, level) is Where.OLD
    ]
    if stayed:
        after = median(usual.alike(worker, p.value) for p in later if p.worker == worker)
    return worker, after
