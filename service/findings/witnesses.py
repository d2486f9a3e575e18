"""Finds the other series that show a change whose cause is known already.

A series alone needs several points before its change is believed. Where a cause is known, one point
tells whether a series moved with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median

from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Direction
from service.analysis.detection.change import ChangePoint
from service.findings import causes, queries, rules
from service.findings.gather_evidence import where_of
from service.findings.shift import Shift, step_at
from service.findings.suspicion import LEVEL_POINTS, Suspicion
from service.findings.threshold_table import load_threshold
from service.findings.thresholds import least_effect
from service.history import changes, revisions
from service.history.series_history import EDGE, SeriesHistory, between
from service.history.slow_workers import slow_periods
from service.schemas.series import SeriesName

AT_THE_EDGE = 1.5
"""Support up to which the last point before a place may have moved already; and likewise against
the first one from it on. One in a hundred does by noise, and is found when its history shows it."""


LATE = 7
"""Revisions after the change of a metric in which those that follow it are still moved by it."""


Support = tuple[SeriesHistory, Shift, float]
"""A series, how it moved, and what supports that it moved with a cause."""


def shifts(
    session: Session, among: Sequence[SeriesHistory], at: datetime
) -> Iterator[tuple[SeriesHistory, Shift]]:
    """Yield the series that have points on both sides of a place and no report that explains them.

    A report counts if it has the direction of the shift, and at least half of its size.
    """
    ill, reported = slow_periods(session), queries.reported_places(session, among)
    for history in among:
        places = reported[history.series.id]
        shift = step_at(history, at, places, ill)
        if shift is not None and not any(place.explains(shift.at, shift.log) for place in places):
            yield history, shift


def supporters(
    session: Session, cause: rules.Candidate, among: Sequence[SeriesHistory]
) -> Iterator[Support]:
    """Yield the series that moved with the cause of a change; reads only."""
    size = math.log(cause.placed.change.after / cause.placed.change.before)
    for history, shift in shifts(session, among, cause.placed.first_bad_at):
        surely = support_at_place(size, shift)
        if surely >= causes.SUPPORT:
            yield history, shift, surely


def support_at_place(cause: float, shift: Shift) -> float:
    """Give the support for a cause by a shift; none where the points beside the place deny it."""
    last, first = (causes.support(cause, log, shift.point_error) for log in shift.edge)
    denied = last >= AT_THE_EDGE or first <= -AT_THE_EDGE
    return -math.inf if denied else causes.support(cause, shift.log, shift.error)


def witnesses(
    session: Session, cause: rules.Candidate, among: Sequence[SeriesHistory], now: datetime
) -> list[rules.Candidate]:
    """Give the changes of other series of the same metric that share the cause of ``cause``."""
    return [
        witness(session, history, shift, math.exp(-surely), now)
        for history, shift, surely in supporters(session, cause, among)
    ]


def is_reported(
    session: Session, history: SeriesHistory, suspicion: Suspicion, *, beside: bool
) -> bool:
    """Return True if a finding has the change of a series that a suspicion speaks of.

    What was measured ``beside`` each other lies between two revisions, and what is reported before
    them is another change. Where both revisions were at the new level, it began earlier.
    """
    recent, effect = history.recent, suspicion.effect
    at = recent.index_of(suspicion.first_bad_at)
    places = queries.reported_places(session, [history])[history.series.id]
    if at is None:
        return False
    if not beside:  # it lies among the points that tell the old level, or later
        return any(
            place.holds(at, effect) or _leads_to(place, history, suspicion, at, places)
            for place in places
        )
    since = changes.after_last_good(recent, suspicion.last_good, at)
    since -= rules.misplaced_by(effect, history.analysis.noise)
    return any(
        since <= place.at <= at + EDGE and (place.effect > 0) == (effect > 0) for place in places
    )


def _leads_to(
    place: rules.ReportedPlace,
    history: SeriesHistory,
    suspicion: Suspicion,
    at: int,
    places: Sequence[rules.ReportedPlace],
) -> bool:
    """Return True if the change at a place is the one that a suspicion at ``at`` shows too late.

    The points in between are at the new level already, and nothing took the change back.
    """
    if not place.leads_to(at, suspicion.effect, LEVEL_POINTS):
        return False
    first = history.recent.first
    between = history.values[max(0, place.at - first) : at - first]
    ended = any(
        place.at < other.at <= at and (other.effect > 0) != (place.effect > 0) for other in places
    )
    if ended or not between or min(between) <= 0:
        return False
    level = math.log(median(between))
    before, after = math.log(suspicion.before), math.log(suspicion.after)
    return abs(level - after) < abs(level - before)


def is_explained(session: Session, series: SeriesName, rank: int, late: int = LATE) -> bool:
    """Return True if the metric that moves this one changed in the same case near a place.

    ``rank`` is that of the place's revision. The change is reported by a finding, and this metric
    may show it up to ``late`` revisions later.
    """
    subject = metric(series.metric).follows
    return bool(subject) and any(
        -rules.NEAR <= rank - revisions.rank(session, at, series.project) <= late + lasts
        for at, lasts in queries.places_of(session, series, subject)
    )


def witness(
    session: Session, history: SeriesHistory, shift: Shift, doubt: float, now: datetime
) -> rules.Candidate:
    """Give the change of a series that ``shift`` shows, at the place of its cause."""
    series, recent = history.series, history.recent
    shown = (
        change.id
        for change in history.analysis.changes
        if abs(change.change.index - shift.at) <= EDGE
        and (change.change.effect > 0) == (shift.log > 0)
    )
    point = ChangePoint(
        index=shift.at,
        effect=shift.effect,
        effect_low=shift.effect_low,
        effect_high=shift.effect_high,
        before=shift.before,
        after=shift.after,
        improvement=(shift.log > 0) == (series.direction is Direction.HIGHER),
        confidence=1.0 - doubt,
        evidence=0.0,
    )
    # The place is the cause's: what slow workers measured may move it in the history.
    placed = between(recent, point, shift.at - recent.first)
    known = next(shown, None) or changes.adopt(session, recent, placed, now).id
    placed = replace(placed, id=known)
    where = where_of(session, placed, series.project)
    least = least_effect(load_threshold(session, series))
    return rules.Candidate(series=series, placed=placed, **where, doubt=doubt, least=least)
