"""Gathers what is known around a change and asks for its cause."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service import levels, results
from service.attribution import Attribution, Measurement, Moved, Question, Residual, attribute
from service.findings import read, rules
from service.findings.values import NOTHING, Candidate, SeriesName, Sides
from service.levels import JudgedPoint, Standing, Tail
from service.models import SeriesRow

A_SIDE = 5
"""Results on each side of a change that are read whole: enough for their spread."""
NEIGHBOURS = 300
"""Series on the same hardware that are asked whether they moved too."""
LEVEL_POINTS = 30
"""Points before a change that say where the level was."""


def explain(session: Session, group: Sequence[Candidate], measured: Sides = NOTHING) -> Attribution:
    """Say what the changes of ``group``, which share a cause, are put down to.

    ``measured`` is what was measured for this question, of the first change's case.
    """
    return attribute(question_of(session, group, measured))


def question_of(
    session: Session, group: Sequence[Candidate], measured: Sides = NOTHING
) -> Question:
    """All that is known around the first change of ``group``."""
    first = group[0]
    change, placed = first.placed.change, first.placed
    old, new = _sides(session, first)
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
            if series.id not in moved and _stayed(standing, tail, placed.first_bad_at)
        ),
        residuals=tuple(
            residual
            for series, standing, tail in around
            for residual in residuals(series, standing, tail, placed.first_bad_at)
        ),
    )


def residuals(
    series: SeriesName, standing: Standing, tail: Tail, since: datetime
) -> Iterator[Residual]:
    """How far each point from ``since`` on lies from the level before, machines' offsets apart."""
    offsets = standing.noise.machine_offsets if standing.noise else {}
    earlier = [point for point in tail.points if point.revision_at < since][-LEVEL_POINTS:]
    if not earlier:
        return
    level = median(_own(point, offsets) for point in earlier)
    sign = -1.0 if series.direction is Direction.HIGHER else 1.0
    for point in tail.points:
        if point.revision_at >= since and min(point.value, level) > 0:
            yield Residual(
                series=series.id,
                revision=point.revision,
                worker=point.worker,
                measured_at=point.revision_at,
                log_residual=sign * math.log(_own(point, offsets) / level),
            )


def _own(point: JudgedPoint, offsets: dict[str, float]) -> float:
    """A value as a machine without an offset would have measured it."""
    return point.value / (1.0 + offsets.get(point.worker, 0.0))


def _sides(session: Session, candidate: Candidate) -> tuple[list[Measurement], list[Measurement]]:
    tail = levels.load_tail(session, candidate.series.id)
    at = tail.index_of(candidate.placed.first_bad_at) or tail.first
    cut = at - tail.first
    old = tail.points[max(0, cut - A_SIDE) : cut]
    new = tail.points[cut : cut + A_SIDE]
    return (
        _load(session, (point.result_id for point in old)),
        _load(session, (point.result_id for point in new)),
    )


def _load(session: Session, result_ids: Iterable[str]) -> list[Measurement]:
    stored = (results.load_result(session, result_id) for result_id in result_ids)
    return [Measurement(each.revision, each.worker, each.result) for each in stored]


def _neighbours(session: Session, series: SeriesName) -> list[tuple[SeriesName, Standing, Tail]]:
    """Every series of the same metric on the same hardware, itself included."""
    rows = session.scalars(
        select(SeriesRow).where(SeriesRow.metric == series.metric).order_by(SeriesRow.id)
    )
    names = (read.name_of(row) for row in rows if row.comparability == series.comparability)
    return [
        (name, levels.standing_of(session, name.id), levels.load_tail(session, name.id))
        for name in islice(names, NEIGHBOURS)
    ]


def _stayed(standing: Standing, tail: Tail, at: datetime) -> bool:
    """Whether a series was measured on both sides of a place and has no change near it."""
    index = tail.index_of(at)
    if index is None or index <= tail.first or index >= tail.first + len(tail.points):
        return False
    return not rules.changes_near(standing.changes, index)
