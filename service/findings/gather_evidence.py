"""The changes that a finding is about: what is known around them, and what they are put down to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import compress
from statistics import median
from typing import TypedDict

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric, reading_order
from benchmarks.contracts import Direction
from service.analysis.attribution import (
    Attribution,
    Cell,
    Measurement,
    Moved,
    Question,
    Residual,
    attribute,
)
from service.analysis.detection.change import ChangePoint
from service.analysis.recovery import clearly_at
from service.analysis.statement import Statement
from service.findings import lifecycle
from service.findings.rules import NOTHING, Candidate, Remeasured
from service.findings.unmoved_series import on_both_sides
from service.history import queries, replicates, revisions
from service.history.analysis import Histories
from service.history.queries import name_of
from service.history.series_history import FIRST, Place, PlacedChange, RecentPoint, SeriesHistory
from service.history.slow_workers import slow_periods
from service.models import FindingRow, FindingSeries, ResultRow, Revision, SeriesRow
from service.schemas.findings import Cause, Certainty, FindingKind, FindingSummary
from service.schemas.series import SeriesName
from service.wording import formats

A_SIDE = 5
"""Results on each side of a change that are read whole: enough for their spread."""
NEIGHBOURS = 300
"""Series of the same metric that are asked whether they moved too."""
LEVEL_POINTS = 30
"""Points beside a change that say where the level was, or is."""


def question_of(
    histories: Histories, group: Sequence[Candidate], measured: Remeasured = NOTHING
) -> Question:
    """All that is known around the first change of ``group``, whose changes share a cause.

    ``measured`` is what was measured again for one of the changes.
    """
    first, session = group[0], histories.session
    change, placed = first.placed.change, first.placed
    history = histories.of(first.series.id)
    since = _begin(placed, history)
    sides = ([], []) if first.series.source else _sides(history, since, change)
    old, new = (_load(session, side) for side in sides)
    again = [_load(session, side) for side in (measured.before, measured.after)]
    again = [[one for one in side if one.result.case == first.series.case] for side in again]
    around, ill = neighbours(histories, first.series), slow_periods(session)
    here = [other for other in around if other.series.comparability == first.series.comparability]
    subject = metric(first.series.metric).subject
    revision = session.get_one(Revision, placed.first_bad)
    alike = [other for other in group[1:] if metric(other.series.metric).subject == subject]
    moved = {cell_of(candidate.series) for candidate in (first, *alike)}
    rest = [
        (cell, stayed)
        for other, stayed in on_both_sides(session, first, since, around, ill)
        if (cell := cell_of(other.series)) not in moved
    ]
    return Question(
        case=first.series.case,
        hardware=formats.hardware(first.series.comparability),
        also_on=_workers(session, alike),
        confirmed=first.certainty is Certainty.CONFIRMED,
        compared=bool(measured.before and measured.after),
        source=first.series.source,
        metric=first.series.metric,
        unit=first.series.unit,
        direction=first.series.direction,
        effect=change.effect,
        effect_low=change.effect_low,
        effect_high=change.effect_high,
        last_good=placed.last_good,
        first_bad=placed.first_bad,
        author=revision.author,
        title=revision.title,
        gradual=first.drifts,
        before=(*old, *again[0]),
        after=(*new, *again[1]),
        moved=tuple(moved_with(first, alike)),
        unmoved=tuple(cell for cell, stayed in rest if stayed),
        unclear=tuple(cell for cell, stayed in rest if not stayed),
        residuals=tuple(residual for other in here for residual in residuals(other, since)),
    )


def cell_of(series: SeriesName) -> Cell:
    """Give the case of a series and its hardware, as people call it."""
    return Cell(series.case, formats.hardware(series.comparability))


def moved_with(first: Candidate, alike: Iterable[Candidate]) -> Iterator[Moved]:
    """Yield each cell once, as its metric that people read first moved.

    Its effect is told in the direction of the first change's metric: energy that rises by a tenth
    goes with a throughput that falls by an eleventh.
    """
    seen: set[Cell] = set()
    for other in sorted(alike, key=lambda one: reading_order(one.series.metric)):
        cell, change = cell_of(other.series), other.placed.change
        effects = [change.effect, change.effect_low, change.effect_high]
        if other.series.direction is not first.series.direction and min(effects) > -1.0:
            effects = [1.0 / (1.0 + effect) - 1.0 for effect in effects]
        if cell not in seen:
            seen.add(cell)
            yield Moved(cell, effects[0], min(effects), max(effects))


def _workers(session: Session, of: Iterable[Candidate]) -> frozenset[str]:
    """The workers that measured the first points of changes."""
    ids = [one.placed.first_bad_result for one in of]
    query = select(ResultRow.worker).where(ResultRow.id.in_(ids))
    return frozenset(worker for worker in session.scalars(query) if worker)


def residuals(history: SeriesHistory, since: Place) -> Iterator[Residual]:
    """Yield the log residual of each point from ``since`` on, against the level before.

    The machines' offsets are taken out. A residual above zero is a change for the worse.
    """
    recent = history.recent
    cut = (recent.index_at(since) or recent.first) - recent.first
    earlier = history.values[max(0, cut - LEVEL_POINTS) : cut]
    if not earlier:
        return
    level = median(earlier)
    sign = -1.0 if history.series.direction is Direction.HIGHER else 1.0
    for point, value in zip(recent.points[cut:], history.values[cut:], strict=True):
        if min(point.value, value, level) > 0:
            yield Residual(
                series=history.series.id,
                revision=point.revision,
                worker=point.worker,
                measured_at=point.revision_at,
                log_residual=sign * math.log(value / level),
            )


def _begin(placed: PlacedChange, history: SeriesHistory) -> Place:
    """Give the place where a change begins in the order of points: at its revision, or within it.

    A revision that is measured night after night may change without a change of its code. Where it
    was not clearly at both levels, noise or a faster node only hid the edge of the change.
    """
    recent = history.recent
    at = recent.place_of(placed.first_bad_result, placed.first_bad_at) or recent.first
    cut = at - recent.first
    if 0 < cut < len(recent.points) and _at_both_levels(history, cut):
        return recent.points[cut].place
    return placed.first_bad_at, "", FIRST


def _at_both_levels(history: SeriesHistory, cut: int) -> bool:
    """Return True if one revision was clearly at the level before ``cut``, then at the one after.

    Its last results there and its first ones here say so.
    """
    begin, end = max(0, cut - LEVEL_POINTS), cut + LEVEL_POINTS
    sides = history.values[begin:cut], history.values[cut:end]
    old, new = (median(side) for side in sides)
    stray = median(
        abs(value - level) for side, level in zip(sides, (old, new), strict=True) for value in side
    )
    points = history.recent.points
    same = [point.revision == points[cut].revision for point in points[begin:end]]
    here = list(compress(sides[0], same))[-A_SIDE:]
    there = list(compress(sides[1], same[cut - begin :]))[:A_SIDE]
    return clearly_at(old, new, here, stray) and clearly_at(new, old, there, stray)


def _sides(
    history: SeriesHistory, since: Place, change: ChangePoint
) -> tuple[list[str], list[str]]:
    """Results next to a change, at the old level and at the new one.

    If no machine measured both, the farthest one gives way to the nearest of a machine that did: a
    new machine at the new level says nothing of the code.
    """
    points, first = history.recent.points, history.recent.first
    cut = (history.recent.index_at(since) or first) - first
    at_new = [abs(v - change.after) < abs(v - change.before) for v in history.values]
    old, new = list(points[max(0, cut - A_SIDE) : cut]), list(points[cut : cut + A_SIDE])
    if not {point.worker for point in old} & {point.worker for point in new}:
        earlier = range(cut - 1, max(0, cut - LEVEL_POINTS) - 1, -1)
        later = range(cut, min(len(points), cut + LEVEL_POINTS))
        known = _first_of(new, (points[at] for at in earlier if not at_new[at]))
        again = _first_of(old, (points[at] for at in later if at_new[at]))
        if known is not None:
            old = [known, *old[-A_SIDE + 1 :]]
        elif again is not None:
            new = [*new[: A_SIDE - 1], again]
    return [point.result_id for point in old], [point.result_id for point in new]


def _first_of(others: Sequence[RecentPoint], points: Iterable[RecentPoint]) -> RecentPoint | None:
    workers = {point.worker for point in others}
    return next((point for point in points if point.worker in workers), None)


def _load(session: Session, result_ids: Iterable[str]) -> list[Measurement]:
    loaded = (queries.load_result(session, result_id) for result_id in result_ids)
    stored = (replicates.with_others(session, one) for one in loaded)
    return [Measurement(part.revision, part.worker, part.result) for part in stored]


def same_metric(series: SeriesName) -> tuple[ColumnElement[bool], ...]:
    """Conditions for the series of the same metric, project and source."""
    owned = (SeriesRow.project == series.project, SeriesRow.source == series.source)
    return (*owned, SeriesRow.metric == series.metric)


def neighbours(histories: Histories, series: SeriesName) -> list[SeriesHistory]:
    """Read the histories of the same metric in the same project: those of other cases too."""
    ids = histories.session.scalars(
        select(SeriesRow.id).where(*same_metric(series)).order_by(SeriesRow.id)
    ).all()
    return [histories.of(series_id) for series_id in ids[:NEIGHBOURS]]


def say_again(histories: Histories, row: FindingRow, whole: Sequence[Candidate]) -> None:
    """Put into words what a finding is, now that it is about the changes in ``whole``."""
    measured = Remeasured(*(tuple(row.measured.get(side, ())) for side in ("before", "after")))
    attribution_now = attribute(question_of(histories, whole, measured))
    if row.measured.get("not_reproduced"):
        attribution_now = without_cause(attribution_now)
    lifecycle.revise(histories.session, row, attribution_now)


def without_cause(attribution: Attribution) -> Attribution:
    """The history says so, and measuring again does not: then the revision is not to blame."""
    facts = {
        **attribution.says.facts,
        "cause": Cause.UNKNOWN.value,
        "reasons": (Statement.of("not_reproduced"),),
    }
    return replace(attribution, cause=Cause.UNKNOWN, says=replace(attribution.says, facts=facts))


def members(session: Session, row: FindingRow) -> list[Candidate]:
    """The changes that a finding is about, the one that it was opened for first."""
    query = (
        select(FindingSeries, SeriesRow)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id == row.id)
        .order_by(FindingSeries.place)
    )
    return [_member(session, row, link, series) for link, series in session.execute(query)]


def _member(session: Session, row: FindingRow, link: FindingSeries, series: SeriesRow) -> Candidate:
    placed = as_reported(link, row)
    return Candidate(
        series=name_of(series),
        placed=placed,
        **where_of(session, placed, series.project),
        doubt=link.doubt,
        certainty=Certainty(row.certainty),
        drifts=row.drifts,
    )


class Extent(TypedDict):
    """The place of a change in the order of a project's revisions."""

    rank: int
    earliest: datetime
    latest: datetime


def where_of(session: Session, placed: PlacedChange, project: str, blur: int = 0) -> Extent:
    """Give the revisions at which a change may have begun, ``blur`` more on each side."""
    return Extent(
        rank=revisions.rank(session, placed.first_bad_at, project),
        earliest=revisions.after(session, placed.last_good, placed.first_bad_at, project, -blur),
        latest=revisions.beside(session, placed.first_bad_at, project, blur),
    )


def as_reported(link: FindingSeries, finding: FindingRow | FindingSummary) -> PlacedChange:
    """Give the change of a series as its finding reports it, whatever the history says by now."""
    change = ChangePoint(
        index=0,
        **link.fields_of(ChangePoint),
        improvement=finding.kind == FindingKind.IMPROVEMENT,
        confidence=1.0 - link.doubt,
        evidence=0.0,
    )
    return PlacedChange(
        change=change,
        last_good=finding.last_good or "",
        first_bad=finding.first_bad,
        first_bad_at=link.first_bad_at,
        first_bad_result=link.first_bad_result,
        id=link.change_id,
    )


def figures_of(change: ChangePoint) -> dict[str, float]:
    """Give what a finding reports of a change in one series: columns of its row."""
    reported = ("effect", "effect_low", "effect_high", "before", "after")
    return {name: getattr(change, name) for name in reported} | {"doubt": 1.0 - change.confidence}
