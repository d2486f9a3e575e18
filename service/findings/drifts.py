"""Drifts: what moves a little with each of several revisions is one finding, which grows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median, pstdev

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.analysis.drift import is_gradual
from service.findings import causes, suspicion
from service.findings.gather_evidence import members
from service.findings.queries import reported_places
from service.findings.rules import ACTIVE, DRIFT, NEAR, Candidate
from service.findings.shift import Shift, level_before, shift_by_now
from service.history import revisions, slow_workers
from service.history.analysis import Histories
from service.history.series_history import RecentPoint, SeriesHistory
from service.models import FindingRow, FindingSeries
from service.schemas.findings import REFUTED, Cause, Certainty

LEVELS_BEFORE = 8
"""Revisions before a drift that are looked at."""


@dataclass(frozen=True, slots=True)
class Continued:
    """A finding, and the changes that go on from where it began."""

    row: FindingRow
    changes: tuple[Candidate, ...]


def continued(histories: Histories, group: Sequence[Candidate]) -> Continued | None:
    """Find the open finding that changes of one cause go on from, as a drift does.

    What drifts moves some cases in one week and others in the next, and is told once. If a drift
    is known and the changes have another cause as well, only the small ones go on from it.
    """
    for row in _near(histories.session, group[0]):
        about = members(histories.session, row)
        workloads = {member.series.case.workload for member in about}
        inside = tuple(
            one
            for one in group
            if one.series.case.workload in workloads and causes.same_cause(one, about)
        )
        if not inside:
            continue
        if len(inside) == len(group):
            if _goes_on(histories, row, about, group):
                return Continued(row, inside)
        elif row.drifts:
            cause = max(abs(one.placed.change.effect) for one in group if one not in inside)
            least = causes.LEAST_PART * cause
            small = tuple(one for one in inside if abs(one.placed.change.effect) < least)
            if small:
                return Continued(row, small)
    return None


def _near(session: Session, change: Candidate) -> Iterable[FindingRow]:
    """Open findings that began so near a change that it may go on from there; the last first."""
    project = change.series.project
    first, last = (
        revisions.beside(session, change.placed.first_bad_at, project, by) for by in (-DRIFT, DRIFT)
    )
    return session.scalars(
        select(FindingRow)
        .where(FindingRow.project == project, FindingRow.kind == change.kind)
        .where(FindingRow.state.in_(ACTIVE), FindingRow.first_bad_at.between(first, last))
        .order_by(FindingRow.first_bad_at.desc(), FindingRow.id.desc())
    ).all()


def moves_on(histories: Histories, row: FindingRow, about: Sequence[Candidate]) -> bool:
    """Return True if what a finding is about drifts on, by what is known now.

    Levels that move on without a step show no other change that would go on from the finding.
    """
    return row.drifts or (_is_unexplained(row) and _drift_on(histories, row.first_bad_at, about))


def _is_unexplained(row: FindingRow) -> bool:
    return row.cause == Cause.UNKNOWN and row.certainty == Certainty.CONFIRMED


def _goes_on(
    histories: Histories, row: FindingRow, about: Sequence[Candidate], group: Sequence[Candidate]
) -> bool:
    head = group[0]
    if head.not_by_code and (row.drifts or _is_unexplained(row)):
        return True  # nothing begins here, and the old level was left before
    if row.drifts and _is_late(histories.of(head.series.id), head):
        return True  # a step would have been found in the nights after it
    if row.drifts and _is_of_one_revision(head, about):
        return True  # measured beside each other, two revisions of a drift differ as well
    since = min(row.first_bad_at, head.placed.first_bad_at)
    return _drift_on(histories, since, [*about, *group])


def _drift_on(histories: Histories, since: datetime, changes: Sequence[Candidate]) -> bool:
    """Return True if the levels of the series with these changes, one metric's, drift together."""
    series = changes[0].series
    ids = {one.series.id for one in changes if one.series.metric == series.metric}
    begin = revisions.beside(histories.session, since, series.project, -NEAR)
    return _is_gradual(histories.session, [histories.of(one) for one in sorted(ids)], begin)


def _is_of_one_revision(change: Candidate, drift: Sequence[Candidate]) -> bool:
    """Return True if a change may be as small as what a drift moves with each revision."""
    point = change.placed.change
    least = min(abs(point.effect_low), abs(point.effect_high))
    begun = min(one.rank for one in drift)
    farthest = max(abs(one.placed.change.effect) for one in drift)
    passed = change.rank - begun + 1
    return passed > 0 and least * passed <= farthest


def _is_late(history: SeriesHistory, change: Candidate) -> bool:
    index = history.recent.index_of(change.placed.first_bad_at)
    return index is not None and history.analysis.points - index > DRIFT


def _is_gradual(session: Session, among: Sequence[SeriesHistory], begin: datetime) -> bool:
    """Return True if the levels of some series, taken together, move along a ramp."""
    by_revision: dict[datetime, list[float]] = defaultdict(list)
    scales = []
    ill = slow_workers.slow_periods(session)
    for history in among:
        logs = list(_logs(history, begin, ill))
        for point, log in logs:
            by_revision[point.revision_at].append(log)
        if logs and history.analysis.noise is not None:
            scales.append(max(history.analysis.noise.scale, suspicion.LEAST_SCALE))
    before = sorted(at for at in by_revision if at < begin)[-LEVELS_BEFORE:]
    since = sorted(at for at in by_revision if at >= begin)[: DRIFT + NEAR]
    if len(before) < suspicion.ENOUGH or not since:
        return False
    logs_of = [by_revision[at] for at in (*before, *since)]
    levels = [fmean(one) for one in logs_of]
    common = pstdev(levels[: len(before)])  # what all of them share from night to night
    scale = median(scales)
    errors = [max(scale / math.sqrt(len(one)), common) for one in logs_of]
    return is_gradual(levels, errors, len(since))


def _logs(
    history: SeriesHistory, begin: datetime, ill: slow_workers.SlowPeriods
) -> Iterator[tuple[RecentPoint, float]]:
    """Yield points with ln of their value over the level before a place, each worker's own."""
    recent, noise = history.recent, history.analysis.noise
    index = recent.index_of(begin)
    if index is None or noise is None:
        return
    earlier = level_before(history, index, ill)
    if len(earlier) < suspicion.ENOUGH:
        return
    usual = suspicion.Baseline.of((point.worker, point.value) for point in earlier)
    later = slow_workers.of_well_workers(recent.points[index - recent.first :], ill)
    for point in (*earlier, *later):
        value = usual.alike(point.worker, point.value)
        if min(value, usual.level) > 0:
            yield point, math.log(value / usual.level)


def moved_by_now(
    session: Session, row: FindingRow, about: Sequence[Candidate], among: Sequence[SeriesHistory]
) -> Iterator[tuple[SeriesHistory, Shift]]:
    """Yield the series of a drift's workloads with how far they have come since it began.

    Series that another cause moves meanwhile are left out: how far each moved them is not known.
    """
    project, workloads = about[0].series.project, {one.series.case.workload for one in about}
    place = min(member.placed.first_bad_at for member in about)
    begin, last = (revisions.beside(session, place, project, by) for by in (-NEAR, DRIFT))
    ill, mixed = slow_workers.slow_periods(session), _of_others(session, row, begin, last)
    reported = reported_places(session, among)
    for history in among:
        if history.series.case.workload not in workloads or history.series.id in mixed:
            continue
        shift = shift_by_now(history, (begin, place, last), reported[history.series.id], ill)
        if shift is not None:
            yield history, shift


def _of_others(
    session: Session, row: FindingRow, begin: datetime, last: datetime
) -> frozenset[str]:
    """Give the series that other findings report a change of in some time."""
    link = FindingSeries
    query = (
        select(link.series_id)
        .join(FindingRow, FindingRow.id == link.finding_id)
        .where(link.finding_id != row.id, FindingRow.state.not_in(REFUTED))
        .where(link.first_bad_at.between(begin, last) | link.ended_at.between(begin, last))
    )
    return frozenset(session.scalars(query))
