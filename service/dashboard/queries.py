"""Reads that only pages need. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import Row, func, select, tuple_
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog.metrics import reading_order
from service import models
from service.history.revisions import IN_HISTORY
from service.schemas.series import Series

MOST_METRICS = 200
"""Names that a page offers: a result has so many metrics at most, of which the catalog knows 20."""
ACTIVE = (contracts.JobState.LEASED.value, contracts.JobState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as a list shows it, with its latest attempt."""

    id: str
    replicate: int
    replicates: int
    """It is replicate 1, 2, ... of so many."""
    case: contracts.Case
    """As asked for, with the preset that was measured once a result counts."""
    revision: str
    state: str
    reason: str
    attempt: int
    created_at: datetime
    finished_at: datetime | None
    worker: str | None
    started_at: datetime | None
    progress: contracts.Progress | None
    result_id: str | None
    project: str
    """Empty: it belongs to none."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one run as its series holds it."""

    series_id: str
    metric: str
    unit: str
    direction: contracts.Direction
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
        models.Job.id,
        models.Job.replicate,
        models.Job.project,
        models.Job.spec,
        models.Job.revision,
        models.Job.state,
        models.Job.reason,
        models.Job.attempt,
        models.Job.created_at,
        models.Job.finished_at,
        models.Attempt.worker,
        models.Attempt.started_at,
        models.Attempt.progress,
        models.ResultRow.id.label("result_id"),
        models.ResultRow.case_key.label("measured"),
    )
    .select_from(models.Job)
    .outerjoin(
        models.Attempt,
        (models.Attempt.job_id == models.Job.id) & (models.Attempt.number == models.Job.attempt),
    )
    .outerjoin(
        models.ResultRow, (models.ResultRow.job_id == models.Job.id) & models.ResultRow.counted
    )
)


def _job_line(row: Row[tuple[object, ...]]) -> JobLine:
    fields = dict(row._mapping)
    spec = fields.pop("spec")
    case = contracts.Case.model_validate(spec["case"])
    if measured := fields.pop("measured"):
        case = case.model_copy(update={"preset": contracts.workload_of(measured)[1]})
    progress = fields.pop("progress")
    replicates = spec["protocol"]["replicates"]
    return JobLine(case=case, replicates=replicates, progress=_progress(progress), **fields)


def _progress(stored: object) -> contracts.Progress | None:
    try:
        return contracts.Progress.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: a page shows the rest
        return None


def active_jobs(session: Session, limit: int = 20) -> list[JobLine]:
    """Read the oldest of the jobs that a worker holds now; `running` counts all of them."""
    query = _JOB_LINE.where(models.Job.state.in_(ACTIVE)).order_by(models.Job.id).limit(limit)
    return [_job_line(row) for row in session.execute(query)]


def jobs(
    session: Session, *, state: str | None, before: str | None, limit: int
) -> tuple[list[JobLine], str | None]:
    """Read one page of jobs, newest first, and the id that the next page begins below."""
    query = _JOB_LINE.order_by(models.Job.id.desc()).limit(limit + 1)
    if state:
        query = query.where(models.Job.state == state)
    if before:
        query = query.where(models.Job.id < before)
    lines = [_job_line(row) for row in session.execute(query)]
    more = len(lines) > limit
    return lines[:limit], lines[limit - 1].id if more else None


def job(session: Session, job_id: str) -> tuple[models.Job, JobLine] | None:
    """Read one job, or None if there is none."""
    row = session.execute(_JOB_LINE.where(models.Job.id == job_id)).one_or_none()
    entity = session.get(models.Job, job_id)
    return None if row is None or entity is None else (entity, _job_line(row))


def of_case(session: Session, job_id: str) -> list[JobLine]:
    """Read the replicates of a job's case, itself among them."""
    group = select(models.Job.group_id).where(models.Job.id == job_id).scalar_subquery()
    query = _JOB_LINE.where(models.Job.group_id == group).order_by(models.Job.replicate)
    return [_job_line(row) for row in session.execute(query)]


def attempts(session: Session, job_id: str) -> Sequence[models.Attempt]:
    """Read a job's attempts in their order."""
    query = (
        select(models.Attempt)
        .where(models.Attempt.job_id == job_id)
        .order_by(models.Attempt.number)
    )
    return session.scalars(query).all()


def results_of_job(session: Session, job_id: str) -> Sequence[models.ResultRow]:
    """Read what was posted for a job, counted or late, without the documents."""
    query = (
        select(models.ResultRow)
        .where(models.ResultRow.job_id == job_id)
        .order_by(models.ResultRow.received_at)
    )
    return session.scalars(query).all()


def jobs_by_state(session: Session) -> dict[str, int]:
    """Count the jobs in each state that has any."""
    rows = session.execute(select(models.Job.state, func.count()).group_by(models.Job.state))
    return {key: value for key, value in rows}  # noqa: C416 - dict() cannot type rows


def running(counts: Mapping[str, int]) -> int:
    """Of jobs by state: how many a worker holds now."""
    return sum(counts.get(state, 0) for state in ACTIVE)


def jobs_failed_since(session: Session, since: datetime) -> int:
    """Count the jobs that have failed from this moment on."""
    failed = (models.Job.state == contracts.JobState.FAILED, models.Job.finished_at >= since)
    return session.scalar(select(func.count()).where(*failed)) or 0


def jobs_before(session: Session, job: models.Job) -> int:
    """Count the queued jobs ahead of ``job`` that its worker may have to do first.

    These are the jobs whose labels one worker could have beside those of ``job``.
    """
    required = session.get_one(models.LabelSet, job.requires).labels
    ahead = tuple_(models.Job.rank, models.Job.id) < tuple_(job.rank, job.id)
    waiting = (
        select(models.Job.requires, func.count().label("jobs"))
        .where(models.Job.state == contracts.JobState.QUEUED, ahead)
        .group_by(models.Job.requires)
        .subquery()
    )
    sets = select(models.LabelSet.labels, waiting.c.jobs).join(
        waiting, waiting.c.requires == models.LabelSet.digest
    )
    return sum(
        jobs
        for labels, jobs in session.execute(sets)
        if all(required.get(name, value) == value for name, value in labels.items())
    )


def workers(session: Session, gone_before: datetime) -> list[WorkerLine]:
    """Read every worker, the most recently seen first, with the job that it holds."""
    holding = (
        select(models.Attempt.worker, models.Job.id)
        .join(
            models.Job,
            (models.Job.id == models.Attempt.job_id)
            & (models.Job.attempt == models.Attempt.number),
        )
        .where(models.Job.state.in_(ACTIVE))
    )
    doing = {name: job_id for name, job_id in session.execute(holding)}  # noqa: C416 - as above
    rows = session.scalars(select(models.WorkerRow).order_by(models.WorkerRow.last_seen_at.desc()))
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


def schedules(session: Session) -> list[tuple[models.Schedule, models.ScheduleRun | None]]:
    """Read every schedule by name, with the slot that fired last."""
    pairs = []
    for schedule in session.scalars(select(models.Schedule).order_by(models.Schedule.name)):
        query = select(models.ScheduleRun).where(models.ScheduleRun.schedule == schedule.name)
        last = session.scalars(query.order_by(models.ScheduleRun.due_at.desc()).limit(1)).first()
        pairs.append((schedule, last))
    return pairs


def revisions(session: Session, limit: int = 200) -> Sequence[models.Revision]:
    """Read the newest revisions of the history, newest first."""
    query = (
        select(models.Revision)
        .where(IN_HISTORY)
        .order_by(models.Revision.ordered_at.desc(), models.Revision.name)
        .limit(limit)
    )
    return session.scalars(query).all()


def metrics(session: Session) -> list[str]:
    """Name the metrics that have a series, as people think of them, and no more than fit a page."""
    known = session.scalars(select(models.SeriesRow.metric).distinct())
    return sorted(known, key=reading_order)[:MOST_METRICS]


def siblings(session: Session, series: Series) -> list[Sibling]:
    """Read the oldest series of the same case on the same hardware, a page's worth of them.

    The first metrics of a case are those that the benchmarks report of every case.
    """
    query = (
        select(
            models.SeriesRow.id,
            models.SeriesRow.metric,
            models.SeriesRow.unit,
            models.SeriesRow.comparability,
        )
        .where(
            models.SeriesRow.project == series.project, models.SeriesRow.case_key == series.case.key
        )
        .order_by(models.SeriesRow.created_at, models.SeriesRow.id)
    )
    alike = [
        Sibling(series_id, metric, unit)
        for series_id, metric, unit, comparability in session.execute(query)
        if comparability == series.comparability
    ]
    return [one for at, one in enumerate(alike) if at < MOST_METRICS or one.id == series.id]


def facts(session: Session, digests: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read environments by digest; a page asks for few."""
    query = select(models.EnvironmentRow.digest, models.EnvironmentRow.facts)
    rows = session.execute(query.where(models.EnvironmentRow.digest.in_(sorted(set(digests)))))
    return {key: value for key, value in rows}  # noqa: C416 - dict() cannot type rows


def metric_values(session: Session, result_id: str) -> list[MetricValue]:
    """Read what a run put into series; empty for a run that does not count."""
    query = (
        select(
            models.SeriesRow.id,
            models.SeriesRow.metric,
            models.SeriesRow.unit,
            models.SeriesRow.direction,
            models.Point.value,
            models.Point.low,
            models.Point.high,
            models.Point.interval,
        )
        .join(models.Point, models.Point.series_id == models.SeriesRow.id)
        .where(models.Point.result_id == result_id)
        .order_by(models.SeriesRow.metric)
    )
    return [
        MetricValue(
            series_id, metric, unit, contracts.Direction(direction), value, low, high, interval
        )
        for series_id, metric, unit, direction, value, low, high, interval in session.execute(query)
    ]


def verdicts(session: Session, result_ids: Iterable[str]) -> dict[str, contracts.Verdict]:
    """Read what limits each of these runs, where that is known."""
    ids, by_id = sorted(set(result_ids)), {}
    query = select(models.ResultRow.id, models.ResultRow.verdict)
    for start in range(0, len(ids), 500):  # stays below what a database takes in one statement
        some = ids[start : start + 500]
        for result_id, stored in session.execute(query.where(models.ResultRow.id.in_(some))):
            if verdict := _verdict(stored):
                by_id[result_id] = verdict
    return by_id


def _verdict(stored: object) -> contracts.Verdict | None:
    try:
        return contracts.Verdict.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: the page shows the rest
        return None
