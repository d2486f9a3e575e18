"""Finds the failures in the history, and the cases whose newest measurement failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from benchmarks import contracts
from service import models
from service.database.paging import batched
from service.history.queries import WORKER, facts_of
from service.history.ranking import CaseId, case_id
from service.models.results import FAILED

METRIC = "throughput"
"""Every case that was measured has it."""
NEWS = timedelta(days=7)
"""A case whose newest failure is older is not measured any longer."""
REMEMBERED = timedelta(days=30)
"""How far back a run of failures is followed."""
NOT_OF_THE_CASE = frozenset({contracts.Status.CANCELLED, contracts.Status.INFRA_ERROR})
"""Outcomes that say nothing of the case."""
GOOD_POINTS = 10
"""Points before a run of failures that say in which environment the case was well."""
Place = tuple[datetime, datetime]
"""In the order of revisions, and of measurements of one revision."""


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """One failure of a case; it counts, and nobody took it out."""

    result_id: str
    case_key: str
    project: str
    worker: str
    status: contracts.Status
    reason: str
    revision: str
    revision_at: datetime
    measured_at: datetime
    received_at: datetime
    group_id: str
    """Of its job: the replicates of one case share it."""
    facts: Mapping[str, str]
    """The environment that it was measured in."""

    @property
    def comparability(self) -> dict[str, str]:
        """The facts that make it another series."""
        return contracts.Environment(facts=dict(self.facts)).comparability()

    @property
    def case(self) -> CaseId:
        """The case on its kind of hardware."""
        return case_id(self.case_key, self.project, self.comparability)

    @property
    def place(self) -> Place:
        """Its place in the history."""
        return self.revision_at, self.measured_at


@dataclass(frozen=True, slots=True)
class FailingCase:
    """A case whose newest measurement failed on at least one worker."""

    newest: CaseFailure
    first: CaseFailure
    """The first failure since it was last measured well."""
    revisions: int
    """How many revisions failed in a row."""
    workers: tuple[str, ...]
    series_id: str
    """Of its throughput; empty if it was never measured."""


@dataclass(frozen=True, slots=True)
class GoodPoint:
    """A point of a case before it failed."""

    revision: str
    revision_at: datetime
    received_at: datetime
    worker: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FailureRun:
    """The newest failures of a case that was measured before, all in one way, none well since."""

    series_id: str
    """Of its throughput."""
    failures: tuple[CaseFailure, ...]
    """The oldest revision first."""
    good: tuple[GoodPoint, ...]
    """The points before, the newest first."""

    @property
    def first(self) -> CaseFailure:
        """Since when it fails so."""
        return self.failures[0]

    @property
    def newest(self) -> CaseFailure:
        """The last failure so far."""
        return self.failures[-1]

    @property
    def again(self) -> bool:
        """Return True if it was measured again and failed again, or failed on two workers."""
        return len({(one.group_id, one.worker) for one in self.failures}) > 1


def failures_since(
    session: Session, since: datetime, *which: ColumnElement[bool]
) -> list[CaseFailure]:
    """List the failures of the history that were measured from a time on, oldest revision first.

    ``which`` are further conditions on the results.
    """
    row, job, revision = models.ResultRow, models.Job, models.Revision
    out = models.Exclusion
    taken_out = select(out.id).where(out.result_id == row.id, out.undone_at.is_(None))
    at = (revision.ordered_at.label("revision_at"), row.measured_at, row.received_at)
    named = (row.case_key, row.project, row.worker, row.reason, row.revision, job.group_id)
    query = (
        select(row.id.label("result_id"), row.status, row.environment, job.spec, *at, *named)
        .join(job, job.id == row.job_id)
        .join(revision, revision.name == row.revision)
        .where(
            FAILED, row.measured_at >= since, row.counted, job.state == contracts.JobState.FAILED
        )
        .where(~taken_out.exists(), *which)
        .order_by(revision.ordered_at, row.measured_at)
    )
    rows = [
        dict(found)
        for found in session.execute(query).mappings()
        if found["spec"].get("purpose", contracts.Purpose.HISTORY) == contracts.Purpose.HISTORY
    ]
    facts = facts_of(session, {found["environment"] for found in rows})
    for found in rows:
        del found["spec"]
        found["facts"] = facts[found.pop("environment")]
        found["status"] = contracts.Status(found["status"])
    return [CaseFailure(**found) for found in rows]


def failure_runs(session: Session, now: datetime) -> list[FailureRun]:
    """Find the cases whose newest measurements all failed in one way, whoever made them.

    What fails on one worker while another measures the same revision well is none: that is the
    worker's.
    """
    of_the_case = models.ResultRow.status.not_in(NOT_OF_THE_CASE)
    failures = failures_since(session, now - REMEMBERED, of_the_case)
    by_case, series, passed = _by_case(session, failures)
    runs = []
    for case, series_id in series.items():
        alike = _alike(by_case[case], passed[case])
        if alike and (good := _good_before(session, series_id, alike[0])):
            runs.append(FailureRun(series_id, tuple(alike), tuple(good)))
    return runs


def _by_case(
    session: Session, failures: Sequence[CaseFailure]
) -> tuple[dict[CaseId, list[CaseFailure]], dict[CaseId, str], dict[CaseId, dict[str, Place]]]:
    """Failures, the series of the throughput, and where each worker passed last, all by case."""
    by_case: dict[CaseId, list[CaseFailure]] = {}
    for failure in failures:
        by_case.setdefault(failure.case, []).append(failure)
    series = _series_of(session, set(by_case))
    passed = _passed(session, series, failures[0].revision_at) if failures else {}
    return by_case, series, passed


def _alike(failures: Sequence[CaseFailure], passed: Mapping[str, Place]) -> list[CaseFailure]:
    """The newest failures, as far as they are alike; empty if the case or another worker passed.

    Revisions that cannot be built tell nothing of a case that fails in those beside them.
    """
    last = max(passed.values(), default=None)
    after = [one for one in failures if last is None or one.place > last]
    after = [one for one in after if one.status is not contracts.Status.UNBUILDABLE] or after
    alike = [*takewhile(lambda one: one.status is after[-1].status, reversed(after))][::-1]
    workers = {one.worker for one in alike}
    others = {place[0] for worker, place in passed.items() if worker not in workers}
    return [] if len(workers) == 1 and alike[0].revision_at in others else alike


def _good_before(session: Session, series_id: str, failure: CaseFailure) -> list[GoodPoint]:
    at, measured_at = failure.place
    point, row, environment = models.Point, models.ResultRow, models.EnvironmentRow
    earlier = or_(
        point.revision_at < at, and_(point.revision_at == at, point.measured_at < measured_at)
    )
    query = (
        select(point.revision, point.revision_at, row.received_at, WORKER, environment.facts)
        .join(row, row.id == point.result_id)
        .join(environment, environment.digest == point.environment)
        .where(point.series_id == series_id, point.excluded.is_(False), earlier)
        .order_by(point.revision_at.desc(), point.measured_at.desc())
        .limit(GOOD_POINTS)
    )
    return [GoodPoint(*one) for one in session.execute(query)]


def failing_cases(session: Session, now: datetime) -> dict[CaseId, FailingCase]:
    """Find the cases that fail now.

    A case that never ran on a kind of hardware and is unsupported there is none.
    """
    by_case, series, passed = _by_case(session, failures_since(session, now - REMEMBERED))
    found = {
        case: _failing(of_it, series.get(case, ""), passed.get(case, {}), now)
        for case, of_it in by_case.items()
    }
    return {case: one for case, one in found.items() if one is not None}


def _failing(
    failures: Sequence[CaseFailure], series_id: str, passed: Mapping[str, Place], now: datetime
) -> FailingCase | None:
    """Say since when a case fails; ``passed`` is where each worker last measured it well."""
    newest_good = max((place[0] for place in passed.values()), default=None)
    after = [one for one in failures if one.worker not in passed or one.place > passed[one.worker]]
    standing = [one for one in after if newest_good is None or one.revision_at >= newest_good]
    if not standing or now - standing[-1].measured_at > NEWS:
        return None
    if not series_id and standing[-1].status is contracts.Status.UNSUPPORTED:
        return None
    workers = {one.worker for one in standing}
    in_a_row = [one for one in after if one.worker in workers]
    revisions = {one.revision for one in in_a_row}
    return FailingCase(standing[-1], in_a_row[0], len(revisions), tuple(sorted(workers)), series_id)


def _passed(
    session: Session, series: Mapping[CaseId, str], oldest: datetime
) -> dict[CaseId, dict[str, Place]]:
    """Find where each worker last measured these cases well.

    A worker without a point from ``oldest`` on, in the order of revisions, has no place.
    """
    case_of = {series_id: case for case, series_id in series.items()}
    passed: dict[CaseId, dict[str, Place]] = {case: {} for case in series}
    point = models.Point
    for some in batched(sorted(case_of)):
        query = (
            select(point.series_id, WORKER, point.revision_at, func.max(point.measured_at))
            .where(point.series_id.in_(some), point.revision_at >= oldest)
            .where(point.excluded.is_(False))
            .group_by(point.series_id, WORKER, point.revision_at)
            .order_by(point.revision_at)
        )
        for series_id, worker, revision_at, measured_at in session.execute(query):
            passed[case_of[series_id]][worker] = (revision_at, measured_at)
    return passed


def _series_of(session: Session, cases: Collection[CaseId]) -> dict[CaseId, str]:
    """Find the series of the throughput of these cases; one that was never measured has none."""
    found: dict[CaseId, str] = {}
    row = models.SeriesRow
    columns = row.id, row.case_key, row.project, row.comparability
    for keys in batched(sorted({key for key, _, _ in cases})):
        query = select(*columns).where(row.case_key.in_(keys), row.metric == METRIC)
        for series_id, key, project, comparability in session.execute(query):
            if (case := case_id(key, project, comparability)) in cases:
                found[case] = series_id
    return found
