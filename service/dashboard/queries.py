"""Reads that only pages need. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError
from sqlalchemy import ColumnElement, and_, case, func, or_, select, true, tuple_
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog.metrics import reading_order
from service import models
from service.database.paging import batched
from service.database.session import pairs
from service.history import queries
from service.history.revisions import COMPARISON, IN_HISTORY
from service.jobs import views
from service.jobs.backfill import SOURCE as BACKFILL
from service.schemas.jobs import JobView
from service.schemas.series import Series

MOST_METRICS = 200
"""Names that a page offers: a result has so many metrics at most, of which the catalog knows 20."""
DAY = timedelta(hours=24)
ACTIVE = (contracts.JobState.LEASED.value, contracts.JobState.RUNNING.value)
_IS_QUEUED = models.Job.state == contracts.JobState.QUEUED
_FOR_ANY = models.Job.kept_for.is_(None)


def active_jobs(session: Session, limit: int = 20) -> list[JobView]:
    """Read the oldest of the jobs that a worker holds now; `running` counts all of them."""
    query = select(models.Job).where(models.Job.state.in_(ACTIVE)).order_by(models.Job.id)
    return as_measured(session, views.views(session, session.scalars(query.limit(limit)).all()))


def of_case(session: Session, job_id: str) -> list[JobView]:
    """Read the replicates of a job's case, itself among them."""
    group = select(models.Job.group_id).where(models.Job.id == job_id).scalar_subquery()
    query = select(models.Job).where(models.Job.group_id == group).order_by(models.Job.replicate)
    return as_measured(session, views.views(session, session.scalars(query).all()))


def as_measured(session: Session, jobs: Sequence[JobView]) -> list[JobView]:
    """Name in each job's case the preset that was measured, once a result counts."""
    counted = models.ResultRow.id.in_([job.result_id for job in jobs if job.result_id])
    rows = session.execute(select(models.ResultRow.id, models.ResultRow.case_key).where(counted))
    presets = {result_id: contracts.workload_of(key)[1] for result_id, key in rows}
    cases = [
        job.case.model_copy(update={"preset": presets.get(job.result_id or "", job.case.preset)})
        for job in jobs
    ]
    return [job.model_copy(update={"case": case}) for job, case in zip(jobs, cases, strict=True)]


def results_of_job(session: Session, job_id: str) -> Sequence[models.ResultRow]:
    """Read what was posted for a job, counted or late, without the documents."""
    query = (
        select(models.ResultRow)
        .where(models.ResultRow.job_id == job_id)
        .order_by(models.ResultRow.received_at)
    )
    return session.scalars(query).all()


def jobs_by_state(session: Session) -> dict[str, int]:
    """Count the jobs in each state that is not final; of the others there are ever more."""
    live = [state for state in contracts.JobState if state not in contracts.FINAL_STATES]
    count = select(models.Job.state, func.count()).where(models.Job.state.in_(live))
    return pairs(session, count.group_by(models.Job.state))


def count_points(session: Session, series_id: str) -> int:
    """Count the points of a series."""
    query = select(func.count()).where(models.Point.series_id == series_id)
    return session.scalars(query).one()


@dataclass(frozen=True, slots=True)
class DayCoverage:
    """How much of what was submitted for the history in a day was measured."""

    measured: int
    """Cases, each once for the labels of its worker."""
    cases: int
    waiting: int
    """Of those not measured, how many may still be."""
    newest: datetime
    """When the last of it was submitted."""

    @property
    def lacking(self) -> int:
        """How many will not be measured any more."""
        return self.cases - self.measured - self.waiting


def coverage(session: Session) -> DayCoverage | None:
    """Count what was measured of the newest submission and the day before it.

    Comparisons and what is measured afterwards at old revisions do not count; None if nothing does.
    """
    made, job = models.Submission, models.Job
    nightly = ~or_(*(made.source.startswith(kind) for kind in (COMPARISON, BACKFILL)))
    query = select(made.created_at).where(nightly).order_by(made.created_at.desc()).limit(1)
    newest = session.scalar(query)
    if newest is None:
        return None
    measured = func.max(case((job.state == contracts.JobState.SUCCEEDED, 1), else_=0))
    waits = func.max(case((job.state.in_((contracts.JobState.QUEUED, *ACTIVE)), 1), else_=0))
    of_a_day = select(made.id).where(made.created_at >= newest - DAY, nightly)
    each = (
        select(measured.label("measured"), waits.label("waits"))
        .where(job.submission_id.in_(of_a_day))
        .group_by(job.project, job.case_key, job.requires)
        .subquery()
    )
    left = func.sum(each.c.waits * (1 - each.c.measured))
    done, total, waiting = session.execute(
        select(func.sum(each.c.measured), func.count(), left).select_from(each)
    ).one()
    return DayCoverage(int(done or 0), total, int(waiting or 0), newest)


def running(counts: Mapping[str, int]) -> int:
    """Of jobs by state: how many a worker holds now."""
    return sum(counts.get(state, 0) for state in ACTIVE)


def busy(counts: Mapping[str, int]) -> bool:
    """Of jobs by state: whether any runs or waits, so that pages have something to refresh for."""
    return bool(running(counts) or counts.get(contracts.JobState.QUEUED, 0))


def jobs_failed_since(session: Session, since: datetime) -> int:
    """Count the jobs that have failed from this moment on."""
    failed = (models.Job.state == contracts.JobState.FAILED, models.Job.finished_at >= since)
    return session.scalar(select(func.count()).where(*failed)) or 0


def jobs_before(session: Session, job: models.Job) -> int:
    """Count the queued jobs ahead of ``job`` whose labels one worker could have beside its own."""
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


def doing(session: Session) -> dict[str, tuple[str, contracts.Progress | None]]:
    """Read the job that each worker holds, and how far it is, by the worker's name."""
    latest = (models.Job.id == models.Attempt.job_id, models.Job.attempt == models.Attempt.number)
    held = models.Attempt.worker, models.Job.id, models.Attempt.progress
    query = select(*held).join(models.Job, and_(*latest)).where(models.Job.state.in_(ACTIVE))
    return {
        name: (job_id, said and contracts.Progress.model_validate(said))
        for name, job_id, said in session.execute(query)
    }


def could_take(worker: str) -> tuple[ColumnElement[bool], ...]:
    """Conditions on queued jobs that a worker's labels meet, without those kept for another."""
    pair = models.Eligibility
    own = select(pair.requires).where(pair.worker == worker)
    return (_IS_QUEUED, models.Job.requires.in_(own), _FOR_ANY | (models.Job.kept_for == worker))


def queued_for(session: Session) -> dict[str, int]:
    """Count the queued jobs that each worker could take, by the worker's name."""
    job, pair = models.Job, models.Eligibility
    kept = job.requires, job.kept_for
    sets = select(*kept, func.count().label("jobs")).where(_IS_QUEUED).group_by(*kept).subquery()
    query = (
        select(pair.worker, func.sum(sets.c.jobs))
        .join(sets, sets.c.requires == pair.requires)
        .where(sets.c.kept_for.is_(None) | (sets.c.kept_for == pair.worker))
        .group_by(pair.worker)
    )
    return {worker: int(jobs) for worker, jobs in session.execute(query)}


def last_slots(session: Session) -> dict[str, datetime]:
    """Read when the slot of each schedule that fired last was due, by the schedule's name."""
    run = models.ScheduleRun
    return pairs(session, select(run.schedule, func.max(run.due_at)).group_by(run.schedule))


def revisions(session: Session, limit: int = 200, text: str = "") -> Sequence[models.Revision]:
    """Read the newest revisions of the history, newest first: those that a ``text`` is part of."""
    row = models.Revision
    known = [column.contains(text, autoescape=True) for column in (row.name, row.title, row.author)]
    query = (
        select(row)
        .where(IN_HISTORY, or_(*known) if text else true())
        .order_by(models.Revision.ordered_at.desc(), models.Revision.name)
        .limit(limit)
    )
    return session.scalars(query).all()


def metrics(session: Session) -> list[str]:
    """Name the metrics that have a series, as people think of them, and no more than fit a page."""
    known = session.scalars(select(models.SeriesRow.metric).distinct())
    return sorted(known, key=reading_order)[:MOST_METRICS]


def worker_names(session: Session) -> Sequence[str]:
    """Name the workers, those that were seen last first, and no more than fit a page."""
    row = models.WorkerRow
    return session.scalars(select(row.name).order_by(row.last_seen_at.desc()).limit(200)).all()


def siblings(session: Session, series: Series) -> list[models.SeriesRow]:
    """Read the oldest series of the same case on the same hardware, in the order of reading.

    No more than fit a page. The first metrics of a case are those that the benchmarks report of
    every case.
    """
    row = models.SeriesRow
    query = select(row).where(row.project == series.project, row.case_key == series.case.key)
    rows = session.scalars(query.order_by(row.created_at, row.id))
    alike = [one for one in rows if one.comparability == series.comparability]
    kept = [one for at, one in enumerate(alike) if at < MOST_METRICS or one.id == series.id]
    return sorted(kept, key=lambda one: reading_order(one.metric))


def points_of(session: Session, result_id: str) -> dict[str, models.Point]:
    """Read a run's points by metric; empty for a run that does not count."""
    query = select(models.SeriesRow.metric, models.Point).join(
        models.SeriesRow, models.SeriesRow.id == models.Point.series_id
    )
    return pairs(session, query.where(models.Point.result_id == result_id))


def series_of_case(
    session: Session, case_key: str, project: str, comparability: Mapping[str, str]
) -> str | None:
    """Find the throughput of a case on such hardware: of a run that failed, where it belongs."""
    of = models.SeriesRow
    query = select(of.id, of.comparability).where(
        of.case_key == case_key, of.metric == "throughput", of.project == project
    )
    return next((key for key, known in session.execute(query) if known == comparability), None)


def values_of(session: Session, name: str, result_ids: Sequence[str]) -> dict[str, float]:
    """Values of one metric by the ids of their results; those above zero."""
    of = models.Point
    query = select(of.result_id, of.value).join(
        models.SeriesRow, models.SeriesRow.id == of.series_id
    )
    values: dict[str, float] = {}
    for some in batched(result_ids):
        chosen = query.where(of.result_id.in_(some), models.SeriesRow.metric == name, of.value > 0)
        values |= {key: float(value) for key, value in session.execute(chosen)}
    return values


def point_before(session: Session, point: models.Point) -> models.Point | None:
    """Find what counts of the newest revision that the worker of a point measured before it.

    It is looked for backwards in the order of the history, and so found soon where there is one;
    nothing was measured before its revision was made.
    """
    of = models.Point
    return session.scalars(
        select(of)
        .where(
            of.series_id == point.series_id,
            of.worker == point.worker,
            of.revision_at <= max(point.revision_at, point.measured_at),
            of.measured_at < point.measured_at,
            *queries.COUNTED,
        )
        .order_by(*queries.NEWEST_FIRST)
        .limit(1)
    ).first()


def verdicts(session: Session, result_ids: Iterable[str]) -> dict[str, contracts.Verdict]:
    """Read what limits each of these runs, where that is known."""
    ids, by_id = sorted(set(result_ids)), {}
    query = select(models.ResultRow.id, models.ResultRow.verdict)
    for some in batched(ids):
        for result_id, stored in session.execute(query.where(models.ResultRow.id.in_(some))):
            if verdict := _verdict(stored):
                by_id[result_id] = verdict
    return by_id


def _verdict(stored: object) -> contracts.Verdict | None:
    try:
        return contracts.Verdict.model_validate(stored) if stored else None
    except ValidationError:  # written by another version: the page shows the rest
        return None
