"""Estimates how long pairs take: as they took on such a device, else as the protocol says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from statistics import median

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog.duration import expected_s, pair_s
from service.models import Attempt, ComparisonJob, ComparisonRow, Job
from service.schemas.comparisons import ComparisonRequest
from service.schemas.gate import Side

GATES = 20
"""Newest comparisons that tell of today's drivers and machines."""
LEAST_S = 1.0
"""No pair of fresh processes is shorter."""


def of(
    session: Session,
    row: ComparisonRow,
    request: ComparisonRequest,
    cases: Sequence[contracts.Case],
    alike: Collection[str],
) -> list[tuple[float, float]]:
    """Seconds of the first and of each later pair of every case of a comparison.

    ``cases`` are its cases as they run on its device, ``alike`` the workers with such a device.
    """
    assert request.protocol is not None
    taken = _taken_s(session, row, alike) if request.duet else {}
    times_s = []
    for asked, case in zip(row.cases, cases, strict=True):
        if request.duet and request.policy.in_turn(case.key):
            first, later = taken.get(contracts.Case.model_validate(asked).key, ([], []))
            told = pair_s(case)
            times_s.append((_median_s(first, told[0]), _median_s(later, told[1])))
        else:
            later_s = expected_s(case, request.protocol.timing_only())
            times_s.append((2 * expected_s(case, request.protocol), 2 * later_s))
    return times_s


def _median_s(taken_s: Sequence[float], told_s: float) -> float:
    return max(LEAST_S, median(taken_s)) if taken_s else told_s


def _taken_s(
    session: Session, row: ComparisonRow, alike: Collection[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of first and of later pairs, by key of the case as asked, in the newest
    comparisons."""
    newest = (
        select(ComparisonRow.id)
        .where(ComparisonRow.worker.in_(alike), ComparisonRow.id <= row.id)
        .order_by(ComparisonRow.id.desc())
        .limit(GATES)
    )
    case = ComparisonJob.comparison_id, ComparisonJob.case_place
    query = (
        select(*case, Job.case_key, Job.spec["duet"], Attempt.started_at, Attempt.ended_at)
        .join(Job, Job.id == ComparisonJob.job_id)
        .join(Attempt, and_(Attempt.job_id == Job.id, Attempt.number == Job.attempt))
        .where(ComparisonJob.comparison_id.in_(list(session.scalars(newest))))
        .where(ComparisonJob.side == Side.CONTENDER, Job.state == contracts.JobState.SUCCEEDED)
        .order_by(*case, ComparisonJob.place)
    )
    measured = [one for one in session.execute(query) if one[3] and one.started_at and one.ended_at]
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for _, jobs in groupby(measured, lambda one: one[:2]):
        for place, job in enumerate(jobs):
            of_case = taken.setdefault(job.case_key, ([], []))
            of_case[place > 0].append((job.ended_at - job.started_at).total_seconds())
    return taken
