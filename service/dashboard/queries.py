"""Reads that only pages need. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import Row, func, select, tuple_
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import reading_order
from benchmarks.contracts import (
    Case,
    Direction,
    JobState,
    Progress,
    Verdict,
    workload_of,
)
from service.history.revisions import IN_HISTORY
from service.history.types import Series
from service.models import (
    Attempt,
    EnvironmentRow,
    Job,
    LabelSet,
    Point,
    ResultRow,
    Revision,
    Schedule,
    ScheduleRun,
    SeriesRow,
    WorkerRow,
)

MOST_METRICS = 200
"""Names that a page offers: a result has so many metrics at most, of which the catalog knows 20."""
ACTIVE = (JobState.LEASED.value, JobState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as a list shows it, with its latest attempt."""

    id: str
    case: Case
    """As asked for, with the preset that was measured once a result counts."""
    revision: str
    state: str
    reason: str
    attempt: int
    created_at: datetime
    finished_at: datetime | None
    worker: str | None
    started_at: datetime | None
    progress: Progress | None
    result_id: str | None
    project: str
    """Empty: it belongs to none."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one run as its series holds it."""

    series_id: str
    metric: str
    unit: str
    direction: Direction
    value: float
    low: float | None
    high: float | None
    interval: str


@dataclass(frozen=True, slots=True)
class Sibling:
    """A series beside another one: of the same case on the same hardware."""

    id: str
    metric: str
    unit: str


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker and what it does now."""

    name: str
    labels: Mapping[str, str]
    version: str
    first_seen_at: datetime
    last_seen_at: datetime
    present: bool
    """Whether it was seen of late; one that is there is seen every few seconds."""
    job_id: str | None


_JOB_LINE = (
    select(
        Job.id,
        Job.project,
        Job.spec,
        Job.revision,
        Job.state,
        Job.reason,
        Job.attempt,
        Job.created_at,
        Job.finished_at,
        Attempt.worker,
        Attempt.started_at,
        Attempt.progress,
        ResultRow.id.label("result_id"),
        ResultRow.case_key.label("measured"),
    )
    .select_from(Job)
    .outerjoin(Attempt, (Attempt.job_id == Job.id) & (Attempt.number == Job.attempt))
    .outerjoin(ResultRow, (ResultRow.job_id == Job.id) & ResultRow.counted)
)


def _job_line(row: Row[tuple[object, ...]]) -> JobLine:
    fields = dict(row._mapping)
    case = Case.model_validate(fields.pop("spec")["case"])
    if measured := fields.pop("measured"):
        case = case.model_copy(update={"preset": workload_of(measured)[1]})
    progress = fields.pop("progress")
    return JobLine(case=case, progress=_progress(progress), **fields)


def _progress(stored: object) -> Progress | None:
    try:
        return Progress.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: a page shows the rest
        return None


def active_jobs(session: Session, limit: int = 20) -> list[JobLine]:
    """Read the oldest of the jobs that a worker holds now; `held` counts all of them."""
    query = _JOB_LINE.where(Job.state.in_(ACTIVE)).order_by(Job.id).limit(limit)
    return [_job_line(row) for row in session.execute(query)]


def jobs(
    session: Session, *, state: str | None, before: str | None, limit: int
) -> tuple[list[JobLine], str | None]:
    """Read one page of jobs, newest first, and the id that the next page begins below."""
    query = _JOB_LINE.order_by(Job.id.desc()).limit(limit + 1)
    if state:
        query = query.where(Job.state == state)
    if before:
        query = query.where(Job.id < before)
    lines = [_job_line(row) for row in session.execute(query)]
    more = len(lines) > limit
    return lines[:limit], lines[limit - 1].id if more else None


def job(session: Session, job_id: str) -> tuple[Job, JobLine] | None:
    """Read one job, or None if there is none."""
    row = session.execute(_JOB_LINE.where(Job.id == job_id)).one_or_none()
    entity = session.get(Job, job_id)
    return None if row is None or entity is None else (entity, _job_line(row))


def attempts(session: Session, job_id: str) -> Sequence[Attempt]:
    """Read a job's attempts in their order."""
    query = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number)
    return session.scalars(query).all()


def results_of_job(session: Session, job_id: str) -> Sequence[ResultRow]:
    """Read what was posted for a job, counted or late, without the documents."""
    query = select(ResultRow).where(ResultRow.job_id == job_id).order_by(ResultRow.received_at)
    return session.scalars(query).all()


def jobs_by_state(session: Session) -> dict[str, int]:
    """Count the jobs in each state that has any."""
    rows = session.execute(select(Job.state, func.count()).group_by(Job.state))
    return {key: value for key, value in rows}  # noqa: C416 - dict() cannot type rows


def held(counts: Mapping[str, int]) -> int:
    """Of jobs by state: how many a worker holds now."""
    return sum(counts.get(state, 0) for state in ACTIVE)


def jobs_failed_since(session: Session, since: datetime) -> int:
    """Count the jobs that have failed from this moment on."""
    failed = (Job.state == JobState.FAILED, Job.finished_at >= since)
    return session.scalar(select(func.count()).where(*failed)) or 0


def jobs_before(session: Session, job: Job) -> int:
    """Count the queued jobs ahead of ``job`` that its worker may have to do first.

    These are the jobs whose labels one worker could have beside those of ``job``.
    """
    own = session.get_one(LabelSet, job.requires).labels
    ahead = tuple_(Job.rank, Job.place) < tuple_(job.rank, job.place)
    waiting = (
        select(Job.requires, func.count().label("jobs"))
        .where(Job.state == JobState.QUEUED, ahead)
        .group_by(Job.requires)
        .subquery()
    )
    sets = select(LabelSet.labels, waiting.c.jobs).join(
        waiting, waiting.c.requires == LabelSet.digest
    )
    return sum(
        jobs
        for labels, jobs in session.execute(sets)
        if all(own.get(name, value) == value for name, value in labels.items())
    )


def workers(session: Session, gone_before: datetime) -> list[WorkerLine]:
    """Read every worker, the most recently seen first, with the job that it holds."""
    holding = (
        select(Attempt.worker, Job.id)
        .join(Job, (Job.id == Attempt.job_id) & (Job.attempt == Attempt.number))
        .where(Job.state.in_(ACTIVE))
    )
    doing = {name: job_id for name, job_id in session.execute(holding)}  # noqa: C416 - as above
    rows = session.scalars(select(WorkerRow).order_by(WorkerRow.last_seen_at.desc()))
    return [
        WorkerLine(
            row.name,
            row.labels,
            row.version,
            row.first_seen_at,
            row.last_seen_at,
            row.last_seen_at >= gone_before,
            doing.get(row.name),
        )
        for row in rows
    ]


def schedules(session: Session) -> list[tuple[Schedule, ScheduleRun | None]]:
    """Read every schedule by name, with the slot that fired last."""
    found = []
    for schedule in session.scalars(select(Schedule).order_by(Schedule.name)):
        query = select(ScheduleRun).where(ScheduleRun.schedule == schedule.name)
        last = session.scalars(query.order_by(ScheduleRun.due_at.desc()).limit(1)).first()
        found.append((schedule, last))
    return found


def revisions(session: Session, limit: int = 200) -> Sequence[Revision]:
    """Read the newest revisions of the history, newest first."""
    query = (
        select(Revision)
        .where(IN_HISTORY)
        .order_by(Revision.ordered_at.desc(), Revision.name)
        .limit(limit)
    )
    return session.scalars(query).all()


def metrics(session: Session) -> list[str]:
    """Name the metrics that have a series, as people think of them, and no more than fit a page."""
    known = session.scalars(select(SeriesRow.metric).distinct())
    return sorted(known, key=reading_order)[:MOST_METRICS]


def siblings(session: Session, series: Series) -> list[Sibling]:
    """Read the oldest series of the same case on the same hardware, a page's worth of them.

    What a case is told of from the first is what the benchmarks tell of every case.
    """
    query = (
        select(SeriesRow.id, SeriesRow.metric, SeriesRow.unit, SeriesRow.comparability)
        .where(SeriesRow.project == series.project, SeriesRow.case_key == series.case.key)
        .order_by(SeriesRow.created_at, SeriesRow.id)
    )
    found = [
        Sibling(series_id, metric, unit)
        for series_id, metric, unit, comparability in session.execute(query)
        if comparability == series.comparability
    ]
    return [one for at, one in enumerate(found) if at < MOST_METRICS or one.id == series.id]


def facts(session: Session, digests: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read environments by digest; a page asks for few."""
    query = select(EnvironmentRow.digest, EnvironmentRow.facts)
    rows = session.execute(query.where(EnvironmentRow.digest.in_(sorted(set(digests)))))
    return {key: value for key, value in rows}  # noqa: C416 - dict() cannot type rows


def metric_values(session: Session, result_id: str) -> list[MetricValue]:
    """Read what a run put into series; empty for a run that does not count."""
    query = (
        select(
            SeriesRow.id,
            SeriesRow.metric,
            SeriesRow.unit,
            SeriesRow.direction,
            Point.value,
            Point.low,
            Point.high,
            Point.interval,
        )
        .join(Point, Point.series_id == SeriesRow.id)
        .where(Point.result_id == result_id)
        .order_by(SeriesRow.metric)
    )
    return [
        MetricValue(series_id, metric, unit, Direction(direction), value, low, high, interval)
        for series_id, metric, unit, direction, value, low, high, interval in session.execute(query)
    ]


def verdicts(session: Session, result_ids: Iterable[str]) -> dict[str, Verdict]:
    """Read what limits each of these runs, where that is known."""
    wanted, found = sorted(set(result_ids)), {}
    query = select(ResultRow.id, ResultRow.verdict)
    for start in range(0, len(wanted), 500):  # stays below what a database takes in one statement
        some = wanted[start : start + 500]
        for result_id, stored in session.execute(query.where(ResultRow.id.in_(some))):
            if verdict := _verdict(stored):
                found[result_id] = verdict
    return found


def _verdict(stored: object) -> Verdict | None:
    try:
        return Verdict.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: the page shows the rest
        return None
