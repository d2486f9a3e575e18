"""Measures again what is least certain, while workers idle and a schedule finds no new commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session, aliased

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, JobSpec, meets
from benchmarks.contracts.pins import pins_of
from service.analysis.least_certain import UncertainLevel, least_certain, width_of
from service.analysis.variance import NIGHT
from service.history.failing import METRIC
from service.history.queries import COUNTED
from service.history.ranking import LATELY
from service.history.run_noise import spreads_of
from service.jobs import heads
from service.jobs.measured_commits import measured_of
from service.jobs.requests import SubmissionRequest
from service.models import (
    Job,
    Point,
    ResultRow,
    Revision,
    Schedule,
    ScheduleRun,
    SeriesRow,
    Submission,
    WorkerRow,
)
from service.schemas.errors import Unresolved

SOURCE = "backfill:uncertain:"
"""Prefix of the source of its submissions; the schedule's name follows."""
WHY = "No new commit: remeasured what is least certain"

_Series: TypeAlias = Mapping[str, tuple[frozenset[tuple[str, str]], JobSpec]]
"""By id: the hardware of a series, and the job that measured its commit."""
_NEVER = (0, datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Again:
    """A case of a schedule that a worker is to measure again."""

    schedule: Schedule
    commit: str
    like: JobSpec
    """Spec of the job that measured it."""
    worker: str

    @property
    def source(self) -> str:
        """The source of its submission."""
        return f"{SOURCE}{self.schedule.name}"[:64]


def without_new_commit(session: Session) -> Sequence[Schedule]:
    """The schedules that follow a ref and submitted nothing at their newest slot."""
    later = aliased(ScheduleRun)
    newer = exists().where(later.schedule == Schedule.name, later.due_at > ScheduleRun.due_at)
    query = (
        select(Schedule)
        .join(ScheduleRun, ScheduleRun.schedule == Schedule.name)
        .where(ScheduleRun.submission_id.is_(None), ~newer, Schedule.enabled.is_(True))
        .where(Schedule.revision_rule.startswith(heads.RULE), Schedule.again.is_(False))
    )
    return session.scalars(query.order_by(Schedule.name)).all()


def chosen(
    session: Session,
    schedules: Sequence[Schedule],
    free: Sequence[WorkerRow],
    left: int,
    now: datetime,
) -> list[Again]:
    """Choose the least certain cases of the first of some schedules that has any.

    A worker measures a case once a night at most: results of one night share what is its own.

    Args:
        session: to read in.
        schedules: those that `without_new_commit` gives.
        free: workers that have nothing to do; each gets one case.
        left: processes that the day still allows.
        now: the time.
    """
    for row in schedules:
        if commit := _measured_commit(session, row, now):
            able = [one for one in free if pins_of(commit) or commit in (one.revisions or ())]
            series = _series(session, row, commit)
            levels = _levels(session, row, series, able, commit, now)
            if pairs := least_certain(levels, left):
                return [Again(row, commit, series[one.series][1], who) for one, who in pairs]
    return []


def _measured_commit(session: Session, row: Schedule, now: datetime) -> str | None:
    """The commit that a schedule's ref is at, if all its cases are measured there."""
    try:
        commit = heads.resolve(session, row.revision_rule, row.requires, now).commit
    except Unresolved:
        return None
    request = SubmissionRequest(
        suite=row.suite,
        revision=commit,
        requires=row.requires,
        source=f"schedule:{row.name}"[:64],
        project=row.project or None,
    )
    return commit if measured_of(session, request, now).everything else None


def _series(session: Session, row: Schedule, commit: str) -> _Series:
    """The series of the cases that a schedule measured at a commit."""
    own = Submission.source == f"schedule:{row.name}"[:64], Submission.suite == row.suite
    query = (
        select(SeriesRow.id, SeriesRow.comparability, Job.spec)
        .join(Point, Point.series_id == SeriesRow.id)
        .join(ResultRow, ResultRow.id == Point.result_id)
        .join(Job, Job.id == ResultRow.job_id)
        .join(Submission, Submission.id == Job.submission_id)
        .where(Point.revision == commit, *COUNTED, SeriesRow.metric == METRIC, *own)
        .where(SeriesRow.project == row.project, Submission.project == row.project)
    )
    read = (
        (name, frozenset(comparability.items()), JobSpec.model_validate(spec))
        for name, comparability, spec in session.execute(query)
    )
    return {name: (hardware, like) for name, hardware, like in read if _is_offered(like.case)}


def _is_offered(case: Case) -> bool:
    """Return True if the catalog still has what ``case`` names; else a submission is refused."""
    try:
        catalog.normalise(case)
    except (catalog.UnknownName, catalog.Refused):
        return False
    return True


def _levels(
    session: Session,
    row: Schedule,
    series: _Series,
    able: Sequence[WorkerRow],
    commit: str,
    now: datetime,
) -> list[UncertainLevel]:
    """What is known of each series, and the workers of its hardware that may measure it now."""
    spreads = spreads_of(session, list(series))
    measured = _measured(session, list(series), commit)
    tried = _tried(session, row, now)
    alike = {(series[name][0], worker) for name, worker in measured}
    levels = []
    for name, (hardware, like) in series.items():
        points = {}
        for worker in able:
            count, last = measured.get((name, worker.name), _NEVER)
            rested = last <= now - NIGHT and (like.case.key, worker.name) not in tried
            known = (hardware, worker.name) in alike
            if rested and known and meets(worker.labels, like.requires):
                points[worker.name] = count
        width = width_of(spreads.get(name))
        levels.append(UncertainLevel(name, width, like.protocol.replicates, points))
    return levels


def _measured(
    session: Session, series: Sequence[str], commit: str
) -> dict[tuple[str, str], tuple[int, datetime]]:
    """How many points of each series each worker has measured in the month before a commit, and
    when the last one."""
    since = session.get_one(Revision, commit).ordered_at - LATELY
    query = (
        select(Point.series_id, Point.worker, func.count(), func.max(Point.measured_at))
        .where(Point.series_id.in_(series), Point.revision_at >= since, *COUNTED)
        .group_by(Point.series_id, Point.worker)
    )
    counted = session.execute(query)
    return {(name, worker): (count, at) for name, worker, count, at in counted if worker}


def _tried(session: Session, row: Schedule, now: datetime) -> set[tuple[str, str]]:
    """The cases, by key, and workers that were asked within a night, whatever came of it."""
    own = Submission.source == f"{SOURCE}{row.name}"[:64], Submission.created_at > now - NIGHT
    query = select(Job.case_key, Job.spec).join(Submission).where(*own)
    return {(key, spec["requires"]["worker"]) for key, spec in session.execute(query)}
