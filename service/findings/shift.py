"""Holds the points after a place of a history against those before it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from service.analysis.drift import step_beside_drift
from service.findings.rules import ReportedPlace
from service.findings.suspicion import ENOUGH, LEAST_SCALE, Baseline, points_before, well_sides
from service.history.series_history import EDGE, RecentPoint, SeriesHistory
from service.history.slow_workers import SlowPeriods, of_well_workers

OF_A_MEDIAN = math.pi / 2
"""Variance of a median, beside that of a mean of as many values."""
NORMAL_95 = 1.96
"""Standard deviations on either side that hold 95 % of a normal distribution."""
CLEAR = 3.0
"""Standard deviations."""
BESIDE = 7
"""Revisions on each side of a place that say whether a level moved all along: half of a drift."""
UNKNOWN_NODE = 0.005
"""Standard deviation between nodes of one kind, as a share: for a node that has not measured the
series often enough."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Levels of a series on both sides of a place."""

    at: int
    """Number of the first point of the new side."""
    before: float
    after: float
    error: float
    """Standard deviation of ``log``."""
    edge: tuple[float, float]
    """ln of the last point before the place and of the first one from it on, over ``before``."""
    point_error: float
    """Standard deviation of either."""

    @property
    def log(self) -> float:
        """ln(after / before)."""
        return math.log(self.after / self.before)

    @property
    def effect(self) -> float:
        """Size as a share of the level before."""
        return math.expm1(self.log)

    @property
    def effect_low(self) -> float:
        """Lower end of the 95 % interval of ``effect``."""
        return math.expm1(self.log - NORMAL_95 * self.error)

    @property
    def effect_high(self) -> float:
        """Upper end of it."""
        return math.expm1(self.log + NORMAL_95 * self.error)

    @property
    def is_clear(self) -> bool:
        """Return True if noise alone seldom looks like that."""
        return abs(self.log) >= CLEAR * self.error


def shift_at(
    history: SeriesHistory, at: datetime, reported: Sequence[ReportedPlace], ill: SlowPeriods
) -> Shift | None:
    """Hold the points from a place on against those before it, each worker against its past.

    The points between the changes around the place count, but those of nodes when they were slow:
    ``ill`` says when. Changes are those of the analysis and those that findings have ``reported``.
    None if a side has too few points, or if the noise of the series is not known.
    """
    sides = _sides(history, at, reported, ill)
    return None if sides is None else shift_between(history, *sides)


def step_at(
    history: SeriesHistory, at: datetime, reported: Sequence[ReportedPlace], ill: SlowPeriods
) -> Shift | None:
    """Like `shift_at`, but give the step alone where the level drifts along beside it."""
    sides = _sides(history, at, reported, ill)
    shift = None if sides is None else shift_between(history, *sides)
    if sides is None or shift is None:
        return None
    _, earlier, later = sides
    usual = Baseline.of((point.worker, point.value) for point in earlier)
    number = {one: at for at, one in enumerate(sorted({p.revision_at for p in earlier + later}))}
    place = number[later[0].revision_at]
    before, after = (
        [
            (number[point.revision_at] - place, math.log(value / usual.level))
            for point in side
            if abs(number[point.revision_at] - place) <= BESIDE
            and (value := usual.alike(point.worker, point.value)) > 0
        ]
        for side in (earlier, later)
    )
    found = step_beside_drift(before, after, shift.point_error)
    if found is None:
        return shift
    level = usual.level * math.exp(found.level)
    edge = (before[-1][1] - found.at(before[-1][0]), after[0][1] - found.at(after[0][0]))
    return replace(
        shift,
        before=level,
        after=level * math.exp(found.step),
        error=found.error,
        edge=edge,
        point_error=max(found.error, shift.point_error),
    )


def _sides(
    history: SeriesHistory, at: datetime, reported: Sequence[ReportedPlace], ill: SlowPeriods
) -> tuple[int, list[RecentPoint], list[RecentPoint]] | None:
    """Give the number of the first point from a place on, and the points of both levels beside."""
    recent = history.recent
    index = recent.index_of(at)
    if index is None:
        return None
    known = [change.change.index for change in history.analysis.changes]
    known += [place.at for place in reported]
    far = [place for place in known if abs(place - index) > EDGE]
    return index, *well_sides(recent, index, far, ill)


def shift_between(
    history: SeriesHistory, at: int, earlier: Sequence[RecentPoint], later: Sequence[RecentPoint]
) -> Shift | None:
    """Hold later points of a series against earlier ones, each worker against its past.

    ``at`` is the number of the first point of the new side. None if a side has too few points, or
    if the noise of the series is not known.
    """
    noise = history.analysis.noise
    if len(earlier) < ENOUGH or not later or noise is None:
        return None
    usual = Baseline.of((point.worker, point.value) for point in earlier)
    values = [usual.alike(point.worker, point.value) for point in (earlier[-1], *later)]
    after = median(values[1:])
    if min(usual.level, after, *values[:2]) <= 0:
        return None
    scale = max(noise.scale, LEAST_SCALE)
    strange = usual.by_worker.keys().isdisjoint(point.worker for point in later)
    offset = UNKNOWN_NODE if strange else 0.0
    counts = _variance_of_median(len(earlier)) + _variance_of_median(len(later))
    return Shift(
        at=at,
        before=usual.level,
        after=after,
        error=math.hypot(scale * math.sqrt(counts), offset),
        edge=(math.log(values[0] / usual.level), math.log(values[1] / usual.level)),
        point_error=math.hypot(scale, offset),
    )


def _variance_of_median(count: int) -> float:
    return 1.0 / count if count < 3 else OF_A_MEDIAN / count


NEWEST = 3
"""Points at the end that say how far a drift has come."""


def shift_by_now(
    history: SeriesHistory,
    drift: tuple[datetime, datetime, datetime],
    reported: Sequence[ReportedPlace],
    ill: SlowPeriods,
) -> Shift | None:
    """Hold the newest points of a drift against those before it.

    ``drift`` gives the places where it surely had not begun, where it had, and where it is over;
    at those in ``reported`` other changes begin or end.
    """
    recent = history.recent
    index, at, last = map(recent.index_of, drift)
    if index is None or at is None or last is None:
        return None
    later = of_well_workers(recent.points[at - recent.first : last + 1 - recent.first], ill)
    places = [place.at for place in reported]
    return shift_between(history, at, level_before(history, index, ill, places), later[-NEWEST:])


def level_before(
    history: SeriesHistory, index: int, ill: SlowPeriods, reported: Sequence[int] = ()
) -> Sequence[RecentPoint]:
    """The points of the level that ends before a place, without those of slow workers."""
    known = [*reported, *(change.change.index for change in history.analysis.changes)]
    return of_well_workers(points_before(history.recent, index, known), ill)
