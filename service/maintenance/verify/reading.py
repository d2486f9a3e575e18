"""Reads what is to be checked, a few rows at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from sqlalchemy import Column, Row, Select, Table, literal, select, tuple_
from sqlalchemy.orm import Session

from service.maintenance.verify.values import Event, JobFacts
from service.models import Attempt, Job, JobEvent, ResultRow, Submission

BATCH = 200
_FRESH = {"populate_existing": True}


def every_job(session: Session) -> Iterator[JobFacts]:
    """Every job with all that belongs to it, the oldest first."""
    query = select(Job.id, Job, Submission).execution_options(**_FRESH)
    query = query.outerjoin(Submission, Submission.id == Job.submission_id)
    for jobs in pages(session, query, (cast(Table, Job.__table__).c.id,)):
        yield from _with_belongings(session, jobs)


def pages(
    session: Session,
    query: Select[*tuple[Any, ...]],
    key: Sequence[Column[Any]],
    size: int | None = None,
) -> Iterator[Sequence[Row[*tuple[Any, ...]]]]:
    """The rows of ``query``, `BATCH` or ``size`` at a time, in the order of their primary key.

    ``key`` are columns that ``query`` gives under their own names.
    """
    ordered = after = query.order_by(*key).limit(size or BATCH)
    while rows := session.execute(after).all():
        yield rows
        last = (literal(rows[-1]._mapping[column.name], column.type) for column in key)
        after = ordered.where(tuple_(*key) > tuple_(*last))


def history_of(session: Session, job_id: str) -> list[Event]:
    """The log of one job."""
    return _events(session, [job_id]).get(job_id, [])


def _with_belongings(session: Session, jobs: Sequence[Any]) -> Iterator[JobFacts]:
    ids = [job.id for job in jobs]
    attempts, results = defaultdict(list), defaultdict(list)
    of_jobs = select(Attempt).where(Attempt.job_id.in_(ids)).order_by(Attempt.number)
    for attempt in session.scalars(of_jobs, execution_options=_FRESH):
        attempts[attempt.job_id].append(attempt)
    posted = select(ResultRow).where(ResultRow.job_id.in_(ids)).order_by(ResultRow.id)
    for result in session.scalars(posted, execution_options=_FRESH):
        results[result.job_id].append(result)
    events = _events(session, ids)
    for name, row, submission in jobs:
        yield JobFacts(row, submission, attempts[name], results[name], events.get(name, ()))


def _events(session: Session, ids: Sequence[str]) -> dict[str, list[Event]]:
    columns = select(
        JobEvent.job_id,
        JobEvent.attempt,
        JobEvent.from_state,
        JobEvent.to_state,
        JobEvent.at,
        JobEvent.worker,
        JobEvent.reason,
    )
    query = columns.where(JobEvent.job_id.in_(ids)).order_by(JobEvent.job_id, JobEvent.id)
    by_job = groupby(session.execute(query), lambda row: row.job_id)
    return {job: [Event(*row[1:]) for row in rows] for job, rows in by_job}
