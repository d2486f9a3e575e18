"""Finds the other series that show a change whose cause is known already.

A series alone needs several points before its change is believed. Where a cause is known, one point
tells whether a series moved with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Direction
from service.analysis.detection.change import ChangePoint
from service.findings import causes
from service.findings.bad_nodes import slow_periods
from service.findings.gather_evidence import neighbours, where_of
from service.findings.queries import places_of
from service.findings.rules import NEAR, Candidate, SlowPeriods, by_ill
from service.findings.suspicion import ENOUGH, LEAST_SCALE, Baseline, points_before
from service.findings.threshold_table import load_threshold
from service.findings.thresholds import least_effect
from service.history import changes, revisions
from service.history.analysis import Histories
from service.history.series_history import EDGE, SeriesHistory, between
from service.models import FindingSeries
from service.schemas.series import SeriesName

OF_A_MEDIAN = math.pi / 2
"""Variance of a median, beside that of a mean of as many values."""
CLEAR = 3.0
"""Standard deviations."""
AT_THE_EDGE = 1.5
"""Support up to which the last point before a place may have moved already; and likewise against
the first one from it on. One in a hundred does by noise, and is found when its history shows it."""
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
    def is_clear(self) -> bool:
        """Return True if noise alone seldom looks like that."""
        return abs(self.log) >= CLEAR * self.error


def shift_at(
    history: SeriesHistory, at: datetime, known: Sequence[int], ill: SlowPeriods
) -> Shift | None:
    """Hold the points from a place on against those before it, each worker against its past.

    ``known`` are the numbers of the points at which changes of the series begin.

    Points between the changes around the place count, but those of nodes when they were slow:
    ``ill`` says when. None if a side has too few points, or if the noise of the series is not
    known.
    """
    recent, noise = history.recent, history.analysis.noise
    index = recent.index_of(at)
    if index is None or noise is None:
        return None
    far = [place for place in known if abs(place - index) > EDGE]
    end = min((place for place in far if place > index), default=recent.first + len(recent.points))
    earlier = [p for p in points_before(recent, index, far) if not by_ill(p, ill)]
    points = recent.points[index - recent.first : end - recent.first]
    later = [point for point in points if not by_ill(point, ill)]
    if len(earlier) < ENOUGH or not later:
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
        at=index,
        before=usual.level,
        after=after,
        error=math.hypot(scale * math.sqrt(counts), offset),
        edge=(math.log(values[0] / usual.level), math.log(values[1] / usual.level)),
        point_error=math.hypot(scale, offset),
    )


def _variance_of_median(count: int) -> float:
    return 1.0 / count if count < 3 else OF_A_MEDIAN / count


def shifts(
    histories: Histories, of: SeriesName, at: datetime, members: frozenset[str]
) -> Iterator[tuple[SeriesHistory, Shift]]:
    """Yield what moved at a place in the metric of a series and is not reported there.

    ``members`` are the ids of series to leave out.
    """
    ill = slow_periods(histories.session)
    for history in neighbours(histories, of):
        if history.series.id in members:
            continue
        reported = _reported(histories.session, history)
        shown = [change.change.index for change in history.analysis.changes]
        shift = shift_at(history, at, [*shown, *reported], ill)
        if shift is not None and not _near(shift.at, reported):
            yield history, shift


def witnesses(
    histories: Histories, cause: Candidate, members: frozenset[str], now: datetime
) -> Iterator[Candidate]:
    """Yield the changes of other series of the same metric that share the cause of ``cause``.

    ``members`` are the ids of series that are known to share it.
    """
    size = math.log(cause.placed.change.after / cause.placed.change.before)
    for history, shift in shifts(histories, cause.series, cause.placed.first_bad_at, members):
        surely = causes.support(size, shift.log, shift.error)
        last, first = (causes.support(size, log, shift.point_error) for log in shift.edge)
        if surely >= causes.SUPPORT and last < AT_THE_EDGE and first > -AT_THE_EDGE:
            yield _witness(histories, history, shift, math.exp(-surely), now)


def is_reported(session: Session, history: SeriesHistory, at: int) -> bool:
    """Return True if a finding has a change of a series at a place, the number of a point."""
    return _near(at, _reported(session, history))


def _near(at: int, places: Iterable[int]) -> bool:
    return any(abs(place - at) <= EDGE for place in places)


def _reported(session: Session, history: SeriesHistory) -> list[int]:
    """Numbers of the points at which changes begin or end that findings report."""
    links = session.execute(
        select(FindingSeries.first_bad_at, FindingSeries.ended_at).where(
            FindingSeries.series_id == history.series.id
        )
    )
    numbers = (history.recent.index_of(at) for link in links for at in link if at is not None)
    return [number for number in numbers if number is not None]


def is_explained(session: Session, series: SeriesName, rank: int) -> bool:
    """Return True if the metric that moves this one changed in the same case near a place.

    ``rank`` is that of the place's revision. The change is reported by a finding.
    """
    subject = metric(series.metric).follows
    return bool(subject) and any(
        abs(revisions.rank(session, at, series.project) - rank) <= NEAR
        for at in places_of(session, series, subject)
    )


def _witness(
    histories: Histories, history: SeriesHistory, shift: Shift, doubt: float, now: datetime
) -> Candidate:
    session, series = histories.session, history.series
    shown = (
        change
        for change in history.analysis.changes
        if abs(change.change.index - shift.at) <= EDGE
        and (change.change.effect > 0) == (shift.log > 0)
    )
    placed = next(shown, None)
    if placed is None:
        point = ChangePoint(
            index=shift.at,
            effect=math.expm1(shift.log),
            effect_low=math.expm1(shift.log - 1.96 * shift.error),
            effect_high=math.expm1(shift.log + 1.96 * shift.error),
            before=shift.before,
            after=shift.after,
            improvement=(shift.log > 0) == (series.direction is Direction.HIGHER),
            confidence=1.0 - doubt,
            evidence=0.0,
        )
        here = between(history.recent, point, shift.at - history.recent.first)
        placed = changes.adopt(session, history.recent, here, now)
    where = where_of(session, placed, series.project)
    least = least_effect(load_threshold(session, series))
    return Candidate(series=series, placed=placed, **where, doubt=doubt, least=least)
