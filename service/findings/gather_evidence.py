"""Gathers what is known around a change and asks for its cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.analysis.attribution import (
    Attribution,
    Measurement,
    Moved,
    Question,
    Residual,
    attribute,
)
from service.analysis.detection.change import ChangePoint
from service.analysis.recovery import clearly_at
from service.findings import queries as findings_queries
from service.findings.types import NOTHING, Candidate, Remeasured, SeriesName
from service.history import analysis, queries
from service.history.placed_changes import EDGE, PlacedChange, SeriesAnalysis
from service.history.recent import FIRST, JudgedPoint, Place, RecentPoints, without_worker_offset
from service.models import SeriesRow

A_SIDE = 5
"""Results on each side of a change that are read whole: enough for their spread."""
NEIGHBOURS = 300
"""Series on the same hardware that are asked whether they moved too."""
LEVEL_POINTS = 30
"""Points beside a change that say where the level was, or is."""


def explain(
    session: Session, group: Sequence[Candidate], measured: Remeasured = NOTHING
) -> Attribution:
    """Say what the changes of ``group``, which share a cause, are put down to.

    ``measured`` is what was measured for this question, of the first change's case.
    """
    return attribute(question_of(session, group, measured))


def question_of(
    session: Session, group: Sequence[Candidate], measured: Remeasured = NOTHING
) -> Question:
    """All that is known around the first change of ``group``."""
    first = group[0]
    change, placed = first.placed.change, first.placed
    tail = analysis.load_recent_points(session, first.series.id)
    standing = analysis.load_analysis(session, first.series.id)
    since = _begin(placed, standing, tail)
    at_new = _at_new_level(change, without_worker_offset(tail, standing.machine_offsets))
    old, new = (_load(session, side) for side in _sides(tail, since, at_new))
    around = _neighbours(session, first.series)
    alike = [each for each in group[1:] if each.series.metric == first.series.metric]
    moved = {each.series.id for each in group}
    return Question(
        case=first.series.case,
        metric=first.series.metric,
        unit=first.series.unit,
        direction=first.series.direction,
        effect=change.effect,
        effect_low=change.effect_low,
        effect_high=change.effect_high,
        last_good=placed.last_good,
        first_bad=placed.first_bad,
        before=(*old, *_load(session, measured.before)),
        after=(*new, *_load(session, measured.after)),
        moved=tuple(Moved(each.series.case, each.placed.change.effect) for each in alike),
        unmoved=tuple(
            series.case
            for series, standing, tail in around
            if series.id not in moved and _stayed(standing, tail, since)
        ),
        residuals=tuple(
            residual
            for series, standing, tail in around
            for residual in residuals(series, standing, tail, since)
        ),
    )


def residuals(
    series: SeriesName, standing: SeriesAnalysis, tail: RecentPoints, since: Place
) -> Iterator[Residual]:
    """Yield the log residual of each point from ``since`` on, against the level before.

    The machines' offsets are taken out. A residual above zero is a change for the worse.
    """
    own = without_worker_offset(tail, standing.machine_offsets)
    earlier = [point for point in tail.points if point.place < since][-LEVEL_POINTS:]
    if not earlier:
        return
    level = median(map(own, earlier))
    sign = -1.0 if series.direction is Direction.HIGHER else 1.0
    for point in tail.points:
        if point.place >= since and min(point.value, own(point), level) > 0:
            yield Residual(
                series=series.id,
                revision=point.revision,
                worker=point.worker,
                measured_at=point.revision_at,
                log_residual=sign * math.log(own(point) / level),
            )


def _begin(placed: PlacedChange, standing: SeriesAnalysis, tail: RecentPoints) -> Place:
    """Give the place where a change begins in the order of points: at its revision, or within it.

    A revision that is measured night after night may change without a change of its code. Where it
    was not clearly at both levels, noise or a faster node only hid the edge of the change.
    """
    at = tail.place_of(placed.first_bad_result, placed.first_bad_at) or tail.first
    cut = at - tail.first
    earlier = tail.points[max(0, cut - LEVEL_POINTS) : cut]
    later = tail.points[cut : cut + LEVEL_POINTS]
    if (
        earlier
        and later
        and _at_both_levels(earlier, later, without_worker_offset(tail, standing.machine_offsets))
    ):
        return later[0].place
    return placed.first_bad_at, "", FIRST


def _at_both_levels(
    earlier: Sequence[JudgedPoint],
    later: Sequence[JudgedPoint],
    own: Callable[[JudgedPoint], float],
) -> bool:
    """Return True if one revision was clearly at the level of ``earlier``, then of ``later``.

    Its last results there and its first ones here say so.
    """
    revision = later[0].revision
    sides = [[own(each) for each in side] for side in (earlier, later)]
    old, new = (median(side) for side in sides)
    stray = median(
        abs(value - level) for side, level in zip(sides, (old, new), strict=True) for value in side
    )
    here = [own(each) for each in earlier if each.revision == revision][-A_SIDE:]
    there = [own(each) for each in later if each.revision == revision][:A_SIDE]
    return clearly_at(old, new, here, stray) and clearly_at(new, old, there, stray)


def _at_new_level(
    change: ChangePoint, own: Callable[[JudgedPoint], float]
) -> Callable[[JudgedPoint], bool]:
    return lambda point: abs(own(point) - change.after) < abs(own(point) - change.before)


def _sides(
    tail: RecentPoints, since: Place, at_new: Callable[[JudgedPoint], bool]
) -> tuple[list[str], list[str]]:
    """Results next to a change, at the old level and at the new one.

    If no machine measured both, the farthest one gives way to the nearest of a machine that did: a
    new machine at the new level says nothing of the code.
    """
    cut = (tail.index_at(since) or tail.first) - tail.first
    old, new = list(tail.points[max(0, cut - A_SIDE) : cut]), list(tail.points[cut : cut + A_SIDE])
    if not {each.worker for each in old} & {each.worker for each in new}:
        earlier = tail.points[max(0, cut - LEVEL_POINTS) : cut][::-1]
        later = tail.points[cut : cut + LEVEL_POINTS]
        known = _first_of(new, (each for each in earlier if not at_new(each)))
        again = _first_of(old, (each for each in later if at_new(each)))
        if known is not None:
            old = [known, *old[-A_SIDE + 1 :]]
        elif again is not None:
            new = [*new[: A_SIDE - 1], again]
    return [each.result_id for each in old], [each.result_id for each in new]


def _first_of(others: Sequence[JudgedPoint], points: Iterable[JudgedPoint]) -> JudgedPoint | None:
    """The first point of a machine that measured one of ``others``."""
    workers = {each.worker for each in others}
    return next((each for each in points if each.worker in workers), None)


def _load(session: Session, result_ids: Iterable[str]) -> list[Measurement]:
    stored = (queries.load_result(session, result_id) for result_id in result_ids)
    return [Measurement(each.revision, each.worker, each.result) for each in stored]


def _neighbours(
    session: Session, series: SeriesName
) -> list[tuple[SeriesName, SeriesAnalysis, RecentPoints]]:
    """Every series of the project of the same metric on the same hardware, itself included."""
    same = (SeriesRow.project == series.project, SeriesRow.metric == series.metric)
    rows = session.scalars(select(SeriesRow).where(*same).order_by(SeriesRow.id))
    names = (
        findings_queries.name_of(row) for row in rows if row.comparability == series.comparability
    )
    return [
        (
            name,
            analysis.load_analysis(session, name.id),
            analysis.load_recent_points(session, name.id),
        )
        for name in islice(names, NEIGHBOURS)
    ]


def _stayed(standing: SeriesAnalysis, tail: RecentPoints, since: Place) -> bool:
    """Return True if a series has points on both sides of a place and no change near it."""
    index = tail.index_at(since)
    if index is None or index <= tail.first or index >= tail.first + len(tail.points):
        return False
    return all(abs(each.change.index - index) > EDGE for each in standing.changes)
